"""One piece of the input, from raw bytes to documents with counts of their words.

Pure: runs in any thread, in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import google_crc32c
import numpy as np
import pyarrow as pa

from topicstream.base.errors import InputError, UsageError
from topicstream.base.memory import Room
from topicstream.ingestion.parse.columns import LISTS
from topicstream.ingestion.parse.counts import order_cells
from topicstream.ingestion.parse.documents import (
    LIST,
    TEXT,
    DocumentCells,
    content_kind,
    document_cells,
    empty_batch,
    metadata_of,
)
from topicstream.ingestion.parse.rejects import Rejects
from topicstream.ingestion.parts.part_files import CountedDocuments
from topicstream.ingestion.parts.tasks import Task
from topicstream.ingestion.tokens.tokenizer import Tokenizer
from topicstream.numeric.parallel import pooled


@dataclass
class Prepared:
    """Result of counting one batch.

    Attributes
    ----------
    task
        What it was made of, without the text.
    totals
        Figures of the summary that add up over batches.
    weighted, text, whole
        Whether cells have weights, whether it was text, whether all ids are whole numbers.
    width
        Numbers of a dense row, 0: documents.
    columns
        Metadata columns and their kinds.
    crc
        Of the batch, to know on a resume that the input is the same.
    documents
        The documents with the counts of their words; None: on disk, written by a worker.
    """

    task: Task
    totals: Counter[str]
    weighted: bool
    text: bool
    whole: bool
    width: int
    columns: dict[str, str]
    rejects: Rejects
    crc: int
    documents: CountedDocuments | None


def batch_crc(batch: pa.RecordBatch) -> int:
    """crc32c of a batch of documents as its reader made it."""
    return int(google_crc32c.value(np.frombuffer(batch.serialize(), np.uint8)))


def metadata(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Select what is stored of documents beside their cells.

    It is id, source, then the list columns, date and the user's own columns.
    """
    columns = {"id": batch.column(0).cast(TEXT), "source": batch.column(1).cast(TEXT)}
    for name, values in metadata_of(batch).items():
        if name in columns or name in ("part", "block", "row"):
            raise UsageError(
                f"--meta {name}: the store has a column of that name itself; choose another, "
                f"such as --meta my_{name}={name}"
            )
        columns[name] = values.cast(LIST if name in LISTS else TEXT)
    return pa.record_batch(columns)


def _types_of(
    source: pa.LargeStringArray, words: np.ndarray
) -> tuple[pa.LargeStringArray, np.ndarray]:
    """Select the words of a piece among those of its source, and renumber ``words``.

    A piece that has many of them takes all, so that they are numbered once for all such pieces.
    """
    used = np.bincount(words, minlength=len(source)) > 0
    if 4 * np.count_nonzero(used) > len(source):
        return source, words
    return source.filter(pa.array(used)), (np.cumsum(used, dtype=np.int32) - np.int32(1))[words]


def _merge_words(
    types: pa.LargeStringArray, cells: DocumentCells
) -> tuple[pa.LargeStringArray, DocumentCells]:
    """Make one word of those that are the same, and sum their counts in each document."""
    coded = types.dictionary_encode()
    owners = np.repeat(np.arange(len(cells.indptr) - 1), np.diff(cells.indptr))
    words = coded.indices.to_numpy()[cells.words]
    counts = cells.counts
    if len(words):
        owners, words, counts = order_cells(owners, words, counts)
    indptr = np.searchsorted(owners, np.arange(len(cells.indptr)))
    return coded.dictionary, DocumentCells(indptr, words.astype(np.int32), counts)


def _ask(room: Room, sources: pa.Array) -> Callable[[int, int], None]:
    """Make a function that asks whether a piece of very many words fits."""
    first = sources[0].as_py() if len(sources) else "no source"
    return lambda needed, whole: room.check(needed, f"counting the words of {first}", whole)


def long_enough(
    batch: pa.RecordBatch, cells: DocumentCells, least: int
) -> tuple[pa.RecordBatch, DocumentCells]:
    """Select the documents of ``least`` words or more, and their cells."""
    lengths = np.diff(cells.indptr)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    is_long = np.bincount(owner, cells.counts, len(lengths)) >= least
    cells_left = is_long[owner]
    indptr = np.concatenate(([0], np.cumsum(lengths[is_long])))
    return batch.filter(pa.array(is_long)), DocumentCells(
        indptr, cells.words[cells_left], cells.counts[cells_left]
    )


def prepared_pieces(
    tasks: Iterable[Task],
    tokenizer: Tokenizer,
    threads: int,
    piece_bytes: int,
    *,
    keep_text: bool = False,
) -> Generator[Prepared, None, None]:
    """Run ``prepare_piece`` on each task in a pool, in order.

    A piece of more than twice the bytes is counted alone.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="prepare")
    prepare = partial(prepare_piece, tokenizer=tokenizer, keep_text=keep_text)
    try:
        yield from pooled(
            pool,
            prepare,
            tasks,
            threads + 1,
            alone=lambda task: task.batch.nbytes > 2 * piece_bytes,
        )
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # a pattern may match without end


def prepare_piece(task: Task, tokenizer: Tokenizer, *, keep_text: bool = False) -> Prepared:
    """Parse, tokenise and count one piece.

    keep_text: return the text of the documents, too.
    """
    crc = batch_crc(task.batch)
    room = task.options.room
    rejects = task.rejects
    batch, gone = task.run()
    totals = Counter[str]()
    width = 0
    text = content_kind(batch) == "text"
    if text:
        counted = tokenizer.count(
            batch.column(2), _ask(room, batch.column(1)) if room is not None else None
        )
        types = counted.types
        cells = DocumentCells(counted.indptr, counted.words, counted.counts)
        totals.update(
            characters=counted.characters, discarded=counted.discarded, unspaced=counted.unspaced
        )
    else:
        assert task.words is not None
        cells = document_cells(batch)
        width = len(task.words) if content_kind(batch) == "vector" else 0
        if task.options.binarize and not width:
            cells = cells._replace(counts=np.ones(len(cells.counts), np.int64))
        types, words = _types_of(task.words, cells.words)
        cells = cells._replace(words=words)
        if task.doubled and not width:
            types, cells = _merge_words(types, cells)
    if least := task.options.min_tokens:
        before = len(batch)
        batch, cells = long_enough(batch, cells, least)
        rejects.notes[f"left out, of fewer than {least} words"] += before - len(batch)
    counts = cells.counts
    weighted = counts.dtype.kind == "f"
    if not weighted and int(counts.max(initial=0)) >= 1 << 31:
        raise InputError(f"{task.name}: a count of 2^31 or more in one cell; check the file")
    cells = DocumentCells(
        cells.indptr,
        cells.words.astype(np.int32, copy=False),
        counts.astype(np.float32 if weighted else np.int32, copy=False),
    )
    table = metadata(batch)
    return Prepared(
        task=replace(task, batch=empty_batch(task.reader.kind)),
        totals=totals + Counter(documents=len(table), cells=len(counts), rejected=len(rejects)),
        weighted=weighted,
        text=text,
        whole=pa.types.is_integer(batch.column(0).type),
        width=width,
        columns={n: "list" if n in LISTS else "string" for n in table.schema.names},
        rejects=rejects,
        crc=crc,
        documents=CountedDocuments(
            table, gone.cast(TEXT), types, cells, batch.column(2) if text and keep_text else None
        ),
    )
