"""Compile an engine's kernels before threads start, on a corpus of a few made documents."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from topicstream import machine
from topicstream.corpus.block import Block
from topicstream.corpus.format import from_gaps, localise, number_words, wrong_document
from topicstream.corpus.grid import cut_lengths
from topicstream.engines.base import ArraySpec, BlockShape, Engine, Key, Out, Rows, Rule, Scratch, padded
from topicstream.errors import TopicsError
from topicstream.kernels.count_priors import log_gamma, psi
from topicstream.kernels.file_rows import read_rows, write_rows
from topicstream.kernels.jit import compiled_here
from topicstream.tables.dense import aligned_zeros
from topicstream.tables.layouts import new_table
from topicstream.tables.spec import WORDS, TableSpec
from topicstream.tables.table import Table
from topicstream.training.executor import ids_of, visit
from topicstream.training.starts.anchor_start import anchor_engine
from topicstream.training.starts.cluster_start import compile_cluster_start
from topicstream.training.starts.initial import compile_starts
from topicstream.training.starts.tries import compile_tries

COME_BACK = 12 << 20  # pages of libraries that are needed again after they were let go, at least
SHARE_BACK = 0.2  # of those that are resident: a system that has just read the files maps more around each


def _buffers(specs: dict[str, ArraySpec], block: Block) -> dict[str, np.ndarray]:
    shape = BlockShape.of(block)
    made = {name: Scratch().array(name, spec.shape(shape), spec.dtype) for name, spec in specs.items()}
    for array in made.values():
        array[...] = 0
    return made


@dataclass(frozen=True)
class Warmed:
    """Resident bytes at their highest while warming up, libraries' pages of that which may be needed again, and whether
    anything had to be compiled (the rest came from the cache)."""

    peak: int
    come_back: int
    compiled: bool


def warm_up(engine: Engine, weighted: bool, start: str = "") -> Warmed:
    """Load or compile every kernel of ``engine`` and of ``start`` on a tiny made corpus, in this thread."""
    earlier, before = machine.peak_bytes(), compiled_here()
    compile_run(engine, weighted, start)
    compile_kernels(engine, weighted)
    peak = machine.peak_bytes()
    if peak == earlier:  # of something that this process did before
        peak = machine.resident_bytes()
    come_back = max(COME_BACK, int(SHARE_BACK * machine.file_bytes()))
    machine.give_back()
    return Warmed(peak, come_back, compiled_here() > before)


def compile_run(engine: Engine, weighted: bool, start: str) -> None:
    """What the start and the pass loop run."""
    compile_driver()
    if start == "best":
        compile_tries()
    if start == "kmeans" and getattr(engine.options, "tries", 1) > 1:
        compile_cluster_start()
    if start == "anchors":
        compile_kernels(anchor_engine(engine.shape), weighted)


def _tables(engine: Engine, weighted: bool) -> tuple[Block, Mapping[str, TableSpec], dict[str, Table]]:
    """A block of two documents, and tables of its words."""
    block, specs = engine.example_block(weighted), engine.tables
    few = max(64, block.n_words)
    return block, specs, {
        name: new_table(
            spec,
            few if spec.axis else int(spec.rows),
            spec.n_columns(engine.shape.topics),
            np.full(few, 2.0) if spec.axis == WORDS else None,
            None,
            one_by_one,
        )
        for name, spec in specs.items()
    }  # fmt: skip


def compile_tables(engine: Engine, weighted: bool) -> None:
    """What tables do by themselves at the end of a pass."""
    for table in _tables(engine, weighted)[2].values():
        table.settle()


def compile_kernels(engine: Engine, weighted: bool) -> None:
    """Run start, one visit and what the pass loop does with their deltas, on a block of two documents over the first few
    words; the results are thrown away."""
    block, specs, tables = _tables(engine, weighted)
    topics = engine.shape.topics
    params = engine.initial_params()

    def out() -> Out:
        delta = {}
        for name, spec in specs.items():
            ids = ids_of(block, spec.axis, spec)
            room = tables[name].new_round(1, len(ids), None).slot(0, ids, Scratch())
            if room is not None:
                room[:] = 0.0
                delta[name] = room
        stats = {name: np.zeros(n) for name, n in engine.stats.items()}
        return Out(delta, _buffers(dict(engine.memory), block), stats, Scratch(), Scratch())

    def enter(made: Out, written: Collection[str]) -> None:
        for name, spec in specs.items():
            if name not in written:
                continue
            ids = ids_of(block, spec.axis, spec)
            waiting = tables[name].new_round(1, len(ids), None)
            room = waiting.slot(0, ids, Scratch())
            if room is not None:
                room[:] = made.delta[name]
            waiting.put(0, ids, made.delta[name] if room is None else room)
            tables[name].apply(waiting)
            if spec.rule is Rule.BLEND:
                tables[name].blend(1.0)
            tables[name].settle()
            tables[name].dense(ids, np.empty((len(ids), tables[name].width), np.float32))
            if spec.samples:
                tables[name].take_sample()

    first = out()
    if engine.start_from == "visit":
        width, words = padded(topics), block.n_words
        base = aligned_zeros((words, width), np.float32)
        base[:, :topics] = 1.0
        seeded = {"phi": Rows(base, np.arange(words, dtype=np.int64))} if engine.starts != ("random",) else {}
        sums = {"phi": base.sum(axis=0, dtype=np.float64)} if seeded else {}
        if "random" in engine.starts and not engine.random_topics:
            visit(engine, block, {}, {}, {}, params, Key(0, 0), out())
        visit(engine, block, seeded, sums, {}, params, Key(0, 0), first)
        enter(first, specs)
    elif "phi" in tables:
        tables["phi"].fill(lambda a, b: np.ones((b - a, tables["phi"].width), np.float32))
    if any(spec.layout == "packed" for spec in specs.values()):
        compile_file_rows()
    done = 0
    for phase in engine.phases:
        reads = tuple(specs) if phase.reads is None else phase.reads
        if phase.steps:
            engine.steps(
                tables, params, Key(0, done + 1, phase.name), {n: np.zeros(k) for n, k in engine.stats.items()}
            )
        else:
            rows = {n: tables[n].gather(ids_of(block, specs[n].gathered, specs[n]), Scratch()) for n in reads}
            # a pass in which what is done every few passes is done, and what begins late
            late = 12 * (1 + engine.unsettled // 12)
            key, second = Key(0, done + (phase.passes or late), phase.name), out()
            state = first.memory if engine.memory else {}
            visit(engine, block, rows, {n: tables[n].seen_totals for n in reads}, state, params, key, second)
            enter(second, specs if phase.writes is None else phase.writes)
        if phase.passes:
            engine.end_phase(phase, tables, params)
        done += phase.passes or 0
    if type(engine).end_pass_rows is not Engine.end_pass_rows:
        ended = {name: value.copy() for name, value in params.items()}
        with suppress(TopicsError):  # made statistics do not agree with each other
            engine.end_pass_rows(ended, {n: np.ones(k) for n, k in engine.stats.items()}, tables["phi"].pieces())


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


def compile_driver() -> None:
    """Compile what the pass loop itself runs, and load what it loads late (zarr for the model): so that the memory plan
    begins from what the process really takes."""
    import pyarrow.parquet
    import zarr

    assert zarr.__version__ and pyarrow.parquet.__name__
    compile_starts()
    local = np.zeros(8, np.int32)
    gaps, lengths, ids = np.ones(4, np.uint32), np.full(1, 4, np.uint32), np.empty(4, np.int32)
    marker = np.zeros(8, np.uint8)
    wrong_document(gaps, lengths, 8)
    cut_lengths(lengths, 8, 8, np.empty(2, np.int64))
    psi(np.ones(1)), log_gamma(np.ones(1))  # of priors that are learned, from some pass on
    from_gaps(gaps, lengths, 0, 1, 0, ids, marker)
    number_words(marker, np.empty(8, np.int32), local)
    localise(ids, local)
