"""What the formats share: text made and read by Arrow, files that appear whole, tables turned round out of core."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from topicstream.arrow import pc
from topicstream.errors import InputError, one_line
from topicstream.files.outputs import written
from topicstream.model.seeds import of_manifest
from topicstream.model.store import ModelWriter
from topicstream.model.topic_model import TopicModel
from topicstream.model.vocabulary import Vocabulary

BUDGET = 64 << 20
"""Bytes of a part of the table that is held at a time."""
MOST_TOPICS, MOST_CELLS = 1 << 20, 1 << 40
BLOCK = 2 << 20
_TEXT = pa.large_string()


@dataclass(frozen=True)
class Imported:
    """What a reader found.  rows: float32[n, K] word by word, in order; counts without the prior."""

    words: Any
    topics: int
    rows: Iterable[np.ndarray]
    alpha: Any
    beta: float
    counts: Any = None
    df: Any = None
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


# -- files -----------------------------------------------------------------------------------------------------------
def write_word_list(path: Path, words: Any, *, force: bool) -> None:
    """One word a line."""
    with written(path, force=force) as file:
        for at in range(0, len(words), 1 << 16):
            file.write(text_lines(words.slice(at, 1 << 16)))


def fit_for_text(words: Any, blanks: str, what: str) -> None:
    """InputError where a word holds a character that parts fields in this format."""
    found = pc.match_substring_regex(words, f"[{blanks}\\n\\r]")
    if pc.any(found).as_py():
        word = words.filter(found)[0].as_py()
        raise InputError(f"{what}: the word {word!r} holds a character that parts the fields of this format")


# -- text ------------------------------------------------------------------------------------------------------------
def as_text_array(values: Any) -> Any:
    """Numbers or strings as Arrow strings."""
    array = values if isinstance(values, (pa.Array, pa.Scalar)) else pa.array(values)
    return array if array.type == _TEXT else array.cast(_TEXT)


def text_lines(*columns: Any, separator: str = "\t") -> memoryview:
    """Columns of equal length (or one value for all) as lines of text."""
    joined = pc.binary_join_element_wise(*(as_text_array(c) for c in columns), pa.scalar(separator, _TEXT))
    ended = pc.binary_join_element_wise(joined, pa.scalar("", _TEXT), pa.scalar("\n", _TEXT))
    _, offsets, data = ended.buffers()
    if data is None or not len(ended):
        return memoryview(b"")
    at = np.frombuffer(offsets, np.int64)[ended.offset : ended.offset + len(ended) + 1]
    return memoryview(data)[int(at[0]) : int(at[-1])]


def join_lists(offsets: Any, values: Any, separator: str) -> Any:
    """Lists of values, one string a list.  offsets: int32[n+1]."""
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), as_text_array(values).cast(pa.string()))
    return pc.binary_join(lists, separator)


def read_table(
    source: Any, name: str, columns: Mapping[str, pa.DataType], *, delimiter: str = "\t", skip: int = 0
) -> Iterator[pa.RecordBatch]:
    """Batches of a text with one record a line; InputError names what is wrong and where."""
    try:
        reader = pacsv.open_csv(
            source,
            read_options=pacsv.ReadOptions(
                use_threads=False, block_size=BLOCK, column_names=list(columns), skip_rows=skip
            ),
            parse_options=pacsv.ParseOptions(delimiter=delimiter, quote_char=False, escape_char=False),
            convert_options=pacsv.ConvertOptions(column_types=dict(columns), null_values=[]),
        )
        yield from reader
    except (pa.ArrowException, OSError, EOFError) as e:
        raise InputError(f"{name}: {one_line(e).removeprefix('CSV parse error: ')[:300]}") from None


def numbers_of(values: np.ndarray, name: str, what: str) -> np.ndarray:
    """The values, checked: finite and not negative."""
    if len(values) and not (np.isfinite(values).all() and values.min() >= 0):
        raise InputError(f"{name}: {what}: a number that is negative or not finite")
    return values


def check_size(name: str, words: int, topics: int) -> None:
    """InputError before anything is allocated for sizes that cannot be."""
    if not (0 < topics <= MOST_TOPICS and 0 < words < 2**31 and words * topics <= MOST_CELLS):
        raise InputError(f"{name}: {topics} topics of {words} words cannot be")


# -- tables turned round ---------------------------------------------------------------------------------------------
def topic_rows(model: TopicModel) -> Iterator[tuple[int, np.ndarray]]:
    """(topic, its counts float32[W]) topic after topic; the table is read once for every BUDGET bytes of topics."""
    group = max(1, min(model.n_topics, BUDGET // (4 * model.n_words)))
    for first in range(0, model.n_topics, group):
        held = np.empty((min(group, model.n_topics - first), model.n_words), np.float32)
        for start, rows in model.spans():
            held[:, start : start + len(rows)] = rows[:, first : first + len(held)].T
        for i in range(len(held)):
            yield first + i, held[i]


class TopicSpool:
    """Topics taken one after the other, given back word by word; on disk beside the model to be."""

    def __init__(self, folder: Path, words: int, dtype: Any = np.float32) -> None:
        self._file, self.words, self.topics = tempfile.TemporaryFile(dir=folder), words, 0  # noqa: SIM115
        self._dtype = np.dtype(dtype)

    def add(self, values: np.ndarray) -> None:
        """The next topic, [W]."""
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self.topics += 1

    def rows(self, minus: float = 0.0) -> Iterator[np.ndarray]:
        """float32[n, K] over all words; ``minus`` is taken off each (a prior), nothing falls below zero."""
        self._file.flush()
        size = self._dtype.itemsize
        step = max(1, BUDGET // 8 // (size * self.topics))
        for at in range(0, self.words, step):
            n = min(step, self.words - at)
            held = np.empty((self.topics, n), self._dtype)
            for k in range(self.topics):
                os.preadv(self._file.fileno(), [held[k].data], size * (k * self.words + at))
            held -= minus
            yield np.ascontiguousarray(np.maximum(held, 0).T.astype(np.float32, copy=False))
        self._file.close()


class EntrySpool:
    """Entries (word, topic, value) in any order, summed and given back word by word."""

    _ENTRY = np.dtype([("word", "<i4"), ("topic", "<i4"), ("value", "<f4")])
    RANGE = 1 << 12

    def __init__(self, folder: Path) -> None:
        self._file, self._end = tempfile.TemporaryFile(dir=folder), 0  # noqa: SIM115
        self._segments: dict[int, list[tuple[int, int]]] = {}  # range of words -> (offset, entries)
        self.words = self.topics = 0

    def add(self, words: np.ndarray, topics: np.ndarray, values: np.ndarray) -> None:
        """More entries."""
        if not len(words):
            return
        entries = np.empty(len(words), self._ENTRY)
        entries["word"], entries["topic"], entries["value"] = words, topics, values
        self.words, self.topics = max(self.words, int(words.max()) + 1), max(self.topics, int(topics.max()) + 1)
        part = entries["word"] // self.RANGE
        order = np.argsort(part, kind="stable")
        entries, part = entries[order], part[order]
        edges = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(part)]
        for first, last in pairwise(edges):
            place = self._end + first * self._ENTRY.itemsize
            self._segments.setdefault(int(part[first]), []).append((place, last - first))
        self._file.write(entries.data)
        self._end += entries.nbytes

    def rows(self, words: int, topics: int) -> Iterator[np.ndarray]:
        """float32[n, K] over all words."""
        self._file.flush()
        step = max(1, min(self.RANGE, BUDGET // 4 // (8 * topics)))
        for first in range(0, words, self.RANGE):
            for at in range(first, min(first + self.RANGE, words), step):
                n = min(step, first + self.RANGE - at, words - at)
                sums = np.zeros(n * topics)
                for offset, size in self._segments.get(first // self.RANGE, []):
                    raw = os.pread(self._file.fileno(), size * self._ENTRY.itemsize, offset)
                    some = np.frombuffer(raw, self._ENTRY)
                    some = some[(some["word"] >= at) & (some["word"] < at + n)]
                    np.add.at(sums, (some["word"].astype(np.int64) - at) * topics + some["topic"], some["value"])
                yield sums.astype(np.float32).reshape(n, topics)
        self._file.close()


def save_model(path: Path, found: Imported, manifest: Mapping[str, Any]) -> None:
    """Stream an imported model into its folder and commit it."""
    vocabulary = Vocabulary.of(found.words, found.counts, found.df)
    seeds = of_manifest(manifest, vocabulary, found.topics, path)
    with ModelWriter(path, len(vocabulary), found.topics) as writer:
        for at, rows in checked_rows(path, found):
            writer.write_rows(at, rows if seeds is None else np.maximum(seeds.added(at, rows, -1.0), 0.0))
        if not writer.totals.any() and not found.beta > 0:
            raise InputError(f"{path}: every count is zero; nothing was imported")
        writer.commit(dict(manifest), vocabulary, found.alpha, found.beta)


def checked_rows(path: Path, found: Imported) -> Iterator[tuple[int, np.ndarray]]:
    """(first word, its rows) of all words; InputError for numbers, or for as many rows, as cannot be."""
    at = 0
    for rows in found.rows:
        if not (np.isfinite(rows).all() and rows.min(initial=0.0) >= 0):
            raise InputError(f"{path}: the topics hold a number that is negative or not finite; nothing was imported")
        if at + len(rows) <= len(found.words):
            yield at, rows
        at += len(rows)
    if at != len(found.words):
        raise InputError(f"{path}: topics of {at:,} words where {len(found.words):,} are named; nothing was imported")


def prior(given: Any, topics: int, name: str) -> np.ndarray:
    """alpha float64[K] of a number or K of them, each 0 or more; InputError otherwise."""
    try:
        values = np.asarray(given, np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        values = np.zeros(0)
    if len(values) not in (1, topics) or not (np.isfinite(values).all() and values.min() >= 0):
        raise InputError(f"{name}: give one number or {topics}, each 0 or more")
    return np.broadcast_to(values, (topics,)).copy()


def checked_words(words: Any, name: str) -> Any:
    """Words as one Arrow array, each different; InputError otherwise."""
    from topicstream.model.vocabulary import as_words

    try:
        array = as_words(words)
        array.validate(full=True)
    except (pa.ArrowException, UnicodeError):
        raise InputError(f"{name}: a word that is not valid UTF-8") from None
    if array.null_count or len(pc.unique(array)) != len(array):
        counts = pc.value_counts(array)
        twice = counts.filter(pc.greater(counts.field("counts"), 1))
        what = f"the word {twice[0]['values'].as_py()!r} stands twice" if len(twice) else "a word is missing"
        raise InputError(f"{name}: {what}")
    return array
