"""Merge the sorted runs of a vocabulary's builder into one sorted list of distinct words on disk, under a memory limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from topicstream.files import owned
from topicstream.kernels.arrays import Array, Bytes, Longs
from topicstream.tokens.spill import DONE, FLUSH, PIECE, append_array, enter_run, merge


@dataclass(frozen=True)
class SpillPiece:
    """Some rows of a sorted list: data uint8[], offsets int64[n+1], counts and df int64[n]."""

    data: np.ndarray
    offsets: np.ndarray
    counts: np.ndarray
    df: np.ndarray


class _Run:
    """Reads a run in pieces that fit a row of the merge's buffers."""

    def __init__(self, base: Path, rows: int) -> None:
        self.base, self.rows = base, rows
        self.at = self.byte = 0

    def lengths(self, limit: int) -> np.ndarray:
        wanted = min(limit, self.rows - self.at)
        return np.fromfile(f"{self.base}.lengths", np.int32, wanted, offset=4 * self.at)

    def load(self, row: int, data: np.ndarray, ends: np.ndarray, sums: np.ndarray) -> int:
        """Read the next rows into row ``row`` of the buffers; how many there were (0 at the end of the run)."""
        sizes = np.cumsum(self.lengths(ends.shape[1] - 1), dtype=np.int64)
        n = int(np.searchsorted(sizes, data.shape[1], side="right"))
        if n == 0:
            return 0
        total = int(sizes[n - 1])
        ends[row, 0] = 0
        ends[row, 1 : n + 1] = sizes[:n]
        data[row, :total] = np.fromfile(f"{self.base}.words", np.uint8, total, offset=self.byte)
        sums[row, :n, 0] = np.fromfile(f"{self.base}.counts", np.int64, n, offset=8 * self.at)
        sums[row, :n, 1] = np.fromfile(f"{self.base}.df", np.int64, n, offset=8 * self.at)
        self.at += n
        self.byte += total
        return n

    def longest_next(self) -> int:
        """Bytes of the next word, 0 at the end."""
        return int(self.lengths(1).max(initial=0))


def merge_runs(folder: Path, runs: list[tuple[str, int]], memory_bytes: int) -> int:
    """Merge the runs (name, rows) of ``folder`` into the run ``merged`` there (without ``.ids``); for each run, ``.ordinals``
    int64 says which row of it each of its rows became.  Returns the number of distinct words."""
    readers = [_Run(folder / name, rows) for name, rows in runs]
    total = len(readers)
    # A row takes 32 bytes and its word; half of the memory is for the pieces, some for the output.
    rows = max(4, min(PIECE, memory_bytes // (96 * max(total, 1))))
    data = np.empty((total, 16 * rows), np.uint8)
    ends = np.empty((total, rows + 1), np.int64)
    sums = np.empty((total, rows, 2), np.int64)
    ordinals = np.empty((total, rows), np.int64)
    at, loaded = np.zeros(total, np.int64), np.zeros(total, np.int64)
    heads, heap = np.zeros(total, np.uint64), np.zeros(total + 1, np.int64)
    out_rows = max(4, min(PIECE, memory_bytes // 128))
    out, out_ends, out_sums = (
        np.empty(16 * out_rows, np.uint8),
        np.zeros(out_rows + 1, np.int64),
        np.empty((out_rows, 2), np.int64),
    )
    state = np.zeros(3, np.int64)

    def refill(g: int) -> None:
        nonlocal data
        if loaded[g]:
            with owned.append(f"{readers[g].base}.ordinals") as f:
                append_array(f, ordinals[g, : loaded[g]])
        at[g] = 0
        loaded[g] = readers[g].load(g, data, ends, sums)
        if loaded[g] == 0 and (needed := readers[g].longest_next()) > 0:
            data = _wider(data, needed)
            loaded[g] = readers[g].load(g, data, ends, sums)
        if loaded[g]:
            enter_run(state, g, heap, data, ends, at, heads)

    for g in range(total):
        refill(g)
    with _Writer(folder / "merged") as writer:
        while True:
            status = merge(state, heap, data, ends, sums, at, loaded, heads, ordinals, out, out_ends, out_sums)
            if status == DONE:
                writer.write(out, out_ends, out_sums, int(state[1]))
                return int(state[2] + state[1])
            if status == FLUSH:
                following = int(ends[heap[0], at[heap[0]] + 1] - ends[heap[0], at[heap[0]]])
                out = _flush(writer, state, out, out_ends, out_sums, following)
            else:
                refill(int(status))


def _wider(data: Array, needed: int) -> Array:
    new = np.empty((data.shape[0], 2 * needed), np.uint8)
    new[:, : data.shape[1]] = data
    return new


def _flush(writer: _Writer, state: Longs, out: Bytes, out_ends: Longs, out_sums: Longs, following: int) -> Bytes:
    """Write all rows of output but the last, which is still open, and move that one to the front; the output, made larger
    when the following word needs it."""
    used = int(state[1])
    last = out[:0]
    if used > 0:
        writer.write(out, out_ends, out_sums, used - 1)
        last = out[int(out_ends[used - 1]) : int(out_ends[used])].copy()
        out_ends[1] = last.size
        out_sums[0] = out_sums[used - 1]
        state[1], state[2] = 1, state[2] + used - 1
    if last.size + following > out.size:
        out = np.empty(2 * (last.size + following), np.uint8)
    out[: last.size] = last
    return out


class _Writer:
    """Appends rows to the columns of a run."""

    def __init__(self, base: Path) -> None:
        self._files = [owned.create(f"{base}.{name}") for name in ("words", "lengths", "counts", "df")]

    def write(self, data: Bytes, ends: Longs, sums: Longs, rows: int) -> None:
        append_array(self._files[0], data[: ends[rows]])
        append_array(self._files[1], np.diff(ends[: rows + 1]).astype(np.int32))
        append_array(self._files[2], np.ascontiguousarray(sums[:rows, 0]))
        append_array(self._files[3], np.ascontiguousarray(sums[:rows, 1]))

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *exc: object) -> None:
        for f in self._files:
            f.close()


def merged_pieces(folder: Path, rows: int, *, words: bool = True, piece: int = PIECE) -> Iterator[SpillPiece]:
    """The merged list in order, in pieces of at most ``piece`` rows; without ``words`` the bytes are left out."""
    byte = 0
    for at in range(0, rows, piece):
        n = min(piece, rows - at)
        offsets = np.zeros(n + 1, np.int64)
        data = np.empty(0, np.uint8)
        if words:
            np.cumsum(np.fromfile(folder / "merged.lengths", np.int32, n, offset=4 * at), out=offsets[1:])
            data = np.fromfile(folder / "merged.words", np.uint8, int(offsets[-1]), offset=byte)
            byte += int(offsets[-1])
        counts = np.fromfile(folder / "merged.counts", np.int64, n, offset=8 * at)
        yield SpillPiece(data, offsets, counts, np.fromfile(folder / "merged.df", np.int64, n, offset=8 * at))
