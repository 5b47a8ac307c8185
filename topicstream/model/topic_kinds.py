"""The kind of each topic of a model, which only this module decides.

live
    A topic like any other.
dead
    Learned from next to nothing: it holds less than a document's worth of tokens, or its words are
    those of the prior or of the corpus as a whole. Its first words are chance.
background
    The topic for the words that all documents share (``train --aim reading``, or ``--background``
    of sparse-bp).

Kinds are derived from a model's counts and its manifest, and stored nowhere. Topics that are labels
of documents are live: a label has a topic however few documents bear it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from topicstream.base.text import counted
from topicstream.model.manifest import Origin

LIVE = "live"
DEAD = "dead"
BACKGROUND = "background"
LONG = 200.0
"""Tokens of a topic that is not dead where documents are longer: topics of 200 to 1,000 tokens
cohere as larger ones do (docs/internals/decisions/topic-kinds.md)."""
TENTH = 0.1
HALF = 0.5
"""Shares of the tokens of an average topic (``least_tokens``)."""
EMPTY = 0.5
"""Tokens below which a topic is empty, whatever the documents are."""
ALIKE = 0.2
"""Largest l1 distance of a copy from the prior or the corpus, as a share of their mass."""
COMPARED_BYTES = 8 << 20
"""Bytes of the first rows of the table, by which copies are found."""


class KindedModel(Protocol):
    """What a model tells about its topics, by column, as ``TopicModel`` does.

    Attributes
    ----------
    manifest
        Origin of the model.
    beta
        Topic-word prior of each word.
    sizes
        Tokens of the topics, float64[K].
    """

    manifest: Origin
    beta: float
    sizes: np.ndarray

    @property
    def n_words(self) -> int:
        """Number of words."""

    @property
    def n_topics(self) -> int:
        """Number of topics."""

    @property
    def shares(self) -> np.ndarray:
        """Share of the tokens in each topic, float64[K]."""

    @property
    def norms(self) -> np.ndarray:
        """Divisor of p(w|k) of each topic, float64[K]."""

    @property
    def kinds(self) -> list[str]:
        """Kind of each topic."""

    @property
    def known_kinds(self) -> dict[int, str]:
        """Kinds that the training decided."""

    @property
    def background_topic(self) -> int | None:
        """Background topic, if there is one."""

    def rows(self, ids: ArrayLike) -> np.ndarray:
        """Return the rows of these words, float32[len(ids), K]."""


def topic_kinds(model: KindedModel, trained: Mapping[int, str]) -> list[str]:
    """Decide the kind of each topic of a model, by column.

    Parameters
    ----------
    model
        The model, as trained or as its edits show it.
    trained
        Kinds by column that its training decided (``kinds_of_origin``).
    """
    small = model.sizes < least_tokens(model)
    copies = _copies(model)
    kinds = [DEAD if small[k] or copies[k] else LIVE for k in range(model.n_topics)]
    for column, kind in trained.items():
        kinds[column] = kind
    return kinds


def kinds_of_origin(model: KindedModel) -> dict[int, str]:
    """Name the kinds that the training of a model decided, by column: background and labels."""
    manifest = model.manifest
    topics = model.n_topics
    if manifest.label_docs:
        return dict.fromkeys(range(topics - len(manifest.label_docs), topics), LIVE)
    if manifest.options.get("background"):
        return {topics - 1: BACKGROUND}
    return {}


def least_tokens(model: KindedModel) -> float:
    """Compute the tokens that a topic needs in order not to be dead.

    A document's worth: the mean length of the training documents. Where documents are long or
    few, topics may well hold less; there it is a tenth of what an average topic holds, or up to
    ``LONG`` tokens half of that. Of clusters, and of models that do not say how many documents
    they were trained on, only empty topics are dead.
    """
    docs = model.manifest.corpus.docs or 0
    if not docs or "sizes" in model.manifest.tables:
        return EMPTY
    tokens = float(model.sizes.sum())
    average = tokens / model.n_topics
    length = tokens / (docs * (model.manifest.sample or 1.0))
    return max(EMPTY, min(length, max(TENTH * average, min(LONG, HALF * average))))


def _copies(model: KindedModel) -> np.ndarray:
    """Select the topics whose words are those of the prior or of the corpus, bool[K].

    None is larger than the average. Where all topics are alike, none is a copy: there is no other
    topic for the tokens.
    """
    rows = _first_rows(model)
    p = (rows + model.beta) / model.norms
    shares = model.shares
    corpus = p @ shares
    prior = np.full(len(p), 1.0 / model.n_words)
    copies = np.zeros(model.n_topics, bool)
    for common in (corpus, prior):
        distance = np.abs(p - common[:, None]).sum(axis=0)
        copies |= distance <= ALIKE * float(common.sum())
    copies &= shares <= (1.0 + 1e-9) / model.n_topics
    return np.zeros_like(copies) if copies.all() else copies


def _first_rows(model: KindedModel) -> np.ndarray:
    """Read the rows of the first words, float64[n, K]: in a store the most frequent ones."""
    most = max(200, COMPARED_BYTES // (8 * model.n_topics))
    return model.rows(np.arange(min(most, model.n_words))).astype(np.float64)


def counted_in_means(kinds: Sequence[str]) -> np.ndarray:
    """Select the topics that count in means of coherence and the like, bool[K].

    Dead topics do not count, nor does the background, which is no topic of the user's.
    """
    return np.array([kind == LIVE for kind in kinds], bool)


def largest_topics(shares: np.ndarray, model: KindedModel) -> np.ndarray:
    """Choose the largest topic of each document by column, int64[D], the background apart.

    Parameters
    ----------
    shares
        float[D, K], by the columns of the model.
    model
        A model, or the model that a view shows.
    """
    background = [k for k, kind in model.known_kinds.items() if kind == BACKGROUND]
    if not background or len(background) == shares.shape[1]:
        return np.asarray(shares.argmax(axis=1))
    foreground = shares.copy()
    foreground[:, background] = -1.0
    return np.asarray(foreground.argmax(axis=1))


def rank_topics(kinds: Sequence[str], values: np.ndarray) -> list[int]:
    """Order topics by falling value: live ones first, then the background, then dead ones."""
    place = np.array([(LIVE, BACKGROUND, DEAD).index(kind) for kind in kinds])
    return [int(k) for k in np.lexsort((np.arange(len(place)), -values, place))]


def describe_topics(topics: int, background: int | None) -> str:
    """Count topics for people, the background apart: ``19 topics and a background topic``.

    Parameters
    ----------
    topics
        How many there are, the background included.
    background
        The number of the background topic among them, None without one.
    """
    if background is None:
        return counted(topics, "topic")
    return f"{counted(topics - 1, 'topic')} and a background topic"


def mark_kind(kind: str) -> str:
    """Return the mark of an unusual kind for lists of topics, "" for live."""
    return "" if kind == LIVE else kind


def dead_warning(model: KindedModel) -> list[str]:
    """Warn of a model's dead topics, and say how many topics the corpus carries.

    It names no topic: `topics retrain` and `update` train before they give topics their numbers.

    Returns
    -------
    list of str
        A line, or none.
    """
    dead = list(model.kinds).count(DEAD)
    if not dead:
        return []
    verb = "is" if dead == 1 else "are"
    background = model.background_topic
    carried = max(1, model.n_topics - dead)
    all_topics = counted(model.n_topics - (background is not None), "topic")
    return [
        f"{dead} of {all_topics} {verb} dead, with next to nothing of the corpus "
        f"(`topics show` marks them): the corpus carries about "
        f"{describe_topics(carried, background)} (-K {carried})"
    ]
