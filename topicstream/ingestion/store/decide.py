"""Once everything is read: which documents count, and which of them are held out.

Documents are identified by the hash of their id (``corpus/documents.py``). A withdrawal ends a
life of its id: of the documents of one life one is kept, and of the lives the last.
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
"""Why documents that are none have the same id."""

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

    heldout     the rule
    reason      uint8[old + new documents]: 0 (it counts), DUPLICATE, REPLACED, DELETED or
                FORGOTTEN
    threshold   documents whose hash lies below it are held out
    first       number of the first new document
    starts      int64[pieces + 1]: number of each piece's first document
    classes     of each piece uint8[D]: TRAIN, HELDOUT or DROPPED
    """

    heldout: Heldout
    reason: np.ndarray
    threshold: int
    first: int
    starts: np.ndarray
    classes: list[np.ndarray]

    @property
    def replaced(self) -> np.ndarray:
        """Numbers of the documents of the old store that are withdrawn or replaced, int64."""
        return np.flatnonzero(self.reason[: self.first])

    def documents(self, *kinds: int) -> int:
        """Count the new documents that are TRAIN, HELDOUT or DROPPED."""
        return sum(int(np.isin(piece, kinds).sum()) for piece in self.classes)

    @property
    def dropped(self) -> dict[str, int]:
        """Count the new documents that do not count, by why."""
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
    rule
        ``skip`` keeps the first document of an id, ``replace`` the last, ``fail`` raises
        InputError. A withdrawal removes what came before it under any rule.
    relations
        Without tables, before and after; sorts the ids.
    removed
        Numbers of documents of the old store that are withdrawn already.
    forgotten
        Lists of ids whose new documents do not count.
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
    threshold = (
        int(base.manifest.heldout.threshold, 16)
        if base is not None
        else _threshold(working, reason, heldout)
    )
    decision = Decision(heldout, reason, threshold, starts[0], np.array(starts), [])
    decision = replace(decision, classes=_classes(working, decision))
    if (
        base is None
        and heldout.parts
        and heldout.too_many(decision.documents(HELDOUT), decision.documents(TRAIN, HELDOUT))
    ):
        decision = replace(
            decision,
            heldout=heldout.by_part(),
            threshold=_threshold(working, reason, heldout.by_part()),
        )
        decision = replace(decision, classes=_classes(working, decision))
    return decision


Events = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Events of ids: their hashes (high, low), uint64[n], and times.

The time is 2n + 1 for document n, and 2n for a withdrawal before it.
"""


def _starts(working: WorkingFolder, base: Corpus | None) -> list[int]:
    """Return the number of each piece's first document, and of the next that would come."""
    starts = [0 if base is None else sum(part.docs for part in base.manifest.parts.values())]
    for piece in working.pieces("withdrawn"):
        starts.append(starts[-1] + len(piece.documents))
    return starts


def _read_events(
    working: WorkingFolder, base: Corpus | None, removed: np.ndarray, starts: list[int]
) -> Iterator[Events]:
    """Yield what happens to ids, in the store and then piece by piece."""
    for numbers, batch in (
        read_documents(base.path, base.manifest.docs, ["id"]) if base is not None else ()
    ):
        still_there = np.isin(numbers, removed, invert=True)
        high, low = hash_ids(batch["id"])
        yield high[still_there], low[still_there], 2 * numbers[still_there] + 1
    for piece, (start, stop) in zip(working.pieces("id"), pairwise(starts), strict=True):
        yield *piece.hashes, 2 * np.arange(start, stop) + 1
        if len(piece.withdrawn):
            yield *hash_ids(piece.withdrawn["id"]), np.full(len(piece.withdrawn), 2 * stop)


def _repeated_hashes(events: Iterator[Events], most_bytes: int) -> np.ndarray | None:
    """Return the high hashes that come more than once, ascending.

    None: these are too many to sort.

    Ids are mostly distinct, and sorting eight bytes of each shows it.
    """
    parts = [np.zeros(0, np.uint64)]
    size = 0
    for high, _, _ in events:
        parts.append(high)
        size += high.nbytes
        if 2 * size > most_bytes:
            return None
    every = np.concatenate(parts)
    every.sort()
    return np.unique(every[1:][every[1:] == every[:-1]])


def _relate_events(
    relations: Relations, events: Iterator[Events], repeated: np.ndarray | None
) -> None:
    """Fill the table ``events``, of all ids or of those with repeated hashes."""
    for high, low, time in events:
        columns = {"high": high, "low": low, "time": time.astype(np.int64)}
        if repeated is not None:
            place = np.searchsorted(repeated, high).clip(max=len(repeated) - 1)
            chosen = repeated[place] == high
            columns = {name: values[chosen] for name, values in columns.items()}
        relations.insert("events", pa.table(columns))


