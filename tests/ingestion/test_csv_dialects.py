"""CSV as programs write it: backslash escapes, lines before the header, comments."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import topicstream
from tests.reading import Read, write
from topicstream.base.errors import InputError
from topicstream.ingestion.readers.csv_layout import BEFORE, ESCAPED

some_text = st.text(st.sampled_from('ab \\",;#é\nN'), max_size=12)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(st.tuples(some_text, some_text), max_size=6),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    size=st.integers(1, 80),
)
def test_escaped_values_come_back(
    tmp_path: Path, rows: list[tuple[str, str]], quoting: int, size: int
) -> None:
    """``\\N`` alone stands for no value; Python's ``csv`` writes it without an escape."""
    rows = [
        (f"k{i}", note.replace("\\N", "n"), text.replace("\\N", "n"))
        for i, (note, text) in enumerate(rows)
    ]
    sheet = io.StringIO(newline="")
    out = csv.writer(sheet, escapechar="\\", doublequote=False, quoting=quoting)
    out.writerow(["id", "note", "text"])
    out.writerows(rows)
    got = Read(
        write(tmp_path / "a.csv", sheet.getvalue()),
        escapechar="\\",
        meta={"note": "note"},
        piece_bytes=size,
    )
    assert list(zip(got.ids, got.meta.get("note", []), got.texts)) == rows


def test_escapes_of_spark_are_detected(tmp_path: Path) -> None:
    path = write(
        tmp_path / "spark.csv",
        'id,text\nx1,"apple \\"banana\\" cherry"\nx2,"durian, fig"\nx3,"C:\\\\new \\d"\n',
    )
    got = Read(path)
    assert got.texts == ['apple "banana" cherry', "durian, fig", "C:\\new \\d"]
    assert got.notes == {ESCAPED: 1}
    with pytest.raises(InputError, match=r":2: a quote .*--escapechar"):
        Read(path, escapechar="")


def test_dumps_of_mysql(tmp_path: Path) -> None:
    """Without quotes: tabs, line ends and backslashes are escaped, and ``\\N`` is no value."""
    dump = "id\tplace\ttext\n1\t\\N\tone\\\ttwo\\nthree\n2\tRome\tfour\\\nfive \\\\ six\n"
    got = Read(write(tmp_path / "dump.tsv", dump), quotechar="", meta={"place": "place"})
    assert got.texts == ["one\ttwo three", "four\nfive \\ six"]
    assert [value or None for value in got.meta["place"]] == [None, "Rome"]
    assert got.source[1].endswith(":3")


@pytest.mark.parametrize(
    "body",
    [
        'x1,"{""a"":""b\\""c""}"\nx2,"b"\n',  # JSON, with its own escapes
        'x1,"C:\\"\nx2,"D:\\"\n',  # fields that end with a backslash
        "x1,a\\b\nx2,c\\d\n",
    ],
)
def test_backslashes_that_are_text_stay(tmp_path: Path, body: str) -> None:
    path = write(tmp_path / "a.csv", "id,text\n" + body)
    plain = list(csv.DictReader(io.StringIO("id,text\n" + body)))
    for options in ({}, {"escapechar": ""}):
        got = Read(path, **options)
        assert got.texts == [row["text"] for row in plain]
        assert got.notes == {}


def test_text_is_not_shifted_into_the_next_column(tmp_path: Path) -> None:
    """Far behind the head, where both ways of reading give three fields."""
    filler = "".join(f"d{i},plain text of no use,en\n" for i in range(4000))
    late = 'z1,"one \\", two \\"three","de, at\\""\n'
    path = write(tmp_path / "a.csv", "id,text,lang\n" + filler + late)
    with pytest.raises(InputError, match=r":4002: .*--escapechar"):
        Read(path, meta={"lang": "lang"})
    got = Read(path, escapechar="\\", meta={"lang": "lang"})
    assert got.texts[-1] == 'one ", two "three'
    assert got.meta["lang"][-1] == 'de, at"'


def test_a_record_that_reads_in_two_ways_is_refused(tmp_path: Path) -> None:
    """Two fields either way, with other text in each."""
    record = 'one\\,", two \\"\n'
    ways = [next(csv.reader([record], strict=True, escapechar=e)) for e in (None, "\\")]
    assert ways == [["one\\", ", two \\"], ['one,"', ' two "']]
    path = write(tmp_path / "a.csv", "id,text\n" + "x,some text of no use\n" * 4000 + record)
    with pytest.raises(InputError, match=r":4002: a backslash .*--escapechar"):
        Read(path)
    for escape, fields in zip(("", "\\"), ways, strict=True):
        assert Read(path, escapechar=escape).texts[-1] == fields[1]


def test_lines_before_the_header_are_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "j.csv", "Data Source,World\n\nid,text\nx1,apple banana\nx2,cherry\n")
    got = Read(path)
    assert got.ids == ["x1", "x2"]
    assert got.texts == ["apple banana", "cherry"]
    assert got.notes == {BEFORE: 1}
    assert got.source[0].endswith(":4")
    assert Read(path, skip_lines=2).notes == {}
    with pytest.raises(InputError, match=r"no column 'text'.*--skip-lines"):
        Read(path, skip_lines=0)
    report = 'My "report\nof 2020;;\nnr;body;by\n1;some text;A\n'
    got = Read(write(tmp_path / "r.csv", report), text_field="body", meta={"author": "by"})
    assert got.texts == ["some text"]
    assert got.meta == {"author": ["A"]}


def test_comments_are_no_records(tmp_path: Path) -> None:
    body = '# made by hand, today\nid,text\n1,"a\n# not one"\n# one, two, three\n2,#b\n'
    got = Read(write(tmp_path / "a.csv", body))
    assert got.texts == ["a\n# not one", "#b"]
    assert sum(got.notes.values()) == 2
    marked = "% one\nid,text\n%2,b\n3,c\n"
    path = write(tmp_path / "b.csv", marked)
    assert Read(path, comment="%").ids == ["3"]
    assert Read(path).ids == ["%2", "3"]
    tagged = "text,lang\n#metoo now,en\n#one, two,en\n"
    with pytest.raises(InputError, match=r":3: 3 fields .*--comment"):
        Read(write(tmp_path / "c.csv", tagged))


def test_the_dialect_is_remembered_by_the_store(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", '%c\nid,text\n1,"apple \\"pie\\" baked"\n2,apple\n')
    options = {"comment": "%", "escapechar": "\\", "min_df": 1, "heldout": 0, "progress": False}
    topicstream.ingest(path, tmp_path / "c.zarr", **options)
    more = write(tmp_path / "b.csv", '%c\nid,text\n3,"apple \\"pie\\""\n%4,pie\n')
    summary = topicstream.ingest(more, tmp_path / "c.zarr", append=True, progress=False)
    assert summary["documents"] == 3


def test_nothing_is_left_behind_the_lines_that_are_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,text\n1,a\n")
    with pytest.raises(InputError, match="no header after the skipped lines"):
        Read(path, skip_lines=99)
    with pytest.raises(InputError, match="no header after the skipped lines"):
        Read(write(tmp_path / "b.csv", "#a\n#b\n"), comment="#")
