"""The start ``anchors``: topics by anchor words, in four passes over the blocks.

The engine's own passes follow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from topicstream.base.errors import InputError
from topicstream.engines import find
from topicstream.engines.base import (
    BlockShape,
    Engine,
    Key,
    PassEnd,
    Shape,
    new_stats,
    passes_needed,
    phase_of,
)
from topicstream.training.executor import Job
from topicstream.training.passes import Pass, PassRunner
from topicstream.training.plan import StartMemory
from topicstream.training.starts.best import LearnedSeeds
from topicstream.training.starts.seeds import Seeds
from topicstream.training.starts.start import Ground, Start
from topicstream.training.table_bytes import TableBytes
from topicstream.training.tables import Readable, RunTables


class AnchorStart(Start):
    """The topics of the engine ``anchors`` with its own options."""

    learned = True

    def check(self, engine: Engine) -> None:
        make_anchor_engine(engine.shape)

    def memory(self, engine: Engine, block: BlockShape) -> StartMemory:
        anchors = make_anchor_engine(engine.shape)
        tables = TableBytes(anchors, block)
        return StartMemory(
            tables.rows + tables.fixed + tables.delta * anchors.layout.round_blocks, tables.scratch
        )

    def seeds(self, ground: Ground) -> Seeds | None:
        engine = make_anchor_engine(ground.engine.shape)
        grid = ground.grid
        tables = RunTables(engine, ground.n_w, ground.workers)
        block = BlockShape(int(grid.docs.max()), int(grid.cells.max()), 0, grid.max_words)
        layout = replace(ground.layout, round_blocks=engine.layout.round_blocks)
        executor = ground.executor(Job(engine, ground.corpus, grid, layout, block, ground.workers))
        runner = PassRunner(engine, grid, executor, tables, ground.seed, layout.round_blocks)
        params = engine.initial_params()
        order = np.arange(len(grid))
        readable = Readable(tables, executor.gather)
        cells = int(grid.cells.sum())

        def report(line: str) -> None:
            ground.say(f"start: {line}")

        def after_round(rounds: int, cells_done: int) -> bool:
            ground.step("start", cells_done, cells, "cell")
            return True

        try:
            for number in range(1, (passes_needed(engine.phases) or 0) + 1):
                stats = new_stats(engine)
                runner.run(Pass(number, order, params, stats, after_round=after_round))
                phase, last = phase_of(engine.phases, number)
                executor.finish_pass(phase)
                key = Key(ground.seed, number, phase.name)
                end = PassEnd(
                    key, phase, params, stats, tables.totals, readable, report, ground.step
                )
                engine.end_pass(end)
                if last:
                    engine.end_phase(end)
                    executor.share()
        finally:
            executor.release()
        phi = tables.current["phi"]
        assert phi.array is not None
        return LearnedSeeds(np.arange(len(ground.n_w)), phi.array, phi.totals, ground.n_w)


def make_anchor_engine(shape: Shape) -> Engine:
    """Make the engine ``anchors`` for the same problem, without its passes of EM."""
    kind = find("anchors")
    if shape.weighted:
        raise InputError(
            "--start anchors needs whole counts, and this store has real-valued cells; choose "
            "another --start"
        )
    shape = Shape(shape.docs, shape.words, shape.cells, shape.tokens, shape.topics)
    unrefined: dict[str, Any] = {"refine": 0}  # EM is the business of the engine that begins here
    return kind(shape, kind.Options(**unrefined))
