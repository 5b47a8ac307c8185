"""The views of ``topics show``, and the edited model that they look at."""

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
from topicstream.model.topic_kinds import mark_kind, rank_topics
from topicstream.model.topic_model import TopicModel

RELEVANCE = 0.6
"""Lambda for names of topics, as Sievert & Shirley (2014) advise."""
CONSIDERED = 12
"""Words that a name is chosen from."""
NAMING = 3
"""Words of a name."""
HEEDED_BY_ALL = ("model", "corpus", "mem_limit", "progress", "threads")
"""Options of ``ShowConfig`` that every view heeds."""
_JOINTS = str.maketrans({"_": " ", "\u00a0": " "})


@dataclass(frozen=True)
class ModelView(ShowConfig):
    """A way to look at a model: further options of ``topics show`` and their result.

    A subclass is a frozen dataclass whose fields are its options. It is registered by the option
    that asks for it, in ``topicstream.base.plugins`` or as an entry point in
    ``topicstream.views``.

    Parameters
    ----------
    heeds
        A keyword of the subclass (``class V(ModelView, heeds=("topics",))``): options of
        ``ShowConfig`` that the view heeds besides those of ``HEEDED_BY_ALL``. It refuses any
        other that is given. Default: those of the class that it derives from.

    Attributes
    ----------
    title
        Title of the view's section in the help.
    heeds
        As above.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from topicstream.base.options import option
    >>> from topicstream.display.view import ModelView
    >>> @dataclass(frozen=True)
    ... class SizesView(ModelView, heeds=("topics",)):
    ...     title = "Sizes of topics (--sizes)"
    ...     sizes: bool = option(False, "Tokens of each topic.")
    ...
    ...     def result(self):
    ...         columns = self.shown.columns(self.topics)
    ...         return {self.shown.names[k]: float(self.shown.model.sizes[k]) for k in columns}
    ...
    ...     def lines(self, result, width):
    ...         return [f"{tokens:12,.0f}  {name}" for name, tokens in result.items()]
    >>> len(SizesView("model", "corpus.zarr", sizes=True).result())
    4
    """

    title: ClassVar[str] = ""
    heeds: ClassVar[Collection[str]] = ()

    def __init_subclass__(cls, heeds: Collection[str] | None = None) -> None:
        """Note the options that the view heeds."""
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
        """Open the model with its edits."""
        return open_shown(self.model, self.mem_limit, self.threads)

    @cached_property
    def store(self) -> Corpus:
        """Open the corpus that the model was trained on."""
        # brings inference with it: a quarter of a second that the topics alone do not need
        from topicstream.display.metadata import open_model_corpus

        return open_model_corpus(self.shown.trained, self.corpus)

    def result(self) -> Json:
        """Compute the result as plain values for JSON, or None to print nothing."""
        raise NotImplementedError

    def lines(self, result: Any, width: int | None) -> list[str]:
        """Format the result in lines of ``width`` columns (None: of any length)."""
        raise NotImplementedError


