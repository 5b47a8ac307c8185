"""Starts with seed words, and with a background topic.

A seeded topic begins from its words, so that numbers and names follow the file. The background
topic is the last.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import structs

from topicstream.base.errors import UsageError
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.engines.base import Engine, padded
from topicstream.model.seeds import SeedEntry, SeedTopic, find_seed_words, read_seeds, resolve_seeds
from topicstream.numeric.kernels.constants import Constants
from topicstream.numeric.tables.spec import Scratch
from topicstream.training.starts.documents import SHARE
from topicstream.training.starts.seeds import Seeds, make_rows
from topicstream.training.starts.start import Ground, Start


def add_seed_words(
    engine: Engine, seed_words: Any, corpus: Corpus, n_w: np.ndarray
) -> tuple[Engine, list[SeedEntry] | None, list[str]]:
    """Give an engine its seed words, if there are any.

    Parameters
    ----------
    engine
        The engine of the run.
    seed_words
        The user's seed words, as ``read_seeds`` takes them. None: none.
    corpus
        The corpus, whose vocabulary and tokenizer they are looked up with.
    n_w
        float64[W], training tokens of each word.

    Returns
    -------
    tuple
        The engine, the entries for the model (None without seed words), and warnings.

    Raises
    ------
    UsageError
        If the engine takes no seed words.
    """
    if seed_words is None:
        return engine, None, []
    if not engine.about.constants:
        raise UsageError(f"{engine.name} takes no --seed-words; `topics engines` lists the others")
    vocabulary = corpus.read_vocabulary()
    shape = engine.shape
    numbers = None
    axis = engine.about.topics_axis
    if axis:  # the last topics have names
        first = shape.topics - corpus.axes[axis].size
        names = corpus.axes[axis].names().to_pylist()
        numbers = {name: first + i for i, name in enumerate(names)}
    topics = _tokenize_seeds(read_seeds(seed_words), corpus, vocabulary)
    constants, entries, warnings = resolve_seeds(topics, vocabulary, n_w, shape.topics, numbers)
    return type(engine)(replace(shape, seeds=constants), engine.options), entries, warnings


def _tokenize_seeds(
    topics: list[SeedTopic], corpus: Corpus, vocabulary: Vocabulary
) -> list[SeedTopic]:
    """Replace unknown seed words by the words that the corpus' tokenizer makes of them."""
    if corpus.manifest.tokenizer is None:
        return topics
    from topicstream.ingestion.tokens.recipe import Recipe  # few runs have seed words
    from topicstream.ingestion.tokens.word_lists import WordList

    recipe = Recipe.from_json(corpus.manifest.tokenizer)
    changed = []
    for topic, ids in zip(topics, find_seed_words(topics, vocabulary), strict=True):
        listed = WordList.tokenize(pa.array(topic.words, pa.large_string()), recipe)
        words: list[str] = []
        for number, word in enumerate(topic.words):
            tokens = listed.words.filter(pa.array(listed.owners == number)).to_pylist()
            words += tokens if ids[number] < 0 and tokens else [word]
        changed.append(structs.replace(topic, words=tuple(dict.fromkeys(words))))
    return changed


class SeededStart(Start):
    """Another start, with the run's seed words and background topic."""

    def __init__(self, inner: Start) -> None:
        self._inner = inner
        self.check = inner.check  # type: ignore[method-assign]
        self.memory = inner.memory  # type: ignore[method-assign]
        self.has_seeds = inner.has_seeds  # type: ignore[method-assign]

    def seeds(self, ground: Ground) -> Seeds | None:
        seeds = self._inner.seeds(ground)
        shape = ground.engine.shape
        if seeds is not None and getattr(ground.engine.options, "background", None):
            seeds = BackgroundSeeds(seeds, shape.topics, ground.n_w)
        if seeds is None or shape.seeds is None:
            return seeds
        return SeededSeeds(seeds, shape.seeds, ground.n_w, self._inner.learned)


