"""Declarations of tables and the types of the rows and deltas of a visit.

A table has one row for each id of an axis (words, documents, names) or a fixed number of rows. It
does not change during a round, a fixed number of consecutive blocks of a pass. At the end of the
round the sum of its deltas is applied:

    ADD      table += delta                          (the change since the block's last visit)
    REPLACE  next += delta; table, next = next, 0    at the end of the pass (the block's whole
             contribution)
    BLEND    table = (1 - rho) table + rho * scale * sum of the round's deltas

The rule belongs to the table, so an engine may have one table of each kind.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from topicstream.numeric.tables.storage import Storage

RunAll = Callable[[Callable[[int], None], int], None]
"""Run f(0) .. f(n - 1), perhaps on several threads."""
LANES = 16
SIGNIFICAND = 53
"""Bits of the significand of a float64."""
WORDS = "words"
DOCUMENTS = "documents"


def padded(columns: int) -> int:
    """Round up to a multiple of 16 columns.

    Sixteen float32 are a cache line and an AVX-512 register.
    """
    return -(-columns // LANES) * LANES


def quantum_of(bound: float) -> float:
    """Compute the quantum that makes float64 sums up to ``bound`` exact.

    It is the smallest power of two for which every sum of multiples up to ``bound`` in absolute
    value is exact. Every delta is rounded to it before it is added. The bits of the sum then do not
    depend on the order of the blocks, nor on sums that other threads or machines make first.

    Parameters
    ----------
    bound
        The largest absolute value of any partial sum; 0: nothing is summed, and nothing needs
        rounding.

    Returns
    -------
    float
        The quantum, 2^(ceil(log2 bound) - 53); 0.0 where ``bound`` is 0.

    References
    ----------
    Demmel and Nguyen (2013), Fast Reproducible Floating-Point Summation, with several bins. The
    reproducible histograms of XGBoost use one bin, as we do.

    Examples
    --------
    >>> quantum_of(2.0**30) == 2.0**-23
    True
    """
    return 2.0 ** (math.ceil(math.log2(bound)) - SIGNIFICAND) if bound > 0 else 0.0


class Rule(enum.Enum):
    """The rule by which deltas change a table (see the module's docstring)."""

    ADD = "add"
    REPLACE = "replace"
    BLEND = "blend"


@dataclass(frozen=True)
class TableSpec:
    """The declaration of one table of an engine.

    Attributes
    ----------
    rows
        The axis whose ids number the rows, or a fixed number of rows.
    reads
        The axis whose ids of a block are gathered for a visit, if it is another one (the rows of
        the documents that a block's documents are linked with). Ids of both number the same rows.
    columns
        Numbers in a row; None: the number of topics.
    dtype
        Type of the stored rows: ``float32``, ``float64`` or ``int32``.
    layout
        ``dense``: [rows, padded(columns)], a visit sees ``Rows``. ``packed``: sparse integer rows,
        a visit sees ``PackedRows``.
    delta
        ``dense``: a visit fills float32[U, padded(columns)]. ``sparse``: it returns a
        ``SparseDelta``.
    rule
        The rule by which deltas change the table.
    mass
        ``row``: a row sums to the tokens that the corpus has of it and is held to them exactly, in
        float64, with the correction logged. ``total``: all rows together sum to the tokens, which
        is checked. ``part``: some documents may be left out, so all rows together sum to at most
        the tokens, and entries that rounding left below zero become zero. ``none``: no check.
    samples
        Passes after which the state of the table is added up. A model then stores the mean of these
        states. Numbers of 0 and less count from the last pass of the run, which is 0.
    bound
        The largest absolute value of any partial sum of a round's deltas. It sets the quantum to
        which deltas are rounded, so that their order does not matter. None: twice the tokens of the
        corpus (the most that a pass subtracts and adds). A table over documents, of which a round
        sees each row once, needs no bound, nor does one with a fixed number of rows, whose deltas
        are added up in block order.
    """

    rows: str | int = WORDS
    reads: str | None = None
    columns: int | None = None
    dtype: str = "float32"
    layout: str = "dense"
    delta: str = "dense"
    rule: Rule = Rule.ADD
    mass: str = "none"
    samples: range = range(0)
    bound: float | None = None

    def takes_sample(self, number: int, passes: int) -> bool:
        """Tell whether a run of so many passes adds up the state after a pass."""
        return self.samples_before(number + 1, passes) > self.samples_before(number, passes)

    def samples_before(self, number: int, passes: int) -> int:
        """Count the samples that a run of so many passes takes before a pass."""
        fixed = sum(1 <= n < number for n in self.samples if n > 0)
        return fixed + sum(1 <= n + passes < number for n in self.samples if n <= 0)

    def quantum(self, tokens: float) -> float:
        """Compute the quantum of deltas in a corpus of ``tokens``.

        0.0: deltas are not rounded.
        """
        if self.rows == DOCUMENTS or self.axis is None:
            return 0.0
        return quantum_of(2.0 * tokens if self.bound is None else self.bound)

    @property
    def axis(self) -> str | None:
        """Return the axis of the ids that deltas are written to.

        None: the table has a fixed number of rows, all of which every block sees.
        """
        return self.rows if isinstance(self.rows, str) else None

    @property
    def gathered(self) -> str | None:
        """Return the axis of the ids whose rows a visit sees."""
        return self.reads or self.axis

    def n_rows(self, sizes: Mapping[str, int]) -> int:
        """Count the rows of the table.

        Parameters
        ----------
        sizes
            Number of ids of each axis.
        """
        return sizes[self.rows] if isinstance(self.rows, str) else int(self.rows)

    def n_columns(self, topics: int) -> int:
        """Count the numbers in a row."""
        return topics if self.columns is None else self.columns


class Rows(NamedTuple):
    """Rows of a dense table: local row u is ``scale * base[index[u]]``.

    Attributes
    ----------
    base
        [R, padded(columns)], C-contiguous, read-only. It is the whole table if that is in memory,
        else a gathered copy. Both have the same types, so the same compiled code reads them.
    index
        int64[U], the row of ``base`` for each local row. If the table has constants (seed words),
        they are added in these rows.
    scale
        1.0 except for BLEND tables.
    bare
        int64[U], rows of ``base`` without constants; None: the table has none.
    """

    base: np.ndarray
    index: np.ndarray  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    scale: float = 1.0
    bare: np.ndarray | None = None

    @property
    def counts(self) -> np.ndarray:
        """Return the index of the counts without constants, int64[U]."""
        return self.index if self.bare is None else self.bare

    @property
    def at_once(self) -> int:
        """Return the number of rows that ``part`` can return at once: all."""
        return len(self.index)

    def part(self, first: int, stop: int) -> Rows:
        """Return local rows ``first`` to ``stop - 1``."""
        bare = None if self.bare is None else self.bare[first:stop]
        return Rows(self.base, self.index[first:stop], self.scale, bare)

    def portable(self) -> Rows:
        """Copy the rows into new arrays that can be sent to another process."""
        numbers = np.arange(len(self.index))
        if self.bare is None:
            return Rows(self.base[self.index], numbers, self.scale)
        copied = self.base[np.append(self.index, self.bare)]
        return Rows(copied, numbers, self.scale, len(numbers) + numbers)


@dataclass(frozen=True)
class PackedRows:
    """Rows of a packed table, which the engine copies to its own array.

    The object contains no rows itself.

    Attributes
    ----------
    length
        int32[U], read-only: number of entries of each local row. An entry is
        ``count << bits | topic``; a row is descending in count.
    bits
        Bits of the topic in an entry.
    largest
        Upper bound of the counts in the table.
    copy
        copy(first, stop, start, arena) copies rows first to stop - 1 to the positions ``start``,
        int64[stop - first], of ``arena``, uint32 or uint64, whichever holds ``largest``.
    """

    length: np.ndarray
    bits: int
    largest: int
    copy: Callable[[int, int, np.ndarray, np.ndarray], None]

    def portable(self) -> PackedRows:
        """Copy the rows into new arrays that can be sent to another process."""
        ptr = np.append(0, np.cumsum(self.length, dtype=np.int64))
        fits_32_bits = self.largest >> (32 - self.bits) == 0
        entries = np.zeros(int(ptr[-1]), np.uint32 if fits_32_bits else np.uint64)
        self.copy(0, len(self.length), ptr[:-1], entries)
        return PackedRows(
            self.length.copy(), self.bits, self.largest, partial(copy_tight, ptr, entries)
        )


def copy_tight(
    ptr: np.ndarray,
    entries: np.ndarray,
    first: int,
    stop: int,
    start: np.ndarray,
    arena: np.ndarray,
) -> None:
    """Copy rows as ``PackedRows.copy`` does, where row u is entries[ptr[u] : ptr[u + 1]]."""
    for u, position in zip(range(first, stop), start.tolist()):
        row = entries[ptr[u] : ptr[u + 1]]
        arena[position : position + len(row)] = row


@dataclass
class SparseDelta:
    """Changes of a table, grouped by local row.

    Row u changes table[u, topic[j]] by value[j] for j in ptr[u] .. ptr[u + 1] - 1. A topic may
    occur more than once in a row.

    The engine sets all three arrays, from ``out.array`` or new ones. They must not change until the
    round has ended, so declare them with ``keep``.

    Attributes
    ----------
    ptr
        int64[U + 1].
    topic
        uint16 or int32[capacity].
    value
        float32[capacity], or int32 for integer tables.
    """

    ptr: np.ndarray
    topic: np.ndarray
    value: np.ndarray


def bytes_of(shape: int | tuple[int, ...], dtype: Any) -> int:
    """Compute the bytes of an array of that shape and type."""
    lengths = shape if isinstance(shape, tuple) else (shape,)
    # np.prod takes ten times as long, and each visit calls this twenty times
    return math.prod(map(int, lengths)) * int(np.dtype(dtype).itemsize)


class Scratch:
    """Named arrays that grow and are reused, so visits allocate no rows.

    Parameters
    ----------
    folder
        Folder of mapped files for the arrays; None: they are in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._storages: dict[str, Storage] = {}

    def array(self, name: str, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return an uninitialised C-contiguous array, aligned to 64 bytes.

        It is valid until the same name is requested again.
        """
        size = bytes_of(shape, dtype)
        if name not in self._storages or self._storages[name].array.nbytes < size:
            # frees the smaller array before the larger one takes memory
            self._storages.pop(name, None)
            self._storages[name] = Storage((size,), np.uint8, self._folder)
        return np.ndarray(shape, dtype, self._storages[name].array)

    def release_pages(self) -> None:
        """Return the pages of mapped arrays to the system, preserving their values."""
        if self._folder is not None:
            for storage in self._storages.values():
                storage.release_pages()

    def clear(self) -> None:
        """Free all arrays."""
        self._storages.clear()
