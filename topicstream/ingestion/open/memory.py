"""Documents that are already in memory.

Lists and generators of strings or dicts, Arrow tables, data frames and matrices become the same
batches as files do, a piece at a time, so a generator is never held whole.
"""

from __future__ import annotations

import datetime
import os
import uuid
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError
from topicstream.base.places import places
from topicstream.ingestion.open.frames import Frames, is_series, is_table, names_rows, read_tables
from topicstream.ingestion.open.names import expand_names
from topicstream.ingestion.open.source import Input
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.columns import WrongField, clean, clean_strings, unique_names
from topicstream.ingestion.parse.counts import numbered
from topicstream.ingestion.parse.documents import (
    TEXT,
    as_documents,
    as_metadata,
    most_records,
)
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import BadFile
from topicstream.ingestion.parse.sparse import (
    Compressed,
    Dense,
    Matrix,
    MatrixReader,
    Side,
    is_matrix,
)
from topicstream.ingestion.parse.vectors import (
    check_width,
    coordinate_names,
    rows_at_once,
    vector_batch,
)
from topicstream.ingestion.readers.jsonl import Objects
from topicstream.ingestion.readers.parquet import sliced

KEY = "memory:"
Batches = Callable[["InMemory", Input, ReadOptions], Iterator[pa.RecordBatch]]
MOST_NAMES = 1000
"""Longest list whose strings may be meant as names of files."""


@dataclass(frozen=True)
class InMemory:
    """Documents as the caller has them.

    Attributes
    ----------
    documents
        The argument of ``ingest``.
    vocabulary, ids
        The W words of a matrix's columns, and the D ids of its rows.
    frame
        Columns of metadata of a matrix's rows, by name.
    first
        Number of the first document. Numbers are the ids of documents without any.
    key
        A random name of this ingest, because documents in memory cannot be recognised after a
        kill.
    """

    documents: Any
    vocabulary: Any = None
    ids: Any = None
    frame: Any = None
    first: int = 0
    key: str = field(default_factory=lambda: KEY + uuid.uuid4().hex)

    @property
    def once(self) -> bool:
        """Tell whether the documents can be read only once."""
        parts = getattr(self.documents, "parts", self.documents)
        return isinstance(parts, (Iterator, pa.RecordBatchReader))

    def sources(self, options: ReadOptions) -> Iterator[tuple[Reader, Input]]:
        """Yield the one reader and source."""
        source = Input("documents", "documents", strict=options.strict)
        if holds_vectors(self.documents, options):
            if self.vocabulary is not None:
                raise InputError(
                    "documents: values below 0 in a matrix with names; give the counts (of an "
                    "AnnData: layer=NAME)"
                )
            check_width(self.documents.shape[1], "documents")
            yield MemoryReader(self, _vectors, "counts"), source
        elif is_matrix(self.documents):
            yield MemoryMatrix(self), source
        else:
            for name, value in (("vocabulary", self.vocabulary), ("ids", self.ids)):
                if value is not None:
                    raise InputError(
                        f"{name}= requires a matrix of counts; documents hold their own words "
                        f"and ids"
                    )
            yield MemoryReader(self, _rows, "text"), source

    def numbered(self, first: int, last: int) -> pa.Array:
        """Return the numbers of documents as ids, for documents without any."""
        return pc.cast(pa.array(np.arange(first, last, dtype=np.int64) + self.first), TEXT)

    def own_ids(self, size: int) -> pa.Array:
        """Return the ids of a matrix's documents: those given, or their numbers."""
        if self.ids is not None and len(self.ids) != size:
            raise InputError(f"ids: {len(self.ids)} for {size} documents")
        if self.ids is None:
            return self.numbered(0, size)
        return pc.cast(clean_strings(self.ids), TEXT)


