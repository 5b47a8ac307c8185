"""What every reader promises, ours and the example package's: the same documents for any size of
pieces, whole records before a damaged one, bad records counted and skipped, odd text files.

A reader of ours without a sample here fails ``test_every_reader_has_a_sample``.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp

from tests.plugin_package.topicstream_example.reader import PARAGRAPHS
from tests.plugin_package.topicstream_example.warc import WARC
from tests.wall import find_missing
from topicstream.base import plugins
from topicstream.base.errors import InputError
from topicstream.ingestion.open.source import READ_BYTES, Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.reader import reader_named
from topicstream.ingestion.parts.tasks import pieces, pieces_of

WORDS = 50
SIZES = [1, 1000, 8 << 20]
EXAMPLES = {"paragraphs": PARAGRAPHS, "warc": WARC}


class Documents:
    """What is read of an input: rows of all columns, rejected records, notes."""

    def __init__(self, name: str, path: Path, **options: Any) -> None:
        given = ReadOptions(format=None if name in EXAMPLES else name, **options)
        if path.is_dir():
            tasks = pieces([path], given)
        else:
            reader = EXAMPLES.get(name) or reader_named(name)
            strict = given.on_error == "fail"
            tasks = pieces_of([(reader, Source(str(path), path, strict=strict))], given)
        self.rows: list[dict[str, Any]] = []
        self.rejects: list[Any] = []
        self.words: list[str] | None = None
        for task in tasks:
            batch, _ = task.run()
            batch.validate(full=True)
            self.rows += batch.to_pylist()
            self.rejects += task.rejects.records
            if task.words is not None:
                self.words = task.words.to_pylist()


def text_of(i: int) -> str:
    """The text of a document: letters that differ from document to document."""
    words = np.random.default_rng(i).choice(list("abcdefghijklmnop"), (12, 5))
    return " ".join(map("".join, words.tolist()))


def bag_of(i: int) -> dict[int, int]:
    """The counts of a document by word, from 0."""
    rng = np.random.default_rng(i)
    words = np.sort(rng.choice(WORDS, 5, replace=False))
    return dict(zip(words.tolist(), rng.integers(1, 9, 5).tolist()))


def matrix_of(n: int) -> sp.csr_array:
    """The counts of documents as a matrix."""
    rows = np.zeros((n, WORDS), np.int64)
    for i in range(n):
        for w, count in bag_of(i).items():
            rows[i, w] = count
    return sp.csr_array(rows)


@dataclass(frozen=True)
class Stream:
    """A format of records one behind the other.

    Attributes
    ----------
    record
        The bytes of document number i.
    head, tail
        What stands before n records, with so many more that are bad, and behind them.
    bad
        A record that cannot be used; it stands between two good ones.
    lines
        Whether the format is made of lines, so that CRLF and a missing last line break are nothing.
    partial
        Whether what is left of a record that is cut off is a document.
    """

    file: str
    record: Callable[[int], bytes]
    head: Callable[[int, int], bytes] = lambda n, more: b""
    tail: bytes = b""
    bad: bytes | None = None
    lines: bool = True
    partial: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def content(self, n: int, bad_at: int | None = None) -> bytes:
        parts = [self.record(i) for i in range(n)]
        if bad_at is not None:
            assert self.bad is not None
            parts.insert(bad_at, self.bad)
        return self.head(n, int(bad_at is not None)) + b"".join(parts) + self.tail


def triples(i: int) -> bytes:
    return b"".join(b"%d %d %d\n" % (i + 1, w + 1, n) for w, n in bag_of(i).items())


def citation(i: int, number: str = "<PMID>%d</PMID>") -> bytes:
    number = number % i if "%" in number else number
    title = f"<Article><ArticleTitle>{text_of(i)}</ArticleTitle></Article>"
    inside = f"<MedlineCitation>{number}{title}</MedlineCitation>"
    return f"<PubmedArticle>{inside}</PubmedArticle>\n".encode()


def warc_record(i: int, block: bytes | None = None) -> bytes:
    page = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{text_of(i)}".encode()
    block = page if block is None else block
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:{i}>\r\n"
    head += "Content-Type: application/http; msgtype=response\r\n"
    return f"{head}Content-Length: {len(block)}\r\n\r\n".encode() + block + b"\r\n\r\n"


def member(name: str, content: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info.tobuf() + content + bytes(-len(content) % 512)


STREAMS = {
    "jsonl": Stream(
        "a.jsonl",
        lambda i: f'{{"id": "n{i}", "text": "{text_of(i)}", "kind": "k{i % 3}"}}\n'.encode(),
        bad=b'{"id": "x", "text": \n',
        options={"meta": {"kind": "kind"}},
    ),
    "csv": Stream(
        "a.csv",
        lambda i: f'n{i},"{text_of(i)}, and",k{i % 3}\n'.encode(),
        head=lambda n, more: b"id,text,kind\n",
        bad=b"x,y\n",
        options={"meta": {"kind": "kind"}},
    ),
    "lines": Stream(
        "a.txt", lambda i: text_of(i).encode() + b"\n", bad=b"abc \x81\x8d\xff def\n", partial=True
    ),
    "mallet": Stream(
        "a.mallet",
        lambda i: f"n{i} label{i % 2} {text_of(i)}\n".encode(),
        bad=b"alone\n",
        partial=True,
    ),
    "paragraphs": Stream("a.para", lambda i: text_of(i).encode() + b"\n\n", partial=True),
    "ldac": Stream(
        "a.ldac",
        lambda i: b"5" + b"".join(b" %d:%d" % pair for pair in bag_of(i).items()) + b"\n",
        bad=b"3 1:1 2:2\n",
    ),
    "svmlight": Stream(
        "a.svm",
        lambda i: b"c" + b"".join(b" %d:%d" % (w + 1, n) for w, n in bag_of(i).items()) + b"\n",
        bad=b"c 4:-2\n",
        partial=True,
    ),
    "docword": Stream(
        "docword.a.txt",
        triples,
        head=lambda n, more: b"%d\n%d\n%d\n" % (n, WORDS, 5 * n + more),
        bad=b"3 999 1\n",
    ),
    "mtx": Stream(
        "a.mtx",
        triples,
        head=lambda n, more: (
            b"%%%%MatrixMarket matrix coordinate integer general\n%d %d %d\n"
            % (n, WORDS, 5 * n + more)
        ),
        bad=b"3 999 1\n",
    ),
    "pubmed": Stream(
        "a.xml",
        lambda i: citation(i + 1),
        head=lambda n, more: b'<?xml version="1.0" encoding="utf-8"?>\n<PubmedArticleSet>\n',
        tail=b"</PubmedArticleSet>\n",
        bad=citation(0, ""),
    ),
    "tar": Stream(
        "a.tar",
        lambda i: member(f"n{i}.txt", text_of(i).encode() * (1 + i % 13)),
        tail=bytes(1024),
        bad=member("../out.txt", b"text"),
        lines=False,
    ),
    "warc": Stream("a.warc", warc_record, bad=warc_record(9, b"no message"), lines=False),
}


def write_files(folder: Path, n: int) -> Path:
    place = folder / "texts"
    place.mkdir()
    for i in range(n):
        (place / f"n{i:04}.txt").write_text(text_of(i))
    return place


def write_markup(folder: Path, n: int) -> Path:
    place = folder / "pages"
    place.mkdir()
    for i in range(n):
        (place / f"n{i:04}.html").write_text(f"<html><body><p>{text_of(i)}</p></body></html>")
    return place


def table_of(n: int) -> pa.Table:
    return pa.table({"id": [f"n{i}" for i in range(n)], "text": [text_of(i) for i in range(n)]})


def write_parquet(folder: Path, n: int) -> Path:
    pq.write_table(table_of(n), folder / "a.parquet", row_group_size=7, compression="none")
    return folder / "a.parquet"


def write_arrow(folder: Path, n: int) -> Path:
    table = table_of(n)
    with pa.ipc.new_file(str(folder / "a.arrow"), table.schema) as file:
        file.write_table(table, max_chunksize=7)
    return folder / "a.arrow"


def write_npz(folder: Path, n: int) -> Path:
    sp.save_npz(folder / "a.npz", sp.csr_matrix(matrix_of(n)))
    return folder / "a.npz"


def write_h5ad(folder: Path, n: int) -> Path:
    matrix = matrix_of(n)
    with h5py.File(folder / "a.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"] = "csr_matrix"
        group.attrs["shape"] = matrix.shape
        for name in ("data", "indices", "indptr"):
            group.create_dataset(name, data=getattr(matrix, name))
        for axis, letter, count in (("obs", "c", n), ("var", "g", WORDS)):
            frame = file.create_group(axis)
            frame.attrs["_index"] = "names"
            frame.create_dataset("names", data=[f"{letter}{i}" for i in range(count)])
    return folder / "a.h5ad"


def write_tenx(folder: Path, n: int) -> Path:
    place = folder / "tenx"
    place.mkdir()
    with gzip.open(place / "matrix.mtx.gz", "wb") as file:
        scipy.io.mmwrite(file, sp.coo_matrix(matrix_of(n).T), field="integer")
    with gzip.open(place / "barcodes.tsv.gz", "wt") as file:
        file.write("".join(f"c{i}\n" for i in range(n)))
    with gzip.open(place / "features.tsv.gz", "wt") as file:
        file.write("".join(f"id{i}\tg{i}\tPeaks\n" for i in range(WORDS)))
    return place


def write_npy(folder: Path, n: int) -> Path:
    np.save(folder / "a.npy", np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32))
    return folder / "a.npy"


def write_vectors(folder: Path, n: int) -> Path:
    rows = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    columns = {"id": [f"n{i}" for i in range(n)], "vector": list(rows)}
    pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=7)
    return folder / "a.parquet"


def write_images(folder: Path, n: int) -> Path:
    image = pytest.importorskip("PIL.Image")
    place = folder / "images"
    place.mkdir()
    rng = np.random.default_rng(0)
    for i in range(min(n, 5)):
        pixels = rng.integers(0, 255, (32, 32), np.uint8)
        image.fromarray(pixels).save(place / f"n{i}.png")
    return place


WHOLE: dict[str, tuple[Callable[[Path, int], Path], dict[str, Any]]] = {
    "files": (write_files, {}),
    "markup": (write_markup, {}),
    "parquet": (write_parquet, {}),
    "arrow": (write_arrow, {}),
    "npz": (write_npz, {}),
    "h5ad": (write_h5ad, {}),
    "tenx": (write_tenx, {}),
    "npy": (write_npy, {"vectors": True}),
    "vectors": (write_vectors, {"vector_field": "vector"}),
    "images": (write_images, {"patches": 8}),
}
"""Folders, and files that are read to and fro: who writes n documents, and options."""

N = 40


def test_every_reader_has_a_sample():
    readers = {*plugins.own_names(plugins.READERS), *EXAMPLES}
    samples = {*STREAMS, *WHOLE}
    assert readers <= samples
    assert readers == samples or find_missing()  # an add-on may have been deleted


def stored(stream: Stream, folder: Path, content: bytes) -> Path:
    """The content under the sample's name, and the words of counts beside it."""
    folder.mkdir(exist_ok=True)
    (folder / "words.txt").write_text("".join(f"w{i}\n" for i in range(WORDS)))
    (folder / stream.file).write_bytes(content)
    return folder / stream.file


