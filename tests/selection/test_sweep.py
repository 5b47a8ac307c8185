"""``topics sweep``: every combination, resumable, chosen on one half and reported on the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import topicstream
from tests import retrain_tools
from topicstream.cli.main import run
from topicstream.errors import InputError, StoreError, TopicsError
from topicstream.files.durable import read_json, write_json
from topicstream.files.ownership import mark_of
from topicstream.selection import sweep as work
from topicstream.selection.sweep import Run, Scores, choose, grid, sweep

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    retrain_tools.write(folder / "a.jsonl", retrain_tools.made(300, seed=1))
    topicstream.ingest(folder / "a.jsonl", folder / "c.zarr", stopwords="none", heldout="10%", min_df=2)
    return folder / "c.zarr"


def test_it_chooses_the_planted_number(corpus, tmp_path, monkeypatch):
    given = dict(topics=[2, 4], seeds=2, algo=["atbp"], passes=20, options={"alpha": [0.1]})
    result = sweep(corpus, tmp_path / "s", **given)
    assert result["chosen"]["topics"] == 4 and "4 topics" in result["why"] and "other half" in result["why"]
    rows = pq.read_table(tmp_path / "s" / "sweep.parquet").to_pylist()
    assert [(r["topics"], r["seed"]) for r in rows] == [(2, 0), (2, 1), (4, 0), (4, 1)] and rows[0]["alpha"] == 0.1
    for k in (2, 4):
        assert len({r["stability"] for r in rows if r["topics"] == k}) == 1 and 0 < rows[0]["stability"] <= 1
    monkeypatch.setattr(work, "train", lambda *a, **o: pytest.fail("a finished run was made again"))
    again = sweep(corpus, tmp_path / "s", **given)
    assert again == result
    with pytest.raises(TopicsError, match="holds the input"):
        sweep(corpus, corpus.parent, **given)


@pytest.mark.parametrize("members", [{"keys": ["x"]}, {"loglik": [0.5, [1]]}, {"npmi": None}, {"tokens": []}, {"passes": -1}])
def test_a_result_that_no_sweep_wrote_is_refused_in_a_line(corpus, tmp_path, members):
    given = dict(topics=[2, 3], seeds=1, algo=["atbp"], passes=1)
    sweep(corpus, tmp_path / "s", **given)
    place = tmp_path / "s" / "results" / "atbp-k3-s0.json"
    write_json(place, {k: v for k, v in read_json(place).items() if k != "checksum"} | members)
    with pytest.raises(StoreError, match=r"atbp-k3-s0\.json: `"):
        sweep(corpus, tmp_path / "s", **given)


def test_both_halves_make_the_whole(corpus, tmp_path):
    result = sweep(corpus, tmp_path / "s", topics=[3], seeds=[5], algo=["atbp"], passes=3)
    row = result["runs"][0]
    model = topicstream.TopicModel.open(tmp_path / "s" / "runs" / "atbp-k3-s5")
    whole = topicstream.evaluate(model, corpus, heldout=True)["heldout"]["perplexity"]
    low, high = sorted((row["perplexity_choosing"], row["perplexity_reported"]))
    assert low < whole < high and row["stability"] is None


def test_fewer_topics_within_an_error_are_taken():
    rng = np.random.default_rng(0)
    keys = np.arange(400, dtype=np.uint64)
    tokens = np.full(400, 10.0)
    runs = [Run(k, s, "a") for k in (10, 20, 40) for s in (0, 1)]
    level = {10: -71.0, 20: -70.02, 40: -70.0}
    noise = rng.normal(size=400)

    def own() -> np.ndarray:
        drawn = rng.normal(scale=0.6, size=400)
        return drawn - drawn[::2].mean()  # the first half's means are exactly the levels

    scores = {r: Scores(keys, level[r.topics] + noise + own(), tokens) for r in runs}
    rows = [{"perplexity_choosing": float(i)} for i in range(6)]
    chosen, why = choose(runs, scores, rows)
    assert chosen["perplexity_choosing"] == 2.0 and why.startswith("20 topics") and "standard error" in why


def test_grid_and_refusals(corpus, tmp_path):
    runs = grid([5, 10], 2, ["vb", "atbp"], {"alpha": [0.1, 0.2]})
    assert len(runs) == 16 and len({r.name for r in runs}) == 16
    with pytest.raises(InputError):
        grid([], 2, ["vb"], {})
    with pytest.raises(InputError, match="at most"):
        grid([5], 10**11, ["vb"], {})
    retrain_tools.write(tmp_path / "a.jsonl", retrain_tools.made(60, seed=1))
    topicstream.ingest(tmp_path / "a.jsonl", tmp_path / "c", stopwords="none", heldout=0, min_df=2)
    with pytest.raises(InputError, match="set aside"):
        sweep(tmp_path / "c", tmp_path / "s", topics=[2])


def test_the_command(corpus, tmp_path, capsys):
    args = ["sweep", "--corpus", str(corpus), "-K", "2,3", "--seeds", "1", "--algo", "atbp", "--passes", "2"]
    args += ["--out", str(tmp_path / "s"), "--plot", str(tmp_path / "p.svg")]
    assert run([*args, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 2 and (tmp_path / "p.svg").exists()
    assert run([*args, "--force", "-q"]) == 0
    assert "topics (atbp)" in capsys.readouterr().out
    args[args.index("--out") + 1] = str(tmp_path / "lists")
    assert run([*args, "--force", "-q", "--option", "alpha=0.1,0.5"]) == 0
    shown, drawn = capsys.readouterr().out.splitlines(), (tmp_path / "p.svg").read_text()
    assert [line.split()[-1] for line in shown[:5]] == [
        "alpha",
        "0.1",
        "0.1",
        "0.5",
        "0.5",
    ] and "atbp alpha 0.5" in drawn
    assert run([*args, "--force", "-q", "--option", "alpha=high"]) == 2
    assert run(["sweep", "--corpus", str(corpus), "-K", "0"]) == 2
    assert run(["sweep", "--corpus", str(corpus), "-K", "two"]) == 2
    assert run(["sweep", "--corpus", str(corpus), "-K", "2", "--option", "alpha"]) == 2


def test_a_sweep_keeps_to_its_own_folder(corpus, tmp_path, monkeypatch):
    """In processes of their own: what another process wrote is ours by its mark, not by memory."""
    monkeypatch.chdir(tmp_path)
    line = ["sweep", "--corpus", str(corpus), "-K", "2", "--seeds", "1", "--algo", "atbp", "--passes", "2"]

    def swept(*more: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-m", "topicstream", *line, *more], capture_output=True, text=True)
        return done.returncode, done.stderr

    assert swept("--out", "s")[0] == swept("--out", "s")[0] == 0
    assert mark_of("s").kind == "sweep"
    assert "another --passes" in swept("--out", "s", "--passes", "3")[1]
    (tmp_path / "theirs" / "runs").mkdir(parents=True)
    (tmp_path / "theirs" / "sweep.parquet").write_text("mine")
    os.symlink("s", "link")
    for out in ("theirs", "link", "."):
        assert swept("--out", out)[0] in (2, 3), out
    (tmp_path / "s" / "results" / ".bp.json.0123456789abcdef.tmp").write_text("of one that was killed")
    (tmp_path / "s" / "results" / "notes.txt").write_text("mine")
    assert swept("--out", "s")[0] == 0
    assert sorted(p.suffix for p in (tmp_path / "s" / "results").iterdir()) == [".json", ".txt"]
    assert (tmp_path / "theirs" / "sweep.parquet").read_text() == "mine"


def test_seed_words_go_into_every_training(corpus, tmp_path):
    words = topicstream.Corpus.open(corpus).words.to_pylist()
    seeds = {"first": {"words": words[5:8], "strength": 100}}
    sweep(corpus, tmp_path / "s", topics=[3], seeds=1, algo=["atbp"], passes=2, seed_words=seeds)
    model = topicstream.TopicModel.open(tmp_path / "s" / "runs" / "atbp-k3-s0")
    assert model.labels[0] == "first"
    with pytest.raises(TopicsError, match="with another --seed-words"):
        sweep(corpus, tmp_path / "s", topics=[3], seeds=1, algo=["atbp"], passes=2)
