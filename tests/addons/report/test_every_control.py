"""Every control of the page is clicked and reached by keyboard, on four kinds of models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import topicstream
from tests.report_store import THEMES, made
from topicstream.addons.report.page import report
from topicstream.model.topic_model import TopicModel

pytestmark = pytest.mark.slow

CONTROLS = """[...document.querySelectorAll(
  "a[href], button, select, summary, input, circle.dot, canvas")].filter(
  e => e.checkVisibility() && !e.matches(".skip"))"""
FOCUSABLE = """[...document.querySelectorAll("a[href], button, select, summary, input")].filter(
  e => e.checkVisibility() && e.tabIndex >= 0 && !e.matches(".skip")).length"""
FOCUSED = """() => {
  const e = document.activeElement;
  if (e === document.body || e.matches(".skip")) return "";
  const place = [...document.querySelectorAll("*")].indexOf(e);
  return [place, getComputedStyle(e).outlineStyle, e.outerHTML.slice(0, 90)].join(" ");
}"""
CONTROL = f"""i => {{
  const all = {CONTROLS}, e = all[i];
  if (!e) return null;
  e.scrollIntoView({{ block: "center", inline: "center" }});
  const b = e.getBoundingClientRect(), x = b.x + b.width / 2, y = b.y + b.height / 2;
  const hit = document.elementFromPoint(x, y), beside = [...(e.closest(".bar") || e).children];
  return {{ x, y, tag: e.tagName.toLowerCase(), type: e.type || "",
    html: (e.closest("section, aside, header") || {{}}).id + " " + e.outerHTML.slice(0, 120),
    covered: !hit || !(e.contains(hit) || hit.contains(e)),
    chosen: e.matches("[aria-selected=true]") || e.getAttribute("href") === location.hash,
    first: beside.length ? all.indexOf(beside[0]) : -1 }};
}}"""
STATE = """() => [location.hash, document.title, document.body.className,
  document.documentElement.dataset.theme, document.querySelector("main").innerHTML,
  document.querySelector("header").innerHTML,
  ...[...document.querySelectorAll("input, select")].map(e => e.value),
  ...[...document.querySelectorAll("canvas")].map(e => e.width)].join("\\n")"""
NARROW = "document.documentElement.scrollWidth <= innerWidth"


def write_plain(folder: Path) -> Path:
    """Write the report of texts with dates, groups and labels."""
    corpus, _ = made(folder, 200)
    return write_themes(folder, corpus, np.eye(4) + 0.02)


def write_kinds(folder: Path) -> Path:
    """Write the report of four topics, an empty one and the background."""
    corpus, _ = made(folder, 200)
    weights = np.concatenate([np.eye(4), np.zeros((1, 4)), np.ones((1, 4))])
    return write_themes(folder, corpus, weights, options={"background": 1.0})


def write_themes(folder: Path, corpus, weights: np.ndarray, **manifest) -> Path:
    """Write the report of topics that mix the themes of the planted corpus."""
    vocabulary = corpus.read_vocabulary()
    phi = np.zeros((len(vocabulary), len(weights)), np.float32)
    for w, word in enumerate(vocabulary.texts(np.arange(len(vocabulary)))):
        themes = [i for i, theme in enumerate(THEMES) if word in theme.split()]
        for i in themes:
            phi[w] = 900 * weights[:, i]
    manifest = {"tokenizer": corpus.manifest.tokenizer, **manifest}
    model = TopicModel.from_arrays(phi, vocabulary, 0.1, 0.01, **manifest)
    report(model, corpus, out=folder / "r.html")
    return folder / "r.html"


def write_covariates(folder: Path) -> Path:
    """Write the report of topics that know dates and groups."""
    corpus, _ = made(folder, 200)
    settings = {"covariates": "party + s(date)", "options": {"learn_after": 1}, "progress": False}
    topicstream.train(corpus.path, folder / "model", topics=4, passes=3, **settings)
    report(folder / "model", corpus, out=folder / "r.html")
    return folder / "r.html"


def write_cells(folder: Path) -> Path:
    """Write the report of counts without texts, dates and groups."""
    rng = np.random.default_rng(2)
    rows = rng.poisson(1.0, (40, 30))
    topicstream.ingest(rows, folder / "corpus.zarr", min_df=1, progress=False)
    corpus = topicstream.Corpus.open(folder / "corpus.zarr")
    table = rng.gamma(0.3, 30, (30, 3))
    model = TopicModel.from_arrays(table, corpus.read_vocabulary(), 0.1, 0.01)
    report(model, corpus, out=folder / "r.html")
    return folder / "r.html"


KINDS = {
    "texts": write_plain,
    "kinds": write_kinds,
    "covariates": write_covariates,
    "cells": write_cells,
}


@pytest.fixture(scope="module", params=KINDS)
def page(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return KINDS[request.param](folder)


def use(tab, control) -> None:
    """Use a control as a hand would: click it, choose another value, type, pull the slider."""
    tab.mouse.click(control["x"], control["y"])
    if control["tag"] == "select":
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("Enter")
    elif control["type"] == "search":
        tab.keyboard.type("zz")
    elif control["type"] == "range":
        tab.keyboard.press("ArrowLeft")


ARRIVE = """async view => {
  const open = name => new Promise(done => {
    if (location.hash === "#" + name) return done();
    addEventListener("hashchange", () => setTimeout(done), { once: true });
    location.hash = name;
  });
  await open("overview");
  await open(view);
  const search = document.getElementById("search");
  if (search.value) {
    search.value = "";
    search.dispatchEvent(new Event("input"));
  }
}"""


def arrive(tab, view: str) -> None:
    """Open a view by its address, with an empty search."""
    tab.evaluate(ARRIVE, view)


def views(tab) -> list[str]:
    """List the views that the page has, and the page of a topic."""
    there = tab.evaluate("[...document.querySelectorAll('[role=tabpanel]')].map(e => e.id)")
    return [name.removeprefix("view-") for name in there] + ["topic-1"]


def changes(tab, control) -> bool:
    before = tab.evaluate(STATE)
    use(tab, control)
    return tab.evaluate(STATE) != before


@pytest.mark.parametrize(("width", "dark"), [(1300, False), (390, True)])
def test_every_control_does_something(page, visit, width, dark):
    """A click changes the page, writes nothing on the console and leaves no room to scroll."""
    tab = visit(page, "", width)
    tab.emulate_media(color_scheme="dark" if dark else "light")
    wrong = []
    used: set[str] = set()
    for view in views(tab):
        number = 0
        while True:
            arrive(tab, view)
            control = tab.evaluate(CONTROL, number)
            if control is None:
                break
            number += 1
            if control["html"] in used:
                continue
            used.add(control["html"])
            if control["covered"]:
                wrong.append(f"{view}: covered: {control['html']}")
            elif not control["chosen"] and not changes(tab, control):
                # "All" shows all already: zoom in first
                first = tab.evaluate(CONTROL, max(control["first"], 0))
                use(tab, first)
                if not changes(tab, tab.evaluate(CONTROL, number - 1)):
                    wrong.append(f"{view}: no effect: {control['html']}")
            if not tab.evaluate(NARROW):
                wrong.append(f"{view}: wider than the window: {control['html']}")
    assert wrong == []
    assert len(used) > 15


def test_every_control_is_reached_by_keyboard(page, visit):
    """Tab leads to each control once, the focus can be seen, and Enter opens a topic."""
    tab = visit(page)
    for view in views(tab):
        arrive(tab, view)
        tab.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        reached = set()
        # once round, and over the window itself
        for _ in range(tab.evaluate(FOCUSABLE) + 2):
            tab.keyboard.press("Tab")
            reached.add(tab.evaluate(FOCUSED))
        reached.discard("")
        assert len(reached) == tab.evaluate(FOCUSABLE), view
        assert [one for one in reached if one.split()[1] == "none"] == [], view
    arrive(tab, "topics")
    tab.locator(".topics tbody a").first.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_selector("body.reading")
    tab.keyboard.press("Escape")
    tab.wait_for_selector("body:not(.reading)")


def test_an_address_that_is_none_shows_the_topics(page, visit, expect):
    """A per cent sign without digits is no fault of the page."""
    tab = visit(page, "#100%")
    expect(tab.locator("#view-topics")).to_be_visible()


def test_numbers_of_one_have_a_singular(visit, tmp_path):
    model = TopicModel.from_arrays(np.ones((6, 1)) * 50, [f"w{i}" for i in range(6)], 0.1, 0.01)
    report(model, None, out=tmp_path / "r.html")
    tab = visit(tmp_path / "r.html", "#model")
    assert tab.locator(".facts div").first.inner_text().split() == ["1", "topic"]


def test_names_beside_the_heat_map_stand_in_their_rows(visit, tmp_path):
    """On a phone 60 names are too many: none is shown until the map is zoomed."""
    table = np.random.default_rng(1).gamma(0.1, 20, (90, 60))
    model = TopicModel.from_arrays(table, [f"w{i}" for i in range(90)], 0.1, 0.01)
    report(model, None, out=tmp_path / "r.html")
    tab = visit(tmp_path / "r.html", "#heat", 390)
    assert tab.locator(".names a").count() == 0
    assert "zoom in" in tab.locator("#view-heat .count").inner_text()
    for _ in range(2):
        tab.get_by_role("button", name="Zoom in").click()
    heights = "[...document.querySelectorAll('.heat canvas, .names')].map(e => e.clientHeight)"
    canvas, names = tab.evaluate(heights)
    assert tab.locator(".names a").count() > 8
    assert abs(canvas - names) < 4
