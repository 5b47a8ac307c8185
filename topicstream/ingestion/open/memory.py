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
from topicstream.ingestion.open.names import expanded
from topicstream.ingestion.open.source import Input
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.columns import WrongField, clean, clean_strings, unique_names
from topicstream.ingestion.parse.counts import numbered
from topicstream.ingestion.parse.documents import (
    TEXT,
    as_documents,
    as_metadata,
    most_records,
    select_fields,
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
ROWS = 1 << 13
"""Rows of a data frame that are converted at once."""
MOST_NAMES = 1000
"""Longest list whose strings may be meant as names of files."""


@dataclass(frozen=True)
class Frames:
    """Tables, record batches or data frames, one after the other."""

    parts: Iterable[Any]


@dataclass(frozen=True)
class InMemory:
    """Documents as the caller has them.

    Attributes
    ----------
    documents
        See ``ingest``.
    vocabulary, ids
        The W words of a matrix's columns, the D ids of its rows.
    frame
        Columns of metadata of a matrix's rows, by name.
    first
        Number of the first document: what a document without an id of its own is called.
    key
        This ingest and no other: what is in memory cannot be known again after a kill.
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
        return isinstance(
            getattr(self.documents, "parts", self.documents), (Iterator, pa.RecordBatchReader)
        )

    def sources(self, options: ReadOptions) -> Iterator[tuple[Reader, Input]]:
        """Yield the one reader and source."""
        source = Input("documents", "documents", strict=options.strict)
        if of_vectors(self.documents, options):
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
        """Ids of documents that have none of their own."""
        return pc.cast(pa.array(np.arange(first, last, dtype=np.int64) + self.first), TEXT)

    def own_ids(self, size: int) -> pa.Array:
        """Ids of the documents of a matrix: those that came with it, or their numbers."""
        if self.ids is not None and len(self.ids) != size:
            raise InputError(f"ids: {len(self.ids)} for {size} documents")
        if self.ids is None:
            return self.numbered(0, size)
        return pc.cast(clean_strings(self.ids), TEXT)


def as_inputs(
    documents: Any, *, path: bool, vocabulary: Any = None, ids: Any = None, layer: str | None = None
) -> list[str] | InMemory:
    """Make inputs of what the caller gave: names of files, or documents.

    A ``Path`` is a file or folder, an element of a list that is a ``str`` a document. ``path``: a
    ``str`` alone is a path, not a document.
    """
    places().renew()
    if isinstance(documents, InMemory):
        return documents
    if all(hasattr(documents, name) for name in ("X", "obs_names", "var_names")):  # anndata.AnnData
        return _annotated(documents, layer)
    if isinstance(documents, os.PathLike) or (path and isinstance(documents, str)):
        return expanded([os.fspath(documents)])
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
    if isinstance(documents, (list, tuple)) and any(isinstance(d, os.PathLike) for d in documents):
        if not all(isinstance(d, os.PathLike) for d in documents):
            raise InputError(
                "documents: a list holds either documents (str, dict) or files (Path), not both"
            )
        return expanded([os.fspath(d) for d in documents])
    if is_table(first):
        return InMemory(Frames(documents), vocabulary, ids)
    if isinstance(first, (list, tuple, set)) or _is_series(first):
        return counted_tokens(documents, ids)
    if path and isinstance(documents, (list, tuple)) and len(documents) <= MOST_NAMES:
        _refuse_file_names(documents)
    return InMemory(documents, vocabulary, ids)


def is_table(documents: Any) -> bool:
    """Tell whether documents are rows with named columns.

    Whatever has Arrow's PyCapsule stream is one: a table, batch or reader of Arrow, a frame of
    pandas or polars, a relation of DuckDB. A dataset of pyarrow has none, and gives its batches
    otherwise. A column of texts is no table.
    """
    if isinstance(documents, (pa.Array, pa.ChunkedArray)) or _is_series(documents):
        return False
    return any(hasattr(documents, name) for name in ("__arrow_c_stream__", "scanner", "to_reader"))


def _refuse_file_name(text: str) -> None:
    """Raise InputError for a str that is the name of a file: as a str it is a document."""
    named = len(text) < 256 and "\0" not in text and os.path.splitext(text)[1]
    if named and os.path.exists(text):
        raise InputError(
            f"documents: {text!r} is a file, and a str a document: give Path({text!r})"
        )


def _refuse_file_names(documents: Sequence[Any]) -> None:
    """Raise InputError for a list of which every str is the name of a file."""
    names = [d for d in documents if isinstance(d, str) and len(d) < 1024 and "\0" not in d]
    files = [
        name
        for name in names
        if name == "-"
        or os.path.exists(name)
        or (len(name.split()) == 1 and places().names_file(name))
    ]
    if len(files) == len(documents):
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
    layers = [*getattr(cells, "layers", ()), *(["raw"] if raw is not None else [])]
    if cells.X is None if layer is None else layer not in layers:
        raise InputError(
            f"documents: no {'X' if layer is None else f'layer {layer!r}'} (its layers: "
            f"{', '.join(layers) or 'none'})"
        )
    matrix_owner: Any = raw if layer == "raw" else cells
    features, names = (
        unique_names(clean_strings(list(names), TEXT))
        for names in (matrix_owner.var_names, cells.obs_names)
    )
    return InMemory(
        matrix_owner.X if layer in (None, "raw") else cells.layers[layer],
        features,
        names,
        cells.obs,
    )


def _first_of(documents: Any) -> tuple[Any, Any]:
    """Return the first of some documents, and all of them.

    An iterator loses nothing. Of what is no sequence the first is None.
    """
    if isinstance(documents, Iterator):
        first = next(documents, None)
        return first, chain(() if first is None else (first,), documents)
    if isinstance(documents, (list, tuple)) or _is_series(documents):
        return next(iter(documents), None), documents
    return None, documents


def _is_series(documents: Any) -> bool:
    """Tell whether documents are a series of pandas or polars, or an array of objects."""
    return hasattr(documents, "to_list") or (
        isinstance(documents, np.ndarray) and documents.dtype.kind == "O"
    )


def counted_tokens(documents: Iterable[Iterable[str]], ids: Any = None) -> InMemory:
    """Count lists of words, as gensim and tomotopy take documents, into a matrix."""
    import scipy.sparse  # a tenth of a second, which other documents need not spend

    numbers = array("i")
    words = dict[Any, int]()
    ends = array("q", [0])
    for document in documents:
        if (
            isinstance(document, tuple) and (len(document) == 2 or hasattr(document, "_fields"))
        ) or hasattr(document, "iloc"):
            raise InputError(
                "documents: a row of fields; give dicts such as {'id': ..., 'text': ...}, or "
                "lists of words"
            )
        if isinstance(document, (str, bytes, Mapping)):
            raise InputError(
                f"documents[{len(ends) - 1}]: is {type(document).__name__}, not a list of words "
                f"as the first"
            )
        if wrong := [word for word in document if not isinstance(word, str)]:
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


def of_vectors(documents: Any, options: ReadOptions) -> bool:
    """Tell whether the rows of a matrix are vectors.

    They are where the user says so, or real numbers below 0 occur.
    """
    if not (isinstance(documents, np.ndarray) and is_matrix(documents)):
        if options.vectors and not isinstance(documents, np.ndarray):
            raise InputError("vectors=True requires a NumPy array of two dimensions")
        return False
    real = documents.dtype.kind == "f" and documents.size > 0
    return options.vectors or bool(real and np.fmin.reduce(documents, axis=None) < 0)


class MemoryReader(Reader):
    """Documents in memory, by functions of the documents, the source and the options."""

    name = "memory"
    about = "documents in memory"

    def __init__(self, given: InMemory, batches: Batches, kind: Literal["text", "counts"]) -> None:
        self.given = given
        self._batches = batches
        self.kind = kind  # type: ignore[misc]

    def batches(self, source: Input, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        return self._batches(self.given, source, options)


class MemoryMatrix(MatrixReader):
    """A matrix of counts in memory, sparse or dense."""

    name = "matrix"
    about = "a matrix of counts in memory"
    what = ()

    def __init__(self, given: InMemory) -> None:
        self.given = given

    def batches(self, source: Any, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        matrix = self.given.documents
        if not isinstance(matrix, np.ndarray) and matrix.format not in ("csr", "csc"):
            matrix = matrix.tocsr()  # a second copy; others are cut where they lie
        by_row = isinstance(matrix, np.ndarray) or matrix.format == "csr"
        lines = matrix.shape[0 if by_row else 1]
        cells = (
            Dense(matrix)
            if isinstance(matrix, np.ndarray)
            else Compressed(matrix.indptr, matrix.indices, matrix.data, lines)
        )
        docs, width = matrix.shape[::-1] if options.transpose else matrix.shape
        documents = Side(docs, self.given.own_ids(docs), _metadata_of(self.given, options))
        words = Side(width, _matrix_words(self.given, width))
        sides = (words, documents) if options.transpose else (documents, words)
        try:
            yield from self.documents(source, options, Matrix(cells, by_row, *sides))
        except BadFile as e:
            raise InputError(f"{e} (of vectors: vectors=True)") from None


def _rows(in_memory: InMemory, source: Input, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Texts, dicts, tables and data frames."""
    tables = _tables(in_memory.documents, source, options)
    if tables is None:
        yield from _objects(in_memory, source, options)
        return
    first = 0
    for table in tables:
        for rows in (part for batch in table.to_batches() for part in sliced(batch, options)):
            columns = dict(zip(rows.schema.names, rows.columns))
            if options.id_column(columns) is None:
                columns["id"] = in_memory.numbered(first, first + len(rows))
            yield as_documents(source, options, columns, first + 1 + np.arange(len(rows)), mark="#")
            first += len(rows)


def _objects(in_memory: InMemory, source: Input, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    objects = Objects(source, options, "#")
    ids = in_memory.documents.index if _names_rows(in_memory.documents) else None
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
    """Return a document as an object of plain values.

    Raises WrongField.
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
    if isinstance(value, np.generic):
        value = value.item()
    if type(value).__name__ in ("NaTType", "NAType") or (
        isinstance(value, float) and value != value
    ):
        return None  # missing, as pandas writes it
    if isinstance(value, (datetime.date, uuid.UUID, os.PathLike)):
        return getattr(value, "isoformat", value.__str__)()
    return list(value) if isinstance(value, (tuple, set, frozenset, np.ndarray)) else value


def _tables(documents: Any, source: Input, options: ReadOptions) -> Iterable[pa.Table] | None:
    """Return the Arrow tables of a table or frame, with the columns that are read.

    Returns None for anything else.
    """
    if isinstance(documents, Frames):
        tables = map(_as_table, documents.parts)
        return (
            table.select(select_fields(table.column_names, options, source)) for table in tables
        )
    if isinstance(documents, (pa.Array, pa.ChunkedArray)):
        documents = pa.table({options.text_fields[0]: documents})
    if all(hasattr(documents, name) for name in ("with_format", "column_names", "__len__")):
        return _hugging_face_tables(documents, source, options)
    if not is_table(documents):
        return None
    if hasattr(documents, "__arrow_c_stream__"):
        # of a frame of pandas or polars some rows are converted at a time
        if hasattr(documents, "iloc") or hasattr(documents, "iter_slices"):
            return _frame_tables(documents, source, options)
        stream = pa.RecordBatchReader.from_stream(documents)
    elif hasattr(documents, "scanner"):  # of its columns, partitions included, those that are read
        read = select_fields(documents.schema.names, options, source)
        stream = documents.scanner(columns=read, batch_size=ROWS).to_reader()
    else:
        stream = documents.to_reader()
    names = select_fields(stream.schema.names, options, source)
    return (pa.Table.from_batches([batch.select(names)]) for batch in stream)


def _frame_tables(frame: Any, source: Input, options: ReadOptions) -> Iterator[pa.Table]:
    """Yield the rows of a frame of pandas or polars, some at a time."""
    frame = _with_index(frame, options)
    names = select_fields([str(name) for name in frame.columns], options, source)
    columns = [name for name in frame.columns if str(name) in names]  # pandas' may be numbers
    for first in range(0, len(frame), ROWS):
        yield _as_table(frame[columns][first : first + ROWS]).select(names)


def _hugging_face_tables(dataset: Any, source: Input, options: ReadOptions) -> Iterator[pa.Table]:
    """Yield the rows of a dataset of Hugging Face, which is mapped from its files."""
    names = select_fields(dataset.column_names, options, source)
    arrow = dataset.with_format("arrow")
    for first in range(0, len(dataset), ROWS):
        yield _named(arrow[first : first + ROWS].select(names), dataset)


def _names_rows(frame: Any) -> bool:
    """Tell whether the index of a frame or series of pandas names its rows.

    It does where it has a name, or where its labels are distinct and more than row numbers.
    """
    index = getattr(frame, "index", None)
    if not hasattr(frame, "iloc") or index is None or index.nlevels > 1:
        return False
    if index.name is not None:
        return True
    return bool(index.is_unique) and not np.array_equal(index.to_numpy(), np.arange(len(index)))


def _with_index(frame: Any, options: ReadOptions) -> Any:
    """Add the index of a frame of pandas as its ids, where it has no column of them."""
    if not _names_rows(frame):
        return frame
    name = options.id_field or "id"
    if name in frame.columns or (options.id_field not in (None, frame.index.name)):
        return frame
    return frame.assign(**{name: frame.index.astype(str)})


def _named(table: pa.Table, dataset: Any) -> pa.Table:
    """Return rows of a Hugging Face dataset with the names of classes.

    A negative class (``ClassLabel``) is none.
    """
    for i, name in enumerate(table.column_names):
        classes = getattr(dataset.features[name], "names", None)
        if classes is not None:
            class_numbers = pc.if_else(pc.less(table[name], 0), None, table[name])
            table = table.set_column(i, name, pc.take(pa.array(classes, TEXT), class_numbers))
    return table


def _as_table(frame: Any) -> pa.Table:
    """Return a frame as a table.

    Raises InputError for a column of mixed values.
    """
    try:
        try:
            if hasattr(frame, "__arrow_c_stream__"):
                return pa.RecordBatchReader.from_stream(frame).read_all()
            return pa.table(frame)
        except UnicodeEncodeError:  # of a string of Python's, which pandas holds as it is
            return pa.table({str(name): clean_strings(frame[name]) for name in frame.columns})
    except pa.ArrowException as e:
        raise InputError(
            f"documents: {'; '.join(map(str, e.args))}; give its values one type, as by "
            f".astype(str)"
        ) from None


def _matrix_words(in_memory: InMemory, size: int) -> pa.LargeStringArray:
    """Return the words of a matrix's columns.

    They are given as a sequence or as a dict word -> column (CountVectorizer has that), or are
    numbers.
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
    meta = {}
    asked = options.fit(() if in_memory.frame is None else in_memory.frame).meta
    for column, name in asked.items():
        if in_memory.frame is None or name not in in_memory.frame:
            columns = (
                ", ".join(map(str, in_memory.frame))
                if in_memory.frame is not None
                else "none: it is a matrix alone"
            )
            raise InputError(
                f"documents: no column {name!r} (there are {columns}); choose another meta"
            )
        values = clean_strings(in_memory.frame[name])
        meta[column] = as_metadata(
            values, column, f"documents: column {name!r}", options.list_separator
        )
    return meta