def as_inputs(
    documents: Any, *, path: bool, vocabulary: Any = None, ids: Any = None, layer: str | None = None
) -> list[str] | InMemory:
    """Tell names of files from documents in memory.

    A ``Path`` is a file or folder. A ``str`` in a list is a document.

    Parameters
    ----------
    documents
        The argument of a function such as ``ingest``.
    path
        True if a single ``str`` is a path, not a document.
    vocabulary, ids
        Words and ids of a matrix.
    layer
        Layer of an AnnData.

    Raises
    ------
    InputError
        If the object cannot be documents; the message says what to pass instead.
    """
    places().renew()
    if isinstance(documents, InMemory):
        return documents
    if all(hasattr(documents, name) for name in ("X", "obs_names", "var_names")):  # anndata.AnnData
        return _annotated(documents, layer)
    if isinstance(documents, os.PathLike) or (path and isinstance(documents, str)):
        return expand_names([os.fspath(documents)])
    if isinstance(documents, (list, tuple)) and not documents:
        return []
    if is_table(documents) or is_matrix(documents):
        return InMemory(documents, vocabulary, ids)
    if isinstance(documents, str):
        _refuse_file_name(documents)
        documents = [documents]
    _refuse_kind(documents)
    first, documents = _first_of(documents)
    if isinstance(first, os.PathLike):
        documents = list(documents)
    if isinstance(documents, (list, tuple)):
        are_paths = {isinstance(document, os.PathLike) for document in documents}
        if are_paths == {True, False}:
            raise InputError(
                "documents: a list holds either documents (str, dict) or files (Path), not both"
            )
        if are_paths == {True}:
            return expand_names([os.fspath(document) for document in documents])
    if is_table(first):
        return InMemory(Frames(documents), vocabulary, ids)
    if isinstance(first, (list, tuple, set)) or is_series(first):
        return counted_tokens(documents, ids)
    if path and isinstance(documents, (list, tuple)) and len(documents) <= MOST_NAMES:
        _refuse_file_names(documents)
    return InMemory(documents, vocabulary, ids)


def _refuse_file_name(text: str) -> None:
    """Raise InputError for a str that is the name of a file, because a str is a document."""
    may_be_name = len(text) < 256 and "\0" not in text and os.path.splitext(text)[1]
    if may_be_name and os.path.exists(text):
        raise InputError(
            f"documents: {text!r} is a file, and a str a document: give Path({text!r})"
        )


def _refuse_file_names(documents: Sequence[Any]) -> None:
    """Raise InputError for a list in which every str is the name of a file."""

    def is_file_name(text: str) -> bool:
        """Tell whether a text names a file of this machine, standard input, or an object."""
        if text == "-" or os.path.exists(text):
            return True
        return len(text.split()) == 1 and places().names_file(text)

    names = [d for d in documents if isinstance(d, str) and len(d) < 1024 and "\0" not in d]
    if len(names) == len(documents) and all(map(is_file_name, names)):
        raise InputError(
            f"documents: {names[0]!r} is a file, and a str in a list a document: give "
            f"Path({names[0]!r})"
        )


def _refuse_kind(documents: Any) -> None:
    """Raise InputError, with advice, for an object that cannot be documents."""
    kind = type(documents).__name__
    if isinstance(documents, (bytes, bytearray, Mapping)):
        is_dataset = hasattr(documents, "num_rows")
        hint = "one of its splits" if is_dataset else "a list of dicts, one a document"
        raise InputError(f"documents: cannot be {kind}; give {hint}")
    if isinstance(documents, np.ndarray) and documents.dtype.kind in "iuf":
        raise InputError(
            f"documents: an array of shape {documents.shape}; expected two dimensions, one row per "
            f"document"
        )
    if not hasattr(documents, "__iter__"):
        lazy = hasattr(documents, "collect")
        hint = "call .collect() first" if lazy else "give texts, dicts, a table or a matrix"
        raise InputError(f"documents: cannot be {kind}; {hint}")


def _annotated(cells: Any, layer: str | None) -> InMemory:
    """Return the counts of an AnnData, with the names of its cells and features."""
    if getattr(cells, "isbacked", False):
        file = f"Path({str(cells.filename)!r}), which is read piece by piece"
        raise InputError(
            f"documents: an AnnData that is backed by a file; give {file}, or .to_memory()"
        )
    raw = getattr(cells, "raw", None)
    layers = list(getattr(cells, "layers", ()))
    if raw is not None:
        layers.append("raw")
    is_missing = cells.X is None if layer is None else layer not in layers
    if is_missing:
        raise InputError(
            f"documents: no {'X' if layer is None else f'layer {layer!r}'} (its layers: "
            f"{', '.join(layers) or 'none'})"
        )
    matrix_owner: Any = raw if layer == "raw" else cells
    features = unique_names(clean_strings(list(matrix_owner.var_names), TEXT))
    names = unique_names(clean_strings(list(cells.obs_names), TEXT))
    matrix = matrix_owner.X if layer in (None, "raw") else cells.layers[layer]
    return InMemory(matrix, features, names, cells.obs)


def _first_of(documents: Any) -> tuple[Any, Any]:
    """Return the first of some documents, and all of them, without losing one of an iterator.

    The first is None if there is none, or the object is neither an iterator nor a sequence.
    """
    if isinstance(documents, Iterator):
        first = next(documents, None)
        return first, chain(() if first is None else (first,), documents)
    if isinstance(documents, (list, tuple)) or is_series(documents):
        return next(iter(documents), None), documents
    return None, documents


