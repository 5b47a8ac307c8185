"""Drift by period: what of later documents training has seen, and how the fast method keeps up."""

from __future__ import annotations

import json

import pytest

import topicstream
from tests.retrain_tools import made, write
from topicstream.base.errors import InputError
from topicstream.cli.main import run


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A model of four subjects, its store (dates of 2019 and 2020), and later documents, a year of
    another language last.
    """
    folder = tmp_path_factory.mktemp("drift")
    old = made(200, seed=1)
    for i, d in enumerate(old):
        d["date"] = f"{2019 + i % 2}-05-01"
    write(folder / "old.jsonl", old)
    topicstream.ingest(
        [folder / "old.jsonl"],
        folder / "c.zarr",
        stopwords="none",
        heldout="20%",
        meta={"date": "date"},
        min_df=2,
    )
    topicstream.train(folder / "c.zarr", folder / "m", algo="bp", topics=4, passes=10)
    new = made(60, seed=2, prefix="n")
    for i, d in enumerate(new):
        d["date"] = f"{2021 + i % 2}-03"
    strange = made(30, seed=3, prefix="s", language="q")
    for d in strange:
        d["date"] = "2023"
    undated = made(5, seed=4, prefix="u")
    write(folder / "new.jsonl", new + strange + undated)
    return folder


def test_periods_of_a_file(home):
    found = topicstream.drift(
        home / "m", home / "new.jsonl", by="date", corpus=home / "c.zarr", period="year"
    )
    rows = {r["period"]: r for r in found["periods"]}
    assert list(rows) == ["2021", "2022", "2023"] and [r["documents"] for r in rows.values()] == [
        30,
        30,
        30,
    ]
    assert rows["2021"]["seen"] > 0.95 and rows["2022"]["seen"] > 0.95 and rows["2023"]["seen"] == 0
    assert rows["2023"]["unknown_tokens"] == 1 and "perplexity" not in rows["2023"]
    assert found["method"] == "bp" and found["retrain"] == "2023" and found["note"] is None
    assert (
        0.9 < rows["2021"]["cosine"] <= 1
        and 0 < rows["2021"]["f1"] <= 1
        and 10 < rows["2021"]["perplexity"] < 200
    )
    few = topicstream.drift(
        home / "m", home / "new.jsonl", by="date", corpus=home / "c.zarr", period="year", most=5
    )
    assert (
        few["periods"][0]["seen"] == rows["2021"]["seen"]
        and few["periods"][0]["cosine"] != rows["2021"]["cosine"]
    )


def test_without_dates_and_without_the_corpus(home):
    found = topicstream.drift(home / "m", home / "new.jsonl", corpus=home / "none.zarr", seen=0.2)
    (only,) = found["periods"]
    assert (only["period"], only["documents"]) == ("all", 95) and 0.3 < only["seen"] < 0.7
    assert found["retrain"] is None and "no corpus store here" in found["note"]


def test_words_that_training_pruned_count_as_seen(home, tmp_path):
    topicstream.ingest([home / "old.jsonl"], tmp_path / "c.zarr", stopwords="none", min_df=40)
    topicstream.train(tmp_path / "c.zarr", tmp_path / "m", algo="bp", topics=3, passes=3)
    with_pruned = topicstream.drift(tmp_path / "m", home / "old.jsonl", corpus=tmp_path / "c.zarr")[
        "periods"
    ][0]
    without = topicstream.drift(tmp_path / "m", home / "old.jsonl", corpus=tmp_path / "none")[
        "periods"
    ][0]
    assert with_pruned["seen"] == 1 and without["seen"] < 1 and with_pruned["unknown_tokens"] > 0


def test_the_command(home, capsys):
    common = ["info", str(home / "m"), "--corpus", str(home / "c.zarr")]
    assert (
        run([*common, "--drift", str(home / "new.jsonl"), "--by", "date", "--period", "year"]) == 0
    )
    assert "first in 2023: train again" in capsys.readouterr().out
    assert run([*common, "--by", "date", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(r["documents"] for r in found["periods"]) > 10 and all(
        r["seen"] == 1 for r in found["periods"]
    )
    assert run([*common, "--by", "author"]) == 3
    assert "has no such column" in capsys.readouterr().err
    assert run(["info", str(home / "c.zarr"), "--by", "date"]) == 2
    assert run(["info", str(home / "m"), "--period", "year"]) == 2
    with pytest.raises(InputError, match="no such file"):
        topicstream.drift(home / "m", home / "nothing.jsonl", corpus=home / "c.zarr")
