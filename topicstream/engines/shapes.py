"""Shapes that an engine works with: problem, block, block state and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from topicstream.corpus.block import SHORT_TEXT, AxisShape, Block
from topicstream.numeric.kernels.constants import Constants
from topicstream.numeric.tables.spec import DOCUMENTS, WORDS, bytes_of


@dataclass(frozen=True)
class RegimeShape:
    """Periods that training divides into regimes (``engines/regimes.py``).

    Attributes
    ----------
    first
        Column of the second regime among the coefficients, and of the second period in rows of
        covariates. The first of each has no column.
    regimes
        Number of regimes.
    documents
        int64[T], the number of documents of each period.
    """

    first: int
    regimes: int
    documents: np.ndarray

    @property
    def periods(self) -> int:
        """Return the number of periods, T."""
        return len(self.documents)

    @property
    def columns(self) -> slice:
        """Return the columns of all regimes but the first."""
        return slice(self.first, self.first + self.regimes - 1)


@dataclass(frozen=True)
class PriorShape:
    """The covariates that the documents' alpha depends on: alpha_dk = exp(x_d lambda_k).

    Attributes
    ----------
    names
        Names of the columns of x, the intercept first.
    term_of
        int64[F], the term of each column; 0 for the intercept.
    norms
        float64[terms], the largest sum of absolute numbers that a document has of each term.
    patterns
        Upper bound of the distinct rows x; 0: as many as there are documents.
    longest
        Upper bound of the non-zero numbers of a row.
    slope_sd, intercept_sd
        Standard deviations of the normal priors of the coefficients.
    learns_sd
        Whether the deviation of each term is learned, beginning with ``slope_sd``.
    mean_weight
        Weight of the documents' shares beside the likelihood of their topics.
    begin, begin_sd
        float64[F, K], float64[terms], the coefficients and deviations that training begins with,
        or None.
    regimes
        Periods that are divided into regimes, or None. A document's row has a column for each
        period, but all periods of a regime share one column of coefficients.
    """

    names: tuple[str, ...]
    term_of: np.ndarray
    norms: np.ndarray
    patterns: int = 0
    longest: int = 1
    slope_sd: float = 1.0
    intercept_sd: float = 10.0
    learns_sd: bool = False
    mean_weight: float = 0.0
    begin: np.ndarray | None = None
    begin_sd: np.ndarray | None = None
    regimes: RegimeShape | None = None

    @property
    def columns(self) -> int:
        """Return the number of columns, F."""
        return len(self.names)

    @property
    def periods(self) -> int:
        """Return the number of periods that are divided into regimes, 0 without any."""
        return 0 if self.regimes is None else self.regimes.periods

    @property
    def row_columns(self) -> int:
        """Return the number of columns of rows of covariates."""
        regimes = self.regimes
        return self.columns + (0 if regimes is None else regimes.periods - regimes.regimes)

    def most_rows(self, docs: int) -> int:
        """Bound the distinct rows of so many documents."""
        return min(docs, self.patterns) if self.patterns else docs


@dataclass(frozen=True)
class Shape:
    """The size of the training problem.

    Attributes
    ----------
    docs, words, cells, tokens
        Sizes of the training part of the corpus.
    topics
        Number of topics, K.
    weighted
        Whether cells are real-valued.
    axes
        Number of ids of each other axis of the corpus.
    rows
        Documents with a row in a table over documents: removed and empty ones keep theirs. 0: as
        many as ``docs``.
    bare
        Of each axis that topics are named after, the cells of documents without an id. An axis
        that is missing was not counted.
    seeds
        Pseudo-counts of seed words: constants of the table ``phi``, which are part of the rows and
        totals that a visit sees.
    covariates
        The covariates that the documents' alpha depends on. None: alpha is the same for all.
    """

    docs: int
    words: int
    cells: int
    tokens: float
    topics: int
    weighted: bool = False
    axes: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    bare: Mapping[str, int] = field(default_factory=dict)
    seeds: Constants | None = None
    covariates: PriorShape | None = None

    @property
    def length(self) -> float:
        """Return the tokens of a mean document."""
        return self.tokens / max(self.docs, 1)

    @property
    def short(self) -> bool:
        """Return True if documents of counts are as short as titles."""
        return not self.weighted and self.length < SHORT_TEXT

    @property
    def sizes(self) -> dict[str, int]:
        """Return the number of ids of every axis."""
        return {WORDS: self.words, DOCUMENTS: self.rows or self.docs, **self.axes}

    def constants(self, table: str) -> Constants | None:
        """Return the constants that are added to a table's rows when gathered."""
        return self.seeds if table == "phi" else None


