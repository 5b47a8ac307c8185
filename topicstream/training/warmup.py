"""Compile an engine's kernels before threads start, on a corpus of a few made documents."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from topicstream import machine
from topicstream.corpus.block import Block
from topicstream.corpus.format import from_gaps, localise, number_words
from topicstream.engines.base import ArraySpec, BlockShape, Engine, Key, Out, Rows, Scratch, SparseDelta, padded
from topicstream.kernels.file_rows import read_rows, write_rows
from topicstream.training.deltas import Deltas
from topicstream.training.starts import compile_starts
from topicstream.training.tables import DenseTable, aligned_zeros
from topicstream.training.tries import compile_tries


def _buffers(specs: dict[str, ArraySpec], block: Block) -> dict[str, np.ndarray]:
    shape = BlockShape(block.n_docs, block.n_cells, int(block.tokens), block.n_words)
    made = {name: Scratch().array(name, spec.shape(shape), spec.dtype) for name, spec in specs.items()}
    for array in made.values():
        array[...] = 0
    return made


@dataclass(frozen=True)
class Warmed:
    """Resident bytes after warming up, at their highest while it went on, and whether anything had to be compiled
    (the rest came from the cache)."""

    resident: int
    peak: int
    compiled: bool


def warm_up(engine: Engine, weighted: bool, start: str = "") -> Warmed:
    """Load or compile every kernel of ``engine`` and of ``start`` on a tiny made corpus, in this thread."""
    from numba.core import event

    earlier = machine.peak_bytes()
    with event.install_recorder("numba:compile") as compiled:
        compile_driver(engine)
        if start == "best":
            compile_tries()
        compile_kernels(engine, weighted)
    peak = machine.peak_bytes()
    if peak == earlier:  # of something that this process did before
        peak = machine.resident_bytes()
    machine.give_back()
    return Warmed(machine.resident_bytes(), peak, bool(compiled.buffer))


def compile_kernels(engine: Engine, weighted: bool) -> None:
    """Run start and one visit on a block of two documents over the first few words; the results are thrown away."""
    words = min(4, engine.shape.words)
    indptr = np.array([0, words, 2 * words], np.int64)
    local = np.tile(np.arange(words, dtype=np.int32), 2)
    counts = np.ones(2 * words, np.float32 if weighted else np.int32)
    block = Block(0, 0, indptr, local, counts, np.arange(words, dtype=np.int32), float(2 * words))
    width = padded(engine.shape.topics)
    index = np.arange(words, dtype=np.int64)
    base = aligned_zeros((words, width), np.float32)
    base[:, : engine.shape.topics] = 1.0
    params = engine.initial_params()
    tiny = engine.tables["phi"].layout == "packed"

    def out() -> Out:
        delta = {
            name: aligned_zeros((words, width), np.float32)
            for name, spec in engine.tables.items()
            if spec.layout == "dense" and spec.delta == "dense"
        }
        stats = {name: np.zeros(n) for name, n in engine.stats.items()}
        return Out(delta, _buffers(dict(engine.memory), block), stats, Scratch(), Scratch())

    sums = base.sum(axis=0, dtype=np.float64)
    first = out()
    if engine.start_from == "visit":
        seeded = {} if engine.starts == ("random",) else {"phi": Rows(base, index)}
        if "random" in engine.starts:
            engine.start(block, {}, {}, params, Key(0, 0), out())
        engine.start(block, seeded, {"phi": sums} if seeded else {}, params, Key(0, 0), first)
    rows: dict[str, Any]
    if tiny:
        from topicstream.training.packed_table import PackedTable

        spec, few = engine.tables["phi"], min(engine.shape.words, 64)
        table = PackedTable(spec, few, engine.shape.topics, one_by_one, np.full(few, 2.0))
        table.scatter([(block.vocab, first.delta["phi"])])
        rows = {"phi": table.rows(block.vocab, Scratch())}
        totals = {"phi": table.totals}
        table.settle()
        table.dense(block.vocab, np.empty((words, width), np.float32))
        if getattr(engine.options, "samples", 0):
            table.take_sample()
        compile_file_rows()
    else:
        rows = {}
        for name, spec in engine.tables.items():
            made = first.delta.get(name) if spec.delta == "dense" else None
            stored = aligned_zeros((words, width), spec.dtype)
            stored[:] = made if made is not None else base
            rows[name] = Rows(stored, index)
        totals = {name: r.base.sum(axis=0, dtype=np.float64) for name, r in rows.items()}
    key = Key(0, 12)  # a pass in which what is done every few passes is done
    engine.process(block, rows, totals, first.memory if engine.memory else {}, params, key, out())


def one_by_one(work: Callable[[int], None], n: int) -> None:
    """work(0) .. work(n-1), in this thread."""
    for i in range(n):
        work(i)


def compile_file_rows() -> None:
    """Compile what reads and writes packed rows on disk, on a file of two rows in memory."""
    fd = os.memfd_create("rows")
    try:
        numbers, ptr, length = np.arange(2, dtype=np.int32), np.arange(3), np.ones(2, np.int32)
        entries, window = np.arange(2, dtype=np.uint32), np.empty(8, np.uint32)
        write_rows(fd, ptr[:2] * 4, 4, numbers, ptr, entries.view(np.uint8))
        read_rows(fd, ptr[:2] * 4, length, 4, numbers, window, ptr[:-1], entries)
    finally:
        os.close(fd)


def compile_driver(engine: Engine) -> None:
    """Compile what the pass loop itself runs, and load what it loads late (zarr for the model): so that the memory plan
    begins from what the process really takes."""
    import pyarrow.parquet
    import zarr

    assert zarr.__version__ and pyarrow.parquet.__name__
    compile_starts()
    words, topics = 4, engine.shape.topics
    vocab = np.arange(words, dtype=np.int32)

    for spec in engine.tables.values():
        if spec.layout != "dense":
            continue
        table = DenseTable(spec, words, topics, np.ones(words), None, one_by_one)
        if spec.delta == "dense":
            deltas = Deltas(1, words, table.width, None)
            deltas.slot(0, vocab, Scratch())[:] = 0.01
            table.scatter(deltas, 1)
        else:
            value = np.full(words, 0.01, np.float32)
            ptr, topic = np.arange(words + 1, dtype=np.int64), np.zeros(words, np.uint16)
            table.scatter_sparse([(vocab, SparseDelta(ptr, topic, value))])
        table.blend(1.0)
        table.settle()
    local = np.zeros(8, np.int32)
    gaps, lengths, ids = np.ones(4, np.uint32), np.full(1, 4, np.uint32), np.empty(4, np.int32)
    marker = np.zeros(8, np.uint8)
    from_gaps(gaps, lengths, 0, 1, 0, ids, marker)
    number_words(marker, np.empty(8, np.int32), local)
    localise(ids, local)
