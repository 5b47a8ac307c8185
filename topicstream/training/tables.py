"""The tables of a run, from their creation through swaps and checkpoints to their end."""

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

    Attributes
    ----------
    totals
        Column sums.
    worst
        Largest corrections (``Table.finish_pass``).
    summary
        Figures by name (``Table.summary``).
    """

    totals: np.ndarray
    worst: np.ndarray
    summary: dict[str, np.ndarray]


class RunTables:
    """The tables of a run.

    Parameters
    ----------
    n_w
        float64[W], training tokens of each word: the mass of rows.
    workers
        Threads that work on ranges of rows.
    folder
        Folder for files of rows. None: rows are in memory.

    Attributes
    ----------
    current
        The tables by name, as visits see them.
    successors
        Tables that REPLACE tables change places with at the end of a pass. They receive the deltas.
    """

    def __init__(
        self, engine: Engine, n_w: np.ndarray, workers: Workers, folder: Path | None = None
    ) -> None:
        self._engine = engine
        shape = engine.shape

        def new(name: str) -> Table:
            """Make a table of zeros."""
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
        """Return the names of the tables that receive deltas in a phase."""
        return tuple(self.current) if phase.writes is None else phase.writes

    def finish_pass(self, phase: Phase | None) -> dict[str, FinishedTable]:
        """End a pass in all tables, or the start if ``phase`` is None.

        The REPLACE tables that the phase wrote change places with their successors. Then all tables
        finish the pass: see ``Table.finish_pass``.
        """
        written = () if phase is None else self.written(phase)
        for name in written:
            if name in self.successors:
                old = self.current[name]
                self.current[name] = self.successors[name]
                self.successors[name] = old
                old.clear()
        worst = {name: table.finish_pass() for name, table in self.current.items()}
        return {
            name: FinishedTable(table.totals, worst[name], table.summary())
            for name, table in self.current.items()
        }

    @property
    def totals(self) -> dict[str, np.ndarray]:
        """Return column sums by name."""
        return {name: table.totals for name, table in self.current.items()}

    @property
    def scales(self) -> dict[str, float]:
        """Return scales by name."""
        return {name: table.scale for name, table in self.current.items()}

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of all totals, as a checkpoint has them."""
        arrays = {f"totals.{name}": table.totals.copy() for name, table in self.current.items()}
        return arrays | {
            f"next.{name}": table.totals.copy() for name, table in self.successors.items()
        }

    @property
    def roles(self) -> dict[str, Table]:
        """Return all tables by the names of their files."""
        return {
            **self.current,
            **{f"{name}.next": table for name, table in self.successors.items()},
        }

    def save(self, place: Path, midway: bool) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """Write the rows into a folder, those of successors only midway in a pass.

        Returns
        -------
        tuple
            The arrays and scales that ``load`` takes.
        """
        for role, table in (self.roles if midway else self.current).items():
            table.save(place / f"{role}.rows")
        return self.arrays, self.scales

    def load(
        self, place: Path, arrays: Mapping[str, np.ndarray], scales: Mapping[str, float]
    ) -> None:
        """Restore the tables from a checkpoint, or from files of ``save``, in ``place``."""
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
        """Free memory and files."""
        for table in [*self.current.values(), *self.successors.values()]:
            table.close()


class Readable(Mapping[str, Table]):
    """The tables of a run for readers of rows.

    Parameters
    ----------
    gather
        A function that brings the rows up to date. Each access to a table calls it first.
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
