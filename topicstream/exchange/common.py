"""What the formats share: text made and read by Arrow, and models that are saved only where they can be true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from topicstream.arrow import pc
from topicstream.errors import DoesNotFit, InputError, one_line
from topicstream.files.outputs import written
from topicstream.machine import format_bytes, memory_limit
from topicstream.model.seeds import of_manifest
from topicstream.model.store import ModelWriter
from topicstream.model.topic_model import TopicModel
from topicstream.model.vocabulary import Vocabulary, as_words

_TEXT = pa.large_string()


@dataclass(frozen=True)
class Imported:
    """What a reader found.  phi: float32[W, K], counts without the prior; alpha: float64[K]."""

    words: Any
    phi: np.ndarray
    alpha: np.ndarray
    beta: float
    counts: Any = None
    df: Any = None
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


# -- text ------------------------------------------------------------------------------------------------------------
def write_word_list(path: Path, words: Any, *, force: bool) -> None:
    """One word a line."""
    with written(path, force=force) as file:
        file.write(text_lines(words))


def fit_for_text(words: Any, blanks: str, what: str) -> None:
    """InputError where a word holds a character that parts fields in this format."""
    found = pc.match_substring_regex(words, f"[{blanks}\\n\\r]")
    if pc.any(found).as_py():
        word = words.filter(found)[0].as_py()
        raise InputError(f"{what}: the word {word!r} holds a character that parts the fields of this format")


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
    source: Any,
    name: str,
    columns: Mapping[str, pa.DataType],
    wanted: list[str],
    *,
    delimiter: str = "\t",
    skip: int = 0,
) -> pa.Table:
    """A text with one record a line and no quotes; InputError names what is wrong and where."""
    try:
        return pacsv.read_csv(
            source,
            read_options=pacsv.ReadOptions(column_names=list(columns), skip_rows=skip),
            parse_options=pacsv.ParseOptions(delimiter=delimiter, quote_char=False, escape_char=False),
            convert_options=pacsv.ConvertOptions(
                column_types=dict(columns), include_columns=wanted, null_values=[], strings_can_be_null=False
            ),
        )
    except (pa.ArrowException, OSError, EOFError) as e:
        raise InputError(f"{name}: {one_line(e).removeprefix('CSV parse error: ')[:300]}") from None


# -- checks ----------------------------------------------------------------------------------------------------------
def numbers_of(values: np.ndarray, name: str, what: str) -> np.ndarray:
    """The values, checked: finite and not negative."""
    if len(values) and not (np.isfinite(values).all() and values.min() >= 0):
        raise InputError(f"{name}: {what}: a number that is negative or not finite")
    return values


def check_size(name: str, words: int, topics: int) -> None:
    """InputError for a model of nothing, DoesNotFit for a table that memory cannot hold twice."""
    if words < 1 or topics < 1:
        raise InputError(f"{name}: holds no {'topic' if words else 'word'}")
    needed, room = 8 * words * topics, memory_limit(None)
    if needed > room:
        raise DoesNotFit(
            f"{name}: {topics} topics of {words} words take {format_bytes(needed)}; there are {format_bytes(room)}"
        )


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


# -- models ----------------------------------------------------------------------------------------------------------
def table_of(model: TopicModel) -> np.ndarray:
    """The counts of all words, float32[W, K]."""
    return model.rows(np.arange(model.n_words))


def summed(word: np.ndarray, topic: np.ndarray, values: np.ndarray | None, words: int, topics: int) -> np.ndarray:
    """Entries in any order as a table float32[W, K]; equal ones are added up.  values: None: each is one."""
    sums = np.bincount(word.astype(np.int64) * topics + topic, values, words * topics)
    return sums.reshape(words, topics).astype(np.float32)


def save_model(path: Path, found: Imported, manifest: Mapping[str, Any]) -> None:
    """Write an imported model into its folder; InputError where its numbers cannot be."""
    words, topics = found.phi.shape
    if words != len(found.words):
        raise InputError(f"{path}: topics of {words:,} words where {len(found.words):,} are named; nothing was imported")
    if not (np.isfinite(found.phi).all() and found.phi.min(initial=0.0) >= 0):
        raise InputError(f"{path}: the topics hold a number that is negative or not finite; nothing was imported")
    if not found.phi.any() and not found.beta > 0:
        raise InputError(f"{path}: every count is zero; nothing was imported")
    vocabulary = Vocabulary.of(found.words, found.counts, found.df)
    seeds = of_manifest(manifest, vocabulary, topics, path)
    rows = found.phi if seeds is None else np.maximum(seeds.added(0, found.phi, -1.0), 0.0)
    with ModelWriter(path, words, topics) as writer:
        writer.write_rows(0, np.ascontiguousarray(rows, np.float32))
        writer.commit(dict(manifest), vocabulary, found.alpha, found.beta)