def counted_tokens(documents: Iterable[Iterable[str]], ids: Any = None) -> InMemory:
    """Count lists of words, as gensim and tomotopy take documents, into a matrix."""
    import scipy.sparse  # a tenth of a second, which other documents need not spend

    numbers = array("i")
    words = dict[Any, int]()
    ends = array("q", [0])
    for document in documents:
        is_pair = isinstance(document, tuple) and len(document) == 2
        if is_pair or hasattr(document, "_fields") or hasattr(document, "iloc"):
            raise InputError(
                "documents: a row of fields; give dicts such as {'id': ..., 'text': ...}, or "
                "lists of words"
            )
        if isinstance(document, (str, bytes, Mapping)):
            raise InputError(
                f"documents[{len(ends) - 1}]: is {type(document).__name__}, not a list of words "
                f"as the first"
            )
        wrong = [word for word in document if not isinstance(word, str)]
        if wrong:
            raise InputError(
                f"documents[{len(ends) - 1}]: {wrong[0]!r} in a list of words, which may hold "
                f"only strings"
            )
        numbers.extend(words.setdefault(word, len(words)) for word in document)
        ends.append(len(numbers))
    names = {name: number for number, name in enumerate(dict.fromkeys(map(clean, words)))}
    renumbered = np.array([names[clean(word)] for word in words], np.int32)
    indices = renumbered[np.array(numbers, np.int32)]
    shape = (len(ends) - 1, len(names))
    counts = scipy.sparse.csr_array(
        (np.ones(len(indices), np.int32), indices, np.array(ends)), shape
    )
    counts.sum_duplicates()
    return InMemory(counts, list(names), ids)


def holds_vectors(documents: Any, options: ReadOptions) -> bool:
    """Tell whether the rows of a matrix are vectors: the user says so, or a number is below 0."""
    if not (isinstance(documents, np.ndarray) and is_matrix(documents)):
        if options.vectors and not isinstance(documents, np.ndarray):
            raise InputError("vectors=True requires a NumPy array of two dimensions")
        return False
    real = documents.dtype.kind == "f" and documents.size > 0
    return options.vectors or bool(real and np.fmin.reduce(documents, axis=None) < 0)


