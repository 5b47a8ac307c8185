"""A headless browser for the pages of reports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (pip install playwright)"
    )
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no {CHROMIUM} (apt-get install chromium; or name one in CHROMIUM)")
    api.expect.set_options(timeout=60_000)
    with api.sync_playwright() as p:
        opened = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def expect(browser):
    from playwright.sync_api import expect

    return expect


@pytest.fixture
def visit(browser):
    """Open a page; afterwards anything asked for but that file, and anything on the console, fails
    the test.

    What a test then asks of the page it asks through ``expect``, which waits: events reach the page
    when they reach it.
    """
    wrong: list[str] = []
    contexts = []

    def go(path: Path, anchor: str = "", width: int = 1300):
        context = browser.new_context(viewport={"width": width, "height": 800}, offline=True)
        context.set_default_timeout(120_000)
        contexts.append(context)
        tab = context.new_page()
        tab.on(
            "console",
            lambda m: (
                wrong.append(f"console: {m.text}") if m.type in ("error", "warning") else None
            ),
        )
        tab.on("pageerror", lambda e: wrong.append(f"error: {e}"))
        tab.on("dialog", lambda d: (wrong.append(f"dialog: {d.message}"), d.dismiss()))
        allowed = ("file://", "data:", "blob:")
        tab.on(
            "request",
            lambda r: wrong.append(f"request: {r.url}") if not r.url.startswith(allowed) else None,
        )
        tab.goto(path.as_uri() + anchor)
        tab.wait_for_selector("html[data-ready]")
        return tab

    yield go
    for context in contexts:
        context.close()
    assert not wrong
