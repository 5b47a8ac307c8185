"""``topics sweep``: every combination, resumable, chosen on one half and reported on the other."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from itertools import islice

import numpy as np
import pyarrow.parquet as pq
import pytest

import topicstream
from tests import DATA, retrain_tools
from topicstream.addons.sweep import sweep as work
from topicstream.addons.sweep.picture import lines
from topicstream.addons.sweep.sweep import list_runs, sweep
from topicstream.base.errors import InputError, TopicsError
from topicstream.base.files.marker import mark_of
from topicstream.cli.main import run

REUTERS = DATA / "reuters21578" / "docs.jsonl.gz"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    retrain_tools.write(folder / "a.jsonl", retrain_tools.made(300, seed=1))
    topicstream.ingest(
        folder / "a.jsonl", folder / "c.zarr", stopwords="none", heldout="10%", min_df=2
    )
    return folder / "c.zarr"


def test_it_chooses_the_planted_number(corpus, tmp_path):
    given = dict(topics=[2, 4], seeds=2, algo=["atbp"], passes=20, options={"alpha": [0.1]})
    result = sweep(corpus, tmp_path / "s", **given)
    assert (
        result["chosen"]["topics"] == 4
        and "4 topics" in result["why"]
        and "other half" in result["why"]
    )
    rows = pq.read_table(tmp_path / "s" / "sweep.parquet").to_pylist()
    assert [(r["topics"], r["seed"]) for r in rows] == [(2, 0), (2, 1), (4, 0), (4, 1)] and rows[0][
        "alpha"
    ] == 0.1
    for k in (2, 4):
        assert (
            len({r["stability"] for r in rows if r["topics"] == k}) == 1
            and 0 < rows[0]["stability"] <= 1
        )
    histories = {path: path.read_bytes() for path in tmp_path.glob("s/runs/*/history.jsonl")}
    again = sweep(corpus, tmp_path / "s", **given)
    assert again == result and len(histories) == 4
    assert all(path.read_bytes() == history for path, history in histories.items())
    with pytest.raises(TopicsError, match="holds the input"):
        sweep(corpus, corpus.parent, **given)


def test_both_halves_make_the_whole(corpus, tmp_path):
    result = sweep(corpus, tmp_path / "s", topics=[3], seeds=[5], algo=["atbp"], passes=3)
    row = result["runs"][0]
    model = topicstream.TopicModel.open(tmp_path / "s" / "runs" / "atbp-k3-s5")
    whole = topicstream.evaluate(model, corpus, heldout=True)["heldout"]["perplexity"]
    low, high = sorted((row["perplexity_choosing"], row["perplexity_reported"]))
    assert row["stability"] is None and result["consensus"] is None
    assert (
        whole / low > 0.9 and whole / high < 1.1
    )  # those set aside at ingest are a part of those that judge


def test_grid_and_refusals(corpus, tmp_path):
    runs = list_runs([5, 10], range(2), ["vb", "atbp"], {"alpha": [0.1, 0.2]})
    assert len(runs) == 16 and len({r.name for r in runs}) == 16
    with pytest.raises(InputError):
        list_runs([], range(2), ["vb"], {})
    with pytest.raises(InputError, match="at most"):
        list_runs([5], range(10**11), ["vb"], {})
    retrain_tools.write(tmp_path / "a.jsonl", retrain_tools.made(60, seed=1))
    topicstream.ingest(tmp_path / "a.jsonl", tmp_path / "c", stopwords="none", heldout=0, min_df=2)
    assert (
        len(sweep(tmp_path / "c", tmp_path / "s", topics=[2], seeds=1, passes=2)["runs"]) == 1
    )  # the rest judges


def test_the_command(corpus, tmp_path, capsys):
    args = [
        "sweep",
        "--corpus",
        str(corpus),
        "-K",
        "2,3",
        "--seeds",
        "1",
        "--algo",
        "atbp",
        "--passes",
        "2",
    ]
    args += ["--out", str(tmp_path / "s"), "--plot", str(tmp_path / "p.svg")]
    assert run([*args, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 2 and (tmp_path / "p.svg").exists()
    assert run([*args, "--force", "-q"]) == 0
    assert "topics (atbp)" in capsys.readouterr().out
    args[args.index("--out") + 1] = str(tmp_path / "lists")
    assert run([*args, "--force", "-q", "--option", "alpha=0.1,0.5"]) == 0
    shown = capsys.readouterr().out.splitlines()
    drawn = (tmp_path / "p.svg").read_text()
    assert [line.split()[-1] for line in shown[:5]] == [
        "alpha",
        "0.1",
        "0.1",
        "0.5",
        "0.5",
    ] and "atbp alpha 0.5" in drawn
    assert run([*args, "--force", "-q", "--option", "alpha=high"]) == 2
    args[args.index("--out") + 1] = str(tmp_path / "corrected")
    assert run([*args, "--force", "-q", "--option", "unknown=1"]) == 2
    assert run([*args, "--force", "-q", "--passes", "3"]) == 0
    capsys.readouterr()
    args[args.index("--out") + 1] = str(tmp_path / "seeds")
    assert run([*args, "--force", "-q", "--seeds", "0,4", "--json"]) == 0
    assert {row["seed"] for row in json.loads(capsys.readouterr().out)["runs"]} == {0, 4}
    assert (
        run([*args, "--force", "--seeds", "0"])
        == run(["sweep", "--corpus", str(corpus), "-K", "0"])
        == 2
    )
    assert run(["sweep", "--corpus", str(corpus), "-K", "two"]) == 2
    assert run(["sweep", "--corpus", str(corpus), "-K", "2", "--option", "alpha"]) == 2


def test_a_sweep_keeps_to_its_own_folder(corpus, tmp_path, monkeypatch):
    """In processes of their own: what another process wrote is ours by its mark, not by memory."""
    monkeypatch.chdir(tmp_path)
    line = [
        "sweep",
        "--corpus",
        str(corpus),
        "-K",
        "2",
        "--seeds",
        "1",
        "--algo",
        "atbp",
        "--passes",
        "2",
    ]

    def swept(*more: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "topicstream", *line, *more], capture_output=True, text=True
        )
        return done.returncode, done.stderr

    assert swept("--out", "s")[0] == swept("--out", "s")[0] == 0
    assert mark_of("s").kind == "sweep"
    assert "another --passes" in swept("--out", "s", "--passes", "3")[1]
    (tmp_path / "theirs" / "runs").mkdir(parents=True)
    (tmp_path / "theirs" / "sweep.parquet").write_text("mine")
    os.symlink("s", "link")
    for out in ("theirs", "link", "."):
        assert swept("--out", out)[0] in (2, 3), out
    (tmp_path / "s" / "notes.txt").write_text("mine")
    assert swept("--out", "s")[0] == 0
    assert (tmp_path / "s" / "notes.txt").read_text() == "mine"  # a file that no list names stays
    assert (tmp_path / "theirs" / "sweep.parquet").read_text() == "mine"


def test_seed_words_go_into_every_training(corpus, tmp_path):
    words = topicstream.Corpus.open(corpus).words.to_pylist()
    seeds = {"first": {"words": words[5:8], "strength": 100}}
    sweep(corpus, tmp_path / "s", topics=[3], seeds=1, algo=["atbp"], passes=2, seed_words=seeds)
    model = topicstream.TopicModel.open(tmp_path / "s" / "runs" / "atbp-k3-s0")
    assert model.labels[0] == "first"
    with pytest.raises(TopicsError, match="with another --seed-words"):
        sweep(corpus, tmp_path / "s", topics=[3], seeds=1, algo=["atbp"], passes=2)


def test_seeds_are_matched_and_what_they_have_in_common_is_a_model(corpus, tmp_path):
    result = sweep(corpus, tmp_path / "s", topics=[4, 9], seeds=4, algo=["atbp"], passes=25)
    four, nine = result["settings"]
    assert (
        four["stability"]["value"] > 0.9 > nine["stability"]["value"]
        and four["stability"]["tie"]
        and not nine["stability"]["tie"]
    )
    assert four["perplexity"]["error"] > 0 and all(
        nine[name]["error"] > 0 for name in ("perplexity", "npmi", "exclusivity", "stability")
    )
    assert result["chosen"]["topics"] == 4 and result["consensus"]["stable"] == 4
    model = topicstream.TopicModel.open(tmp_path / "s" / "consensus")
    assert (
        model.manifest.stopped == "consensus of 4 seeds"
        and model.n_topics == 4
        and np.allclose(model.topic_word.sum(axis=1), 1, atol=1e-4)
    )
    runs = [
        topicstream.TopicModel.open(tmp_path / "s" / "runs" / f"atbp-k4-s{s}") for s in range(4)
    ]
    for k in range(4):  # each topic of the consensus is near one of every seed
        assert all(
            np.abs(model.topic_word[k] - run.topic_word).sum(axis=1).min() < 0.3 for run in runs
        )
    table = pq.read_table(tmp_path / "s" / "topics.parquet").to_pylist()
    assert [row["seeds"] for row in table] == [4] * 4 and all(
        row["low"] <= row["stability"] <= row["high"] for row in table
    )
    again = sweep(corpus, tmp_path / "s", topics=[4, 9], seeds=4, algo=["atbp"], passes=25)
    assert again == result
    shown = lines(result)
    assert "≈" in shown[1] and "±" in shown[1] and "4 of 4 topics" in shown[-1]


@pytest.mark.skipif(not REUTERS.exists(), reason="the corpus is not there")
def test_twenty_thousand_tokens_judge_a_real_corpus(tmp_path):
    with gzip.open(REUTERS, "rt") as file:
        (tmp_path / "r.jsonl").write_text("".join(islice(file, 9000)))
    topicstream.ingest(tmp_path / "r.jsonl", tmp_path / "c.zarr", progress=False)
    store = topicstream.Corpus.open(tmp_path / "c.zarr")
    assert store.part(True).tokens < 20_000
    result = sweep(tmp_path / "c.zarr", tmp_path / "s", topics=[5, 10], seeds=2, passes=5)
    model = topicstream.TopicModel.open(tmp_path / "s" / "runs" / "auto-k5-s0")
    tokens = work._score_run(model, store, model.manifest.sample, 1).tokens.sum()
    assert 18_000 < tokens < 25_000 and "of the training documents" in result["why"]
    sample = topicstream.TopicModel.open(tmp_path / "s" / "runs" / "auto-k5-s0").manifest.sample
    assert 0.8 <= sample < 1
