"""Inputs as a whole: which format, which files, in which order, and what is said of bad ones."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reading import Read, write
from topicstream.base.errors import InputError
from topicstream.ingestion.open.inputs import survey_inputs
from topicstream.ingestion.open.names import guess, is_vocab_name
from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.reader import readers
from topicstream.ingestion.parse.rejects import BadFile, Rejects
from topicstream.ingestion.parts.tasks import pieces

GUESSES = [
    ("a.jsonl", b"x", "jsonl"),
    ("a.txt", b'{"id": 1}\n', "jsonl"),
    ("data", b'\n {"text": "a"}\n', "jsonl"),
    ("a.csv.gz", b"id,text\n", "csv"),
    ("a.tsv", b"id\ttext\n", "csv"),
    ("a.txt", b"Some words\nand more: 1:2\n", "lines"),
    ("docword.kos.txt", b"3\n4\n2\n1 1 1\n2 2 2\n", "docword"),
    ("x", b"%%MatrixMarket matrix coordinate real general\n", "mtx"),
    ("ap.dat", b"2 0:1 5:3\n1 7:1\n", "ldac"),
    ("x.dat", b"1" * 5000 + b" 1:1\n", "svmlight"),  # more digits than Python turns into a number
    ("x.dat", b"-1 1:0.5 3:2\n+1 2:1\n", "svmlight"),
    ("x", b"PAR1....", "parquet"),
    ("x", b"ARROW1..", "arrow"),
    ("x.feather", b"ARROW1..", "arrow"),
    ("x.tgz", b"", "tar"),
    ("x.mallet", b"a b c\n", "mallet"),
    (
        "x.xml",
        b"<?xml version='1.0'?>\n<!DOCTYPE PubmedArticleSet PUBLIC 'x'>\n<PubmedArticleSet>\n",
        "pubmed",
    ),
    ("x", b"<MedlineCitationSet>", "pubmed"),
]


@pytest.mark.parametrize(("name", "head", "want"), GUESSES)
def test_guess(name: str, head: bytes, want: str) -> None:
    assert guess(name, head, in_folder=False) == want
    assert guess(name, head, in_folder=True) == ("files" if want == "lines" else want)


def test_guess_says_when_unsure(tmp_path: Path) -> None:
    for name in ("notes", "a.doc"):
        with pytest.raises(InputError, match=r"cannot detect the format; give --format"):
            Read(write(tmp_path / name, "Some words\n"))
    with pytest.raises(InputError, match="zero bytes"):
        Read(write(tmp_path / "b.txt", b"ab\0cd\n"))
    with pytest.raises(InputError, match="a JSON array, not JSON lines"):
        Read(write(tmp_path / "c.json", '[\n{"text": "a"}]'))
    with pytest.raises(
        InputError, match="--format wat: not known; choose one of arrow, csv, docword"
    ):
        Read(tmp_path / "b.txt", format="wat")
    assert Read(tmp_path / "b.txt", format="lines").texts == ["ab\0cd"]


def test_every_reader_has_the_name_that_it_is_registered_by() -> None:
    for name, reader in readers().items():
        assert reader.name == name and reader.about and reader.kind in ("text", "counts")


def test_vocabulary_names() -> None:
    good = [
        "vocab.txt",
        "vocab.kos.txt.gz",
        "ap.vocab",
        "nips_vocab.txt",
        "words.txt",
        "Vocabulary.tsv",
    ]
    assert all(map(is_vocab_name, good))
    assert not any(
        map(is_vocab_name, ["wordsworth.txt", "a.txt", "docword.txt", "my.words.and.more.txt"])
    )


def test_folder_of_one_format_and_of_several(tmp_path: Path) -> None:
    write(tmp_path / "b.jsonl", '{"text":"b"}\n')
    write(tmp_path / "a" / "z.jsonl.gz", gzip.compress(b'{"text":"z"}\n'))
    write(tmp_path / ".hidden.jsonl", "{")
    got = Read(tmp_path)
    assert got.ids == ["b.jsonl:1", "a/z.jsonl.gz:1"]
    write(tmp_path / "notes.txt", "About these files")
    with pytest.raises(
        InputError, match=r"several formats: files \(notes.txt\), jsonl \(b.jsonl\); give --format"
    ):
        Read(tmp_path)
    assert Read(tmp_path, format="jsonl").texts == ["b", "z"]
    assert len(Read(tmp_path, format="files").texts) == 3
    write(tmp_path / "t.csv", "id,text\n7,t\n")
    write(tmp_path / "empty.jsonl", "")
    each = Read(tmp_path, format="each")
    assert each.ids == ["b.jsonl:1", "notes.txt", "7", "a/z.jsonl.gz:1"] and each.texts == [
        "b",
        "About these files",
        "t",
        "z",
    ]


def test_inputs_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        Read(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="contains no files"):
        Read(tmp_path / "empty")
    with pytest.raises(InputError, match="no input given"):
        Read([])
    path = write(tmp_path / "a.txt", "a\n")
    with pytest.raises(InputError, match="given twice"):
        Read([path, path])


@pytest.mark.parametrize(
    "name", ["a.txt", "a.jsonl", "a.mallet", "a.ldac", "a.svm", "tree/a.txt", "lines/a.jsonl"]
)
def test_empty_files(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "")
    got = Read(path.parent if "/" in name else path)
    assert got.texts == ([""] if name.startswith("tree") else []) and not got.bags


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.mtx", "a.xml"])
def test_empty_files_of_formats_with_a_header(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"a\.\w+:?1?: "):
        Read(write(tmp_path / name, ""))


def rows(n: int) -> bytes:
    return b"".join(
        json.dumps({"id": i, "text": f"word{i * i % 977} " * 20}).encode() + b"\n" for i in range(n)
    )


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_truncated_archive(tmp_path: Path, suffix: str) -> None:
    from tests.ingestion.test_readers_text import COMPRESSORS

    packed = COMPRESSORS[suffix](rows(4000))
    path = write(tmp_path / f"a.jsonl{suffix}", packed[: len(packed) * 2 // 3])
    with pytest.raises(
        InputError,
        match=rf"a\.jsonl{re.escape(suffix)}: .*damaged or truncated after [0-9]",
    ):
        Read(path)
    got = Read(path, on_error="skip", piece_bytes=50_000)
    assert [r.reason for r in got.rejects if "truncated" in r.reason] and len(got.rejects) == 1
    assert got.ids == [str(i) for i in range(len(got.ids))]
    if suffix != ".bz2":  # bzip2's blocks hold 900 kB, all of this file
        assert got.rejects[0].line == len(got.ids) + 1 > 1000


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_whole_members_before_a_cut_one_are_kept(tmp_path: Path, suffix: str) -> None:
    """Also where all of them are fewer bytes than the stream inflates at once."""
    from tests.ingestion.test_readers_text import COMPRESSORS

    members = [COMPRESSORS[suffix](row + b"\n") for row in rows(30).splitlines()]
    cut = members[-1][: len(members[-1]) // 2]
    path = write(tmp_path / f"a.jsonl{suffix}", b"".join(members[:-1]) + cut)
    got = Read(path, on_error="skip")
    assert got.ids == [str(i) for i in range(29)]
    assert "damaged or truncated" in got.rejects[0].reason


def test_corrupt_gz(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(rows(4000)))
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(InputError, match=r"damaged or truncated|not JSON|not valid UTF-8"):
        Read(write(tmp_path / "a.jsonl.gz", bytes(packed)))
    packed = bytearray(gzip.compress(rows(10)))
    packed[-6] ^= 1  # the checksum
    with pytest.raises(InputError, match="damaged or truncated"):
        Read(write(tmp_path / "b.jsonl.gz", bytes(packed)))
    with pytest.raises(InputError, match=r"is named \.gz but is not"):
        Read(write(tmp_path / "c.jsonl.gz", rows(3)))


BAD_JSON = {
    b'{"text": "a"': "not JSON",
    b'{"text": "a",}': "not JSON",
    b'{"text": "tab\there"}': "not JSON",
    b'{"text": "a"} x': "not JSON",
    b'["a"]': "not a JSON object",
    b'{"txt": "a"}': "no field 'text'; choose one of txt",
    b'{"text": 5}': "field 'text' is a number, not a string",
    b'{"text": [1]}': "field 'text' is a list, not a string",
    b'{"text": "a", "id": {}}': "field 'id' is an object, not an id",
    b'{"text": "a", "by": {}}': "field 'by' is an object, not a list of strings",
    b'{"text": "a", "by": ["b", {}]}': "field 'by' is an object, not a string or a number",
    b'{"text": "a", "by": [["b"]]}': "field 'by' is a list, not a string or a number",
    b'{"text": "a", "by": [' + b"1" * 5000 + b"]}": "not JSON",
    b'{"a\\nb\\u001b[31m": 1}': "no field 'text'; choose one of a b\\x1b[31m",
    b'{"text": "a\xff"}': "not valid UTF-8 (byte 0xff)",
    b'{"text": "a", "id": "\xff"}': "not valid UTF-8 (byte 0xff)",
    b'{"text": "a", "by": ["\xff"]}': "not valid UTF-8 (byte 0xff)",
    b'{"text": "a", "x": ' + b"[" * 2_000_000 + b"]" * 2_000_000 + b"}": "JSON nested too deeply",
    b"\0": "not JSON",
}


@pytest.mark.parametrize("line", BAD_JSON, ids=lambda line: line[:24].decode("latin-1"))
def test_bad_json_lines(tmp_path: Path, line: bytes) -> None:
    why = BAD_JSON[line]
    good = b'{"text": "good", "id": "%d"}\n'
    path = write(tmp_path / "a.jsonl", good % 1 + b"\n" + line + b"\n" + good % 2)
    with pytest.raises(InputError) as caught:
        Read(path, meta={"authors": "by"})
    assert f"a.jsonl:3: {why}" in str(caught.value) and "\n" not in str(caught.value)
    got = Read(path, meta={"authors": "by"}, on_error="skip")
    assert got.ids == ["1", "2"] and got.texts == ["good", "good"]
    assert [(r.line, r.start) for r in got.rejects] == [(3, line[:200])]
    assert why in got.rejects[0].reason and json.loads(Rejects(got.rejects).lines("a", "a"))


def test_what_is_said_of_a_file_is_one_line_whatever_its_names() -> None:
    assert BadFile("a.csv", 1, "no column a\nb\x1b[31m").reject.reason == "no column a b\\x1b[31m"


def test_a_blank_id_is_no_duplicate(tmp_path: Path) -> None:
    """A newsroom's table: cells of the id column are empty, and not all of those articles are the
    same one.
    """
    write(tmp_path / "a.csv", "id,text\n,a\n7,b\n  ,c\n")
    write(
        tmp_path / "b.jsonl", '{"id":null,"text":"a"}\n{"id":7,"text":"b"}\n{"id":" ","text":"c"}\n'
    )
    pq.write_table(
        pa.table({"id": [None, 7, None], "text": ["a", "b", "c"], "x": [0.0, 1.0, 2.0]}),
        tmp_path / "c.parquet",
    )
    places = {
        "a.csv": ("a.csv:2", "a.csv:4"),
        "b.jsonl": ("b.jsonl:1", "b.jsonl:3"),
        "c.parquet": ("c.parquet#1", "c.parquet#3"),
    }
    for name, (first, third) in places.items():
        got = Read(tmp_path / name)
        assert got.ids == [first, "7", third]
        assert (
            got.notes["documents with a blank id, named by file and line"] == 2 and not got.rejects
        )


def test_what_appended_records_are_called(tmp_path: Path) -> None:
    """The store's first input called its ids ``key``; those of the second, which has none of that
    name, are in ``id``.
    """
    path = write(tmp_path / "a.jsonl", '{"text":"a","id":"k"}\n{"text":"b"}\n')
    got = Read(path, id_field="key", recalled=("id_field",))
    assert got.ids == ["k", "a.jsonl:2"] and not got.notes


def test_an_id_field_asked_for_must_be_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text":"a","key":"k"}\n{"text":"b"}\n')
    with pytest.raises(
        InputError, match=r"a\.jsonl:2: no field 'key' \(--id-field; --on-error=skip "
    ):
        Read(path, id_field="key")
    assert Read(path).ids == ["a.jsonl:1", "a.jsonl:2"]


BAD_CSV = {
    "x,y,z\n": "3 fields where the header has 2",
    "x\n": "1 field where the header has 2",
    'x, "y,z"\n': "3 fields where the header has 2; a quote after a space does not begin",
    '"a"b,c\n': "a quote that is not closed or is followed by text",
}


@pytest.mark.parametrize("line", BAD_CSV)
def test_bad_csv_lines(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "a.csv", 'id,text\n1,"a\nb"\n' + line + "2,c\n")
    with pytest.raises(InputError, match=rf"a\.csv:4: {BAD_CSV[line]}"):
        Read(path)
    got = Read(path, on_error="skip")
    assert got.ids == ["1", "2"] and [r.line for r in got.rejects] == [4]


def test_blank_lines_before_the_header_are_no_records(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", " \r\n\r\n\t\nid;text\r\n1;a\r\n")
    got = Read(path)
    assert got.ids == ["1"] and got.texts == ["a"]
    assert Read(write(tmp_path / "b.csv", " \nid,text")).ids == []


@pytest.mark.parametrize("delimiter", [";", ",", "\t"])
def test_the_line_that_tells_excel_the_delimiter_is_no_header(
    tmp_path: Path, delimiter: str
) -> None:
    rows = [["id", "text", "date"], ["1", "a, b; c", "2020"], ["2", "d", "2021"]]
    body = "\r\n".join(delimiter.join(f'"{value}"' for value in row) for row in rows)
    got = Read(
        write(tmp_path / "a.csv", f"\ufeffsep={delimiter}\r\n{body}\r\n"), meta={"date": "date"}
    )
    assert (
        got.ids == ["1", "2"]
        and got.texts == ["a, b; c", "d"]
        and got.meta == {"date": ["2020", "2021"]}
    )


def test_quotes_that_are_text(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.tsv",
        'id\ttext\n1\t"@ann: so true!!" THANKS!\n2\t"never closed\n3\t7" of rain\n',
    )
    with pytest.raises(
        InputError,
        match=r"a\.tsv:2: a quote .* followed by text \(.*\); --quotechar '' takes quotes as text",
    ):
        Read(path)
    assert Read(path, quotechar="").texts == [
        '"@ann: so true!!" THANKS!',
        '"never closed',
        '7" of rain',
    ]


def test_bad_csv_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.csv:1: no column 'text'; choose one of id, body"):
        Read(write(tmp_path / "a.csv", "id,body\n"), on_error="skip")
    with pytest.raises(InputError, match="several columns are called 'text'"):
        Read(write(tmp_path / "b.csv", "text,text\n"))
    with pytest.raises(InputError, match=r"c\.csv:2: a quote that is not closed"):
        Read(write(tmp_path / "c.csv", 'text\n"never closed\n'))
    with pytest.raises(InputError, match=r"e\.csv:3: not valid UTF-8"):
        Read(write(tmp_path / "e.csv", b"text\na\n\xff\n"))


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.mallet", "a.svm", "docword.txt"])
def test_a_line_that_is_too_long(tmp_path: Path, name: str) -> None:
    long = {
        "a.txt": "y " * 50_000,
        "a.jsonl": '{"text":"' + "y " * 50_000 + '"}',
        "a.mallet": "i l " + "y " * 50_000,
        "a.svm": "1" + " 1:1" * 25_000,
    }
    short = {"a.txt": "x", "a.jsonl": '{"text":"x"}', "a.mallet": "j l x", "a.svm": "1 1:1"}
    if name == "docword.txt":
        path = write(tmp_path / name, "2\n2\n2\n1 1 1\n" + " " * 100_000 + "2 1 1\n")
    else:
        path = write(tmp_path / name, f"{short[name]}\n{long[name]}\n{short[name]}\n")
    line = 5 if name == "docword.txt" else 2
    for size in (100, 5000, 8 << 20):
        with pytest.raises(
            InputError, match=rf"{name}:{line}: a record of more than|no record ends within"
        ):
            Read(path, max_document=20_000, piece_bytes=size)
    if name == "docword.txt":
        return
    for size in (100, 5000, 8 << 20):
        got = Read(path, max_document=20_000, piece_bytes=size, on_error="skip")
        assert len(got.ids) == 2 and [r.line for r in got.rejects] == [2]
        assert got.source[1].endswith(":3")


def test_a_record_longer_than_a_piece_is_not_copied_for_each_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    whole = Source.read
    monkeypatch.setattr(Source, "read", lambda self, n: (reads.append(n), whole(self, n))[1])
    got = Read(write(tmp_path / "a.txt", "x" * 3_000_000), piece_bytes=64)
    assert got.texts == ["x" * 3_000_000]
    assert len(reads) < 30 and sum(reads) < 20_000_000  # 47,000 and 70 GB with steps of a piece


def test_a_file_that_is_too_long(tmp_path: Path) -> None:
    write(tmp_path / "t" / "a", "x" * 30_000)
    write(tmp_path / "t" / "b", "short")
    with pytest.raises(InputError, match="a document of more than"):
        Read(tmp_path / "t", max_document=20_000)
    assert Read(tmp_path / "t", max_document=20_000, on_error="skip").texts == ["short"]


def test_memory_stays_small_whatever_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    with gzip.open(path, "wb", compresslevel=1) as f:
        for _ in range(100):
            f.write(b"z" * (1 << 20))
    tracemalloc.start()
    got = Read(path, max_document=4 << 20, piece_bytes=1 << 20, on_error="skip")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(got.rejects) == 1 and got.texts == []
    assert peak < 40 << 20


def test_first_error_in_order_is_the_one_reported(tmp_path: Path) -> None:
    text = b'{"text": "ok"}\n' * 500
    packed = gzip.compress(text + b"broken\n" + rows(3000))
    path = write(tmp_path / "a.jsonl.gz", packed[:-2000])
    with pytest.raises(InputError, match=r"a\.jsonl\.gz:501: not JSON"):
        Read(path, piece_bytes=1000)


@pytest.mark.quick("jsonl", "csv", "parquet", "tar", "images")
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.binary(max_size=200), size=st.integers(1, 64))
@pytest.mark.parametrize("name", sorted(set(readers()) - {"docword", "mtx", "ldac", "svmlight"}))
def test_any_bytes_end_in_documents_or_one_clear_error(
    tmp_path: Path, data: bytes, size: int, name: str
) -> None:
    path = write(tmp_path / "any.txt", (b"id,text\n" if name == "csv" else b"") + data)
    for on_error in ("fail", "skip"):
        try:
            Read(path, format=name, on_error=on_error, piece_bytes=size)
        except InputError as e:
            assert "\n" not in str(e) and "any.txt" in str(e)


def test_progress_and_the_same_pieces_again(tmp_path: Path) -> None:
    write(tmp_path / "t" / "a.jsonl", rows(500))
    write(tmp_path / "t" / "b.jsonl.gz", gzip.compress(rows(500)))
    options = ReadOptions(piece_bytes=10_000)
    first, again = (list(pieces(tmp_path / "t", options)) for _ in range(2))
    assert all(
        a.name == b.name and a.batch.equals(b.batch) for a, b in zip(first, again, strict=True)
    )
    done = [t.consumed for t in first]
    total = sum(p.stat().st_size for p in (tmp_path / "t").iterdir())
    assert done == sorted(done) and done[-1] == first[0].total == total


def test_reading_does_not_depend_on_how_much_comes_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt.gz", gzip.compress(rows(3000)))
    with Source(str(path), path) as one, Source(str(path), path) as other:
        one.head()
        parts = [one.read(70_001) for _ in range(30)]
        assert b"".join(parts) == other.read(10**8) == rows(3000)
        assert all(
            len(p) in (70_001, 0) for p in parts[:-1] if p is not parts[parts.index(b"") - 1]
        )


def test_a_pipe_with_a_name_is_refused_not_waited_for(tmp_path):
    fifo = tmp_path / "pipe.jsonl"
    os.mkfifo(fifo)
    with pytest.raises(InputError, match=r"pipe\.jsonl: no regular file .* standard input: -"):
        survey_inputs(str(fifo), ReadOptions())
    args = [
        sys.executable,
        "-m",
        "topicstream.cli.main",
        "ingest",
        str(fifo),
        "--out",
        str(tmp_path / "c.zarr"),
    ]
    done = subprocess.run(args, capture_output=True, text=True, timeout=600)
    assert done.returncode == 3 and "pipe.jsonl: no regular file" in done.stderr
