"""Labels, merges, drops and an order of a model's topics: a log, and a view of it.

``edits.jsonl`` in the model's folder holds a line per edit, in order, each with its checksum, the
last with their number. The trained table never changes: a *view* maps trained topics to shown ones.
Perplexity always scores the trained table. Topics are named by their stable ids
(``manifest.read_ids``), so that a log can follow them into the next version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from topicstream.base.errors import UsageError
from topicstream.base.files import durable
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import lock, log_text, write_bytes
from topicstream.base.records import Count, Record, decode_record, plain
from topicstream.model.manifest import EDITS, IDS, Origin, origin_of, read_ids, read_manifest
from topicstream.model.topic_model import TopicModel

LOG = EDITS
LONGEST = 200  # characters of a label


class _Edit(Record, tag_field="edit", tag=str.lower, omit_defaults=True):
    """A line of the log: when and by what it was made."""

    at: str | None = None
    by: str | None = None


class Label(_Edit, kw_only=True):
    """Give a topic a label, or take it away (empty)."""

    topic: Count
    label: str | None


class Merge(_Edit, kw_only=True):
    """Show several topics as one, under the number of the first."""

    topics: list[Count]


class Drop(_Edit, kw_only=True):
    """Show topics no more."""

    topics: list[Count]


class Order(_Edit, kw_only=True):
    """Show these topics first."""

    topics: list[Count]


class Undo(_Edit, kw_only=True):
    """Take back the last edits."""

    steps: Count = 1


Edit = Label | Merge | Drop | Order
_EDIT: Any = Edit  # as a value: mypy takes no union for a type
_LINE: Any = Edit | Undo


@dataclass(frozen=True)
class View:
    """Shown topics in terms of trained ones.

    Attributes
    ----------
    ids
        Stable id of each shown topic, ascending: the order of tables and of wide columns.
    members
        Columns of the trained table that make up each shown topic.
    labels
        Label by id, where somebody gave one.
    dropped
        Columns that are not shown. Their share goes to the rest in proportion.
    first
        Ids of the topics that lists begin with (``topics edit --order``).
    """

    ids: list[int]
    members: list[list[int]]
    labels: dict[int, str] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        """Return True if the shown columns are the trained ones."""
        return self.members == [[k] for k in range(len(self.members))] and not self.dropped

    @property
    def edited(self) -> bool:
        """Return True if a topic was merged or dropped."""
        return bool(self.dropped) or any(len(columns) > 1 for columns in self.members)

    @property
    def ordered(self) -> bool:
        """Return True if the topics have a user's order."""
        return bool(self.first)

    @property
    def listing(self) -> list[int]:
        """Return the positions of the shown topics in list order: ``first``, then by id."""
        before = [self.ids.index(topic) for topic in self.first]
        return before + [k for k in range(len(self)) if k not in set(before)]

    def __len__(self) -> int:
        return len(self.ids)

    def label_of(self, topic: int) -> str | None:
        """Return the user's label of a topic, by its id."""
        return self.labels.get(topic)

    @cached_property
    def numbers(self) -> np.ndarray:
        """Return ``ids`` as int32[shown]."""
        return np.array(self.ids, np.int32)

    def shares(self, theta: np.ndarray) -> np.ndarray:
        """Convert p(k|d) [D, K] of trained topics to shown ones, [D, shown].

        Rows sum to 1. Returns the array itself if the view changes nothing.
        """
        if self.plain:
            return theta
        out = self.columns(theta)
        if self.dropped:
            total = out.sum(axis=1, keepdims=True)
            np.divide(out, total, out=out, where=total > 0)
            out[total[:, 0] <= 0] = 1.0 / len(self)
        return out

    def columns(self, table: np.ndarray) -> np.ndarray:
        """Sum the columns of a table [n, K] by shown topic, [n, shown]."""
        out = np.ascontiguousarray(table[:, [m[0] for m in self.members]])
        for j, members in enumerate(self.members):
            for k in members[1:]:
                out[:, j] += table[:, k]
        return out

    def column_of(self, topic: int) -> int:
        """Return the position of a shown topic by its id.

        Raises
        ------
        UsageError
            There is no such topic.
        """
        try:
            return self.ids.index(topic)
        except ValueError:
            if sorted(self.ids) == list(range(len(self))):
                raise UsageError(
                    f"topic {topic}: the topics are numbered 0..{len(self) - 1}"
                ) from None
            first = ", ".join(map(str, sorted(self.ids)[:5]))
            raise UsageError(
                f"topic {topic}: no such topic (there are {len(self)}: {first}, ...)"
            ) from None


