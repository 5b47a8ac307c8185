"""Document completion: how well a model foretells the rest of a document it has seen most of (paper 000, eq. 25).

Each document's cells are split in two by a hash of the document's id and the word's text, so the split never changes
with block size, order, word ids or vocabulary.  On the observed side theta is folded in with phi fixed, by the fixed
point of EM (BP without exclusion):

    theta[k]  <-  sum_w x[w] A[k] (phi[w,k] + beta) / sum_j A[j] (phi[w,j] + beta),   A[k] = (theta[k] + alpha[k]) / Z[k]

with Z[k] = lam[k] + W beta, from theta spread evenly, until the change of theta summed over topics falls below ``tol``
(1e-3) of the observed tokens, or for 100 inner iterations (going on to 1e-6 moved the perplexity by 0.05 % on 20news).
The other side is scored with
p(w|d) = sum_k (phi[w,k] + beta) / Z[k] * (theta[k] + alpha[k]) / (n + sum alpha), natural logarithms.

Every document is computed alone and the logarithms are added one by one in document order in float64, so the result is
the same bits for any block size and number of threads.

phi -> base, index   lam + W beta -> 1 / inv   theta -> theta   x -> counts   A -> weight
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.errors import InputError
from topicstream.evaluation.keys import document_keys, match_words, word_keys
from topicstream.kernels.fold_in import INNER, TOLERANCE, fold_in, inverse_norms, padded_floats
from topicstream.kernels.jit import fast_kernel
from topicstream.kernels.rng import bits, uniform
from topicstream.parallel.order import in_order

BLOCK_CELLS = 1 << 15
LANES = 16
GATHERED = 32 << 20


def block_cells(topics: int | None) -> int:
    """Cells of a block: 2^15, fewer where the rows gathered for them could take more than 32 MB a thread."""
    return BLOCK_CELLS if not topics else max(1 << 11, min(BLOCK_CELLS, GATHERED // (4 * topics)))


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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def measured(self) -> str:
        """In words."""
        if self.split is None:
            return "perplexity of all cells, theta folded in on the same cells with the topics fixed"
        seen, rest = round(100 * self.split, 6), round(100 * (1 - self.split), 6)
        return (
            f"document completion: perplexity of {rest:g} % of each document's words (by type), theta folded in on the "
            f"other {seen:g} % with the topics fixed"
        )


@fast_kernel
def complete(
    indptr, words, counts, index, doc_keys, hashes, base, alpha, inv, beta, split, tol, inner, loglik, tokens, tally
):
    """Score the documents of one block.

    indptr: int64[D+1], words: int32[nnz], counts: [nnz]; index: int64[U], row of base of each local word, -1 unknown;
    doc_keys: uint64[D]; hashes: uint64[U]; base: [R, KP]; alpha, inv: float32[KP]; split: observed share, 2.0 for all
    cells on both sides -> loglik, tokens: float64[D] of the scored cells (0 when skipped); tally: float64[4] gains
    documents scored, skipped, scored cells, inner iterations; returns the out-of-vocabulary tokens.
    """
    width = len(inv)
    theta, weight, gathered = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    longest = 0
    for d in range(len(indptr) - 1):
        longest = max(longest, indptr[d + 1] - indptr[d])
    seen_words, rest_words = np.empty(longest, np.int32), np.empty(longest, np.int32)
    seen_counts, rest_counts = np.empty(longest, np.float32), np.empty(longest, np.float32)
    alpha_sum = 0.0
    for k in range(width):
        alpha_sum += alpha[k]
    unknown = 0.0
    for d in range(len(indptr) - 1):
        seen = rest = 0
        n = 0.0
        loglik[d] = 0.0
        tokens[d] = 0.0
        for c in range(indptr[d], indptr[d + 1]):
            w = words[c]
            if index[w] < 0:
                unknown += counts[c]
                continue
            share = 2.0 if split > 1.0 else uniform(bits(doc_keys[d] ^ hashes[w]))
            if split > 1.0 or share < split:
                seen_words[seen] = w
                seen_counts[seen] = counts[c]
                n += counts[c]
                seen += 1
            if share >= split:
                rest_words[rest] = w
                rest_counts[rest] = counts[c]
                rest += 1
        if seen == 0 or rest == 0:
            tally[1] += 1
            continue
        tally[3] += fold_in(
            seen_words[:seen], seen_counts[:seen], index, base, alpha, inv, beta, n, tol, inner, theta, weight, gathered
        )
        total = 0.0
        for k in range(width):
            weight[k] = (theta[k] + alpha[k]) * inv[k]
        for k in range(width):  # apart from the stores: see kernels/jit.py
            total += weight[k]
        score = 0.0
        mass = 0.0
        for c in range(rest):
            row = base[index[rest_words[c]]]
            s = 0.0
            for k in range(width):
                s += np.float64(weight[k]) * np.float64(row[k])
            score += rest_counts[c] * np.log((s + beta * total) / (n + alpha_sum))
            mass += rest_counts[c]
        loglik[d] = score
        tokens[d] = mass
        tally[0] += 1
        tally[2] += rest
    return unknown


@dataclass
class Prepared:
    """Documents made ready to be scored again and again: the grid and the keys are found once.

    blocks   called for each scoring: (block, keys of its documents uint64[D]) in document order
    hashes   uint64[W of the corpus], keys of the words' texts
    docs     documents in all
    """

    blocks: Callable[[], Iterable[tuple[Block, np.ndarray]]]
    hashes: np.ndarray
    docs: int


def prepare(
    corpus: Any, parts: Sequence[str] = ("heldout",), *, split: bool = True, topics: int | None = None
) -> Prepared:
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
    grids = [corpus.grid(block_cells(topics), heldout=f) for f in flags]
    keys = [document_keys(corpus, f) if split else None for f in flags]

    def blocks() -> Iterator[tuple[Block, np.ndarray]]:
        for grid, of_part in zip(grids, keys, strict=True):
            for block in corpus.blocks(grid=grid, heldout=grid.heldout):
                if of_part is None:
                    yield block, np.zeros(block.n_docs, np.uint64)
                else:
                    yield block, of_part[block.first_doc : block.first_doc + block.n_docs]

    hashes = word_keys(corpus) if split else np.zeros(corpus.n_words, np.uint64)
    return Prepared(blocks, hashes, sum(corpus.part(f)["docs"] for f in flags))


def _one_by_one(total: float, values: np.ndarray) -> float:
    """total + values[0] + values[1] + ..., strictly in order."""
    return float(np.cumsum(np.concatenate(([total], values)))[-1]) if len(values) else total


def score_blocks(
    rows: Any,
    alpha: np.ndarray,
    beta: float,
    lam: np.ndarray,
    prepared: Prepared,
    *,
    n_words: int | None = None,
    index: np.ndarray | None = None,
    split: float | None = 0.8,
    threads: int = 1,
    tol: float = TOLERANCE,
    inner: int = INNER,
    progress: Callable[[int, int], None] | None = None,
) -> Score:
    """Score a prepared corpus part.

    rows     the table: an array [W, >= K] of counts without the prior (padding columns zero), or anything with
             ``rows(ids, out)`` and ``n_words`` (a TopicModel, in memory or on disk)
    alpha    [K] per topic; beta: per word; lam: [K] or padded, column sums of the table
    n_words  W of the model where the table has spare rows
    index    int64[W of the corpus]: the model's id of each of the corpus' words, -1 unknown; None: the same vocabulary
    split    observed share of the cells; None: theta from all cells, all cells scored (exact training perplexity)
    progress called with (documents done, documents in all)
    """
    alpha = np.asarray(alpha, np.float64)
    lam = np.asarray(lam, np.float64)[: len(alpha)]
    # a TopicModel is gathered into padded rows even when it is in memory: the same sums as from disk
    table = rows if isinstance(rows, np.ndarray) else None
    words = n_words or (len(table) if table is not None else rows.n_words)
    width = table.shape[1] if table is not None else -(-len(alpha) // LANES) * LANES
    inverse = inverse_norms(lam, words, beta, width)
    prior = padded_floats(alpha, width)

    def visit(item: tuple[Block, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
        block, keys = item
        ids = block.vocab.astype(np.int64) if index is None else index[block.vocab]
        base = table
        if base is None:
            known = ids >= 0
            base = np.zeros((max(1, int(known.sum())), width), np.float32)
            if known.any():
                rows.rows(ids[known], out=base)
            ids = np.where(known, np.cumsum(known) - 1, -1)
        loglik, tokens, tally = np.empty(block.n_docs), np.empty(block.n_docs), np.zeros(4)
        unknown = complete(
            block.indptr,
            block.words,
            block.counts,
            ids,
            keys,
            prepared.hashes[block.vocab],
            base,
            prior,
            inverse,
            float(beta),
            2.0 if split is None else float(split),
            float(tol),
            int(inner),
            loglik,
            tokens,
            tally,
        )
        return loglik, tokens, tally, float(unknown), block.tokens

    loglik = tokens = oov = every = 0.0
    tally, done = np.zeros(4), 0
    for ll, tk, ta, unknown, of_block in in_order(visit, prepared.blocks(), threads):
        loglik, tokens = _one_by_one(loglik, ll), _one_by_one(tokens, tk)
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
    )


def heldout_perplexity(
    rows: Any,
    alpha: np.ndarray,
    beta: float,
    lam: np.ndarray,
    corpus: Any,
    *,
    split: float | None = 0.8,
    threads: int = 1,
    parts: Sequence[str] = ("heldout",),
    n_words: int | None = None,
    index: np.ndarray | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Score:
    """Document completion on the held-out part of an open ``Corpus`` (arguments as ``score_blocks``).

    Who scores again and again (training) calls ``prepare`` once and ``score_blocks`` each time.
    """
    prepared = prepare(corpus, parts, split=split is not None, topics=len(alpha))
    return score_blocks(
        rows,
        alpha,
        beta,
        lam,
        prepared,
        n_words=n_words,
        index=index,
        split=split,
        threads=threads,
        progress=progress,
    )


def score_model(
    model: Any,
    corpus: Any,
    *,
    split: float | None = 0.8,
    threads: int = 1,
    parts: Sequence[str] = ("heldout",),
    progress: Callable[[int, int], None] | None = None,
) -> Score:
    """Score a TopicModel on parts of an open ``Corpus``; words are matched by text where the vocabularies differ."""
    index = match_words(model.vocabulary, corpus)
    return heldout_perplexity(
        model,
        model.alpha,
        model.beta,
        model.totals,
        corpus,
        split=split,
        threads=threads,
        parts=parts,
        index=index,
        progress=progress,
    )
