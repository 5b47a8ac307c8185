"""Targets of scripts/campaigns/fuzz_campaign.py whose checksums all fit: what a stranger makes who knows the format.

An input is a seed of random numbers; with it values in the arrays of a store, a model or a run are exchanged for odd ones and
every checksum and total above them is made to fit.  What is opened must be refused in one line, or be safe to use: what is
accepted is held to what the kernels rely on, and a share of it is trained on or answered from.
"""

from __future__ import annotations

import io
import itertools
import json
import random
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_inputs import Target
from numcodecs import blosc

from topicstream.corpus.format import CELLS, DOCS, KINDS, chunk_path, encode_chunk, part_summary
from topicstream.corpus.reader import Corpus
from topicstream.files.durable import read_json, with_checksum

WHOLE = (0, 1, -1, 2, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 2, 1000, 70000, 2**20, 2**16)
REAL = (0.0, -0.0, -1.0, 1.0, float("nan"), float("inf"), -float("inf"), 1e38, 3e38, 1e-45, 1e300, -1e-30)
TRAINED = 0.01  # of the accepted inputs; a run takes a tenth of a second
LOOKED = 100  # inputs after which all files are looked at, not only those that the campaign has written
written: set[Path] = set()


# -- resealing --------------------------------------------------------------------------------------------------------
def write_sealed(path: Path, value: Any) -> None:
    """JSON with a checksum that fits (and no fsync, which a campaign has no time for)."""
    put(path, with_checksum(b"{\n" + json.dumps(value, sort_keys=True).encode()[1:]))


def put(path: Path, data: bytes) -> None:
    """Write a file, to be put back."""
    written.add(path)
    path.write_bytes(data)


def chunks_of(store: Path, part: str, block: int) -> dict[str, np.ndarray]:
    """words, counts, lengths of a storage block of one row, as they lie on disk."""
    manifest = read_json(store / "manifest.json")
    entry = manifest["parts"][part]["blocks"][block]
    found = {}
    for kind in KINDS:
        body = chunk_path(store, part, kind, entry["rows"][0]).read_bytes()[:-4]
        n = entry["docs"] if kind == "lengths" else entry["cells"]
        found[kind] = np.frombuffer(blosc.decompress(body), np.uint32)[:n].copy()
    return found


def reseal_block(
    store: Path, part: str, block: int, arrays: dict[str, np.ndarray], *, totals: bool = True, same: Any = None
) -> None:
    """Put arrays in a block's place; sizes and checksums fit, and (``totals``) so do documents, cells and tokens.
    Arrays that are those of ``same`` are there already."""
    manifest = read_json(store / "manifest.json")
    entry = manifest["parts"][part]["blocks"][block]
    for kind, values in arrays.items():
        if same is not None and values is same[kind]:
            continue
        data, crc = encode_chunk(values, DOCS if kind == "lengths" else CELLS)
        put(chunk_path(store, part, kind, entry["rows"][0]), data)
        entry["files"][kind] = [[len(data), crc]]
    if totals:
        entry["docs"] = len(arrays["lengths"])
        entry["cells"] = int(arrays["lengths"].sum(dtype=np.int64))
        counts = arrays["counts"][: entry["cells"]]
        entry["tokens"] = int(counts.view(np.int32).sum(dtype=np.int64))
        manifest["parts"][part] = part_summary(manifest["parts"][part]["blocks"])
    write_sealed(store / "manifest.json", manifest)


def reseal_file(store: Path, name: str, data: bytes) -> None:
    """Another content for a file of a store that its manifest lists."""
    manifest = read_json(store / "manifest.json")
    for entry in [*manifest["files"].values(), *manifest["docs"]]:
        if entry["file"] == name:
            entry |= {"size": len(data), "crc32c": int(google_crc32c.value(data))}
    put(store / name, data)
    write_sealed(store / "manifest.json", manifest)


def reseal_model(
    model: Path, attributes: dict[str, Any], rows: np.ndarray | None = None, vocab: bytes | None = None
) -> None:
    """Other attributes of the topics' array, another first chunk (float32[step, K]), another vocabulary."""
    manifest = read_json(model / "manifest.json")
    topics = model / manifest["files"]["topics"]["name"]
    meta = json.loads((topics / "zarr.json").read_text())
    if rows is not None:
        body = bytes(blosc.compress(rows, b"lz4", 1, blosc.SHUFFLE))
        crc = int(google_crc32c.value(body))
        put(topics / "c" / "0" / "0", body + crc.to_bytes(4, "little"))
        chunks = meta["attributes"]["chunks"].split()
        meta["attributes"]["chunks"] = " ".join([f"{len(body) + 4}:{crc:08x}", *chunks[1:]])
    meta["attributes"] |= attributes
    text = json.dumps(meta).encode()
    put(topics / "zarr.json", text)
    manifest["files"]["topics"]["crc32c"] = int(google_crc32c.value(text))
    if vocab is not None:
        put(model / manifest["files"]["vocab"]["name"], vocab)
        manifest["files"]["vocab"]["crc32c"] = int(google_crc32c.value(vocab))
    write_sealed(model / "manifest.json", manifest)


