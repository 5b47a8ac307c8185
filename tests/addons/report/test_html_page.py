"""The page of a report in a browser: search, sliders, map, keyboard, phone; hostile text stays
text.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.report_store import HOSTILE, THEMES, data_of, unpack
from topicstream.addons.report.page import report
from topicstream.model.topic_model import TopicModel

# tests of what the core and an add-on do together
IntrusionView = pytest.importorskip("topicstream.addons.views.intrusion").IntrusionView

pytestmark = pytest.mark.slow


def test_page_search_sort_slider_map_and_anchor(written, visit, expect):
    path, _, values, _ = written
    tab = visit(path)
    expect(tab).to_have_title("<b>A & B</b>")
    expect(tab.locator("h1")).to_have_text("<b>A & B</b>")
    rows = tab.locator(".topics tbody tr")
    first = tab.locator(".topics tbody tr td:first-child")
    expect(rows).to_have_count(5)
    tab.fill("#search", "harbour")
    expect(tab.locator(".topics tbody tr:visible")).to_have_count(1)
    expect(tab.locator(".topics tbody tr:visible td").first).to_have_text("1")
    tab.fill("#search", "")
    tab.get_by_role("button", name="#", exact=True).click()
    expect(first).to_have_text(["0", "1", "2", "3", "4"])
    tab.get_by_role("button", name="#", exact=True).click()
    expect(first).to_have_text(["4", "3", "2", "1", "0"])
    rows.nth(3).click()
    expect(tab).to_have_url(re.compile("#topic-1$"))
    expect(tab.locator("#topic h2")).to_have_text(re.compile("^1 "))
    words = tab.locator(".words td:first-child")
    expect(words).to_have_count(20)
    tab.locator("#lambda").fill("0")
    expect(tab.locator("output").first).to_have_text("λ = 0.0")
    expect(words).to_have_count(20)
    assert set(words.all_inner_texts()[:6]) <= set(THEMES[1].split())
    tab.get_by_role("tab", name="Map", exact=True).click()
    tab.locator("circle[data-topic='2']").click()
    expect(tab).to_have_url(re.compile("#topic-2$"))
    expect(tab.locator("#topic h2")).to_have_text(re.compile("^2 "))
    tab.get_by_role("tab", name="Heat map").click()
    expect(tab.locator(".heat canvas")).to_be_visible()
    tab.get_by_role("tab", name="Time and groups").click()
    expect(tab.locator("#view-time tr").first).to_contain_text("ships")
    tab.get_by_role("tab", name="Model", exact=True).click()
    expect(tab.locator("#view-model")).to_contain_text("planted")
    tab.go_back()
    expect(tab.locator("#view-time")).to_be_visible()
    assert values["heldout"]["perplexity"] > 1
    expect(visit(path, "#topic-3").locator("#topic h2")).to_have_text(re.compile("^3 "))
    expect(visit(path, "#topic-4").locator("#topic .note")).to_have_text(
        re.compile("^This topic is empty")
    )


def test_page_by_keyboard_and_on_a_phone(written, visit, expect):
    path = written[0]
    tab = visit(path)
    tab.keyboard.press("/")
    expect(tab.locator("#search")).to_be_focused()
    tab.keyboard.press("Escape")
    expect(tab.locator("#search")).not_to_be_focused()
    tab.keyboard.press("j")
    expect(tab).to_have_url(re.compile("#topic-"))
    phone = visit(path, "", 390)
    narrow = "document.documentElement.scrollWidth <= innerWidth"
    for view in ("topics", "map", "heat", "time", "model"):
        phone.evaluate(f"location.hash = '{view}'")
        phone.wait_for_selector(f"#view-{view}", state="visible")
        phone.wait_for_function(narrow)
        if view == "map":  # its labels can be read
            phone.wait_for_function(
                "document.querySelector('#view-map text').getBoundingClientRect().height > 9"
            )
    phone.evaluate("location.hash = 'topic-1'")
    expect(phone.locator("#topic h2")).to_have_text(re.compile("^1 "))
    phone.wait_for_function(narrow)
    phone.emulate_media(media="print")
    expect(phone.locator("#tabs")).not_to_be_visible()


ACCESSIBLE = """() => {
  const wrong = [], said = e => (e.getAttribute("aria-label") || [...(e.labels || [])].map(l => \
l.textContent).join("") || e.textContent || "").trim();
  for (const e of document.querySelectorAll("a, button, input, select, [role=tab], [role=img]")) \
if (!said(e)) wrong.push("no name: " + e.outerHTML.slice(0, 90));
  for (const e of document.querySelectorAll("svg, canvas")) if (!e.hasAttribute("aria-hidden") && \
!e.closest("[role=img], [aria-label]")) wrong.push("a picture without words: " + \
e.outerHTML.slice(0, 90));
  for (const name of ["aria-controls", "aria-labelledby", "for"]) for (const e of \
document.querySelectorAll(`[${name}]`)) if (!document.getElementById(e.getAttribute(name))) \
wrong.push(`${name} of nothing`);
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  if (new Set(ids).size < ids.length) wrong.push("an id twice");
  if (!document.documentElement.lang || document.querySelectorAll("main").length !== 1 || \
document.querySelectorAll("h1").length !== 1) wrong.push("language, main, h1");
  const rgb = t => t.match(/[0-9.]+/g).map(Number), light = c => c.slice(0, 3).map(v => v / \
255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v \
* [0.2126, 0.7152, 0.0722][i], 0);
  for (const e of document.querySelectorAll("p, td, th, button, a, h1, h2, h3, span, bdi, label, \
legend")) {
    if (!e.checkVisibility() || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) \
continue;
    let under = e;
    while (under && (rgb(getComputedStyle(under).backgroundColor)[3] ?? 1) === 0) under = \
under.parentElement;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), under ? \
light(rgb(getComputedStyle(under).backgroundColor)) : 1].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) wrong.push(`contrast ${((a + 0.05) / (b + \
0.05)).toFixed(2)}: ${e.outerHTML.slice(0, 90)}`);
  }
  return wrong;
}"""


@pytest.mark.parametrize("dark", [False, True])
def test_everything_has_a_name_and_can_be_read(written, visit, dark):
    tab = visit(written[0])
    tab.emulate_media(color_scheme="dark" if dark else "light")
    tab.evaluate(
        "dark => { document.documentElement.dataset.theme = dark ? 'dark' : 'light'; }", dark
    )
    for anchor in ("topics", "map", "heat", "time", "model", "topic-1"):
        tab.evaluate(f"location.hash = '{anchor}'")
        tab.wait_for_selector(
            "body.reading" if anchor == "topic-1" else f"#view-{anchor}", state="visible"
        )
        assert tab.evaluate(ACCESSIBLE) == [], anchor


@pytest.mark.parametrize("kind", ["words", "topics"])
def test_a_sheet_of_intruders_is_filled_in_and_saved(
    stored, visit, expect, tmp_path, kind, monkeypatch
):
    folder, corpus, _ = stored
    monkeypatch.setattr("topicstream.addons.views.intrusion.QUESTIONS", 6)
    monkeypatch.setattr("topicstream.addons.views.intrusion.TOPICS", 2)
    sheet = IntrusionView(
        folder / "model", corpus, intrusion=kind, out=str(tmp_path / "sheet.html"), progress=False
    )
    sheet.result()
    table = sheet.table
    tab = visit(tmp_path / "sheet.html")
    assert tab.evaluate(ACCESSIBLE) == [] and tab.locator("fieldset").count() == len(table)
    assert tab.evaluate("document.querySelectorAll('img').length") == 0
    first = table.to_pylist()[0]
    tab.get_by_label(first["intruder"], exact=True).first.check()
    expect(tab.locator("#said")).to_have_text(f"1 of {len(table)} answered")
    with tab.expect_download() as saving:
        tab.locator("#save").click()
    lines = Path(saving.value.path()).read_text().splitlines()
    assert (
        lines[:3] == ["question,answer", f"1,{first['place']}", "2,"]
        and len(lines) == len(table) + 1
    )


def test_hostile_words_titles_and_labels_stay_text(written, visit, tmp_path):
    path = written[0]
    tab = visit(path, "#topic-1")
    titles = tab.locator(".doc b").all_inner_texts()
    assert any("number" in t for t in titles)
    assert tab.evaluate("document.querySelectorAll('img, iframe, object, .doc script').length") == 0
    words = [*HOSTILE, *[f"w{i}" for i in range(20)]]
    model = TopicModel.from_arrays(np.eye(25)[:, :6] * 50 + 1, words, 0.1, 0.01)
    report(model, None, out=tmp_path / "h.html", title=HOSTILE[0])
    hostile = visit(tmp_path / "h.html")
    assert hostile.title().startswith(HOSTILE[0])
    shown = hostile.locator(".topics .w").all_inner_texts()
    assert any(HOSTILE[1] in s for s in shown) and any(HOSTILE[0] in s for s in shown)
    assert hostile.evaluate("document.querySelectorAll('img').length") == 0
    for anchor in ("#topic-999999999999", "#<img src=x>", "#__proto__"):
        assert visit(tmp_path / "h.html", anchor).locator(".topics tbody tr").count() == 6


@pytest.mark.parametrize("topics", [1, 2, 2000, pytest.param(2100, marks=pytest.mark.campaign)])
def test_page_with_few_and_many_topics(topics, visit, tmp_path):
    rng = np.random.default_rng(topics)
    table = rng.gamma(0.1, 10, (300, topics))
    table[:, topics // 2] = 0 if topics > 1 else table[:, 0]
    model = TopicModel.from_arrays(table, [f"w{i}" for i in range(300)], 0.1, 0.01)
    report(model, None, out=tmp_path / "r.html")
    tab = visit(tmp_path / "r.html")
    tab.wait_for_function(f"document.querySelectorAll('.topics tbody tr').length === {topics}")
    for view in ("map", "heat", "model"):
        tab.evaluate(f"location.hash = '{view}'")
        tab.wait_for_selector(f"#view-{view}", state="visible")
    tab.evaluate(f"location.hash = 'topic-{topics // 2}'")
    tab.wait_for_function(
        f"document.querySelector('#topic h2').textContent.startsWith('{topics // 2} ')"
    )


OVERLAPS = """selector => {
  const boxes = [...document.querySelectorAll(selector)].map(e => \
e.getBoundingClientRect()).filter(b => b.width), wrong = [];
  boxes.forEach((a, i) => boxes.slice(0, i).forEach(b => { if (a.left < b.right - 1 && b.left < \
a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2) wrong.push([a.x, a.y, b.x, b.y]); }));
  return wrong;
}"""


@pytest.mark.parametrize("width", [1400, 390])
def test_the_first_screen(written, visit, expect, width):
    """Before a topic is chosen: the map, topics by groups, lines of groups over time."""
    path, done, values, _ = written
    assert done["columns"] == ["labels", "party"], (
        "a title of its own for every document is no group"
    )
    tab = visit(path, "", width)
    overview = tab.locator("#topic")
    expect(overview.locator("h2")).to_have_text("Overview")
    assert (
        overview.locator(".map text").count() >= 3
        and tab.evaluate(OVERLAPS, "#topic .map text") == []
    )
    rows = overview.locator(".grid tbody tr")
    expect(rows).to_have_count(4)  # the fifth topic is dead
    expect(rows.first.locator("th")).to_have_text(
        values["names"][int(np.argmax(unpack(data_of(path.read_text()))[1]["tokens"]))]
    )
    expect(overview.locator(".grid thead th")).to_have_count(3)
    expect(overview.locator(".chart .curve")).to_have_count(2)
    for anchor in ("overview", "topic-1", "time"):
        tab.evaluate(f"location.hash = '{anchor}'")
        assert tab.evaluate(OVERLAPS, ".chart text") == [], anchor
    assert not re.search(
        r"-0(\.0*)?(?![\d.])", re.sub(r"\d{4}-\d\d(-\d\d)?", "", tab.locator("body").inner_text())
    )
    tab.evaluate("location.hash = 'topic-1'")
    expect(overview).to_contain_text("percentage points a year")
    expect(overview).to_contain_text("Share by labels over time")
    tab.locator("#topic .close").click()
    expect(overview.locator("h2")).to_have_text("Overview")


def test_the_map_zooms(written, visit, expect):
    tab = visit(written[0], "#map")
    dots = tab.locator("#view-map circle")
    expect(dots).to_have_count(5)
    before = dots.first.get_attribute("r")
    tab.get_by_role("button", name="Zoom in").click()
    expect(dots.first).not_to_have_attribute("r", before)
    tab.get_by_role("button", name="All", exact=True).first.click()
    expect(dots).to_have_count(5)
    expect(dots.first).to_have_attribute("r", before)
