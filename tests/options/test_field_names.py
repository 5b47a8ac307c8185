"""Names of fields are the same with composed and with decomposed letters, wherever they stand."""

from __future__ import annotations

import csv
import json
import unicodedata
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import topicstream
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus

FORMS = ("NFC", "NFD")
CROSSED = [FORMS, FORMS[::-1]]
"""How names are stored, and how they are asked for."""
TITLE = "größe"
RULES = {"min_df": 1, "max_df": 1.0, "heldout": 0, "progress": False}


def rows_named(form):
    """Documents whose fields have composed or decomposed names."""
    names = [unicodedata.normalize(form, name) for name in ("téxt", TITLE, "schlüssel")]
    values = [("apple pear", "klein", "a"), ("apple plum", "groß", "b")]
    return [dict(zip(names, row, strict=True)) for row in values * 10]


def write_csv(path, rows, delimiter=","):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def write(kind, rows):
    path = Path(f"in.{kind}")
    if kind == "list":
        return rows
    if kind == "table":
        return pa.Table.from_pylist(rows)
    if kind in ("csv", "tsv"):
        write_csv(path, rows, "," if kind == "csv" else "\t")
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        feather.write_feather(pa.Table.from_pylist(rows), path)
    return path


def own_columns(place):
    return set(Corpus.open(place).manifest.columns) - {"id", "source", "part", "block", "row"}


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.quick("NFD-NFC-*")
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet", "arrow", "list", "table"])
@pytest.mark.parametrize(("stored", "asked"), CROSSED)
def test_fields_of_documents(kind, stored, asked):
    given = {
        "text_field": unicodedata.normalize(asked, "téxt"),
        "id_field": unicodedata.normalize(asked, "schlüssel"),
        "meta": unicodedata.normalize(asked, TITLE),
    }
    rows = rows_named(stored)
    for number, row in enumerate(rows):
        row[unicodedata.normalize(stored, "schlüssel")] = str(number)
    summary = topicstream.ingest(write(kind, rows), "s.zarr", **given, **RULES)
    assert summary["columns"] == {TITLE: 20}
    assert summary["fields_left_out"] == []
    store = Corpus.open("s.zarr")
    assert own_columns("s.zarr") == {TITLE}
    assert store.ids.to_pylist() == [str(number) for number in range(20)]
    assert store.words.to_pylist() == ["apple", "pear", "plum"]


@pytest.mark.parametrize(("stored", "asked"), CROSSED)
def test_a_field_within_a_field(stored, asked):
    outer = unicodedata.normalize(stored, "maß")
    inner = unicodedata.normalize(stored, TITLE)
    record = {"text": "apple pear", outer: {inner: "klein"}}
    Path("in.jsonl").write_text(json.dumps(record, ensure_ascii=False))
    meta = {"size": unicodedata.normalize(asked, f"maß.{TITLE}")}
    summary = topicstream.ingest(Path("in.jsonl"), "s.zarr", meta=meta, **RULES)
    assert summary["columns"] == {"size": 1}
    assert summary["fields_left_out"] == []


@pytest.mark.parametrize(("stored", "asked"), CROSSED)
def test_fields_of_paths_and_of_side_files(stored, asked):
    folder = Path("in", unicodedata.normalize(stored, f"{TITLE}=klein"))
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("apple pear")
    (folder / "b.txt").write_text("apple plum")
    names = [unicodedata.normalize(stored, name) for name in ("schlüssel", "alter")]
    write_csv(Path("side.csv"), [{names[0]: "a.txt", names[1]: "7"}])
    write_csv(Path("kürz.csv"), [{names[0]: "a.txt", unicodedata.normalize(stored, "jähre"): "8"}])
    given = {
        "meta": unicodedata.normalize(asked, TITLE),
        "key": unicodedata.normalize(asked, "schlüssel"),
        "meta_files": ["side.csv", "kürz.csv:" + unicodedata.normalize(asked, "schlüssel,jähre")],
    }
    topicstream.ingest(Path("in"), "s.zarr", format="files", **given, **RULES)
    assert own_columns("s.zarr") == {TITLE, "alter", "jähre"}
    rows = [row for batch in Corpus.open("s.zarr").documents() for row in batch.to_pylist()]
    assert [row[TITLE] for row in rows] == ["klein", "klein"]


@pytest.mark.parametrize("asked", FORMS)
def test_held_out_documents(asked):
    given = {**RULES, "text_field": "téxt", "meta": TITLE}
    given["heldout"] = unicodedata.normalize(asked, f"{TITLE}=groß")
    assert topicstream.ingest(rows_named("NFC"), "s.zarr", **given)["documents_heldout"] == 10
    given |= {"heldout": 0.5, "heldout_by": unicodedata.normalize(asked, TITLE)}
    held = topicstream.ingest(rows_named("NFC"), "t.zarr", **given)["documents_heldout"]
    assert held in (0, 10)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    given = {**RULES, "text_field": "téxt", "meta": TITLE}
    topicstream.ingest(rows_named("NFD"), folder / "corpus.zarr", **given)
    topicstream.train(folder / "corpus.zarr", folder / "model", topics=2, passes=3, progress=False)
    return folder


LINES = {
    "show --by {}": "klein",
    "show --docs 2 --with {} --json": "klein",
    "show --theta t.csv --with {}": "t.csv",
    "infer corpus.zarr --with {} --out a.csv": "a.csv",
    "effects {} --reference {}=groß": "klein",
    "report --no-scores --by {} --out r.html": "r.html",
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("asked", FORMS)
def test_queries(trained, line, asked, capsys, monkeypatch):
    monkeypatch.chdir(trained)
    for written in ("t.csv", "a.csv", "r.html"):
        Path(written).unlink(missing_ok=True)
    name = unicodedata.normalize(asked, TITLE)
    assert run(line.format(name, name).split()) == 0
    said = capsys.readouterr()
    assert LINES[line] in said.out + said.err


def test_a_store_made_before_names_were_composed(monkeypatch, capsys):
    with monkeypatch.context() as earlier:
        for module in ("ingestion.options", "corpus.manifest"):
            earlier.setattr(f"topicstream.{module}.compose_text", str)
        given = {"text_field": unicodedata.normalize("NFD", "téxt")}
        given["meta"] = unicodedata.normalize("NFD", TITLE)
        topicstream.ingest(rows_named("NFD"), "corpus.zarr", **given, **RULES)
    topicstream.train("corpus.zarr", "model", topics=2, passes=3, progress=False)
    for form in FORMS:
        assert run(["show", "--by", unicodedata.normalize(form, TITLE)]) == 0
        assert "klein" in capsys.readouterr().out
    topicstream.ingest(rows_named("NFC"), "corpus.zarr", text_field="téxt", append=True)
    assert own_columns("corpus.zarr") == {TITLE}
    rows = [row for batch in Corpus.open("corpus.zarr").documents() for row in batch.to_pylist()]
    assert {row[TITLE] for row in rows} == {"klein", "groß"}
