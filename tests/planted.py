"""Corpora made for the tests: documents drawn from known topics, stored as `topics ingest` would store them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.corpus import format as layout
from topicstream.corpus.writer import BlockWriter
from topicstream.durable import write_json


def draw(docs: int, words: int, topics: int, length: int, seed: int, alpha: float = 0.1):
    """phi [K, W], and documents as (indptr, words, counts) from LDA's own process; every word occurs in some topic."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(words, 0.05), topics)
    indptr, ids, counts = [0], [], []
    for _ in range(docs):
        theta = rng.dirichlet(np.full(topics, alpha))
        drawn = np.bincount(rng.choice(words, rng.poisson(length), p=theta @ phi), minlength=words)
        nonzero = np.flatnonzero(drawn)
        ids.append(nonzero)
        counts.append(drawn[nonzero])
        indptr.append(indptr[-1] + len(nonzero))
    return phi, np.array(indptr), np.concatenate(ids).astype(np.int32), np.concatenate(counts)


def store(path: Path, indptr, words, counts, n_words: int, heldout: int = 0, weighted: bool = False) -> Path:
    """Write a corpus store; the last ``heldout`` documents are set aside."""
    docs = len(indptr) - 1
    layout.create_arrays(path, weighted)
    parts = {}
    edge = docs - heldout
    for part, a, b in (("train", 0, edge), ("heldout", edge, docs)):
        blocks: list[dict] = []
        writer = BlockWriter(path, part, 0, weighted, blocks.append)
        cells = slice(indptr[a], indptr[b])
        writer.add(np.asarray(indptr[a : b + 1], np.int64) - indptr[a], words[cells], counts[cells])
        writer.close()
        parts[part] = layout.part_summary(blocks)
        layout.set_rows(path, part, parts[part]["rows"])
    train = slice(0, indptr[edge])
    n_w = np.bincount(words[train], weights=counts[train], minlength=n_words)
    df = np.bincount(words[train], minlength=n_words)
    names = [f"word{i}" for i in range(n_words)]
    table = pa.table({"word": pa.array(names, pa.large_string()), "count": n_w.astype(np.int64), "df": df})
    pq.write_table(table, path / "vocab.parquet")
    digest = hashlib.sha256(words.tobytes() + np.ascontiguousarray(counts).tobytes()).hexdigest()
    manifest = {
        "schema": 1,
        "kind": "corpus",
        "weighted": weighted,
        "n_words": n_words,
        "fingerprint": digest,
        "parts": parts,
    }
    write_json(path / "manifest.json", manifest)
    return path
