"""The base of exchange formats: records of an export and an import, text by Arrow, checks."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from topicstream.base.errors import DoesNotFit, InputError, one_line
from topicstream.base.files.outputs import written
from topicstream.base.machine import format_bytes
from topicstream.base.memory import MemoryLimit
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import as_words
from topicstream.model.manifest import Origin
from topicstream.model.topic_model import TopicModel

_TEXT = pa.large_string()


@dataclass(frozen=True)
class Format:
    """A format of another program, an entry point of ``topicstream.formats``.

    Attributes
    ----------
    name
        As ``--format`` takes it.
    made_of
        What is exported: ``model``, ``corpus`` or ``model and corpus``.
    about
        A line of the help.
    write
        ``package.module:function`` that takes an ``Export`` and returns a summary. Empty: the
        format is only read.
    read
        ``package.module:function`` that takes a path and a ``Given`` and returns an ``Imported``.
        Where ``reads_table`` is set it takes (path, out, force=) and returns a summary. Empty: the
        format is only written.
    files
        Files of a folder. Empty: the format is one file.
    folder
        True if ``write`` makes a folder, or files with names of its own in one.
    suffix
        Suffix that identifies a file.
    options
        Options of ``topics export`` that it takes.
    reads_table
        True if ``read`` makes a table of the topics of documents, not a model.
    edited
        True if topics can be written as they are shown, merged and dropped (`topics edit`).
        Otherwise they are written as they were trained.
    numbered
        True if topics keep the numbers that `topics show` prints. Otherwise they are counted from
        0.
    """

    name: str
    made_of: str
    about: str
    write: str = ""
    read: str = ""
    files: tuple[str, ...] = ()
    suffix: str = ""
    options: tuple[str, ...] = ()
    reads_table: bool = False
    edited: bool = True
    numbered: bool = False
    folder: bool = False


@dataclass(frozen=True)
class Export:
    """The input of an export: a model, a corpus or both, and options of the format.

    Attributes
    ----------
    model
        The model, as ``edits`` show it.
    corpus
        The store.
    path
        File or folder to write.
    force
        Whether it may replace one.
    edits
        Whether topics are exported as they are shown, not as they were trained.
    numbers
        Numbers of the model's topics, as they are shown.
    top, words, into
        Options of `topics export`, None where they are not given.
    """

    model: TopicModel
    corpus: Corpus
    path: Path
    force: bool
    edits: bool = True
    numbers: Sequence[int] = ()
    top: int | None = None
    words: int | None = None
    into: str | Path | None = None


@dataclass(frozen=True)
class Given:
    """Words and priors of an imported model, from the user.

    Priors override those of the file.
    """

    words: Any = None
    alpha: Any = None
    beta: float | None = None


@dataclass(frozen=True)
class Imported:
    """A model as a file of another program has it.

    Attributes
    ----------
    words
        Strings, or an Arrow array, [W].
    phi
        float32[W, K], counts without the prior.
    alpha
        A number or K of them. None: 1 / K.
    beta
        Prior of each word.
    counts, df
        Tokens and documents of each word, where the file has them.
    about
        Origin of the model.
    notes
        Lines for the user.
    """

    words: Any
    phi: np.ndarray
    alpha: Any = None
    beta: float = 0.01
    counts: Any = None
    df: Any = None
    about: Origin = field(default_factory=Origin)
    notes: tuple[str, ...] = ()


# -- text
def write_word_list(path: Path, words: pa.Array, *, force: bool) -> None:
    """Write one word a line."""
    with written(path, force=force) as file:
        file.write(text_lines(words))


def check_separators(words: pa.Array, separators: str, source: str) -> None:
    """Check that no word holds a character that separates fields of a format.

    Parameters
    ----------
    separators
        Such characters beside line breaks, as in a regular expression.
    source
        Name of the export in the message.

    Raises
    ------
    InputError
        A word does.
    """
    unfit = words.filter(pc.match_substring_regex(words, f"[{separators}\\n\\r]"))
    if len(unfit):
        raise InputError(
            f"{source}: the word {unfit[0].as_py()!r} contains a character that separates "
            f"fields in this format; choose another format"
        )


def as_text_array(values: pa.Array | pa.Scalar | Iterable[object]) -> pa.Array:
    """Convert numbers or strings to Arrow strings."""
    if not isinstance(values, (pa.Array, pa.Scalar)):
        values = pa.array(values)
    return values.cast(_TEXT)


def text_lines(*columns: Any, separator: str = "\t") -> memoryview:
    """Join columns to lines of text, UTF-8.

    Parameters
    ----------
    columns
        Numbers or strings, of equal length, or one value for all lines.
    separator
        Text between the fields of a line.
    """
    joined = pc.binary_join_element_wise(
        *(as_text_array(c) for c in columns), pa.scalar(separator, _TEXT)
    )
    ended = pc.binary_join_element_wise(joined, pa.scalar("\n", _TEXT), pa.scalar("", _TEXT))
    _, offsets, data = ended.buffers()
    edges = np.frombuffer(offsets, np.int64)[ended.offset : ended.offset + len(ended) + 1]
    return memoryview(data or b"")[int(edges[0]) : int(edges[-1])]


def join_lists(offsets: pa.Array, values: pa.Array, separator: str) -> pa.Array:
    """Join each list of values to one string.

    ``offsets`` is int32[n+1].
    """
    lists = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), as_text_array(values).cast(pa.string())
    )
    return pc.binary_join(lists, separator)


def open_input(path: Path) -> BinaryIO:
    """Open a file, unpacked if it is gzipped."""
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else open(path, "rb")  # type: ignore[return-value]


def read_table(
    path: Path, columns: Mapping[str, pa.DataType], *, delimiter: str = "\t", skip: int = 0
) -> pa.Table:
    """Read a text with one record a line and no quotes.

    Parameters
    ----------
    columns
        Name and type of each field.
    skip
        Lines before the first record.

    Raises
    ------
    InputError
        The file cannot be read so; the message says where.
    """
    try:
        with open_input(path) as file:
            return pacsv.read_csv(
                file,
                read_options=pacsv.ReadOptions(
                    use_threads=False, column_names=list(columns), skip_rows=skip
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=delimiter, quote_char=False, escape_char=False
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types=dict(columns), null_values=[], strings_can_be_null=False
                ),
            )
    except (pa.ArrowException, OSError, EOFError, zlib.error) as e:
        raise InputError(f"{path}: {one_line(e).removeprefix('CSV parse error: ')[:300]}") from None


def stream_lines(path: Path, skip: int) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a text behind the first ``skip``, a column of strings.

    Raises
    ------
    InputError
        Where the file is damaged or not UTF-8.
    """
    no_delimiter = "\x01"  # a line is one field
    try:
        with open_input(path) as file:
            yield from pacsv.open_csv(
                file,
                read_options=pacsv.ReadOptions(
                    use_threads=False, column_names=["line"], skip_rows=skip
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=no_delimiter,
                    quote_char=False,
                    escape_char=False,
                    ignore_empty_lines=False,
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types={"line": _TEXT}, null_values=[], strings_can_be_null=False
                ),
            )
    except (pa.ArrowException, OSError, EOFError, zlib.error) as e:
        raise InputError(f"{path}: {one_line(e).removeprefix('CSV parse error: ')[:300]}") from None


