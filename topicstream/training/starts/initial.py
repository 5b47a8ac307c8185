"""Where training starts: topics made of documents, or of another model.

A seed topic is a mixture: ``1 - share`` of the corpus mean, ``share`` of the words of its seed documents.  So every word
has a chance in every topic and the topics differ from the first cell on (a random topic per cell leaves all topics
equal to within noise, and the first passes go into leaving that point).

    documents  K documents drawn at random, each joined by the sampled documents nearest to it
    kmeans     the same, the K drawn far from each other: Bregman k-means++ (Hughes & Sudderth 2016) over a sample of documents
    best       the best of eight short trainings on a sample (tries.py)
    anchors    topics by anchor words (anchor_start.py)
    warm       the topics of a fitted model, matched word by word
    random     a random topic a cell or token, which the engine draws; or random topics (``RandomSeeds``), where it says so

The table is never held: it is the mean plus the few cells of the seed documents, and rows are made when asked for.
Draws depend on the seed and on document numbers only, so not on blocks, threads or memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import padded
from topicstream.errors import InputError
from topicstream.kernels.arrays import Array, Doubles
from topicstream.kernels.jit import kernel
from topicstream.kernels.rng import bits, stream, uniform
from topicstream.training.starts.seeding import divergences, fill_rows, own_entropies

SHARE = 0.5  # of a seed topic that is its documents' words; the rest is the corpus mean
MERGED = 1  # documents of a seed topic
SAMPLE = 2000  # documents among which kmeans chooses and nearest documents are looked for
FEW_TOKENS = 20  # tokens a document, in the mean, below which the mean's part of the seed topics is split at random
FREQUENT = 4096  # words whose split counts in the column sums
FEW_WORDS = 10  # documents with fewer distinct words are drawn only when there are not enough others
_PASS = 2**32 - 1  # pass number under which starts draw


class Seeds(Protocol):
    """A seed table, row by row."""

    totals: np.ndarray  # float64[padded(K)], column sums

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """float32[U, padded(K)] rows of these words: positive, unnormalised.  Safe from several threads."""


@kernel
def _draws(seed: int, draw: int, numbers: Array, out: Doubles) -> None:
    """out[i] = a uniform number of (seed, draw, numbers[i])."""
    for i in range(len(numbers)):
        out[i] = uniform(bits(stream(seed, draw, numbers[i])))


@kernel
def _draw_keys(seed: int, draw: int, first: int, lengths: Array, short: int, keys: Doubles) -> None:
    """A random key for every document of a storage block; no words: -1, too few: behind all others."""
    for d in range(len(lengths)):
        if lengths[d] == 0:
            keys[d] = -1.0
        else:
            keys[d] = uniform(bits(stream(seed, draw, first + d))) + (1.0 if lengths[d] < short else 0.0)


def draw_documents(corpus: Corpus, n: int, seed: int, draw: int = _PASS) -> np.ndarray:
    """Numbers of at most ``n`` distinct training documents in the order of their random keys, int64."""
    best_keys, best = np.zeros(0), np.zeros(0, np.int64)
    first = 0
    for s in range(len(corpus.part()["blocks"])):
        lengths = corpus.lengths(s)
        gone = corpus.removed()
        lengths[gone[(gone[:, 1] == 0) & (gone[:, 2] == s), 3]] = 0  # removed documents keep their row, without words
        keys = np.empty(len(lengths))
        _draw_keys(seed, draw, first, lengths, FEW_WORDS, keys)
        there = np.flatnonzero(keys >= 0)
        if len(there) > n:
            there = there[np.argpartition(keys[there], n)[:n]]
        best_keys, best = np.append(best_keys, keys[there]), np.append(best, first + there)
        order = np.argsort(best_keys, kind="stable")[:n]
        best_keys, best = best_keys[order], best[order]
        first += len(lengths)
    return best


class Sample:
    """Cells of chosen documents: indptr int64[n+1], words int32 (global), counts float64, lengths float64[n]."""

    def __init__(self, indptr: np.ndarray, words: np.ndarray, counts: np.ndarray) -> None:
        self.indptr, self.words, self.counts = indptr, words, counts
        self.lengths = np.add.reduceat(counts, indptr[:-1])
        self.entropies = np.empty(len(self.lengths))
        own_entropies(self.indptr, self.counts, self.lengths, self.entropies)

    @classmethod
    def read(cls, corpus: Corpus, grid: Grid, chosen: np.ndarray) -> Sample:
        """The documents of these numbers, in this order."""
        place = np.argsort(chosen, kind="stable")
        wanted = chosen[place]
        owner = np.searchsorted(grid.first_doc, wanted, side="right") - 1
        parts: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros(0, np.int32), np.zeros(0))] * len(chosen)
        for block in corpus.blocks(np.unique(owner), grid=grid, prefetch=1):
            for i in np.flatnonzero(owner == block.index):
                row = int(wanted[i]) - block.first_doc
                cells = slice(int(block.indptr[row]), int(block.indptr[row + 1]))
                parts[int(place[i])] = block.vocab[block.words[cells]], block.counts[cells].astype(np.float64)
        parts = [part for part in parts if len(part[0])]  # words that weigh nothing may have been all of a document
        sizes = [len(w) for w, _ in parts]
        indptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        return cls(
            indptr, np.concatenate([w for w, _ in parts]).astype(np.int32), np.concatenate([c for _, c in parts])
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def divergences(self, mean: np.ndarray, ground: np.ndarray, share: float, centre: int, out: np.ndarray) -> None:
        """Divergence of every document from the seed topic of document ``centre``; ground: log((1 - share) mean)."""
        cells = (self.indptr, self.words, self.counts, self.lengths, self.entropies)
        divergences(*cells, mean, ground, share, centre, out)

    def cells(self, d: int) -> slice:
        """Where document d's cells lie."""
        return slice(int(self.indptr[d]), int(self.indptr[d + 1]))


