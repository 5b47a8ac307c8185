"""One piece of the input, from raw bytes to documents with counts of their words.

``prepare_piece`` is a function of its arguments alone, and runs in any thread, in any order.
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
        The task, without the text.
    totals
        Figures of the summary that add up over batches.
    weighted
        True if cells have weights.
    text
        True if it was text.
    integer_ids
        True if all ids are whole numbers.
    width
        Numbers of a dense row, or 0 for documents.
    columns
        Metadata columns and their kinds.
    rejects
        Records left out.
    crc
        Checksum of the batch, by which a resumed run recognises the input.
    documents
        The documents with the counts of their words; None: a worker has written them to disk.
    """

    task: Task
    totals: Counter[str]
    weighted: bool
    text: bool
    integer_ids: bool
    width: int
    columns: dict[str, str]
    rejects: Rejects
    crc: int
    documents: CountedDocuments | None


def batch_crc(batch: pa.RecordBatch) -> int:
    """Compute the crc32c of a batch of documents as its reader made it."""
    return int(google_crc32c.value(np.frombuffer(batch.serialize(), np.uint8)))


def stored_metadata(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Select the columns of documents that are stored: id, source and metadata.

    Raises
    ------
    UsageError
        If a column has a name that the store uses itself.
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

    A piece with more than a quarter of the words takes all of them, because words that pieces
    share are numbered only once.
    """
    is_used = np.bincount(words, minlength=len(source)) > 0
    if 4 * np.count_nonzero(is_used) > len(source):
        return source, words
    new_numbers = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
    return source.filter(pa.array(is_used)), new_numbers[words]


def _merge_words(
    types: pa.LargeStringArray, cells: DocumentCells
) -> tuple[pa.LargeStringArray, DocumentCells]:
    """Merge equal words, and sum their counts in each document."""
    coded = types.dictionary_encode()
    owners = np.repeat(np.arange(len(cells.indptr) - 1), np.diff(cells.indptr))
    words = coded.indices.to_numpy()[cells.words]
    counts = cells.counts
    if len(words):
        owners, words, counts = order_cells(owners, words, counts)
    indptr = np.searchsorted(owners, np.arange(len(cells.indptr)))
    return coded.dictionary, DocumentCells(indptr, words.astype(np.int32), counts)


def _make_room_check(room: Room, sources: pa.Array) -> Callable[[int, int], None]:
    """Make a function that checks if the memory has room for a piece of very many words."""
    first = sources[0].as_py() if len(sources) else "no source"

    def check_room(needed: int, at_end: int) -> None:
        """Raise DoesNotFit if so many bytes, or those at the end, do not fit."""
        room.check(needed, f"counting the words of {first}", at_end)

    return check_room


def select_long(
    batch: pa.RecordBatch, cells: DocumentCells, least: int
) -> tuple[pa.RecordBatch, DocumentCells]:
    """Select the documents of ``least`` words or more, and their cells."""
    lengths = np.diff(cells.indptr)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    is_long = np.bincount(owner, cells.counts, len(lengths)) >= least
    stays = is_long[owner]
    indptr = np.concatenate(([0], np.cumsum(lengths[is_long])))
    selected = DocumentCells(indptr, cells.words[stays], cells.counts[stays])
    return batch.filter(pa.array(is_long)), selected


def prepared_pieces(
    tasks: Iterable[Task],
    tokenizer: Tokenizer,
    threads: int,
    piece_bytes: int,
    *,
    keep_text: bool = False,
) -> Generator[Prepared, None, None]:
    """Run ``prepare_piece`` on each task in a pool, in order.

    Parameters
    ----------
    tasks, tokenizer, keep_text
        As of ``prepare_piece``.
    threads
        Threads of the pool.
    piece_bytes
        A piece of more than twice as many bytes is counted while no other one is.
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
        # a user's pattern may take forever, so an interrupted run does not wait for it
        pool.shutdown(wait=False, cancel_futures=True)


def prepare_piece(task: Task, tokenizer: Tokenizer, *, keep_text: bool = False) -> Prepared:
    """Parse, tokenise and count one piece.

    Parameters
    ----------
    task
        The piece.
    tokenizer
        Makes words of text.
    keep_text
        Return the text of the documents, too.
    """
    crc = batch_crc(task.batch)
    room = task.options.room
    rejects = task.rejects
    batch, withdrawn = task.run()
    totals = Counter[str]()
    width = 0
    is_text = content_kind(batch) == "text"
    if is_text:
        check_room = None if room is None else _make_room_check(room, batch.column(1))
        counted = tokenizer.count(batch.column(2), check_room)
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
    least = task.options.min_tokens
    if least:
        before = len(batch)
        batch, cells = select_long(batch, cells, least)
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
    table = stored_metadata(batch)
    texts = batch.column(2) if is_text and keep_text else None
    return Prepared(
        task=replace(task, batch=empty_batch(task.reader.kind)),
        totals=totals + Counter(documents=len(table), cells=len(counts), rejected=len(rejects)),
        weighted=weighted,
        text=is_text,
        integer_ids=pa.types.is_integer(batch.column(0).type),
        width=width,
        columns={n: "list" if n in LISTS else "string" for n in table.schema.names},
        rejects=rejects,
        crc=crc,
        documents=CountedDocuments(table, withdrawn.cast(TEXT), types, cells, texts),
    )