# -- odd values -------------------------------------------------------------------------------------------------------
def odd(rng: random.Random, values: np.ndarray, pool: tuple[Any, ...]) -> None:
    """Exchange a few values, in place."""
    flat = values.reshape(-1)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        if len(flat):
            at, new = rng.randrange(len(flat)), rng.choice(pool)
            if rng.random() < 0.2:
                new = flat[rng.randrange(len(flat))]
            with np.errstate(all="ignore"):
                if flat.dtype.kind == "f":
                    flat[at] = new
                else:
                    flat[at] = np.array(int(new) & (2 ** (8 * flat.itemsize) - 1), f"u{flat.itemsize}").view(flat.dtype)


@cache
def many_words(n: int, length: int) -> bytes:
    """A file of words with one word: once in the file, in memory n times."""
    numbers = np.ones(n, np.int64)
    word = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), pa.array(["x" * length], pa.large_string()))
    out = io.BytesIO()
    pq.write_table(
        pa.table({"word": word, "count": numbers, "df": numbers}), out, compression="zstd", store_schema=False
    )
    return out.getvalue()


def odd_words(rng: random.Random, rows: int) -> bytes:
    """A file of words: repeated, empty, huge, in a dictionary, more or fewer than they should be."""
    words = [f"w{i}" for i in range(rows)]
    kind = rng.randrange(7)
    if kind == 0:
        words[rng.randrange(rows)] = words[rng.randrange(rows)]
    elif kind == 1:
        return many_words(rng.choice((rows, 1000, 10**5, 10**6)), rng.choice((10, 10**4, 10**6)))
    elif kind == 2:
        words[rng.randrange(rows)] = None  # type: ignore[call-overload]
    elif kind == 3:
        words = words[: rng.randrange(rows)]
    elif kind == 4:
        words = ["w"] * 10 ** rng.choice((3, 3, 4, 4, 5, 6) if rng.random() < 0.1 else (3,))
    numbers = np.array(
        [rng.choice((0, 1, 5, -1, 2**62)) if rng.random() < 0.1 else 3 for _ in range(min(len(words), 100))]
    )
    numbers = np.resize(numbers, len(words)).astype(np.int64)
    out = io.BytesIO()
    table = pa.table({"word": pa.array(words, pa.large_string()), "count": numbers, "df": numbers})
    pq.write_table(table, out, compression=rng.choice(("zstd", "none")), use_dictionary=rng.random() < 0.5)
    return out.getvalue()


def sound(corpus: Corpus, block: Any) -> None:
    """What every kernel relies on."""
    assert block.indptr[0] == 0 and block.indptr[-1] == block.n_cells == len(block.counts), "cells"
    assert (block.counts > 0).all(), "counts"
    assert block.n_cells == 0 or (block.words.min() >= 0 and block.words.max() < block.n_words), "local words"
    assert (np.diff(block.vocab) > 0).all() and (not len(block.vocab) or block.vocab[-1] < corpus.n_words), "vocabulary"


