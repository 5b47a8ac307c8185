"""Part files of an ingest: documents with the counts of their words, before the words have ids.

- ``part-0003.arrow`` has a row for each document: id, source, withdrawn, words, counts, metadata,
  and the text if it is kept. A record batch is a piece that was read, or several small ones.
- ``words-0003.arrow`` lists the words that the column ``words`` numbers.

Both are Arrow files, which ``pyarrow.ipc.open_file`` and ``pandas.read_feather`` open. The rows
of withdrawn ids come last in their batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from topicstream.base.errors import StoreError
from topicstream.corpus.documents import hash_ids
from topicstream.ingestion.parse.documents import TEXT, DocumentCells
from topicstream.ingestion.tokens.wordtable import WordTable

WORDS_AT_ONCE = 1 << 20
SMALL_BYTES = 1 << 18
"""Bytes of a small piece, and of a batch of small pieces, at most."""
SMALL_PIECES = 1 << 10
"""Small pieces of a batch, at most."""
LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
TEXTS = "#text"
"""The column of the texts that are kept, which no field can be called."""
CONTENT = ("words", "counts", TEXTS)
ALL: Final = "all"
_DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError)
_FORCE = "run again with --force to start afresh"


class CountedDocuments(NamedTuple):
    """Documents of one piece, their words counted.

    Attributes
    ----------
    metadata
        A row a document: id, source, the list columns, date and the user's own columns.
    withdrawn
        Ids of withdrawn documents, large_string.
    types
        The words that ``cells`` numbers, large_string.
    cells
        Numbers and counts of the words of each document.
    texts
        The texts of the documents, large_string, if they are kept.
    """

    metadata: pa.RecordBatch
    withdrawn: pa.Array
    types: pa.Array
    cells: DocumentCells
    texts: pa.Array | None = None


class PartWriter:
    """A writer of counted documents into one part file and the file of its words.

    Parameters
    ----------
    path, words_path
        The files, which exist and are empty.
    most_bytes
        Memory that the words may take.
    apart
        Make each piece a batch of its own. Otherwise small pieces that follow each other become
        one batch, because each batch takes some time to read.

    Attributes
    ----------
    paths
        The two files.
    """

    def __init__(
        self, path: Path, words_path: Path, most_bytes: int, *, apart: bool = False
    ) -> None:
        self.paths = (path, words_path)
        self._apart = apart
        self._most_bytes = most_bytes
        self._table = WordTable()
        self._types: pa.Array | None = None
        self._numbers = np.zeros(0, np.int32)
        self._file: pa.ipc.RecordBatchFileWriter | None = None
        self._schema: pa.Schema | None = None
        self._small: list[pa.RecordBatch] = []
        self._small_bytes = 0

    def accepts(self, piece: CountedDocuments) -> bool:
        """Tell whether a piece fits: the same columns as before, room for its words."""
        if self._schema is None:
            return True
        kinds = {field.name: field.type for field in self._schema}
        if kinds["counts"].value_type != pa.from_numpy_dtype(piece.cells.counts.dtype):
            return False
        if not set(piece.metadata.schema.names) <= kinds.keys():
            return False
        if piece.texts is not None and TEXTS not in kinds:
            return False
        return piece.types is self._types or self._table.bytes_with(piece.types) <= self._most_bytes

    def add(self, piece: CountedDocuments) -> None:
        """Write a piece that the part accepts."""
        if piece.types is not self._types:  # pieces of one matrix share their words
            self._numbers = self._table.number(piece.types)
            self._types = piece.types
        batch = _as_batch(piece, self._numbers)
        if self._file is None:
            self._schema = batch.schema
            self._file = pa.ipc.new_file(str(self.paths[0]), batch.schema, options=LZ4)
        batch = _with_columns(batch, self._schema)
        size = batch.nbytes
        # the rows of withdrawn ids come last in their batch
        joins = not self._apart and not len(piece.withdrawn) and size < SMALL_BYTES
        if not joins or self._small_bytes + size > SMALL_BYTES or len(self._small) == SMALL_PIECES:
            self._write_small()
        if joins:
            self._small.append(batch)
            self._small_bytes += size
        else:
            self._file.write_batch(batch)

    def _write_small(self) -> None:
        """Write the small pieces that wait as one batch."""
        if self._file is not None and self._small:
            table = pa.Table.from_batches(self._small).combine_chunks()
            for batch in table.to_batches():
                self._file.write_batch(batch)
        self._small = []
        self._small_bytes = 0

    def close(self) -> None:
        """Close the part, without the small pieces that wait."""
        if self._file is not None:
            self._file.close()

    def finish(self) -> None:
        """Close the part with all its pieces, and write its words."""
        self._write_small()
        self.close()
        words = self._table.words
        schema = pa.schema([("word", TEXT)])
        with pa.ipc.new_file(str(self.paths[1]), schema, options=LZ4) as file:
            for start in range(0, len(words), WORDS_AT_ONCE):
                file.write_batch(pa.record_batch([words.slice(start, WORDS_AT_ONCE)], schema))


def _as_batch(piece: CountedDocuments, numbers: np.ndarray) -> pa.RecordBatch:
    """Make one batch of a piece, the rows of withdrawn ids last."""
    documents = len(piece.metadata)
    withdrawn = len(piece.withdrawn)
    cells = piece.cells
    no_words = np.repeat(cells.indptr[-1:], withdrawn)
    offsets = np.concatenate((cells.indptr, no_words)).astype(np.int32)
    columns = dict(zip(piece.metadata.schema.names, piece.metadata.columns))
    if piece.texts is not None:
        columns[TEXTS] = piece.texts
    if withdrawn:
        empty = {name: pa.nulls(withdrawn, column.type) for name, column in columns.items()}
        empty["id"] = piece.withdrawn
        columns = {n: pa.concat_arrays([column, empty[n]]) for n, column in columns.items()}
    columns["withdrawn"] = pa.array(np.arange(documents + withdrawn) >= documents)
    for name, values in (("words", numbers[cells.words]), ("counts", cells.counts)):
        columns[name] = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _with_columns(batch: pa.RecordBatch, schema: pa.Schema | None) -> pa.RecordBatch:
    """Add the columns of a schema that a batch lacks, filled with nulls."""
    if schema is None or batch.schema.equals(schema):
        return batch
    present = dict(zip(batch.schema.names, batch.columns))
    columns = [
        present[field.name] if field.name in present else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class PieceRows(NamedTuple):
    """The rows of a piece that were read back: its documents, and the ids that it withdraws."""

    documents: pa.RecordBatch
    withdrawn: pa.RecordBatch

    @property
    def cells(self) -> DocumentCells:
        """Return the numbers of words and their counts."""
        words = self.documents["words"]
        indptr = words.offsets.to_numpy().astype(np.int64) - words.offsets[0].as_py()
        return DocumentCells(
            indptr, words.flatten().to_numpy(), self.documents["counts"].flatten().to_numpy()
        )

    @property
    def metadata(self) -> pa.RecordBatch:
        """Return all columns but the words, their counts and the text."""
        names = [n for n in self.documents.schema.names if n not in (*CONTENT, "withdrawn")]
        return self.documents.select(names)

    @property
    def texts(self) -> pa.Array | None:
        """Return the texts, or None if they are not kept or were not read."""
        return self.documents[TEXTS] if TEXTS in self.documents.schema.names else None

    @property
    def hashes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the hashes of the ids: high and low, uint64[D] each."""
        return hash_ids(self.documents["id"])


