"""Kernels and base of tiny belief propagation: documents against fixed topics.

theta is folded in, then every cell's soft assignment is added to the delta.

For the cell of word w in document d with count x (Zeng, Liu & Cao 2012, Fig. 2, lines 15-19):

    eta_k  = (phi[w,k] + beta) g_k / s,   g_k = (theta[d,k] + alpha_k) / (lam_k + W beta),   s = sum
           over k
    theta'[d,k] += x eta_k,   phi'[w,k] += x eta_k

One sweep is a document's inner iteration; the last one also writes phi'. sTBP's visit, the first
assignment of a start and any fold-in are this with different arguments.

    symbol          array
    phi[w, :]       base[index[u], :]   float32[R, KP], u = local word, KP = padded(K)
    theta[d, :]     theta[d, :]         float32[D, KP], padding zero
    alpha           alpha               float32[KP], padding zero
    1/(lam+W beta)  inverse             float32[KP], padding zero
    phi'            delta[u, :]         float32[U, KP]
    x               counts              int32 or float32[nnz]

What aTBP and sTBP share: theta kept or folded in, starts, learning of priors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from topicstream.engines.base import (
    About,
    ArraySpec,
    BlockShape,
    Buffer,
    Layout,
    Options,
    Out,
    Priors,
    Visit,
    option,
    padded,
)
from topicstream.engines.message.priors import Learning, reach_option
from topicstream.numeric.kernels.arrays import Bytes, Cells, Doubles, Floats, Longs
from topicstream.numeric.kernels.dirichlet import log, sum_x_log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.rng import below, bits, step, stream
from topicstream.numeric.kernels.simd import (
    WIDTH,
    fetch,
    fma,
    get,
    larger,
    load,
    rows_ahead,
    splat,
    store,
    total,
)


class Topics(NamedTuple):
    """Fixed topics: rows of phi, beta and inverse norms.

    phi of local word u is base[row[u]], float32[., KP]. inverse: float32[KP], 1 / (lam + W beta),
    zero in the padding.
    """

    base: Floats
    row: Longs
    beta: float
    inverse: Floats


class Workspace(NamedTuple):
    """Scratch arrays of a document.

    topics: float32[>= 4 KP]; p: float64[most cells of a document]; seen: uint8[U].
    """

    topics: Floats
    p: Doubles
    seen: Bytes


class Document(NamedTuple):
    """A document: its cells first .. last - 1, and where its row of theta begins."""

    first: int
    last: int
    at: int


@kernel
def _sweep(
    document: Document,
    cells: Cells,
    topics: Topics,
    alpha: Floats,
    theta: Floats,
    work: Workspace,
    delta: Floats,
    give: bool,
) -> None:
    """Run one inner iteration over a document's cells.

    It turns theta[at:] into the first row of work.topics, and work.p[i] into the normaliser of each
    cell. ``give``: add every cell's share to its row of delta.
    """
    (first, last, at) = document
    (_, words, counts) = cells
    (base, index, beta, inverse) = topics
    (rows, p, seen) = work
    width = base.shape[1]
    new = rows[:width]
    g = rows[width : 2 * width]
    u = rows[2 * width : 3 * width]
    # g_k = (theta_dk + alpha_k) / (lam_k + W beta), the same for all cells of the document
    for k in range(0, width, WIDTH):
        store(g, k, (load(theta, at + k) + load(alpha, k)) * load(inverse, k))
        store(new, k, splat(0.0))
    smooth = splat(beta)
    far = rows_ahead(width)
    for i in range(first, last):
        # prefetch rows of later cells
        fetch(index, np.int64(get(words, min(i + 2 * far, len(words) - 1))))
        word = np.int64(get(words, min(i + far, len(words) - 1)))
        ahead = get(index, word) * width
        ahead_out = word * width
        word = np.int64(get(words, i))
        row = get(index, word) * width
        out = word * width
        # u_k = (phi_wk + beta) g_k and its sum s
        acc = splat(0.0)
        for k in range(0, width, WIDTH):
            fetch(base, ahead + k)
            if give:
                fetch(delta, ahead_out + k)
            v = (load(base, row + k) + smooth) * load(g, k)
            store(u, k, v)
            acc = acc + v
        s = total(acc)
        p[i - first] = s
        # x u_k / s is added to the new theta, and to the delta in the writing sweep
        share = splat(np.float32(get(counts, i)) / s)
        if not give:
            for k in range(0, width, WIDTH):
                store(new, k, fma(share, load(u, k), load(new, k)))
        elif seen[word]:
            for k in range(0, width, WIDTH):
                v = load(u, k)
                store(new, k, fma(share, v, load(new, k)))
                store(delta, out + k, fma(share, v, load(delta, out + k)))
        else:
            # the first cell of a word in the block overwrites its row of the delta
            seen[word] = 1
            for k in range(0, width, WIDTH):
                v = share * load(u, k)
                store(new, k, load(new, k) + v)
                store(delta, out + k, v)


@kernel
def fold_in(
    document: Document,
    cells: Cells,
    topics: Topics,
    alpha: Floats,
    theta: Floats,
    work: Workspace,
    inner: int,
    stop: float,
) -> None:
    """Sweep a document until its theta changes by at most ``stop`` in all.

    ``inner`` bounds the number of sweeps.
    """
    at = document.at
    width = topics.base.shape[1]
    new = work.topics
    for _ in range(inner):
        _sweep(document, cells, topics, alpha, theta, work, theta, False)
        moved = splat(0.0)
        for k in range(0, width, WIDTH):
            after = load(new, k)
            before = load(theta, at + k)
            moved = moved + larger(after - before, before - after)
            store(theta, at + k, after)
        if total(moved) <= stop:
            return


@kernel
def assign(
    cells: Cells,
    topics: Topics,
    alpha: Floats,
    theta: Floats,
    inner: int,
    tol: float,
    delta: Floats,
    work: Workspace,
) -> float:
    """Fold theta in for every document, then write theta and delta.

    Parameters
    ----------
    alpha
        float32[KP], padding zero.
    theta
        float32[D, KP]. On entry where the documents stand, or anything where they are folded in. On
        return theta'.
    inner
        Sweeps before the writing one, from the even spread, or fewer when no more than a share
        ``tol`` of the tokens moves. 0: theta is not folded in.
    delta
        float32[U, KP], written whole, whatever it held. Of no rows: there is no writing sweep.

    Returns
    -------
    float
        Sum of x log(s / (n_d + sum alpha)) in nats: the words' probability before the last sweep.
    """
    (indptr, _, counts) = cells
    inverse = topics.inverse
    width = topics.base.shape[1]
    work.seen[:] = 0
    alpha_sum = 0.0
    real = 0
    loglik = 0.0
    # sum of alpha and the number of topics without padding
    for k in range(width):
        alpha_sum += alpha[k]
        real += inverse[k] > 0.0
    for d in range(len(indptr) - 1):
        first = indptr[d]
        last = indptr[d + 1]
        tokens = 0.0
        for i in range(first, last):
            tokens += counts[i]
        # folding in begins with an even mixture
        if inner > 0:
            for k in range(width):
                theta[d, k] = tokens / real if inverse[k] > 0.0 else 0.0
        # a document without cells
        if last == first:
            for k in range(width):
                theta[d, k] = 0.0
            continue
        document = Document(first, last, d * width)
        fold_in(document, cells, topics, alpha, theta, work, inner, tol * tokens)
        # the last sweep writes the delta
        if len(delta) == 0:
            continue
        _sweep(document, cells, topics, alpha, theta, work, delta, True)
        for k in range(0, width, WIDTH):
            store(theta, d * width + k, load(work.topics, k))
        loglik += sum_x_log(work.p, counts, first, last - first, tokens + alpha_sum, 0.0)
    return loglik


@kernel
def random_topics(
    cells: Cells, topics: int, seed: int, first_doc: int, theta: Floats, delta: Floats
) -> None:
    """Draw a random topic for every cell (Fig. 2, lines 4-9).

    The stream is (seed, 0, document).

    theta: float32[D, KP], delta: float32[U, KP], both written whole.
    """
    indptr, words, counts = cells
    theta[:, :] = 0.0
    delta[:, :] = 0.0
    for d in range(len(indptr) - 1):
        state = stream(seed, 0, first_doc + d)
        for i in range(indptr[d], indptr[d + 1]):
            k = below(bits(state), topics)
            state = step(state)
            theta[d, k] += counts[i]
            delta[words[i], k] += counts[i]


# fold-in sweeps of a start before the one that writes: each of three lowered the perplexity of
# passes 2 and 5
START_SWEEPS = 3


@dataclass(frozen=True)
class TinyOptions(Options):
    """Options of tiny belief propagation."""

    alpha: float | None = option(
        None, "Document-topic Dirichlet prior, per topic (default: 2/K).", min=1e-9
    )
    beta: float | None = option(
        None, "Topic-word Dirichlet prior, per word (default: 0.01).", min=1e-9
    )
    theta: str = option(
        "kept",
        "Topics of training documents: keep them on disk between passes (kept), or infer them "
        "at each visit (fold-in).",
        choices=("kept", "fold-in"),
    )
    fold_sweeps: int = option(
        20,
        "With --theta fold-in: maximum number of inner iterations for a document.",
        min=1,
        advanced=True,
    )
    fold_tol: float = option(
        0.01,
        "With --theta fold-in: stop when at most this share of a document's tokens changed topic.",
        min=0.0,
        advanced=True,
    )
    prior_reach: float = reach_option()


class TinyEngine(Learning):
    """Base class of ``stbp`` and ``atbp``, which store no messages.

    Parameters
    ----------
    shape, options
        See ``Engine``. The options are ``TinyOptions``.

    Attributes
    ----------
    tables
        ``phi`` float32[W, K], each row held to the word's tokens.
    state
        ``theta`` float32[D, padded(K)], unless it is folded in at each visit.

    References
    ----------
    Zeng, Liu & Cao (2012). Memory-efficient topic modeling. arXiv:1206.1147.
    """

    Options = TinyOptions
    about = About(
        priors=Priors(2.0, 0.01, together=True),  # Zeng, Liu & Cao 2012, section 4.1
        poor_on_short=True,
    )
    options: TinyOptions

    @property
    def state(self) -> Mapping[str, ArraySpec]:
        """Declare theta of each document.

        A row sums to the document's tokens.
        """
        if not self._stores_theta:
            return {}
        return {"theta": ArraySpec("document", "float32", padded(self.shape.topics))}

    @property
    def _stores_theta(self) -> bool:
        return self.options.theta == "kept"

    @property
    def layout(self) -> Layout:
        """Choose big blocks, so that a row copied into the delta serves many cells.

        A pass has 16 blocks or more. A block has at most 2^27 / K cells, so that rows and deltas
        fit 512 MB at a thousand topics.
        """
        width = padded(self.shape.topics)
        cells = self.shape.cells
        least = 1 << 18
        if width < 64:
            least = 1 << 16
        elif width < 256:
            least = 1 << 17
        least = min(least, max(cells // 16, 1 << 16))
        block = min(max(cells // 64, least), 1 << 20, (1 << 27) // width)
        return replace(super().layout, block_cells=max(block, 1 << 12))

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        width = padded(self.shape.topics)
        seeds = self.shape.seeds
        seeded = 0 if seeds is None else min(block.words, len(seeds))
        return super().workspace(block) | {
            "alpha": Buffer(width, "float32"),
            "lam": Buffer(width, "float32"),
            "inverse": Buffer(width, "float32"),
            "theta": Buffer((0 if self._stores_theta else block.docs, width), "float32"),
            "seen": Buffer(block.words, "uint8"),
            "work": Buffer(4 * width, "float32"),
            "p": Buffer(max(block.document, 1), "float64"),
            "per_n_w": Buffer(block.words, "float32"),
            "row of prior": Buffer(block.words, "int32"),
            "priors": Buffer((1 + seeded, width), "float32"),
        }

    # -- parts of a visit
    def priors(self, visit: Visit, out: Out) -> tuple[np.ndarray, float]:
        """Return alpha as float32[KP], zero in the padding, and beta."""
        alpha = out.array("alpha")
        alpha[:] = 0.0
        alpha[: self.shape.topics] = visit.params["alpha"]
        return alpha, float(visit.params["beta"][0])

    @property
    def sweeps(self) -> int:
        """Return the inner iterations that fold theta in, or 0 if stored."""
        return 0 if self._stores_theta else self.options.fold_sweeps

    def theta_of(self, visit: Visit, out: Out) -> np.ndarray:
        """Return theta of the block's documents, to be changed in place.

        It is the block's new state, initialised with the old one. Where theta is folded in, it is
        an uninitialised array of the workspace.
        """
        theta = out.state["theta"] if self._stores_theta else out.array("theta")
        if visit.state:
            theta[:] = visit.state["theta"]
        return theta

    def assign(
        self,
        visit: Visit,
        out: Out,
        theta: np.ndarray,
        priors: tuple[np.ndarray, float],
        sweeps: int,
        tol: float,
        delta: np.ndarray,
    ) -> float:
        """Assign the block's documents and return the log-likelihood.

        Parameters
        ----------
        theta
            float32[D, KP], changed in place.
        priors
            Those of ``priors``.
        sweeps, tol
            ``inner`` and ``tol`` of the kernel ``assign``.
        delta
            float32[U, KP], receives the block's contribution to phi. Without rows: nothing is
            added.
        """
        phi = visit.rows["phi"]
        inverse = out.array("inverse")
        (alpha, beta) = priors
        inverse[:] = 0.0
        lam = visit.totals["phi"][: self.shape.topics] + self.shape.words * beta
        np.divide(1.0, lam, out=inverse[: self.shape.topics], where=lam > 0, casting="same_kind")
        work = Workspace(out.array("work"), out.array("p"), out.array("seen"))
        topics = Topics(phi.base, phi.index, beta, inverse)
        return float(assign(visit.block.cells, topics, alpha, theta, sweeps, tol, delta, work))

    # -- the protocol
    def start(self, visit: Visit, out: Out) -> None:
        """Start from a random topic per cell, or from a seed table.

        Random topics follow Fig. 2, lines 4-9. A seed table yields each cell's soft assignment p(k
        | w, d), with theta folded in.
        """
        block = visit.block
        theta = self.theta_of(visit, out)
        delta = out.delta["phi"]
        out.stats["tokens"][0] = block.tokens
        if "phi" not in visit.rows:
            random_topics(
                block.cells, self.shape.topics, visit.key.seed, block.first_doc, theta, delta
            )
            # random topics predict every word alike
            out.stats["loglik"][0] = -block.tokens * log(float(self.shape.words))
        else:
            alpha, _ = self.priors(visit, out)
            out.stats["loglik"][0] = self.assign(
                visit, out, theta, (alpha, 0.0), START_SWEEPS, 0.0, delta
            )