def _mark_dropped(
    relations: Relations, rule: str, reason: np.ndarray, describe: Callable[[int, int], str]
) -> None:
    """Enter into ``reason`` why documents do not count.

    Raises InputError under the rule ``fail``.
    """
    other, code = ("next", REPLACED) if rule == "replace" else ("previous", DUPLICATE)
    dropped = (
        f"select number, {other} as other from ({_LIVES}) where {other} is not null or ended "
        f"order by number"
    )
    for batch in relations.stream(dropped):
        again = batch["other"].is_valid().to_numpy(zero_copy_only=False)
        if rule == "fail" and again.any():
            later, earlier = (
                int(batch[which].filter(pa.array(again))[0].as_py())
                for which in ("number", "other")
            )
            raise InputError(describe(later, earlier))
        reason[batch["number"].to_numpy()] = np.where(again, code, DELETED)


def _take_forgotten(relations: Relations, listed: ForgottenIds, first: int) -> np.ndarray:
    """Take the new documents of forgotten ids out of the events.

    Returns their numbers, int64[].
    """
    relations.insert("forgotten", pa.table({"hash": pa.array(listed.hashes, pa.string())}))
    which = (
        f"time % 2 = 1 and time // 2 >= {first} and {listed.sql()} in (select hash from forgotten)"
    )
    batches = relations.stream(f"select time // 2 as number from events where {which}")
    numbers = [batch["number"].to_numpy() for batch in batches]
    relations.execute(f"delete from events where {which}")
    relations.execute("delete from forgotten")
    return np.concatenate([np.zeros(0, np.int64), *numbers])


def _classes(working: WorkingFolder, decision: Decision) -> list[np.ndarray]:
    """TRAIN, HELDOUT or DROPPED by document, uint8[D] of each piece."""
    classes = []
    splits = _splits(working, decision.heldout)
    for split, (start, stop) in zip(splits, pairwise(decision.starts.tolist()), strict=True):
        classes.append((split < np.uint64(decision.threshold)).astype(np.uint8))
        classes[-1][decision.reason[start:stop] != 0] = DROPPED
    return classes


def _splits(working: WorkingFolder, heldout: Heldout) -> Iterator[np.ndarray]:
    """Yield the numbers of each piece that the threshold is compared with, uint64[D].

    They are the hash of the id, or of the field that decides. Of a field that must have a value: 0
    where the document has it, else the largest number. Of others the hash of the id where a
    document has none.
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
    column = piece.documents[name]
    if pa.types.is_list(column.type):
        if value is None:
            raise NothingKept(
                f"--heldout-by {name}: a document may have several; choose a field of one value"
            )
        owner = np.repeat(np.arange(len(column)), column.value_lengths().fill_null(0).to_numpy())
        equal = pc.equal(column.flatten(), value).fill_null(False).to_numpy(zero_copy_only=False)
        is_heldout = np.bincount(owner[equal], minlength=len(column)) > 0
    else:
        texts = pc.fill_null(column.cast(TEXT), "")
        is_heldout = pc.equal(texts, "" if value is None else value).to_numpy(zero_copy_only=False)
        if value is None:
            return np.where(is_heldout, piece.hashes[0], hash_ids(texts)[0])
    return np.where(is_heldout, np.uint64(0), np.uint64(LARGEST))


def _threshold(working: WorkingFolder, reason: np.ndarray, heldout: Heldout) -> int:
    """Return the threshold below which as many documents lie as are to be held out."""
    if heldout.where is not None:
        return 1
    number = heldout.number_to_hold_out(int(np.count_nonzero(reason == 0)))
    if number is None:
        return min(
            int((HELDOUT_SHARE if heldout.share is None else heldout.share) * 2**64), 2**64 - 1
        )
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
    """Say in a message that two documents have the same id."""
    place = _place_as_id(working, starts, later)
    return (
        f"{_name(working, base, starts, later)}: the same id as "
        f"{_name(working, base, starts, earlier)} "
        f"(--on-duplicate skip or replace takes the first or the last)"
        + ("" if place is None else f"; {CALLED_BY_PLACE}")
    )


def _name(working: WorkingFolder, base: Corpus | None, starts: list[int], number: int) -> str:
    """Return the name of a document for a message."""
    if number < starts[0] and base is not None:
        [old] = [
            b["id"][number - int(n[0])]
            for n, b in read_documents(base.path, base.manifest.docs, ["id"])
            if number in n
        ]
        return f"document {old.as_py()!r} of {base.path}"
    name, source = _name_and_source(working, starts, number)
    return f"{source}: document {name!r}"


def _name_and_source(working: WorkingFolder, starts: Sequence[int], number: int) -> tuple[str, str]:
    """Return the id and the source of a new document."""
    index = int(np.searchsorted(starts, number, "right")) - 1
    piece = next(islice(working.pieces("id", "source"), index, None)).documents
    row = number - starts[index]
    return piece["id"][row].as_py(), piece["source"][row].as_py()


def _place_as_id(working: WorkingFolder, starts: Sequence[int], number: int) -> str | None:
    """Return what a new document is called where that is its file (and line), for want of an id."""
    name, source = _name_and_source(working, starts, number)
    return name if name == source else None


def find_taken_place(working: WorkingFolder, decision: Decision) -> str | None:
    """Find a document that was skipped because another is called by the same file (and line)."""
    skipped = np.flatnonzero(decision.reason[decision.first :] == DUPLICATE)
    if not len(skipped):
        return None
    return _place_as_id(working, decision.starts.tolist(), decision.first + int(skipped[0]))
