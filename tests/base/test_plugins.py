"""Engines, methods and readers of another package, as its entry points register them:
tests/plugin_package.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import click
import numpy as np
import pytest
from checkpoint_bits import content_hash

import topicstream
from tests.example_package import command, forget
from topicstream.base import plugins
from topicstream.base.errors import InputError, TopicsError, UsageError
from topicstream.base.options import option
from topicstream.cli.main import run
from topicstream.cli.options import click_option
from topicstream.corpus.reader import Corpus
from topicstream.engines import engines, find
from topicstream.ingestion.parse.reader import reader_named, readers


def help_of_new_program(name: str, place: Path) -> str:
    """Return a command's help from a program that has imported no command yet."""
    site = os.pathsep.join([str(place / "site"), *sys.path])
    return subprocess.run(
        [sys.executable, "-m", "topicstream", name, "--help"],
        env={**os.environ, "PYTHONPATH": site},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_options_whose_annotations_are_types():
    """As in a package that does not import annotations from __future__."""
    options = dataclasses.make_dataclass(
        "Mine",
        [("inner", int, option(2, "updates", min=1)), ("fast", bool, option(False, "hurry"))],
    )
    inner, fast = (click_option(field) for field in dataclasses.fields(options))
    assert inner.type is click.INT and fast.is_flag


def test_an_engine_a_method_and_a_reader_of_another_package(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    told = command(capsys, "engines")
    assert "unigrams" in told and "Nigam" in told
    command(
        capsys,
        "train",
        "--algo",
        "unigrams",
        "-K",
        "3",
        "--sharpness",
        "0.9",
        "--passes",
        "20",
        "--tol",
        "0",
    )
    assert json.loads(Path("model/training.json").read_text())["options"]["sharpness"] == 0.9
    top = topicstream.TopicModel.open("model").top_words(5).to_pylist()
    assert [len({word.rstrip("0123456789") for word in row["words"]}) for row in top] == [1, 1, 1]
    dull, sharp = (
        [
            json.loads(line)
            for line in command(
                capsys, "infer", "corpus.zarr", *more, "--out", "x.jsonl", "--force"
            )
            or Path("x.jsonl").read_text().splitlines()
        ]
        for more in ((), ("--method", "sharp", "--power", "8"))
    )
    assert len(sharp) == 90 and np.mean([max(d["shares"]) for d in sharp]) > np.mean(
        [max(d["shares"]) for d in dull]
    )
    table = topicstream.infer(
        "model", topicstream.Corpus.open("corpus.zarr"), method="sharp", options={"power": 8.0}
    )
    assert table["shares"].to_pylist()[7] == pytest.approx(sharp[7]["shares"], abs=1e-5)
    assert "--power" in command(capsys, "infer", "--method", "sharp", "--help")
    assert "--sharpness" in command(capsys, "train", "--algo", "unigrams", "--help")


def test_a_start_of_another_package(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    hashes = []
    for seed in ("0", "0", "1"):
        command(
            capsys,
            *("train", "--algo", "bp", "-K", "3", "--passes", "2", "--start", "noisy-mean"),
            *("--seed", seed, "--force"),
        )
        hashes.append(content_hash(Path("model")))
    assert hashes[0] == hashes[1] != hashes[2]
    assert json.loads(Path("model/training.json").read_text())["start"] == "noisy-mean"
    assert run(["train", "-K", "3", "--start", "noisymean", "-q", "--force"]) == 2
    assert run(["train", "--algo", "anchors", "-K", "3", "--start", "points", "-q", "--force"]) == 2


def test_a_format_and_a_converter_of_another_package(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    command(capsys, "train", "-K", "3", "--passes", "5")
    assert "word-topics" in help_of_new_program("export", place)
    command(capsys, "export", "--out", "a.words")
    model = topicstream.TopicModel.open("model")
    counts = model.convert("to_dict")
    wanted = {word: int(np.argmax(row)) for word, row in counts.items()}
    assert len(wanted) == model.n_words
    lines = [line.split("\t") for line in Path("a.words").read_text().splitlines()]
    assert {word: int(topic) for word, topic in lines} == wanted
    with pytest.raises(UsageError, match=r"TopicModel.convert to_dct: not known; did you mean to_"):
        model.convert("to_dct")


def test_an_option_and_a_part_of_a_model_of_another_package(installed, place, capsys, monkeypatch):
    for module in ("topicstream.cli.train", "topicstream.cli.info"):  # options come at import
        monkeypatch.delitem(sys.modules, module)
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    printed = json.loads(
        command(capsys, "train", "-K", "3", "--passes", "3", "--note-largest", "--json")
    )
    share = float(topicstream.TopicModel.open("model").shares.max())
    assert printed["largest"]["share"] == pytest.approx(share) and printed["passes"] == 3
    alone = json.loads(command(capsys, "train", "--note-largest", "--json"))
    assert alone == {"model": "model", "largest": printed["largest"]}
    assert json.loads(command(capsys, "info", "model", "--json"))["largest"]["share"] == share
    assert f"largest      {share:.3f} of the tokens" in command(capsys, "info", "model")


def test_a_view_that_an_engine_has_in_the_place_of_topics(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    command(capsys, "train", "--algo", "unigrams", "-K", "3", "--passes", "3")
    assert "###" in command(capsys, "show")
    command(capsys, "train", "-K", "3", "--passes", "3", "--model", "plain")
    assert "###" not in command(capsys, "show", "--model", "plain")


def test_a_command_of_another_package(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    command(capsys, "train", "-K", "3", "--passes", "3")
    printed = json.loads(command(capsys, "sizes", "--json"))
    assert printed["shares"] == pytest.approx(list(topicstream.TopicModel.open("model").shares))
    assert run(["sizzes", "-q"]) == 2
    assert "did you mean 'sizes'?" in capsys.readouterr().err
    assert run(["--help"]) == 0
    listed = capsys.readouterr().out
    assert "Command of the package topicstream-example." in listed


def test_a_view_of_another_package(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    command(capsys, "train", "-K", "3", "--passes", "5")
    found = json.loads(command(capsys, "show", "--sizes", "--json"))["topics"]
    assert sum(row["share"] for row in found) == pytest.approx(1) and len(found) == 3
    assert (
        command(capsys, "show", "--sizes", "--width", "7", "-n", "1")
        .rstrip()
        .endswith(" " + 7 * "#")
    )
    assert "Sizes of topics (--sizes)" in command(capsys, "show", "--help")
    assert (
        run(["show", "--width", "7"]) == 2
        and "--width belongs to: Sizes of topics" in capsys.readouterr().err
    )
    assert run(["show", "--sizes", "--docs", "3"]) == 2
    assert "--docs does not apply to: Sizes of topics (--sizes)" in capsys.readouterr().err


def test_a_sampler_by_proposals_finds_the_topics_and_every_token_is_counted(
    installed, place, capsys
):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    command(
        capsys, "train", "--algo", "warp", "-K", "3", "--passes", "60", "--tol", "0", "--turns", "3"
    )
    top = topicstream.TopicModel.open("model").top_words(5).to_pylist()
    assert [len({word.rstrip("0123456789") for word in row["words"]}) for row in top] == [1, 1, 1]
    history = [json.loads(line) for line in Path("model/history.jsonl").read_text().splitlines()]
    assert (
        history[-1]["objective"]["log p(z) a token"] > history[1]["objective"]["log p(z) a token"]
    )
    assert history[-1]["joint_loglik"] > history[1]["joint_loglik"]


@pytest.mark.parametrize("algo", ["unigrams", "warp"])
def test_the_same_for_any_number_of_threads(installed, place, algo):
    topicstream.ingest([Path("text.para")], min_df=1, max_df=1.0, heldout=0, mem_limit="1G")
    found = []
    for threads in (1, 2):
        topicstream.train(
            algo=algo,
            topics=3,
            passes=3,
            block_cells=200,
            threads=threads,
            force=True,
            progress=False,
        )
        found.append(topicstream.TopicModel.open("model").rows(np.arange(60)))
    assert np.array_equal(*found)


def test_what_is_broken_or_not_there_is_said(installed, place, caplog):
    with pytest.raises(
        TopicsError, match="broken: the package topicstream-example cannot be loaded"
    ):
        reader_named("broken")
    assert {"paragraphs", "jsonl"} <= set(readers()) and "broken" not in readers()
    assert "cannot be loaded" in caplog.text
    with pytest.raises(InputError, match="--format paragraph: not known; did you mean paragraphs"):
        reader_named("paragraph")
    with pytest.raises(TopicsError, match="sharpness must be at most 1"):
        topicstream.ingest([Path("text.para")], min_df=1, max_df=1.0, heldout=0)
        topicstream.train(algo="unigrams", topics=3, options={"sharpness": 2.0}, progress=False)


def test_our_names_cannot_be_taken_and_nothing_is_there_without_the_package(monkeypatch):
    forget()
    assert "unigrams" not in engines()

    ours = find("bp")
    theirs = [EntryPoint(name, "nowhere:NAME", "group") for name in ("bp", "jsonl")]
    monkeypatch.setattr(plugins, "entry_points", lambda: EntryPoints(theirs))
    forget()
    assert find("bp") is ours
    assert reader_named("jsonl").name == "jsonl"
    monkeypatch.undo()
    forget()


def test_an_executor_of_another_package_gives_the_same_bits(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    given = {
        "algo": "atbp",
        "topics": 3,
        "passes": 3,
        "block_cells": 4000,
        "threads": 2,
        "progress": False,
    }
    topicstream.train("corpus.zarr", "here", **given)
    topicstream.train("corpus.zarr", "there", executor="processes", **given)
    assert content_hash(Path("here")) == content_hash(Path("there"))
    with pytest.raises(
        UsageError, match="executor nowhere: not known; choose one of dask, processes"
    ):
        topicstream.train("corpus.zarr", "m", executor="nowhere", **given)


@pytest.mark.product
def test_a_scheduler_of_another_package_gives_the_same_files(installed, place, capsys):
    """Verbs that only score: tests/base/test_cluster.py."""
    there = ["--scheduler", "processes:2"]
    read = ["ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "20%"]
    command(capsys, *read, "--out", "corpus.zarr")
    command(capsys, *read, "--out", "other.zarr", *there)
    prints = [topicstream.Corpus.open(f"{name}.zarr").fingerprint for name in ("corpus", "other")]
    assert prints[0] == prints[1]
    for name, more in (("model", []), ("elsewhere", there)):
        command(capsys, "train", "-K", "3", "--passes", "5", "--model", name, *more)
    assert content_hash(Path("model")) == content_hash(Path("elsewhere"))
    command(capsys, "infer", "corpus.zarr", "--out", "one.jsonl")
    command(capsys, "infer", "corpus.zarr", "--out", "two.jsonl", *there)
    assert Path("one.jsonl").read_bytes() == Path("two.jsonl").read_bytes()


@pytest.mark.parametrize("value", ["local:2", "tcp://127.0.0.1:9", "10.0.0.5:8786", "file.json"])
def test_without_the_dask_addon_a_scheduler_is_one_line(
    installed, place, capsys, monkeypatch, value
):
    """Everything else works, and schedulers of other packages are named."""
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "9%")
    addons = {name: table for name, table in plugins.addons().items() if name != "cluster"}
    monkeypatch.setattr(plugins, "addons", lambda: addons)
    plugins.own_names.cache_clear()
    forget()
    before = sorted(place.iterdir())
    try:
        for line in ("train -K 3", "ingest text.para --out d.zarr", "sweep -K 3 --out s"):
            assert run([*line.split(), "--scheduler", value, "-q"]) == 2
            assert capsys.readouterr().err.strip() == (
                f"topics: --scheduler {value}: no installed package provides this "
                f"scheduler; give processes:..., or leave the option out"
            )
        assert sorted(place.iterdir()) == before
        command(capsys, "train", "-K", "3", "--passes", "2")
    finally:
        plugins.own_names.cache_clear()


def test_a_scheduler_of_another_package_refuses_a_value(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    assert run(["train", "-K", "3", "--scheduler", "processes:many", "-q"]) == 2
    assert "give a number of processes from 1 on" in capsys.readouterr().err


def test_a_scorer_of_another_package(installed, place, capsys):
    command(capsys, "ingest", "text.para", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    command(capsys, "train", "-K", "3", "--passes", "5")
    found = json.loads(command(capsys, "eval", "--score", "evenness", "--diversity", "--json"))
    assert 0.9 < found["evenness"]["value"] <= 1.0 and found["evenness"]["measured"]
    said = f"evenness              value {found['evenness']['value']:.4g}"
    assert said in command(capsys, "eval", "--score", "evenness")
    assert "diversity" in found and "coherence" not in found and "corpus" not in found
    for wrong, why in (("nothing", "evenness"), ("heldout", "ours have options of their own")):
        with pytest.raises(UsageError, match=f"--score {wrong}: .*{why}"):
            topicstream.evaluate("model", score=wrong)


def test_a_method_with_options_of_its_own_that_reads_a_field_of_all_documents(
    installed, place, capsys
):
    lines = Path("text.para").read_text().split("\n\n")
    records = [
        json.dumps({"id": str(d), "text": text, "forum": f"f{d // 30}"}) + "\n"
        for d, text in enumerate(lines)
    ]
    Path("docs.jsonl").write_text("".join(records))
    fields = ("--meta", "forum=forum", "--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    command(capsys, "ingest", "docs.jsonl", "--id-field", "id", *fields)
    command(capsys, "train", "-K", "3", "--passes", "20")

    def answers(*options: str, documents: str = "corpus.zarr") -> np.ndarray:
        told = command(capsys, "infer", documents, "--method", "pooled", *options).splitlines()
        rows = [json.loads(line) for line in told]
        assert {row["forum"] for row in rows} == {"f0", "f1", "f2"}
        return np.array([row["shares"] for row in rows])

    own = answers("--group-by", "forum", "--pull", "0")
    group = answers("--group-by", "forum", "--pull", "100%")
    assert all(np.ptp(group[30 * f : 30 * f + 30], axis=0).max() == 0 for f in range(3))
    assert np.allclose(own.max(axis=1), own.max(axis=1).max(), atol=0.1) and group.max() < 0.6
    assert np.allclose(
        answers("--group-by=forum", "--pull=.25"), 0.75 * own + 0.25 * group, atol=1e-5
    )
    assert np.allclose(
        answers("--group-by", "forum", documents="docs.jsonl"), (own + group) / 2, atol=1e-5
    )
    assert not np.allclose(
        answers("--group-by", "forum", "--pull", "1", "--group-words", "presence"), group, atol=1e-7
    )
    table = topicstream.infer(
        "model",
        Path("docs.jsonl"),
        method="pooled",
        group_by="forum",
        pull=0.25,
        with_columns="forum",
    )
    assert np.allclose(table["shares"].to_pylist(), 0.75 * own + 0.25 * group, atol=1e-5)
    assert "--group-words [counts|presence]" in command(
        capsys, "infer", "--method", "pooled", "--help"
    )
    for wrong, code, reason in (
        ((), 2, "--method pooled: say whose values make the groups, --group-by FIELD"),
        (("--group-by", "forum", "--pull", "2"), 2, "--pull"),
        (
            ("--group-by", "forum", "--group-words", "all"),
            2,
            "'all' is not one of 'counts', 'presence'",
        ),
        (("--group-by", "subject"), 2, "--with subject: corpus.zarr has no such column"),
        (("--power", "3"), 2, "--power belongs to: Options of --method sharp"),
    ):
        assert run(["infer", "corpus.zarr", "--method", "pooled", *wrong, "-q"]) == code
        assert reason in capsys.readouterr().err
    assert run(["infer", "-", "--follow", "--method", "pooled", "--group-by", "forum"]) == 2
    assert (
        "--follow: --method pooled with these options needs all documents before it answers"
        in capsys.readouterr().err
    )


def test_addresses_of_another_package(installed, place, capsys):
    files = importlib.import_module("topicstream_example.places").FILES
    lines = Path("text.para").read_text().split("\n\n")
    for half, texts in (("a", lines[:45]), ("b", lines[45:])):
        rows = (json.dumps({"text": text}) + "\n" for text in texts)
        files[f"mem://docs/{half}.jsonl"] = "".join(rows).encode()
        Path("docs").mkdir(exist_ok=True)
        Path("docs", f"{half}.jsonl").write_bytes(files[f"mem://docs/{half}.jsonl"])
    files["mem://docs/_SUCCESS"] = b""
    words = ("--min-df", "1", "--max-df", "1.0", "--heldout", "0")
    command(capsys, "ingest", "docs", *words, "--out", "here.zarr")
    command(capsys, "ingest", "mem://docs", *words, "--out", "there.zarr")
    here = Corpus.open("here.zarr")
    there = Corpus.open("there.zarr")
    assert there.n_docs == 90 and there.n_tokens == here.n_tokens
    # the same ingest is known again, and one of changed files is not
    again = json.loads(
        command(capsys, "ingest", "mem://docs", *words, "--out", "there.zarr", "--json")
    )
    assert again["finished_before"]
    files["mem://docs/b.jsonl"] += b'{"text": "sea1 sky1"}\n'
    assert run(["ingest", "mem://docs", *words, "--out", "there.zarr", "-q"]) == 1
    capsys.readouterr()
    for args, line in (
        (["ingest", "mem://none", "--out", "x.zarr"], "mem://none: no such object"),
        (["ingest", "mem://docs", "--out", "mem://x"], "mem://x: addresses are read only"),
        (["info", "mem://docs"], "mem://docs: stores and models are not read from such addresses"),
    ):
        assert run([*args, "-q"]) in (2, 3)
        assert line in capsys.readouterr().err
