"""A small corpus store and a model, made from arrays: what the tests of evaluation and report stand on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.corpus.format import SCHEMA, create_arrays, part_summary, set_rows
from topicstream.corpus.reader import Corpus
from topicstream.corpus.writer import BlockWriter
from topicstream.files.durable import write_json


def planted(seed: int, docs: int, words: int, topics: int, length: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Counts int64[docs, words] drawn from ``topics`` planted topics, and the topics float64[words, topics]."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(words, 0.05), topics).T
    theta = rng.dirichlet(np.full(topics, 0.3), docs)
    p = theta @ phi.T
    matrix = np.stack([rng.multinomial(length, row / row.sum()) for row in p])
    return matrix, phi


def store(
    path: Path,
    train: np.ndarray,
    heldout: np.ndarray,
    names: list[str] | None = None,
    *,
    blocks: int = 1,
    ids: bool = False,
) -> Corpus:
    """Write matrices [D, W] as a corpus store; ``blocks`` storage blocks a part; ``ids``: with a documents' table."""
    words = train.shape[1]
    names = names or [f"word{i}" for i in range(words)]
    path.mkdir(parents=True)
    create_arrays(path, False)
    parts: dict[str, Any] = {}
    rows: dict[str, list[Any]] = {"id": [], "part": [], "block": [], "row": []}
    for part, matrix in (("train", train), ("heldout", heldout)):
        entries: list[dict[str, Any]] = []
        for b, piece in enumerate(np.array_split(matrix, blocks)):
            if not len(piece):
                continue
            writer = BlockWriter(path, part, entries[-1]["rows"][1] if entries else 0, False, entries.append)
            d, w = np.nonzero(piece)
            indptr = np.concatenate(([0], np.cumsum(np.bincount(d, minlength=len(piece)))))
            writer.add(indptr, w.astype(np.int32), piece[d, w].astype(np.uint32))
            writer.finish()
            for r in range(len(piece)):
                rows["id"].append(f"{part}-{sum(e['docs'] for e in entries[:-1]) + r}")
                rows["part"].append(part)
                rows["block"].append(b)
                rows["row"].append(r)
        set_rows(path, part, entries[-1]["rows"][1] if entries else 0)
        parts[part] = part_summary(entries)
    table = {"word": pa.array(names, pa.large_string()), "count": train.sum(axis=0), "df": (train > 0).sum(axis=0)}
    pq.write_table(pa.table(table), path / "vocab.parquet")
    docs = []
    if ids:
        (path / "docs").mkdir()
        place = {k: pa.array(rows[k], pa.int32()) for k in ("block", "row")}
        part_column = pa.array(rows["part"]).dictionary_encode()
        columns = {"id": pa.array(rows["id"], pa.large_string()), "part": part_column, **place}
        pq.write_table(pa.table(columns), path / "docs" / "part-00000.parquet")
        docs = [{"file": "docs/part-00000.parquet"}]
    manifest = {"schema": SCHEMA, "kind": "corpus", "weighted": False, "n_words": words, "fingerprint": str(path)}
    write_json(path / "manifest.json", {**manifest, "parts": parts, "docs": docs}, durable=False)
    return Corpus.open(path)