def read_part(
    path: Path, columns: Sequence[str] | Literal["all"] | None = None
) -> Iterator[PieceRows]:
    """Read a part file a piece at a time.

    Parameters
    ----------
    path
        The file.
    columns
        The columns that are read, as far as the file has them (``withdrawn`` always); ALL, or None:
        all but words, counts and texts.

    Raises
    ------
    StoreError
        If the file is missing or damaged.
    """
    with _reporting_damage(path), pa.OSFile(str(path)) as file:
        names = pa.ipc.open_file(file).schema.names
        if columns is None:
            columns = [name for name in names if name not in CONTENT]
        elif columns == ALL:
            columns = names
        fields = [i for i, name in enumerate(names) if name in (*columns, "withdrawn")]
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        reader = pa.ipc.open_file(file, options=options)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            withdrawn = batch["withdrawn"].true_count
            documents = len(batch) - withdrawn
            yield PieceRows(batch.slice(0, documents), batch.slice(documents, withdrawn))


def read_words(path: Path) -> pa.Array:
    """Read the words of a part, large_string[T]."""
    with _reporting_damage(path), pa.OSFile(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
        words = table["word"].combine_chunks()
        return words if isinstance(words, pa.Array) else pa.concat_arrays(words.chunks)


@contextmanager
def _reporting_damage(path: Path) -> Iterator[None]:
    """Turn an error of a damaged file into one line that names the file."""
    try:
        yield
    except _DAMAGE as e:
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise StoreError(f"{path}: is damaged ({reason}); {_FORCE}") from None
