"""Check reports for accessibility with axe-core, in headless Chromium.

    npm pack axe-core && tar xzf axe-core-*.tgz
    python scripts/tools/axe.py package/axe.min.js report.html [report.html ...]

Each view and the first topic are checked in both themes, on a desktop and on a phone. Nothing
found is exit code 0; otherwise each violation is one line. axe-core stays out of the repository
(its licence is MPL 2.0).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from screenshots import CHROMIUM, FLAGS

WIDTHS = (1360, 390)
THEMES = ("light", "dark")
ANCHORS = ("topics", "map", "heat", "time", "model", "topic")


def check_page(page: Any, axe: str) -> Iterator[str]:
    """Check every view of an open report: one line a violation."""
    page.evaluate(axe)
    first = page.locator(".topics tbody a").first.get_attribute("href")
    for anchor in ANCHORS:
        page.evaluate("hash => { location.hash = hash; }", first if anchor == "topic" else anchor)
        page.wait_for_timeout(100)
        found = page.evaluate("axe.run()")
        for violation in found["violations"]:
            places = ", ".join(node["html"][:80] for node in violation["nodes"][:3])
            yield f"{anchor}: {violation['id']}: {violation['help']}: {places}"


def check_report(browser: Any, report: Path, axe: str) -> list[str]:
    """Check a report in all themes and widths."""
    wrong = []
    for width, theme in itertools.product(WIDTHS, THEMES):
        size = {"width": width, "height": 900}
        # the policy of the page allows no script but its own
        context = browser.new_context(viewport=size, color_scheme=theme, bypass_csp=True)
        page = context.new_page()
        page.goto(report.resolve().as_uri())
        page.wait_for_selector("html[data-ready]")
        wrong += [f"{report}, {width} px, {theme}: {line}" for line in check_page(page, axe)]
        context.close()
    return wrong


def main() -> int:
    """Read the arguments and check the reports."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("axe", type=Path, help="axe.min.js of the npm package axe-core")
    parser.add_argument("reports", type=Path, nargs="+", help="HTML files of `topics report`")
    arguments = parser.parse_args()
    for path in (arguments.axe, *arguments.reports):
        if not path.is_file():
            parser.error(f"{path}: no such file")
    from playwright.sync_api import sync_playwright

    axe = arguments.axe.read_text(encoding="utf-8")
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for report in arguments.reports:
            wrong += check_report(browser, report, axe)
        browser.close()
    views = len(WIDTHS) * len(THEMES) * len(ANCHORS)
    print(*wrong, f"{len(wrong)} violations in {views} views a report", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
