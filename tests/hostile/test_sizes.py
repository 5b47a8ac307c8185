"""No memory beyond what the files pay for: what is declared is weighed before anything is decoded or allocated."""

from __future__ import annotations

import io
import json
import lzma

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from topicstream.cli.main import run
from topicstream.corpus.documents import read_documents
from topicstream.corpus.reader import Corpus
from topicstream.errors import StoreError
from topicstream.evaluation.keys import document_keys
from topicstream.files.durable import read_json, read_sealed
from topicstream.files.plain import load_array, load_arrays

LONG = "x" * 900_000


def test_one_long_text_among_short_ones_is_no_bomb(tmp_path):
    texts = ["s"] * 60_000
    texts[7] = LONG
    table = pa.table({"id": pa.array(texts, pa.large_string()), "labels": pa.array([[t, "b"] for t in texts], pa.list_(pa.large_string()))})
    pq.write_table(table, tmp_path / "part.parquet", compression="zstd")
    assert pa.Table.from_batches(read_documents(tmp_path, [{"file": "part.parquet"}])).equals(table)


def test_arrays_are_as_large_as_their_files(tmp_path):
    out = io.BytesIO()
    np.save(out, np.arange(5))
    data = out.getvalue()
    assert load_array(data, "x").tolist() == [0, 1, 2, 3, 4]
    for bad in (
        data[:-1],
        data + b"\0",
        data.replace(b"(5,)", b"(9999999999,)"),
        b"",
        data[:6],
        data.replace(b"<i8", b"|O8"),
    ):
        with pytest.raises(StoreError):
            load_array(bad, "x")
    np.savez(tmp_path / "a.npz", a=np.eye(3), b=np.zeros(0))
    assert load_arrays(tmp_path / "a.npz")["a"].trace() == 3
    np.savez_compressed(tmp_path / "z.npz", a=np.zeros(10**7))
    with pytest.raises(StoreError, match="compressed"):
        load_arrays(tmp_path / "z.npz")


def test_a_sparse_file_of_text_is_not_read_whole(tmp_path):
    for name, read in (("m.json", read_json), ("h.jsonl", read_sealed)):
        with open(tmp_path / name, "wb") as f:
            f.truncate(1 << 40)
        with pytest.raises(StoreError, match=name):
            read(tmp_path / name)


def test_blocks_that_are_only_declared_are_missed_before_anything_is_allocated(store):
    manifest = json.loads((store / "manifest.json").read_text())
    manifest.pop("checksum")
    part = manifest["parts"]["train"]
    block = json.loads(json.dumps(part["blocks"][-1]))
    for _ in range(200):  # a few hundred bytes of text each
        first = part["rows"]
        part["blocks"].append({**block, "rows": [first, first + 1], "docs": 1 << 10, "removed": {}})
        part["rows"] += 1
    for total in ("docs", "cells", "tokens"):
        part[total] = sum(b[total] - b.get("removed", {}).get(total, 0) * (total != "docs") for b in part["blocks"])
    (store / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="as the manifest declares it"):
        document_keys(Corpus.open(store), False)


LINE = b"alpha beta gamma delta epsilon zeta eta theta iota kappa " * 20 + b"\n"


@pytest.mark.parametrize("preset", [6, 7, 8, 9 | lzma.PRESET_EXTREME])
def test_every_preset_of_xz_is_read_within_512_megabytes(tmp_path, preset):
    (tmp_path / "x.txt.xz").write_bytes(lzma.compress(LINE * 60, preset=preset))
    asked = ["ingest", str(tmp_path / "x.txt.xz"), "--out", str(tmp_path / "c.zarr"), "--min-df", "1", "--max-df", "1.0", "--mem-limit", "512M", "-q"]
    assert run(asked) == 0
