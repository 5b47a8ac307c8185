"""Variational inference with fixed topics, each document by itself (Blei et al. 2003).

    r_wk  ~  e_wk exp psi(n_dk + alpha_k),    n_dk = sum_w x_w r_wk,    theta_dk ~ n_dk + alpha_k

``phi``: e is exp E[log phi_wk] under the topics' Dirichlet posterior, psi(phi_wk + beta) -
psi(lam_k + W beta) in the exponent (``dirichlet``), or the point estimate p(w|k) (``point``;
variational EM). The arithmetic is the local step's (numeric/kernels/local_step.py) with the weight
DIRICHLET.

``begin``: r begins with all topics alike (``even``), or with the variational parameters at alpha
(``prior``; Yao, Mimno and McCallum 2009, section 4). Where alpha was learned, exp psi(alpha) of a
large and of a small topic are many powers of ten apart, and a document then ends with the corpus'
large topics (docs/internals/reproduce/streaming.md).

``sparse`` = L (Hughes and Sudderth 2015): a cell's responsibilities keep their L largest topics.
Selections are made in inner iterations 1 to 5 and every 10th; between them only the kept ones are
weighed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from topicstream.base.options import option
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows
from topicstream.inference.methods.gibbs import require_prior
from topicstream.numeric.kernels.arrays import (
    Floats,
    Ints,
    Longs,
    RowCells,
    TopicWeights,
    most_in_row,
)
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.local_step import (
    DIRICHLET,
    INNER,
    LEAST,
    VB_TOLERANCE,
    LocalRule,
    clear_rows,
    digamma_norms,
    dirichlet_rows,
    dirichlet_weights,
    fill,
    local_step,
    own_local_step,
    padded_floats,
    sweep_cells,
    take_counts,
)
from topicstream.numeric.kernels.select import SMALLEST, keep_top, where
from topicstream.numeric.kernels.simd import WIDTH, fma, larger, load, splat, store, total

# selections: inner iterations 1 .. ALWAYS, then every EVERY-th
ALWAYS = 5
EVERY = 10


class SparseScratch(NamedTuple):
    """Arrays that a document is worked on in, with topics selected cell by cell.

    Attributes
    ----------
    weights, selected
        float32[cells + 8, KP], flat: a cell's weights, and those that it keeps.
    x, z
        float32[cells + 32], counts and normalisers.
    t, acc, n
        float32[KP], as in ``LocalScratch``.
    p
        float32[KP], a cell's weights times t.
    work
        float32[KP + 16], work space of the selection.
    """

    weights: Floats
    selected: Floats
    x: Floats
    z: Floats
    t: Floats
    acc: Floats
    n: Floats
    p: Floats
    work: Floats


@kernel
def sparse_scratch(indptr: Longs, width: int) -> SparseScratch:
    """Make the arrays for the longest of some documents."""
    longest = max(1, most_in_row(indptr))
    return SparseScratch(
        np.empty((longest + 8) * width, np.float32),
        np.empty((longest + 8) * width, np.float32),
        np.empty(longest + 32, np.float32),
        np.empty(longest + 32, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.zeros(width, np.float32),
        np.zeros(width + 16, np.float32),
    )


@kernel
def _select(cells: int, most: int, scratch: SparseScratch) -> None:
    """Select the largest weights of each row.

    selected = weights where weights * t is among the ``most`` largest of its row, else 0. ``acc``
    is as in ``sweep_cells``.
    """
    (weights, selected, x, _, t, acc, _, p, work) = scratch
    width = len(t)
    least = splat(SMALLEST)
    for j in range(cells):
        o = j * width
        for k in range(0, width, WIDTH):
            store(p, k, load(weights, o + k) * load(t, k))
        z = keep_top(p, 0, width, most, work)
        share = splat(x[j] / z if z > LEAST else np.float32(0))
        for k in range(0, width, WIDTH):
            v = where(load(p, k), least, load(weights, o + k))
            store(selected, o + k, v)
            store(acc, k, fma(share, v, load(acc, k)))
    clear_rows(selected, cells, width)


@kernel
def sparse_step(
    cells: RowCells,
    topic_weights: TopicWeights,
    alpha: Floats,
    rule: LocalRule,
    most: int,
    shares: Floats,
) -> int:
    """Run ``local_step`` by DIRICHLET with at most ``most`` topics a cell.

    The other arguments are those of ``local_step``.
    """
    (indptr, rows, counts) = cells
    (base, beta, inverse) = topic_weights
    width = len(inverse)
    topics = shares.shape[1]
    scratch = sparse_scratch(indptr, width)
    (weights, selected, x, z, t, acc, n, _, _) = scratch
    alpha_sum = 0.0
    for k in range(topics):
        alpha_sum += np.float64(alpha[k])
    sweeps = 0
    for d in range(len(indptr) - 1):
        first = indptr[d]
        length = indptr[d + 1] - indptr[d]
        tokens = 0.0
        # weights_jk = (phi_wk + beta) inverse_k for the cells j of the document
        fill(rows[first : first + length], base, beta, inverse, weights)
        take_counts(counts, first, length, x)
        for j in range(length):
            tokens += x[j]
        # start: t_k = 1 for each topic, or the weights of the prior
        for k in range(width):
            n[k] = 0.0
            t[k] = 1.0 if inverse[k] > 0.0 else 0.0
        if rule.from_prior:
            dirichlet_weights(n, alpha, t)
        for step in range(1, (rule.inner if length > 0 else 0) + 1):
            for k in range(0, width, WIDTH):
                store(acc, k, splat(np.float32(0)))
            # acc_k = sum_j x_j weights_jk / z_j, with z_j = sum_k t_k weights_jk over the topics of
            # cell j. These are selected anew now and then, and kept in between
            if step <= ALWAYS or step % EVERY == 0:
                _select(length, most, scratch)
            else:
                sweep_cells(length, x, selected, width, t, LEAST, z, acc)
            sweeps += 1
            # n_k = t_k acc_k: the document's tokens by topic, and how many moved
            moved = splat(np.float32(0))
            for k in range(0, width, WIDTH):
                after = load(t, k) * load(acc, k)
                before = load(n, k)
                moved = moved + larger(after - before, before - after)
                store(n, k, after)
            if total(moved) <= rule.tol * tokens:
                break
            # t_k of the next step, from n_k + alpha_k
            dirichlet_weights(n, alpha, t)
        # share_dk = (n_k + alpha_k) / (n_d + sum alpha)
        mass = alpha_sum
        for k in range(topics):
            mass += np.float64(n[k])
        for k in range(topics):
            shares[d, k] = (n[k] + alpha[k]) / mass if mass > 0.0 else 1.0 / topics
    return sweeps


@kernel
def own_sparse_step(
    cells: RowCells,
    topic_weights: TopicWeights,
    alphas: Floats,
    row_of: Ints,
    rule: LocalRule,
    most: int,
    shares: Floats,
) -> int:
    """Run ``sparse_step`` where document d has the prior alphas[row_of[d]]."""
    (indptr, rows, counts) = cells
    sweeps = 0
    for d in range(len(indptr) - 1):
        one = RowCells(indptr[d : d + 2], rows, counts)
        alpha = alphas[row_of[d]]
        sweeps += sparse_step(one, topic_weights, alpha, rule, most, shares[d : d + 1])
    return sweeps


@dataclass(frozen=True)
class VBOptions:
    """Options of variational inference."""

    tol: float = option(
        VB_TOLERANCE,
        "Stop when at most this share of a document's tokens changed topic.",
        min=0,
        show=True,
    )
    inner: int = option(INNER, "Maximum number of iterations for a document.", min=1, show=True)
    sparse: int | None = option(
        None, "At most L topics per word of a document (default: all).", min=1, metavar="L"
    )
    phi: str = option(
        "dirichlet",
        "Topics as Dirichlet posteriors or as point estimates.",
        choices=("dirichlet", "point"),
        show=True,
    )
    begin: str = option(
        "even",
        "Start from equal topics (even), or from the prior as Yao, Mimno and McCallum 2009 "
        "(worse if alpha was learned).",
        choices=("even", "prior"),
        show=True,
    )


class VB(Method):
    """Variational Bayes, dense or with at most --sparse topics per word.

    References
    ----------
    Blei, Ng & Jordan (2003). Latent Dirichlet allocation. JMLR 3, 993-1022.

    Hughes & Sudderth (2016). Fast learning of clusters and topics via sparse posteriors.
    arXiv:1609.07521.
    """

    name: ClassVar[str] = "vb"
    cites: ClassVar[str] = "Blei et al. 2003; Hughes and Sudderth 2015"
    poor_on_short: ClassVar[bool] = True
    Options: ClassVar[type] = VBOptions
    weighs_cells: ClassVar[bool] = True
    takes_priors: ClassVar[bool] = True
    options: VBOptions

    def __init__(self, rows: TopicRows, **options: Any) -> None:
        super().__init__(rows, **options)
        if self.options.begin == "prior":
            require_prior(rows, "--begin prior")
        sparse = self.options.sparse
        self.most = 0 if sparse is None or sparse >= rows.topics else sparse
        self._norms = digamma_norms(rows.model.totals, rows.model.n_words, rows.beta)
        self._ones = padded_floats(np.ones(rows.topics), len(rows.alpha))

    def shares(self, docs: Documents) -> np.ndarray:
        return self.fold_in(docs)[0]

    def fold_in(self, docs: Documents) -> tuple[np.ndarray, int]:
        """Compute ``shares``, and count the iterations of all documents together."""
        docs = self.rows.weigh(docs)
        options = self.options
        out = np.empty((len(docs), self.rows.topics), np.float32)
        row_of_cell, base = self.rows.gather(docs)
        beta = self.rows.beta
        inverse = self.rows.inverse
        if options.phi == "dirichlet":
            row_of_cell, base = dirichlet_rows(row_of_cell, base, beta, self._norms, len(inverse))
            beta = 0.0
            inverse = self._ones
        cells = RowCells(docs.indptr, row_of_cell, docs.counts)
        weights = TopicWeights(base, beta, inverse)
        rule = LocalRule(DIRICHLET, options.begin == "prior", options.tol, options.inner)
        alpha = self.rows.alpha
        if self.most > 0:
            if docs.priors is None:
                return out, sparse_step(cells, weights, alpha, rule, self.most, out)
            return out, own_sparse_step(cells, weights, *docs.priors, rule, self.most, out)
        if docs.priors is None:
            return out, local_step(cells, weights, alpha, rule, out)
        return out, own_local_step(cells, weights, *docs.priors, rule, out)