class EditedModel(TopicModel):
    """A model as its view shows it, streamed like any other.

    Counts of merged topics are summed, dropped topics left out.
    """

    def __init__(self, trained: TopicModel, view: View) -> None:
        super().__init__(
            trained.vocabulary,
            view.columns(trained.totals[None])[0],
            view.columns(trained.alpha[None])[0],
            trained.beta,
            manifest=_origin_shown(trained, view),
            path=trained.path,
        )
        self.sizes = view.columns(trained.sizes[None])[0]
        self.trained = trained
        self.view = view

    @property
    def column_ids(self) -> np.ndarray:
        """Return the numbers of the topics, as ``TopicModel.column_ids`` does."""
        return np.array(self.view.ids, np.int64)

    @cached_property
    def known_kinds(self) -> dict[int, str]:
        """Return the kinds by column, as ``TopicModel.known_kinds`` does."""
        trained = self.trained.known_kinds
        kinds = {}
        for place, members in enumerate(self.view.members):
            for column in members:
                if column in trained:
                    kinds[place] = trained[column]
        return kinds

    def __reduce__(self) -> tuple[type[EditedModel], tuple[TopicModel, View]]:
        """Pickle the trained model and the view, so that the receiver applies it again."""
        return EditedModel, (self.trained, self.view)

    def load(self) -> None:
        """Bring the trained table into memory."""
        self.trained.load()

    def rows(self, ids: ArrayLike, out: np.ndarray | None = None) -> np.ndarray:
        """Return the counts of some words, as ``TopicModel.rows`` does."""
        rows = self.view.columns(self.trained.rows(ids))
        if out is None:
            return rows
        out[:, : self.n_topics] = rows
        return out

    def spans(self) -> Iterator[tuple[int, np.ndarray]]:
        """Stream the table, as ``TopicModel.spans`` does."""
        for start, rows in self.trained.spans():
            yield start, self.view.columns(rows)


def _origin_shown(trained: TopicModel, view: View) -> Origin:
    """Describe the origin of the shown topics.

    Seed words move with their topics, and are lost where topics were merged or dropped.
    """
    seeds = None
    if not view.edited and trained.manifest.seed_words is not None:
        place = {columns[0]: k for k, columns in enumerate(view.members)}
        seeds = [
            msgspec.structs.replace(entry, topic=place[entry.topic])
            for entry in trained.manifest.seed_words
        ]
    return origin_of(trained.manifest, seed_words=seeds, topic_names={}, label_docs=None)


def apply_view(model: TopicModel, view: View) -> TopicModel:
    """Return the model as the view shows it, or the model itself if nothing changes."""
    return model if view.plain else EditedModel(model, view)


def view_of(model: TopicModel, *, edits: bool = True) -> View:
    """Make the view of an open model.

    Topics keep the names that the model has for them. ``edits`` applies the log of ``topics edit``.
    Without it, the topics are those that were trained.
    """
    ids = model.column_ids.tolist()
    log = read_log(model.path) if edits and model.path is not None else []
    return apply_log(log, ids, find_names(model.manifest, ids))


def find_names(manifest: Origin, ids: Sequence[int]) -> dict[int, str]:
    """Return the printable names that topics were trained with, by stable id."""
    named = {int(k): name for k, name in manifest.topic_names.items() if k.isdecimal()}
    return {ids[k]: make_printable(name)[:LONGEST] for k, name in named.items() if k < len(ids)}


def make_printable(text: str) -> str:
    """Join a text to one line without unprintable characters."""
    blanks = "".join(" " if c.isspace() else c for c in text)
    return " ".join("".join(filter(str.isprintable, blanks)).split())


def _read_lines(model: Path) -> list[Edit | Undo]:
    """Read all lines of a model's log.

    Raises
    ------
    StoreError
        The log is damaged or truncated.
    """
    advice = "restore the file or delete it to start over"
    return [
        decode_record(record, _LINE, model / LOG, advice.capitalize())
        for record in durable.read_log(model / LOG, advice)
    ]


def read_log(model: str | Path) -> list[Edit]:
    """Read the edits in force, oldest first, without undone ones.

    Raises
    ------
    StoreError
        The log is damaged.
    """
    log: list[Edit] = []
    for edit in _read_lines(Path(model)):
        if isinstance(edit, Undo):
            log = log[: max(0, len(log) - edit.steps)]
        else:
            log.append(edit)
    return log


def apply_log(
    log: Sequence[Edit], ids: Sequence[int], names: Mapping[int, str] = MappingProxyType({})
) -> View:
    """Build the view of topics with these ids (by column) and names from a log.

    Edits of topics that a later version no longer has are skipped.
    """
    members: dict[int, list[int]] = {i: [k] for k, i in enumerate(ids)}
    labels: dict[int, str] = dict(names)
    dropped: list[int] = []
    first: list[int] = []
    for edit in log:
        if isinstance(edit, Label):
            if edit.topic in members:
                labels[edit.topic] = make_printable(edit.label or "")[:LONGEST]
            continue
        topics = [i for i in dict.fromkeys(edit.topics) if i in members]
        if isinstance(edit, Order):
            first = topics
        elif isinstance(edit, Merge):
            for source in topics[1:]:
                members[topics[0]] += members.pop(source)
                labels[topics[0]] = labels.get(topics[0]) or labels.pop(source, "")
        elif len(topics) < len(members):
            for i in topics:
                dropped += members.pop(i)
    first = [i for i in first if i in members]
    shown = sorted(members)
    labels = {i: label for i, label in labels.items() if label and i in members}
    return View(shown, [members[i] for i in shown], labels, dropped, first)