def far_apart(sample: Sample, mean: np.ndarray, topics: int, seed: int, share: float) -> np.ndarray:
    """Bregman k-means++: ``topics`` documents of the sample, each drawn with probability proportional to its divergence
    from the nearest one drawn before (int64; fewer when no document is left apart from them)."""
    ground, distance = np.log((1 - share) * mean), np.empty(len(sample))
    nearest = np.full(len(sample), np.inf)
    chosen: list[int] = []
    draws = np.empty(topics)
    _draws(seed, _PASS - 1, np.arange(topics), draws)
    for t in range(topics):
        weights = np.cumsum(np.ones(len(sample)) if t == 0 else nearest)
        if weights[-1] <= 0:
            break
        pick = min(int(np.searchsorted(weights, draws[t] * weights[-1], side="right")), len(sample) - 1)
        chosen.append(pick)
        sample.divergences(mean, ground, share, pick, distance)
        np.minimum(nearest, distance, out=nearest)
        nearest[pick] = 0.0
    return np.array(chosen, np.int64)


def join_nearest(sample: Sample, mean: np.ndarray, centres: np.ndarray, merged: int, share: float) -> list[list[int]]:
    """Documents of each topic: its centre and the ``merged - 1`` documents of the sample that are nearest to it among
    those that are nearer to it than to any other centre."""
    groups = [[int(c)] for c in centres]
    if merged <= 1:
        return groups
    ground, distance = np.log((1 - share) * mean), np.empty(len(sample))
    nearest, owner = np.full(len(sample), np.inf), np.full(len(sample), -1)
    for t, centre in enumerate(centres):
        sample.divergences(mean, ground, share, int(centre), distance)
        closer = distance < nearest
        nearest[closer], owner[closer] = distance[closer], t
    owner[centres] = -1
    order = np.argsort(nearest, kind="stable")
    for d in order:
        if owner[d] >= 0 and len(groups[owner[d]]) < merged:
            groups[owner[d]].append(int(d))
    return groups


