"""A reader of web archives in another package (tests/plugin_package)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import topicstream
from tests.example_package import command
from topicstream.cli.main import run


def warc_record(kind: str, content: str, block: bytes, number: int) -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:page:{number}>\r\nWARC-Date: "
        f"2020-01-0{number % 9 + 1}T00:00:00Z\r\n"
    )
    head += (
        f"WARC-Target-URI: http://example.org/{number}\r\nContent-Type: "
        f"{content}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def web_archive() -> list[bytes]:
    """Records: a page as it was sent (in chunks, latin-1, with a script), one packed, a text, a
    picture, a missing page, a request.
    """
    html = (
        "<html><style>p {}</style><p>sea1 sea2 caf\xe9<script>sky9</script> &amp; sea3</p></html>"
    ).encode("latin-1")
    chunks = (
        b"%x\r\n" % 20
        + html[:20]
        + b"\r\n"
        + b"%x\r\n" % len(html[20:])
        + html[20:]
        + b"\r\n0\r\n\r\n"
    )
    sent = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=latin-1\r\nTransfer-Encoding: "
        b"chunked\r\n\r\n" + chunks
    )
    packed = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n\r\n"
        + gzip.compress(b"sky1 sky2 sky3")
    )
    missing = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\nfarm"
    picture = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n\x89PNG\0WARC/1.0\r\n"
    http = "application/http; msgtype=response"
    return [
        warc_record("warcinfo", "application/warc-fields", b"software: x\r\n", 0),
        warc_record("request", "application/http; msgtype=request", b"GET / HTTP/1.1\r\n\r\n", 1),
        warc_record("response", http, sent, 2),
        warc_record("response", http, packed, 3),
        warc_record("response", http, missing, 4),
        warc_record("response", http, picture, 5),
        warc_record("conversion", "text/plain", "farm1 farm2 farm3 \u00fc".encode(), 6),
    ]


@pytest.mark.parametrize("name", ["pages.warc", "pages.warc.gz", "archive"])
def test_a_reader_of_web_archives(installed, place, capsys, name):
    packed = name.endswith(".gz")
    Path(name).write_bytes(b"".join(gzip.compress(r) if packed else r for r in web_archive()))
    fields = (
        "--meta",
        "url=WARC-Target-URI",
        "--meta",
        "date=WARC-Date",
        "--id-field",
        "WARC-Record-ID",
    )
    told = command(
        capsys,
        "ingest",
        name,
        "--out",
        "web.zarr",
        "--min-df",
        "1",
        "--max-df",
        "1.0",
        "--heldout",
        "0",
        *fields,
        "--json",
    )
    assert json.loads(told)["documents"] == 3
    corpus = topicstream.Corpus.open("web.zarr")
    assert sorted(corpus.word_table("word")["word"].to_pylist()) == sorted(
        ["caf\xe9", *(f"{subject}{i}" for subject in ("sea", "sky", "farm") for i in (1, 2, 3))]
    )
    listed = [row for batch in corpus.documents() for row in batch.to_pylist()]
    assert [row["id"] for row in listed] == ["<urn:page:2>", "<urn:page:3>", "<urn:page:6>"]
    assert listed[0]["source"] == f"{name}#3" and listed[2]["url"] == "http://example.org/6"
    assert listed[1]["date"].startswith("2020-01-04")
    topicstream.train("web.zarr", "web", topics=2, passes=2, progress=False)
    answers = [
        json.loads(line)
        for line in command(
            capsys, "infer", name, "--model", "web", "--format", "warc"
        ).splitlines()
    ]
    assert [answer["flag"] for answer in answers] == [None] * 3


@pytest.mark.parametrize(
    "harm, reason",
    [
        (lambda whole: whole[:-10], "ends in the middle of record 7"),
        (
            lambda whole: whole.replace(b"Content-Length: 13\r\n", b""),
            "record 1 has no Content-Length",
        ),
        (lambda whole: whole[:-40], "ends in the middle of record 7"),
        (lambda whole: b"x" + whole, "record 1 does not begin with WARC/"),
        (
            lambda whole: whole.replace(b"HTTP/1.1 200 OK", b"HXXX/1.1 200 OK", 1),
            "#3: no HTTP message",
        ),
    ],
)
def test_damaged_web_archives_are_named_with_the_record(installed, place, capsys, harm, reason):
    Path("pages.warc").write_bytes(harm(b"".join(web_archive())))
    line = [
        "ingest",
        "pages.warc",
        "--format",
        "warc",
        "--out",
        "web.zarr",
        "--min-df",
        "1",
        "--heldout",
        "0",
        "-q",
    ]
    assert run(line) == 3
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("packed", [False, True])
def test_whole_pages_before_a_damage_are_documents(installed, place, capsys, packed):
    """A Common Crawl file that broke off: 99 whole pages, of one the half.

    Of compressed data 64 KiB before the damage may be lost (``READ_BYTES``), which is 8 pages.
    """
    text = b"sea1 sea2 sea3 " * 600
    pages = [warc_record("conversion", "text/plain", text, n) for n in range(100)]
    whole = b"".join(pages[:99])
    if packed:
        damaged = gzip.compress(whole) + gzip.compress(pages[99])[:-30]
    else:
        damaged = whole + b"WARX" + pages[99]
    name = "pages.warc.gz" if packed else "pages.warc"
    Path(name).write_bytes(damaged)
    line = ["ingest", name, "--format", "warc", "--out", "web.zarr", "--min-df", "1", "--heldout"]
    line += ["0", "--max-df", "1.0", "--json"]
    assert run(line) == 3
    capsys.readouterr()
    answer = json.loads(command(capsys, *line, "--on-error", "skip"))
    assert answer["documents"] >= (90 if packed else 99) and answer["rejected"] == 1


def test_a_cut_record_does_not_take_the_whole_ones_with_it(installed, place, capsys):
    pages = [
        warc_record("conversion", "text/plain", f"page{n} sea1 sea2".encode(), n) for n in range(9)
    ]
    line = ["ingest", "p.warc", "--format", "warc", "--out", "web.zarr", "--min-df", "1"]
    line += ["--heldout", "0", "--max-df", "1.0", "--json", "--force", "--on-error", "skip"]
    whole = b"".join(pages[:8])
    for size in (1, 30, len(pages[8]) // 2, len(pages[8]) - 12):  # in its head, in its block
        Path("p.warc").write_bytes(whole + pages[8][:size])
        assert json.loads(command(capsys, *line))["documents"] == 8
