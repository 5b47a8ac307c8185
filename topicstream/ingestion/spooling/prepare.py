"""One piece of the input, from raw bytes to what is spooled.  Pure: runs in any thread, in any order.

A prepared piece is two frames.  The *cells* frame: lengths uint32[D], words int32[nnz] (numbers of the piece's own
types), counts, and of text pieces the types themselves; provisional ids of the types go into a third, small file, as
they are known in input order only.  The *documents* frame: id hashes, whether a document was taken as training so far,
and the metadata as an Arrow stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import google_crc32c
import numpy as np
import pyarrow as pa

from topicstream.corpus.documents import hash_ids
from topicstream.errors import InputError, UsageError
from topicstream.ingestion.parsing.columns import LISTS
from topicstream.ingestion.parsing.documents import empty_batch
from topicstream.ingestion.parsing.rejects import Rejects
from topicstream.ingestion.read_options import Room
from topicstream.ingestion.spooling.journal import encode_frame
from topicstream.ingestion.spooling.tasks import Task
from topicstream.kernels.spans import copy_spans
from topicstream.tokens.documents import CountRun, Provenance, TextRun
from topicstream.tokens.tokenizer import Tokenizer
from topicstream.tokens.vocabulary import word_buffers


@dataclass
class Prepared:
    """What one batch gave.

    Attributes
    ----------
    task, size
        What it was made of, without the text; bytes of its batch.
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
    """

    task: Task
    size: int
    totals: Counter[str]
    weighted: bool
    text: bool
    whole: bool
    width: int
    columns: dict[str, str]
    rejects: Rejects
    crc: int
    cells_frame: bytes
    types_frame: bytes
    docs_frame: bytes


def batch_crc(batch: pa.RecordBatch) -> int:
    """crc32c of a batch of documents as its reader made it."""
    return int(google_crc32c.value(np.frombuffer(batch.serialize(), np.uint8)))


def metadata(about: Provenance) -> pa.Table:
    """Provenance as a table: id, source, then the list columns, date and the user's own columns."""
    columns: dict[str, pa.Array] = {
        "id": about.ids.cast(pa.large_string()),
        "source": about.source.cast(pa.large_string()),
    }
    for name, values in about.meta.items():
        if name in columns or name in ("part", "block", "row"):
            raise UsageError(f"--meta {name}: is reserved for the store; choose another column name")
        columns[name] = values.cast(pa.list_(pa.large_string()) if name in LISTS else pa.large_string())
    return pa.table(columns)


def as_stream(table: pa.Table) -> np.ndarray:
    """A table as the bytes of an Arrow stream, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
        out.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _types_of(source: pa.LargeStringArray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The words of a piece among those of its source: bytes, offsets, and ``words`` as numbers of these."""
    used = np.bincount(words, minlength=len(source)) > 0
    data, offsets = word_buffers(source)
    types, type_offsets = copy_spans(data, offsets[:-1][used], offsets[1:][used])
    return types, type_offsets, (np.cumsum(used, dtype=np.int32) - np.int32(1))[words]


def _ask(room: Room, run: TextRun) -> Callable[[int, int], None]:
    """The question whether a piece of very many words fits."""
    return lambda needed, whole: room.ask(needed, f"counting the words of {run.where()}", whole)


def long_enough(
    indptr: np.ndarray, words: np.ndarray, counts: np.ndarray, about: Provenance, least: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Provenance]:
    """Cells and columns of the documents of ``least`` words or more."""
    lengths = np.diff(indptr)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    kept = np.bincount(owner, counts, len(lengths)) >= least
    cells, rows = kept[owner], pa.array(np.flatnonzero(kept))
    meta = {name: values.take(rows) for name, values in about.meta.items()}
    about = replace(about, ids=about.ids.take(rows), source=about.source.take(rows), meta=meta)
    return np.concatenate(([0], np.cumsum(lengths[kept]))), words[cells], counts[cells], about


def prepare_piece(task: Task, tokenizer: Tokenizer) -> Prepared:
    """Parse, tokenise and count one piece."""
    crc, room = batch_crc(task.batch), task.options.room
    run, rejects = task.run()
    about = run.about
    totals, width = Counter[str](), 0
    if isinstance(run, TextRun):
        counted = tokenizer.count(run, _ask(room, run) if room is not None else None)
        types, offsets = word_buffers(counted.types)
        indptr, words, counts = counted.indptr, counted.words, counted.counts
        totals.update(characters=counted.characters, discarded=counted.discarded, unspaced=counted.unspaced)
    else:
        assert isinstance(run, CountRun) and task.words is not None
        indptr, words, counts = run.indptr, run.words, run.counts
        width = len(task.words) if run.dense else 0
        if task.options.binarize and not width:
            counts = np.ones(len(counts), np.int64)
        types, offsets, words = _types_of(task.words, words)
    weighted = counts.dtype.kind == "f"
    if least := task.options.min_tokens:
        indptr, words, counts, about = long_enough(indptr, words, counts, about, least)
        rejects.notes[f"left out, of fewer than {least} words"] += len(run) - len(about.ids)
    high, low = hash_ids(about.ids)
    if weighted:
        stored = counts.astype(np.float32, copy=False)
    else:
        if len(counts) and int(counts.max()) >= 1 << 31:
            raise InputError(f"{task.name}: a count of 2^31 or more in one cell; check the file")
        stored = counts.astype(np.int32, copy=False)
    arrays = {
        "lengths": np.diff(indptr).astype(np.uint32),
        "words": words.astype(np.int32, copy=False),
        "counts": stored,
    }
    table = metadata(about)
    gone_high, gone_low = hash_ids(about.deleted if about.deleted is not None else table["id"].chunk(0)[:0])
    document_arrays = {"high": high, "low": low, "gone_high": gone_high, "gone_low": gone_low}
    document_arrays["metadata"] = as_stream(table)
    return Prepared(
        task=replace(task, batch=empty_batch(task.reader.kind)),  # the text goes
        size=task.batch.nbytes,
        totals=totals + Counter(documents=len(high), cells=len(words), rejected=len(rejects)),
        weighted=weighted,
        text=isinstance(run, TextRun),
        whole=about.whole,
        width=width,
        columns={n: "list" if n in LISTS else "string" for n in table.column_names},
        rejects=rejects,
        crc=crc,
        cells_frame=encode_frame(arrays),
        types_frame=encode_frame({"types": types, "lengths": np.diff(offsets).astype(np.uint32)}),
        docs_frame=encode_frame(document_arrays),
    )