class DocumentSeeds:
    """Seed topics from groups of documents.  Column sums are all N / K, or nearly.

    rows(ids)[u, k] = N/K ((1 - share) n_w/N + share p(w | documents of topic k))

    split: the first part of a word is split over the topics by a flat Dirichlet instead of evenly.  Most documents of a few
    words share none with any seed document: to them all topics would be equal, and stay so.
    """

    def __init__(
        self, sample: Sample, groups: list[list[int]], n_w: np.ndarray, share: float, seed: int, split: bool = False
    ) -> None:
        topics = len(groups)
        tokens = float(n_w.sum())
        self._mean, self._share, self._topics = n_w / tokens, share, topics
        self._scale = tokens / topics
        self._seed, self._split = seed, _PASS - 1 if split else 0
        owners: dict[tuple[int, ...], int] = {}
        words, topic, value = [], [], []
        for t, group in enumerate(groups):
            w = np.concatenate([sample.words[sample.cells(d)] for d in group])
            x = np.concatenate([sample.counts[sample.cells(d)] / sample.lengths[d] for d in group])
            again = owners.get(tuple(group), 0)
            owners[tuple(group)] = again + 1
            if (
                again
            ):  # fewer documents than topics: the same words at random weights, or the topics stay equal for good
                draws = np.empty(len(w))
                _draws(seed, _PASS - 2 - t, w, draws)
                x = x * (draws + 0.05)
            words.append(w)
            topic.append(np.full(len(w), t, np.int32))
            value.append((x / x.sum()).astype(np.float32))
        every = np.concatenate(words)
        order = np.argsort(every, kind="stable")
        self._topic, self._value = np.concatenate(topic)[order], np.concatenate(value)[order]
        self._ptr = np.zeros(len(n_w) + 1, np.int64)
        np.cumsum(np.bincount(every, minlength=len(n_w)), out=self._ptr[1:])
        self.totals = np.zeros(padded(topics))
        self.totals[:topics] = self._scale
        if split:  # the frequent words' shares differ from topic to topic; those of the others come to the same
            frequent = np.argsort(-n_w, kind="stable")[:FREQUENT].astype(np.int32)
            for split_by, sign in ((0, -1.0), (self._split, 1.0)):
                for at in _pieces(len(frequent), max(1, 2**20 // topics)):
                    self.totals += sign * self._rows(frequent[at], split_by).sum(axis=0, dtype=np.float64)

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """float32[U, padded(K)]: see the class."""
        return self._rows(ids, self._split)

    def _rows(self, ids: np.ndarray, split_by: int) -> np.ndarray:
        out = np.empty((len(ids), padded(self._topics)), np.float32)
        cells = (self._ptr, self._topic, self._value)
        fill_rows(ids, *cells, self._mean, self._share, self._scale, self._topics, self._seed, split_by, out)
        return out


class RandomSeeds:
    """Random topics, for engines whose start needs topics: the tokens of each word are split over them by a flat Dirichlet.
    A row depends on the seed and the word's number alone.

    rows(ids)[u, k] = n_w e[w, k] / sum_k e[w, k],  e ~ Exp(1)
    """

    def __init__(self, n_w: np.ndarray, topics: int, seed: int) -> None:
        self._n_w, self._topics, self._seed = n_w, topics, seed
        self.totals = np.zeros(padded(topics))
        for ids in _pieces(len(n_w)):
            self.totals += self.rows(ids).sum(axis=0, dtype=np.float64)

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """float32[U, padded(K)]: see the class."""
        words = np.asarray(ids, np.int64)
        draws = np.empty(len(words) * self._topics)
        _draws(self._seed, _PASS - 1, (words[:, None] * self._topics + np.arange(self._topics)).ravel(), draws)
        split = 1e-6 - np.log1p(-draws.reshape(len(words), self._topics))
        split *= (self._n_w[words] / split.sum(axis=1))[:, None]
        out = np.zeros((len(words), padded(self._topics)), np.float32)
        out[:, : self._topics] = split
        return out


STEP = 512
"""Words of a model that are turned into probabilities at a time."""


MODEL_WORD = 110
"""Bytes of a word of the model, as in inference/memory.py."""


def warm_bytes(model: str | Path, words: int, topics: int) -> int:
    """What a model to start from holds while blocks are started: its words, how they are found, and what is read of its
    table at a time.  The table itself is loaded where there is room."""
    from topicstream.model.store import read_manifest

    return MODEL_WORD * int(read_manifest(Path(model))["words"]) + 16 * words + 24 * STEP * topics + (16 << 20)


class ModelSeeds:
    """The topics of a fitted model over the words of this corpus; a word the model does not know has the corpus mean.

    ``unknown`` is the share of the corpus' tokens that the model does not know; ``share`` < 1 mixes the corpus mean into
    each topic, as in the seeds made of documents: topics fitted closely to old documents then take new ones more freely.

    names: of the last topics, where they have names: each begins as the model's topic of that name, a new one as the mean.
    """

    def __init__(
        self, model: Any, words: Any, n_w: np.ndarray, topics: int, share: float = 1.0, names: Any = None
    ) -> None:
        self._columns = np.arange(topics) if names is None else same_topics(model, topics, names)
        if names is None and model.n_topics != topics:
            raise InputError(
                f"the model to start from has {model.n_topics} topics, not {topics}; use -K {model.n_topics}"
            )
        self._new = self._columns < 0
        self._model, self._topics, self._part = model, topics, share
        self._ids = model.vocabulary.find(words)
        tokens = float(n_w.sum())
        self._mean = n_w / max(tokens, 1.0)
        missing = self._ids < 0
        self.unknown = float(n_w[missing].sum() / max(tokens, 1.0))
        if self.unknown >= 1.0:
            raise InputError("the model to start from knows no word of this corpus; start without --warm")
        self.totals = np.zeros(padded(topics))
        for ids in _pieces(len(n_w)):
            self.totals += self.rows(ids).sum(0, dtype=np.float64)

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """float32[U, padded(K)]: p(w|k) of the model (mixed with the mean) times a million."""
        out = np.zeros((len(ids), padded(self._topics)), np.float32)
        theirs = self._ids[ids]
        known = theirs >= 0
        here = np.flatnonzero(known)
        for at in range(0, len(here), STEP):  # the probabilities are float64
            some = here[at : at + STEP]
            out[some, : self._topics] = 1e6 * self._part * self._model.probabilities(theirs[some])[:, self._columns]
            if self._new.any():
                unknown = (1e6 * self._part * self._mean[ids[some]]).astype(np.float32)
                out[some[:, None], np.flatnonzero(self._new)] = unknown[:, None]
            if self._part < 1.0:
                out[some, : self._topics] += (1e6 * (1 - self._part) * self._mean[ids[some]]).astype(np.float32)[
                    :, None
                ]
        out[~known, : self._topics] = (1e6 * self._mean[ids[~known]]).astype(np.float32)[:, None]
        return out


def same_topics(model: Any, topics: int, names: Any) -> np.ndarray:
    """int64[topics], the model's topic that each of ours begins as, -1 none: the last ones by their names, those before
    them, which all documents share, by their numbers."""
    free = model.n_topics - len(model.manifest.get("label_docs") or [])
    by_name = {name: int(k) for k, name in (model.manifest.get("labels") or {}).items() if int(k) >= free}
    if not by_name:
        raise InputError("the model to start from has no topics of labels; start without --warm")
    first = [k if k < free else -1 for k in range(topics - len(names))]
    return np.array([*first, *(by_name.get(name, -1) for name in names.to_pylist())], np.int64)


def _pieces(n: int, step: int = 8192) -> Iterator[np.ndarray]:
    for at in range(0, n, step):
        yield np.arange(at, min(at + step, n))


def make_seeds(
    corpus: Corpus,
    grid: Grid,
    how: str,
    topics: int,
    seed: int,
    n_w: np.ndarray,
    *,
    warm: str | Path | None = None,
    share: float = SHARE,
    merged: int = MERGED,
    warm_share: float = 1.0,
    room: int | None = None,
    names: Any = None,
) -> Seeds | None:
    """The seed table of a start, or None for ``random``.

    how     ``documents``, ``kmeans``, ``warm`` (``warm`` names the model's folder) or ``random``
    grid    any grid of the corpus' training part: it decides what is read, not what comes out
    n_w     float64[W], training tokens of each word
    warm_share   of a warm start that is the model's topics; the rest is the corpus mean
    names   of the last topics, where they have names (a warm start finds them by those)
    room    bytes that the model's table may take; a larger one is read from its files (None: it is loaded whatever it takes)
    """
    if how == "random":
        return None
    if how == "warm":
        from topicstream.model.topic_model import TopicModel
        from topicstream.model.vocabulary import Vocabulary

        if warm is None:
            raise InputError("a warm start needs the model to start from")
        words = Vocabulary.read(corpus.file("vocab")).words
        return ModelSeeds(TopicModel.open(warm, memory_limit=room), words, n_w, topics, warm_share, names)
    if how not in ("documents", "kmeans"):
        raise ValueError(f"how must be 'documents', 'kmeans', 'warm' or 'random', not {how!r}")
    needed = topics if how == "documents" and merged <= 1 else max(SAMPLE, 2 * topics)
    sample = Sample.read(corpus, grid, draw_documents(corpus, needed, seed))
    mean = np.maximum(n_w / n_w.sum(), 1e-300)
    centres = far_apart(sample, mean, topics, seed, share) if how == "kmeans" else np.arange(min(topics, len(sample)))
    groups = join_nearest(sample, mean, centres, merged, share)
    groups = [groups[t % len(groups)] for t in range(topics)]
    split = float(n_w.sum()) < FEW_TOKENS * corpus.part()["docs"]
    return DocumentSeeds(sample, groups, n_w, share, seed, split)


def seed_table(seeds: Seeds, words: int) -> np.ndarray:
    """The whole table, float32[W, padded(K)]: for tests and for tables that fit in memory."""
    return np.concatenate([seeds.rows(ids) for ids in _pieces(words)])