def read_stream(name: str, folder: Path, content: bytes, **options: Any) -> Documents:
    stream = STREAMS[name]
    path = stored(stream, folder, content)
    if name in ("ldac", "svmlight", "docword", "mtx"):
        options["words"] = folder / "words.txt"
    return Documents(name, path, **stream.options, **options)


@pytest.mark.parametrize("name", STREAMS)
def test_any_size_of_pieces_gives_the_same_documents_of_a_stream(name, tmp_path):
    content = STREAMS[name].content(N)
    first = read_stream(name, tmp_path, content)
    assert len(first.rows) == N and not first.rejects
    for size in SIZES:
        again = read_stream(name, tmp_path, content, piece_bytes=size)
        assert again.rows == first.rows and again.words == first.words


@pytest.mark.parametrize("name", WHOLE)
def test_any_size_of_pieces_gives_the_same_documents_of_a_whole_file(name, tmp_path):
    write, options = WHOLE[name]
    path = write(tmp_path, N)
    first = Documents(name, path, **options)
    assert len(first.rows) == (5 * 16 if name == "images" else N) or name == "images"
    assert first.rows and not first.rejects
    for size in SIZES:
        again = Documents(name, path, piece_bytes=size, **options)
        assert again.rows == first.rows and again.words == first.words


