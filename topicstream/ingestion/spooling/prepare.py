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
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa

from topicstream.corpus.id_hash import hash_ids
from topicstream.errors import InputError, UsageError
from topicstream.ingestion.parsing.rejects import Rejects
from topicstream.ingestion.read_options import Room
from topicstream.ingestion.spooling.spool import encode_frame
from topicstream.ingestion.spooling.tasks import Task
from topicstream.kernels.arrays import Array, Bools, Ints, Longs
from topicstream.kernels.jit import kernel
from topicstream.tokens.documents import CountRun, Provenance, TextRun
from topicstream.tokens.tokenizer import Tokenizer

LISTS = ("authors", "labels", "links")


@dataclass
class Prepared:
    """What one piece gave.

    types, type_offsets   the piece's distinct words, None for a bag-of-words piece (its types are the source's words)
    type_counts, type_df  int64[T]: sums over the documents taken as training
    vectors               numbers of each vector, 0: documents
    crc                   of the raw piece, to know on a resume that the input is the same
    """

    number: int
    docs: int
    cells: int
    tokens: float
    weighted: bool
    vectors: int
    types: np.ndarray | None
    type_offsets: np.ndarray | None
    type_counts: np.ndarray
    type_df: np.ndarray
    cells_frame: bytes
    docs_frame: bytes
    high: np.ndarray
    columns: dict[str, str]
    rejects: Rejects
    characters: int
    discarded: int
    unspaced: int
    crc: int
    whole: bool


@kernel
def sum_types(
    indptr: Longs, words: Ints, counts: Array, taken: Bools, sign: int, type_counts: Longs, type_df: Longs
) -> None:
    """Add ``sign`` times the counts of the documents with taken[d] to type_counts, type_df: int64[T].

    counts: integers, or float32 (then a cell counts once).
    """
    for d in range(len(indptr) - 1):
        if taken[d]:
            for i in range(indptr[d], indptr[d + 1]):
                type_counts[words[i]] += sign * counts[i]
                type_df[words[i]] += sign


def raw_crc(data: Any) -> int:
    """crc32c of a piece as the reader cut it.  Of a list of files it sees the names, of a Parquet batch the sizes."""
    if isinstance(data, (bytes, bytearray)):
        return int(google_crc32c.value(np.frombuffer(data, np.uint8)))
    crc = 0
    if isinstance(data, pa.RecordBatch):
        data = [str(data.num_rows), str(data.nbytes)]
    for item in data or ():
        for value in item if isinstance(item, tuple) else (item,):
            raw = (
                bytes(value) if isinstance(value, (bytes, bytearray)) else str(value).encode("utf-8", "surrogateescape")
            )
            crc = int(google_crc32c.extend(crc, raw))
    return crc


def metadata(about: Provenance) -> pa.Table:
    """Provenance as a table: id, source, then authors, labels, links, date and the user's own columns."""
    columns: dict[str, pa.Array] = {
        "id": about.ids.cast(pa.large_string()),
        "source": about.source.cast(pa.large_string()),
    }
    for name, values in about.meta.items():
        if name in columns or name in ("part", "block", "row"):
            raise UsageError(f"--meta {name}: a column of that name is the store's own; choose another name")
        columns[name] = values.cast(pa.list_(pa.large_string()) if name in LISTS else pa.large_string())
    return pa.table(columns)


def as_stream(table: pa.Table) -> np.ndarray:
    """A table as the bytes of an Arrow stream, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
        out.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


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


def prepare_piece(task: Task, tokenizer: Tokenizer, line: int) -> Prepared:
    """Parse, tokenise and count one piece.  Documents whose id hashes below ``line`` are left out of the type counts
    for now (they may become held-out documents)."""
    crc, room = raw_crc(task.piece.data), task.options.room
    run, rejects = task.run()
    task = replace(task, piece=replace(task.piece, data=None))  # the raw bytes go
    about = run.about
    characters = discarded = unspaced = 0
    types = offsets = None
    weighted, vectors = False, 0
    if isinstance(run, TextRun):
        counted = tokenizer.count(run, _ask(room, run) if room is not None else None)
        types, offsets = counted.types, counted.type_offsets
        indptr, words, counts = counted.indptr, counted.words, counted.counts
        characters, discarded, unspaced = counted.characters, counted.discarded, counted.unspaced
        n_types = len(offsets) - 1
    else:
        assert isinstance(run, CountRun) and task.words is not None
        indptr, words, counts = run.indptr, run.words, run.counts
        n_types = len(task.words)
        weighted, vectors = counts.dtype.kind == "f", n_types if run.vectors else 0
    if least := task.options.min_tokens:
        indptr, words, counts, about = long_enough(indptr, words, counts, about, least)
        rejects.notes[f"left out, of fewer than {least} words"] += len(run) - len(about.ids)
    high, low = hash_ids(about.ids)
    taken = high >= np.uint64(line) if line < 1 << 64 else np.zeros(len(high), np.bool_)
    type_counts, type_df = np.zeros(n_types, np.int64), np.zeros(n_types, np.int64)
    weights = np.ones(len(counts), np.int32) if weighted else counts
    sum_types(indptr, words, weights, taken, 1, type_counts, type_df)
    if weighted:
        stored = counts.astype(np.float32, copy=False)
    else:
        if len(counts) and int(counts.max()) >= 1 << 31:
            raise InputError(f"{task.name}: a count of 2^31 or more in one cell; no corpus has such")
        stored = counts.astype(np.int32, copy=False)
    arrays = {
        "lengths": np.diff(indptr).astype(np.uint32),
        "words": words.astype(np.int32, copy=False),
        "counts": stored,
    }
    if types is not None and offsets is not None:
        arrays |= {"types": types, "type_lengths": np.diff(offsets).astype(np.uint32)}
    table = metadata(about)
    gone_high, gone_low = hash_ids(about.deleted if about.deleted is not None else table["id"].chunk(0)[:0])
    document_arrays = {"high": high, "low": low, "taken": taken, "gone_high": gone_high, "gone_low": gone_low}
    document_arrays["metadata"] = as_stream(table)
    return Prepared(
        number=task.number,
        docs=len(high),
        cells=len(words),
        tokens=float(counts.sum(dtype=np.float64)) if weighted else int(counts.sum(dtype=np.int64)),
        weighted=weighted,
        vectors=vectors,
        types=types,
        type_offsets=offsets,
        type_counts=type_counts,
        type_df=type_df,
        cells_frame=encode_frame(arrays, docs=len(high)),
        docs_frame=encode_frame(document_arrays, docs=len(high)),
        high=high,
        columns={n: "list" if n in LISTS else "string" for n in table.column_names},
        rejects=rejects,
        characters=characters,
        discarded=discarded,
        unspaced=unspaced,
        crc=crc,
        whole=about.whole,
    )


def totals_of(prepared: Prepared) -> Counter[str]:
    """The figures of the summary that add up over pieces."""
    return Counter(
        documents=prepared.docs,
        cells=prepared.cells,
        characters=prepared.characters,
        discarded=prepared.discarded,
        unspaced=prepared.unspaced,
        rejected=len(prepared.rejects),
    )
