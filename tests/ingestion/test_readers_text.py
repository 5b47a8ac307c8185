"""Formats that hold text: lines, JSON lines, CSV, Parquet, MALLET, folders, archives."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from unicodedata import normalize

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reading import DATA, Read, needs_data, write
from topicstream.base.errors import InputError
from topicstream.ingestion.options import LAYOUT, ReadOptions

few = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
any_text = st.text(st.characters(codec="utf-8"), max_size=60)
line_text = any_text.map(lambda t: t.replace("\n", " ").rstrip("\r"))


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(data)
    return sink.getvalue().to_pybytes()


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("named", [True, False])
def test_compressed_by_suffix_or_magic(tmp_path: Path, suffix: str, named: bool) -> None:
    path = write(
        tmp_path / f"a.txt{suffix if named else ''}", COMPRESSORS[suffix](b"eins\nzwei drei\n")
    )
    assert Read(path).texts == ["eins", "zwei drei"]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_several_members_in_one_compressed_file(tmp_path: Path, suffix: str) -> None:
    pack = COMPRESSORS[suffix]
    path = write(tmp_path / f"a.txt{suffix}", pack(b"one\ntw") + pack(b"o\nthree\n"))
    assert Read(path).texts == ["one", "two", "three"]


def test_lines_keep_empty_ones_and_number_them(tmp_path: Path) -> None:
    got = Read(write(tmp_path / "a.txt", "one\r\n\n  two \nthree"))
    assert got.texts == ["one", "", "  two ", "three"]
    assert got.ids == [f"a.txt:{i}" for i in (1, 2, 3, 4)]
    assert got.source[2] == "a.txt:3"


@few
@given(lines=st.lists(line_text, max_size=20), size=st.integers(1, 40))
def test_lines_do_not_depend_on_piece_size(tmp_path: Path, lines: list[str], size: int) -> None:
    path = write(tmp_path / "a.lines", "".join(line + "\n" for line in lines))
    got = Read(path, piece_bytes=size, format="lines")
    assert got.texts == lines
    assert got.ids == [f"a.lines:{i + 1}" for i in range(len(lines))]


json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


@few
@given(
    records=st.lists(
        st.tuples(any_text, any_text, json_value, st.lists(any_text.filter(bool), max_size=3)),
        max_size=8,
    ),
    ascii_only=st.booleans(),
    size=st.integers(1, 300),
)
def test_json_lines_give_back_what_was_written(
    tmp_path: Path, records: list[tuple[str, str, object, list[str]]], ascii_only: bool, size: int
) -> None:
    rows = [{"x": x, "id": i, "text": t, "authors": a} for i, t, x, a in records]
    path = write(
        tmp_path / "a.jsonl", "".join(json.dumps(r, ensure_ascii=ascii_only) + "\n" for r in rows)
    )
    got = Read(path, piece_bytes=size, meta={"authors": "authors"}, format="jsonl")
    assert got.ids == [
        i if i.strip() else f"a.jsonl:{line}" for line, (i, *_) in enumerate(records, 1)
    ]
    assert got.texts == [r["text"] for r in rows]
    assert got.meta.get("authors", []) == [r["authors"] for r in rows]


@few
@given(
    line=st.binary(max_size=60)
    | st.text('{}[]",:\\ u0123eE.-truefalsnl', max_size=40).map(str.encode)
)
def test_json_lines_accept_no_more_and_no_less_than_python(tmp_path: Path, line: bytes) -> None:
    line = b'{"text": "a", "y": ' + line.replace(b"\n", b" ") + b"}"
    try:
        value = json.loads(line.decode())
        good = isinstance(value, dict) and isinstance(value.get("text"), str | None)
        good &= "id" not in value or isinstance(value["id"], str | None) or type(value["id"]) is int
    except (ValueError, RecursionError):
        good = False
    got = Read(write(tmp_path / "a.jsonl", line + b"\n"), on_error="skip", format="jsonl")
    # In a field that is not read, bytes that are not UTF-8 go unnoticed; all else is judged as
    # Python does.
    assert len(got.texts) == good or (good is False and not _utf8(line) and len(got.texts) == 1)
    assert len(got.texts) + len(got.rejects) == 1


def _utf8(data: bytes) -> bool:
    try:
        data.decode()
        return True
    except UnicodeDecodeError:
        return False


def test_json_lines_odd_but_good(tmp_path: Path) -> None:
    lines = [
        r'{"text": "a\u00e9\ud83d\ude00\ud800x", "id": 7, "n": NaN, "when": 1.50}',
        '  {"id":"b","te\\u0078t":"key with an escape" , "when":null }  ',
        "",
        '{"text": "first", "text": "last wins", "id": "c", "when": "2001", "deep": '
        + "[" * 100
        + "]" * 100
        + "}",
        '{"text": "no id"}',
    ]
    got = Read(write(tmp_path / "a.jsonl", "\n".join(lines)), meta={"date": "when"})
    assert got.texts == ["aé😀\ufffdx", "key with an escape", "last wins", "no id"]
    assert got.ids == ["7", "b", "c", "a.jsonl:5"]
    assert got.meta["date"][1:] == [None, "2001", None]


def test_bad_records_are_told_of_in_the_order_of_the_file(tmp_path: Path) -> None:
    """Numbers that Python does not take and bytes that are not UTF-8 are found behind the rest."""
    digits = b"9" * 5000
    lines = [
        b'{"text":"a"}',
        b'{"id":%s,"text":"b"}' % digits,
        b'{"id":"\xff","text":"c"}',
        b"{",
        b'{"text":"d"}',
    ]
    path = write(
        tmp_path / "a.jsonl", b"\n".join([*lines, b'{"text":"e","labels":[%s]}' % digits, b"]"])
    )
    read = Read(path, on_error="skip")
    assert [r.line for r in read.rejects] == [2, 3, 4, 6, 7]
    assert read.texts == ["a", "d"]
    with pytest.raises(InputError, match=r"a\.jsonl:2: not JSON"):
        Read(path)


def test_json_lists_and_separated_strings(tmp_path: Path) -> None:
    rows = [
        '{"text":"a","by":["X Y","Z"]}',
        '{"text":"b","by":"P; Q ;"}',
        '{"text":"c"}',
        '{"text":"d","by":[1,null]}',
    ]
    got = Read(write(tmp_path / "a.jsonl", "\n".join(rows)), meta={"authors": "by"})
    assert got.meta["authors"] == [["X Y", "Z"], ["P", "Q"], [], ["1"]]


def test_fields_inside_objects_are_named_by_paths(tmp_path: Path) -> None:
    record = {
        "doc": {"id": "a1", "body": "ships", "by": [{"name": "Ada"}, {"name": "Bo"}, "x"]},
        "doc.year": 1999,
        "else": 1,
    }
    path = write(tmp_path / "a.jsonl", json.dumps(record) + "\n")
    got = Read(
        path,
        text_field="doc.body",
        id_field="doc.id",
        meta={"authors": "doc.by.name", "year": "doc.year", "no": "doc.x.y"},
    )
    assert (
        got.texts == ["ships"] and got.ids == ["a1"] and set(got.notes) == {"field left out: else"}
    )
    assert got.meta == {"authors": [["Ada", "Bo"]], "year": ["1999"], "no": [None]}


def test_several_text_fields_are_joined(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"title":"T","abstract":"A\\nB","id":"1"}\n')
    assert Read(path, text_field="title,abstract").texts == ["T\nA\nB"]
    verses = write(tmp_path / "b.jsonl", '{"text":["A","B"],"by":[{"said":"C"},{"said":"D"}]}\n')
    assert Read(verses, text_field="text,by.said").texts == ["A\nB\nC\nD"]
    with pytest.raises(InputError, match="field 'by' is a list, not a string"):
        Read(verses, text_field="by")


def test_a_list_kept_as_a_string_says_which_columns_take_lists(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text":"a","meta":{"tags":["x","y"]}}\n')
    with pytest.raises(
        InputError,
        match=r"field 'meta\.tags' is a list, not a string or a number; authors=, labels=, links= "
        r"take lists",
    ):
        Read(path, meta={"tags": "meta.tags"})
    assert Read(path, meta={"labels": "meta.tags"}).meta == {"labels": [["x", "y"]]}


@few
@given(
    rows=st.lists(st.tuples(any_text, any_text, any_text), max_size=8),
    size=st.integers(1, 200),
    delimiter=st.sampled_from([",", "\t", ";"]),
    quote=st.sampled_from(['"', "'", "|"]),
)
def test_csv_gives_back_what_was_written(
    tmp_path: Path, rows: list[tuple[str, str, str]], size: int, delimiter: str, quote: str
) -> None:
    sheet = io.StringIO(newline="")
    out = csv.writer(sheet, delimiter=delimiter, quotechar=quote, quoting=csv.QUOTE_ALL)
    out.writerow(["id", "other", "text"])
    out.writerows(rows)
    path = write(tmp_path / "a.csv", sheet.getvalue())
    got = Read(path, piece_bytes=size, delimiter=delimiter, quotechar=quote, meta={"note": "other"})
    named = [
        (name if name.strip() else place, *rest)
        for (name, *rest), place in zip(rows, got.source, strict=True)
    ]
    assert list(zip(got.ids, got.meta.get("note", []), got.texts)) == named


def test_csv_lines_delimiters_and_lists(tmp_path: Path) -> None:
    text = 'id\tby\ttext\r\n1\tA; B\t"two\nlines ""q"""\r\n\r\n2\t\tplain "quote\r\n'
    got = Read(write(tmp_path / "a.tsv", text), meta={"authors": "by"})
    assert got.texts == ['two\nlines "q"', 'plain "quote']
    assert got.meta["authors"] == [["A", "B"], []]
    assert [s.rsplit(":", 1)[1] for s in got.source] == ["2", "5"]
    assert Read(write(tmp_path / "b.csv", "text;n\na,b;1\n")).texts == ["a,b"]


