"""Every option of the everyday commands by itself, on documents of several files and two languages.

A command ends well or refuses in the documented way (one line; exit code 2, 3 or 5).  Stores are the same bytes, and models
the same content, for any number of workers and threads.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from tests.ingest_tools import digest
from tests.options.values import cases
from topicstream.cli.main import run

ENGLISH = ["the", "and", "of", "river", "mountain", "village", "water", "stone", "walking", "walked", "walks", "tree", "forest", "forests", "night", "morning", "singing", "sang"]
GERMAN = ["der", "und", "die", "fluss", "berg", "dorf", "wasser", "stein", "gehen", "ging", "geht", "baum", "wald", "wälder", "nacht", "morgen", "singen", "sang", "häuser", "straße"]
REFUSALS = (2, 3, 5)


def write_documents(folder: Path) -> None:
    """900 documents in nine files, with fields of every kind, and the files that options name."""
    draw = random.Random(5)
    (folder / "folder").mkdir()
    number = 0
    for name in range(9):
        lines = []
        for _ in range(100):
            words = ENGLISH if number % 3 else GERMAN
            parts = [" ".join(draw.choice(words) + draw.choice(["", "", "s", "en"]) for _ in range(15)) for _ in range(3)]
            record = {
                "id": str(number), "key": f"k{number}", "text": "\n\n".join(parts), "title": " ".join(draw.choice(words) for _ in range(4)),
                "year": str(1990 + number % 20), "group": draw.choice(["red", "blue"]), "authors": draw.choice(["ann;bob", "ann", "eve"]),
                "labels": draw.choice(["nature", "people", "nature;people"]),
            }  # fmt: skip
            lines.append(json.dumps(record, ensure_ascii=False))
            number += 1
        (folder / "folder" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "side.tsv").write_text("id\tmood\n" + "".join(f"{i}\tmood{i % 3}\n" for i in range(900)))
    (folder / "rows.tsv").write_text("".join(f"{i + 1}\tmood{i % 3}\n" for i in range(900)))
    (folder / "links.tsv").write_text("".join(f"{i}\t{(7 * i) % 900}\n" for i in range(900)))
    (folder / "stop.txt").write_text("river\nfluss\n")
    (folder / "words.txt").write_text("\n".join(sorted({*ENGLISH, *GERMAN})) + "\n")
    (folder / "seeds.txt").write_text("river water\nberg stein\n")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """Documents, a store with metadata and a model of it."""
    folder = tmp_path_factory.mktemp("options")
    write_documents(folder)
    meta = ["--meta", "date=year", "--meta", "group", "--meta", "authors", "--meta", "labels"]
    store, model = str(folder / "c.zarr"), str(folder / "trained")
    assert run(["ingest", str(folder / "folder"), *meta, "--links", str(folder / "links.tsv"), "--out", store, "-q"]) == 0
    assert run(["train", "--corpus", store, "--model", model, "-K", "6", "--passes", "4", "--algo", "sparse-bp", "-q"]) == 0
    return folder


@pytest.fixture
def here(prepared, monkeypatch) -> Path:
    monkeypatch.chdir(prepared)
    return prepared


def ended(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """The exit code, which must be 0 or that of a refusal in one line."""
    capsys.readouterr()
    code = run(arguments)
    said = capsys.readouterr().err
    assert "internal error" not in said, said
    assert code in (0, *REFUSALS), (code, said)
    if code:
        assert said.strip(), arguments
    return code


@pytest.mark.parametrize("case", cases("ingest"), ids=" ".join)
def test_ingest(here, case, capsys):
    digests, codes = set(), set()
    for workers in ("1", "2", "4"):
        codes.add(ended(["ingest", "folder", "--out", "tried.zarr", "--workers", workers, "--force", *case], capsys))
        if codes == {0}:
            digests.add(digest(here / "tried.zarr"))
    assert len(codes) == 1 and len(digests) <= 1
    assert codes != {0} or digests
    if codes != {0}:
        assert not list(here.glob("tried.zarr.wip")), "a refused ingest left its working folder"
    shutil.rmtree(here / "tried.zarr", ignore_errors=True)


@pytest.mark.parametrize("case", cases("train"), ids=" ".join)
def test_train(here, case, capsys):
    topics = [] if "--topics" in case else ["--topics", "5"]
    passes = [] if "--passes" in case else ["--passes", "4"]
    codes, contents = set(), set()
    for threads in ("1", "2"):
        shutil.rmtree("tried", ignore_errors=True)
        command = ["train", "--corpus", "c.zarr", "--model", "tried", "--threads", threads, *topics, *passes, *case]
        codes.add(code := ended(command, capsys))
        if not code:
            chunks = sorted(p for p in Path("tried").glob("topics*/c/**/*") if p.is_file())
            contents.add(b"".join(p.read_bytes() for p in chunks))
    assert len(codes) == 1 and len(contents) <= 1


@pytest.mark.parametrize("case", cases("infer"), ids=" ".join)
def test_infer(here, case, capsys):
    source = "c.zarr" if {"--part", "--with", "--trained-on"} & set(case) else "folder/0.jsonl"
    answers, codes = set(), set()
    for threads in ("1", "2"):
        codes.add(code := ended(["infer", source, "--model", "trained", "--out", "o.jsonl", "--force", "--threads", threads, *case], capsys))
        if not code:
            answers.add(Path("o.jsonl").read_bytes())
    assert len(codes) == 1 and len(answers) <= 1


@pytest.mark.parametrize("command", ["eval", "report", "show"])
def test_reading_commands(here, command, capsys):
    """One test a command: each of its cases takes a moment."""
    model = ["trained"] if command == "report" else ["--model", "trained"]
    refused = []
    for case in cases(command):
        extra = ["--out", "r.html", "--force"] if command == "report" else ["--force"] if "--per-document" in case else []
        extra += ["--over-time"] if command == "show" and "--period" in case else []
        extra += ["--force"] if command == "show" and {"--theta", "--out", "--plot"} & set(case) else []
        if ended([command, *model, "--corpus", "c.zarr", *extra, *case], capsys):
            refused.append(case)
    assert len(refused) <= len(cases(command)) // 3, refused
