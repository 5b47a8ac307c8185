"""Strings that are no text, wherever they can stand: lone surrogates, bytes that are not UTF-8,
NUL.

Data have U+FFFD in their place, as a record's text always had; options are refused by name.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import topicstream
from tests.ingest_tools import cells_by_id
from topicstream.base.errors import InputError, UsageError
from topicstream.cli.main import run
from topicstream.ingestion.parse.columns import clean_strings

GOOD = [{"id": "a", "text": "alpha beta gamma"}, {"id": "b", "text": "beta gamma delta"}]
HIGH = "\ud800"
BYTE = "\udcff"
QUIET = {"min_df": 1, "heldout": 0, "progress": False, "stopwords": "none"}


def lines(*objects):
    """Objects as JSON lines, with escapes for what is no text."""
    return "".join(json.dumps(o) + "\n" for o in objects)


@pytest.mark.quick("False-record?-*ud800", "True-record?-*x00")
@pytest.mark.parametrize("bad", [HIGH, BYTE, "\0"])
@pytest.mark.parametrize(
    "record",
    [
        {"k?": 1, "id": "c", "text": "alpha beta"},
        {"k": {"x?": 1}, "id": "c", "text": "alpha beta"},
        {"id": "c", "text": "alpha ? beta"},
        {"id": "c?", "text": "alpha beta"},
        {"id": "c", "text": "alpha beta", "party": "p?"},
        {"id": "c", "text": "alpha beta", "authors": ["p?"]},
    ],
)
@pytest.mark.parametrize("in_memory", [False, True])
def test_a_record_with_a_string_that_is_no_text(tmp_path, record, bad, in_memory):
    record = json.loads(json.dumps(record).replace("?", json.dumps(bad)[1:-1]))
    file = tmp_path / "in.jsonl"
    file.write_text(lines(*GOOD, record))
    given = [*GOOD, record] if in_memory else file
    options = {"meta": "party,authors"} if {"party", "authors"} & set(record) else {}
    summary = topicstream.ingest(given, tmp_path / "s.zarr", **QUIET, **options)
    assert (summary["documents"], summary["rejected"]) == (3, 0)
    json.dumps(summary, ensure_ascii=False).encode()  # no surrogate is left
    name = record["id"] if bad == "\0" else record["id"].replace(bad, "\ufffd")
    assert cells_by_id(tmp_path / "s.zarr")[name][1] == {"alpha": 1.0, "beta": 1.0}


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_a_key_that_is_no_text_beside_a_bad_record(tmp_path, on_error, capsys):
    file = tmp_path / "in.jsonl"
    file.write_text(lines(*GOOD, {"body": "no text here", HIGH: 1}))
    code = run(["ingest", str(file), "--out", str(tmp_path / "s.zarr"), "--on-error", on_error])
    out, err = capsys.readouterr()
    assert code == (3 if on_error == "fail" else 0)
    assert "in.jsonl:3: no field 'text'; choose one of body" in out + err


def test_fields_of_one_name_when_cleaned_are_named_once(tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text('{"text": "alpha beta", "k\\ud800": 1, "k\\ud801": 2}\n')
    summary = topicstream.ingest(file, tmp_path / "s.zarr", **QUIET)
    assert summary["fields_left_out"] == ["k\ufffd"]


def test_words_of_lists_that_are_no_text(tmp_path):
    documents = [["alpha", "be\ud800ta"], ["alpha", "be\ud801ta", "gamma"]]
    topicstream.ingest(documents, tmp_path / "s.zarr", **QUIET)
    cells = cells_by_id(tmp_path / "s.zarr")
    assert cells["0"][1] == {"alpha": 1.0, "be\ufffdta": 1.0}
    assert cells["1"][1] == {"alpha": 1.0, "be\ufffdta": 1.0, "gamma": 1.0}


@pytest.mark.parametrize("words", [["a", "b\ud800"], {"a": 0, "b\udcff": 1}])
def test_names_of_a_matrix_that_are_no_text(tmp_path, words):
    matrix = scipy.sparse.csr_array(np.array([[1, 2], [0, 1]]))
    topicstream.ingest(matrix, tmp_path / "s.zarr", vocabulary=words, ids=["x", "y\ud800"], **QUIET)
    cells = cells_by_id(tmp_path / "s.zarr")
    assert cells == {
        "x": ("train", {"a": 1.0, "b\ufffd": 2.0}),
        "y\ufffd": ("train", {"b\ufffd": 1.0}),
    }


def test_words_of_a_matrix_that_are_one_when_cleaned_are_refused(tmp_path):
    matrix = scipy.sparse.csr_array(np.array([[1, 2], [0, 1]]))
    with pytest.raises(InputError, match="each column needs a word of its own"):
        topicstream.ingest(matrix, tmp_path / "s.zarr", vocabulary=["b\ud801", "b\ud800"], **QUIET)


def test_columns_of_a_frame_that_hold_no_text():
    values = clean_strings(["a\ud800", None, float("nan"), "b"])
    assert values.to_pylist() == ["a\ufffd", None, None, "b"]


@pytest.mark.parametrize("bad", [HIGH, BYTE])
@pytest.mark.parametrize(
    "options",
    [
        {"meta": "p?"},
        {"meta": {"party": "p?"}},
        {"text_field": "t?"},
        {"id_field": "t?"},
        {"pattern": "[a-z?]+"},
        {"split": "?"},
        {"list_separator": "?"},
        {"stopwords": ["alpha?"]},
        {"replace": {"alpha?": "beta"}},
        {"replace": {"alpha": "beta?"}},
    ],
)
def test_an_option_that_is_no_text_is_named(tmp_path, options, bad):
    options = json.loads(json.dumps(options).replace("?", json.dumps(bad)[1:-1]))
    (name,) = options
    with pytest.raises(UsageError, match=f"{name}: .* is not valid Unicode"):
        topicstream.ingest(GOOD, tmp_path / "s.zarr", **{**QUIET, **options})
    assert not (tmp_path / "s.zarr").exists()


def test_names_of_files_may_hold_any_byte(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open(b"in\xff.jsonl", "wb") as file:
        file.write(lines(*GOOD).encode())
    with open(b"stop\xff.txt", "wb") as file:
        file.write(b"alpha\n")
    summary = topicstream.ingest(
        Path(os.fsdecode(b"in\xff.jsonl")),
        tmp_path / "s.zarr",
        **{**QUIET, "stopwords": os.fsdecode(b"stop\xff.txt")},
    )
    assert summary["documents"] == 2
    assert "alpha" not in cells_by_id(tmp_path / "s.zarr")["a"][1]


def test_side_files_with_names_and_values_that_are_no_text(tmp_path):
    side = tmp_path / "side.jsonl"
    side.write_text(lines({"id": "a", "par\ud800ty": "x\ud800"}))
    summary = topicstream.ingest(GOOD, tmp_path / "s.zarr", meta_files=side, **QUIET)
    assert summary["columns"] == {"par\ufffdty": 1}
    table = tmp_path / "side.csv"
    table.write_bytes("id,größe\na,x\n".encode("cp1252"))
    summary = topicstream.ingest(GOOD, tmp_path / "t.zarr", meta_files=table, **QUIET)
    assert summary["columns"] == {"größe": 1}