# -- checks
def sum_cells(
    path: Path,
    word: np.ndarray,
    topic: np.ndarray,
    values: np.ndarray | None,
    size: tuple[int, int],
) -> np.ndarray:
    """Sum entries in any order into a table float32[W, K].

    Parameters
    ----------
    path
        The file, for messages.
    word, topic
        int[n], row and column of each entry.
    values
        float[n]. None: each entry counts one.
    size
        W and K.

    Raises
    ------
    DoesNotFit
        Memory cannot hold the table twice.
    InputError
        A topic or word is negative.
    """
    words, topics = size
    table_bytes = 8 * words * topics
    limit = MemoryLimit.parse(None).bytes
    if table_bytes > limit:
        raise DoesNotFit(
            f"{path}: {topics} topics of {words} words take {format_bytes(table_bytes)}; there "
            f"are {format_bytes(limit)}"
        )
    if min(word.min(initial=0), topic.min(initial=0)) < 0:
        raise InputError(f"{path}: contains a negative word or topic number")
    sums = np.bincount(word.astype(np.int64) * topics + topic, values, words * topics)
    return sums.reshape(words, topics).astype(np.float32)


def read_prior(numbers: object, topics: int, name: str) -> np.ndarray:
    """Return a prior float64[K] from a number or K of them.

    Parameters
    ----------
    name
        Its name in messages.

    Raises
    ------
    InputError
        There are other than 1 or K numbers, or one is negative.
    """
    try:
        values = np.asarray(numbers, np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        values = np.zeros(0)
    if len(values) not in (1, topics) or not (np.isfinite(values).all() and values.min() >= 0):
        raise InputError(f"{name}: give one number or {topics}, each 0 or more")
    return np.broadcast_to(values, (topics,)).copy()


def check_words(words: pa.Array | Iterable[str], name: object) -> pa.Array:
    """Return the words as one Arrow array, all different.

    Raises
    ------
    InputError
        If a word is missing, repeated or not valid UTF-8.
    """
    try:
        array = as_words(words)
        array.validate(full=True)
    except (pa.ArrowException, UnicodeError):
        raise InputError(f"{name}: contains a word that is not valid UTF-8") from None
    counts = pc.value_counts(array)
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if array.null_count:
        raise InputError(f"{name}: a word is missing")
    if len(twice):
        raise InputError(f"{name}: the word {twice[0]['values'].as_py()!r} stands twice")
    return array


def find_places(words: pa.Array, listed: pa.Array, path: Path) -> np.ndarray:
    """Find the positions of words in a list, int64[n].

    Raises
    ------
    InputError
        If a word is not in the list.
    """
    places = pc.index_in(words, value_set=listed)
    if places.null_count:
        raise InputError(f"{path}: unknown word {words.filter(places.is_null())[0].as_py()!r}")
    return np.asarray(places.to_numpy(), np.int64)


def read_counts(model: TopicModel) -> np.ndarray:
    """Read the counts of all words, float32[W, K]."""
    return model.rows(np.arange(model.n_words))
