"""Documents for the tests of options, and checks that a command ends well with any options, or
refuses in one line.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from tests.ingest_tools import digest
from topicstream.cli.main import run

ENGLISH = [
    "the",
    "and",
    "of",
    "river",
    "mountain",
    "village",
    "water",
    "stone",
    "walking",
    "walked",
    "walks",
    "tree",
    "forest",
    "forests",
    "night",
    "morning",
    "singing",
    "sang",
]
GERMAN = [
    "der",
    "und",
    "die",
    "fluss",
    "berg",
    "dorf",
    "wasser",
    "stein",
    "gehen",
    "ging",
    "geht",
    "baum",
    "wald",
    "wälder",
    "nacht",
    "morgen",
    "singen",
    "sang",
    "häuser",
    "straße",
]
REFUSALS = (2, 3, 5)


def write_documents(folder: Path) -> None:
    """450 documents in nine files, with fields of every kind, and the files that options name."""
    draw = random.Random(5)
    (folder / "folder").mkdir()
    number = 0
    for name in range(9):
        lines = []
        for _ in range(50):
            words = ENGLISH if number % 3 else GERMAN
            parts = [
                " ".join(draw.choice(words) + draw.choice(["", "", "s", "en"]) for _ in range(15))
                for _ in range(3)
            ]
            record = {
                "id": str(number),
                "key": f"k{number}",
                "text": "\n\n".join(parts),
                "title": " ".join(draw.choice(words) for _ in range(4)),
                "year": str(1990 + number % 20),
                "group": draw.choice(["red", "blue"]),
                "authors": draw.choice(["ann;bob", "ann", "eve"]),
                "labels": draw.choice(["nature", "people", "nature;people"]),
            }
            lines.append(json.dumps(record, ensure_ascii=False))
            number += 1
        (folder / "folder" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "side.tsv").write_text(
        "id\tmood\n" + "".join(f"{i}\tmood{i % 3}\n" for i in range(450))
    )
    (folder / "rows.tsv").write_text("".join(f"{i + 1}\tmood{i % 3}\n" for i in range(450)))
    (folder / "links.tsv").write_text("".join(f"{i}\t{(7 * i) % 450}\n" for i in range(450)))
    (folder / "stop.txt").write_text("river\nfluss\n")
    (folder / "variants.tsv").write_text("walked\twalking\nging\tgehen\n")
    (folder / "words.txt").write_text("\n".join(sorted({*ENGLISH, *GERMAN})) + "\n")
    (folder / "seeds.txt").write_text(
        '[water]\nwords = ["river", "fluss"]\n[stone]\nwords = ["stein", "stone"]\n'
    )


def make_store_and_model(folder: Path) -> None:
    """Ingest the documents of a folder with their metadata, and train a model of them."""
    metadata = [f"--meta={field}" for field in ("date=year", "group", "authors", "labels")]
    links = ["--links", str(folder / "links.tsv")]
    store = str(folder / "c.zarr")
    ingest = ["ingest", str(folder / "folder"), *metadata, *links, "--out", store, "-q"]
    assert run(ingest) == 0
    places = ["--corpus", store, "--model", str(folder / "trained")]
    settings = ["-K", "6", "--passes", "4", "--algo", "sparse-bp"]
    assert run(["train", *places, *settings, "-q"]) == 0


def ended(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """The exit code, which must be 0 or that of a refusal in one line."""
    capsys.readouterr()
    code = run(arguments)
    message = capsys.readouterr().err
    assert "internal error" not in message, message
    assert code in (0, *REFUSALS), (code, message)
    if code:
        assert message.strip(), arguments
    return code


def ingested(
    source: str, case: tuple[str, ...], workers: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> int:
    """An ingest ends alike, with the same bytes, for any number of workers; refused, it leaves
    nothing.
    """
    digests = set()
    codes = set()
    for number in workers:
        codes.add(
            ended(
                ["ingest", source, "--out", "tried.zarr", "--workers", number, "--force", *case],
                capsys,
            )
        )
        if codes == {0}:
            digests.add(digest(Path("tried.zarr")))
    assert len(codes) == 1 and len(digests) == (codes == {0})
    if codes != {0}:
        assert not Path("tried.zarr.wip").exists(), "a refused ingest left its working folder"
    shutil.rmtree("tried.zarr", ignore_errors=True)
    return codes.pop()


def trained(
    case: tuple[str, ...], threads: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> int:
    """A training ends alike, with the same topics, for any number of threads."""
    topics = [] if "--topics" in case else ["--topics", "5"]
    passes = [] if "--passes" in case else ["--passes", "4"]
    codes = set()
    contents = set()
    for number in threads:
        shutil.rmtree("tried", ignore_errors=True)
        command = [
            "train",
            "--corpus",
            "c.zarr",
            "--model",
            "tried",
            "--threads",
            number,
            *topics,
            *passes,
            *case,
        ]
        codes.add(code := ended(command, capsys))
        if not code:
            chunks = sorted(p for p in Path("tried").glob("topics*/c/**/*") if p.is_file())
            contents.add(b"".join(p.read_bytes() for p in chunks))
    assert len(codes) == 1 and len(contents) == (codes == {0}) and all(contents)
    return codes.pop()


def inferred(
    raw: str, case: tuple[str, ...], threads: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> int:
    """An inference ends alike, with the same answers, for any number of threads."""
    source = "c.zarr" if {"--part", "--with", "--trained-on", "gibbs1"} & set(case) else raw
    case = (
        (*case, "--trained-on", "c.zarr")
        if "gibbs1" in case and "--trained-on" not in case
        else case
    )
    answers = set()
    codes = set()
    for number in threads:
        command = [
            "infer",
            source,
            "--model",
            "trained",
            "--out",
            "o.jsonl",
            "--force",
            "--threads",
            number,
            *case,
        ]
        codes.add(code := ended(command, capsys))
        if not code:
            answers.add(Path("o.jsonl").read_bytes())
    assert len(codes) == 1 and len(answers) == (codes == {0}) and all(answers)
    return codes.pop()


def read(command: str, case: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> int:
    """The exit code of a command that reads a model."""
    model = ["trained"] if command == "report" else ["--model", "trained"]
    extra = (
        ["--out", "r.html", "--force"]
        if command == "report"
        else ["--force"]
        if "--per-document" in case
        else []
    )
    written = [
        argument for argument in case if argument.endswith((".csv", ".html", ".png", ".tex"))
    ]
    extra += ["--force"] if command == "show" and written else []
    return ended([command, *model, "--corpus", "c.zarr", *extra, *case], capsys)
