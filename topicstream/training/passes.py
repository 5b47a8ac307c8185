"""A pass over the corpus, round by round: visit the blocks, apply their deltas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from topicstream.corpus.grid import Grid
from topicstream.engines.base import Engine, Key, Phase, Rule, new_stats, phase_of
from topicstream.numeric.tables.table import Table
from topicstream.training.executor import Assignment, Executor
from topicstream.training.starts.seeds import Seeds
from topicstream.training.state.memory import BlockMemory
from topicstream.training.tables import RunTables

START = Phase("start")


@dataclass
class Pass:
    """A pass, or the rest of one that was interrupted.

    Attributes
    ----------
    number
        Number of the pass, from 1; 0 is the start.
    blocks
        int64[], block numbers in visiting order.
    params
        Parameters of the engine, which ``Engine.end_round`` changes.
    stats
        Sums over the pass, which grow.
    first_round
        Number of rounds that are done already.
    seeds
        The seed table of a start.
    old, new
        Files of block state: of the last pass, and of this one.
    after_round
        Called with (rounds done, cells done); False asks to stop.
    """

    number: int
    blocks: np.ndarray
    params: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    first_round: int = 0
    seeds: Seeds | None = None
    old: BlockMemory | None = None
    new: BlockMemory | None = None
    after_round: Callable[[int, int], bool] = field(default=lambda rounds, cells: True)


class PassRunner:
    """Driver of the passes of one engine over one grid.

    The executor does the work.
    """

    def __init__(
        self,
        engine: Engine,
        grid: Grid,
        executor: Executor,
        tables: RunTables,
        seed: int,
        round_blocks: int,
    ) -> None:
        self.executor = executor
        self.round_blocks = round_blocks
        self._engine = engine
        self._grid = grid
        self._tables = tables
        self._seed = seed
        executor.place(tables)

    def run(self, work: Pass) -> bool:
        """Run the rounds of a pass, and return False if ``after_round`` stopped it."""
        size = self.round_blocks
        cells = self._grid.cells
        todo = work.blocks[work.first_round * size :]
        phase = phase_of(self._engine.phases, work.number)[0] if work.number else START
        key = Key(self._seed, work.number, phase.name)
        assignment = Assignment(key, phase, work.params, work.seeds, work.old, work.new)
        assignment = assignment.for_tables(self._tables)
        self.executor.begin(todo)
        going = True
        try:
            for position in range(0, len(todo), size):
                self._run_round(work, position, todo[position : position + size], assignment)
                rounds = work.first_round + position // size + 1
                going = work.after_round(rounds, int(cells[work.blocks[: rounds * size]].sum()))
                if not going:
                    break
        finally:
            self.executor.end()
        return going

    def _run_round(
        self, work: Pass, position: int, group: np.ndarray, assignment: Assignment
    ) -> None:
        """Visit the blocks of a round, apply their deltas, and add their statistics to the pass."""
        stats = new_stats(self._engine)
        docs = 0
        for report in self.executor.visit(position, group, assignment):
            docs += report.docs
            for name, value in report.stats.items():
                stats[name] += value
        blend = None
        if work.number:
            blend = self._engine.end_round(work.params, stats, docs)
        self._apply(assignment.targets, blend)
        for name, value in stats.items():
            work.stats[name] += value

    def _apply(self, targets: Mapping[str, Table], blend: tuple[float, float] | None) -> None:
        """Apply the deltas of a round to the target tables.

        Parameters
        ----------
        blend
            (rho, scale) of the round. None in a start.
        """
        for name, target in targets.items():
            rule = self._engine.tables[name].rule
            hold = blend is not None and rule is Rule.ADD
            self.executor.apply(name, target, blend if rule is Rule.BLEND else None, hold)
