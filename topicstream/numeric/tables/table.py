"""The interface of a table, the only one that the pass loop uses."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from topicstream.base.errors import TopicsError
from topicstream.numeric.kernels.constants import Constants
from topicstream.numeric.tables.rounds import Entered, Round, RoundSpace
from topicstream.numeric.tables.spec import RunAll, Scratch, TableSpec, padded
from topicstream.numeric.tables.sums import PackedSums


class Sizes(NamedTuple):
    """The sizes that determine the bytes of a table.

    Attributes
    ----------
    rows, columns
        Rows and columns of the table.
    changed, seen
        Upper bounds of the rows that a block's delta changes and that its visit sees.
    entries
        Upper bound of the table's non-zero entries.
    largest
        The largest count.
    constants
        Rows with constants.
    """

    rows: int
    columns: int
    changed: int = 0
    seen: int = 0
    entries: int = 0
    largest: int = 0
    constants: int = 0


class Merging(NamedTuple):
    """Bytes of the sums of deltas that merge as blocks end.

    Attributes
    ----------
    fixed
        Bytes that do not depend on the rows.
    sums
        Bytes of the sums of all rows, at most.
    range
        Bytes of a worker beside them, while it writes or reads the sums of a range of rows.
    """

    fixed: int = 0
    sums: int = 0
    range: int = 0


class Footprint(NamedTuple):
    """Bytes of a table, by purpose.

    Attributes
    ----------
    rows
        All rows, in memory or in a file.
    fixed
        Bytes in memory wherever the rows are.
    window
        Mapped rows that a worker touches at a time.
    delta
        The delta of a block.
    gathered
        Rows that a visit has copied from a file.
    merging
        The sums of deltas that merge as blocks end.
    """

    rows: int
    fixed: int = 0
    window: int = 0
    delta: int = 0
    gathered: int = 0
    merging: Merging = Merging()


class Table(abc.ABC):
    """A table of numbers [n_rows, columns] in memory or in a mapped file.

    Arithmetic and bits are the same in both places.

    Parameters
    ----------
    spec
        The engine's declaration of the table.
    rows, columns
        Shape of the table.
    mass
        float64[rows], the sum of each row, if ``spec.mass`` is ``row``.
    folder
        Folder of files for the rows; None: they are in memory.
    run_all
        Runs the work on ranges of rows, perhaps on several threads.
    constants
        Constants that ``gather`` adds to rows, and ``seen_totals`` to their sums.

    Attributes
    ----------
    totals
        float64[padded(columns)], column sums of ``scale`` times the rows, without constants.
    scale
        Factor of the stored rows, 1.0 except for BLEND tables, which shrink by it alone.
    worst
        float64[3], what the next ``finish_pass`` returns.
    array
        The rows, if they are one array in memory, or None.
    slower_on_disk
        Time of a pass with rows in a file, as a multiple of one with rows in memory, roughly.
    """

    slower_on_disk: ClassVar[float] = 4.0
    array: np.ndarray | None = None

    @classmethod
    @abc.abstractmethod
    def footprint(cls, spec: TableSpec, sizes: Sizes) -> Footprint:
        """Compute the bytes of a table before it is created."""

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

    # -- reading rows
    # ----------------------------------------------------------------------------------------------
    @abc.abstractmethod
    def gather(self, ids: np.ndarray, scratch: Scratch) -> Any:
        """Return the rows of ``ids`` as a visit sees them.

        Parameters
        ----------
        ids
            int32[U], ascending.
        scratch
            Arrays for rows that have to be copied.

        Returns
        -------
        Rows or PackedRows
        """

    @abc.abstractmethod
    def dense(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Copy the rows of the ascending ids to ``out``, float32[n, >= columns].

        A sampled table yields the mean of its samples.
        """

    @abc.abstractmethod
    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the whole table in order as (first row, [n, padded(columns)]).

        Each array is valid until the next one.
        """

    @property
    def seen_totals(self) -> np.ndarray:
        """Return the column sums of the rows that ``gather`` returns.

        float64[padded(columns)], constants included.
        """
        return self.totals if self.constants is None else self.totals + self.constants.totals

    @property
    def shown_totals(self) -> np.ndarray:
        """Return the column sums of the rows that ``pieces`` and ``dense`` show.

        float64[padded(columns)].
        """
        return self.totals

    # -- applying deltas
    # ----------------------------------------------------------------------------------------------
    @abc.abstractmethod
    def new_round(self, space: RoundSpace, most_rows: int, tokens: float) -> Round:
        """Create the collector for the deltas of a round.

        Parameters
        ----------
        space
            Memory that the collector may use.
        most_rows
            Rows of a delta, at most.
        tokens
            Tokens of the corpus, which bound the sum of the deltas.
        """

    @abc.abstractmethod
    def apply(self, deltas: Round, factor: float = 1.0, hold: bool = True) -> None:
        """Add ``factor`` times the sum of a round's deltas, then clear them.

        Parameters
        ----------
        deltas
            The round.
        factor
            The factor.
        hold
            Scale the changed rows to their mass, if they have one.
        """

    def new_sums(self, tokens: float) -> PackedSums | None:
        """Create the collector for sums of a round's deltas, one from each process.

        Returns
        -------
        PackedSums or None
            None if processes send each other the deltas themselves.
        """
        return None

    def apply_sums(self, sums: PackedSums, factor: float = 1.0) -> None:
        """Add ``factor`` times the sums of all processes, then clear them."""
        raise TopicsError(f"a {self.spec.layout} table takes no sums")

    def spans(self, ids: np.ndarray, owner: int, members: int) -> list[slice]:
        """Select the rows of a block's delta that one member adds up.

        Parameters
        ----------
        ids
            Ids of the delta's rows.
        owner, members
            Number of the member, and of all members.

        Returns
        -------
        list of slice
            Slices of the delta's rows: all of them if rows have no owners.
        """
        return [slice(0, len(ids))]

    def add_owned(
        self, deltas: Round, factor: float, hold: bool, owner: int, members: int
    ) -> Entered | None:
        """Apply the part of a round that one member owns.

        Parameters
        ----------
        deltas, factor, hold
            As of ``apply``.
        owner, members
            Number of the member, and of all members.

        Returns
        -------
        Entered or None
            The changes, which all members pass to ``take_owned``; None if rows have no owners, and
            all of the round was applied.
        """
        self.apply(deltas, factor, hold)
        return None

    def take_owned(self, entered: Sequence[Entered], own: int) -> None:
        """Apply the changes that all members have made to their rows.

        Parameters
        ----------
        entered
            Results of ``add_owned`` of all members.
        own
            Number of the calling member, whose changes are in place already.
        """
        raise TopicsError(f"a {self.spec.layout} table has no owners of rows")

    def blend(self, rho: float) -> float:
        """Shrink all rows by (1 - rho) and return the factor for the deltas."""
        raise TopicsError(f"a {self.spec.layout} table cannot be blended")

    @abc.abstractmethod
    def finish_pass(self) -> np.ndarray:
        """Correct the mass of rows and sum the totals afresh after a pass.

        Returns
        -------
        ndarray
            float64[3], the worst since the last call: largest correction of a row's mass, most
            negative entry as a share of it, 1 if NaN or inf occurred.
        """

    def summary(self) -> dict[str, np.ndarray]:
        """Return the statistics that ``end_pass`` reads as ``TABLE.NAME``."""
        return {}

    @property
    def samples_taken(self) -> int:
        """Return how many samples ``pieces`` and ``dense`` average."""
        return 0

    def take_sample(self) -> None:
        """Add the present rows to the sum that ``pieces`` and ``dense`` average."""
        raise TopicsError(f"a {self.spec.layout} table takes no samples")

    def drop_samples(self) -> None:  # noqa: B027
        """Forget the samples, so that ``pieces`` and ``dense`` show the present rows."""

    # -- writing all rows
    # ----------------------------------------------------------------------------------------------
    @abc.abstractmethod
    def fill(self, piece: Callable[[int, int], np.ndarray]) -> None:
        """Set all rows from piece(first, stop), which returns [stop - first, >= columns]."""

    def rewrite(self, change: Callable[[int, np.ndarray], np.ndarray]) -> None:
        """Replace every range of rows by change(first row, rows), out of core.

        ``rows`` is [n, padded(columns)].
        """
        raise TopicsError(f"a {self.spec.layout} table cannot be rewritten by ranges")

    @abc.abstractmethod
    def clear(self) -> None:
        """Set all rows to zero."""

    @abc.abstractmethod
    def save(self, path: Path) -> None:
        """Write the rows to a new file (no fsync)."""

    @abc.abstractmethod
    def load(self, path: Path) -> None:
        """Read the rows that ``save`` wrote.

        The checkpoint's state has the scale, which is set before, and the totals, which are set
        afterwards.

        Raises
        ------
        StoreError
            If the file belongs to another table.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Free memory and files."""
