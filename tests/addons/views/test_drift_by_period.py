"""Drift by period: the figures by which retrain decides, for each period of a date."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

import topicstream
from tests.retrain_tools import made, write
from topicstream.base.errors import InputError
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.model.topic_model import TopicModel
from topicstream.retraining.drift import ingest_apart, measure


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


def periods_of(home, documents, **options):
    found = topicstream.drift(home / "m", documents, corpus=home / "c.zarr", **options)
    return found, {row["period"]: row for row in found["periods"]}


def test_periods_of_a_file(home):
    found, rows = periods_of(home, home / "new.jsonl", by="date", period="year")
    assert {name: row["documents"] for name, row in rows.items()} == {
        "2021": 30,
        "2022": 30,
        "2023": 30,
    }
    assert rows["2021"]["seen_words"] > 0.95 and rows["2023"]["seen_words"] == 0
    assert rows["2023"]["unknown_tokens"] == 1 and rows["2023"]["perplexity"] is None
    assert rows["2022"]["why"] == [] and found["retrain"] == "2023" and found["note"] is None
    assert rows["2023"]["why"] == ["100.0 % of the new tokens are unknown"]
    assert 10 < rows["2021"]["perplexity_new"] < 200 and 0 <= rows["2021"]["usage"] < 0.3


def test_each_period_has_the_figures_that_retrain_takes(home, tmp_path):
    """The gate's function on a store of one period's documents alone gives the same."""
    _, rows = periods_of(home, home / "new.jsonl", by="date", period="year")
    documents = [json.loads(line) for line in (home / "new.jsonl").open()]
    corpus = Corpus.open(home / "c.zarr")
    for year in ("2021", "2023"):
        some = [d for d in documents if d.get("date", "").startswith(year)]
        new = ingest_apart(some, tmp_path / f"{year}.zarr", corpus, {})
        figures = asdict(measure(TopicModel.open(home / "m"), corpus, new, 1))
        for name, value in figures.items():
            assert rows[year][name] == (value and pytest.approx(value, rel=1e-9)), name


def test_all_of_a_store_and_its_parts(home):
    """Without dates all documents are one period; figures of tokens by hand."""
    corpus = Corpus.open(home / "c.zarr")
    _, rows = periods_of(home, corpus)
    (only,) = rows.values()
    assert only["documents"] == 200 and (only["seen_words"], only["unknown_tokens"]) == (1, 0)
    _, held_out = periods_of(home, None, by="date", period="year")
    assert sum(row["documents"] for row in held_out.values()) == corpus.part(True).docs
    both = [row["perplexity_new"] for row in held_out.values()]
    assert min(both) <= held_out["2019"]["perplexity_old"] <= max(both)


def test_without_dates_and_without_the_corpus(home):
    found = topicstream.drift(home / "m", home / "new.jsonl", corpus=home / "none.zarr")
    (only,) = found["periods"]
    assert (only["period"], only["documents"]) == ("all", 95) and 0.3 < only["seen_words"] < 0.7
    assert only["perplexity"] is None and only["usage"] is None
    assert found["retrain"] == "all" and "no corpus store here" in found["note"]


def test_words_that_training_pruned_count_as_seen(home, tmp_path):
    topicstream.ingest([home / "old.jsonl"], tmp_path / "c.zarr", stopwords="none", min_df=40)
    topicstream.train(tmp_path / "c.zarr", tmp_path / "m", algo="bp", topics=3, passes=3)
    shares = [
        topicstream.drift(tmp_path / "m", home / "old.jsonl", corpus=tmp_path / corpus)["periods"]
        for corpus in ("c.zarr", "none")
    ]
    assert shares[0][0]["seen_words"] == 1 and shares[0][0]["unknown_tokens"] == 0
    assert shares[1][0]["seen_words"] < 1 and shares[1][0]["unknown_tokens"] > 0


def test_the_command(home, capsys):
    common = ["info", str(home / "m"), "--corpus", str(home / "c.zarr")]
    given = ["--drift", str(home / "new.jsonl"), "--by", "date", "--period", "year"]
    assert run([*common, *given]) == 0
    said = capsys.readouterr().out
    assert "drifted first in 2023: train again" in said
    assert "2023: 100.0 % of the new tokens are unknown" in said
    assert run([*common, "--by", "date", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(r["documents"] for r in found["periods"]) > 10
    assert all(r["seen_words"] == 1 for r in found["periods"])
    assert run([*common, "--by", "author"]) == 3
    assert "has no such column" in capsys.readouterr().err
    assert run(["info", str(home / "c.zarr"), "--by", "date"]) == 2
    assert run(["info", str(home / "m"), "--period", "year"]) == 2
    with pytest.raises(InputError, match="no such file"):
        topicstream.drift(home / "m", home / "nothing.jsonl", corpus=home / "c.zarr")
