"""The start ``anchors``: topics by anchor words (four passes over the blocks), then the engine's own passes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines import find
from topicstream.engines.base import BlockShape, Engine, Shape
from topicstream.errors import InputError
from topicstream.parallel.rounds import Workers
from topicstream.tables.layouts import new_table
from topicstream.tables.spec import WORDS
from topicstream.training.executor import Job, MakeExecutor
from topicstream.training.passes import PassRunner
from topicstream.training.plan import Tables
from topicstream.training.starts.tries import LearnedSeeds


def anchor_engine(shape: Shape) -> Engine:
    """``anchors`` with its own options for the same problem."""
    kind = find("anchors")
    if shape.weighted:
        raise InputError(
            "--start anchors needs whole counts, and this store has real-valued cells; choose another --start"
        )
    return kind(Shape(shape.docs, shape.words, shape.cells, shape.tokens, shape.topics), kind.Options())


def anchor_bytes(shape: Shape, block: BlockShape, threads: int) -> int:
    """Bytes held while ``anchors`` works; block: of the grid of the run, at least as large as those of this one."""
    engine = anchor_engine(shape)
    every, width = Tables(engine, block), engine.round_blocks()
    return every.held(False) + every.deltas(threads, width, waiting=False) + threads * engine.scratch_bytes(block)


def anchor_seeds(
    corpus: Corpus,
    grid: Grid,
    shape: Shape,
    seed: int,
    n_w: np.ndarray,
    workers: Workers,
    say: Callable[[str], None],
    make_executor: MakeExecutor,
) -> LearnedSeeds:
    """Seed topics from anchor words; the blocks are those of ``grid``.  n_w: float64[W]."""
    engine = anchor_engine(shape)
    tables = {
        name: new_table(
            spec,
            spec.n_rows(engine.shape.sizes),
            spec.n_columns(shape.topics),
            n_w if spec.axis == WORDS else None,
            None,
            workers.run_ranges,
        )
        for name, spec in engine.tables.items()
    }
    width = engine.round_blocks()
    block = BlockShape(int(grid.docs.max()), int(grid.cells.max()), 0, grid.max_words)
    executor = make_executor(Job(engine, corpus, grid, width, block, workers))
    runner = PassRunner(engine, grid, executor, tables, {}, seed, width)
    params, order = engine.initial_params(), grid.order("sequential", seed, 1)
    try:
        for number in range(1, (engine.needs_passes or 0) + 1):
            stats = runner.engine.new_stats()
            runner.run(number, order, 0, stats, params, None, None, None, lambda: None, lambda rounds, cells: True)
            for table in tables.values():
                table.settle()
            engine.end_pass(params, stats, {name: table.totals for name, table in tables.items()})
            for line in engine.end_phase(engine.phase_of(number)[0], tables, params) or ():
                say(f"start: {line}")
    finally:
        executor.release()
    phi = tables["phi"]
    assert phi.array is not None
    return LearnedSeeds(np.arange(len(n_w)), phi.array, phi.totals, n_w)
