"""The numbers of a report's page, from sums made by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.report_store import unpack
from topicstream.addons.report import page as module
from topicstream.addons.report.page import MISSING, Page, add_groups, add_links, pack, quantise
from topicstream.display import periods
from topicstream.display.gather import Column, ReportSums, Survey, Time, correlations
from topicstream.display.groups import Groups
from topicstream.evaluation.visiting import BlockShares
from topicstream.model.top import Best


def test_numbers_are_quantised_column_by_column():
    values = np.array([[0.6, 0.0, np.nan], [0.25, 0.0, 2.0], [1.0, 0.0, 1.2]])
    numbers, scale = quantise(values, np.uint8)
    assert numbers.dtype == np.uint8 and scale.dtype == np.float32
    assert numbers.tolist() == [[153, 0, 0], [64, 0, 255], [255, 0, 153]]
    assert scale == pytest.approx([1 / 255, 0, 2 / 255])
    fewer, scale = quantise(values, np.uint8, most=100)
    assert fewer.tolist() == [[60, 0, 0], [25, 0, 100], [100, 0, 60]]
    assert scale == pytest.approx([0.01, 0, 0.02])
    assert MISSING == 65535 == np.iinfo(np.uint16).max


def test_a_payload_is_read_back():
    arrays = {"a": np.arange(5, dtype=np.uint16), "b": np.ones((2, 3), np.float32)}
    values, found = unpack(pack({"n": 1, "share": float("nan")}, arrays))
    assert values == {"n": 1, "share": None}
    for name, array in arrays.items():
        assert np.array_equal(found[name], array) and found[name].dtype == array.dtype


def test_each_topic_has_those_most_like_it():
    similar = np.array([[1, 0.2, 0.9, 0.2], [0.2, 1, 0.1, 0.4], [0.9, 0.1, 1, 0], [0.2, 0.4, 0, 1]])
    near, value = module._find_nearest(similar, 2)
    assert near.tolist() == [[2, 1], [3, 0], [0, 1], [1, 0]]
    assert value == pytest.approx(np.array([[0.9, 0.2], [0.4, 0.2], [0.9, 0.1], [0.4, 0.2]]))


def grouped(theta, codes, groups):
    """Sums of documents by group."""
    by = Groups(groups, theta.shape[1])
    by.add(np.arange(len(theta)), codes, BlockShares(0, theta, np.ones(len(theta))))
    return by


def sums_of(theta, by, by_over):
    """Sums over documents."""
    return ReportSums(
        len(theta),
        3,
        theta.sum(axis=0),
        np.bincount(theta.argmax(axis=1), minlength=theta.shape[1]),
        Best(1, theta.shape[1]),
        by,
        by_over,
        theta.T @ theta,
        len(theta),
    )


def test_groups_and_trends_have_their_means_and_intervals(monkeypatch):
    monkeypatch.setattr(module, "columns_of", lambda corpus: {"date": "text"})
    rng = np.random.default_rng(2)
    theta = rng.dirichlet([2.0, 1.0, 1.0], 60)
    theta = np.column_stack([theta, np.zeros(60)])  # a topic of nothing
    year = np.arange(60) % 3
    party = (np.arange(60) >= 55).astype(int)  # a group of 55 documents and one of 5
    by = {"date": grouped(theta, year, 3), "party": grouped(theta, party, 2)}
    over = {"party": grouped(theta, party * 3 + year, 6)}
    time = Time(periods.GRAINS["year"], range(2001, 2004), Counter())
    survey = Survey(time, [Column("party", ["red", "blue"], 2)])
    built = Page()
    built.values |= {"notes": [], "columns": [], "settings": [["corpus fingerprint", "f"]]}
    corpus = SimpleNamespace(path=Path("c.zarr"), fingerprint="f")
    add_groups(built, corpus, survey, sums_of(theta, by, over))
    arrays = built.arrays
    assert (built.values["docs"], built.values["leftOut"]) == (60, 3)
    assert built.values["notes"] == ["3 documents without a known word are left out."]
    assert arrays["share"] == pytest.approx(theta.mean(axis=0), abs=1e-6)
    assert arrays["first"].tolist() == np.bincount(theta.argmax(axis=1), minlength=4).tolist()
    assert built.values["periods"] == ["2001", "2002", "2003"]
    assert arrays["periodDocs"].tolist() == [20, 20, 20]
    assert arrays["by0Docs"].tolist() == [55, 5]

    def read(name):
        scale = arrays[f"{name}Scale"]
        return arrays[name] * scale.astype(np.float64)

    for g in range(3):
        assert read("over")[g] == pytest.approx(theta[year == g].mean(axis=0), abs=2e-5)
        for p in range(2):
            some = theta[(year == g) & (party == p)]
            assert read("cross")[3 * p + g] == pytest.approx(some.mean(axis=0), abs=2e-5)
    assert read("by0")[1] == pytest.approx(theta[party == 1].mean(axis=0), abs=2e-5)
    means = by["party"].means()
    reach = arrays["by0Reach"] * arrays["by0ReachScale"].astype(np.float64)
    assert reach[0, :3] == pytest.approx(means.reach[0, :3], rel=1e-4)
    assert (arrays["by0Reach"][1] == MISSING).all() and arrays["by0Reach"][0, 3] == MISSING
    assert arrays["by0Reach"][0, :3].max() < MISSING
    slope, error = by["date"].slope(np.arange(3.0))
    assert arrays["slope"] == pytest.approx(np.nan_to_num(slope), rel=1e-5)
    assert arrays["slopeError"] == pytest.approx(np.nan_to_num(error), rel=1e-5)


def test_topics_that_rise_together_are_linked():
    theta = np.random.default_rng(4).dirichlet(np.ones(9), 50)
    sums = sums_of(theta, {}, {})
    built = Page()
    add_links(built, sums)
    found = correlations(sums)
    np.fill_diagonal(found, -2)
    assert built.arrays["link"].shape == (9, 6) and built.values["linked"] == 50
    assert built.arrays["link"][:, 0].tolist() == found.argmax(axis=1).tolist()
    assert built.arrays["linkValue"][:, 0] == pytest.approx(found.max(axis=1), abs=1e-6)
    few = Page()
    add_links(few, sums_of(theta[:, :2], {}, {}))
    assert not few.arrays
    pairs = Page()
    add_links(pairs, sums_of(theta[:, :3], {}, {}))  # fewer than six others: both of them
    assert pairs.arrays["link"].shape == (3, 2)
    assert sorted(pairs.arrays["link"][1].tolist()) == [0, 2]
    for docs, linked in ((2, False), (3, True)):  # two documents correlate by one or not at all
        some = Page()
        add_links(some, sums_of(theta[:docs], {}, {}))
        assert bool(some.arrays) == linked