class SeededSeeds:
    """A seed table with seed words.

    The column k of a topic with seed words is made of them as that of another topic of a document
    (``documents.SHARE``):

        seeded_k(w) = totals_k ((1 - SHARE) n_w/N + SHARE weight_k(w) / sum_w weight_k(w))

    If the inner topics were learned, it is the mean of this and of the learned topic in which its
    words are likeliest. All other columns are the inner table's.

    Parameters
    ----------
    inner
        The seed table without seed words.
    constants
        The weights of the seed words.
    n_w
        float64[W], training tokens of each word.
    learned
        Whether the topics of ``inner`` were learned from the corpus.

    Attributes
    ----------
    totals
        float64[padded(K)], column sums.
    """

    def __init__(self, inner: Seeds, constants: Constants, n_w: np.ndarray, learned: bool) -> None:
        self._inner = inner
        self._constants = constants
        self._learned = learned
        self._mean = n_w / n_w.sum()
        self._seeded = np.flatnonzero(constants.totals)
        self._order = np.arange(constants.columns)
        if learned:
            rows = inner.rows(constants.ids)[:, : constants.columns]
            self._order = self._match_columns(rows, inner.totals)
        self.totals = np.zeros(padded(constants.columns))
        self.totals[: constants.columns] = inner.totals[self._order]

    def _match_columns(self, rows: np.ndarray, totals: np.ndarray) -> np.ndarray:
        """Match each column to an inner topic, int64[K].

        Seeded columns choose the likeliest remaining topic, in turn.
        """
        constants = self._constants
        columns = constants.columns
        order = np.arange(columns)
        p = rows / np.maximum(totals[:columns], 1e-300)
        p /= np.maximum(p.sum(1, keepdims=True), 1e-300)
        likely = np.zeros((columns, columns))
        row = np.repeat(np.arange(len(constants)), np.diff(constants.ptr))
        weights = constants.weight / constants.totals[constants.topic]
        np.add.at(likely, constants.topic, p[row] * weights[:, None])
        for i, k in enumerate(self._seeded):
            unseeded = [j for j in range(columns) if j not in self._seeded[: i + 1]]
            columns_left = np.array([k, *unseeded])
            best = columns_left[np.argmax(likely[k, order[columns_left]])]
            order[[k, best]] = order[[best, k]]
        return order

    def rows(self, ids: np.ndarray, scratch: Scratch | None = None) -> np.ndarray:
        """Return the rows of some words, float32[U, padded(K)] (formula: the class)."""
        return make_rows(self._make, ids, len(self.totals), scratch)

    def _make(self, ids: np.ndarray, out: np.ndarray) -> None:
        """Fill the rows of some words (``make_rows``)."""
        constants = self._constants
        seeded = self._seeded
        inner = self._inner.rows(ids)
        out[:] = inner
        out[:, : constants.columns] = inner[:, self._order]
        rows = np.zeros((len(ids), len(constants.totals)))
        rows += (1 - SHARE) * self._mean[ids][:, None]
        words = np.zeros_like(rows)
        constants.add(words, *constants.find(ids))
        rows[:, seeded] += SHARE * words[:, seeded] / constants.totals[seeded]
        rows *= self.totals
        part = 0.5 if self._learned else 0.0
        out[:, seeded] = part * out[:, seeded] + (1 - part) * rows[:, seeded]


class BackgroundSeeds:
    """Another start's seed table with the corpus mean as its last topic, equally heavy."""

    def __init__(self, inner: Seeds, topics: int, n_w: np.ndarray) -> None:
        self._inner = inner
        self.totals = inner.totals
        self._last = topics - 1
        self._mean = n_w / n_w.sum()

    def rows(self, ids: np.ndarray, scratch: Scratch | None = None) -> np.ndarray:
        """Return the rows of some words, float32[U, padded(K)] (formula: the class)."""
        out = self._inner.rows(ids, scratch)
        out[:, self._last] = self.totals[self._last] * self._mean[ids]
        return out
