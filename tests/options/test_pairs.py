"""Every two options of a command together.

On made documents, with several workers (quick: one part of several).  Slow, too: on real corpora
where they are there.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from itertools import chain, combinations, islice
from pathlib import Path

import pytest

import tests
from tests.options import running
from tests.options.values import EXCLUDING, REFUSED, Case, cases, excluding, first_values, lines
from topicstream.cli.main import run

DATA = Path(os.environ.get("TOPICS_DATA") or tests.DATA)
DOCUMENTS = 600
PIECES = 5


Try = Callable[[Case], int]
"""Runs a command with some options; its exit code."""


def tried_together(command_lines: list[list[Case]], code_of: Try) -> None:
    """Lines of several options; where one is refused, without each of two that do not go together,
    else two by two.
    """

    def tried(line: list[Case]) -> bool:
        return not code_of(tuple(chain(*line)))

    for line in command_lines:
        if not tried(line):
            accepted = 0
            for case in line:
                accepted += tried([other for other in line if other is not case])
                if accepted == 2:
                    break
            else:
                for pair in combinations(line, 2):
                    tried(list(pair))


@pytest.mark.product
@pytest.mark.parametrize("part", range(12))
def test_ingest(here, part, capsys):
    for line in lines("ingest", REFUSED, size=16)[part::12]:
        assert not running.ingested("folder", tuple(chain(*line)), ("1", "4"), capsys), line


@pytest.mark.product
@pytest.mark.parametrize("part", range(6))
def test_train(here, part, capsys):
    for line in lines("train", size=16)[part::6]:
        assert not running.trained(tuple(chain(*line)), ("1", "2"), capsys), line


@pytest.mark.parametrize("command", ["ingest", "show"])
def test_options_that_exclude_each_other_are_refused(here, command, capsys):
    """So that pairs which the lines above leave out are tried, too."""
    first = first_values(command, REFUSED).values()
    pairs = [(a, b) for a, b in combinations(first, 2) if excluding(command, a, b)]
    assert len(pairs) >= len(EXCLUDING.get(command, ())) and pairs
    for a, b in pairs:
        start = (
            ["ingest", "folder", "--out", "tried.zarr"]
            if command == "ingest"
            else [command, "--model", "trained", "--corpus", "c.zarr"]
        )
        assert running.ended([*start, *a, *b], capsys) in running.REFUSALS, (a, b)


@pytest.mark.product
@pytest.mark.parametrize("command", ["infer", "eval", "report", "show"])
def test_reading_commands(here, command, capsys):
    def code_of(case: Case) -> int:
        if command == "infer":
            return running.inferred("folder/0.jsonl", case, ("2",), capsys)
        return running.read(command, case, capsys)

    refused = [case for case in cases(command) if code_of(case)]
    assert len(refused) <= len(cases(command)) // 3, refused
    tried_together(lines(command, refused), code_of)


@pytest.fixture(scope="module", params=["acl", "reuters21578", "20news"])
def real(request, tmp_path_factory) -> Path:
    """Documents of a real corpus in several files beside the made ones, a store and a model of
    them, and files for options.
    """
    source = DATA / request.param / "docs.jsonl.gz"
    if not source.exists():
        pytest.skip(f"{source} is not there")
    folder = tmp_path_factory.mktemp(request.param)
    running.write_documents(folder)
    with gzip.open(source, "rt", encoding="utf-8") as stream:
        records = [json.loads(line) for line in islice(stream, DOCUMENTS)]
    for number, record in enumerate(records):
        several = {
            name: ";".join(v) if isinstance(v := record.get(name, ""), list) else str(v)
            for name in ("authors", "labels")
        }
        record |= {
            "id": f"r{number}",
            "key": f"k{number}",
            "title": record.get("title") or " ".join(record["text"].split()[:4]),
            "year": str(record.get("date") or 1990 + number % 20)[:4],
            "group": ("red", "blue")[number % 2],
            "authors": several["authors"] or "ann;bob",
            "labels": several["labels"] or "nature",
        }
    for piece in range(PIECES):
        some = records[piece::PIECES]
        (folder / "folder" / f"real-{piece}.jsonl").write_text(
            "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in some)
        )
    running.make_store_and_model(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", ["ingest", "train", "infer", "eval", "report", "show"])
def test_on_real_documents(real, monkeypatch, command, capsys):
    monkeypatch.chdir(real)

    def code_of(case: Case, workers: tuple[str, ...] = ("1", "4")) -> int:
        if command == "ingest":
            return running.ingested("folder", case, workers, capsys)
        if command == "train":
            return running.trained(case, workers, capsys)
        if command == "infer":
            return running.inferred("folder/real-0.jsonl", case, workers, capsys)
        return running.read(command, case, capsys)

    refused = [case for case in cases(command) if code_of(case, ("4",))]
    tried_together(
        lines(command, refused, size=16 if command in ("ingest", "train") else 8), code_of
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "algo",
    [
        "gs",
        *(  # add-ons
            pytest.param(algo, marks=pytest.mark.campaign)
            for algo in ("atm", "llda", "rtm", "fdm", "mixture")
        ),
    ],
)
def test_models_of_other_kinds(prepared, tmp_path, monkeypatch, algo, capsys):
    """Every option of the commands that read a model, on models with tables that ``sparse-bp``
    lacks.
    """
    monkeypatch.chdir(shutil.copytree(prepared, tmp_path / "copy"))
    topics = [] if algo == "llda" else ["-K", "6"]
    assert (
        run(
            [
                "train",
                "--corpus",
                "c.zarr",
                "--model",
                "trained",
                "--algo",
                algo,
                *topics,
                "--passes",
                "4",
                "--force",
                "-q",
            ]
        )
        == 0
    )
    for case in cases("infer"):
        running.inferred("folder/0.jsonl", case, ("1", "2"), capsys)
    for command in ("eval", "report", "show"):
        for case in cases(command):
            running.read(command, case, capsys)
