"""Engines, methods and readers of another package, as its entry points register them: tests/plugin_package."""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import topicstream
from topicstream import plugins
from topicstream.cli.main import run
from topicstream.engines import engines, find
from topicstream.errors import InputError, TopicsError, UsageError
from topicstream.ingestion.parsing.reader import reader_named, readers
from topicstream.training.state.checkpoint import content_hash

PACKAGE = Path(__file__).parent / "plugin_package"


def forget() -> None:
    for cached in (plugins.entries, plugins.load, engines):
        cached.cache_clear()
    for name in [n for n in sys.modules if n.partition(".")[0] == "topicstream_example"]:
        del sys.modules[name]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The package as an installer leaves it: its modules and a .dist-info beside them."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    site = tmp_path / "site"
    about = site / f"topicstream_example-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (site / "topicstream_example").symlink_to(PACKAGE / "topicstream_example")
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), ""]
    (about / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    forget()
    yield
    forget()


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    subjects = [[f"{name}{i}" for i in range(20)] for name in ("sea", "sky", "farm")]
    texts = [" ".join(rng.choice(subjects[d % 3], 30)) for d in range(90)]
    Path("text.para").write_text("\n\n".join(texts) + "\n")
    return tmp_path


def command(capsys, *args: str) -> str:
    assert run([*args, "-q"]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_an_engine_a_method_and_a_reader_of_another_package(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    told = command(capsys, "engines")
    assert "unigrams" in told and "Nigam" in told
    command(capsys, "train", "--algo", "unigrams", "-K", "3", "--sharpness", "0.9", "--passes", "20", "--tol", "0")
    assert json.loads(Path("model/training.json").read_text())["options"]["sharpness"] == 0.9
    top = topicstream.TopicModel.open("model").top_words(5).to_pylist()
    assert [len({word.rstrip("0123456789") for word in row["words"]}) for row in top] == [1, 1, 1]
    dull, sharp = (
        [json.loads(line) for line in command(capsys, "infer", "corpus.zarr", *more, "--out", "x.jsonl", "--force") or
         Path("x.jsonl").read_text().splitlines()]
        for more in ((), ("--method", "sharp", "--power", "8"))
    )  # fmt: skip
    assert len(sharp) == 90 and np.mean([max(d["shares"]) for d in sharp]) > np.mean([max(d["shares"]) for d in dull])
    table = topicstream.infer("model", topicstream.Corpus.open("corpus.zarr"), method="sharp", options={"power": 8.0})
    assert table["shares"].to_pylist()[7] == pytest.approx(sharp[7]["shares"], abs=1e-5)
    assert "--power" in command(capsys, "infer", "--method", "sharp", "--help")
    assert "--sharpness" in command(capsys, "train", "--algo", "unigrams", "--help")


def test_a_view_of_another_package(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    command(capsys, "train", "-K", "3", "--passes", "5")
    found = json.loads(command(capsys, "show", "--sizes", "--json"))["topics"]
    assert sum(row["share"] for row in found) == pytest.approx(1) and len(found) == 3
    assert command(capsys, "show", "--sizes", "--width", "7", "-n", "1").rstrip().endswith(" " + 7 * "#")
    assert "Sizes of topics (--sizes)" in command(capsys, "show", "--help")
    assert run(["show", "--width", "7"]) == 2 and "--width goes with: Sizes of topics" in capsys.readouterr().err


def test_a_sampler_by_proposals_finds_the_topics_and_every_token_is_counted(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    command(capsys, "train", "--algo", "warp", "-K", "3", "--passes", "60", "--tol", "0", "--turns", "3")
    top = topicstream.TopicModel.open("model").top_words(5).to_pylist()
    assert [len({word.rstrip("0123456789") for word in row["words"]}) for row in top] == [1, 1, 1]
    history = [json.loads(line) for line in Path("model/history.jsonl").read_text().splitlines()]
    assert history[-1]["objective"]["log p(z) a token"] > history[1]["objective"]["log p(z) a token"]
    assert history[-1]["joint_loglik"] > history[1]["joint_loglik"]


@pytest.mark.parametrize("algo", ["unigrams", "warp"])
def test_the_same_for_any_number_of_threads(installed, place, algo):
    topicstream.ingest([Path("text.para")], min_df=1, max_df=1.0, heldout=0, mem_limit="1G")
    found = []
    for threads in (1, 2):
        topicstream.train(
            algo=algo, topics=3, passes=3, block_cells=200, threads=threads, force=True, progress=False
        )
        found.append(topicstream.TopicModel.open("model").rows(np.arange(60)))
    assert np.array_equal(*found)


def test_what_is_broken_or_not_there_is_said(installed, place, caplog):
    with pytest.raises(TopicsError, match="broken: the package topicstream-example cannot be loaded"):
        reader_named("broken")
    assert {"paragraphs", "jsonl"} <= set(readers()) and "broken" not in readers()
    assert "cannot be loaded" in caplog.text
    with pytest.raises(InputError, match=r"no such format; choose one of .*paragraphs"):
        reader_named("paragraph")
    with pytest.raises(TopicsError, match="sharpness must be at most 1"):
        topicstream.ingest([Path("text.para")], min_df=1, max_df=1.0, heldout=0)
        topicstream.train(algo="unigrams", topics=3, options={"sharpness": 2.0}, progress=False)


def test_our_names_cannot_be_taken_and_nothing_is_there_without_the_package(monkeypatch):
    forget()
    assert "unigrams" not in engines()

    ours = find("bp")
    theirs = [EntryPoint(name, "nowhere:NAME", "group") for name in ("bp", "jsonl")]
    monkeypatch.setattr(plugins, "entry_points", lambda group: theirs)
    forget()
    assert find("bp") is ours
    assert reader_named("jsonl").name == "jsonl"
    monkeypatch.undo()
    forget()


def test_an_executor_of_another_package_gives_the_same_bits(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    given = {"algo": "atbp", "topics": 3, "passes": 3, "block_cells": 4000, "threads": 2, "progress": False}
    topicstream.train("corpus.zarr", "here", **given)
    topicstream.train("corpus.zarr", "there", executor="processes", **given)
    assert content_hash(Path("here")) == content_hash(Path("there"))
    with pytest.raises(UsageError, match="executor: none is called 'nowhere'; known: processes"):
        topicstream.train("corpus.zarr", "m", executor="nowhere", **given)


def test_a_scorer_of_another_package(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    command(capsys, "train", "-K", "3", "--passes", "5")
    found = json.loads(command(capsys, "eval", "--score", "evenness", "--diversity", "--json"))
    assert 0.9 < found["evenness"]["value"] <= 1.0 and found["evenness"]["measured"]
    assert "evenness              value 0.9" in command(capsys, "eval", "--score", "evenness")
    assert "diversity" in found and "coherence" not in found and "corpus" not in found
    for wrong in ("nothing", "heldout"):
        with pytest.raises(UsageError, match=f"--score {wrong}: no package has such a scorer"):
            topicstream.evaluate("model", score=wrong)
