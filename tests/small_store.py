"""A small corpus store and a model, made from arrays: what the tests of evaluation and report stand
on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.base.files.marker import list_paths
from topicstream.base.files.ownership import claim
from topicstream.corpus.axis_build import Contents, build_axes
from topicstream.corpus.format import PARTS, write_array_metadata
from topicstream.corpus.manifest import (
    BlockEntry,
    HeldoutRule,
    Sources,
    StoreManifest,
    part_of,
    store_file,
)
from topicstream.corpus.reader import Corpus
from topicstream.corpus.writer import BlockWriter


def planted(
    seed: int, docs: int, words: int, topics: int, length: int = 60
) -> tuple[np.ndarray, np.ndarray]:
    """Counts int64[docs, words] drawn from ``topics`` planted topics, and the topics float64[words,
    topics].
    """
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(words, 0.05), topics).T
    theta = rng.dirichlet(np.full(topics, 0.3), docs)
    p = theta @ phi.T
    matrix = np.stack([rng.multinomial(length, row / row.sum()) for row in p])
    return matrix, phi


def commit(
    path: Path,
    blocks: dict[str, list[BlockEntry]],
    vocabulary: dict[str, Any],
    ids: list[str],
    fingerprint: str,
    *,
    weighted: bool = False,
    lists: dict[str, list[list[str]]] | None = None,
) -> Corpus:
    """Make a store of blocks that are written: arrays' rows, words, the documents' table and the
    manifest.

    vocabulary: columns word, count, df; ids, lists: of each document, the training part first.
    """
    list_paths(path / "vocab.parquet", path / "docs" / "part-00000.parquet")
    parts = {part: part_of(blocks.get(part, [])) for part in PARTS}
    write_array_metadata(
        path, {part: entry.rows for part, entry in parts.items()}, weighted=weighted
    )
    pq.write_table(pa.table(vocabulary), path / "vocab.parquet")
    places = [
        (p, b, r)
        for p in PARTS
        for b, entry in enumerate(parts[p].blocks)
        for r in range(entry.docs)
    ]
    columns = {
        name: pa.array(values, pa.list_(pa.large_string()))
        for name, values in (lists or {}).items()
    }
    columns["id"] = pa.array(ids, pa.large_string())
    columns["part"] = pa.array([p for p, _, _ in places], pa.string()).dictionary_encode()
    columns |= {
        k: pa.array([p[i] for p in places], pa.int32()) for i, k in ((1, "block"), (2, "row"))
    }
    (path / "docs").mkdir()
    pq.write_table(pa.table(columns), path / "docs" / "part-00000.parquet")
    manifest = StoreManifest(
        schema=1,
        kind="corpus",
        created_with={},
        generation=1,
        weighted=weighted,
        n_words=len(vocabulary["word"]),
        fingerprint=fingerprint,
        parts=parts,
        heldout=HeldoutRule(text="0", threshold="0x" + 16 * "0"),
        tokenizer=None,
        tokenizer_hash=None,
        vocabulary={"hash": ""},
        files={"vocab": store_file(path, "vocab.parquet")},
        docs=[store_file(path, "docs/part-00000.parquet")],
        columns=dict.fromkeys(lists or {}, "list"),
        sources=Sources(count=0, first=[]),
        summary={},
    )
    contents = Contents(path, manifest, np.empty((0, 4), np.int64))
    axes = build_axes(contents, {}, 64 << 20)
    msgspec.structs.replace(manifest, axes=axes).write(path)
    return Corpus.open(path)


def store(
    path: Path,
    train: np.ndarray,
    heldout: np.ndarray,
    names: list[str] | None = None,
    *,
    blocks: int = 1,
    ids: bool = False,
) -> Corpus:
    """Write matrices [D, W] as a corpus store; ``blocks`` storage blocks a part; ``ids``: with
    names, not numbers.
    """
    words = train.shape[1]
    names = names or [f"word{i}" for i in range(words)]
    claim(path, "corpus")
    parts: dict[str, list[BlockEntry]] = {"train": [], "heldout": []}
    for part, matrix in (("train", train), ("heldout", heldout)):
        entries = parts[part]
        for piece in np.array_split(matrix, blocks):
            if not len(piece):
                continue
            writer = BlockWriter(path, part, entries[-1].rows[1] if entries else 0, False)
            d, w = np.nonzero(piece)
            indptr = np.concatenate(([0], np.cumsum(np.bincount(d, minlength=len(piece)))))
            writer.add(indptr, w.astype(np.int32), piece[d, w].astype(np.uint32))
            writer.finish()
            entries += writer.entries
    table = {
        "word": pa.array(names, pa.large_string()),
        "count": train.sum(axis=0),
        "df": (train > 0).sum(axis=0),
    }
    named = [
        f"{part}-{n}"
        for part, matrix in (("train", train), ("heldout", heldout))
        for n in range(len(matrix))
    ]
    numbers = [str(n) for n in range(len(named))]
    return commit(path, parts, table, named if ids else numbers, str(path))


def with_documents(corpus: Corpus, table: pa.Table) -> Corpus:
    """The store with another documents' table, of one file."""
    name = "docs/part-00000.parquet"
    pq.write_table(table, corpus.path / name)
    msgspec.structs.replace(corpus.manifest, docs=[store_file(corpus.path, name)]).write(
        corpus.path
    )
    return Corpus.open(corpus.path)
