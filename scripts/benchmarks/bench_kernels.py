"""Time one visit of a block (whole ``process``, deltas included) on Zipf data with a vocabulary of PubMed's size.

    python scripts/benchmarks/bench_kernels.py                          # aTBP at K = 10, 100, 500 in blocks of 2^16, 2^18, 2^20 cells
    python scripts/benchmarks/bench_kernels.py --algo stbp --topics 100 --cells 18 --repeat 9 --json

Time is the thread's CPU time, the least of some repeats.  Between repeats 64 MiB are written, so that the tables start
outside the inner caches as they do in a pass.  ``row copies`` is what touching every local row once costs by itself:
reading it from the table and writing a row of the delta.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines import find
from topicstream.engines.base import BlockShape, Key, Out, Rows, Scratch, Shape, padded
from topicstream.tables.dense import aligned_zeros

WORDS, DOCUMENT_CELLS, BLOCKS = 141_043, 58, 480


def zipf(words: int) -> np.ndarray:
    """Probabilities of a Zipf-Mandelbrot law with shift 10."""
    p = 1 / (np.arange(words) + 10.0)
    return p / p.sum()


def zipf_block(cells: int, words: int = WORDS, seed: int = 0) -> Block:
    """About ``cells`` cells in documents of about 58 distinct words, as PubMed's abstracts have."""
    rng = np.random.default_rng(seed)
    documents = max(cells // DOCUMENT_CELLS, 1)
    sizes = np.maximum(rng.poisson(DOCUMENT_CELLS * 1.07, documents), 2)
    drawn = np.searchsorted(np.cumsum(zipf(words)), rng.random(sizes.sum())).clip(max=words - 1)
    cell, counts = np.unique(np.repeat(np.arange(documents), sizes) * words + drawn, return_counts=True)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(cell // words, minlength=documents))))
    vocab, local = np.unique(cell % words, return_inverse=True)
    return Block(
        0,
        0,
        indptr,
        local.astype(np.int32),
        counts.astype(np.int32),
        vocab.astype(np.int32),
        float(counts.sum()),
    )


def spread(masses: np.ndarray, topics: int, seed: int) -> np.ndarray:
    """float32[n, padded(K)]: each mass spread unevenly over topics."""
    rng = np.random.default_rng(seed)
    out = aligned_zeros((len(masses), padded(topics)), np.float32)
    for at in range(0, len(masses), 8192):
        rows = rng.random((len(masses[at : at + 8192]), topics), dtype=np.float32) ** 4 + 0.01
        out[at : at + 8192, :topics] = rows * (masses[at : at + 8192] / rows.sum(1))[:, None]
    return out


def measure(algo: str, topics: int, block: Block, repeat: int) -> dict[str, float]:
    """Nanoseconds a cell of one visit."""
    kind = find(algo)
    shape = Shape(block.n_docs * BLOCKS, WORDS, block.n_cells * BLOCKS, block.tokens * BLOCKS, topics)
    engine = kind(shape, kind.Options())
    table = spread(np.maximum(zipf(WORDS) * shape.tokens, BLOCKS), topics, 1)
    lengths = np.add.reduceat(block.counts, block.indptr[:-1])
    theta = spread(lengths, topics, 2)
    rows = {"phi": Rows(table, block.vocab.astype(np.int64))}
    totals = {"phi": table.sum(0, dtype=np.float64)}
    sizes = BlockShape(block.n_docs, block.n_cells, int(block.tokens), block.n_words)
    params, scratch = engine.initial_params(), Scratch()
    delta = aligned_zeros((block.n_words, padded(topics)), np.float32)
    kept = {name: aligned_zeros((sizes.docs, padded(topics)), spec.dtype) for name, spec in engine.memory.items()}
    cold = np.zeros(64 << 20, np.uint8)
    times, copies = [], []
    for _ in range(repeat + 1):
        out = Out({"phi": delta}, dict(kept), {n: np.zeros(k) for n, k in engine.stats.items()}, scratch, Scratch())
        cold += 1
        began = time.thread_time()
        engine.process(block, rows, totals, {"theta": theta}, params, Key(0, 1), out)
        times.append(time.thread_time() - began)
        cold += 1
        began = time.thread_time()
        np.take(table, block.vocab, axis=0, out=delta)
        copies.append(time.thread_time() - began)
    best = min(times[1:]) / block.n_cells * 1e9
    return {
        "topics": topics,
        "cells": block.n_cells,
        "words_a_cell": round(block.n_words / block.n_cells, 3),
        "ns_a_cell": round(best, 2),
        "ns_a_cell_topic": round(best / topics, 4),
        "row_copies_ns_a_cell": round(min(copies[1:]) / block.n_cells * 1e9, 2),
    }


def main() -> None:
    """Print a table, a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", default="atbp", choices=("atbp", "stbp"))
    parser.add_argument("--topics", type=int, nargs="+", default=[10, 100, 500])
    parser.add_argument("--cells", type=int, nargs="+", default=[16, 18, 20], help="log2 of the cells of a block")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    results = []
    for log_cells in given.cells:
        block = zipf_block(1 << log_cells)
        for topics in given.topics:
            found = {"algo": given.algo, **measure(given.algo, topics, block, given.repeat)}
            results.append(found)
            if not given.json:
                print(
                    f"{given.algo} K = {topics:4d}, {found['cells']:8d} cells, {found['words_a_cell']:.3f} words a cell: "
                    f"{found['ns_a_cell']:7.1f} ns a cell, {found['ns_a_cell_topic']:.3f} a cell-topic "
                    f"(row copies alone {found['row_copies_ns_a_cell']:.1f})",
                    flush=True,
                )
    if given.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
