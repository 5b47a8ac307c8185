"""No memory beyond what the files pay for: what is declared is weighed before anything is decoded or allocated."""

from __future__ import annotations

import io
import json
import lzma
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzz_values import write_sealed

import topicstream
from tests.refusing import refused
from topicstream.cli.main import run
from topicstream.corpus.documents import read_documents
from topicstream.corpus.reader import Corpus
from topicstream.errors import DoesNotFit, StoreError
from topicstream.evaluation.keys import document_keys
from topicstream.files.durable import read_json, read_sealed
from topicstream.files.plain import load_array, load_arrays
from topicstream.ingestion.opening.window import window_of
from topicstream.ingestion.read_options import Room

CHILD = """
import resource, sys
from topicstream.errors import DoesNotFit, StoreError
from topicstream.model.vocabulary import Vocabulary
from topicstream.tokens.vocabulary import TokenVocabulary as Words
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for read in (Vocabulary.read, Words.load):
    try:
        read(sys.argv[1])
    except StoreError as e:
        print("refused:", e)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_small_file_of_words_does_not_take_gigabytes(tmp_path):
    n, path = 300_000, tmp_path / "vocab.parquet"
    word = pa.array(["x" * 600_000], pa.large_string())
    ones = np.ones(n, np.int64)
    table = pa.table(
        {"word": pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), word), "count": ones, "df": ones}
    )
    pq.write_table(table, path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 1 << 20  # 180 GB of text
    done = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.count("refused:") == 2 and int(done.stdout.split()[-1]) < 150


def test_a_page_of_zeros_is_weighed_before_it_is_decoded(tmp_path):
    path = tmp_path / "vocab.parquet"
    table = pa.table({"word": pa.array(["\0" * (200 << 20)], pa.large_string()), "count": [1], "df": [1]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(StoreError, match="cannot be"):
        topicstream.model.vocabulary.Vocabulary.read(path)


LONG = "x" * 900_000
ONCE = pa.DictionaryArray.from_arrays(pa.array(np.zeros(60_000, np.int32)), pa.array([LONG], pa.large_string()))
BOMBS = {
    "a text meant 60,000 times": {"id": ONCE},
    "a list's text": {"id": pa.ListArray.from_arrays(pa.array(np.arange(60_001), pa.int32()), ONCE)},
    "a page of zeros": {"id": pa.array(["\0" * (300 << 20)], pa.large_string())},
    "a billion nulls": {"id": pa.ListArray.from_arrays(pa.array([0, 40_000_000], pa.int32()), pa.nulls(40_000_000, pa.string()))},
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_documents_are_weighed_before_they_are_decoded(tmp_path, bomb):
    path, table = tmp_path / "part-00000.parquet", pa.table(BOMBS[bomb])
    pq.write_table(table, path, compression="zstd", store_schema=False, use_dictionary="page" not in bomb)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(StoreError, match="group of rows"):
        list(read_documents(tmp_path, [{"file": path.name}]))


def test_one_long_text_among_short_ones_is_no_bomb(tmp_path):
    texts = ["s"] * 60_000
    texts[7] = LONG
    table = pa.table({"id": pa.array(texts, pa.large_string()), "labels": pa.array([[t, "b"] for t in texts], pa.list_(pa.large_string()))})
    pq.write_table(table, tmp_path / "part.parquet", compression="zstd")
    assert pa.Table.from_batches(read_documents(tmp_path, [{"file": "part.parquet"}])).equals(table)


def test_a_vocabulary_that_the_file_cannot_hold_is_refused_before_anything_is_allocated(store):
    manifest = read_json(store / "manifest.json")
    write_sealed(store / "manifest.json", manifest | {"n_words": (1 << 31) - 1})
    with pytest.raises(StoreError, match="n_words"):
        Corpus.open(store)


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


def test_the_window_of_a_compressed_file_is_told_by_its_head():
    for size in (1 << 12, 3 << 20, 1 << 26, 3 << 28):
        packed = lzma.compress(LINE, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": size}])
        assert window_of("xz", packed) == size
    twice = lzma.compress(LINE, filters=[{"id": lzma.FILTER_DELTA}, {"id": lzma.FILTER_LZMA2, "dict_size": 1 << 25}])
    assert window_of("xz", twice) == 1 << 25
    magic = b"\x28\xb5\x2f\xfd"
    assert window_of("zst", magic + bytes([0, 0b10001_011])) == (1 << 27) + 3 * (1 << 24)  # RFC 8878, 3.1.1.1.2
    assert window_of("zst", magic + bytes([0b10100000]) + (70 << 20).to_bytes(4, "little")) == 70 << 20
    assert window_of("zst", magic + bytes([0b01100001, 9]) + (1000).to_bytes(2, "little")) == 1256
    assert window_of("zst", bytes(pa.Codec("zstd").compress(LINE * 100))) <= 1 << 22
    assert window_of("xz", packed[:14]) == window_of("zst", magic) == window_of("gz", b"") == 0


def test_unpacking_keeps_to_the_memory_limit(tmp_path, capsys):
    def packed(size: int, times: int = 1) -> bytes:
        return lzma.compress(LINE * times, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": size}])

    ingest = ("ingest", tmp_path / "x.txt.xz", "--out", tmp_path / "c.zarr", "--min-df", "1", "--max-df", "1.0", "--workers", "1")
    (tmp_path / "x.txt.xz").write_bytes(packed(1 << 30, 60))
    said = refused(*ingest, "--mem-limit", "400M", code=5, capsys=capsys)
    enough = int(re.search(r"(\d+)M would do", said)[1])
    refused(*ingest, "--mem-limit", f"{enough - 2}M", code=5, capsys=capsys)
    assert run([*map(str, ingest), "--mem-limit", f"{enough}M", "-q"]) == 0
    (tmp_path / "x.txt.xz").write_bytes(packed(1 << 20) + packed(1 << 29))  # a later stream asks for more than the first
    assert "too much memory" in refused(*ingest, "--force", capsys=capsys)
    (tmp_path / "x.txt.xz").write_bytes(packed(64 << 20, 60))  # xz -9
    assert run([*map(str, ingest), "--mem-limit", "400M", "--force", "-q"]) == 0


def test_what_is_held_is_free_again():
    room, one, two = Room(400 << 20, 100), object(), object()
    room.hold(one, 60, "one")
    with pytest.raises(DoesNotFit, match="two takes"):
        room.hold(two, 60, "two")
    with pytest.raises(DoesNotFit, match="a record"):
        room.ask(50, "a record")
    room.hold(two, 40, "two")
    room.release(one)
    room.release(one)
    room.ask(60, "a record")
    with pytest.raises(DoesNotFit):
        room.ask(61, "a record")


@pytest.mark.parametrize("preset", [6, 7, 8, 9 | lzma.PRESET_EXTREME])
def test_every_preset_of_xz_is_read_within_512_megabytes(tmp_path, preset):
    (tmp_path / "x.txt.xz").write_bytes(lzma.compress(LINE * 60, preset=preset))
    asked = ["ingest", str(tmp_path / "x.txt.xz"), "--out", str(tmp_path / "c.zarr"), "--min-df", "1", "--max-df", "1.0", "--mem-limit", "512M", "-q"]
    assert run(asked) == 0
