"""First things that a reader of the page meets: search, narrow screens, heads, kinds of topics."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import topicstream
from topicstream.addons.report.page import report
from topicstream.model.topic_model import TopicModel

pytestmark = pytest.mark.slow

AUTHORS = (
    "August von Kotzebue",
    "Hugo von Hofmannsthal",
    "Christian Dietrich Grabbe",
    "Gellert, Christian Fürchtegott",
    "Friedrich Hebbel",
    "Tieck",
)
HEADS = (
    "A. von Kotzebue",
    "Hofmannsthal",
    "C. D. Grabbe",
    "Gellert",
    "F. Hebbel",
    "Tieck",
)
WORDS = ("ship sail harbour deck", "bread oven flour yeast", "comet orbit star lens")


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report of documents by authors with long names; topics 3 and 4 are no subjects."""
    folder = tmp_path_factory.mktemp("plays")
    rng = np.random.default_rng(3)
    documents = [
        {
            "id": f"d{i}",
            "title": f"The {'Long' * 12} Voyage number {i}",
            "author": AUTHORS[i % len(AUTHORS)],
            "date": str(1800 + i % 12),
            "text": " ".join(rng.choice((WORDS[i % 3] + f" rare{i}x").split(), 30)),
        }
        for i in range(240)
    ]
    raw = folder / "d.jsonl"
    raw.write_text("".join(json.dumps(d) + "\n" for d in documents))
    topicstream.ingest(
        raw, folder / "c.zarr", meta="title,author,date", min_df=1, heldout=0, progress=False
    )
    corpus = topicstream.Corpus.open(folder / "c.zarr")
    words = [str(word) for word in corpus.words]
    phi = np.full((len(words), 5), 0.01, np.float32)
    for k, theme in enumerate(WORDS):
        phi[[words.index(word) for word in theme.split()], k] = 400
    phi[:, 3] = 900 / len(words)
    phi[:, 4] = 0
    model = TopicModel.from_arrays(phi, words, 0.1, 0.01, tokenizer=corpus.manifest.tokenizer)
    report(model, folder / "c.zarr", out=folder / "r.html", text=True, progress=False)
    return folder / "r.html"


WIDER = """() => {
  const clipped = e => { for (let p = e.parentElement; p; p = p.parentElement) \
if (getComputedStyle(p).overflowX !== "visible") return true; return false; };
  const wrong = document.documentElement.scrollWidth > innerWidth ? ["the page"] : [];
  for (const e of document.querySelectorAll("body *")) {
    const box = e.getBoundingClientRect();
    if (box.width && !clipped(e) && (box.width > innerWidth || box.right > innerWidth + 1)) \
wrong.push(e.outerHTML.slice(0, 80));
  }
  return wrong;
}"""


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_wider_than_a_phone(plays, visit, expect, dark) -> None:
    tab = visit(plays, "", 390)
    tab.emulate_media(color_scheme="dark" if dark else "light")
    for name in ("Map", "Heat map", "Time and groups", "Model", "Topics"):
        tab.get_by_role("tab", name=name, exact=True).click()
        expect(tab.get_by_role("tab", name=name, exact=True)).to_have_attribute(
            "aria-selected", "true"
        )
        assert tab.evaluate(WIDER) == [], name
    tab.locator(".topics tbody tr a").first.click()
    expect(tab.locator("#topic .words")).to_be_visible()
    assert tab.evaluate(WIDER) == []


def test_a_phone_shows_topics_and_search_first(plays, visit, expect) -> None:
    tab = visit(plays, "", 390)
    top = "e => e.getBoundingClientRect().top"
    search = tab.locator("#search").evaluate(top)
    rows = tab.locator(".topics").evaluate(top)
    charts = tab.locator("#topic h2").evaluate(top)
    assert search < rows < charts
    assert search < 300
    expect(tab.locator("#topic .map")).to_have_count(1)


def test_search_finds_titles_and_passages(plays, visit, expect) -> None:
    tab = visit(plays)
    shown = tab.locator(".topics tbody tr:visible")
    found = tab.locator("#view-topics .doc")
    title = tab.locator("#topic .doc b")
    tab.locator(".topics tbody tr a").first.click()
    first = title.first.inner_text()
    number = re.search(r"\d+$", first)
    assert number is not None
    tab.fill("#search", f"voyage number {number[0]}")
    expect(found.locator("b").first).to_have_text(first)
    expect(found.first).to_contain_text("typical of")
    expect(shown.first).to_be_visible()
    tab.fill("#search", f"rare{number[0]}x")
    expect(found.first).to_contain_text(f"rare{number[0]}x")
    tab.fill("#search", "no such word")
    expect(shown).to_have_count(0)
    expect(found).to_have_count(0)
    tab.fill("#search", "")
    expect(shown).to_have_count(5)


def test_heads_keep_the_surname(plays, visit) -> None:
    tab = visit(plays)
    heads = tab.locator("#topic .grid thead th")
    by_name = dict(zip(AUTHORS, HEADS, strict=True))
    titles = [head.get_attribute("title") for head in heads.all()[1:]]
    assert sorted(titles) == sorted(AUTHORS)
    spans = tab.locator("#topic .grid thead th:not(:first-child) span")
    assert spans.all_inner_texts() == [by_name[title] for title in titles]
    assert spans.evaluate_all("list => list.every(e => e.scrollHeight <= e.clientHeight + 1)")


def test_topics_that_are_no_subjects_are_marked(plays, visit, expect) -> None:
    tab = visit(plays)
    expect(tab.locator(".topics tbody tr").last).to_contain_text("dead")
    tab.get_by_role("tab", name="Map", exact=True).click()
    expect(tab.locator("#view-map circle.unlike")).to_have_count(2)
    assert tab.locator("#view-map circle.unlike").evaluate_all(
        "list => list.map(e => e.dataset.topic).sort()"
    ) == ["3", "4"]


def test_the_page_is_read_by_keyboard_alone(plays, visit, expect) -> None:
    tab = visit(plays)
    tab.keyboard.press("Tab")
    expect(tab.locator(".skip")).to_be_focused()
    tab.keyboard.press("Tab")
    expect(tab.get_by_role("tab", name="Topics", exact=True)).to_be_focused()
    for name in ("Map", "Heat map", "Time and groups", "Model", "Topics"):
        tab.keyboard.press("ArrowRight")
        expect(tab.get_by_role("tab", name=name, exact=True)).to_be_focused()
    reached = set()
    for _ in range(40):
        tab.keyboard.press("Tab")
        reached.add(tab.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"theme", "search", "BUTTON", "A", "SELECT"} <= reached
    tab.locator(".topics tbody tr a").first.focus()
    tab.keyboard.press("Enter")
    expect(tab).to_have_url(re.compile("#topic-"))
    expect(tab.locator("#topic")).to_be_focused()
    tab.keyboard.press("Escape")
    expect(tab.locator("#view-topics")).to_be_visible()
