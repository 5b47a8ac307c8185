"""The tables of a run: made, swapped at the end of a pass, saved in checkpoints and read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from topicstream.engines.base import Engine, Phase, Rule
from topicstream.parallel.rounds import Workers
from topicstream.tables.layouts import new_table
from topicstream.tables.spec import WORDS
from topicstream.tables.table import Table
from topicstream.training.state.checkpoint import State


class RunTables:
    """``current`` tables by name, and the ``successors`` of REPLACE tables, which deltas enter.

    Parameters
    ----------
    n_w
        float64[W], training tokens of each word: the mass of rows.
    folder
        Where files for the rows are made; None: they are in memory.
    """

    def __init__(self, engine: Engine, n_w: np.ndarray, workers: Workers, folder: Path | None = None) -> None:
        self._engine, shape = engine, engine.shape

        def new(name: str) -> Table:
            spec = engine.tables[name]
            rows, mass = spec.n_rows(shape.sizes), n_w if spec.axis == WORDS else None
            return new_table(spec, rows, spec.n_columns(shape.topics), mass, folder, workers.run_ranges, shape.constants(name))

        self.current = {name: new(name) for name in engine.tables}
        self.successors = {name: new(name) for name, spec in engine.tables.items() if spec.rule is Rule.REPLACE}

    def written(self, phase: Phase) -> tuple[str, ...]:
        """Tables that get deltas in a phase."""
        return tuple(self.current) if phase.writes is None else phase.writes

    def swap(self, phase: Phase) -> None:
        """End of a pass: the REPLACE tables that it wrote and their successors change places."""
        for name in self.written(phase):
            if name in self.successors:
                self.current[name], self.successors[name] = self.successors[name], self.current[name]
                self.successors[name].clear()

    def settle(self) -> dict[str, np.ndarray]:
        """End of a pass: see ``Table.settle``."""
        return {name: table.settle() for name, table in self.current.items()}

    @property
    def totals(self) -> dict[str, np.ndarray]:
        """Column sums by name."""
        return {name: table.totals for name, table in self.current.items()}

    @property
    def scales(self) -> dict[str, float]:
        """Scales by name."""
        return {name: table.scale for name, table in self.current.items()}

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all totals, as a checkpoint has them."""
        arrays = {f"totals.{name}": table.totals.copy() for name, table in self.current.items()}
        return arrays | {f"next.{name}": table.totals.copy() for name, table in self.successors.items()}

    def load(self, place: Path, state: State) -> None:
        """Be as the checkpoint at ``place`` says."""
        for name, table in self.current.items():
            table.load(place / f"{name}.rows")
            table.totals[:] = state.arrays[f"totals.{name}"]
            table.scale = state.facts.scales.get(name, 1.0)
        for name, table in self.successors.items():
            if (place / f"{name}.next.rows").exists():
                table.load(place / f"{name}.next.rows")
                table.totals[:] = state.arrays[f"next.{name}"]
            else:
                table.clear()

    def close(self) -> None:
        """Give memory and files back."""
        for table in [*self.current.values(), *self.successors.values()]:
            table.close()
