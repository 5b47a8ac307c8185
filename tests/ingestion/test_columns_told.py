"""What an ingest says of the fields of its input: kept, left out, filled, and how many dates it
read.
"""

from __future__ import annotations

import gzip
import json
import unicodedata
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import topicstream
from tests import DATA
from topicstream.cli.main import run

ACL = DATA / "acl" / "docs.jsonl.gz"
TWEETS = """tweet_id,text,created,airline,name
1,the plane was late and my luggage lost,42059.4832,United,ann
2,the crew was kind and the flight on time,16.02.2015,,bob
3,lost luggage again at the airport gate,2015-02-16 23:36:05,Delta,cid
4,the flight was late again and nobody helped,2/24/15,Delta,dan
"""


@pytest.fixture
def tweets(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tweets.csv").write_text(TWEETS)
    return tmp_path


def test_dates_of_spreadsheets_and_what_is_no_date(tweets, capsys):
    assert run(["ingest", "tweets.csv", "--meta", "date=created,airline"]) == 0
    said = capsys.readouterr().out
    assert (
        "columns: date (3 of 4 read, 2015-02-16 to 2015-02-24; not '2/24/15': give "
        "--date-format '%m/%d/%y'), airline (3)" in said
    )
    assert "left out: name, tweet_id (--meta NAME,NAME keeps them)" in said
    assert run(["info"]) == 0
    assert "columns   airline, date, id, source" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("written", "advised"),
    [
        ("28/06/2017 13:06", "--date-format '%d/%m/%Y %H:%M'"),
        ("6/28/2017 1:06 PM", "--date-format '%m/%d/%Y %I:%M %p'"),
        ("3/4/2017", "--date-format '%d/%m/%Y' or '%m/%d/%Y'"),
        ("soon", "1999, 1999-05, 1999-05-31, 31.05.1999, or --date-format"),
    ],
)
def test_the_format_that_is_advised_reads_the_date(tweets, capsys, written, advised):
    (tweets / "tweets.csv").write_text(TWEETS.replace("2/24/15", written))
    assert run(["ingest", "tweets.csv", "--meta", "date=created"]) == 0
    assert (
        f"date (3 of 4 read, 2015-02-16 to 2015-02-24; not {written!r}: give {advised})"
        in capsys.readouterr().out
    )
    if form := advised.partition("'")[2].partition("'")[0]:
        assert (
            run(
                ["ingest", "tweets.csv", "--meta", "date=created", "--date-format", form, "--force"]
            )
            == 0
        )
        assert "date (4 of 4 read, 2015-02-16 to 2017-" in capsys.readouterr().out


def test_spellings_of_no_date_are_missing_and_no_date_that_was_not_read(tmp_path):
    values = ["2001", "NA", "NaN", "", "2003-05"]
    rows = [{"id": f"d{n}", "text": "sea ship", "date": value} for n, value in enumerate(values)]
    summary = topicstream.ingest(rows, tmp_path / "c.zarr", meta="date", progress=False)
    assert summary["dates"] == {"read": 2, "unread": None, "ends": ["2001", "2003-05"]}
    assert summary["columns"] == {"date": 2} and summary["missing_values"] == {"date": 3}


def test_a_field_written_in_two_ways_is_left_out_once(tmp_path):
    decomposed = unicodedata.normalize("NFD", "größe")
    rows = [{"text": "sea ship", "größe": 1}, {"text": "sail", decomposed: 2}]
    summary = topicstream.ingest(rows, tmp_path / "m.zarr", progress=False)
    assert summary["fields_left_out"] == ["größe"]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "d.jsonl").write_text(lines)
    summary = topicstream.ingest(tmp_path / "d.jsonl", tmp_path / "c.zarr", progress=False)
    assert summary["fields_left_out"] == ["größe"]


def test_held_out_documents_that_nobody_has_are_told(tweets, capsys):
    assert run(["ingest", "tweets.csv", "--meta", "airline", "--heldout", "airline=delta"]) == 0
    assert "warning: no document has airline=delta" in capsys.readouterr().out
    assert (
        run(["ingest", "tweets.csv", "--meta", "airline", "--heldout", "airline=Delta", "--force"])
        == 0
    )
    assert "warning" not in capsys.readouterr().out


def test_dates_month_first_are_kept_as_iso(tweets, capsys):
    wide = TWEETS.replace("2/24/15", "2/24/15 9:05").replace("16.02.2015", "12/01/15 23:36")
    (tweets / "tweets.csv").write_text(wide)
    arguments = ["--meta", "date=created", "--date-format", "%m/%d/%y %H:%M"]
    assert run(["ingest", "tweets.csv", "--heldout", "0", *arguments]) == 0
    assert "date (4 of 4 read, 2015-02-16 to 2015-12-01)" in capsys.readouterr().out
    dates = pq.read_table("corpus.zarr/docs")["date"].to_pylist()
    assert dates == ["42059.4832", "2015-12-01", "2015-02-16 23:36:05", "2015-02-24"]
    assert (
        run(
            [
                "ingest",
                "tweets.csv",
                "--heldout",
                "0",
                "--append",
                "--on-duplicate",
                "replace",
                *arguments[:2],
            ]
        )
        == 0
    )
    assert "date (4 of 4 read, 2015-02-16 to 2015-12-01)" in capsys.readouterr().out


def test_a_column_that_no_document_has(tmp_path):
    rows = [
        {"id": "a", "text": "the late flight"},
        {"id": "b", "text": "a lost bag", "who": ["ann"]},
    ]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = topicstream.ingest(
        tmp_path / "d.jsonl", tmp_path / "c.zarr", meta="published,labels=who", progress=False
    )
    assert summary["columns"] == {"labels": 1, "published": 0} and summary["fields_left_out"] == []
    table = topicstream.ingest(rows, tmp_path / "m.zarr", progress=False)
    assert table["fields_left_out"] == ["who"] and table["columns"] == {}


@pytest.mark.skipif(not ACL.exists(), reason="the corpus is not there")
@pytest.mark.parametrize("workers", [1, 2])
def test_dates_of_real_abstracts(tmp_path, workers):
    with gzip.open(ACL, "rt") as file:
        (tmp_path / "acl.jsonl").write_text("".join(islice(file, 3000)))
    summary = topicstream.ingest(
        tmp_path / "acl.jsonl",
        tmp_path / "c.zarr",
        meta="date,authors",
        workers=workers,
        progress=False,
    )
    documents = summary["columns"]["date"]
    assert (summary["dates"]["read"], summary["dates"]["unread"]) == (
        documents,
        None,
    ) and 2900 < documents <= 3000
    assert {"title", "venue"} & set(summary["fields_left_out"])
