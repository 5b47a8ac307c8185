"""Document completion: how well a model foretells the rest of a document it has seen most of (Zeng et al. 2012).

Each document's cells are split in two by a hash of the document's id and the word's text, so the split never changes
with block size, order, word ids or vocabulary.  theta of the observed side is the local step's (kernels/local_step.py),
the answer that ``infer`` gives for those cells, to the bit.  (Going on to a tolerance of 1e-6 moved the perplexity by
0.05 % on 20news.)  The other side is scored with p(w|d) = sum_k p(w|k) theta[k], natural logarithms.

Every document is computed alone and the logarithms are added one by one in document order in float64, so the result is
the same bits for any block size and number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from topicstream.corpus.block import Block
from topicstream.errors import InputError, UsageError
from topicstream.evaluation.keys import document_keys, match_words, word_keys
from topicstream.evaluation.memory import LANES, block_cells, block_docs
from topicstream.kernels.arrays import Array, Doubles, Floats, Ints, Longs, Words
from topicstream.kernels.jit import kernel
from topicstream.kernels.local_step import (
    DIRICHLET,
    EVEN,
    INNER,
    PANEL_FLOATS,
    POINT,
    TOLERANCE,
    VB_TOLERANCE,
    digamma_norms,
    dirichlet_rows,
    inverse_norms,
    local_step,
    padded_floats,
    probabilities,
    sort_cells,
)
from topicstream.kernels.rng import bits, uniform
from topicstream.model.weighting import CountedWords
from topicstream.parallel.order import in_order

FOLD_IN = {"bp": TOLERANCE, "vb": VB_TOLERANCE}
"""Methods of ``infer`` whose theta can be scored, and where each stops."""


@dataclass(frozen=True)
class Score:
    """What was measured.  perplexity = exp(nats_per_token), infinite where a scored word is impossible (beta = 0); tokens, cells and docs are those scored; skipped documents
    have no cell left on one of the two sides; out-of-vocabulary tokens are on neither."""

    perplexity: float
    nats_per_token: float
    tokens: float
    cells: int
    docs: int
    skipped: int
    oov_tokens: float
    oov_rate: float
    inner: float
    split: float | None
    fold_in: str = "bp"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def measured(self) -> str:
        """In words."""
        how = "with the topics fixed" if self.fold_in == "bp" else f"by {self.fold_in} with the topics fixed"
        if self.split is None:
            return f"perplexity of all cells, theta folded in on the same cells {how}"
        seen, rest = round(100 * self.split, 6), round(100 * (1 - self.split), 6)
        return (
            f"document completion: perplexity of {rest:g} % of each document's words (by type), theta folded in on the "
            f"other {seen:g} % {how}"
        )


class Half(NamedTuple):
    """One side of the documents of a block; both sides are one where all cells are scored.

    indptr: int64[D+1]; rows: int64[n], the words' rows in a table, ascending in a document; counts: float32[n]
    """

    indptr: np.ndarray
    rows: np.ndarray
    counts: np.ndarray


@kernel
def split_cells(
    indptr: Longs,
    words: Ints,
    counts: Array,
    at: Longs,
    doc_keys: Words,
    hashes: Words,
    split: float,
    ptr: Longs,
    rows: Longs,
    n: Floats,
    ptr_rest: Longs,
    rows_rest: Longs,
    n_rest: Floats,
    tally: Doubles,
) -> float:
    """Put the known cells of each document on their sides; a document without a cell on one of the two is on neither.

    indptr: int64[D+1], words: int32[nnz], counts: [nnz]; at: int64[U], row of each local word, -1 unknown;
    doc_keys: uint64[D]; hashes: uint64[U]; split: observed share -> ptr, rows, n, a ``Half`` of what is seen, and that of
    the rest; tally: float64[2] gains documents scored and skipped; returns the out-of-vocabulary tokens.
    """
    unknown = 0.0
    s = r = 0
    ptr[0] = ptr_rest[0] = 0
    for d in range(len(indptr) - 1):
        first_seen, first_rest = s, r
        for c in range(indptr[d], indptr[d + 1]):
            w = words[c]
            if at[w] < 0:
                unknown += counts[c]
            elif uniform(bits(doc_keys[d] ^ hashes[w])) < split:
                rows[s], n[s] = at[w], counts[c]
                s += 1
            else:
                rows_rest[r], n_rest[r] = at[w], counts[c]
                r += 1
        if s == first_seen or (r == first_rest and split <= 1.0):
            tally[1] += 1
            s, r = first_seen, first_rest
        else:
            tally[0] += 1
            sort_cells(rows, n, first_seen, s)
            sort_cells(rows_rest, n_rest, first_rest, r)
        ptr[d + 1], ptr_rest[d + 1] = s, r
    return unknown


@kernel
def score_cells(
    indptr: Longs,
    rows: Longs,
    counts: Floats,
    base: Floats,
    beta: float,
    inverse: Floats,
    theta: Floats,
    loglik: Doubles,
    tokens: Doubles,
) -> None:
    """loglik[d] = sum x log p(w|d), tokens[d] = sum x over the cells of each document; 0 where there are none.

    indptr: int64[D+1]; rows: int64[nnz] of base; counts: float32[nnz]; base: float32[R, C]; inverse: float32[KP];
    theta: float32[D, K] -> loglik, tokens: float64[D].
    """
    width, topics = len(inverse), theta.shape[1]
    most = max(8, PANEL_FLOATS // width // 8 * 8)
    longest = 0
    for d in range(len(indptr) - 1):
        longest = max(longest, indptr[d + 1] - indptr[d])
    most = min(most, max(8, -(-longest // 8) * 8))
    own, p, t = np.empty(most * width, np.float32), np.empty(most, np.float32), np.zeros(width, np.float32)
    for d in range(len(indptr) - 1):
        score, mass = 0.0, 0.0
        for k in range(topics):
            t[k] = theta[d, k]
        for first in range(indptr[d], indptr[d + 1], most):
            last = min(first + most, indptr[d + 1])
            probabilities(rows[first:last], base, beta, inverse, t, own, p)
            for c in range(first, last):
                score += np.float64(counts[c]) * np.log(np.float64(p[c - first]))
                mass += np.float64(counts[c])
        loglik[d], tokens[d] = score, mass


@dataclass
class PreparedPart:
    """Documents made ready to be scored again and again: the grid and the keys are found once.

    blocks   called for each scoring: (block, keys of its documents uint64[D]) in document order
    hashes   uint64[W of the corpus], keys of the words' texts
    docs     documents in all
    """

    blocks: Callable[[], Iterable[tuple[Block, np.ndarray]]]
    hashes: np.ndarray
    docs: int


def prepare_heldout(
    corpus: Any, parts: Sequence[str] = ("heldout",), *, split: bool = True, topics: int | None = None
) -> PreparedPart:
    """Make parts (``heldout``, ``train``) of an open ``Corpus`` ready.  InputError when they hold no documents.

    split=False leaves the keys of documents and words out: enough to score all cells.  ``topics``: keeps the blocks small
    enough for gathered rows of so many topics (never changes a result).
    """
    flags = [part == "heldout" for part in parts]
    if not any(corpus.part(f)["docs"] for f in flags):
        where = "set aside" if any(flags) else "in the training part"
        raise InputError(
            f"{corpus.path}: no documents {where}; ingest again with --heldout 1%, or name a --heldout corpus"
        )
    grids = [corpus.grid(block_cells(topics), block_docs(topics), heldout=f) for f in flags]
    keys = [document_keys(corpus, f) if split else None for f in flags]

    def blocks() -> Iterator[tuple[Block, np.ndarray]]:
        for grid, of_part in zip(grids, keys, strict=True):
            for block in corpus.blocks(grid=grid, heldout=grid.heldout):
                if of_part is None:
                    yield block, np.zeros(block.n_docs, np.uint64)
                else:
                    yield block, of_part[block.first_doc : block.first_doc + block.n_docs]

    hashes = word_keys(corpus) if split else np.zeros(corpus.n_words, np.uint64)
    return PreparedPart(blocks, hashes, sum(corpus.part(f)["docs"] for f in flags))


def _one_by_one(total: float, values: np.ndarray) -> float:
    """total + values[0] + values[1] + ..., strictly in order."""
    return float(np.cumsum(np.concatenate(([total], values)))[-1]) if len(values) else total


def halves(
    block: Block, at: np.ndarray, keys: np.ndarray, hashes: np.ndarray, split: float | None
) -> tuple[Half, Half, tuple[int, int], float]:
    """(observed cells, scored cells, (documents scored, skipped), out-of-vocabulary tokens) of a block; split None: all
    cells are both.  at: int64[U], the row of each local word, -1 unknown; keys: uint64[D]; hashes: uint64[U]."""
    docs, n = block.n_docs, len(block.words)
    seen, rest = (Half(np.empty(docs + 1, np.int64), np.empty(n, np.int64), np.empty(n, np.float32)) for _ in range(2))
    tally = np.zeros(2)
    share = 2.0 if split is None else float(split)
    unknown = split_cells(block.indptr, block.words, block.counts, at, keys, hashes, share, *seen, *rest, tally)
    seen, rest = (Half(h.indptr, h.rows[: h.indptr[-1]], h.counts[: h.indptr[-1]]) for h in (seen, rest))
    return seen, seen if split is None else rest, (int(tally[0]), int(tally[1])), float(unknown)


def rows_of(table: Any, ids: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows float32[R, >= K], row of each of ``ids`` int64[U], -1 unknown): the table itself where it is in memory, else
    the rows of these words, ascending.  Either way rows ascend as the model's ids do."""
    array = table if isinstance(table, np.ndarray) else getattr(table, "phi", None)
    if array is not None:
        return array, ids
    known = np.unique(ids[ids >= 0])
    base = np.zeros((max(1, len(known)), width), np.float32)
    if len(known):
        table.rows(known, out=base)
    return base, np.where(ids >= 0, np.searchsorted(known, ids), -1)


