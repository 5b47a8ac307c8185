"""One pass over the corpus, round by round: visit the blocks, enter their deltas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from topicstream.corpus.grid import Grid
from topicstream.engines.base import Engine, Key, Phase, Rule
from topicstream.tables.table import Table
from topicstream.training.executor import Assignment, Executor
from topicstream.training.state.memory import BlockMemory


class PassRunner:
    """Drives the passes of one engine over one grid; the executor does the work.

    tables, nexts   name -> table; nexts are the other copies of REPLACE tables
    """

    def __init__(
        self,
        engine: Engine,
        grid: Grid,
        executor: Executor,
        tables: dict[str, Table],
        nexts: dict[str, Table],
        seed: int,
        round_blocks: int,
    ) -> None:
        self.engine, self.grid, self.executor, self._seed, self.round_blocks = (
            engine,
            grid,
            executor,
            seed,
            round_blocks,
        )
        self.tables, self.nexts = tables, nexts
        executor.place(tables, nexts)

    def swap(self, phase: Phase) -> None:
        """End of a pass: the REPLACE tables that it wrote and their successors change places."""
        for name in self.written(phase):
            if name in self.nexts:
                self.tables[name], self.nexts[name] = self.nexts[name], self.tables[name]
                self.nexts[name].clear()
        self.executor.place(self.tables, self.nexts)

    def written(self, phase: Phase) -> tuple[str, ...]:
        """Tables that get deltas in a phase."""
        return tuple(self.engine.tables) if phase.writes is None else phase.writes

    def run(
        self,
        pass_number: int,
        numbers: np.ndarray,
        first_round: int,
        stats: dict[str, np.ndarray],
        params: dict[str, np.ndarray],
        seeds: Any | None,
        old: BlockMemory | None,
        new: BlockMemory | None,
        before_apply: Callable[[], None],
        after_round: Callable[[int, int], bool],
        following: np.ndarray | None = None,
    ) -> bool:
        """Rounds ``first_round`` .. of one pass (pass 0 is the start).  Returns False when ``after_round(rounds done,
        cells done)`` asked to stop before the end.  ``stats`` is added to; ``params`` changed by ``end_round``.
        following: the blocks of the pass to come, if there will be one: its first are decoded while this one ends."""
        engine, size = self.engine, self.round_blocks
        starting = pass_number == 0
        phase = Phase("start") if starting else engine.phase_of(pass_number)[0]
        reads = tuple(engine.tables) if phase.reads is None else phase.reads
        key = Key(self._seed, pass_number, phase.name)
        # rows hold their mass only once every block has entered: not while a start or a REPLACE pass builds them up
        replaced = () if starting else self.nexts
        targets = {n: self.nexts[n] if n in replaced else self.tables[n] for n in self.written(phase)}
        assignment = Assignment(key, params, seeds, old, new, reads, targets)
        numbers = np.asarray(numbers, np.int64)
        todo = numbers[first_round * size :]
        cells_done = int(self.grid.cells[numbers[: first_round * size]].sum())
        self.executor.begin(todo, following)
        try:
            for at in range(0, len(todo), size):
                group = todo[at : at + size]
                round_stats = self.engine.new_stats()
                docs = 0
                for report in self.executor.visit(at, group, assignment):
                    docs += report.docs
                    for name, value in report.stats.items():
                        round_stats[name] += value
                before_apply()
                self._apply(targets, starting, params, docs)
                for name, value in round_stats.items():
                    stats[name] += value
                if not starting:
                    engine.end_round(params, round_stats)
                cells_done += int(self.grid.cells[group].sum())
                if not after_round(first_round + at // size + 1, cells_done):
                    return False
            if new is not None:
                self.executor.gather_state(new)
        finally:
            self.executor.end()
        return True

    def _apply(self, targets: Mapping[str, Table], starting: bool, params: Mapping[str, np.ndarray], docs: int) -> None:
        for name, target in targets.items():
            rule = self.engine.tables[name].rule
            hold = rule is Rule.ADD and not starting
            factor = 1.0
            if rule is Rule.BLEND and not starting:
                rho, scale = self.engine.blend(params, docs)
                factor = rho * scale * target.blend(rho)
            self.executor.apply(name, target, factor, hold)