def test_parquet(tmp_path: Path) -> None:
    table = pa.table(
        {
            "n": pa.array(range(3000), pa.int32()),
            "body": pa.array(
                [None if i == 5 else f"text {i} é" for i in range(3000)]
            ).dictionary_encode(),
            "by": pa.array([[f"A{i}", None, "B"] if i % 2 else None for i in range(3000)]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1000)
    options = {"text_field": "body", "id_field": "n", "meta": {"authors": "by", "date": "n"}}
    got = Read(tmp_path / "a.parquet", piece_bytes=4000, **options)
    assert got.tasks > 3
    assert got.ids == [str(i) for i in range(3000)]
    assert got.texts == ["" if i == 5 else f"text {i} é" for i in range(3000)]
    assert got.meta["authors"][:3] == [[], ["A1", "B"], []] and got.meta["date"][7] == "7"
    assert got.source[10].endswith("a.parquet#11")
    write(tmp_path / "b.parquet.gz", gzip.compress((tmp_path / "a.parquet").read_bytes()))
    assert Read(tmp_path / "b.parquet.gz", **options).texts == got.texts
    assert Read(tmp_path / "a.parquet", text_field="by").texts[:2] == [
        "",
        "A1\nB",
    ]  # a list's strings are its lines
    with pytest.raises(InputError, match="no column 'text'"):
        Read(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="another --text-field"):
        Read(tmp_path / "a.parquet", text_field="n")


def test_mallet_lines(tmp_path: Path) -> None:
    got = Read(write(tmp_path / "a.mallet", "d1\tx  some text \n\nd2 y\n"))
    assert (
        got.ids == ["d1", "d2"]
        and got.texts == ["some text ", ""]
        and got.meta["labels"] == [["x"], ["y"]]
    )


def test_folder_of_files(tmp_path: Path) -> None:
    for name, text in {
        "b/x.txt": "bx",
        "a/y": "ay",
        "a.txt": "a",
        ".hidden/z.txt": "no",
        "a/.z": "no",
    }.items():
        write(tmp_path / "tree" / name, text)
    write(tmp_path / "tree" / "c.txt.gz", gzip.compress(b"packed"))
    write(tmp_path / "tree" / "empty.txt", "")
    os.symlink(tmp_path / "tree" / "a", tmp_path / "tree" / "again")
    os.symlink(tmp_path / "tree" / "a.txt", tmp_path / "tree" / "link.txt")
    got = Read(tmp_path / "tree")
    assert got.ids == ["a.txt", "c.txt.gz", "empty.txt", "link.txt", "a/y", "b/x.txt"]
    assert got.texts == ["a", "packed", "", "a", "ay", "bx"]
    assert Read(tmp_path / "tree", piece_bytes=3).texts == got.texts
    os.symlink("/etc/hostname", tmp_path / "tree" / "out.txt")
    with pytest.raises(InputError, match=r"out\.txt: a link that leads out"):
        Read(tmp_path / "tree")


def test_two_folders_keep_their_ids_apart(tmp_path: Path) -> None:
    write(tmp_path / "p" / "x.txt", "1")
    write(tmp_path / "q" / "x.txt", "2")
    assert Read([tmp_path / "p", tmp_path / "q"]).ids == ["p/x.txt", "q/x.txt"]
    assert Read([tmp_path / "p" / "x.txt", tmp_path / "q" / "x.txt"]).ids == [
        "p/x.txt:1",
        "q/x.txt:1",
    ]


def test_tar_archive(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as archive:
        for name, data in {"d/one": b"1", "./two": b"zw\xf6lf", "d/.hid": b"no"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("link")
        link.type = tarfile.SYMTYPE
        link.linkname = "/etc/passwd"
        archive.addfile(link)
        out = tarfile.TarInfo("../out")
        archive.addfile(out, io.BytesIO(b""))
    got = Read(tmp_path / "a.tgz", encoding="latin-1", on_error="skip")
    assert got.ids == ["d/one", "two"] and got.texts == ["1", "zwölf"]
    assert [r.reason for r in got.rejects] == ["a name that leads out of the archive"]


@pytest.mark.parametrize("cut", [1024, 2048])
def test_a_tar_archive_cut_between_two_members(tmp_path: Path, cut: int) -> None:
    """A member takes two blocks of 512 bytes: the cut is behind the first or the second."""
    with tarfile.open(tmp_path / "whole.tar", "w") as archive:
        for name in ("one", "two", "three"):
            info = tarfile.TarInfo(name)
            info.size = 3
            archive.addfile(info, io.BytesIO(name[:3].encode()))
    assert Read(tmp_path / "whole.tar").ids == ["one", "two", "three"]
    write(tmp_path / "cut.tar", (tmp_path / "whole.tar").read_bytes()[:cut])
    with pytest.raises(InputError, match=r"damaged or truncated .it ends"):
        Read(tmp_path / "cut.tar")
    got = Read(tmp_path / "cut.tar", on_error="skip")
    assert got.ids == ["one", "two"][: cut // 1024] and len(got.rejects) == 1


class _Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BufferedReader(io.BytesIO(data))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input(monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]) -> None:
    data = b"".join(b'{"id": %d, "text": "t%d"}\n' % (i, i) for i in range(9000))
    monkeypatch.setattr(sys, "stdin", _Stdin(pack(data)))
    got = Read("-", piece_bytes=10_000)
    assert (
        got.texts == [f"t{i}" for i in range(9000)] and got.tasks > 5 and got.source[0] == "stdin:1"
    )


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be"])
def test_byte_order_marks(tmp_path: Path, encoding: str) -> None:
    bare = encoding in ("utf-16-le", "utf-16-be")
    texts = [f"zwölf {i} 😀" for i in range(5000)]
    path = write(tmp_path / "a.txt", "\n".join(texts).encode(encoding))
    assert (
        Read(path, encoding=encoding if bare else None, format="lines", piece_bytes=999).texts
        == texts
    )
    whole = write(tmp_path / "tree" / "a.txt", "zwölf".encode(encoding))
    assert Read(whole.parent, encoding=encoding if bare else None, format="files").texts == [
        "zwölf"
    ]


def test_encoding(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "caf\xe9\n".encode("latin-1"))
    assert Read(path, encoding="latin-1").texts == ["café"]
    with pytest.raises(InputError, match=r"a\.txt:1: not valid UTF-8 \(byte 0xe9\)"):
        Read(path, encoding="utf-8")
    damaged = write(tmp_path / "b.txt", "Мастер и Маргарита".encode()[:-1])
    with pytest.raises(InputError, match=r"byte 0xd0\), though most of it is: mend the file"):
        Read(damaged)
    for encoding in ("cp1251", "koi8-r"):
        with pytest.raises(
            InputError, match="give --encoding, such as cp1252, cp1251, cp932 or gb18030"
        ):
            Read(write(tmp_path / "c.txt", "Мастер и Маргарита, роман".encode(encoding)))
    with pytest.raises(InputError, match="--encoding klingon"):
        Read(path, encoding="klingon")


@pytest.mark.slow
@needs_data
def test_real_json_lines_against_json(tmp_path: Path) -> None:
    path = DATA / "acl" / "docs.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    got = Read(path, meta={"authors": "authors", "date": "date"})
    assert got.ids == [r["id"] for r in rows] and got.texts == [r["text"] for r in rows]
    authors = [[normalize("NFC", name) for name in r.get("authors") or []] for r in rows]
    assert got.meta["authors"] == authors
    assert got.meta["date"] == [None if r.get("date") is None else str(r["date"]) for r in rows]


@needs_data
@pytest.mark.slow
def test_real_tree_in_an_archive() -> None:
    path = DATA / "20news" / "20news-bydate.tar.gz"
    with tarfile.open(path) as archive:
        want = {m.name: m.size for m in archive if m.isfile()}
    got = Read(path)
    assert {i: len(t.encode()) for i, t in zip(got.ids, got.texts)} == want


def test_a_field_that_is_given_comes_before_one_that_is_remembered() -> None:
    kept = {"text_field": "Body"}
    assert ReadOptions().recall(kept, LAYOUT).text_fields == ["Body"]
    assert ReadOptions(text_field="text").recall(kept, LAYOUT).text_fields == ["text"]
