"""The tables of a run: made, swapped at the end of a pass, saved in checkpoints and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from topicstream.engines.base import Engine, Phase, Rule
from topicstream.numeric.parallel import Workers
from topicstream.numeric.tables.layouts import LAYOUTS
from topicstream.numeric.tables.spec import WORDS
from topicstream.numeric.tables.table import Table


class FinishedTable(NamedTuple):
    """The figures of a table at the end of a pass.

    Its column sums, its corrections (``Table.finish_pass``) and its summary (``Table.summary``).
    """

    totals: np.ndarray
    worst: np.ndarray
    summary: dict[str, np.ndarray]


class RunTables:
    """``current`` tables by name, and the ``successors`` of REPLACE tables, which deltas enter.

    Parameters
    ----------
    n_w
        float64[W], training tokens of each word: the mass of rows.
    folder
        Where files for the rows are made; None: they are in memory.
    """

    def __init__(
        self, engine: Engine, n_w: np.ndarray, workers: Workers, folder: Path | None = None
    ) -> None:
        self._engine = engine
        shape = engine.shape

        def new(name: str) -> Table:
            spec = engine.tables[name]
            rows = spec.n_rows(shape.sizes)
            mass = n_w if spec.axis == WORDS else None
            columns = spec.n_columns(shape.topics)
            constants = shape.constants(name)
            return LAYOUTS[spec.layout](
                spec, rows, columns, mass, folder, workers.run_ranges, constants
            )

        self.current = {name: new(name) for name in engine.tables}
        self.successors = {
            name: new(name) for name, spec in engine.tables.items() if spec.rule is Rule.REPLACE
        }

    def written(self, phase: Phase) -> tuple[str, ...]:
        """Tables that get deltas in a phase."""
        return tuple(self.current) if phase.writes is None else phase.writes

    def finish_pass(self, phase: Phase | None) -> dict[str, FinishedTable]:
        """End a pass in all tables, or the start if ``phase`` is None.

        The REPLACE tables that the phase wrote change places with their successors. Then all tables
        finish the pass: see ``Table.finish_pass``.
        """
        for name in self.written(phase) if phase is not None else ():
            if name in self.successors:
                self.current[name], self.successors[name] = (
                    self.successors[name],
                    self.current[name],
                )
                self.successors[name].clear()
        worst = {name: table.finish_pass() for name, table in self.current.items()}
        return {
            name: FinishedTable(table.totals, worst[name], table.summary())
            for name, table in self.current.items()
        }

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
        return arrays | {
            f"next.{name}": table.totals.copy() for name, table in self.successors.items()
        }

    @property
    def roles(self) -> dict[str, Table]:
        """All tables by what their files are called."""
        return {
            **self.current,
            **{f"{name}.next": table for name, table in self.successors.items()},
        }

    def save(self, place: Path, midway: bool) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """Write the rows into a folder, those of successors only midway in a pass.

        Returns
        -------
        tuple
            The arrays and scales that ``load`` takes besides.
        """
        for role, table in (self.roles if midway else self.current).items():
            table.save(place / f"{role}.rows")
        return self.arrays, self.scales

    def load(
        self, place: Path, arrays: Mapping[str, np.ndarray], scales: Mapping[str, float]
    ) -> None:
        """Be as the checkpoint at ``place`` says, or what ``save`` wrote there."""
        for name, table in self.current.items():
            table.scale = scales.get(name, 1.0)
            table.load(place / f"{name}.rows")
            table.totals[:] = arrays[f"totals.{name}"]
        for name, table in self.successors.items():
            if (place / f"{name}.next.rows").exists():
                table.load(place / f"{name}.next.rows")
                table.totals[:] = arrays[f"next.{name}"]
            else:
                table.clear()

    def close(self) -> None:
        """Give memory and files back."""
        for table in [*self.current.values(), *self.successors.values()]:
            table.close()


class Readable(Mapping[str, Table]):
    """The tables of a run for readers of rows.

    ``gather`` brings the rows here before the first look.
    """

    def __init__(self, tables: RunTables, gather: Callable[[], None]) -> None:
        self._tables = tables
        self._gather = gather

    def __getitem__(self, name: str) -> Table:
        self._gather()
        return self._tables.current[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables.current)

    def __len__(self) -> int:
        return len(self._tables.current)
