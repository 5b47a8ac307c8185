"""What people have made of a model's topics: labels, merges, drops, an order.  A log beside the model; a view of it.

``edits.jsonl`` in the model's folder holds a line an edit, in the order they were made, each with its checksum.  The
trained table is never touched: a *view* maps trained topics to shown ones.  Perplexity always scores the trained table.
Topics are named by their stable ids (``identity.topic_ids``), so that a log can follow them into the next version.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from topicstream.errors import StoreError, UsageError
from topicstream.files.durable import lock, read_sealed, sealed_line, write_bytes
from topicstream.files.plain import read_plain
from topicstream.model.identity import IDS, topic_ids
from topicstream.model.manifest import count, listed, text
from topicstream.model.store import read_manifest
from topicstream.model.topic_model import TopicModel

LOG = "edits.jsonl"
KINDS = ("label", "merge", "drop", "order")
LONGEST = 200


@dataclass(frozen=True)
class View:
    """Shown topics in terms of trained ones.

    ids      stable id of each shown topic, in the order shown
    members  columns of the trained table that make up each shown topic
    labels   id -> label, where somebody gave one
    dropped  columns that are not shown; their share goes to the rest in proportion
    """

    ids: list[int]
    members: list[list[int]]
    labels: dict[int, str] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)
    ordered: bool = False

    @property
    def plain(self) -> bool:
        """Whether the shown columns are the trained ones as they stand."""
        return self.members == [[k] for k in range(len(self.members))] and not self.dropped

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def numbers(self) -> np.ndarray:
        """``ids`` as int32[shown]."""
        return np.array(self.ids, np.int32)

    def shares(self, theta: np.ndarray) -> np.ndarray:
        """p(k|d) [D, K] of the trained topics -> [D, shown], rows sum to 1; the array itself where nothing changes."""
        if self.plain:
            return theta
        out = self.columns(theta)
        if self.dropped:
            total = out.sum(axis=1, keepdims=True)
            np.divide(out, total, out=out, where=total > 0)
            out[total[:, 0] <= 0] = 1.0 / len(self)
        return out

    def columns(self, table: np.ndarray) -> np.ndarray:
        """Columns of a [n, K] table added up by shown topic, [n, shown]."""
        out = np.ascontiguousarray(table[:, [m[0] for m in self.members]])
        for j, members in enumerate(self.members):
            for k in members[1:]:
                out[:, j] += table[:, k]
        return out

    def column_of(self, topic: int) -> int:
        """Position of a shown topic by its id; InputError when there is none."""
        try:
            return self.ids.index(topic)
        except ValueError:
            if sorted(self.ids) == list(range(len(self))):
                raise UsageError(f"topic {topic}: the topics are numbered 0..{len(self) - 1}") from None
            first = ", ".join(map(str, sorted(self.ids)[:5]))
            raise UsageError(f"topic {topic}: no such topic (there are {len(self)}: {first}, ...)") from None


class EditedModel(TopicModel):
    """A model as its view shows it: counts of merged topics added up, dropped ones left out; streamed like any other."""

    def __init__(self, trained: TopicModel, view: View) -> None:
        super().__init__(
            trained.vocabulary,
            view.columns(trained.totals[None])[0],
            view.columns(trained.alpha[None])[0],
            trained.beta,
            manifest={k: v for k, v in trained.manifest.items() if k not in ("seed_words", "labels", "label_docs")},
            path=trained.path,
        )
        self.sizes = view.columns(trained.sizes[None])[0]
        self.trained, self.view = trained, view

    def load(self) -> None:
        """Bring the trained table into memory."""
        self.trained.load()

    def rows(self, ids: Any, out: np.ndarray | None = None) -> np.ndarray:
        """As ``TopicModel.rows``."""
        rows = self.view.columns(self.trained.rows(ids))
        if out is None:
            return rows
        out[:, : self.n_topics] = rows
        return out

    def spans(self) -> Iterator[tuple[int, np.ndarray]]:
        """As ``TopicModel.spans``."""
        for start, rows in self.trained.spans():
            yield start, self.view.columns(rows)


def seen(model: TopicModel, view: View) -> TopicModel:
    """The model as the view shows it; the model itself where the view changes no column."""
    return model if view.plain else EditedModel(model, view)


def view_of(model: TopicModel) -> View:
    """The view of an open model: its log applied to its topics, which keep the names that the model has for them."""
    ids = topic_ids(model.path, model.n_topics)
    return apply(read_log(model.path) if model.path is not None else [], ids, names_of(model.manifest, ids))


def names_of(manifest: Mapping[str, Any], ids: Sequence[int]) -> dict[int, str]:
    """Stable id -> the name that a topic was trained with (a label's), on one line of printable characters."""
    given = manifest.get("labels")
    if not isinstance(given, Mapping):
        return {}
    return {ids[int(k)]: tidy(str(v))[:LONGEST] for k, v in given.items() if k.isdecimal() and int(k) < len(ids)}


def tidy(text: str) -> str:
    """On one line, without what cannot be printed."""
    return " ".join("".join(c if c.isprintable() else " " if c.isspace() else "" for c in text).split())


def read_log(model: str | Path) -> list[dict[str, Any]]:
    """The edits in force, oldest first (undone ones are left out).  StoreError where the log is damaged."""
    records, damaged = read_sealed(Path(model) / LOG)
    if damaged:
        raise StoreError(damaged[0].replace("this line is left out", "restore the file or delete it to start anew"))
    kept: list[dict[str, Any]] = []
    for record in records:
        if not _meant(record):
            raise StoreError(f"{model}/{LOG}: an edit that cannot be read; restore the file or delete it to start anew")
        if record.get("edit") == "undo":
            kept = kept[: -int(record.get("steps", 1))] if record.get("steps", 1) else kept
        elif record.get("edit") in KINDS:
            kept.append(record)
        else:
            raise StoreError(f"{model}/{LOG}: an edit of a kind this version does not know ({record.get('edit')!r})")
    return kept


def _meant(record: Mapping[str, Any]) -> bool:
    """Whether an edit says what one of its kind says; of an unknown kind, whatever it says."""
    kind = record.get("edit")
    if kind == "undo":
        return count(record.get("steps", 1))
    if kind == "label":
        return count(record.get("topic")) and "label" in record and (record["label"] is None or text(record["label"]))
    return kind not in KINDS or listed(count)(record.get("topics"))


def apply(log: Sequence[dict[str, Any]], ids: Sequence[int], names: Mapping[int, str] = MappingProxyType({})) -> View:
    """The view that a log makes of topics with these ids (by column) and, some of them, names.  Edits of topics that are
    no longer there (they died in a later version) are passed over."""
    members: dict[int, list[int]] = {i: [k] for k, i in enumerate(ids)}
    labels: dict[int, str] = dict(names)
    dropped: list[int] = []
    order: list[int] = []
    for record in log:
        kind = record["edit"]
        if kind == "label":
            if record["topic"] in members:
                if record["label"]:
                    labels[record["topic"]] = tidy(record["label"])[:LONGEST]
                else:
                    labels.pop(record["topic"], None)
        elif kind == "merge":
            here = _named(record["topics"], members)
            for other in here[1:]:
                members[here[0]] += members.pop(other)
                label = labels.pop(other, None)
                if label is not None:
                    labels.setdefault(here[0], label)
        elif kind == "drop":
            here = _named(record["topics"], members)
            if len(here) < len(members):
                for i in here:
                    dropped += members.pop(i)
                    labels.pop(i, None)
        elif kind == "order":
            order = list(record["topics"])
    first = _named(order, members)
    shown = first + [i for i in members if i not in set(first)]
    return View(shown, [members[i] for i in shown], labels, dropped, bool(first))


def _named(topics: Sequence[int], members: Mapping[int, list[int]]) -> list[int]:
    """Those that there are, each once."""
    return [i for i in dict.fromkeys(topics) if i in members]


def check(log: Sequence[dict[str, Any]], edit: dict[str, Any], ids: Sequence[int]) -> dict[str, Any]:
    """The edit made tidy; InputError where it cannot be done to the topics as the log leaves them."""
    view = apply(log, ids)
    there = set(view.ids)
    kind = edit["edit"]
    topics = [edit["topic"]] if kind == "label" else list(edit["topics"])
    for topic in topics:
        if topic not in there:
            was = "has been merged or dropped" if topic in set(ids) else "does not exist"
            raise UsageError(f"--{kind} {topic}: the topic {was}; `topics show` lists those there are")
    if len(set(topics)) < len(topics):
        raise UsageError(f"--{kind}: topic {next(t for t in topics if topics.count(t) > 1)} stands there twice")
    if kind == "merge" and len(topics) < 2:
        raise UsageError("--merge: give two topics or more, such as 1,18; the first keeps its number")
    if kind == "drop" and len(topics) >= len(there):
        raise UsageError("--drop: at least one topic must remain")
    if kind == "label":
        label = tidy(str(edit["label"]))
        if len(label) > LONGEST:
            raise UsageError(f"--label {topics[0]}: longer than {LONGEST} characters")
        return {**edit, "label": label}
    return edit


def edit(model: str | Path, edits: Sequence[dict[str, Any]] = (), *, undo: int = 0) -> View:
    """Append edits to a model's log, all or none, and return the view.

    edits  dicts: {"edit": "label", "topic": 3, "label": "..."}, {"edit": "merge", "topics": [1, 18]},
           {"edit": "drop", "topics": [0]}, {"edit": "order", "topics": [5, 2]}
    undo   take back so many of the last edits first

    Raises InputError (an edit that cannot be done), StoreError, Busy.
    """
    folder = _folder(model)
    if not edits and not undo:
        return preview(folder)
    with lock(folder, "editing"):
        log, new, ids = _edited(folder, edits, undo)
        path = folder / LOG
        before = read_plain(path) if os.path.lexists(path) else b""
        if before and not before.endswith(b"\n"):  # a line cut short by a kill, of a version that appended
            before = before[: before.rfind(b"\n") + 1]
        write_bytes(path, before + "".join(map(sealed_line, new)).encode())
    return apply(log, ids, names_of(read_manifest(folder), ids))


def preview(model: str | Path, edits: Sequence[dict[str, Any]] = (), *, undo: int = 0) -> View:
    """The view that ``edit`` would make; nothing is written."""
    folder = _folder(model)
    log, _, ids = _edited(folder, edits, undo)
    return apply(log, ids, names_of(read_manifest(folder), ids))


def _folder(model: str | Path) -> Path:
    folder = Path(model)
    return folder.resolve() if folder.is_symlink() else folder


def _edited(
    folder: Path, edits: Sequence[dict[str, Any]], undo: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[int]]:
    """The log in force afterwards, the lines to add, the topics' ids."""
    ids = topic_ids(folder, int(read_manifest(folder)["topics"]))
    log = read_log(folder)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    new: list[dict[str, Any]] = []
    if undo:
        if undo > len(log):
            raise UsageError(f"--undo {undo}: there are {len(log)} edits to take back")
        log = log[:-undo]
        new.append({"edit": "undo", "steps": undo, "at": now})
    for one in edits:
        tidy = {**check(log, one, ids), "at": now}
        log.append(tidy)
        new.append(tidy)
    return log, new, ids


def carry(old: str | Path, new: str | Path) -> bool:
    """Copy the log of a model (and its topics' stable ids) to its next version, whose topics keep their ids; whether there
    was a log.  What the new version already has stays."""
    for name in (IDS, LOG):
        source, target = Path(old) / name, Path(new) / name
        if source.exists() and not target.exists():
            write_bytes(target, source.read_bytes())
    return (Path(old) / LOG).exists()
