"""Which of the merged words are kept, and their ids: streamed, without a sort.

Ids go by descending count and, within a count, in the order of the words' bytes, which is the order of the merged list.  So
an id is (kept words of a greater count) + (kept words of this count so far): a histogram of the counts and one more read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.errors import DoesNotFit, UsageError
from topicstream.files import owned
from topicstream.kernels.arrays import Bytes, Ints, Longs
from topicstream.kernels.jit import kernel
from topicstream.machine import format_bytes
from topicstream.tokens.merging import SpillPiece, merged_pieces
from topicstream.tokens.sequences import gathered
from topicstream.tokens.spill import PIECE, append_array
from topicstream.tokens.vocabulary import TokenVocabulary, word_array, word_table, write_words

_SMALL = 1 << 20  # counts below have their own place in the histogram; of the others there are few
_MOST_WORDS = 2**31 - 2
KEPT_BYTES = 120  # what a kept word takes until all is written: figures, its bytes, Parquet, final ids (measured: 113)


@dataclass(frozen=True)
class PruningLimits:
    """The pruning rules as numbers of documents and occurrences; ``grow``: words outside a fixed vocabulary may be kept."""

    least_df: int
    most_df: int
    least_count: int
    most_words: int
    grow: bool

    @classmethod
    def of(
        cls, documents: int, min_df: int | float, max_df: int | float, min_count: int, max_vocab: int | None, grow: bool
    ) -> PruningLimits:
        """Shares (floats) become numbers of documents: df >= min_df * documents and df <= max_df * documents."""
        for name, value in (("min-df", min_df), ("max-df", max_df)):
            if value < 0 or (isinstance(value, float) and value > 1.0) or math.isnan(value):
                raise UsageError(f"{name} {value}: must be a number of documents or a share between 0.0 and 1.0")
        if max_vocab is not None and max_vocab < 1:
            raise UsageError(f"max-vocab {max_vocab}: must be at least 1")
        least = math.ceil(min_df * documents - 1e-9) if isinstance(min_df, float) else int(min_df)
        most = math.floor(max_df * documents + 1e-9) if isinstance(max_df, float) else int(max_df)
        return cls(least, most, max(1, min_count), _MOST_WORDS if max_vocab is None else max_vocab, grow)


@kernel
def _number(
    counts: Longs,
    df: Longs,
    known: Ints,
    least_df: int,
    most_df: int,
    least_count: int,
    small: Longs,
    large: Longs,
    large_next: Longs,
    most: int,
    final: Ints,
) -> None:
    """final[i]: the id of word i, -1 when it is left out.  small and large_next hold the next free id of each count."""
    for i in range(counts.size):
        c = counts[i]
        final[i] = known[i]
        if known[i] < 0 and c >= least_count and least_df <= df[i] <= most_df:
            if c < small.size:
                place = small[c]
                small[c] += 1
            else:
                low, high = 0, large.size - 1
                while low < high:
                    middle = (low + high) // 2
                    if large[middle] < c:
                        low = middle + 1
                    else:
                        high = middle
                place = large_next[low]
                large_next[low] += 1
            if place < most:
                final[i] = place


@kernel
def _place(data: Bytes, offsets: Longs, final: Ints, starts: Longs, skip: int, out: Bytes) -> None:
    """Write the bytes of the kept words with ids from ``skip`` on where they belong."""
    for i in range(final.size):
        if final[i] >= skip:
            at = starts[final[i] - skip]
            for k in range(offsets[i], offsets[i + 1]):
                out[at] = data[k]
                at += 1


@dataclass
class Chosen:
    """The vocabulary, what was left out, and the file ``final`` (int32 a merged row)."""

    vocabulary: TokenVocabulary
    final: Path
    distinct: int
    tokens: int
    pruned: int
    pruned_tokens: int

    def write_map(self, run: Path, size: int, path: Path) -> None:
        """Final ids by number within the generation, int32[size]."""
        ids = np.full(size, -1, np.int32)
        for at in range(0, size, PIECE):
            ordinals = np.fromfile(f"{run}.ordinals", np.int64, min(PIECE, size - at), offset=8 * at)
            numbers = np.fromfile(f"{run}.ids", np.int32, ordinals.size, offset=4 * at)
            # Ordinals ascend along a run, so a piece needs one stretch of the final ids; long stretches go in parts.
            start = 0
            while start < ordinals.size:
                low = int(ordinals[start])
                stop = int(np.searchsorted(ordinals, low + 4 * PIECE))
                final = np.fromfile(self.final, np.int32, int(ordinals[stop - 1]) + 1 - low, offset=4 * low)
                ids[numbers[start:stop]] = final[ordinals[start:stop] - low]
                start = stop
        with owned.create(path) as file:
            append_array(file, ids)


def ask_for_words(words: int, room: int | None) -> None:
    """DoesNotFit where the words of a vocabulary take more than ``room`` bytes (None: anything)."""
    if room is not None and words * KEPT_BYTES > room:
        short = format_bytes(words * KEPT_BYTES - room)
        raise DoesNotFit(
            f"a vocabulary of {words:,} words takes about {format_bytes(words * KEPT_BYTES)}, {short} more than there "
            "is: raise --mem-limit by as much, or keep fewer words (--min-df, --max-vocab)"
        )


def select(
    folder: Path,
    rows: int,
    limits: PruningLimits,
    fixed: TokenVocabulary | None,
    pruned: str | os.PathLike[str] | None,
    room: int | None = None,
    drop: TokenVocabulary | None = None,
) -> Chosen:
    """Choose among the merged words of ``folder`` (see ``VocabularyBuilder.finish``)."""
    base = 0 if fixed is None else len(fixed)
    least_df, most_df, least_count = rules = (limits.least_df, limits.most_df if limits.grow else -1, limits.least_count)

    def known(piece: SpillPiece) -> np.ndarray:
        if fixed is None:
            return np.full(piece.counts.size, -1, np.int32)
        return fixed.lookup(piece.data, piece.offsets)

    def df_of(piece: SpillPiece) -> np.ndarray:
        if drop is None:
            return piece.df
        return np.where(drop.lookup(piece.data, piece.offsets) >= 0, np.int64(-1), piece.df)  # below any least

    small = np.zeros(_SMALL, np.int64)
    large = np.empty(0, np.int64)
    for piece in merged_pieces(folder, rows, words=fixed is not None or drop is not None):
        df = df_of(piece)
        counts = piece.counts[(known(piece) < 0) & (piece.counts >= least_count) & (least_df <= df) & (df <= most_df)]
        np.add.at(small, counts[counts < _SMALL], 1)
        large = np.concatenate((large, counts[counts >= _SMALL]))
    large, times = np.unique(large, return_counts=True)
    large_next = base + times.sum() - np.cumsum(times)
    above = np.concatenate((np.cumsum(small[::-1])[::-1][1:], np.zeros(1, np.int64)))
    small_next = base + times.sum() + above
    kept = max(0, min(int(small.sum() + times.sum()), limits.most_words - base))
    words = base + kept
    ask_for_words(words, room)
    path = folder / "merged.final"
    counts, df, sizes = np.zeros(words, np.int64), np.zeros(words, np.int64), np.zeros(kept, np.int64)
    distinct = tokens = left_out = left_tokens = 0
    with owned.create(path) as file:
        for piece in merged_pieces(folder, rows):
            final = np.empty(piece.counts.size, np.int32)
            _number(piece.counts, df_of(piece), known(piece), *rules, small_next, large, large_next, words, final)
            append_array(file, final)
            take = final >= 0
            counts[final[take]], df[final[take]] = piece.counts[take], piece.df[take]
            fresh = final >= base
            sizes[final[fresh] - base] = np.diff(piece.offsets)[fresh]
            seen = piece.counts > 0
            distinct += int(seen.sum())
            tokens += int(piece.counts[seen].sum())
            left_out += int((seen & ~take).sum())
            left_tokens += int(piece.counts[seen & ~take].sum())
    starts = np.zeros(kept + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    del sizes
    out = np.empty(int(starts[-1]), np.uint8)
    for piece, final in _with_final(folder, rows, path):
        _place(piece.data, piece.offsets, final, starts, base, out)
    new = word_array(out, starts)
    all_words = new if fixed is None else pa.concat_arrays([fixed.words, new])
    if pruned is not None:
        write_words(pruned, _left_out(folder, rows, path))
    return Chosen(TokenVocabulary(all_words, counts, df), path, distinct, tokens, left_out, left_tokens)


def _with_final(folder: Path, rows: int, path: Path) -> Iterator[tuple[SpillPiece, np.ndarray]]:
    at = 0
    for piece in merged_pieces(folder, rows):
        yield piece, np.fromfile(path, np.int32, piece.counts.size, offset=4 * at)
        at += piece.counts.size


def _left_out(folder: Path, rows: int, path: Path) -> Iterator[pa.Table]:
    for piece, final in _with_final(folder, rows, path):
        which = np.flatnonzero((final < 0) & (piece.counts > 0))
        data, offsets = gathered(piece.data, piece.offsets, which)
        yield word_table(word_array(data, offsets), piece.counts[which], piece.df[which])
