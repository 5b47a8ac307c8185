"""What a view of ``topics show`` is, and what it looks at: a model as its edits show it, and the
documents it was trained on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from topicstream.base.errors import UsageError
from topicstream.base.options import flags
from topicstream.base.records import Json
from topicstream.corpus.reader import Corpus
from topicstream.display.config import ShowConfig
from topicstream.evaluation.memory import open_within
from topicstream.model.edits import View, apply_view, view_of
from topicstream.model.top import top_words
from topicstream.model.topic_kinds import mark_kind, ranked
from topicstream.model.topic_model import TopicModel

RELEVANCE = 0.6
CONSIDERED = 12
NAMING = 3
"""Names of topics: the lambda that Sievert & Shirley (2014) advise, words that are looked at, and
words of a name.
"""
HEEDED_BY_ALL = ("model", "corpus", "mem_limit", "progress", "threads")
"""Options of ``ShowConfig`` that say what a view reads and how it works."""
_JOINTS = str.maketrans({"_": " ", "\u00a0": " "})


@dataclass(frozen=True)
class ModelView(ShowConfig):
    """One way to look at a model: further options of ``topics show``, and what they show.

    A subclass is a frozen dataclass whose fields are its options. It is registered by the option
    that asks for it, in ``topicstream.base.plugins`` or as an entry point in
    ``topicstream.views``.
    """

    title: ClassVar[str] = ""
    """Of its section in the help."""
    heeds: ClassVar[Collection[str]] = ()
    """Options of ``ShowConfig`` that the view heeds besides those of ``HEEDED_BY_ALL``; any other
    that is given is refused.
    """

    def __init_subclass__(cls, heeds: Collection[str] | None = None) -> None:
        """Note the options that a view heeds; None: those of the class that it derives from."""
        if heeds is None:
            return
        unknown = sorted(set(heeds) - {field.name for field in fields(ShowConfig)})
        if unknown:
            raise TypeError(f"{cls.__name__}: heeds {unknown[0]!r}, which is no option of show")
        cls.heeds = heeds

    def __post_init__(self) -> None:
        heeded = {*HEEDED_BY_ALL, *self.heeds}
        for field in fields(ShowConfig):
            if field.name not in heeded and getattr(self, field.name) != field.default:
                raise UsageError(f"{flags(field)[-1]} does not apply to: {self.title}")

    @cached_property
    def shown(self) -> ShownModel:
        """The model that is looked at."""
        return look_at(self.model, self.mem_limit, self.threads)

    @cached_property
    def store(self) -> Corpus:
        """The corpus that it was trained on."""
        # brings inference with it: a quarter of a second that the topics alone do not need
        from topicstream.display.metadata import open_corpus

        return open_corpus(self.shown.trained, self.corpus)

    def result(self) -> Json:
        """What is shown, as plain values for JSON; None where nothing is to be printed."""
        raise NotImplementedError

    def lines(self, result: Any, width: int | None) -> list[str]:
        """The result for people, in lines of ``width`` columns (None: of any length)."""
        raise NotImplementedError


@dataclass(frozen=True)
class ShownModel:
    """A model that is looked at.

    Attributes
    ----------
    trained
        The model as it was trained.
    view
        Its topics as ``topics edit`` left them.
    model
        The model as its view shows it.
    threads
        How many may work.
    """

    trained: TopicModel
    view: View
    model: TopicModel
    threads: int

    @cached_property
    def names(self) -> list[str]:
        """A name of each topic, marked where it is dead or the background."""
        marks = map(mark_kind, self.model.kinds)
        return [
            f"({mark}) {name}" if mark else name
            for name, mark in zip(self.plain_names, marks, strict=True)
        ]

    @cached_property
    def plain_names(self) -> list[str]:
        """A name of each topic: its label, or its own words."""
        proposals = propose(self.model)
        return [
            self.view.label_of(number) or proposals[k] for k, number in enumerate(self.view.ids)
        ]

    def ranked(self, values: np.ndarray) -> list[int]:
        """Positions of all topics by falling value; the background and dead topics come last."""
        return ranked(self.model.kinds, values)

    def columns(self, topics: Sequence[int] | None) -> list[int]:
        """Find the positions of topics by their numbers; of all, as they are listed, by default."""
        return self.view.listing if topics is None else [self.view.column_of(k) for k in topics]

    def first_words(self, n: int, relevance: float = 1.0) -> list[list[str]]:
        """The n most probable (or relevant, see ``top_words``) words of each topic."""
        ids, _ = top_words(self.model, n, relevance)
        return [self.model.vocabulary.texts(column) for column in ids.T]

    def entry(self, column: int) -> dict[str, Json]:
        """A topic by its number, its label, where it has one, and its kind."""
        number = self.view.ids[column]
        label = self.view.label_of(number)
        kind = {"kind": self.model.kinds[column]}
        return {"topic": number, **({} if label is None else {"label": label}), **kind}


def look_at(
    model: str | Path | TopicModel, mem_limit: str | int | None = None, threads: int | None = 1
) -> ShownModel:
    """Open a model as its edits show it; DoesNotFit, StoreError."""
    (trained,), workers = open_within([model], mem_limit, threads)
    view = view_of(trained)
    return ShownModel(trained, view, apply_view(trained, view), workers)


def largest(values: np.ndarray, n: int) -> list[int]:
    """Positions of the n largest values, the first of equal ones first."""
    return [int(position) for position in np.argsort(-values, kind="stable")[:n]]


def with_mark(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Add the ``mark`` of a topic's kind to an entry, for templates."""
    return {**entry, "mark": mark_kind(entry["kind"])}


def propose(model: TopicModel) -> list[str]:
    """A label for each topic: its most relevant words (by ``RELEVANCE``), without those that say
    the same again (a plural, a word that is part of a phrase in the list); a phrase counts as two.
    Two topics never get the same label: the later one takes a further word.
    """
    ids, scores = top_words(model, CONSIDERED, RELEVANCE)
    order = np.argsort(-model.sizes, kind="stable")
    numbers = model.column_ids
    out = [""] * model.n_topics
    taken: set[str] = set()
    for k in order.tolist():
        texts = [
            t.translate(_JOINTS)
            for t, s in zip(model.vocabulary.texts(ids[:, k]), scores[:, k])
            if np.isfinite(s)
        ]
        if model.sizes[k] < 1.0:
            out[k] = f"(empty {numbers[k]})"
            continue
        words = _distinct(texts)
        label = ""
        n = 0
        weight = 0
        while n < len(words) and (weight < NAMING or label in taken):
            weight += 2 if " " in words[n] else 1
            n += 1
            label = ", ".join(words[:n])
        if label in taken or not label:
            label = f"{label} ({numbers[k]})".strip()
        taken.add(label)
        out[k] = label
    return out


def _distinct(texts: list[str]) -> list[str]:
    kept: list[str] = []
    for text in texts:
        stem = _stem(text)
        parts = {_stem(p) for t in kept for p in t.split()}
        if stem in parts or any(stem == _stem(t) for t in kept):
            continue
        pieces = {_stem(p) for p in text.split()}
        kept = [*(t for t in kept if not (len(pieces) > 1 and _stem(t) in pieces)), text]
    return kept


@lru_cache(1 << 16)
def _stem(text: str) -> str:
    for ending in ("ies", "es", "s"):
        if len(text) > len(ending) + 3 and text.endswith(ending):
            return text[: -len(ending)].rstrip("ey")
    return text.rstrip("ey") if len(text) > 4 else text
