"""The measuring scripts' own arithmetic: the chart of time to quality, its table, and the predictions of scale."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import bench_quality
import curves_svg
import numpy as np
import pytest
import scale
from curves_svg import Curve
from measure import Figures

from topicstream.errors import DoesNotFit

MIB = 1 << 20


def falling(name: str, family: str, first: float, low: float, n: int = 9) -> Curve:
    """A curve that halves its distance to ``low`` at every point."""
    return Curve(name, family, [(first * 1.7**i, low + (9000 - low) / 2**i) for i in range(n)])


CROWD = [falling(f"engine-{i}", "message", 0.5 + 0.02 * i, 4500 + 3 * i) for i in range(9)]
CROWD += [falling(f"other {i}", "other", 5.0 + i, 4700 + 5 * i) for i in range(5)]


def test_the_chart_is_xml_and_names_every_curve():
    picture = ElementTree.fromstring(
        curves_svg.chart("A < B", "how & what", "seconds", CROWD, 9500, ("the goal", 4700))
    )
    texts = [t.text for t in picture.iter() if t.tag.endswith("text")]
    assert {c.name for c in CROWD} | {"A < B", "how & what", "the goal"} <= set(texts)
    dashed = [p for p in picture.iter() if p.get("stroke-dasharray") == "6 3"]
    assert len(dashed) == 6  # five other programs and the legend


def test_labels_keep_apart_and_inside():
    axes = curves_svg.Axes(CROWD, 9500)
    lines = [curves_svg.shown(c, axes) for c in CROWD]
    boxes = curves_svg.place_labels([(*p[-1], c.name) for c, p in zip(CROWD, lines)], lines)
    assert not any(curves_svg.overlap(a, b) for a, b in combinations(boxes, 2))
    assert min(b[0] for b in boxes) > 0 and max(b[2] for b in boxes) < curves_svg.WIDTH
    assert min(b[1] for b in boxes) > 0 and max(b[3] for b in boxes) < curves_svg.HEIGHT


def test_a_curve_enters_at_the_top_and_stays_inside():
    curve = falling("x", "gibbs", 1.0, 4000)
    axes = curves_svg.Axes([curve], 5000)
    places = curves_svg.shown(curve, axes)
    assert places[0][1] == pytest.approx(curves_svg.TOP)
    assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(places))
    assert places[-1][1] < curves_svg.HEIGHT - curves_svg.BOTTOM


def record(name: str, peer: bool, points: list[list[float]]) -> dict:
    return {"name": name, "peer": peer, "points": points}


RECORDS = [
    record("sparse-bp", False, [[1, 2.0, 6000, 3.0], [2, 4.0, 4500, 7.0], [3, 6.0, 4300, 10.0]]),
    record("vb", False, [[1, 5.0, 7000, 9.0]]),
    record("tomotopy", True, [[20, 8.0, 6000, 15.0], [100, 40.0, 4700, 70.0], [500, 200.0, 4500, 350.0]]),
    record("gensim", True, [[1, 11.0, 8000, 30.0]]),
]


def test_the_table_says_when_each_is_as_good_as_the_peers(capsys):
    bench_quality.report("made", 7, RECORDS)
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    cells = {r.split("|")[1].strip(): [c.strip() for c in r.split("|")[2:-1]] for r in rows}
    both = "pass 2, 4.0 s (7.0), "
    assert cells["sparse-bp"][:3] == ["3", "4,300", "pass 3, 6.0 s (10.0)"]
    assert cells["sparse-bp"][3:] == [both + "1/10.0 (1/10.0)", both + "1/50.0 (1/50.0)"]
    assert cells["vb"][3:] == ["-", "-"]
    assert cells["tomotopy"][3].endswith("1/1.0 (1/1.0)")


def test_time_goes_with_cells_and_for_samplers_with_tokens():
    wiki = scale.TARGETS[1]
    assert [scale.work_of(s, wiki) for s in ("atbp:10", "sparse-bp:100")] == [wiki.cells, wiki.cells]
    assert scale.work_of("sparselda:100", wiki) == wiki.tokens


def test_a_start_is_a_constant_and_so_much_a_cell(monkeypatch):
    seconds = {"third": 4.0, "whole": 8.0}  # 2 s + 0.1 us a cell
    sizes = {"third": 20_000_000, "whole": 60_000_000}

    class Store:
        def __init__(self, path: Path) -> None:
            self.n_docs, self.n_cells, self.n_tokens, self.n_words = 1000, sizes[path.name], 7e7, 100

        def grid(self, *_: int):
            return type("Grid", (), {"max_words": 100})

    monkeypatch.setattr(scale.Corpus, "open", Store)
    monkeypatch.setattr(scale, "train_seconds", lambda store, *_, **__: (0, seconds[store.name], [3.0, 6.0, 6.0]))
    found = scale.measure("atbp:10", Path("whole"), Path("third"), Path())
    target = scale.Target("", 1000, 480_000_000, 0, 100, "")
    assert scale.predicted("atbp:10", found, target) == pytest.approx((50.0, 48.0))
    seconds["third"] = 1.0  # less than in proportion: all of it goes with the cells
    found = scale.measure("atbp:10", Path("whole"), Path("third"), Path())
    assert scale.predicted("atbp:10", found, target)[0] == pytest.approx(64.0)


@pytest.mark.parametrize(("spec", "start"), [("atbp:10", "best"), ("atbp:100", "documents")])
def test_samples_start_as_the_corpus_they_stand_for(spec, start):
    line = scale.command(Path("third"), Path("model"), spec, 1, 1 << 30, 65536)
    assert line[line.index("--start") + 1] == start


class Sample:
    """What a prediction asks of the corpus that was measured on."""

    n_words, n_tokens = 1000, 50_000.0

    def word_counts(self) -> np.ndarray:
        return np.full(1000, 50)


@pytest.mark.parametrize("spec", scale.ENGINES)
def test_the_least_limit_is_the_least(spec):
    target = scale.TARGETS[0]
    engine = scale.engine_for(spec, target)
    block = scale.block_of(engine, target, scale.Constants(20.0, 20.0, 0.0, 400, ""), Sample())
    least = scale.smallest(engine, target, block, 150 * MIB)
    assert scale.plan_for(engine, target, block, 150 * MIB, least).total <= least
    with pytest.raises(DoesNotFit):
        scale.plan_for(engine, target, block, 150 * MIB, least - 8 * MIB)


def test_a_figure_is_made_once_and_a_cut_line_again(tmp_path):
    made = []

    def make(value: float):
        made.append(value)
        return {"perplexity": value, "points": [(1, 2.0)]}

    file = tmp_path / "figures.jsonl"
    key = {"corpus": "kos", "K": 50, "options": {"alpha": 0.1}}
    assert Figures(file).get(key, lambda: make(3.0))["perplexity"] == 3.0
    assert Figures(file).get(key, lambda: make(4.0))["perplexity"] == 3.0
    assert Figures(file).get({**key, "options": {"alpha": 0.2}}, lambda: make(5.0))["perplexity"] == 5.0
    whole = file.read_bytes()
    file.write_bytes(whole[:-7])  # killed in the middle of a line
    figures = Figures(file)
    assert len(figures.kept) == 1
    assert figures.get({**key, "options": {"alpha": 0.2}}, lambda: make(5.0))["perplexity"] == 5.0
    assert made == [3.0, 5.0, 5.0] and file.read_bytes() == whole
