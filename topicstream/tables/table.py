"""The interface of a table: the pass loop knows no other."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from topicstream.errors import TopicsError
from topicstream.kernels.constants import Constants
from topicstream.tables.rounds import Round
from topicstream.tables.spec import Scratch, TableSpec, padded

RunAll = Callable[[Callable[[int], None], int], None]  # run f(0) .. f(n-1), perhaps on several threads


class Sizes(NamedTuple):
    """What decides the bytes of a table: its rows and columns, rows that a block's delta changes and that a visit sees at
    most, non-zero entries that it can have at most, the largest count, and rows with constants."""

    rows: int
    columns: int
    changed: int = 0
    seen: int = 0
    entries: int = 0
    largest: int = 0
    constants: int = 0


class Table(abc.ABC):
    """[n_rows, columns] numbers in RAM or on disk; same arithmetic and same bits in both places.

    totals   float64[padded(columns)], column sums (of ``scale`` times the rows)
    scale    what the stored rows are to be multiplied by: 1.0 but for BLEND tables, which shrink lazily
    constants  what ``gather`` adds to rows, and ``seen_totals`` to their sums (kernels/constants.py); nothing else sees them

    slower_on_disk   seconds of a pass with rows on disk, beside one with rows in RAM, roughly
    """

    slower_on_disk: ClassVar[float] = 4.0

    # -- bytes, before there is a table -----------------------------------------------------------------------------
    @classmethod
    @abc.abstractmethod
    def bytes_needed(cls, spec: TableSpec, sizes: Sizes, on_disk: bool) -> int:
        """Of one copy of the rows, in RAM or in a file."""

    @classmethod
    def window_bytes(cls, spec: TableSpec, sizes: Sizes, threads: int, kept: int) -> int:
        """RAM of its own that a table on disk takes; kept: bytes of a round's deltas.  0: the windows that all share."""
        return 0

    @classmethod
    def delta_bytes(cls, spec: TableSpec, sizes: Sizes) -> int:
        """Of one block's delta (0: what the engine keeps, and says)."""
        return 0

    @classmethod
    def gathered_bytes(cls, spec: TableSpec, sizes: Sizes) -> int:
        """Of the rows that a visit has copied from a table on disk (0: the engine copies them where it works on them)."""
        return 0

    @classmethod
    def sum_bytes(cls, spec: TableSpec, sizes: Sizes, blocks: int) -> int:
        """Of the sum of a round's deltas, where they enter as blocks finish (0: they wait for its end)."""
        return 0

    def __init__(self, spec: TableSpec, rows: int, columns: int, constants: Constants | None = None) -> None:
        self.constants = constants
        self.spec, self.n_rows, self.columns, self.width = spec, rows, columns, padded(columns)
        self.totals = np.zeros(self.width, np.float64)
        self.scale = 1.0

    # -- rows out -------------------------------------------------------------------------------------------------
    @abc.abstractmethod
    def gather(self, ids: np.ndarray, scratch: Scratch) -> Any:
        """The rows of ``ids`` (int32[U], ascending) as a visit sees them: ``Rows`` or ``PackedRows``."""

    @abc.abstractmethod
    def dense(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Rows of the ascending ids as ``out`` float32[n, >= columns] (of a table that is sampled: their mean)."""

    @abc.abstractmethod
    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """(first row, [n, padded(columns)]) over the whole table, in order; the array is reused."""

    @property
    def array(self) -> np.ndarray | None:
        """The rows where they are one array in RAM, else None."""
        return None

    @property
    def seen_totals(self) -> np.ndarray:
        """Column sums float64[padded(columns)] of what ``gather`` gives."""
        return self.totals if self.constants is None else self.totals + self.constants.totals

    @property
    def shown_totals(self) -> np.ndarray:
        """Column sums float64[padded(columns)] of what ``pieces`` and ``dense`` show."""
        return self.totals

    # -- deltas in ------------------------------------------------------------------------------------------------
    @abc.abstractmethod
    def new_round(self, blocks: int, most_rows: int, spill: Path | None, tokens: float) -> Round:
        """Where the deltas of a round of so many blocks go, each of at most ``most_rows`` rows; spill: a scratch file
        that holds them instead of RAM; tokens: of the corpus, which bounds their sum."""

    @abc.abstractmethod
    def apply(self, deltas: Round, factor: float = 1.0, hold: bool = True) -> None:
        """Add ``factor`` times the sum of the round's deltas, and forget them; ``hold``: touched rows that have a mass
        are held to it."""

    def blend(self, rho: float) -> float:
        """Shrink all rows by (1 - rho); returns what deltas must be multiplied by before they are added."""
        raise TopicsError(f"a {self.spec.layout} table cannot be blended")

    @abc.abstractmethod
    def settle(self) -> np.ndarray:
        """End of a pass: rows held to their mass, totals summed afresh.  Returns ``worst`` float64[3] since the last one:
        largest correction of a row's mass, most negative entry as a share of it, whether NaN or inf was met."""

    def summary(self) -> dict[str, np.ndarray]:
        """What ``end_pass`` finds among its statistics under ``TABLE.NAME``."""
        return {}

    def take_sample(self) -> None:
        """Add the present rows to the sum that ``pieces`` and ``dense`` average."""
        raise TopicsError(f"a {self.spec.layout} table takes no samples")

    # -- whole ----------------------------------------------------------------------------------------------------
    @abc.abstractmethod
    def fill(self, piece: Callable[[int, int], np.ndarray]) -> None:
        """Set all rows: piece(first, stop) -> [stop - first, >= columns]."""

    @abc.abstractmethod
    def rewrite(self, change: Callable[[int, np.ndarray], np.ndarray]) -> None:
        """Put ``change(first row, rows [n, padded(columns)])`` in the place of every range of rows, in order, out of core."""

    @abc.abstractmethod
    def clear(self) -> None:
        """All zero again."""

    @abc.abstractmethod
    def save(self, path: Path) -> None:
        """Write the rows to a new file (no fsync)."""

    @abc.abstractmethod
    def load(self, path: Path) -> None:
        """Read what ``save`` wrote; totals and scale come from the checkpoint's state."""

    @abc.abstractmethod
    def load_head(self, path: Path, rows: int) -> None:
        """Read what a table of fewer rows saved into the first ``rows`` rows; the others are left as they are."""

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Bytes of the rows, wherever they are."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give files back."""