@pytest.mark.quick("1000-*", "1-jsonl")
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("size", SIZES)
def test_whole_records_before_a_cut_are_kept(name, size, tmp_path):
    """The file ends in the middle of its last record."""
    stream = STREAMS[name]
    whole = read_stream(name, tmp_path, stream.content(N))
    before = len(stream.head(N, 0)) + sum(len(stream.record(i)) for i in range(N - 1))
    # in the middle of the last pair of counts, of the text, or of the head of a record
    cut = before + (len(stream.record(N - 1)) // 2)
    content = stream.content(N)[:cut]
    part = read_stream(name, tmp_path, content, on_error="skip", piece_bytes=size)
    assert part.rows[: N - 1] == whole.rows[: N - 1]
    if name in ("docword", "mtx"):  # the last document has lost words, and the header is wrong
        assert len(part.rows) in (N - 1, N) and part.rejects
    else:
        assert len(part.rows) + len(part.rejects) == N
        assert stream.partial or len(part.rejects) == 1
    if not part.rejects:
        return
    with pytest.raises(InputError):
        read_stream(name, tmp_path, content, piece_bytes=size)


@pytest.mark.quick("jsonl", "tar")
@pytest.mark.parametrize("name", STREAMS)
def test_whole_records_before_damaged_compression_are_kept(name, tmp_path):
    """A .gz that ends early: everything but what may be lost with the last 64 KiB is kept."""
    stream = STREAMS[name]
    n = 250_000 // len(stream.record(1))
    content = stream.content(n)
    whole = read_stream(name, tmp_path, content)
    packed = gzip.compress(content)
    packed = packed[: len(packed) * 9 // 10]
    inflated = len(zlib.decompressobj(31).decompress(packed))
    ends = len(stream.head(n, 0)) + np.cumsum([len(stream.record(i)) for i in range(n)])
    least = int(np.searchsorted(ends, inflated - READ_BYTES, "right"))
    assert n // 2 < least < n
    for size in (8000, 8 << 20):
        part = read_stream(name, tmp_path, packed, on_error="skip", piece_bytes=size)
        held = len(part.rows)
        if name in ("docword", "mtx"):  # of the last document there may be a part
            held -= part.rows[-1] != whole.rows[held - 1]
        assert held >= least
        assert part.rows[:held] == whole.rows[:held]
        assert len(part.rejects) == 1 and "damaged or truncated" in part.rejects[0].reason
    with pytest.raises(InputError, match="damaged or truncated"):
        read_stream(name, tmp_path, packed)


@pytest.mark.quick("1000-*", "1-jsonl")
@pytest.mark.parametrize("name", [name for name in STREAMS if STREAMS[name].bad])
@pytest.mark.parametrize("size", SIZES)
def test_bad_records_are_counted_and_skipped(name, size, tmp_path):
    stream = STREAMS[name]
    whole = read_stream(name, tmp_path, stream.content(N))
    content = stream.content(N, bad_at=3)
    part = read_stream(name, tmp_path, content, on_error="skip", piece_bytes=size)
    assert len(part.rejects) == 1
    named = [name for name in part.rows[0] if name not in ("source", "id")]
    if all("n0" in str(row.get("id", "")) for row in whole.rows[:1]):
        named.append("id")
    assert [[row[key] for key in named] for row in part.rows] == [
        [row[key] for key in named] for row in whole.rows
    ]
    with pytest.raises(InputError) as refused:
        read_stream(name, tmp_path, content, piece_bytes=size)
    assert "\n" not in str(refused.value) and "a." in str(refused.value)


@pytest.mark.parametrize("name", [*STREAMS, *(n for n in WHOLE if n not in ("tenx", "images"))])
def test_an_empty_file_has_no_documents(name, tmp_path):
    """It is an error in one line, or it gives nothing; never a traceback."""
    if name in STREAMS:
        path = stored(STREAMS[name], tmp_path, b"")
        options = dict(STREAMS[name].options)
        if name in ("ldac", "svmlight", "docword", "mtx"):
            options["words"] = tmp_path / "words.txt"
    else:
        write, options = WHOLE[name]
        path = write(tmp_path, 1)
        path = next(path.iterdir()) if path.is_dir() else path
        path.write_bytes(b"")
    part = Documents(name, path, on_error="skip", **options)
    assert all(row.get("text") == "" for row in part.rows) and len(part.rows) <= 1
    try:
        Documents(name, path, **options)
    except InputError as e:
        assert "\n" not in str(e) and path.name in str(e) and len(part.rejects) == 1


def as_crlf(content: bytes) -> bytes:
    return content.replace(b"\n", b"\r\n")


def add_mark(content: bytes) -> bytes:
    return b"\xef\xbb\xbf" + content


def as_utf16(content: bytes) -> bytes:
    return content.decode().encode("utf-16")


def without_last_break(content: bytes) -> bytes:
    return content.rstrip(b"\n")


@pytest.mark.quick(
    "*-jsonl",
    "*-csv",
    "as_utf16-lines",
    "as_crlf-paragraphs",
    "compress-docword",
    "add_mark-mallet",
)
@pytest.mark.parametrize("name", [name for name in STREAMS if STREAMS[name].lines])
@pytest.mark.parametrize("change", [as_crlf, add_mark, without_last_break, as_utf16, gzip.compress])
def test_odd_text_files_give_the_same_documents(name, change, tmp_path):
    if name == "pubmed" and change is as_utf16:
        pytest.skip("the XML says that it is UTF-8")
    content = STREAMS[name].content(N)
    whole = read_stream(name, tmp_path / "plain", content)
    for size in (1, 8 << 20):
        odd = read_stream(name, tmp_path / "odd", change(content), piece_bytes=size)
        assert odd.rows == whole.rows and odd.words == whole.words and not odd.rejects


@pytest.mark.parametrize("name", ["tar", "warc"])
def test_packed_archives_give_the_same_documents(name, tmp_path):
    content = STREAMS[name].content(N)
    whole = read_stream(name, tmp_path / "plain", content)
    assert read_stream(name, tmp_path / "odd", gzip.compress(content)).rows == whole.rows


@pytest.mark.parametrize("name", ["files", "markup"])
def test_a_bad_file_of_a_folder_is_counted_and_skipped(name, tmp_path):
    write, options = WHOLE[name]
    place = write(tmp_path, N)
    whole = Documents(name, place, **options)
    suffix = next(place.iterdir()).suffix
    suffix = ".tei" if name == "markup" else suffix
    (place / f"n0003x{suffix}").write_bytes(b"<TEI><text>\x81\x8d\xff</TEI>")
    for size in SIZES:
        part = Documents(name, place, on_error="skip", piece_bytes=size, **options)
        assert part.rows == whole.rows
        assert [reject.file.endswith(f"n0003x{suffix}") for reject in part.rejects] == [True]
    with pytest.raises(InputError, match="n0003x"):
        Documents(name, place, **options)


@pytest.mark.parametrize("name", ["parquet", "arrow", "npz", "h5ad", "npy", "vectors"])
@pytest.mark.parametrize("share", [0.2, 0.6, 0.98])
def test_a_truncated_file_is_counted_and_gives_only_whole_rows(name, share, tmp_path):
    write, options = WHOLE[name]
    path = write(tmp_path, N)
    whole = Documents(name, path, **options)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    part = Documents(name, path, on_error="skip", **options)
    assert part.rows == whole.rows[: len(part.rows)]
    assert len(part.rejects) == 1
    with pytest.raises(InputError) as refused:
        Documents(name, path, **options)
    assert "\n" not in str(refused.value) and path.name in str(refused.value)
