"""Documents that are already in memory: lists and generators of strings or dicts, Arrow tables, data frames, sparse
matrices.  They become the same pieces as files do, a piece at a time, so a generator is never held whole.

Nothing but Arrow and NumPy is imported: everything else is known by what it can do (duck typing).
"""

from __future__ import annotations

import datetime
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.errors import InputError
from topicstream.ingestion.opening.names import expanded
from topicstream.ingestion.parsing.columns import LISTS, WrongField, as_id, as_list, as_scalar, as_text
from topicstream.ingestion.parsing.cut import positions
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import Reject, Rejects
from topicstream.ingestion.parsing.vocabulary import numbered
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.readers.npy import check_width, names_of, vectors_run
from topicstream.ingestion.readers.parquet import Parquet
from topicstream.ingestion.spooling.tasks import Task
from topicstream.tokens.documents import CountRun, Provenance

KEY = "memory:"
ROWS = 1 << 16
_GUESSED_ROW = 2048
"""Bytes of a row of a data frame, before the first rows were seen."""


@dataclass(frozen=True)
class InMemory:
    """Documents as the caller has them.

    documents  see ``ingest``; vocabulary: the W words of a matrix's columns; ids: the D ids of its rows
    first      number of the first document: what a document without an id of its own is called
    key        this ingest and no other: what is in memory cannot be known again after a kill
    """

    documents: Any
    vocabulary: Any = None
    ids: Any = None
    first: int = 0
    key: str = field(default_factory=lambda: KEY + uuid.uuid4().hex)

    @property
    def once(self) -> bool:
        """Whether the documents can be read only once."""
        return isinstance(self.documents, (Iterator, pa.RecordBatchReader))

    def tasks(self, options: ReadOptions) -> Iterator[Task]:
        """The pieces, in order."""
        reader: Any = _Counts() if is_matrix(self.documents) else _Rows()
        words = None
        if of_vectors(self.documents, options):
            if self.vocabulary is not None:
                raise InputError("vocabulary= goes with a matrix of counts; this one holds vectors")
            check_width(self.documents.shape, "documents")
            reader, words = _Vectors(), names_of(self.documents.shape[1])
            pieces = _vector_pieces(self, options)
        elif isinstance(reader, _Counts):
            words = _column_words(self.documents.shape[1], self.vocabulary)
            pieces = _matrix_pieces(self, options)
        else:
            for name, value in (("vocabulary", self.vocabulary), ("ids", self.ids)):
                if value is not None:
                    raise InputError(f"{name}= goes with a matrix of counts; documents hold their own words and ids")
            pieces = _row_pieces(self, options)
        done = 0
        for number, (piece, size) in enumerate(pieces):
            done += size
            yield Task(number, reader, piece.name, piece.key, piece, options, done, None, words)


def as_inputs(documents: Any, *, path: bool, vocabulary: Any = None, ids: Any = None) -> list[str] | InMemory:
    """What the caller gave as names of files or as documents.  A ``Path`` is a file or folder, an element of a list that
    is a ``str`` a document; ``path``: whether a ``str`` alone is a path (else a document)."""
    if isinstance(documents, InMemory):
        return documents
    if isinstance(documents, os.PathLike) or (path and isinstance(documents, str)):
        return expanded([os.fspath(documents)])
    if isinstance(documents, (list, tuple)) and not documents:
        return []
    if isinstance(documents, str):
        if len(documents) < 256 and os.path.splitext(documents)[1] and "\0" not in documents and os.path.exists(documents):
            raise InputError(f"documents: {documents!r} is a file, and a str a document: give Path({documents!r})")
        documents = [documents]
    elif isinstance(documents, Iterator) and not isinstance(documents, pa.RecordBatchReader):
        first = next(documents, None)
        documents = chain(() if first is None else (first,), documents)
        if isinstance(first, os.PathLike):
            documents = list(documents)
    if isinstance(documents, (list, tuple)) and any(isinstance(d, os.PathLike) for d in documents):
        if not all(isinstance(d, os.PathLike) for d in documents):
            raise InputError("documents: a list holds either documents (str, dict) or files (Path), not both")
        return expanded([os.fspath(d) for d in documents])
    if isinstance(documents, (bytes, bytearray, Mapping)):
        hint = "one of its splits" if hasattr(documents, "num_rows") else "a list of dicts, one a document"
        raise InputError(f"documents: cannot be {type(documents).__name__}; give {hint}")
    if isinstance(documents, np.ndarray) and documents.dtype.kind in "iuf" and documents.ndim != 2:
        raise InputError(
            f"documents: an array of shape {documents.shape}; vectors, and counts, are the rows of two dimensions"
        )
    if not (is_matrix(documents) or hasattr(documents, "__iter__") or hasattr(documents, "__arrow_c_stream__")):
        raise InputError(f"documents: cannot be {type(documents).__name__}; give texts, dicts, a table or a matrix")
    if path and isinstance(documents, (list, tuple)) and 0 < len(documents) <= 1000:
        names = [d for d in documents if isinstance(d, str) and len(d) < 1024 and "\0" not in d]
        if len(names) == len(documents) and all(d == "-" or os.path.exists(d) for d in names):
            raise InputError(
                f"documents: {names[0]!r} is a file, and a str in a list a document: give Path({names[0]!r})"
            )
    return InMemory(documents, vocabulary, ids)