@dataclass(frozen=True)
class ScoredTopics:
    """The topics that documents are scored under.

    rows     an array [W, >= K] of counts without the prior (padding columns zero), or anything with ``rows(ids, out)``: a
             TopicModel, in memory or on disk
    alpha    float64[K];  beta: per word;  lam: float64[>= K], column sums of the table;  n_words: W of the model
    index    int64[W of the corpus]: the model's id of each of the corpus' words, -1 unknown; None: the same vocabulary
    counted  of a model of weighted cells: theta is of the weighted observed cells, p(w|k) and what is scored are of counts
    """

    rows: Any
    alpha: np.ndarray
    beta: float
    lam: np.ndarray
    n_words: int
    index: np.ndarray | None = None
    counted: CountedWords | None = None

    @classmethod
    def of_model(cls, model: Any, index: np.ndarray | None) -> ScoredTopics:
        """Those of a TopicModel; index: as ``match_words`` finds it, or with fewer words known."""
        counted = None
        if getattr(model, "weights", None) is not None:
            counted = CountedWords(model.weights, model.counts(), model.vocabulary.counts, model.n_topics, model.seeds)
        return cls(model, model.alpha, model.beta, model.totals, model.n_words, index, counted)


class _Visit:
    """Scores a block: everything that is the same for all of them is made ready once."""

    def __init__(self, topics: ScoredTopics, prepared: PreparedPart, split: float | None, fold_in: str) -> None:
        self.topics, self.hashes, self.split = topics, prepared.hashes, split
        self.alpha, self.width = np.asarray(topics.alpha, np.float64), -(-len(topics.alpha) // LANES) * LANES
        lam = np.asarray(topics.lam, np.float64)[: len(self.alpha)]
        self.inverse = inverse_norms(lam, topics.n_words, topics.beta, self.width)
        self.prior, self.ones = (padded_floats(v, self.width) for v in (self.alpha, np.ones(len(self.alpha))))
        self.norms = digamma_norms(lam, topics.n_words, topics.beta) if fold_in == "vb" else None
        self.tol = float(FOLD_IN[fold_in])

    def __call__(self, item: tuple[Block, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
        """(log-likelihood and tokens of each document, counts of documents, cells and sweeps, unknown tokens, all tokens)."""
        (block, keys), topics = item, self.topics
        ids = block.vocab.astype(np.int64) if topics.index is None else topics.index[block.vocab]
        base, at = rows_of(topics.rows, ids, self.width)
        seen, rest, scored, unknown = halves(block, at, keys, self.hashes[block.vocab], self.split)
        of_counts, inverse = base, self.inverse
        if topics.counted is not None:  # known words alone, ascending: rows are counted off them
            known = np.unique(ids[ids >= 0])
            if len(base) != len(known):
                seen = seen._replace(rows=np.searchsorted(known, seen.rows))
                rest = rest._replace(rows=np.searchsorted(known, rest.rows))
                base = np.ascontiguousarray(base[known])
            seen = seen._replace(counts=topics.counted.weights.cells(seen.indptr, known[seen.rows], seen.counts))
            of_counts = topics.counted.rows(known, base)
            inverse = inverse_norms(topics.counted.totals, topics.n_words, topics.beta, self.width)
        theta, sweeps = self._fold_in(seen, base)
        loglik, tokens = np.empty(block.n_docs), np.empty(block.n_docs)
        score_cells(rest.indptr, rest.rows, rest.counts, of_counts, topics.beta, inverse, theta, loglik, tokens)
        return loglik, tokens, np.array([*scored, len(rest.rows), sweeps]), unknown, block.tokens

    def _fold_in(self, seen: Half, base: np.ndarray) -> tuple[np.ndarray, float]:
        """(theta float32[D, K] of the observed cells, inner iterations)."""
        theta, beta = np.empty((len(seen.indptr) - 1, len(self.alpha)), np.float32), float(self.topics.beta)
        if self.norms is None:
            sweeps = local_step(*seen, base, beta, self.inverse, self.prior, POINT, EVEN, self.tol, INNER, theta)
        else:
            cells, weights = dirichlet_rows(seen.rows, base, beta, self.norms, self.width)
            observed = seen.indptr, cells, seen.counts, weights
            sweeps = local_step(*observed, 0.0, self.ones, self.prior, DIRICHLET, EVEN, self.tol, INNER, theta)
        return theta, float(sweeps)


def score_blocks(
    topics: ScoredTopics,
    prepared: PreparedPart,
    *,
    split: float | None = 0.8,
    threads: int = 1,
    fold_in: str = "bp",
    progress: Callable[[int, int], None] | None = None,
    each: Callable[[np.ndarray, np.ndarray], None] | None = None,
) -> Score:
    """Score a prepared corpus part.

    split    observed share of the cells; None: theta from all cells, all cells scored (exact training perplexity)
    fold_in  theta of the observed cells as ``infer`` answers it by method ``bp`` or ``vb``
    progress called with (documents done, documents in all)
    each     called with (loglik, tokens scored) of the documents, float64[D] each, block by block in document order
    """
    if fold_in not in FOLD_IN:
        raise UsageError(f"--fold-in {fold_in}: choose one of {', '.join(FOLD_IN)}")
    visit = _Visit(topics, prepared, split, fold_in)
    loglik = tokens = oov = every = 0.0
    tally, done = np.zeros(4), 0
    for ll, tk, ta, unknown, of_block in in_order(visit, prepared.blocks(), threads):
        loglik, tokens = _one_by_one(loglik, ll), _one_by_one(tokens, tk)
        if each is not None:
            each(ll, tk)
        oov += unknown
        every += of_block
        tally += ta
        done += len(ll)
        if progress is not None:
            progress(done, prepared.docs)
    if tokens == 0:
        raise InputError("no document could be scored: each needs two known words or more; check the vocabulary")
    nats = -loglik / tokens
    return Score(
        perplexity=float(np.exp(nats)),
        nats_per_token=nats,
        tokens=tokens,
        cells=int(tally[2]),
        docs=int(tally[0]),
        skipped=int(tally[1]),
        oov_tokens=oov,
        oov_rate=oov / every,
        inner=float(tally[3] / tally[0]),
        split=split,
        fold_in=fold_in,
    )


def score_model(
    model: Any,
    corpus: Any,
    *,
    split: float | None = 0.8,
    threads: int = 1,
    parts: Sequence[str] = ("heldout",),
    fold_in: str = "bp",
    progress: Callable[[int, int], None] | None = None,
    each: Callable[[np.ndarray, np.ndarray], None] | None = None,
) -> Score:
    """Score a TopicModel on parts of an open ``Corpus``; words are matched by text where the vocabularies differ."""
    topics = ScoredTopics.of_model(model, match_words(model.vocabulary, corpus))
    prepared = prepare_heldout(corpus, parts, split=split is not None, topics=model.n_topics)
    more: dict[str, Any] = {"progress": progress, "each": each}
    return score_blocks(topics, prepared, split=split, threads=threads, fold_in=fold_in, **more)