# -- targets ----------------------------------------------------------------------------------------------------------
def value_targets(folder: Path, store: Path, model: Path) -> list[Target]:
    """Stores, models and states of runs with odd values and fitting checksums."""
    from topicstream.corpus.documents import read_documents
    from topicstream.evaluation.keys import documents
    from topicstream.inference.stored import stored
    from topicstream.model.topic_model import TopicModel
    from topicstream.tokens.vocabulary import TokenVocabulary

    spoilt_store, spoilt_model = folder / "values.zarr", folder / "values-model"
    shutil.copytree(store, spoilt_store)
    shutil.copytree(model, spoilt_model, ignore=shutil.ignore_patterns("work", "checkpoints", ".lock"))
    original = {p: p.read_bytes() for root in (spoilt_store, spoilt_model) for p in root.rglob("*") if p.is_file()}
    manifest = read_json(spoilt_store / "manifest.json")
    whole = {part: chunks_of(spoilt_store, part, 0) for part in ("train", "heldout")}
    tables = {entry["file"]: pq.read_table(spoilt_store / entry["file"]) for entry in manifest["docs"]}
    made: list[Target] = []
    runs = itertools.count()

    def add(name: str, use: Callable[[random.Random], None]) -> None:
        def run(data: bytes, _: random.Random) -> None:
            try:
                use(random.Random(data))
            finally:
                for path in original if next(runs) % LOOKED == 0 else written & original.keys():
                    content = original[path]
                    if not path.is_file() or path.stat().st_size != len(content) or path.read_bytes() != content:
                        path.write_bytes(content)
                written.clear()

        made.append(Target(f"values: {name}", [b"\0"], [], run, lambda rng: rng.randbytes(8)))

    def cells(rng: random.Random) -> None:
        part = rng.choice(("train", "heldout"))
        changed = rng.sample(KINDS, rng.choice((1, 1, 2)))
        arrays = whole[part] | {kind: whole[part][kind].copy() for kind in changed}
        for kind in changed:
            odd(rng, arrays[kind], WHOLE)
        reseal_block(spoilt_store, part, 0, arrays, totals=rng.random() < 0.8, same=whole[part])
        corpus = Corpus.open(spoilt_store)
        for heldout in (False, True):
            for block in corpus.blocks(heldout=heldout, prefetch=0):
                sound(corpus, block)
        if rng.random() < TRAINED:
            from topicstream.progress import Shown as Progress
            from topicstream.training.loop import train

            shutil.rmtree(folder / "trained", ignore_errors=True)
            train(spoilt_store, folder / "trained", algo=rng.choice(("gs", "sparselda", "sparse-bp", "atbp", "vb")), topics=3,
                  passes=1, tol=0.0, threads=1, progress=Progress(-1))  # fmt: skip

    def table(rng: random.Random) -> None:
        name = rng.choice(manifest["docs"])["file"]
        found = tables[name]
        for column in rng.sample(("block", "row"), rng.choice((1, 2))):
            values = found[column].to_numpy().copy()
            odd(rng, values, WHOLE)
            found = found.set_column(found.column_names.index(column), column, pa.array(values))
        if rng.random() < 0.2:
            found = found.slice(0, rng.randrange(len(found)))
        out = io.BytesIO()
        pq.write_table(found, out)
        reseal_file(spoilt_store, name, out.getvalue())
        corpus = Corpus.open(spoilt_store)
        reader = rng.randrange(4)  # all four take ten times as long as the opening
        if reader == 0:
            list(read_documents(corpus.path, corpus.manifest["docs"]))
        elif reader == 1:
            list(stored(corpus))
        else:
            for numbers, _ in documents(corpus, reader == 2, ["id"]):
                most = corpus.part(reader == 2)["docs"]
                assert not len(numbers) or 0 <= numbers.min() <= numbers.max() < most, "numbers"

    def gone(rng: random.Random) -> None:
        name = manifest["files"]["removed"]["file"]
        values = np.load(io.BytesIO(original[spoilt_store / name]))
        odd(rng, values, (*WHOLE, 2**63 - 1, 2**40))
        if rng.random() < 0.2:
            values = rng.choice((values.astype(np.float64), values[:, :3], values[0], values.astype(np.int32)))
        out = io.BytesIO()
        np.save(out, values)
        reseal_file(spoilt_store, name, out.getvalue())
        corpus = Corpus.open(spoilt_store)
        for heldout in (False, True):
            for block in corpus.blocks(heldout=heldout, prefetch=0):
                sound(corpus, block)

    def words(rng: random.Random) -> None:
        data = odd_words(rng, manifest["n_words"])
        reseal_file(spoilt_store, manifest["files"]["vocab"]["file"], data)
        TokenVocabulary.load(Corpus.open(spoilt_store).file("vocab"))

    opened = TopicModel.open(model)
    k, w = opened.n_topics, opened.n_words
    step = json.loads((model / read_json(model / "manifest.json")["files"]["topics"]["name"] / "zarr.json").read_text())
    rows = np.zeros((step["chunk_grid"]["configuration"]["chunk_shape"][0], k), np.float32)
    rows[:w] = opened.phi

    def topics(rng: random.Random) -> None:
        spoilt, attributes = None, {}
        if rng.random() < 0.5:
            spoilt = rows.copy()
            odd(rng, spoilt[:w], REAL)
        for name, value in (("alpha", opened.alpha), ("totals", opened.totals), ("beta", np.array([opened.beta]))):
            if rng.random() < 0.3:
                value = value.copy()
                odd(rng, value, REAL)
                attributes[name] = value.tolist() if name != "beta" else float(value[0])
        vocab = odd_words(rng, w) if rng.random() < 0.1 else None
        reseal_model(spoilt_model, attributes, spoilt, vocab)
        found = TopicModel.open(spoilt_model)
        assert found.phi is not None and np.isfinite(found.phi).all() and (found.phi >= 0).all(), "counts"
        assert np.isfinite(found.alpha).all() and (found.alpha >= 0).all(), "alpha"
        assert not np.isnan(found.probabilities(np.arange(w))).any(), "probabilities"

    add("store cells", cells)
    add("store docs", table)
    add("store removed", gone)
    add("store words", words)
    add("model", topics)
    made += state_targets(folder)
    return made


