"""An append reads like the ingest that made the store: text, ids and every column of metadata."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import topicstream
from tests.listening import Listening
from topicstream.base.errors import InputError
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus

FIRST = [
    {"nr": "1", "day": "31.01.2020", "by": "Ann; Bob", "party": "A", "body": "apple banana"},
    {"nr": "2", "day": "01.02.2020", "by": "Eve", "party": "B", "body": "banana"},
]
SECOND = [
    {"nr": "2", "day": "01.03.2021", "by": "Eve; Ann", "party": "C", "body": "apple"},
    {"nr": "3", "day": "02.03.2021", "by": "Bob", "party": "C", "body": "apple banana"},
]
READ = {
    "text_field": "body",
    "id_field": "nr",
    "meta": "date=day,authors=by,party",
    "date_format": "%d.%m.%Y",
}
RULES = {"min_df": 1, "max_df": 1.0, "heldout": 0}


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path)


def write_arrow(path: Path, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows)
    with pa.OSFile(str(path), "w") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], None]] = {
    "jsonl": write_lines,
    "csv": write_csv,
    "tsv": lambda path, rows: (
        path.write_text(
            "\n".join("\t".join(row) for row in [[*rows[0]], *(list(r.values()) for r in rows)])
            + "\n"
        )
        and None
    ),
    "parquet": write_parquet,
    "arrow": write_arrow,
}


def documents(store: str) -> dict[str, dict[str, Any]]:
    """id -> metadata of the documents that are there."""
    found = {}
    corpus = Corpus.open(store)
    columns = [name for name in corpus.manifest.columns if name not in ("id", "source")]
    for batch in corpus.documents(columns, parts=("train",)):
        for row in batch.to_pylist():
            found[row["id"]] = {name: row.get(name) for name in columns}
    return found


WANT = {
    "1": {"date": "2020-01-31", "authors": ["Ann", "Bob"], "party": "A"},
    "2": {"date": "2021-03-01", "authors": ["Eve", "Ann"], "party": "C"},
    "3": {"date": "2021-03-02", "authors": ["Bob"], "party": "C"},
}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


PAIRS = [*zip(WRITERS, [*list(WRITERS)[1:], "jsonl"]), ("csv", "csv")]
"""Every format before another one, every format after another one, and one after itself."""


@pytest.mark.quick("csv-tsv", "jsonl-csv")
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_an_append_keeps_the_fields_that_the_store_keeps(first, second):
    WRITERS[first](Path(f"a.{first}"), FIRST)
    WRITERS[second](Path(f"b.{second}"), SECOND)
    topicstream.ingest(Path(f"a.{first}"), "s.zarr", **READ, **RULES)
    told = Listening()
    done = topicstream.ingest(
        Path(f"b.{second}"), "s.zarr", append=True, on_duplicate="replace", progress=told
    )
    assert documents("s.zarr") == WANT
    assert done["columns"] == {"date": 2, "authors": 2, "party": 2}
    assert done["fields_left_out"] == []
    assert not any("came without" in line for line in told.said)


@pytest.mark.quick("from_pylist")
@pytest.mark.parametrize("make", [list, pa.Table.from_pylist, iter])
def test_an_append_of_documents_in_memory_keeps_them_too(make):
    topicstream.ingest(make(FIRST), "s.zarr", **READ, **RULES)
    options = {"append": True, "on_duplicate": "replace", "text_field": "body"}
    topicstream.ingest(make(SECOND), "s.zarr", **options)
    assert documents("s.zarr") == WANT


def test_strings_and_matrices_can_be_appended_to_a_store_with_fields():
    named = [row | {"nr": f"n{row['nr']}"} for row in FIRST]
    topicstream.ingest(named, "s.zarr", **READ, **RULES)
    topicstream.ingest(["apple"], "s.zarr", append=True)
    assert set(documents("s.zarr")) == {"n1", "n2", "2"}
    table = pa.table({"text": ["banana"], "nr": ["9"]})
    topicstream.ingest(table, "s.zarr", append=True)
    assert documents("s.zarr")["9"] == {"date": None, "authors": None, "party": None}


@pytest.mark.quick("arrow")
@pytest.mark.parametrize("form", WRITERS)
def test_a_file_without_a_remembered_field_has_none_and_a_named_one_is_required(form):
    WRITERS[form](Path(f"a.{form}"), FIRST)
    without = [{k: v for k, v in row.items() if k != "party"} for row in SECOND]
    WRITERS[form](Path(f"b.{form}"), without)
    topicstream.ingest(Path(f"a.{form}"), "s.zarr", **READ, **RULES)
    topicstream.ingest(Path(f"b.{form}"), "s.zarr", append=True, on_duplicate="replace")
    have = documents("s.zarr")
    assert have["3"] == WANT["3"] | {"party": None}
    if form != "jsonl":  # whose records may each lack a field
        with pytest.raises(InputError, match="no column 'party'"):
            topicstream.ingest(Path(f"b.{form}"), "s.zarr", append=True, meta="party")


def test_a_field_that_an_append_names_stands_for_its_column_and_new_ones_are_remembered():
    topicstream.ingest(FIRST, "s.zarr", **READ, **RULES)
    other = {"nr": "3", "body": "apple", "when": "05.06.2022", "by": "Ann", "party": "D", "x": "u"}
    write_lines(Path("b.jsonl"), [other])
    topicstream.ingest(
        Path("b.jsonl"), "s.zarr", append=True, meta="date=when,kind=x", text_field="body"
    )
    want = {"date": "2022-06-05", "authors": ["Ann"], "party": "D", "kind": "u"}
    assert documents("s.zarr")["3"] == want
    meta = Corpus.open("s.zarr").manifest.reading["meta"]
    assert meta == {"date": "day", "authors": "by", "party": "party", "kind": "x"}


def test_the_fields_of_a_path_are_kept_by_an_append():
    for name, rows in (("a/lang=en", FIRST), ("b/lang=de", SECOND)):
        Path(name).mkdir(parents=True)
        write_lines(Path(name) / "part.jsonl", rows)
    read = READ | {"meta": "lang,party"}
    topicstream.ingest(Path("a"), "s.zarr", **read, **RULES)
    topicstream.ingest(Path("b"), "s.zarr", append=True, on_duplicate="replace")
    have = {key: row["lang"] for key, row in documents("s.zarr").items()}
    assert have == {"1": "en", "2": "de", "3": "de"}


def test_labels_and_links_of_records_are_kept_by_an_append():
    first = [{"id": "1", "text": "apple", "tags": "x;y", "cites": "2"}]
    second = [{"id": "2", "text": "apple", "tags": "y", "cites": "1"}]
    write_lines(Path("a.jsonl"), first)
    write_lines(Path("b.jsonl"), second)
    topicstream.ingest(Path("a.jsonl"), "s.zarr", meta="labels=tags,links=cites", **RULES)
    done = topicstream.ingest(Path("b.jsonl"), "s.zarr", append=True)
    assert done["axes"] == {"labels": 2}
    assert documents("s.zarr")["2"] == {"labels": ["y"], "links": ["1"]}


def test_documents_that_lose_the_fields_of_a_side_file_are_said_to(capsys):
    write_lines(Path("a.jsonl"), [{"id": "1", "text": "apple"}, {"id": "2", "text": "apple"}])
    write_lines(Path("b.jsonl"), [{"id": "2", "text": "apple apple"}])
    Path("side.tsv").write_text("id\tmood\n1\tgood\n2\tbad\n")
    base = ["--min-df", "1", "--max-df", "1.0", "--heldout", "0"]
    made = ["ingest", "a.jsonl", "--out", "s.zarr", "--meta-file", "side.tsv", *base]
    assert run(made) == 0
    append = ["ingest", "b.jsonl", "--out", "s.zarr", "--append", "--on-duplicate", "replace"]
    assert run(append) == 0
    out, err = capsys.readouterr()
    warning = "warning: the store has mood of its documents, but these came without"
    assert warning in err
    assert "1 document replaced by them had these fields" in err
    assert "columns that no added document has: mood" in out
    assert run([*append, "--meta-file", "side.tsv", "-q"]) == 0
    assert documents("s.zarr")["2"] == {"mood": "bad"}


def test_infer_finds_the_columns_by_the_names_of_the_fields(capsys):
    many = [row | {"nr": f"{i}{row['nr']}"} for i in range(20) for row in FIRST]
    write_lines(Path("a.jsonl"), many)
    write_lines(Path("b.jsonl"), SECOND)
    topicstream.ingest(Path("a.jsonl"), "s.zarr", **READ, **RULES)
    topicstream.train("s.zarr", "m", topics=2, passes=2)
    capsys.readouterr()
    line = ["infer", "b.jsonl", "--model", "m", "--with", "date,authors,party", "-q"]
    assert run(line) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["date"] for row in rows] == ["01.03.2021", "02.03.2021"]
    assert [row["party"] for row in rows] == ["C", "C"]
    assert [row["authors"] for row in rows] == [["Eve", "Ann"], ["Bob"]]


CALLED = {"lines": "k.txt:1", "jsonl": "k.jsonl:1", "files": "k.txt"}


def write_day(day, form, words):
    path = Path(day, CALLED[form].partition(":")[0])
    path.parent.mkdir()
    path.write_text(json.dumps({"text": words}) if form == "jsonl" else words)
    return path


@pytest.mark.parametrize("form", CALLED)
def test_documents_called_by_their_file_are_told_from_duplicates(form, capsys):
    """The next day's file of the same name holds other documents, which are no duplicates."""
    first = write_day("monday", form, "apple pear plum")
    second = write_day("tuesday", form, "apple pear cherry")
    options = ["--format", form, "-q"]
    assert run(["ingest", str(first), "--out", "s.zarr", *options, "--min-df", "1"]) == 0
    said = f"first skipped: {CALLED[form]}; documents without ids are called by their files; if"
    assert said not in capsys.readouterr().out
    append = ["ingest", str(second), "--out", "s.zarr", "--append", *options]
    assert run([*append, "--on-duplicate", "fail"]) == 3
    assert "called by their files; if these are others, rename the file" in capsys.readouterr().err
    assert run([*append]) == 0
    assert said in capsys.readouterr().out
    second.rename(second.with_stem("other"))
    append[1] = str(second.with_stem("other"))
    assert run([*append, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["documents"] == 2
    assert "place_taken" not in summary


def test_a_document_with_the_id_of_another_is_a_duplicate(capsys):
    Path("a.jsonl").write_text('{"id": "x", "text": "apple pear"}')
    Path("b.jsonl").write_text('{"id": "x", "text": "apple cherry"}')
    assert run(["ingest", "a.jsonl", "--out", "s.zarr", "--min-df", "1", "-q"]) == 0
    assert run(["ingest", "b.jsonl", "--out", "s.zarr", "--append", "-q"]) == 0
    said = capsys.readouterr().out
    assert "1 duplicate skipped" in said
    assert "called by their files" not in said
