"""The interface of a table: the pass loop knows no other."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from topicstream.base.errors import TopicsError
from topicstream.numeric.kernels.constants import Constants
from topicstream.numeric.tables.rounds import Entered, Round, RoundSpace
from topicstream.numeric.tables.spec import Scratch, TableSpec, padded

RunAll = Callable[
    [Callable[[int], None], int], None
]  # run f(0) .. f(n-1), perhaps on several threads


class Sizes(NamedTuple):
    """What decides the bytes of a table.

    rows, columns: of the table;  changed, seen: rows that the delta of a block changes, and that
                                  its visit sees, at most;
    entries: non-zero entries of the table, at most;  largest: the largest count;  constants: rows
    with constants.
    """

    rows: int
    columns: int
    changed: int = 0
    seen: int = 0
    entries: int = 0
    largest: int = 0
    constants: int = 0


class Footprint(NamedTuple):
    """Bytes of a table: its rows, in memory or in a file; what is in memory (fixed) wherever the
    rows are; what a worker holds of mapped rows at a time; the delta of a block; rows that a visit
    has copied from a file."""

    rows: int
    fixed: int = 0
    window: int = 0
    delta: int = 0
    gathered: int = 0


class Table(abc.ABC):
    """[n_rows, columns] numbers in memory or in a mapped file; same arithmetic and same bits in
    both places.

    totals     float64[padded(columns)], column sums (of ``scale`` times the rows)
    scale      what the stored rows are to be multiplied by: 1.0 but for BLEND tables, which shrink
               lazily
    worst      float64[3], what ``settle`` returns, since the last one
    constants  what ``gather`` adds to rows, and ``seen_totals`` to their sums
               (numeric/kernels/constants.py); nothing else sees them

    array      the rows where they are one array in memory, else None

    slower_on_disk   seconds of a pass with rows in a file, beside one with rows in memory, roughly

    Parameters
    ----------
    mass
        float64[rows], what each row sums to where the spec has a mass by row; None elsewhere.
    folder
        Where files for the rows are made; None: they are in memory.
    run_all
        Runs the work on ranges of rows, perhaps on several threads.
    """

    slower_on_disk: ClassVar[float] = 4.0
    array: np.ndarray | None = None

    @classmethod
    @abc.abstractmethod
    def footprint(cls, spec: TableSpec, sizes: Sizes) -> Footprint:
        """Bytes of a table, before there is one."""

    def __init__(
        self,
        spec: TableSpec,
        rows: int,
        columns: int,
        mass: np.ndarray | None,
        folder: Path | None,
        run_all: RunAll,
        constants: Constants | None = None,
    ) -> None:
        self.spec = spec
        self.n_rows = rows
        self.columns = columns
        self.width = padded(columns)
        self.row_mass = mass if mass is not None and spec.mass == "row" else np.zeros(0)
        self.folder = folder
        self.run_all = run_all
        self.constants = constants
        self.totals = np.zeros(self.width, np.float64)
        self.worst = np.zeros(3)
        self.scale = 1.0

    # -- rows out
    # ----------------------------------------------------------------------------------------------
    @abc.abstractmethod
    def gather(self, ids: np.ndarray, scratch: Scratch) -> Any:
        """The rows of ``ids`` (int32[U], ascending) as a visit sees them: ``Rows`` or
        ``PackedRows``.
        """

    @abc.abstractmethod
    def dense(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Rows of the ascending ids as ``out`` float32[n, >= columns] (of a table that is sampled:
        their mean).
        """

    @abc.abstractmethod
    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """(first row, [n, padded(columns)]) over the whole table, in order; each array is valid
        until the next one.
        """

    @property
    def seen_totals(self) -> np.ndarray:
        """Column sums float64[padded(columns)] of what ``gather`` gives."""
        return self.totals if self.constants is None else self.totals + self.constants.totals

    @property
    def shown_totals(self) -> np.ndarray:
        """Column sums float64[padded(columns)] of what ``pieces`` and ``dense`` show."""
        return self.totals

    # -- deltas in
    # ----------------------------------------------------------------------------------------------
    @abc.abstractmethod
    def new_round(self, space: RoundSpace, most_rows: int, tokens: float) -> Round:
        """Where the deltas of a round go, each of at most ``most_rows`` rows; tokens: of the
        corpus, which bounds their sum.
        """

    @abc.abstractmethod
    def apply(self, deltas: Round, factor: float = 1.0, hold: bool = True) -> None:
        """Add ``factor`` times the sum of the round's deltas, and forget them; ``hold``: touched
        rows that have a mass are held to it."""

    def spans(self, ids: np.ndarray, owner: int, members: int) -> list[slice]:
        """Which rows of a block's delta, by their places among its ids, member ``owner`` of so many
        adds up: here all of them.
        """
        return [slice(0, len(ids))]

    def enter(
        self, deltas: Round, factor: float, hold: bool, owner: int, members: int
    ) -> Entered | None:
        """``apply`` of what a member adds up; None: that was everything, otherwise what all of them
        ``absorb``.
        """
        self.apply(deltas, factor, hold)
        return None

    def absorb(self, entered: Sequence[Entered], own: int) -> None:
        """Take over what the members have entered, of which number ``own`` is here already."""
        raise TopicsError(f"a {self.spec.layout} table has no owners of rows")

    def blend(self, rho: float) -> float:
        """Shrink all rows by (1 - rho); returns what deltas must be multiplied by before they are
        added.
        """
        raise TopicsError(f"a {self.spec.layout} table cannot be blended")

    @abc.abstractmethod
    def settle(self) -> np.ndarray:
        """End of a pass: rows held to their mass, totals summed afresh.  Returns ``worst``
        float64[3] since the last one:
        largest correction of a row's mass, most negative entry as a share of it, whether NaN or inf
        was met."""

    def summary(self) -> dict[str, np.ndarray]:
        """What ``end_pass`` finds among its statistics under ``TABLE.NAME``."""
        return {}

    def take_sample(self) -> None:
        """Add the present rows to the sum that ``pieces`` and ``dense`` average."""
        raise TopicsError(f"a {self.spec.layout} table takes no samples")

    # -- whole
    # ----------------------------------------------------------------------------------------------
    @abc.abstractmethod
    def fill(self, piece: Callable[[int, int], np.ndarray]) -> None:
        """Set all rows: piece(first, stop) -> [stop - first, >= columns]."""

    def rewrite(self, change: Callable[[int, np.ndarray], np.ndarray]) -> None:
        """Put ``change(first row, rows [n, padded(columns)])`` in the place of every range of rows,
        out of core.
        """
        raise TopicsError(f"a {self.spec.layout} table cannot be rewritten by ranges")

    @abc.abstractmethod
    def clear(self) -> None:
        """Make all rows zero."""

    @abc.abstractmethod
    def save(self, path: Path) -> None:
        """Write the rows to a new file (no fsync)."""

    @abc.abstractmethod
    def load(self, path: Path) -> None:
        """Read what ``save`` wrote.  The checkpoint's state has the scale, which is set before, and
                                      the totals, which are set
        afterwards.  StoreError for the file of another table."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give memory and files back."""