def is_matrix(documents: Any) -> bool:
    """A SciPy sparse matrix or array, or a NumPy array of numbers with two dimensions."""
    if isinstance(documents, np.ndarray):
        return documents.ndim == 2 and documents.dtype.kind in "biuf"
    return hasattr(documents, "tocsr") and hasattr(documents, "nnz")


def of_vectors(documents: Any, options: ReadOptions) -> bool:
    """Whether the rows of a matrix are vectors: it is said, or there are real numbers below 0."""
    if not (isinstance(documents, np.ndarray) and is_matrix(documents)):
        if options.vectors and not isinstance(documents, np.ndarray):
            raise InputError("vectors=True goes with a NumPy array of two dimensions")
        return False
    real = documents.dtype.kind == "f" and documents.size > 0
    return options.vectors or bool(real and np.fmin.reduce(documents, axis=None) < 0)


# -- text ------------------------------------------------------------------------------------------------------------
class _Rows(Parquet):
    name = "memory"
    about = "documents in memory"


def _row_pieces(given: InMemory, options: ReadOptions) -> Iterator[tuple[Piece, int]]:
    record, name = 0, "documents"
    for batch, rejects in _batches(given.documents, options, given.first):
        id_name = options.id_field or "id"
        if id_name not in batch.schema.names:
            if options.id_field:
                raise InputError(f"documents: no column {id_name!r}; choose another id_field")
            numbers = np.arange(record, record + len(batch), dtype=np.int64) + given.first
            ids = pc.cast(pa.array(numbers), pa.large_string())
            batch = pa.RecordBatch.from_arrays([*batch.columns, ids], names=[*batch.schema.names, "id"])
        yield Piece(name, name, batch, 0, record, rejects=tuple(rejects)), batch.nbytes
        record += len(batch)


