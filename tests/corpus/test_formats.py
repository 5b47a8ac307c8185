"""What version 0.1.0 wrote (tests/data/released-0.1.0.tar.gz: a store, a model with its run, and
what it said of them) is read, scored, continued and grown by this version (docs/formats.md)."""

from __future__ import annotations

import json
import shutil
import tarfile

import pytest
import release_data

import topicstream
from tests import ROOT
from topicstream.cli.main import run

MADE = ROOT / "tests" / "data" / "released-0.1.0.tar.gz"


@pytest.fixture
def old(tmp_path):
    with tarfile.open(MADE) as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path


def printed(capsys, *args):
    capsys.readouterr()
    assert run([*map(str, args), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_an_old_store_and_model_say_what_they_said(old, capsys):
    shown = printed(capsys, "show", "--model", old / "model")
    told = json.loads((old / "show.json").read_text())
    for now, then in zip(shown["topics"], told["topics"], strict=True):
        assert now["topic"] == then["topic"]
        assert [w["word"] for w in now["words"]] == [w["word"] for w in then["words"]]
        assert [w["p"] for w in now["words"]] == pytest.approx(
            [w["p"] for w in then["words"]], rel=1e-6
        )
    scored = printed(
        capsys, "eval", "--corpus", old / "corpus.zarr", "--model", old / "model", "--heldout"
    )
    then = json.loads((old / "eval.json").read_text())
    assert scored["heldout"]["perplexity"] == pytest.approx(then["heldout"]["perplexity"], rel=1e-5)
    assert run(["info", str(old / "corpus.zarr"), "--verify", "-q"]) == 0
    assert run(["info", str(old / "model"), "--verify", "-q"]) == 0


def test_an_old_model_infers(old):
    out = old / "now.jsonl"
    assert (
        run(["infer", str(old / "docs.jsonl"), "--model", str(old / "model"), "-o", str(out), "-q"])
        == 0
    )
    now, then = (
        [json.loads(line) for line in p.read_text().splitlines()]
        for p in (out, old / "theta.jsonl")
    )
    for a, b in zip(list(now), list(then), strict=True):
        assert a["id"] == b["id"]
        assert dict(zip(a["topics"], a["shares"])) == pytest.approx(
            dict(zip(b["topics"], b["shares"])), abs=1e-4
        )


def test_an_old_run_goes_on_and_an_old_store_grows(old):
    done = topicstream.train(
        old / "corpus.zarr",
        old / "model",
        topics=3,
        algo="bp",
        passes=8,
        tol=0,
        seed=7,
        progress=False,
    )
    assert done.passes == 8
    more = old / "more.jsonl"
    more.write_text(
        "".join(
            f'{{"id": "new{i}", "text": "cell gene court law ball team fresh"}}\n'
            for i in range(10)
        )
    )
    summary = topicstream.ingest(more, old / "corpus.zarr", append=True)
    assert summary["documents_added"] == 10
    assert topicstream.Corpus.open(old / "corpus.zarr").manifest.schema == 1


EVERY = ROOT / "tests" / "data" / "every-0.1.tar.xz"
"""Stores and models of every kind as 0.1 wrote them, with what it said of them
(scripts/tools/release_data.py).
"""


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    folder = tmp_path_factory.mktemp("every")
    with tarfile.open(EVERY) as archive:
        archive.extractall(folder, filter="data")
    return folder, json.loads((folder / "said.json").read_text())


def numbers(value, path=()):
    """Every number of a JSON value by its path."""
    if isinstance(value, dict):
        return {
            k: v for name, inner in value.items() for k, v in numbers(inner, (*path, name)).items()
        }
    if isinstance(value, list):
        return {
            k: v for i, inner in enumerate(value) for k, v in numbers(inner, (*path, i)).items()
        }
    return {path: value} if isinstance(value, int | float) and not isinstance(value, bool) else {}


def same_numbers(now, then, rel):
    now, then = numbers(now), numbers(then)
    timed = [path for path in then if path[-1] in ("seconds", "peak_bytes", "version")]
    assert set(then) - set(timed) <= set(now)
    for path in set(then) - set(timed):
        assert now[path] == pytest.approx(then[path], rel=rel, abs=1e-6), path


@pytest.mark.parametrize("kind", release_data.RUNS)
def test_every_kind_of_old_model_is_shown_and_scored_as_it_was(every, kind, capsys):
    folder, said = every
    model, then = folder / "models" / kind, said[kind]
    shown = then["show"] if kind != "bp" else said["edited"]
    same_numbers(printed(capsys, "show", "--model", model), shown, 1e-6)
    scored = printed(
        capsys, "eval", "--corpus", folder / then["corpus"], "--model", model, "--heldout"
    )
    same_numbers(scored, then["eval"], 1e-4)


@pytest.mark.parametrize("name", ["grown.zarr", "models/full"])
def test_what_0_1_made_is_replaced_with_force(every, name, tmp_path):
    old, docs = shutil.copytree(every[0] / name, tmp_path / "old"), every[0] / "docs.jsonl"
    command = (
        f"ingest {docs} --out"
        if name.endswith("zarr")
        else f"train --corpus {every[0] / 'docs.zarr'} --algo bp -K 3 --passes 1 --model"
    )
    (old / "notes.txt").write_text("mine")
    assert run([*command.split(), str(old), "--force", "-q"]) == 3
    (old / "notes.txt").unlink()
    assert run([*command.split(), str(old), "--force", "-q"]) == 0


def test_every_old_store_opens_whole(every):
    folder, _ = every
    for name in ("docs", "grown", "weights", "vectors"):
        assert run(["info", str(folder / f"{name}.zarr"), "--verify", "-q"]) == 0


@pytest.mark.parametrize("kind", ["bp", "atm", "sparselda", "sparse-bp", "gmm"])
def test_old_runs_resume(every, kind, tmp_path, capsys):
    folder, said = every
    model = tmp_path / kind
    shutil.copytree(folder / "models" / kind, model)
    topics = "3" if kind == "gmm" else "4"
    line = [
        "train",
        "--corpus",
        folder / said[kind]["corpus"],
        "--model",
        model,
        "--algo",
        kind,
        "-K",
        topics,
        "--passes",
        "6",
    ]
    code = run([*map(str, line), "--tol", "0", "--threads", "1", "-q"])
    if (
        kind == "sparselda"
    ):  # packed rows of checkpoints have another form since 0.2; the model itself opens
        assert (
            code == 3 and "a version before 0.2; `topics train --force`" in capsys.readouterr().err
        )
        return
    assert code == 0
    assert json.loads((model / "manifest.json").read_text())["passes"] == 6