def _check_edit(log: Sequence[Edit], values: Mapping[str, object], ids: Sequence[int]) -> Edit:
    """Convert an edit to a record and check it against the present topics.

    Raises
    ------
    UsageError
        If the edit is impossible.
    """
    edit: Edit = decode_record(
        values, _EDIT, "edit", 'Write {"edit": "merge", "topics": [1, 18]} or the like', UsageError
    )
    kind = type(edit).__name__.lower()
    shown = apply_log(log, ids).ids
    topics = [edit.topic] if isinstance(edit, Label) else edit.topics
    for topic in topics:
        if topic not in shown:
            state = "has been merged or dropped" if topic in ids else "does not exist"
            raise UsageError(f"--{kind} {topic}: the topic {state}; `topics show` lists the topics")
        if topics.count(topic) > 1:
            raise UsageError(f"--{kind}: topic {topic} is listed twice")
    if isinstance(edit, Merge) and len(topics) < 2:
        raise UsageError(
            "--merge: expected two or more topics, such as 1,18; the first keeps its number"
        )
    if isinstance(edit, Drop) and len(topics) >= len(shown):
        raise UsageError("--drop: at least one topic must remain")
    if isinstance(edit, Label):
        edit = msgspec.structs.replace(edit, label=make_printable(edit.label or ""))
        if len(edit.label or "") > LONGEST:
            raise UsageError(f"--label {edit.topic}: longer than {LONGEST} characters")
    return edit


def edit(
    model: str | Path | TopicModel,
    edits: Sequence[Mapping[str, object]] = (),
    *,
    undo: int = 0,
    dry_run: bool = False,
) -> View:
    """Append edits to a model's log, all or none, and return the edited view.

    Parameters
    ----------
    model
        The model, or its folder.
    edits
        Any of ``{"edit": "label", "topic": 3, "label": "..."}``, ``{"edit": "merge", "topics": [1,
        18]}``, ``{"edit": "drop", "topics": [0]}`` and ``{"edit": "order", "topics": [5, 2]}``.
    undo
        Number of the last edits to take back first.
    dry_run
        Write nothing.

    Returns
    -------
    View
        The topics after all edits.

    Raises
    ------
    InputError
        An edit cannot be done; none is written then.
    Busy
        Another command writes to the model.

    Examples
    --------
    >>> view = topicstream.edit(
    ...     "model",
    ...     [{"edit": "label", "topic": 0, "label": "pets"}, {"edit": "merge", "topics": [1, 2]}],
    ... )
    >>> view.labels, len(view)
    ({0: 'pets'}, 3)
    """
    path = model.path if isinstance(model, TopicModel) else model
    if path is None:
        raise UsageError("a model in memory keeps no edits; save it first")
    folder = Path(path)
    folder = folder.resolve() if folder.is_symlink() else folder
    writes = bool(edits or undo) and not dry_run
    with lock(folder, "editing") if writes else nullcontext():
        log, new, ids = _extend_log(folder, edits, undo)
        if writes:
            lines = [plain(edit) for edit in (*_read_lines(folder), *new)]
            write_bytes(folder / LOG, log_text(lines).encode())
    return apply_log(log, ids, find_names(read_manifest(folder), ids))


def _extend_log(
    folder: Path, edits: Sequence[Mapping[str, object]], undo: int
) -> tuple[list[Edit], list[Edit | Undo], list[int]]:
    """Append edits to a log, or undo some, without writing it.

    Returns
    -------
    The edits in force, the lines to be written, and the ids of the topics.
    """
    ids = read_ids(folder, read_manifest(folder).topics).ids
    log = read_log(folder)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    new: list[Edit | Undo] = []
    if undo:
        if undo > len(log):
            raise UsageError(f"--undo {undo}: there are only {len(log)} edits to undo")
        log = log[:-undo]
        new.append(Undo(steps=undo, at=time))
    for values in edits:
        edit = _check_edit(log, {**values, "at": time}, ids)
        log.append(edit)
        new.append(edit)
    return log, new, ids


def copy_log(old: str | Path, new: str | Path, *, anew: bool = False) -> bool:
    """Copy a model's log and topic ids to its next version.

    Parameters
    ----------
    anew
        Replace such files of the next version. By default it keeps those that it has.

    Returns
    -------
    bool
        True if there was a log.
    """
    for name in (IDS, LOG):
        source = Path(old) / name
        target = Path(new) / name
        if anew:
            owned.remove_file(target, missing_ok=True)
        if source.exists() and not target.exists():
            write_bytes(target, source.read_bytes())
    return (Path(old) / LOG).exists()