def _batches(documents: Any, options: ReadOptions, first: int) -> Iterator[tuple[pa.RecordBatch, list[Reject]]]:
    wanted = [*options.text_fields, *options.meta.values(), *([options.id_field] if options.id_field else [])]
    if isinstance(documents, (pa.Array, pa.ChunkedArray)):
        documents = pa.table({options.text_fields[0]: documents})
    if isinstance(documents, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        yield from ((b, []) for b in _sized(_select(documents, wanted), options.piece_bytes))
    elif hasattr(documents, "iloc") and hasattr(documents, "columns"):  # pandas

        def frame(at: int, n: int) -> Any:
            columns = _there(list(documents.columns), wanted)
            return pa.Table.from_pandas(documents.iloc[at : at + n][columns], preserve_index=False)

        yield from ((b, []) for b in _slices(frame, len(documents), options.piece_bytes))
    elif hasattr(documents, "to_arrow") and hasattr(documents, "slice") and hasattr(documents, "columns"):  # polars

        def part(at: int, n: int) -> Any:
            return documents.slice(at, n).select(_there(documents.columns, wanted)).to_arrow()

        yield from ((b, []) for b in _slices(part, len(documents), options.piece_bytes))
    elif hasattr(documents, "with_format") and hasattr(documents, "column_names") and hasattr(documents, "__len__"):
        arrow = documents.with_format("arrow")  # Hugging Face: memory-mapped, cut as it is

        def rows(at: int, n: int) -> Any:
            return _select(arrow[at : at + n], wanted)

        yield from ((b, []) for b in _slices(rows, len(documents), options.piece_bytes))
    elif hasattr(documents, "collect_schema") or hasattr(documents, "collect"):
        raise InputError("documents: a lazy frame; give .collect(streaming=True) or its batches")
    elif hasattr(documents, "__arrow_c_stream__") and not hasattr(documents, "to_list"):
        yield from _batches(pa.RecordBatchReader.from_stream(documents), options, first)
    else:
        yield from _records(documents, options, first)


def _there(names: Sequence[str], wanted: list[str]) -> list[str]:
    if missing := [name for name in wanted if name not in names]:
        listed = ", ".join(str(n) for n in names)[:300]
        raise InputError(f"documents: no column {missing[0]!r}; choose one of {listed} (text_field=, id_field=, meta=)")
    return list(dict.fromkeys([*wanted, *(["id"] if "id" in names else [])]))


def _select(table: Any, wanted: list[str]) -> Any:
    names = _there(table.schema.names, wanted)
    if isinstance(table, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(
            pa.schema([table.schema.field(n) for n in names]), (b.select(names) for b in table)
        )
    return table.select(names)


def _sized(table: Any, size: int) -> Iterator[pa.RecordBatch]:
    """Batches of about ``size`` bytes, and ROWS rows at most."""
    for batch in (
        [table] if isinstance(table, pa.RecordBatch) else table.to_batches() if isinstance(table, pa.Table) else table
    ):
        step = max(1, min(ROWS, int(size * len(batch) / max(batch.nbytes, 1))))
        for at in range(0, len(batch), step):
            yield batch.slice(at, step)


def _slices(cut: Any, rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """``cut(first, n)`` gives a table of n rows: as many at a time as make about ``size`` bytes."""
    at, step = 0, max(1, min(ROWS, size // _GUESSED_ROW))
    if not rows:
        cut(0, 0)  # its columns are looked at all the same
    while at < rows:
        table = cut(at, min(step, rows - at))
        at += len(table)
        step = max(1, min(ROWS, 2 * step, int(size * len(table) / max(table.nbytes, 1))))
        yield from _sized(table, size)


def _records(
    documents: Iterable[Any], options: ReadOptions, first: int
) -> Iterator[tuple[pa.RecordBatch, list[Reject]]]:
    rows: list[tuple[str, list[str], list[Any]]] = []
    rejects: list[Reject] = []
    held = 0

    def batch() -> pa.RecordBatch:
        id_name, texts = options.id_field or "id", options.text_fields
        columns = {name: pa.array([r[1][i] for r in rows], pa.large_string()) for i, name in enumerate(texts)}
        for i, (column, name) in enumerate(options.meta.items()):
            kind = pa.list_(pa.large_string()) if column in LISTS else pa.large_string()
            columns.setdefault(name, pa.array([r[2][i] for r in rows], kind))
        columns[id_name] = pa.array([r[0] for r in rows], pa.large_string())
        return pa.RecordBatch.from_pydict(columns)

    for number, document in enumerate(documents):
        try:
            rows.append(_record(document, number + first, options))
            held += sum(map(len, rows[-1][1])) + 64
        except WrongField as e:
            rejects.append(Reject(f"documents[{number}]", 0, str(e), b""))
            if options.strict:
                break
        if held >= options.piece_bytes or len(rows) >= ROWS:
            yield batch(), rejects
            rows, rejects, held = [], [], 0
    if rows or rejects:
        yield batch(), rejects


def _record(document: Any, number: int, options: ReadOptions) -> tuple[str, list[str], list[Any]]:
    if document is None or (isinstance(document, float) and document != document):
        document = ""  # a missing value of a series
    if isinstance(document, str):
        if options.id_field or options.meta:
            raise WrongField("is a string; id_field= and meta= need dicts")
        return str(number), [as_text(document, "text")] + [""] * (len(options.text_fields) - 1), []
    if not isinstance(document, Mapping):
        raise WrongField(f"is {type(document).__name__}, not a string or a dict")
    for name in options.text_fields:
        if name not in document:
            raise WrongField(f"has no field '{name}'; its fields: {', '.join(map(str, document))[:200]} (text_field=)")
    texts = [as_text(document[name], name) for name in options.text_fields]
    id_name = options.id_field or "id"
    if options.id_field and id_name not in document:
        raise WrongField(f"has no field '{id_name}' (id_field=)")
    own = as_id(_plain(document[id_name]), id_name) if id_name in document else str(number)
    meta: list[Any] = []
    for column, name in options.meta.items():
        value = _plain(document.get(name))
        meta.append(as_list(value, name, options.list_separator) if column in LISTS else as_scalar(value, name))
    return own, texts, meta


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    return list(value) if isinstance(value, (tuple, set, frozenset, np.ndarray)) else value


# -- counts ----------------------------------------------------------------------------------------------------------
class _Counts:
    name, kind, about = "matrix", "counts", "a matrix of counts in memory"

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[CountRun, Rejects]:
        rejects = Rejects()
        ids, indptr, words, counts = piece.data
        if len(counts) and not (np.isfinite(counts).all() and counts.min() >= 0):
            at = int(np.searchsorted(indptr, np.flatnonzero(~(np.isfinite(counts) & (counts >= 0)))[0], "right")) - 1
            raise InputError(
                f"documents[{piece.record + at}]: a count that is negative or not finite (of vectors: vectors=True)"
            )
        if counts.dtype.kind == "f" and not options.weighted:
            whole = counts.astype(np.int64)
            if len(counts) and not (whole == counts).all():
                at = int(np.searchsorted(indptr, np.flatnonzero(whole != counts)[0], "right")) - 1
                raise InputError(
                    f"documents[{piece.record + at}]: a weight that is no count; weighted=True accepts it (of vectors: vectors=True)"
                )
            counts = whole
        elif options.weighted:
            counts = counts.astype(np.float32)
        else:
            counts = counts.astype(np.int64)
        rows = np.arange(len(ids), dtype=np.int64) + piece.record
        about = Provenance(ids, positions(piece.key, rows, "#"))
        return CountRun(about, indptr, words, counts), rejects


def _column_words(size: int, given: Any) -> pa.LargeStringArray:
    """The words of a matrix's columns: a sequence, a dict word -> column (as CountVectorizer has it), or numbers."""
    if given is None:
        return numbered(size, 0, "documents")
    if isinstance(given, Mapping):
        columns = np.array(list(given.values()), np.int64)
        if not np.array_equal(np.sort(columns), np.arange(size)):
            raise InputError(f"vocabulary: {len(given)} words do not number the {size} columns one by one")
        words = pa.array(list(given), pa.large_string()).take(pa.array(np.argsort(columns)))
    else:
        try:
            if isinstance(given, pa.ChunkedArray):
                given = given.combine_chunks()
            words = (
                given.cast(pa.large_string())
                if isinstance(given, pa.Array)
                else pa.array(list(given), pa.large_string())
            )
        except (pa.ArrowException, TypeError):
            raise InputError("vocabulary: give one string a column of the matrix") from None
    if len(words) != size:
        raise InputError(f"vocabulary: {len(words)} words for {size} columns")
    if words.null_count or len(pc.unique(words)) != size:
        raise InputError("vocabulary: each column needs a word of its own")
    return words


def _matrix_pieces(given: InMemory, options: ReadOptions) -> Iterator[tuple[Piece, int]]:
    matrix, dense = given.documents, isinstance(given.documents, np.ndarray)
    if not dense and getattr(matrix, "format", "csr") != "csr":
        matrix = matrix.tocsr()  # a second copy; CSR itself is cut where it lies
    docs, ids = matrix.shape[0], _ids_of(given)
    each = 8 * matrix.shape[1] if dense else 12 * matrix.nnz // max(docs, 1) + 8
    step = max(1, min(ROWS, options.piece_bytes // max(each, 1)))
    for at in range(0, docs, step):
        end = min(at + step, docs)
        if dense:
            part = np.asarray(matrix[at:end])
            row, words = np.nonzero(part)
            counts = part[row, words]
            indptr = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=end - at)))).astype(np.int64)
        else:
            piece = matrix[at:end].copy()
            piece.sum_duplicates()
            piece.eliminate_zeros()
            indptr, words, counts = piece.indptr.astype(np.int64), piece.indices, piece.data
        numbers = pc.cast(pa.array(np.arange(at, end, dtype=np.int64) + given.first), pa.large_string())
        data = (numbers if ids is None else ids.slice(at, end - at), indptr, words.astype(np.int32), counts)
        yield Piece("documents", "documents", data, 0, at), 12 * len(words)


class _Vectors:
    name, kind, about = "array", "counts", "an array of vectors in memory"

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[CountRun, Rejects]:
        rejects = Rejects()
        return vectors_run(piece.data[1], piece, rejects, piece.data[0]), rejects


def _vector_pieces(given: InMemory, options: ReadOptions) -> Iterator[tuple[Piece, int]]:
    matrix, ids = given.documents, _ids_of(given)
    step = max(1, min(ROWS, options.piece_bytes // (16 * matrix.shape[1])))
    for at in range(0, len(matrix), step):
        part = np.array(matrix[at : at + step])
        numbers = pc.cast(pa.array(np.arange(at, at + len(part), dtype=np.int64) + given.first), pa.large_string())
        names = numbers if ids is None else ids.slice(at, len(part))
        yield Piece("documents", "documents", (names, part), 0, at), part.nbytes


def _ids_of(given: InMemory) -> pa.Array | None:
    """The ids that came with a matrix."""
    if given.ids is None:
        return None
    ids = pc.cast(pa.array(given.ids), pa.large_string())
    if len(ids) != given.documents.shape[0]:
        raise InputError(f"ids: {len(ids)} for {given.documents.shape[0]} documents")
    return ids


def numbered_from(given: InMemory, first: int) -> InMemory:
    """The same documents, numbered on from ``first``: an append must not meet the numbers of the documents before."""
    return replace(given, first=first)
