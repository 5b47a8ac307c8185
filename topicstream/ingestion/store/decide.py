"""Decide which documents count, and which of them are held out, once everything is read.

Documents are identified by the hash of their id (``corpus/documents.py``). Events of an id are its
documents and its withdrawals, in the order of the input. A withdrawal ends a life of the id. Only
documents of the last life count, and of these only the first or the last (``--on-duplicate``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, NothingKept
from topicstream.base.relations import Relations
from topicstream.corpus.documents import hash_ids, read_documents
from topicstream.corpus.forgotten import ForgottenIds
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.parse.documents import TEXT
from topicstream.ingestion.parts.part_files import PieceRows
from topicstream.ingestion.parts.working_folder import WorkingFolder
from topicstream.ingestion.settings import HELDOUT_SHARE, Heldout

TRAIN = 0
HELDOUT = 1
DROPPED = 2
DUPLICATE = 1
REPLACED = 2
DELETED = 3
FORGOTTEN = 4
LARGEST = 2**64 - 1
CALLED_BY_PLACE = (
    "documents without ids are called by their files; if these are others, rename the file or "
    "give --id-field NAME"
)
"""Advice about different documents with the same id."""

_LIVES = """
    select number, life < last_life as ended,
        lag(number) over same_life as previous, lead(number) over same_life as next
    from (
        select time // 2 as number, time % 2 as document, high, low,
            sum(1 - time % 2) over (partition by high, low order by time) as life,
            sum(1 - time % 2) over (partition by high, low) as last_life
        from events
    )
    where document = 1
    window same_life as (partition by high, low, life order by number)
"""


@dataclass(frozen=True)
class Decision:
    """Choice of the documents that count, and of those held out.

    Attributes
    ----------
    heldout
        The rule.
    reason
        uint8[old + new documents]: 0 (it counts), DUPLICATE, REPLACED, DELETED or FORGOTTEN.
    threshold
        Documents with a hash below it are held out.
    first
        Number of the first new document.
    starts
        int64[pieces + 1]: number of each piece's first document.
    classes
        uint8[D] of each piece: TRAIN, HELDOUT or DROPPED.
    """

    heldout: Heldout
    reason: np.ndarray
    threshold: int
    first: int
    starts: np.ndarray
    classes: list[np.ndarray]

    @property
    def replaced(self) -> np.ndarray:
        """Return the numbers of the old store's documents that go, int64."""
        return np.flatnonzero(self.reason[: self.first])

    def documents(self, *kinds: int) -> int:
        """Count the new documents that are TRAIN, HELDOUT or DROPPED."""
        return sum(int(np.isin(piece, kinds).sum()) for piece in self.classes)

    @property
    def dropped(self) -> dict[str, int]:
        """Count the new documents that do not count, by reason."""
        new = self.reason[self.first :]
        names = {
            "duplicates": DUPLICATE,
            "replaced": REPLACED,
            "deleted": DELETED,
            "forgotten": FORGOTTEN,
        }
        return {name: int(np.count_nonzero(new == code)) for name, code in names.items()}


