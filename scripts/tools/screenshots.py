"""Make the pictures of a report that the docs show, in headless Chromium.

    python scripts/tools/screenshots.py report.html docs/report

Playwright drives the browser that CHROMIUM names (default: /usr/bin/chromium). The report of
the pictures in the docs is of Reuters-21578 with dates and labels:

    topics ingest docs.jsonl.gz --meta title,date,labels=labels
    topics train -K 30 --aim reading
    topics report --text --title Reuters
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NamedTuple

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]


class Picture(NamedTuple):
    """A picture: its file, the size of the window, the colours, and where in the page it is."""

    name: str
    width: int
    height: int
    dark: bool
    anchor: str


PICTURES = (
    Picture("desktop-topics.png", 1360, 1180, False, ""),
    Picture("desktop-map.png", 1280, 800, False, "#map"),
    Picture("desktop-heat-dark.png", 1360, 860, True, "#heat"),
    Picture("phone-topics.png", 390, 1000, False, ""),
    Picture("phone-map-dark.png", 390, 800, True, "#map"),
    Picture("phone-topic-dark.png", 390, 1400, True, "first topic"),
)


def shrink(path: Path) -> None:
    """Write a picture with a palette, a third of the size."""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(128)
    small.save(path, optimize=True)


def take_pictures(report: Path, folder: Path) -> list[Path]:
    """Take all pictures of a report, and fail at the first message on the browser's console."""
    from playwright.sync_api import sync_playwright

    made = []
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for picture in PICTURES:
            page = browser.new_page(
                viewport={"width": picture.width, "height": picture.height},
                color_scheme="dark" if picture.dark else "light",
            )
            page.on("console", lambda message: wrong.append(message.text))
            page.on("pageerror", lambda error: wrong.append(str(error)))
            is_topic = picture.anchor == "first topic"
            page.goto(report.resolve().as_uri() + ("" if is_topic else picture.anchor))
            page.wait_for_selector("html[data-ready]")
            if is_topic:
                page.locator(".topics tbody tr a").first.click()
            path = folder / picture.name
            page.screenshot(path=path)
            shrink(path)
            made.append(path)
            page.close()
        browser.close()
    if wrong:
        raise SystemExit("\n".join(["the page wrote on the console:", *wrong]))
    return made


def main() -> None:
    """Read the arguments and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path, help="an HTML file of `topics report`")
    parser.add_argument("folder", type=Path, help="where the pictures go; replaced where they are")
    arguments = parser.parse_args()
    if not arguments.report.is_file():
        sys.exit(f"{arguments.report}: no such file; make one with `topics report`")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for path in take_pictures(arguments.report, arguments.folder):
        print(path)


if __name__ == "__main__":
    main()
