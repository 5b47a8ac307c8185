"""Gibbs sampling of new documents (Yao, Mimno and McCallum 2009).

Each document is sampled alone, with fixed topics. With ``own_counts`` its tokens add to the
training counts, which stay (their Gibbs3). With ``joint`` all documents are sampled together, and
add (their Gibbs2).

    alone:  p(z_i = k | rest)  ~  (phi_wk + beta) / (lam_k + W beta) * (n_dk + alpha_k)
    added:  p(z_i = k | rest)  ~  (phi_wk + m_wk + beta) / (lam_k + m_k + W beta) * (n_dk + alpha_k)

n_dk counts the document's other tokens, m the other tokens of this document (``own_counts``) or of
all (``joint``). The shares are the mean of (n_dk + alpha_k) / (n_d + sum alpha) over ``sweeps``
sweeps after ``burn``, where a token counts with the probabilities that it was drawn from, not with
the topic that was drawn (Rao-Blackwell).

A document alone draws from a stream keyed by its id and the seed, so the same document gets the
same answer whatever its neighbours, order or threads. Joint sampling holds all documents in memory
and runs on one thread, and its answer depends on the documents and their order.

A token whose word is impossible in every topic (a model without a prior) has no topic. A cell of
count x is x tokens. If a weight is no whole number, the last token has the rest.

``gibbs1`` samples new documents together with the training documents (their Gibbs1). The old tokens
go on from the topics that the run left them with, so topics keep their numbers. Each new token is
first drawn given the tokens that have a topic by then. It is the yardstick of the faster methods:
it holds corpus and topics in memory, on one thread, and its answers depend on the documents and
their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from topicstream.base.errors import InputError
from topicstream.base.options import option
from topicstream.corpus.reader import Corpus
from topicstream.inference.documents import Documents, fnv1a
from topicstream.inference.method import Method, TopicRows
from topicstream.inference.token_topics import token_topics
from topicstream.numeric.kernels.arrays import (
    Array,
    Doubles,
    Floats,
    Int,
    Ints,
    RowCells,
    TopicWeights,
    Words,
)
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.rng import bits, step, stream, uniform


@kernel
def count_units(x: float) -> Int:
    """Count the tokens of a cell."""
    return np.int64(np.ceil(x))


@kernel
def draw_topic(p: Doubles, topics: int, state: int) -> Int:
    """Draw a topic by its cumulated weights p, float64[K], or -1 if all are zero."""
    if not p[topics - 1] > 0.0:
        return np.int64(-1)
    u = uniform(bits(state)) * p[topics - 1]
    low = np.int64(0)
    high = np.int64(topics - 1)
    while low < high:
        middle = (low + high) // 2
        if p[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def add_chances(p: Doubles, unit: float, out: Array) -> None:
    """Add a token's probabilities to ``out``, from their cumulated weights p, float64[K].

    Nothing is added where all weights are zero.
    """
    topics = len(p)
    total = p[topics - 1]
    if not total > 0.0:
        return
    scale = unit / total
    before = 0.0
    for k in range(topics):
        out[k] += (p[k] - before) * scale
        before = p[k]


@kernel
def _prior(alpha: Doubles, out: Floats) -> None:
    total = alpha.sum()
    for k in range(len(alpha)):
        out[k] = alpha[k] / total if total > 0.0 else 1.0 / len(alpha)


class Sweeps(NamedTuple):
    """Seed of the draws, sweeps of burn-in, and sweeps whose shares are averaged."""

    seed: int
    burn: int
    averaged: int


@kernel
def sample_alone(
    cells: RowCells,
    weights: TopicWeights,
    alpha: Doubles,
    keys: Words,
    plan: Sweeps,
    shares: Floats,
) -> None:
    """Sample every document of a block by itself.

    Parameters
    ----------
    weights
        p(w|k); ``inverse`` is float64[K], 1 / (lam + W beta).
    alpha
        float64[K].
    keys
        uint64[D], streams of the documents.
    shares
        float32[D, K], result.
    """
    (indptr, rows, x) = cells
    (base, beta, inverse) = weights
    (seed, burn, sweeps) = plan
    topics = len(alpha)
    # room for the longest document: p(w|k) of its cells, and z of its tokens
    longest = 0
    most = 0
    for d in range(len(indptr) - 1):
        tokens = 0
        for i in range(indptr[d], indptr[d + 1]):
            tokens += count_units(x[i])
        longest = max(longest, indptr[d + 1] - indptr[d])
        most = max(most, tokens)
    word = np.empty((longest, topics), np.float32)
    z = np.empty(most, np.int32)
    n = np.zeros(topics)
    mean = np.zeros(topics)
    p = np.zeros(topics)
    alpha_sum = alpha.sum()
    for d in range(len(indptr) - 1):
        first = indptr[d]
        last = indptr[d + 1]
        if first == last:
            _prior(alpha, shares[d])
            continue
        n[:] = 0.0
        mean[:] = 0.0
        for i in range(first, last):
            # p(w|k) = (phi_wk + beta) / (lam_k + W beta), the topics held still
            for k in range(topics):
                word[i - first, k] = (np.float64(base[rows[i], k]) + beta) * inverse[k]
        state = stream(seed, 0, keys[d])
        # turn 0 draws a first topic of each token, the turns after it sweep
        for turn in range(burn + sweeps + 1):
            at = 0
            for i in range(first, last):
                left = np.float64(x[i])
                while left > 0.0:
                    unit = min(left, 1.0)
                    # n_dk without this token
                    if turn > 0 and z[at] >= 0:
                        n[z[at]] = max(n[z[at]] - unit, 0.0)
                    # p(z = k | rest) ~ p(w|k) (n_dk + alpha_k), cumulated over k
                    cumulated = 0.0
                    for k in range(topics):
                        cumulated += word[i - first, k] * (n[k] + alpha[k])
                        p[k] = cumulated
                    if turn > burn:
                        add_chances(p, unit, mean)
                    k = draw_topic(p, topics, state)
                    state = step(state)
                    z[at] = k
                    if k >= 0:
                        n[k] += unit
                    at += 1
                    left -= unit
        # share_dk = (mean n_dk + alpha_k) / (n_d + sum alpha)
        mass = mean.sum() / sweeps + alpha_sum
        for k in range(topics):
            shares[d, k] = (mean[k] / sweeps + alpha[k]) / mass if mass > 0.0 else 1.0 / topics


@kernel
def divide_mass(weight: float, mass: float) -> float:
    """Divide, with 0 for the mass of an empty topic without a prior.

    Such a topic explains no word.
    """
    return weight / mass if mass > 0.0 else 0.0


class GrowingCounts(NamedTuple):
    """Counts of topics that the tokens of new documents add to.

    Attributes
    ----------
    base
        float32[U, K], the rows of the words that occur.
    extra
        float64[U, K]. It gains base and beta, then the new tokens.
    totals
        float64[K], sizes of the topics. They gain the new tokens.
    beta
        Of each word.
    width
        W beta.
    """

    base: Floats
    extra: Doubles
    totals: Doubles
    beta: float
    width: float


@kernel
def sample_together(
    cells: RowCells,
    z: Ints,
    counts: GrowingCounts,
    alpha: Doubles,
    key: int,
    plan: Sweeps,
    shares: Floats,
) -> None:
    """Sample all documents at once, and sum over the sweeps in place.

    Parameters
    ----------
    z
        int32[tokens], topics of documents that have them, which ``counts`` holds already. -1 for
        all tokens of a document: to be drawn.
    key
        uint64, stream of the draws.
    shares
        float32[D, K], result.
    """
    (indptr, rows, x) = cells
    (base, extra, totals, beta, width) = counts
    (seed, burn, sweeps) = plan
    topics = len(alpha)
    n = np.zeros((len(indptr) - 1, topics), np.float32)
    coef = np.zeros(topics)
    p = np.zeros(topics)
    shares[:, :] = 0
    state = stream(seed, 1, key)
    # extra_wk = phi_wk + beta, which new tokens add to
    for w in range(len(extra)):
        for k in range(topics):
            extra[w, k] += base[w, k] + beta
    # turn 0 draws topics of tokens without one, the turns after it sweep over all
    for turn in range(burn + sweeps + 1):
        at = 0
        for d in range(len(indptr) - 1):
            for k in range(topics):
                # coef_k = (n_dk + alpha_k) / (lam_k + m_k + W beta), kept up to date token by token
                coef[k] = divide_mass(n[d, k] + alpha[k], totals[k] + width)
            for i in range(indptr[d], indptr[d + 1]):
                left = np.float64(x[i])
                w = rows[i]
                while left > 0.0:
                    unit = min(left, 1.0)
                    # a token with a topic already: only the document has not counted it
                    if turn == 0 and z[at] >= 0:
                        n[d, z[at]] += unit
                        at += 1
                        left -= unit
                        continue
                    # n_dk, m_wk and m_k without this token
                    if turn > 0 and z[at] >= 0:
                        was = z[at]
                        n[d, was] = max(n[d, was] - unit, 0.0)
                        extra[w, was] = max(extra[w, was] - unit, 0.0)
                        totals[was] -= unit
                        coef[was] = divide_mass(n[d, was] + alpha[was], totals[was] + width)
                    # p(z = k | rest) ~ (phi_wk + m_wk + beta) coef_k, cumulated over k
                    cumulated = 0.0
                    for k in range(topics):
                        cumulated += extra[w, k] * coef[k]
                        p[k] = cumulated
                    if turn > burn:
                        add_chances(p, unit, shares[d])
                    k = draw_topic(p, topics, state)
                    state = step(state)
                    z[at] = k
                    # and with it again, under its new topic
                    if k >= 0:
                        n[d, k] += unit
                        extra[w, k] += unit
                        totals[k] += unit
                        coef[k] = divide_mass(n[d, k] + alpha[k], totals[k] + width)
                    at += 1
                    left -= unit
    # share_dk = (mean n_dk + alpha_k) / (n_d + sum alpha)
    alpha_sum = alpha.sum()
    for d in range(len(indptr) - 1):
        mass = 0.0
        for k in range(topics):
            mass += shares[d, k]
        if mass == 0.0:
            _prior(alpha, shares[d])
            continue
        for k in range(topics):
            shares[d, k] = (shares[d, k] / sweeps + alpha[k]) / (mass / sweeps + alpha_sum)


def mark_undrawn_tokens(x: np.ndarray) -> np.ndarray:
    """Return z of the tokens of cells before any is drawn, int32[tokens]."""
    return np.full(int(np.ceil(x).sum(dtype=np.float64)), -1, np.int32)


def count_sampled_bytes(docs: Documents, topics: int) -> int:
    """Count the bytes of documents that are sampled together.

    They are cells twice (sorted and numbered), z of each token, and the answers.
    """
    tokens = int(np.ceil(docs.counts).sum(dtype=np.float64))
    return 64 * len(docs.words) + 4 * tokens + 4 * topics * len(docs)


def split_by_block(blocks: Sequence[Documents], shares: np.ndarray) -> dict[int, np.ndarray]:
    """Map each block, by its ``id``, to its rows of ``shares``."""
    ends = np.cumsum([len(block) for block in blocks])[:-1]
    return {id(block): part for block, part in zip(blocks, np.split(shares, ends), strict=True)}


@dataclass(frozen=True)
class SamplingOptions:
    """Options of the samplers."""

    sweeps: int = option(100, "Sweeps to average after burn-in.", min=1, show=True)
    burn: int = option(30, "Burn-in sweeps.", min=0, show=True)
    seed: int = option(0, "Random seed.", min=0, show=True)


@dataclass(frozen=True)
class JointOptions(SamplingOptions):
    """Options of sampling new documents."""

    joint: bool = option(False, "Sample all documents together, held in memory.")
    own_counts: bool = option(
        False, "Count a document's own tokens in the topics while it is sampled."
    )


def require_prior(rows: TopicRows, option: str) -> None:
    """Refuse to start from a prior that leaves no choice of topics.

    A topic whose alpha is 0 has no share of any document before a token is in it, so it never gets
    one. With alpha 0 throughout nothing is drawn. With one alpha above 0 every document would have
    that topic alone, whatever its words. Without a beta the words that only such a topic has would
    have no topic at all.

    Parameters
    ----------
    option
        The option that needs the prior, with which the message begins.

    Raises
    ------
    InputError
        Fewer than two topics have an alpha above 0, or beta is 0 and not all have one.
    """
    possible = int((rows.alpha64 > 0).sum())
    if rows.topics == 1 or possible == rows.topics or (possible > 1 and rows.beta > 0):
        return
    beta = "" if rows.beta > 0 else ", and beta is 0"
    raise InputError(
        f"{option}: alpha is 0 for {rows.topics - possible} of the {rows.topics} topics of "
        f"{rows.model.name}{beta}, so no word could reach them; use --method bp, or give the model "
        f"a prior (`topics import --alpha`, `topics train --alpha`)"
    )


class Gibbs(Method):
    """Gibbs sampling of each document with fixed topics, or of all together (--joint).

    References
    ----------
    Yao, Mimno & McCallum (2009). Efficient methods for topic model inference on streaming document
    collections. KDD 2009. Section 3.
    """

    name: ClassVar[str] = "gibbs"
    cites: ClassVar[str] = "Yao, Mimno and McCallum 2009, Gibbs3 and Gibbs2"
    Options: ClassVar[type] = JointOptions
    options: JointOptions

    def __init__(self, rows: TopicRows, **options: Any) -> None:
        super().__init__(rows, **options)
        if self.options.joint and self.options.own_counts:
            raise InputError(
                "--joint counts the tokens of all new documents, --own-counts those of each: "
                "leave one out"
            )
        require_prior(rows, "--method gibbs")
        self.needs_all = self.options.joint
        norms = np.asarray(rows.model.totals, np.float64) + rows.model.n_words * rows.beta
        self._inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        self._answers: dict[int, np.ndarray] = {}

    def gather(self, blocks: Iterable[Documents]) -> Iterable[Documents]:
        """Sample all documents before the first answer, if they are sampled together."""
        if not self.options.joint:
            return blocks
        words = self.rows.model.n_words
        topics = self.rows.topics
        cells = 0

        def count_bytes(block: Documents) -> int:
            nonlocal cells
            before = cells
            cells = cells + len(block.words)
            # rows of the table, as float32 and as float64 with the new tokens
            rows = min(words, cells) - min(words, before)
            return 12 * topics * rows + count_sampled_bytes(block, topics)

        documents = self.hold(blocks, count_bytes)
        if documents:
            lengths = [np.diff(block.indptr) for block in documents]
            indptr = np.concatenate([[0], *lengths]).cumsum()
            ids = np.concatenate([block.words for block in documents])
            x = np.concatenate([block.counts for block in documents])
            used, rows = np.unique(ids, return_inverse=True)
            shares = self._sample_adding(indptr, rows, x, self.rows.model.rows(used), np.uint64(0))
            self._answers = split_by_block(documents, shares)
        return documents

    def shares(self, docs: Documents) -> np.ndarray:
        if self.options.joint:
            return self._answers[id(docs)]
        rows, base = self.rows.gather(docs)
        keys = fnv1a(docs.ids)
        options = self.options
        out = np.empty((len(docs), self.rows.topics), np.float32)
        if options.own_counts:
            for d, key in enumerate(keys):
                cells = slice(docs.indptr[d], docs.indptr[d + 1])
                used, local = np.unique(rows[cells], return_inverse=True)
                out[d] = self._sample_adding(
                    np.array([0, len(local)]), local, docs.counts[cells], base[used], key
                )
            return out
        sample_alone(
            RowCells(docs.indptr, rows, docs.counts),
            TopicWeights(base, self.rows.beta, self._inverse),
            self.rows.alpha64,
            keys,
            Sweeps(options.seed, options.burn, options.sweeps),
            out,
        )
        return out

    def _sample_adding(
        self, indptr: np.ndarray, rows: np.ndarray, x: np.ndarray, base: np.ndarray, key: np.uint64
    ) -> np.ndarray:
        """Sample documents whose tokens add to the topics.

        Parameters
        ----------
        indptr, rows, x
            Cells of the documents, each with its row of ``base`` and its count.
        key
            Stream of the draws.

        Returns
        -------
        float32[D, K]
        """
        topics = self.rows.topics
        model = self.rows.model
        beta = self.rows.beta
        options = self.options
        shares = np.empty((len(indptr) - 1, topics), np.float32)
        totals = np.array(model.totals, np.float64)
        extra = np.zeros((len(base), topics))
        sample_together(
            RowCells(indptr, rows.astype(np.int64), x),
            mark_undrawn_tokens(x),
            GrowingCounts(base, extra, totals, beta, model.n_words * beta),
            self.rows.alpha64,
            key,
            Sweeps(options.seed, options.burn, options.sweeps),
            shares,
        )
        return shares


@dataclass(frozen=True)
class Gibbs1Options(SamplingOptions):
    """Options of sampling with the training documents."""

    trained_on: str | Path | Corpus = option(
        "corpus.zarr",
        "Corpus that the model was trained on with gs or sparselda.",
        path=True,
        metavar="CORPUS",
        show=True,
    )


class Gibbs1(Method):
    """Gibbs sampling together with the training documents, whose run should have converged.

    References
    ----------
    Yao, Mimno & McCallum (2009). Efficient methods for topic model inference on streaming document
    collections. KDD 2009. Section 3.
    """

    name: ClassVar[str] = "gibbs1"
    cites: ClassVar[str] = "Yao, Mimno and McCallum 2009, Gibbs1"
    Options: ClassVar[type] = Gibbs1Options
    needs_all: bool = True
    options: Gibbs1Options

    def __init__(self, rows: TopicRows, **options: Any) -> None:
        super().__init__(rows, **options)
        require_prior(rows, "--method gibbs1")
        trained_on = self.options.trained_on
        self.corpus = trained_on if isinstance(trained_on, Corpus) else Corpus.open(trained_on)
        self._blocks = token_topics(rows.model.path, self.corpus, rows.topics, "--method gibbs1")
        self._answers: dict[int, np.ndarray] = {}

    def load(self) -> None:
        """Load nothing: the topics' counts come from the tokens."""

    def gather(self, blocks: Iterable[Documents]) -> Iterable[Documents]:
        """Sample all documents before the first answer."""
        words = self.rows.model.n_words
        topics = self.rows.topics
        trained = self.corpus.part()
        trained_bytes = 64 * trained.cells + 12 * int(trained.tokens) + 4 * topics * trained.docs
        documents = self.hold(
            blocks,
            lambda block: count_sampled_bytes(block, topics),
            12 * words * topics + trained_bytes,
        )
        if not documents:
            return documents
        extra = np.zeros((words, topics))
        # pseudo-counts of seed words, which no draw moves
        fixed = np.zeros((words, topics), np.float32)
        fixed_totals = np.zeros(topics)
        seeds = self.rows.model.seeds
        if seeds is not None:
            seeds.add(fixed, seeds.ids.astype(np.int64), np.arange(len(seeds)))
            fixed_totals += seeds.totals[:topics]
        # lengths, words, counts and topics of the training documents, then of the new ones
        parts = []
        for block, z in self._blocks:
            ids = block.vocab.astype(np.int64)[block.words]
            np.add.at(extra, (np.repeat(ids, block.counts.astype(np.int64)), z), 1.0)
            x = block.counts.astype(np.float32)
            parts.append((np.diff(block.indptr), ids, x, z.astype(np.int32)))
        for docs in documents:
            z = mark_undrawn_tokens(docs.counts)
            parts.append((np.diff(docs.indptr), docs.words, docs.counts, z))
        lengths, ids, x, z = map(np.concatenate, zip(*parts, strict=True))
        indptr = np.concatenate([[0], lengths]).cumsum().astype(np.int64)
        totals = extra.sum(axis=0) + fixed_totals
        shares = np.empty((len(lengths), topics), np.float32)
        options = self.options
        beta = self.rows.beta
        sample_together(
            RowCells(indptr, ids, x),
            z,
            GrowingCounts(fixed, extra, totals, beta, words * beta),
            self.rows.alpha64,
            np.uint64(1),
            Sweeps(options.seed, options.burn, options.sweeps),
            shares,
        )
        self._answers = split_by_block(documents, shares[-sum(map(len, documents)) :])
        return documents

    def shares(self, docs: Documents) -> np.ndarray:
        return self._answers[id(docs)]