def decide(
    working: WorkingFolder,
    base: Corpus | None,
    rule: str,
    heldout: Heldout,
    relations: Relations,
    removed: np.ndarray,
    forgotten: Sequence[ForgottenIds] = (),
) -> Decision:
    """Resolve duplicates and withdrawals, then fix the threshold.

    Parameters
    ----------
    working
        The working folder, with the new documents.
    base
        The store that is appended to, or None.
    rule
        ``skip`` keeps the first document of an id, ``replace`` the last, ``fail`` raises
        InputError. A withdrawal removes earlier documents under any rule.
    heldout
        The rule by which documents are set aside.
    relations
        Query engine that sorts the ids; without tables, before and after.
    removed
        Numbers of documents of the old store that are withdrawn already.
    forgotten
        Lists of ids whose new documents do not count.

    Raises
    ------
    InputError
        If two documents have the same id under the rule ``fail``.
    NothingKept
        If no document has the field that the held-out rule names.
    """
    starts = _starts(working, base)
    reason = np.zeros(starts[-1], np.uint8)
    if len(reason):
        read = partial(_read_events, working, base, removed, starts)
        repeated = None if forgotten else _repeated_hashes(read(), relations.memory // 2)
        if repeated is None or len(repeated):
            _relate_events(relations, read(), repeated)
            for listed in forgotten:
                reason[_take_forgotten(relations, listed, starts[0])] = FORGOTTEN
            _mark_dropped(relations, rule, reason, partial(_describe_pair, working, base, starts))
            relations.clear()
    if base is not None:
        threshold = int(base.manifest.heldout.threshold, 16)
    else:
        threshold = _threshold(working, reason, heldout)
    decision = Decision(heldout, reason, threshold, starts[0], np.array(starts), [])
    decision = replace(decision, classes=_classes(working, decision))
    if base is not None or not heldout.parts:
        return decision
    if heldout.too_many(decision.documents(HELDOUT), decision.documents(TRAIN, HELDOUT)):
        # a few long documents: their parts are set aside one by one
        rule_by_part = heldout.by_part()
        threshold = _threshold(working, reason, rule_by_part)
        decision = replace(decision, heldout=rule_by_part, threshold=threshold)
        decision = replace(decision, classes=_classes(working, decision))
    return decision


Events = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Events of ids: the hashes of the ids (high and low, uint64[n] each), and times.

The time is 2n + 1 for document n, and 2n for a withdrawal before it.
"""


def _starts(working: WorkingFolder, base: Corpus | None) -> list[int]:
    """Return the number of each piece's first document, and of the document after the last."""
    starts = [0 if base is None else sum(part.docs for part in base.manifest.parts.values())]
    for piece in working.pieces("withdrawn"):
        starts.append(starts[-1] + len(piece.documents))
    return starts


def _read_events(
    working: WorkingFolder, base: Corpus | None, removed: np.ndarray, starts: list[int]
) -> Iterator[Events]:
    """Yield the events of ids, in the store and then piece by piece."""
    if base is not None:
        for numbers, batch in read_documents(base.path, base.manifest.docs, ["id"]):
            is_present = np.isin(numbers, removed, invert=True)
            high, low = hash_ids(batch["id"])
            yield high[is_present], low[is_present], 2 * numbers[is_present] + 1
    for piece, (start, stop) in zip(working.pieces("id"), pairwise(starts), strict=True):
        yield *piece.hashes, 2 * np.arange(start, stop) + 1
        if len(piece.withdrawn):
            yield *hash_ids(piece.withdrawn["id"]), np.full(len(piece.withdrawn), 2 * stop)


def _repeated_hashes(events: Iterator[Events], most_bytes: int) -> np.ndarray | None:
    """Return the high hashes that occur more than once, ascending.

    Ids are mostly distinct, and sorting eight bytes of each shows it.

    Returns
    -------
    ndarray or None
        uint64[]; None if there are too many ids for the memory.
    """
    parts = [np.zeros(0, np.uint64)]
    size = 0
    for high, _, _ in events:
        parts.append(high)
        size += high.nbytes
        if 2 * size > most_bytes:
            return None
    hashes = np.concatenate(parts)
    hashes.sort()
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def _relate_events(
    relations: Relations, events: Iterator[Events], repeated: np.ndarray | None
) -> None:
    """Fill the table ``events``, of all ids or of those with repeated hashes."""
    for high, low, time in events:
        columns = {"high": high, "low": low, "time": time.astype(np.int64)}
        if repeated is not None:
            position = np.searchsorted(repeated, high).clip(max=len(repeated) - 1)
            is_repeated = repeated[position] == high
            columns = {name: values[is_repeated] for name, values in columns.items()}
        relations.insert("events", pa.table(columns))


def _mark_dropped(
    relations: Relations, rule: str, reason: np.ndarray, describe: Callable[[int, int], str]
) -> None:
    """Write the reasons of documents that do not count into ``reason``.

    Parameters
    ----------
    relations
        Query engine with the table ``events``.
    rule
        As of ``decide``.
    reason
        As of ``Decision``.
    describe
        Makes a message about two documents with the same id, by their numbers.

    Raises
    ------
    InputError
        If two documents have the same id under the rule ``fail``.
    """
    if rule == "replace":
        neighbour = "next"
        code = REPLACED
    else:
        neighbour = "previous"
        code = DUPLICATE
    dropped = (
        f"select number, {neighbour} as neighbour from ({_LIVES}) "
        f"where {neighbour} is not null or ended order by number"
    )
    for batch in relations.stream(dropped):
        has_neighbour = batch["neighbour"].is_valid()
        if rule == "fail" and pc.any(has_neighbour).as_py():
            pair = batch.filter(has_neighbour)
            raise InputError(describe(pair["number"][0].as_py(), pair["neighbour"][0].as_py()))
        is_repeated = has_neighbour.to_numpy(zero_copy_only=False)
        reason[batch["number"].to_numpy()] = np.where(is_repeated, code, DELETED)


def _take_forgotten(relations: Relations, listed: ForgottenIds, first: int) -> np.ndarray:
    """Remove the new documents of forgotten ids from the events, and return their numbers."""
    relations.insert("forgotten", pa.table({"hash": pa.array(listed.hashes, pa.string())}))
    condition = (
        f"time % 2 = 1 and time // 2 >= {first} and {listed.sql()} in (select hash from forgotten)"
    )
    batches = relations.stream(f"select time // 2 as number from events where {condition}")
    numbers = [batch["number"].to_numpy() for batch in batches]
    relations.execute(f"delete from events where {condition}")
    relations.execute("delete from forgotten")
    return np.concatenate([np.zeros(0, np.int64), *numbers])


def _classes(working: WorkingFolder, decision: Decision) -> list[np.ndarray]:
    """Return the class of each document, TRAIN, HELDOUT or DROPPED, uint8[D] of each piece."""
    classes = []
    splits = _splits(working, decision.heldout)
    for split, (start, stop) in zip(splits, pairwise(decision.starts.tolist()), strict=True):
        classes.append((split < np.uint64(decision.threshold)).astype(np.uint8))
        classes[-1][decision.reason[start:stop] != 0] = DROPPED
    return classes


def _splits(working: WorkingFolder, heldout: Heldout) -> Iterator[np.ndarray]:
    """Yield the numbers of each piece's documents that the threshold is compared with, uint64[D].

    They are hashes of the id, or of the field that names groups (of the id if the field is empty).
    For ``--heldout FIELD=VALUE`` they are 0 if a document has the value, and else the largest
    number.
    """
    if heldout.split is None:
        for piece in working.pieces("id"):
            yield piece.hashes[0]
        return
    name, value = heldout.split
    for piece in working.pieces("id", name):
        if name not in piece.documents.schema.names:
            raise NothingKept(
                f"--heldout {name}: no document has that field; there are "
                f"{', '.join(working.state.columns)} (--meta keeps more)"
            )
        yield _split_by_field(piece, name, value)


def _split_by_field(piece: PieceRows, name: str, value: str | None) -> np.ndarray:
    """Return the numbers of ``_splits`` by a field, or by a value of it, uint64[D]."""
    column = piece.documents[name]
    if pa.types.is_list(column.type):
        if value is None:
            raise NothingKept(
                f"--heldout-by {name}: a document may have several; choose a field of one value"
            )
        owner = np.repeat(np.arange(len(column)), column.value_lengths().fill_null(0).to_numpy())
        equal = pc.equal(column.flatten(), value).fill_null(False).to_numpy(zero_copy_only=False)
        has_value = np.bincount(owner[equal], minlength=len(column)) > 0
    else:
        texts = pc.fill_null(column.cast(TEXT), "")
        if value is None:
            is_empty = pc.equal(texts, "").to_numpy(zero_copy_only=False)
            return np.where(is_empty, piece.hashes[0], hash_ids(texts)[0])
        has_value = pc.equal(texts, value).to_numpy(zero_copy_only=False)
    return np.where(has_value, np.uint64(0), np.uint64(LARGEST))


def _threshold(working: WorkingFolder, reason: np.ndarray, heldout: Heldout) -> int:
    """Return the threshold below which as many documents lie as the rule holds out."""
    if heldout.where is not None:
        return 1
    number = heldout.number_to_hold_out(int(np.count_nonzero(reason == 0)))
    if number is None:
        share = HELDOUT_SHARE if heldout.share is None else heldout.share
        return min(int(share * 2**64), LARGEST)
    smallest = np.zeros(0, np.uint64)
    start = 0
    for split in _splits(working, heldout):
        smallest = np.concatenate((smallest, split[reason[start : start + len(split)] == 0]))
        start += len(split)
        if len(smallest) > number > 0:
            smallest = np.partition(smallest, number - 1)[:number]
    return min(int(smallest.max()) + 1, LARGEST) if number and len(smallest) else 0


def _describe_pair(
    working: WorkingFolder, base: Corpus | None, starts: list[int], later: int, earlier: int
) -> str:
    """Make a message about two documents with the same id."""
    text = (
        f"{_name(working, base, starts, later)}: the same id as "
        f"{_name(working, base, starts, earlier)} "
        f"(--on-duplicate skip or replace takes the first or the last)"
    )
    is_called_by_place = _place_as_id(working, starts, later) is not None
    return f"{text}; {CALLED_BY_PLACE}" if is_called_by_place else text


def _name(working: WorkingFolder, base: Corpus | None, starts: list[int], number: int) -> str:
    """Return the name of a document for a message."""
    if number < starts[0] and base is not None:
        for numbers, batch in read_documents(base.path, base.manifest.docs, ["id"]):
            if number in numbers:
                old_id = batch["id"][number - int(numbers[0])].as_py()
                return f"document {old_id!r} of {base.path}"
    name, source = _name_and_source(working, starts, number)
    return f"{source}: document {name!r}"


def _name_and_source(working: WorkingFolder, starts: Sequence[int], number: int) -> tuple[str, str]:
    """Return the id and the source of a new document."""
    index = int(np.searchsorted(starts, number, "right")) - 1
    piece = next(islice(working.pieces("id", "source"), index, None)).documents
    row = number - starts[index]
    return piece["id"][row].as_py(), piece["source"][row].as_py()


def _place_as_id(working: WorkingFolder, starts: Sequence[int], number: int) -> str | None:
    """Return the id of a new document if it has none of its own, and is called by its file."""
    name, source = _name_and_source(working, starts, number)
    return name if name == source else None


def find_taken_place(working: WorkingFolder, decision: Decision) -> str | None:
    """Find a document that was skipped because another one is called by the same file."""
    skipped = np.flatnonzero(decision.reason[decision.first :] == DUPLICATE)
    if not len(skipped):
        return None
    return _place_as_id(working, decision.starts.tolist(), decision.first + int(skipped[0]))
