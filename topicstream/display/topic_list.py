"""The topics of a model as objects: ``TopicModel.topics``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, overload

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.evaluation.coherence import coherence
from topicstream.model.edits import apply_view, view_of
from topicstream.model.top import topic_table
from topicstream.model.topic_kinds import mark_kind, rank_topics
from topicstream.model.topic_model import TopicModel

WORDS = 10
SHOWN = 200
"""Topics that are printed."""


@dataclass(frozen=True)
class Topic:
    """A topic as people see it.

    Attributes
    ----------
    id
        Its number, as ``topics show`` prints it.
    label
        Its name, "" if it has none.
    share
        Share of all tokens, 0 to 1.
    words
        Its first words, best first.
    probabilities
        p(w|k) of these words.
    kind
        ``live``, ``dead`` or ``background``.
    npmi
        Coherence of the words over a corpus (``TopicList.score``), None before.
    """

    id: int
    label: str
    share: float
    words: tuple[str, ...]
    probabilities: tuple[float, ...]
    kind: str
    npmi: float | None = None

    def __str__(self) -> str:
        mark = mark_kind(self.kind)
        name = f"({mark}) " if mark else ""
        name += f"{self.label}: " if self.label else ""
        npmi = "" if self.npmi is None else f"  {self.npmi:6.3f}"
        return f"{self.id:>5} {100 * self.share:5.1f} %{npmi}  {name}{' '.join(self.words)}"


class TopicList(Sequence[Topic]):
    """The topics of a model by number, which print as ``topics show`` prints them.

    Examples
    --------
    >>> topics = topicstream.TopicModel.open("model").topics
    >>> topics[0].id, len(topics[0].words), len(topics)
    (0, 10, 4)
    >>> scored = topics.score("corpus.zarr")
    >>> all(-1 <= topic.npmi <= 1 for topic in scored)
    True
    """

    def __init__(self, model: TopicModel, topics: Sequence[Topic]) -> None:
        self._model = model
        self._topics = list(topics)

    @classmethod
    def from_model(cls, model: TopicModel, n: int = WORDS) -> TopicList:
        """List the topics of a model as its edits show them, with their first n words."""
        labels = view_of(model).labels
        table = topic_table(apply_view(model, view_of(model)), n)
        return cls(
            model,
            [
                Topic(
                    row["topic"],
                    labels.get(row["topic"], ""),
                    row["share"],
                    tuple(row["words"]),
                    tuple(row["p"]),
                    row["kind"],
                )
                for row in table.to_pylist()
            ],
        )

    @overload
    def __getitem__(self, index: int) -> Topic: ...
    @overload
    def __getitem__(self, index: slice) -> TopicList: ...
    def __getitem__(self, index: int | slice) -> Topic | TopicList:
        if isinstance(index, slice):
            return TopicList(self._model, self._topics[index])
        return self._topics[index]

    def __len__(self) -> int:
        return len(self._topics)

    def score(self, corpus: Any) -> TopicList:
        """Measure the NPMI of the topics' first words in a corpus.

        Parameters
        ----------
        corpus
            A store by its path, or an open ``Corpus``.

        Returns
        -------
        TopicList
            The same topics with ``npmi``.
        """
        store = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
        shown = apply_view(self._model, view_of(self._model))
        values = coherence(shown, store).by_topic("npmi")
        npmi = dict(zip(shown.column_ids.tolist(), values, strict=True))
        return TopicList(self._model, [replace(t, npmi=npmi[t.id]) for t in self._topics])

    def ranked(self) -> Iterator[Topic]:
        """Yield the topics from the largest to the smallest, dead ones last."""
        kinds = [topic.kind for topic in self._topics]
        shares = np.array([topic.share for topic in self._topics])
        for k in rank_topics(kinds, shares):
            yield self._topics[k]

    def __repr__(self) -> str:
        scored = any(topic.npmi is not None for topic in self._topics)
        head = ["topic share    NPMI  words"] if scored else []
        lines = [str(topic) for topic in self._topics[:SHOWN]]
        return "\n".join(head + lines + self._more())

    def _repr_html_(self) -> str:
        """Show the topics as an HTML table, the largest first."""
        scored = any(topic.npmi is not None for topic in self._topics)
        names = ["topic", "share", *(["NPMI"] if scored else []), "words"]
        head = "".join(f"<th style='text-align:left'>{name}</th>" for name in names)
        rows = "".join(_html_row(topic, scored) for topic in list(self.ranked())[:SHOWN])
        more = "".join(f"<p>{line}</p>" for line in self._more())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"

    def _more(self) -> list[str]:
        """Say how many topics are not shown."""
        hidden = len(self) - SHOWN
        return [f"and {hidden:,} more"] if hidden > 0 else []


def _html_row(topic: Topic, scored: bool) -> str:
    """Format one topic as a row of an HTML table."""
    mark = mark_kind(topic.kind)
    name = f"<b>{escape(topic.label)}</b> " if topic.label else ""
    name += f"({mark}) " if mark else ""
    npmi = "" if topic.npmi is None else f"{topic.npmi:.3f}"
    cells = [str(topic.id), f"{100 * topic.share:.1f} %", *([npmi] if scored else [])]
    cells.append(name + escape(" ".join(topic.words)))
    return "<tr>" + "".join(f"<td style='text-align:left'>{c}</td>" for c in cells) + "</tr>"
