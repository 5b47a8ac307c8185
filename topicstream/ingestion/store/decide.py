"""Once everything is read: which documents count, and which of them are held out.

Documents are identified by the hash of their id (``corpus/documents.py``). A withdrawal ends a
life of its id: of the documents of one life one is kept, and of the lives the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, NothingKept
from topicstream.base.relations import Relations
from topicstream.corpus.documents import hash_ids, read_documents
from topicstream.corpus.forgotten import ForgottenIds
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.parts.journal import Journal
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
    """Which documents count and which are held out.

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
        """How many new documents are TRAIN, HELDOUT or DROPPED."""
        return sum(int(np.isin(piece, kinds).sum()) for piece in self.classes)

    @property
    def dropped(self) -> dict[str, int]:
        """How many new documents do not count, by why."""
        new = self.reason[self.first :]
        names = {
            "duplicates": DUPLICATE,
            "replaced": REPLACED,
            "deleted": DELETED,
            "forgotten": FORGOTTEN,
        }
        return {name: int(np.count_nonzero(new == code)) for name, code in names.items()}


def decide(
    journal: Journal,
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
    starts = [0 if base is None else sum(part.docs for part in base.manifest.parts.values())]
    for numbers, batch in (
        read_documents(base.path, base.manifest.docs, ["id"]) if base is not None else ()
    ):
        still_there = np.isin(numbers, removed, invert=True)
        high, low = hash_ids(batch["id"])
        relations.insert(
            "events", _events(high[still_there], low[still_there], 2 * numbers[still_there] + 1)
        )
    for i in range(len(journal.docs)):
        arrays = journal.docs.read(i)
        starts.append(starts[-1] + len(arrays["high"]))
        numbers = np.arange(starts[-2], starts[-1])
        relations.insert("events", _events(arrays["high"], arrays["low"], 2 * numbers + 1))
        gone = np.full(len(arrays["gone_high"]), 2 * starts[-1])
        relations.insert("events", _events(arrays["gone_high"], arrays["gone_low"], gone))
    reason = np.zeros(starts[-1], np.uint8)
    for listed in forgotten if len(reason) else ():
        reason[_take_forgotten(relations, listed, starts[0])] = FORGOTTEN
    other, code = ("next", REPLACED) if rule == "replace" else ("previous", DUPLICATE)
    dropped = (
        f"select number, {other} as other from ({_LIVES}) where {other} is not null or ended "
        f"order by number"
    )
    for batch in relations.stream(dropped) if len(reason) else ():
        again = batch["other"].is_valid().to_numpy(zero_copy_only=False)
        if rule == "fail" and again.any():
            later, earlier = (
                int(batch[name].filter(pa.array(again))[0].as_py()) for name in ("number", "other")
            )
            place = _place_as_id(journal, starts, later)
            raise InputError(
                f"{_name(journal, base, starts, later)}: the same id as "
                f"{_name(journal, base, starts, earlier)} "
                f"(--on-duplicate skip or replace takes the first or the last)"
                + ("" if place is None else f"; {CALLED_BY_PLACE}")
            )
        reason[batch["number"].to_numpy()] = np.where(again, code, DELETED)
    relations.clear()
    threshold = (
        int(base.manifest.heldout.threshold, 16)
        if base is not None
        else _threshold(journal, reason, heldout)
    )
    decision = Decision(heldout, reason, threshold, starts[0], np.array(starts), [])
    decision = replace(decision, classes=_classes(journal, decision))
    if (
        base is None
        and heldout.parts
        and heldout.too_many(decision.documents(HELDOUT), decision.documents(TRAIN, HELDOUT))
    ):
        decision = replace(
            decision,
            heldout=heldout.by_part(),
            threshold=_threshold(journal, reason, heldout.by_part()),
        )
        decision = replace(decision, classes=_classes(journal, decision))
    return decision


def _take_forgotten(relations: Relations, listed: ForgottenIds, first: int) -> np.ndarray:
    """Take the new documents of forgotten ids out of the events; their numbers, int64[]."""
    relations.insert("forgotten", pa.table({"hash": pa.array(listed.hashes, pa.string())}))
    which = (
        f"time % 2 = 1 and time // 2 >= {first} and {listed.sql()} in (select hash from forgotten)"
    )
    batches = relations.stream(f"select time // 2 as number from events where {which}")
    numbers = [batch["number"].to_numpy() for batch in batches]
    relations.execute(f"delete from events where {which}")
    relations.execute("delete from forgotten")
    return np.concatenate([np.zeros(0, np.int64), *numbers])


def _classes(journal: Journal, decision: Decision) -> list[np.ndarray]:
    """TRAIN, HELDOUT or DROPPED by document, uint8[D] of each piece."""
    classes = []
    for i, (start, stop) in enumerate(pairwise(decision.starts.tolist())):
        classes.append(
            (_split(journal, i, decision.heldout) < np.uint64(decision.threshold)).astype(np.uint8)
        )
        classes[-1][decision.reason[start:stop] != 0] = DROPPED
    return classes


def _events(high: np.ndarray, low: np.ndarray, time: np.ndarray) -> pa.Table:
    """What happens to ids: ``time`` is 2n + 1 for document n, 2n for a withdrawal before it."""
    return pa.table({"high": high, "low": low, "time": time.astype(np.int64)})


def _split(journal: Journal, piece: int, heldout: Heldout) -> np.ndarray:
    """uint64[D], compared with the threshold: the hash of the id, or of the field that decides.  Of
    a field that must have a value: 0 where the document has it, else the largest number; of others
    the hash of the id where a document has none.
    """
    arrays = journal.docs.read(piece)
    if heldout.split is None:
        return arrays["high"]
    name, value = heldout.split
    table = piece_metadata(arrays)
    if name not in table.column_names:
        raise NothingKept(
            f"--heldout {name}: no document has that field; there are "
            f"{', '.join(table.column_names)} (--meta keeps more)"
        )
    column = table[name].combine_chunks()
    if pa.types.is_list(column.type):
        if value is None:
            raise NothingKept(
                f"--heldout-by {name}: a document may have several; choose a field of one value"
            )
        owner = np.repeat(np.arange(len(column)), column.value_lengths().fill_null(0).to_numpy())
        equal = pc.equal(column.flatten(), value).fill_null(False).to_numpy(zero_copy_only=False)
        is_heldout = np.bincount(owner[equal], minlength=len(column)) > 0
    else:
        texts = pc.fill_null(column.cast(pa.large_string()), "")
        is_heldout = pc.equal(texts, "" if value is None else value).to_numpy(zero_copy_only=False)
        if value is None:
            return np.where(is_heldout, arrays["high"], hash_ids(texts)[0])
    return np.where(is_heldout, np.uint64(0), np.uint64(LARGEST))


def _threshold(journal: Journal, reason: np.ndarray, heldout: Heldout) -> int:
    """The threshold below which so many documents that count lie as are to be held out."""
    if heldout.where is not None:
        return 1
    wanted = heldout.number_wanted(int(np.count_nonzero(reason == 0)))
    if wanted is None:
        return min(
            int((HELDOUT_SHARE if heldout.share is None else heldout.share) * 2**64), 2**64 - 1
        )
    smallest = np.zeros(0, np.uint64)
    start = 0
    for i in range(len(journal.docs)):
        split = _split(journal, i, heldout)
        smallest = np.concatenate((smallest, split[reason[start : start + len(split)] == 0]))
        start += len(split)
        if len(smallest) > wanted > 0:
            smallest = np.partition(smallest, wanted - 1)[:wanted]
    return min(int(smallest.max()) + 1, LARGEST) if wanted and len(smallest) else 0


def _name(journal: Journal, base: Corpus | None, starts: list[int], number: int) -> str:
    """How a document is called in a message."""
    if number < starts[0] and base is not None:
        [old] = [
            b["id"][number - int(n[0])]
            for n, b in read_documents(base.path, base.manifest.docs, ["id"])
            if number in n
        ]
        return f"document {old.as_py()!r} of {base.path}"
    piece = int(np.searchsorted(starts, number, "right")) - 1
    table = piece_metadata(journal.docs.read(piece))
    row = number - starts[piece]
    return f"{table['source'][row].as_py()}: document {table['id'][row].as_py()!r}"


def _place_as_id(journal: Journal, starts: Sequence[int], number: int) -> str | None:
    """Return what a new document is called where that is its file (and line), for want of an id."""
    piece = int(np.searchsorted(starts, number, "right")) - 1
    table = piece_metadata(journal.docs.read(piece))
    row = number - starts[piece]
    name = table["id"][row].as_py()
    return str(name) if name == table["source"][row].as_py() else None


def find_taken_place(journal: Journal, decision: Decision) -> str | None:
    """Find a document that was skipped because another is called by the same file (and line)."""
    skipped = np.flatnonzero(decision.reason[decision.first :] == DUPLICATE)
    if not len(skipped):
        return None
    return _place_as_id(journal, decision.starts.tolist(), decision.first + int(skipped[0]))


def piece_metadata(arrays: dict[str, np.ndarray]) -> pa.Table:
    """The metadata of a documents frame."""
    with pa.ipc.open_stream(pa.py_buffer(arrays["metadata"])) as stream:
        return stream.read_all()
