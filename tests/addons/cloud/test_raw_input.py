"""Raw input and side files from buckets and web servers, and datasets in partitions: as
from disk.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import io
import json
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests import few_quick
from tests.s3 import SECRET, Put
from topicstream import Corpus, ingest
from topicstream.addons.cloud import remote
from topicstream.base.errors import InputError, UsageError
from topicstream.cli.main import run as topics
from topicstream.ingestion.open.source import Source

TEXTS = [
    f"stars galaxy telescope orbit{n % 5}" if n % 2 else f"bread butter flour oven{n % 7}"
    for n in range(300)
]
JSONL = "".join(
    json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(TEXTS)
).encode()


@dataclass
class Result:
    exit_code: int
    output: str


def run(*args: str | Path) -> Result:
    out = io.StringIO()
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = topics([str(a) for a in args])
    return Result(code, out.getvalue() + err.getvalue())


def test_an_object_gives_the_store_that_its_file_gives(put: Put, tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_bytes(JSONL)
    address = put("raw/docs.jsonl", JSONL)
    here = ingest(tmp_path / "docs.jsonl", tmp_path / "here.zarr")
    result = run("ingest", address, "--out", tmp_path / "there.zarr", "--json")
    assert result.exit_code == 0, result.output
    there = Corpus.open(tmp_path / "there.zarr")
    assert there.fingerprint == Corpus.open(tmp_path / "here.zarr").fingerprint
    assert there.n_docs + there.part(heldout=True).docs == here["documents"] == len(TEXTS)
    again = run("ingest", address, "--out", tmp_path / "there.zarr")
    assert "finished before" in again.output
    put("raw/docs.jsonl", JSONL + b'{"id": "more", "text": "stars"}\n')
    assert "exists" in run("ingest", address, "--out", tmp_path / "there.zarr").output, (
        "another version of the object"
    )


def test_parts_are_read_in_order_and_ahead(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PART", 1000)
    monkeypatch.setattr(remote, "HEAD", 300)
    address = put("raw/docs.jsonl", JSONL)
    remote.traffic()
    with remote.open_remote(address) as file:
        assert b"".join(iter(lambda: file.read1(64), b"")) == JSONL
    assert remote.traffic()["requests"] == 1 - (300 - len(JSONL)) // 1000, "a request a part"
    with remote.open_remote(address) as file:
        assert file.read() == JSONL
        file.seek(2500)
        assert file.read(700) == JSONL[2500:3200]


def test_a_list_of_addresses_is_not_taken_for_texts(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"is a file, and a str in a list a document: give Path\('s3://b/a.jsonl'\)",
    ):
        ingest(["s3://b/a.jsonl", "s3://b/b.jsonl"], tmp_path / "c.zarr")


@pytest.mark.parametrize("remotely", few_quick([True, False], [True]))
def test_a_resumed_ingest_reads_no_finished_input_again(
    put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remotely: bool
) -> None:
    places: list[Path] = []
    for n in range(3):
        lines = b"".join(
            b'{"id": "%d-%d", "text": "%s"}\n' % (n, i, b"stars galaxy bread flour " * 40)
            for i in range(300)
        )
        (tmp_path / f"{n}.jsonl").write_bytes(lines)
        places.append(Path(put(f"raw/{n}.jsonl", lines)) if remotely else tmp_path / f"{n}.jsonl")
    reads: Counter[str] = Counter()
    more = Source._read_more
    broken = True

    def counted(self: Source) -> bytes:
        reads[self.key] += 1
        if broken and self.key == "2.jsonl" and reads["2.jsonl"] > 5:
            raise InputError("the line is down")
        return more(self)

    monkeypatch.setattr(Source, "_read_more", counted)
    options: dict[str, Any] = {
        "checkpoint_bytes": 1,
        "piece_bytes": 1 << 16,
        "min_df": 1,
        "max_df": 1.0,
    }
    with pytest.raises(InputError, match="the line is down"):
        ingest(places, tmp_path / "c.zarr", **options)
    whole = reads["0.jsonl"]
    broken = False
    reads.clear()
    assert ingest(places, tmp_path / "c.zarr", **options)["documents"] == 900
    assert reads["0.jsonl"] == reads["1.jsonl"] < whole / 2, "only the head, which tells the format"
    assert ingest(places, tmp_path / "whole.zarr", **options)["documents"] == 900
    assert (
        Corpus.open(tmp_path / "c.zarr").fingerprint
        == Corpus.open(tmp_path / "whole.zarr").fingerprint
    )


def test_a_folder_of_a_bucket_in_partitions(put: Put, tmp_path: Path) -> None:
    for year in (2020, 2021):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [f"{year}-{n}" for n in range(300)], "body": TEXTS}), sink)
        put(f"dataset/year={year}/part-0.parquet", sink.getvalue().to_pybytes())
    put("dataset/_SUCCESS", b" ")
    options = ["--text-field", "body", "--meta", "year"]
    result = run(
        "ingest", "s3://corpora/dataset/", *options, "--out", tmp_path / "c.zarr", "--heldout", "0"
    )
    assert result.exit_code == 0, result.output
    store = Corpus.open(tmp_path / "c.zarr")
    assert store.n_docs == 600 and [store[0].metadata["year"], store[599].metadata["year"]] == [
        "2020",
        "2021",
    ]
    result = run(
        "ingest", "s3://corpora/dataset/", "--text-field", "body", "--out", tmp_path / "d.zarr"
    )
    assert (
        result.exit_code == 0
        and "2 files with year= in their path (--meta year keeps it)" in result.output
    )


@pytest.mark.quick("matrix.npz")
@pytest.mark.parametrize("name", ["cells.h5ad", "matrix.npz", "vectors.npz", "vectors.parquet"])
def test_files_that_are_read_to_and_fro(put: Put, tmp_path: Path, name: str) -> None:
    """From a bucket, and packed as a whole, as from disk."""
    matrix = sp.random_array(
        (80, 30),
        density=0.3,
        rng=np.random.default_rng(2),
        format="csr",
        data_sampler=lambda size: np.arange(size) % 5 + 1,
    )
    path = tmp_path / name
    options = ["--heldout", "0"]
    if name == "cells.h5ad":
        with h5py.File(path, "w") as file:
            file.create_dataset("X", data=matrix.toarray())
            for side, size in (("obs", 80), ("var", 30)):
                file.create_dataset(
                    f"{side}/_index", data=np.array([f"{side}{i}" for i in range(size)], "S")
                )
    elif name == "matrix.npz":
        sp.save_npz(path, matrix)
    elif name == "vectors.npz":
        np.savez(path, matrix.toarray()[:, :5])
    else:
        pq.write_table(pa.table({"v": list(matrix.toarray()[:, :5])}), path)
        options += ["--vector-field", "v"]
    packed = path.with_name(f"{name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    stores = []
    for number, place in enumerate([path, packed, put(f"raw/{name}", path.read_bytes())]):
        result = run("ingest", place, *options, "--out", tmp_path / f"{number}.zarr")
        assert result.exit_code == 0, result.output
        stores.append(Corpus.open(tmp_path / f"{number}.zarr", dense=True).fingerprint)
    assert len(set(stores)) == 1


@pytest.mark.product
def test_a_matrix_of_10x_from_a_bucket(put: Put, tmp_path: Path) -> None:
    parts = {
        "matrix.mtx.gz": b"%%MatrixMarket matrix coordinate integer general\n3 2 4\n1 1 5\n2 1 1\n2 2 4\n3 2 "
        b"1\n",
        "barcodes.tsv.gz": b"AAA-1\nBBB-1\n",
        "features.tsv.gz": b"g1\tG1\tGene Expression\ng2\tG2\tGene Expression\ng3\tG3\tGene Expression\n",
    }
    (tmp_path / "cells").mkdir()
    for name, text in parts.items():
        (tmp_path / "cells" / name).write_bytes(gzip.compress(text))
        put(f"cells/{name}", gzip.compress(text))
        put(f"geo/GSM1_{name}", gzip.compress(text))
        put(f"geo/GSM2_{name}", gzip.compress(text.replace(b"AAA", b"CCC").replace(b"BBB", b"DDD")))
    stores = []
    for place in (
        tmp_path / "cells",
        "s3://corpora/cells/",
        "s3://corpora/cells/matrix.mtx.gz",
        "s3://corpora/geo/",
    ):
        out = tmp_path / f"{len(stores)}.zarr"
        result = run("ingest", place, "--out", out, "--heldout", "0", "--min-df", "1")
        assert result.exit_code == 0, result.output
        stores.append(Corpus.open(out))
    assert len({store.fingerprint for store in stores[:3]}) == 1
    assert [d.id for d in stores[3]] == [
        f"GSM{n}_matrix.mtx.gz:{cell}-1"
        for n, cell in ((1, "AAA"), (1, "BBB"), (2, "CCC"), (2, "DDD"))
    ] and stores[3].words.to_pylist() == ["G1", "G2", "G3"]
    put("cells.zarr/obs/zarr.json", b"{}")
    result = run("ingest", "s3://corpora/cells.zarr", "--out", tmp_path / "z.zarr")
    assert (
        result.exit_code == 3
        and "AnnData in Zarr is read from a folder of this machine" in result.output
    )


def test_who_may_read_an_object_need_not_list_its_folder(
    put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = put("raw/docs.jsonl", JSONL)

    def denied(address: str) -> list[str]:
        raise remote.Absent(f"{address}: access denied")

    monkeypatch.setattr("topicstream.addons.cloud.places.list_below", denied)
    assert run("ingest", address, "--out", tmp_path / "c.zarr").exit_code == 0
    result = run("ingest", "s3://corpora/raw/", "--out", tmp_path / "d.zarr")
    assert result.exit_code == 3 and "access denied" in result.output


def test_side_files_come_from_a_bucket(put: Put, tmp_path: Path) -> None:
    docs = put("raw/docs.jsonl", JSONL)
    lines = "id\tauthors\n" + "".join(f"{n}\twriter{n % 3}\n" for n in range(len(TEXTS)))
    side = put("raw/authors.tsv", lines.encode())
    result = run("ingest", docs, "--meta-file", side, "--out", tmp_path / "c.zarr")
    assert result.exit_code == 0, result.output
    assert Corpus.open(tmp_path / "c.zarr").axes["authors"].size == 3


def test_what_fails_is_one_line_without_a_secret(
    put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run("ingest", "s3://corpora/none.jsonl", "--out", tmp_path / "c.zarr")
    assert result.exit_code == 3 and "s3://corpora/none.jsonl: no such object" in result.output
    assert result.output.count("\n") == 1 and SECRET not in result.output
    result = run(
        "ingest",
        "https://host/a.jsonl?X-Amz-Signature=very-secret-key",
        "--out",
        tmp_path / "c.zarr",
    )
    assert result.exit_code == 3 and "a query" in result.output and SECRET not in result.output
    result = run(
        "ingest",
        put("raw/x.npz", b"PK\3\4" + bytes(99)),
        "--out",
        tmp_path / "c.zarr",
        "--format",
        "npz",
    )
    assert result.exit_code == 3 and "not an .npz that can be read" in result.output
    address = put("raw/docs.jsonl", JSONL)
    file = remote.RemoteFile(address)
    put("raw/docs.jsonl", JSONL + b" ")
    with pytest.raises(InputError, match="changed while it was read"):
        file.read(10)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "minio:9000")
    remote._store.cache_clear()
    with pytest.raises(UsageError, match="AWS_ENDPOINT_URL=minio:9000: begins with neither"):
        remote.list_below("s3://corpora/raw")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(remote, "RETRY", {"max_retries": 0})
    remote._store.cache_clear()
    remote.forget_versions()
    with pytest.raises(InputError, match="cannot be read") as refused:
        remote.RemoteFile(address)
    assert SECRET not in str(refused.value) and "\n" not in str(refused.value)


def test_a_web_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "docs.jsonl").write_bytes(JSONL)
    handler = functools.partial(_Ranges, directory=str(tmp_path / "raw"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/docs.jsonl"
        monkeypatch.setattr(_Ranges, "cuts", 2)
        result = run("ingest", address, "--out", tmp_path / "c.zarr")
        server.shutdown()
    assert result.exit_code == 0, result.output
    assert _Ranges.cuts == 0, "answers that broke off were carried on"


def test_a_web_server_without_ranges(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    (tmp_path / "docs.jsonl").write_bytes(JSONL)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        result = run(
            "ingest",
            f"http://127.0.0.1:{server.server_address[1]}/docs.jsonl",
            "--out",
            tmp_path / "c.zarr",
        )
        server.shutdown()
    assert (
        result.exit_code == 3
        and "the server sends files whole, not in parts; download the file first" in result.output
    )


class _Ranges(http.server.SimpleHTTPRequestHandler):
    cuts = 0

    def do_GET(self) -> None:
        data = (Path(self.directory) / self.path.lstrip("/")).read_bytes()
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        part = data[int(first) : int(last) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        cut = bool(_Ranges.cuts)
        _Ranges.cuts = max(_Ranges.cuts - 1, 0)
        self.wfile.write(part[: len(part) // 2] if cut else part)

    def log_message(self, *args: Any) -> None:
        pass


def test_arrow_files_in_partitions_from_the_command_line(put: Put, tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [str(n) for n in range(300)],
            "body": TEXTS,
            "year": [2020 + n % 2 for n in range(300)],
        }
    )
    ds.write_dataset(
        table, tmp_path / "d", format="arrow", partitioning=["year"], partitioning_flavor="hive"
    )
    for path in sorted((tmp_path / "d").rglob("*.arrow")):
        put(f"d/{path.relative_to(tmp_path / 'd').as_posix()}", path.read_bytes())
    for place, out in ((tmp_path / "d", "here.zarr"), ("s3://corpora/d/", "there.zarr")):
        result = run(
            "ingest", place, "--text-field", "body", "--meta", "year", "--out", tmp_path / out
        )
        assert result.exit_code == 0, result.output
        years = {document.metadata["year"] for document in Corpus.open(tmp_path / out)}
        assert years == {"2020", "2021"}
    (tmp_path / "cut.feather").write_bytes(
        next((tmp_path / "d").rglob("*.arrow")).read_bytes()[:-40]
    )
    result = run(
        "ingest", tmp_path / "cut.feather", "--text-field", "body", "--out", tmp_path / "cut.zarr"
    )
    assert (
        result.exit_code == 3
        and "not a whole Arrow file" in result.output
        and result.output.count("\n") == 1
    )


@pytest.mark.parametrize("given", ["dataset", "scanner", "reader"])
def test_a_dataset_of_arrow_with_its_partitions(tmp_path: Path, given: str) -> None:
    table = pa.table(
        {
            "id": [str(n) for n in range(300)],
            "body": TEXTS,
            "year": [2020 + n % 2 for n in range(300)],
        }
    )
    ds.write_dataset(
        table, tmp_path / "d", format="arrow", partitioning=["year"], partitioning_flavor="hive"
    )
    dataset: Any = ds.dataset(tmp_path / "d", format="arrow", partitioning="hive")
    documents = {
        "dataset": dataset,
        "scanner": dataset.scanner(),
        "reader": dataset.scanner().to_reader(),
    }[given]
    ingest(documents, tmp_path / "c.zarr", text_field="body", meta=["year"], heldout=0)
    store = Corpus.open(tmp_path / "c.zarr")
    assert store.n_docs == 300 and {store[0].metadata["year"], store[299].metadata["year"]} == {
        "2020",
        "2021",
    }


@pytest.mark.product
def test_nothing_of_obstore_is_imported_without_an_address(tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_bytes(JSONL)
    code = (
        "import sys, topicstream\n"
        f"topicstream.ingest(__import__('pathlib').Path({str(tmp_path / 'docs.jsonl')!r}), "
        f"{str(tmp_path / 'c.zarr')!r})\n"
        "assert 'obstore' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