@dataclass(frozen=True)
class ShownModel:
    """A model with its edits.

    Attributes
    ----------
    trained
        The model as it was trained.
    view
        Its topics as ``topics edit`` left them.
    model
        The model as its view shows it.
    threads
        Threads that may work.
    """

    trained: TopicModel
    view: View
    model: TopicModel
    threads: int

    @cached_property
    def names(self) -> list[str]:
        """Names of the topics, the dead ones and the background marked."""
        marks = map(mark_kind, self.model.kinds)
        return [
            f"({mark}) {name}" if mark else name
            for name, mark in zip(self.plain_names, marks, strict=True)
        ]

    @cached_property
    def plain_names(self) -> list[str]:
        """Names of the topics: labels, or else words."""
        proposals = propose_labels(self.model)
        return [
            self.view.label_of(number) or proposals[k] for k, number in enumerate(self.view.ids)
        ]

    def ranked(self, values: np.ndarray) -> list[int]:
        """Rank all topics by falling value, the background and dead ones last.

        Parameters
        ----------
        values
            float64[K].

        Returns
        -------
        Positions of the topics.
        """
        return rank_topics(self.model.kinds, values)

    def columns(self, topics: Sequence[int] | None) -> list[int]:
        """Find the positions of topics by number (None: of all, in the order of listing)."""
        return self.view.listing if topics is None else [self.view.column_of(k) for k in topics]

    def first_words(self, n: int, relevance: float = 1.0) -> list[list[str]]:
        """Return the n most probable (or relevant, see ``top_words``) words of each topic."""
        ids, _ = top_words(self.model, n, relevance)
        return [self.model.vocabulary.texts(column) for column in ids.T]

    def entry(self, column: int) -> dict[str, Json]:
        """Describe a topic by its number, kind and, if set, label."""
        number = self.view.ids[column]
        label = self.view.label_of(number)
        kind = {"kind": self.model.kinds[column]}
        return {"topic": number, **({} if label is None else {"label": label}), **kind}


def open_shown(
    model: str | Path | TopicModel, mem_limit: str | int | None = None, threads: int | None = 1
) -> ShownModel:
    """Open a model with its edits.

    Raises
    ------
    DoesNotFit
        If the model does not fit the memory limit.
    StoreError
        If the model is damaged.
    """
    (trained,), workers = open_within([model], mem_limit, threads)
    view = view_of(trained)
    return ShownModel(trained, view, apply_view(trained, view), workers)


def largest(values: np.ndarray, n: int) -> list[int]:
    """Return the positions of the n largest values, the first of equal ones first."""
    return [int(position) for position in np.argsort(-values, kind="stable")[:n]]


def add_mark(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Add the ``mark`` of a topic's kind to an entry, for templates."""
    return {**entry, "mark": mark_kind(entry["kind"])}


def propose_labels(model: TopicModel) -> list[str]:
    """Propose a label for each topic from its most relevant words.

    Words that repeat another one are skipped (a plural, a word of a phrase in the label), and a
    phrase counts as two words. If two topics would get the same label, the smaller one takes a
    further word.
    """
    ids, scores = top_words(model, CONSIDERED, RELEVANCE)
    order = np.argsort(-model.sizes, kind="stable")
    numbers = model.column_ids
    out = [""] * model.n_topics
    used_labels: set[str] = set()
    for k in order.tolist():
        texts = [
            t.translate(_JOINTS)
            for t, s in zip(model.vocabulary.texts(ids[:, k]), scores[:, k])
            if np.isfinite(s)
        ]
        if model.sizes[k] < 1.0:
            out[k] = f"(empty {numbers[k]})"
            continue
        words = _skip_repetitions(texts)
        label = ""
        n = 0
        weight = 0
        while n < len(words) and (weight < NAMING or label in used_labels):
            weight += 2 if " " in words[n] else 1
            n += 1
            label = ", ".join(words[:n])
        if label in used_labels or not label:
            label = f"{label} ({numbers[k]})".strip()
        used_labels.add(label)
        out[k] = label
    return out


def _skip_repetitions(texts: list[str]) -> list[str]:
    """Skip words that are other forms, or parts, of a word or phrase in the list."""
    chosen: list[str] = []
    for text in texts:
        stem = _stem(text)
        parts = {_stem(part) for part in " ".join(chosen).split()}
        if stem in parts or any(stem == _stem(other) for other in chosen):
            continue
        pieces = {_stem(part) for part in text.split()}
        if len(pieces) > 1:
            chosen = [other for other in chosen if _stem(other) not in pieces]
        chosen.append(text)
    return chosen


@lru_cache(1 << 16)
def _stem(text: str) -> str:
    """Cut off an English plural's ending, or a final vowel that it may change."""
    for ending in ("ies", "es", "s"):
        if len(text) > len(ending) + 3 and text.endswith(ending):
            return text[: -len(ending)].rstrip("ey")
    return text.rstrip("ey") if len(text) > 4 else text
