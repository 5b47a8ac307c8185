"""Once everything is read: which documents count, which are held out, and the training counts made exact."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from topicstream.corpus.documents import read_documents
from topicstream.corpus.id_hash import hash_ids
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.settings import Heldout
from topicstream.ingestion.spooling.journal import Journal
from topicstream.ingestion.spooling.prepare import sum_types
from topicstream.ingestion.storing.identity import DELETED, DUPLICATE, EVENT, REPLACED, Events, deletion_orders
from topicstream.parallel.order import pooled
from topicstream.tokens.builder import VocabularyBuilder
from topicstream.tokens.sequences import gathered

TRAIN, HELDOUT, DROPPED = 0, 1, 2

AT_ONCE = 1 << 19
"""Ids sorted at a time (about 100 bytes each while that goes on), so that memory stays the same however many there are."""


@dataclass
class Decision:
    """reason: uint8[old + new documents] (identity.py); threshold: hashes below are held out; first: number of the first
    new document; starts: int64[pieces + 1] number of each piece's first document."""

    reason: np.ndarray
    threshold: int
    first: int
    starts: np.ndarray
    dropped: dict[str, int]

    def classes(self, piece: int, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """uint8[D]: TRAIN, HELDOUT or DROPPED for the documents of a piece.  arrays: of its frame; ``split``, where a field
        decides who is held out, stands in for the hash of the id."""
        out = (arrays.get("split", arrays["high"]) < np.uint64(self.threshold)).astype(np.uint8)
        out[self.reason[self.starts[piece] : self.starts[piece + 1]] != 0] = DROPPED
        return out

    @property
    def replaced(self) -> np.ndarray:
        """Numbers of the documents of the old store that are withdrawn or replaced, int64."""
        return np.flatnonzero(self.reason[: self.first])


def old_ids(base: Corpus) -> Iterator[tuple[int, pa.Array]]:
    """(number of the first document, ids) of the documents of a store, in order."""
    at = 0
    for batch in read_documents(base.path, base.manifest["docs"], ["id"]):
        yield at, batch.column(0)
        at += len(batch)


def decide(
    journal: Journal, base: Corpus | None, rule: str, heldout: Heldout, memory: int, removed: np.ndarray
) -> Decision:
    """Resolve duplicates and withdrawals, then fix the threshold.  removed: numbers of documents of the old store that
    are gone already.  Raises InputError under the rule ``fail``."""
    events = Events(journal.folder, min(memory // (8 * EVENT.itemsize), AT_ONCE))
    first = 0
    if base is not None:
        for at, ids in old_ids(base):
            high, low = hash_ids(ids)
            numbers = np.arange(at, at + len(ids))
            here = np.isin(numbers, removed, invert=True)
            events.add(high[here], low[here], numbers[here])
            first = at + len(ids)
    starts = [first]
    for i in range(len(journal.docs)):
        arrays, _ = journal.docs.read(i)
        n = len(arrays["high"])
        events.add(arrays["high"], arrays["low"], np.arange(starts[-1], starts[-1] + n))
        starts.append(starts[-1] + n)
        if gone := len(arrays["gone_high"]):
            events.add(arrays["gone_high"], arrays["gone_low"], deletion_orders(starts[-1], gone))
    events.documents = max(events.documents, starts[-1])

    def name(number: int) -> str:
        return _name(journal, base, starts, number)

    try:
        verdict = events.resolve(rule, max(heldout.documents or 0, 50), name)
    finally:
        events.close()
    if base is not None:
        threshold = int(base.manifest["heldout"]["threshold"], 16)
    elif heldout.where is not None:
        threshold = 1
    elif heldout.by is not None:
        threshold = _groups(journal, verdict.reason, heldout.wanted(verdict.kept) or 0)
    else:
        wanted = heldout.wanted(verdict.kept)
        if wanted is None:
            threshold = heldout.threshold_of_share()
        else:
            threshold = min(int(verdict.smallest[wanted - 1]) + 1, 2**64 - 1) if wanted else 0
    new = np.zeros(4, np.int64)
    for at in range(first, len(verdict.reason), AT_ONCE):
        new += np.bincount(verdict.reason[at : at + AT_ONCE], minlength=4)
    named = (("duplicates", DUPLICATE), ("replaced", REPLACED), ("deleted", DELETED))
    dropped = {word: int(new[code]) for word, code in named}
    return Decision(verdict.reason, threshold, first, np.array(starts), dropped)


def _groups(journal: Journal, reason: np.ndarray, wanted: int) -> int:
    """The threshold below which whole groups hold at least ``wanted`` documents that count."""
    smallest, at = np.zeros(0, np.uint64), 0
    for i in range(len(journal.docs)):
        split = journal.docs.read(i)[0]["split"]
        smallest = np.concatenate((smallest, split[reason[at : at + len(split)] == 0]))
        at += len(split)
        if len(smallest) > wanted > 0:
            smallest = np.partition(smallest, wanted - 1)[:wanted]
    return min(int(smallest.max()) + 1, 2**64 - 1) if wanted and len(smallest) else 0


def _name(journal: Journal, base: Corpus | None, starts: list[int], number: int) -> str:
    if number < starts[0] and base is not None:
        for at, ids in old_ids(base):
            if number < at + len(ids):
                return f"document {ids[number - at].as_py()!r} of {base.path}"
    piece = int(np.searchsorted(starts, number, "right")) - 1
    table = piece_metadata(journal.docs.read(piece)[0])
    row = number - starts[piece]
    return f"{table['source'][row].as_py()}: document {table['id'][row].as_py()!r}"


def piece_metadata(arrays: dict[str, np.ndarray]) -> pa.Table:
    """The metadata of a documents frame."""
    with pa.ipc.open_stream(pa.py_buffer(arrays["metadata"])) as stream:
        return stream.read_all()


def _piece_correction(journal: Journal, decision: Decision, piece: int) -> tuple[np.ndarray, np.ndarray, int] | None:
    """(counts, df by the piece's types, number of its types frame) to add; None when the guess was right."""
    arrays, _ = journal.docs.read(piece)
    training = decision.classes(piece, arrays) == TRAIN
    taken = arrays["taken"].astype(np.bool_)
    if (training == taken).all():
        return None
    cells, _ = journal.cells.read(piece)
    frame, shared = journal.state["source_words"][piece]
    lengths = journal.types.read(frame)[0]["type_lengths"] if shared else cells["type_lengths"]
    indptr = np.zeros(len(cells["lengths"]) + 1, np.int64)
    np.cumsum(cells["lengths"], out=indptr[1:])
    counts = cells["counts"]
    weights = np.ones(len(counts), np.int32) if counts.dtype.kind == "f" else counts
    sums, df = np.zeros(len(lengths), np.int64), np.zeros(len(lengths), np.int64)
    sum_types(indptr, cells["words"], weights, training & ~taken, 1, sums, df)
    sum_types(indptr, cells["words"], weights, taken & ~training, -1, sums, df)
    return sums, df, frame


def correct(
    journal: Journal, decision: Decision, builder: VocabularyBuilder, pool: ThreadPoolExecutor, ahead: int
) -> None:
    """Make the builder's counts those of the training documents exactly."""
    shared: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    found = pooled(pool, lambda i: _piece_correction(journal, decision, i), range(len(journal.docs)), ahead)
    for i, correction in enumerate(found):
        if correction is None:
            continue
        sums, df, frame = correction
        if journal.state["source_words"][i][1]:
            if frame in shared:
                shared[frame][0].__iadd__(sums)
                shared[frame][1].__iadd__(df)
            else:
                shared[frame] = (sums, df)
        else:
            _add(builder, journal.cells.read(i)[0], sums, df)
    for frame, (sums, df) in shared.items():
        _add(builder, journal.types.read(frame)[0], sums, df)


def _add(builder: VocabularyBuilder, arrays: dict[str, np.ndarray], sums: np.ndarray, df: np.ndarray) -> None:
    offsets = np.zeros(len(sums) + 1, np.int64)
    np.cumsum(arrays["type_lengths"], out=offsets[1:])
    used = np.flatnonzero((sums != 0) | (df != 0))  # as many documents in as out, of other counts
    types, ends = gathered(arrays["types"], offsets, used)
    builder.add(types, ends, sums[used], df[used])
