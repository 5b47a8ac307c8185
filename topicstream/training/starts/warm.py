"""The start ``warm``: the topics of a fitted model, matched word by word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.base.errors import InputError
from topicstream.base.memory import Array, total_bytes
from topicstream.corpus.vocabulary import BYTES_PER_WORD
from topicstream.engines.base import BlockShape, Engine, padded
from topicstream.model.manifest import read_manifest
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.tables.spec import Scratch
from topicstream.training.plan import StartMemory
from topicstream.training.starts.seeds import Seeds, make_rows, sum_seed_columns
from topicstream.training.starts.start import Ground, Start

WORDS_AT_A_TIME = 512
"""Words of a model that are turned into probabilities (float64) at a time."""
READING = 16 << 20
"""Bytes that are read of the model's table at a time."""
MILLION = 1e6
"""Scale of the probabilities in the seed table, which is unnormalised: any would do."""


class WarmStart(Start):
    """The topics of the model in a folder.

    Parameters
    ----------
    model
        Folder of the model.
    share
        Part of each topic that is the model's. The rest is the corpus mean, as in seeds made of
        documents: topics fitted closely to old documents then take new ones more freely.
    """

    def __init__(self, model: str | Path, share: float = 1.0) -> None:
        self._model = Path(model)
        self._share = share

    def memory(self, engine: Engine, block: BlockShape) -> StartMemory:
        words = read_manifest(self._model).words
        arrays = (
            Array((2, engine.shape.words), np.int64),
            Array((3, WORDS_AT_A_TIME, engine.shape.topics), np.float64),
        )
        return StartMemory(BYTES_PER_WORD * words + total_bytes(arrays) + READING)

    def seeds(self, ground: Ground) -> Seeds | None:
        corpus = ground.corpus
        axis = ground.engine.about.topics_axis
        words = corpus.read_vocabulary().words
        names = corpus.axes[axis].names() if axis else None
        model = TopicModel.open(self._model, memory_limit=max(0, ground.free))
        return ModelSeeds(model, words, ground.n_w, ground.engine.shape.topics, self._share, names)


class ModelSeeds:
    """The topics of a fitted model over the words of this corpus.

    A word that the model does not know has the corpus mean.

    Parameters
    ----------
    model
        The model.
    words
        Words of this corpus.
    n_w
        float64[W], training tokens of each word.
    topics
        K.
    share
        Part of each topic that is the model's. The rest is the corpus mean.
    names
        Names of the last topics, if they have any: each begins as the model's topic of that name, a
        new one as the mean.

    Raises
    ------
    InputError
        If the model has other topics, or none of the words.

    Attributes
    ----------
    unknown
        Share of the corpus' tokens whose words the model does not know.
    """

    def __init__(
        self,
        model: TopicModel,
        words: pa.Array,
        n_w: np.ndarray,
        topics: int,
        share: float = 1.0,
        names: pa.Array | None = None,
    ) -> None:
        self._columns = np.arange(topics) if names is None else match_topics(model, topics, names)
        if names is None and model.n_topics != topics:
            raise InputError(
                f"the model to start from has {model.n_topics} topics, not {topics}; use -K "
                f"{model.n_topics}"
            )
        self._new = self._columns < 0
        self._model = model
        self._topics = topics
        self._part = share
        self._ids = model.vocabulary.find(words)
        tokens = float(n_w.sum())
        self._mean = n_w / max(tokens, 1.0)
        missing = self._ids < 0
        self.unknown = float(n_w[missing].sum() / max(tokens, 1.0))
        if self.unknown >= 1.0:
            raise InputError(
                "the model to start from shares no word with this corpus; start without --warm"
            )
        self.totals = sum_seed_columns(self._make, len(n_w), padded(topics))

    def rows(self, ids: np.ndarray, scratch: Scratch | None = None) -> np.ndarray:
        """Return the rows of some words, float32[U, padded(K)].

        They are p(w|k) of the model, mixed with the mean, times a million.
        """
        return make_rows(self._make, ids, padded(self._topics), scratch)

    def _make(self, ids: np.ndarray, out: np.ndarray) -> None:
        """Fill the rows of some words (``make_rows``)."""
        model_ids = self._ids[ids]
        is_known = model_ids >= 0
        known = np.flatnonzero(is_known)
        new_topics = np.flatnonzero(self._new)
        for first in range(0, len(known), WORDS_AT_A_TIME):
            places = known[first : first + WORDS_AT_A_TIME]
            probabilities = self._model.probabilities(model_ids[places])[:, self._columns]
            mean = self._mean[ids[places]]
            out[places, : self._topics] = MILLION * self._part * probabilities
            if len(new_topics):
                new = (MILLION * self._part * mean).astype(np.float32)
                out[places[:, None], new_topics] = new[:, None]
            if self._part < 1.0:
                rest = (MILLION * (1 - self._part) * mean).astype(np.float32)
                out[places, : self._topics] += rest[:, None]
        unknown = (MILLION * self._mean[ids[~is_known]]).astype(np.float32)
        out[~is_known, : self._topics] = unknown[:, None]


def match_topics(model: TopicModel, topics: int, names: pa.Array) -> np.ndarray:
    """Match our topics to the model's topics, int64[topics], -1 for none.

    The last topics are matched by name. Those before them, which all documents share, keep their
    numbers.

    Raises
    ------
    InputError
        If the model's topics have no names.
    """
    free = model.n_topics - len(model.manifest.label_docs or [])
    by_name = {name: int(k) for k, name in model.manifest.topic_names.items() if int(k) >= free}
    if not by_name:
        raise InputError(
            "the topics of the model to start from have no names; start without --warm"
        )
    shared = [k if k < free else -1 for k in range(topics - len(names))]
    named = [by_name.get(name, -1) for name in names.to_pylist()]
    return np.array(shared + named, np.int64)
