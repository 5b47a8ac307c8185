"""The vocabulary of a corpus of any size from one read of its text: exact, under a memory limit.

Words go into a hash table with their counts.  When it fills the memory it may take, its words are written as a run sorted
by their bytes and a new *generation* begins with an empty table.  A word's *provisional* id counts on over the
generations (so a word may have one in each); what the pipeline writes with provisional ids is renumbered, generation by
generation, by the maps that ``finish`` leaves.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.errors import InputError, NothingKept, StoreError
from topicstream.files import owned
from topicstream.files.ownership import owns
from topicstream.kernels.arrays import Bytes, Longs, Words
from topicstream.kernels.jit import kernel
from topicstream.tokens.merging import merge_runs
from topicstream.tokens.selecting import PruningLimits, select
from topicstream.tokens.spill import write_run
from topicstream.tokens.vocabulary import TokenVocabulary, stream_pruned, word_buffers
from topicstream.tokens.wordtable import LOW_HALF, find_keyed, more_tags, tag_of, tag_slot, word_key

_S32 = np.uint64(32)
_TYPE_BYTES = 72  # what a distinct word costs: table 12 to 24, columns 32, sort 16, about 10 of its own
_QUEUE = 64
_LEAST_SLOTS = 1024


@kernel
def _add(
    data: Bytes,
    words: Longs,
    n: int,
    tags: Words,
    types: Bytes,
    ends: Longs,
    type_counts: Longs,
    type_df: Longs,
    at: int,
    first: int,
    ids: Longs,
    queue: Words,
) -> tuple[int, int]:
    """Enter words from ``at`` on until the table or the buffers are full: (next word, words in the table).

    words int64[most + 1, 4]: where a word begins in ``data``, its count, its df, its key: all of it in one line of the cache.
    The table is far larger than any cache, so a queue of words is looked up at once, each step for all of them: the loads
    then overlap.  queue uint64[2, _QUEUE]: key, tag.
    """
    total = ends.size - 1
    most = words.shape[0] - 1
    touched = np.uint64(0)
    while at < total:
        m = min(_QUEUE, total - at)
        size = ends[at + m] - ends[at]
        if n + m > most or 3 * (n + m) >= 2 * tags.size or words[n, 0] + size > data.size:
            m = 1  # nearly full: with care
            size = ends[at + 1] - ends[at]
            if n == most or 3 * n >= 2 * tags.size or words[n, 0] + size > data.size:
                break
        for q in range(m):
            key = word_key(types, ends[at + q], ends[at + q + 1] - ends[at + q])
            queue[0, q], queue[1, q] = key, tag_of(key)
            touched ^= tags[tag_slot(queue[1, q], tags.size)]
        for q in range(m):
            entry = tags[tag_slot(queue[1, q], tags.size)]
            if entry >> _S32 == queue[1, q]:
                touched ^= np.uint64(words[np.int64(entry & LOW_HALF) - 1, 3])
        for q in range(m):
            key, tag = queue[0, q], queue[1, q]
            start, length = ends[at + q], ends[at + q + 1] - ends[at + q]
            slot, t = find_keyed(tags, tag, key, data, words, types, start, length)
            if t < 0:
                t = n
                n += 1
                begin = words[t, 0]
                for k in range(length):
                    data[begin + k] = types[start + k]
                words[n, 0] = begin + length
                words[t, 1], words[t, 2], words[t, 3] = 0, 0, np.int64(key)
                tags[slot] = (tag << _S32) | np.uint64(n)
            words[t, 1] += type_counts[at + q]
            words[t, 2] += type_df[at + q]
            ids[at + q] = first + t
        at += m
    queue[0, 0] = touched  # so that the early loads are not optimised away
    return at, n


@dataclass(frozen=True)
class GenerationMap:
    """Final ids of one generation: ``path`` holds int32[size] (native, no header), entry ``p - first`` the final id of
    provisional id ``p``, -1 for a word left out."""

    first: int
    size: int
    path: Path

    def read(self) -> np.ndarray:
        """int32[size]."""
        return np.fromfile(self.path, np.int32)


@dataclass(frozen=True)
class Finished:
    """What ``VocabularyBuilder.finish`` yields.

    maps in the order of the provisional ids; distinct: words with a count above 0 before pruning; tokens: their counts;
    pruned, pruned_tokens: words left out (the rows of pruned.parquet) and their counts; top: those that ``drop_top`` left out.
    """

    vocabulary: TokenVocabulary
    maps: list[GenerationMap]
    distinct: int
    tokens: int
    pruned: int
    pruned_tokens: int
    top: tuple[str, ...] = ()


class VocabularyBuilder:
    """Collects the distinct words of a corpus with counts and document frequencies.

    ``folder`` is scratch of its own (made when absent, older runs in it removed); ``memory_bytes`` bounds what the table
    and its spill take, and what ``finish`` takes besides the vocabulary that it returns.  Not thread-safe: one thread adds,
    in input order, which is what makes ids independent of the number of workers.
    """

    def __init__(self, folder: str | os.PathLike[str], memory_bytes: int, *, _kept: Sequence[int] = ()) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._memory = int(memory_bytes)
        self._most = max(16, self._memory // _TYPE_BYTES)
        self._generations = list(_kept)
        self._first = sum(_kept)
        self._sweep(len(_kept))
        self._clear()
        # Virtual until touched: a small corpus stays small.
        self._words = np.empty((self._most + 1, 4), np.int64)
        self._words[0] = 0
        self._queue = np.zeros((2, _QUEUE), np.uint64)
        self._data = np.empty(max(1024, self._memory // 4), np.uint8)

    def _clear(self) -> None:
        self._n = 0
        self._tags = np.zeros(_LEAST_SLOTS, np.uint64)

    def _name(self, generation: int) -> str:
        return f"generation-{generation:06d}"

    def _sweep(self, keep: int) -> None:
        """Remove the files of generations from ``keep`` on, and of a merge."""
        for path in self._folder.iterdir():
            stem, _, number = path.stem.partition("-")
            if owns(path) and (
                (stem == "generation" and int(number) >= keep)
                or stem == "merged"
                or path.suffix in (".ordinals", ".map")
            ):
                owned.remove_file(path)

    def add(self, types: np.ndarray, offsets: np.ndarray, counts: np.ndarray, df: np.ndarray) -> np.ndarray:
        """Count words: ``types`` uint8[], ``offsets`` int64[T+1] (as of ``Counted``), ``counts`` and ``df`` int64[T] from
        training documents (0 for a word of held-out documents only, negative to take back).  Returns int64[T], the
        provisional id of each."""
        counts, df = np.ascontiguousarray(counts, np.int64), np.ascontiguousarray(df, np.int64)
        offsets, types = np.ascontiguousarray(offsets, np.int64), types.view()
        types.flags.writeable = False  # as those out of a file: compiled once
        ids = np.empty(offsets.size - 1, np.int64)
        at = 0
        while True:
            at, self._n = _add(
                self._data, self._words, self._n, self._tags, types, offsets, counts, df, at, self._first, ids, self._queue
            )  # fmt: skip
            if at == ids.size:
                return ids
            if self._n < self._most and 3 * self._n >= 2 * self._tags.size and self._cost(2) <= self._memory:
                self._tags = more_tags(self._tags)
            elif self._n > 0:
                self._spill()
            else:  # a single word longer than the buffer
                self._data = np.empty(2 * int(offsets[at + 1] - offsets[at]), np.uint8)

    def _cost(self, growth: int) -> int:
        """Bytes in use once the table has grown (old and new stand side by side meanwhile) and is sorted."""
        return (growth + 1) * self._tags.nbytes + 48 * self._n + int(self._words[self._n, 0])

    def _spill(self) -> None:
        name = self._name(len(self._generations))
        begins, counts, df, _ = self._words.T
        write_run(self._folder / name, self._data, begins, counts, df, self._n)
        self._generations.append(self._n)
        self._first += self._n
        self._clear()

    def seed(self, vocabulary: TokenVocabulary) -> None:
        """Add the words of an earlier vocabulary with the counts that they had."""
        self.add(vocabulary._data, vocabulary._offsets, vocabulary.counts, vocabulary.df)

    def seed_pruned(self, path: str | os.PathLike[str]) -> None:
        """Add the words of an earlier ``pruned.parquet``, streamed, so that 4 + 4 occurrences make 8."""
        for piece in stream_pruned(path):
            data, offsets = word_buffers(piece.column(0))
            self.add(data, offsets, piece.column(1).to_numpy(), piece.column(2).to_numpy())

    def checkpoint(self) -> dict[str, Any]:
        """Write the open generation as a run; the JSON state from which ``resume`` goes on.  Survives a kill of the
        process (not a power cut: nothing is fsynced)."""
        if self._n:
            self._spill()
        return {"generations": list(self._generations)}

    @classmethod
    def resume(cls, folder: str | os.PathLike[str], memory_bytes: int, state: dict[str, Any]) -> VocabularyBuilder:
        """The builder as it stood at ``checkpoint``; runs written after it are removed.  StoreError when a run is missing
        or not of the size that the state says."""
        kept = [int(n) for n in state["generations"]]
        for g, n in enumerate(kept):
            path = Path(folder) / f"generation-{g:06d}.ids"
            if not path.exists() or path.stat().st_size != 4 * n:
                raise StoreError(
                    f"{path}: missing or damaged; the ingest cannot be resumed, start it anew with --force"
                )
        return cls(folder, memory_bytes, _kept=kept)

    def finish(
        self,
        *,
        documents: int,
        min_df: int | float = 1,
        max_df: int | float = 1.0,
        min_count: int = 1,
        max_vocab: int | None = None,
        fixed: TokenVocabulary | None = None,
        grow: bool = False,
        pruned: str | os.PathLike[str] | None = None,
        room: int | None = None,
        drop: TokenVocabulary | None = None,
        drop_top: int = 0,
    ) -> Finished:
        """Merge the runs, choose the words, give them ids.

        A word is kept when its document frequency lies in [min_df, max_df] (an int is a number of documents, a float a
        share of ``documents``, as in scikit-learn) and its count is at least ``min_count``; of those the ``max_vocab`` most
        frequent (with ``fixed``: as many as there is room for besides).  Ids go by descending count, equal counts by the
        bytes of the word.  ``fixed``: its words keep their ids whatever their counts, and get the counts found here; other
        words are left out, or with ``grow`` follow behind.  The words left out go to ``pruned`` (Parquet; word, count, df;
        in the order of their bytes); those with no occurrence in a training document are forgotten.
        ``room``: bytes that the words kept may take.  ``drop``: words left out whatever their counts, unless fixed.
        ``drop_top``: so many of the most frequent words that would be kept are left out, too (not with ``fixed``).

        InputError when no word is left; DoesNotFit when they take more than ``room``."""
        if self._n:
            self._spill()
        self._tags = np.zeros(1, np.uint64)
        self._data = np.empty(0, np.uint8)
        self._words = np.empty((1, 4), np.int64)
        names = [self._name(g) for g in range(len(self._generations))]
        for path in self._folder.glob("*.ordinals"):
            owned.remove_file(path)
        rows = merge_runs(self._folder, list(zip(names, self._generations)), self._memory // 2)
        limits = PruningLimits.of(documents, min_df, max_df, min_count, max_vocab, grow or fixed is None)
        top: tuple[str, ...] = ()
        if drop_top and fixed is None:
            first_words = select(self._folder, rows, replace(limits, most_words=drop_top), None, None, room, drop)
            owned.remove_file(first_words.final)
            top = tuple(first_words.vocabulary.words.to_pylist())
            gone = [*top, *(drop.words.to_pylist() if drop is not None else ())]
            drop = TokenVocabulary.of(sorted(gone)) if gone else None
        chosen = select(self._folder, rows, limits, fixed, pruned, room, drop)
        if not documents or not chosen.distinct:
            raise NothingKept(f"{documents:,} training documents were read and none has a word; nothing was stored")
        if len(chosen.vocabulary) == 0:
            raise InputError(
                f"no word is left: {chosen.distinct} distinct words in {documents} training documents, none passes "
                f"min-df, max-df and min-count{f' after --drop-top {drop_top:,}' if top else ''}; lower them"
            )
        maps, first = [], 0
        for name, size in zip(names, self._generations):
            path = self._folder / f"{name}.map"
            chosen.write_map(self._folder / name, size, path)
            maps.append(GenerationMap(first, size, path))
            first += size
        return Finished(
            chosen.vocabulary, maps, chosen.distinct, chosen.tokens, chosen.pruned, chosen.pruned_tokens, top
        )