class MemoryReader(Reader):
    """Reader of documents in memory, by a function that makes batches of them."""

    name = "memory"
    about = "documents in memory"

    def __init__(
        self, in_memory: InMemory, batches: Batches, kind: Literal["text", "counts"]
    ) -> None:
        self._in_memory = in_memory
        self._batches = batches
        self.kind = kind  # type: ignore[misc]

    def batches(self, source: Input, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        return self._batches(self._in_memory, source, options)


class MemoryMatrix(MatrixReader):
    """Reader of a matrix of counts in memory, sparse or dense."""

    name = "matrix"
    about = "a matrix of counts in memory"
    side_names = ()

    def __init__(self, in_memory: InMemory) -> None:
        self._in_memory = in_memory

    def batches(self, source: Any, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        in_memory = self._in_memory
        matrix = in_memory.documents
        cells: Dense | Compressed
        if isinstance(matrix, np.ndarray):
            by_row = True
            cells = Dense(matrix)
        else:
            if matrix.format not in ("csr", "csc"):
                matrix = matrix.tocsr()  # a copy; the other two are sliced without one
            by_row = matrix.format == "csr"
            lines = matrix.shape[0 if by_row else 1]
            cells = Compressed(matrix.indptr, matrix.indices, matrix.data, lines)
        docs, width = matrix.shape[::-1] if options.transpose else matrix.shape
        documents = Side(docs, in_memory.own_ids(docs), _metadata_of(in_memory, options))
        words = Side(width, _matrix_words(in_memory, width))
        sides = (words, documents) if options.transpose else (documents, words)
        try:
            yield from self.documents(source, options, Matrix(cells, by_row, *sides))
        except BadFile as e:
            raise InputError(f"{e} (of vectors: vectors=True)") from None


def _rows(in_memory: InMemory, source: Input, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield batches of texts, dicts, tables or data frames."""
    tables = read_tables(in_memory.documents, source, options)
    if tables is None:
        yield from _objects(in_memory, source, options)
        return
    batches = chain.from_iterable(table.to_batches() for table in tables)
    first = 0
    for rows in chain.from_iterable(sliced(batch, options) for batch in batches):
        columns = dict(zip(rows.schema.names, rows.columns))
        if options.id_column(columns) is None:
            columns["id"] = in_memory.numbered(first, first + len(rows))
        numbers = first + 1 + np.arange(len(rows))
        yield as_documents(source, options, columns, numbers, mark="#")
        first += len(rows)


def _objects(in_memory: InMemory, source: Input, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield batches of texts or dicts."""
    objects = Objects(source, options, "#")
    ids = in_memory.documents.index if names_rows(in_memory.documents) else None
    for number, document in enumerate(in_memory.documents):
        try:
            fields = _fields(document, options)
            if options.id_column(fields) is None:
                fields["id"] = str(number + in_memory.first if ids is None else ids[number])
            objects.add(number + 1, fields)
        except WrongField as e:
            source.reject(0, str(e), file=f"documents[{number}]")
        if objects.size >= options.piece_bytes or len(objects.rows) >= most_records(options):
            yield objects.batch()
            objects = Objects(source, options, "#")
    yield objects.batch()


def _fields(document: object, options: ReadOptions) -> dict[str, object]:
    """Return the fields of a document as plain values.

    Raises
    ------
    WrongField
        If it is neither a string nor a dict, or a string where options name other fields.
    """
    if _plain(document) is None:
        document = ""  # a missing value of a series
    if isinstance(document, str):
        if options.id_wanted or options.meta_wanted:
            raise WrongField("is a string; id_field= and meta= need dicts")
        fields: dict[str, object] = dict.fromkeys(options.text_fields, "")
        return fields | {options.text_fields[0]: document}
    if not isinstance(document, Mapping):
        raise WrongField(f"is {type(document).__name__}, not a string or a dict")
    return {str(name): _plain(value) for name, value in document.items()}


def _plain(value: object) -> object:
    """Convert a value to one of JSON, a missing value of pandas to None."""
    if isinstance(value, np.generic):
        value = value.item()
    is_nan = isinstance(value, float) and value != value
    if is_nan or type(value).__name__ in ("NaTType", "NAType"):
        return None
    if isinstance(value, (datetime.date, uuid.UUID, os.PathLike)):
        return getattr(value, "isoformat", value.__str__)()
    return list(value) if isinstance(value, (tuple, set, frozenset, np.ndarray)) else value


def _matrix_words(in_memory: InMemory, size: int) -> pa.LargeStringArray:
    """Return the words of a matrix's columns: the vocabulary given, or their numbers.

    The vocabulary is a sequence, or a dict of columns by word, as CountVectorizer has it.

    Raises
    ------
    InputError
        If the vocabulary does not give each column a word of its own.
    """
    words = in_memory.vocabulary
    if words is None:
        return numbered(size, 0, "documents")
    if isinstance(words, Mapping):
        columns = np.array(list(words.values()), np.int64)
        if not np.array_equal(np.sort(columns), np.arange(size)):
            raise InputError(
                f"vocabulary: {len(words)} words do not number the {size} columns one by one"
            )
        words = np.array(list(words), object)[np.argsort(columns)]
    try:
        listed = words.to_pylist() if isinstance(words, pa.ChunkedArray) else words
        words = clean_strings(listed, TEXT)
    except (pa.ArrowException, TypeError):
        raise InputError("vocabulary: expected one string per column of the matrix") from None
    if len(words) != size:
        raise InputError(f"vocabulary: {len(words)} words for {size} columns")
    if words.null_count or len(pc.unique(words)) != size:
        raise InputError("vocabulary: each column needs a word of its own")
    return words


def _vectors(in_memory: InMemory, source: Input, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an array as documents."""
    width = in_memory.documents.shape[1]
    ids = in_memory.own_ids(len(in_memory.documents))
    step = rows_at_once(options, width)
    source.words = coordinate_names(width)
    for first in range(0, len(in_memory.documents), step):
        x = np.asarray(in_memory.documents[first : first + step])
        yield vector_batch(source, x, first + np.arange(len(x)), ids.slice(first, len(x)))


def _metadata_of(in_memory: InMemory, options: ReadOptions) -> dict[str, pa.Array]:
    """Select the columns of a matrix's frame that are stored."""
    frame = in_memory.frame
    meta = {}
    for column, name in options.fit(() if frame is None else frame).meta.items():
        if frame is None or name not in frame:
            listed = "none: it is a matrix alone" if frame is None else ", ".join(map(str, frame))
            raise InputError(
                f"documents: no column {name!r} (there are {listed}); choose another meta"
            )
        where = f"documents: column {name!r}"
        values = clean_strings(frame[name])
        meta[column] = as_metadata(values, column, where, options.list_separator)
    return meta