@dataclass(frozen=True)
class BlockShape:
    """The largest sizes over the blocks of a grid, which buffers must hold.

    Attributes
    ----------
    docs, cells, tokens, words
        Most documents, cells, tokens and different words of a block.
    longest
        Cells of the longest document; 0: not known.
    table_entries
        Most non-zero entries that a packed table of the whole corpus can have; 0: not known.
    heaviest
        Tokens of the most frequent word; 0: not known.
    axes
        Sizes on each other axis (``Corpus.grid(axes=...).axes``).
    """

    docs: int
    cells: int
    tokens: int
    words: int
    longest: int = 0
    table_entries: int = 0
    heaviest: int = 0
    axes: Mapping[str, AxisShape] = field(default_factory=dict)

    @classmethod
    def measure(cls, block: Block) -> BlockShape:
        """Measure one block."""
        axes = {
            name: AxisShape(
                len(rows.ids), len(rows.local), int(np.diff(rows.indptr).max(initial=0))
            )
            for name, rows in block.axes.items()
        }
        longest = int(np.diff(block.indptr).max(initial=0))
        return cls(
            block.n_docs, block.n_cells, int(block.tokens), block.n_words, longest, axes=axes
        )

    def most_rows(self, axis: str | int | None) -> int:
        """Bound the rows of a table over ``axis`` that a block touches.

        An integer ``axis`` is a fixed number of rows.
        """
        if axis is None:
            return 0
        if isinstance(axis, int):
            return axis
        if axis == WORDS:
            return self.words
        if axis == DOCUMENTS:
            return self.docs
        return self.axes[axis].rows

    @property
    def document(self) -> int:
        """Bound the cells of the longest document."""
        return self.longest or min(self.words, self.cells)


@dataclass(frozen=True)
class ArraySpec:
    """Block state: an array stored on disk for each block between its visits.

    Attributes
    ----------
    per
        ``document`` [D, width], ``cell`` [nnz, width] or ``token`` [tokens, width] (width 0:
        one-dimensional). Or ``block``: one-dimensional, of any length up to ``limit`` entries for a
        block of that shape (ragged state, such as a message over the names of each cell's
        document).
    dtype
        Type of an entry.
    width
        Entries a document, cell or token.
    limit
        Per ``block``: a function of a BlockShape that bounds the entries.
    below
        Upper bound of numbers that a kernel indexes by, checked when they are read back. 0: no
        check.
    ends
        True if the numbers are ends of rows: from 0, ascending, to the length of the following
        arrays of the block.
    total
        Per ``block``: a function that bounds the entries of all blocks together, if that is less
        than the sum of their limits. Its BlockShape has the cells and documents of the corpus.
    """

    per: str
    dtype: str
    width: int = 0
    limit: Any = None
    below: int = 0
    ends: bool = False
    total: Any = None

    def holds(self, array: np.ndarray, before: Mapping[str, np.ndarray]) -> bool:
        """Check that an array read back is safe to index by.

        ``before`` has the arrays of the block that were read earlier.
        """
        if not len(array):
            return not self.ends
        if self.below and int(array.max()) >= self.below:
            return False
        if self.ends:
            ascends = array[0] == 0 and bool((np.diff(array) >= 0).all())
            if not ascends:
                return False
        ptr = before.get("ptr")
        return ptr is None or len(array) == int(ptr[-1])

    def shape(self, block: BlockShape) -> tuple[int, ...]:
        """Compute the array shape for a block."""
        if self.per == "block":
            return (int(self.limit(block)),)
        n = {"document": block.docs, "cell": block.cells, "token": block.tokens}[self.per]
        return (n, self.width) if self.width else (n,)


class Buffer(NamedTuple):
    """An array that a visit works on.

    Attributes
    ----------
    shape, dtype
        Shape and type of the array.
    keep
        Whether it stays as it is until the round ends, as arrays of sparse deltas must.
    part
        Entries that are enough where ``Out.merge`` takes a delta in parts; 0: all.
    """

    shape: int | tuple[int, ...]
    dtype: Any
    keep: bool = False
    part: int = 0

    @property
    def nbytes(self) -> int:
        """Return the bytes of the array."""
        return bytes_of(self.shape, self.dtype)

    @property
    def part_bytes(self) -> int:
        """Return the bytes of the array where deltas are taken in parts."""
        return min(self.nbytes, bytes_of(self.part, self.dtype)) if self.part else self.nbytes