def state_targets(folder: Path) -> list[Target]:
    """Block memory and packed tables of a run, written with odd values and checksums that fit."""
    from topicstream.corpus.block import Block
    from topicstream.engines import find
    from topicstream.engines.base import Scratch, Shape
    from topicstream.tables.packed_file import PackedFile, write_file
    from topicstream.tables.packed_rows import RowPiece
    from topicstream.training.setup import make_options
    from topicstream.training.state.memory import BlockMemory

    docs, words, topics = 6, 8, 5
    indptr = np.arange(docs + 1, dtype=np.int64) * 4
    local = np.tile(np.arange(4, dtype=np.int32), docs)
    block = Block(0, 0, indptr, local, np.full(4 * docs, 2, np.int32), np.arange(4, dtype=np.int32), 8.0 * docs)
    made = []

    def memory(algo: str) -> Target:
        kind = find(algo)
        engine = kind(Shape(docs, words, 4 * docs, 8.0 * docs, topics), make_options(kind, {}))
        path = folder / f"values-{algo}.bin"

        def run(data: bytes, _: random.Random) -> None:
            path.unlink(missing_ok=True)  # a child before may have left it: not this process's own
            rng, writer = random.Random(data), BlockMemory(path, engine.memory, 1, create=True)
            arrays = writer.buffers(block, Scratch())
            for array in arrays.values():
                array[...] = 0
            if "ptr" in arrays:
                n = rng.randrange(len(arrays["value"]))
                arrays |= {"topic": arrays["topic"][:n], "value": arrays["value"][:n]}
                arrays["ptr"][1:] = [*sorted(rng.randrange(n + 1) for _ in range(block.n_words - 1)), n]
            for name in rng.sample(sorted(arrays), 1):
                if rng.random() < 0.2:
                    arrays[name] = arrays[name].reshape(-1)[: rng.randrange(arrays[name].size + 1)]
                odd(rng, arrays[name], REAL if arrays[name].dtype.kind == "f" else (*range(12), *WHOLE))
            writer.write(0, arrays)
            index = writer.index.copy()
            if rng.random() < 0.1:
                odd(rng, index, (*WHOLE, 2**40, 2**62))
            writer.close()
            reader = BlockMemory(path, engine.memory, 1, create=False)
            try:
                reader.resume(index)
                found = reader.read(0, block, Scratch())
            finally:
                reader.close()
            for name in {"z", "topics", "wanted", "topic"} & set(found):
                assert not found[name].size or found[name].max() < engine.memory[name].below, name
            if "ptr" in found:
                ptr = found["ptr"]
                assert len(ptr) == block.n_words + 1 and ptr[0] == 0 and (np.diff(ptr) >= 0).all(), "ptr"
                assert ptr[-1] == len(found["topic"]) == len(found["value"]), "ends"

        return Target(f"values: memory of {algo}", [b"\0"], [], run, lambda rng: rng.randbytes(8))

    def packed(data: bytes, _: random.Random) -> None:
        rng, path = random.Random(data), folder / "values.rows"
        length = np.full(words, 2, np.int32)
        entries = np.tile(np.array([(9 << 3) | 1, (4 << 3) | 4], np.uint32), words)
        odd(rng, entries, (*range(64), *WHOLE))

        class Rows:
            edges, bits = np.arange(words + 1), 3

            def __init__(self) -> None:
                self.length, self.topics = length, topics

            def entry_type(self, a: int, b: int) -> np.dtype:
                return np.dtype(np.uint32)

            def take(self, i: int) -> RowPiece:
                return RowPiece(np.array([i], np.int32), np.array([0, 2]), entries[2 * i : 2 * i + 2])

        path.unlink(missing_ok=True)
        write_file(path, [Rows()], 0)  # type: ignore[list-item]
        if rng.random() < 0.5:
            whole = bytearray(path.read_bytes())
            at = 4 * rng.randrange(len(whole) // 4)
            whole[at : at + 4] = rng.choice((b"\xff" * 4, bytes(4), rng.randbytes(4)))
            path.write_bytes(whole)
        file = PackedFile(path, words, topics)
        try:
            for a, b in zip(file.edges, file.edges[1:]):
                piece = file.rows(0, int(a), int(b))
                assert (piece.entries & 7 < topics).all() and piece.ptr[-1] == len(piece.entries), "entries"
                assert (np.diff(piece.ptr) <= topics).all() and (np.diff(piece.ptr) >= 0).all(), "lengths"
        finally:
            file.close()

    for algo in ("gs", "sparse-bp", "mvi", "bp", "sparselda", "mixture"):
        made.append(memory(algo))
    made.append(Target("values: packed table", [b"\0"], [], packed, lambda rng: rng.randbytes(8)))
    return made
