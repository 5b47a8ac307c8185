"""Multinomial logistic regression on soft targets, by minibatches (Yao, Mimno and McCallum 2009,
eq. 13 and 17):

    loss(weights) = - sum_d sum_k theta_dk log p(k|d)  +  sum of weights^2 / (2 variance)
    p(k|d)        ~ exp(sum_w weights[w, k] x_wd + weights[W, k])

The last row (the bias) is not penalised.  AdaGrad with one step size a word, the root of what its
                                           row's squared gradients sum up
to (Duchi, Hazan and Singer 2011): counts of words differ by orders of magnitude.
docs/decisions/classifier.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array

BATCH, BATCHES = 256, 32
"""Documents of a step at most; steps of a pass at least, where there are as many documents."""
QUIET = 2
TEMPERATURES = 0.2, 5.0


@dataclass(frozen=True)
class Examples:
    """Documents with what is to be said of them.

    x: float32[D, W], sparse; theta: float32[D, K], rows sum to 1.
    """

    x: csr_array
    theta: np.ndarray

    def __len__(self) -> int:
        return len(self.theta)

    def only(self, rows: np.ndarray) -> Examples:
        """Some of the documents."""
        return Examples(self.x[rows], self.theta[rows])


@dataclass(frozen=True)
class Fitted:
    """weights: float32[W + 1, K]; loss: penalised, of all documents, as the last pass came by them;
    passes; converged: stopped by ``tol``."""

    weights: np.ndarray
    loss: float
    passes: int
    converged: bool


def fit_softmax(
    examples: Examples,
    *,
    variance: float,
    tol: float,
    passes: int,
    progress: Callable[[int], None] | None = None,
) -> Fitted:
    """Fit the weights, from 0 on; the same bits every time.

    Parameters
    ----------
    variance
        Of the weights' Gaussian prior.
    tol
        Stop when two passes in a row lower the loss by less than this share of it.
    passes
        Most passes.
    progress
        Called with the passes done.
    """
    x, (docs, words) = examples.x, examples.x.shape
    weights = np.zeros((words + 1, examples.theta.shape[1]), np.float32)
    # the first step changes a typical document's logits by about 1
    step = docs / max(float(x.sum(dtype=np.float64)), 1e-300)
    penalty = 1.0 / (variance * np.maximum(np.bincount(x.indices, minlength=words), 1))
    squares = np.full(words + 1, 1e-12)
    order, loss, quiet = np.random.default_rng(0), np.inf, 0
    size = max(1, min(BATCH, docs // BATCHES))
    for passes_done in range(1, passes + 1):
        before, loss = loss, 0.0
        shuffled = order.permutation(docs)
        for first in range(0, docs, size):
            chosen = np.sort(shuffled[first : first + size])
            loss += _descend(weights, squares, x[chosen], examples.theta[chosen], penalty, step)
        loss += float(np.square(weights[:-1], dtype=np.float64).sum()) / (2 * variance)
        if progress is not None:
            progress(passes_done)
        quiet = quiet + 1 if before - loss <= tol * before < np.inf else 0
        if quiet == QUIET:
            return Fitted(weights, loss, passes_done, True)
    return Fitted(weights, loss, passes, False)


def _descend(
    weights: np.ndarray,
    squares: np.ndarray,
    x: csr_array,
    theta: np.ndarray,
    penalty: np.ndarray,
    step: float,
) -> float:
    """One step on some documents; their loss without the penalty.

    A word's penalty is spread over the documents that have it.
    """
    used, column = np.unique(x.indices, return_inverse=True)
    x = csr_array((x.data, column.astype(np.int32), x.indptr), shape=(x.shape[0], len(used)))
    rows = weights[used]
    residual, nats = _residual(x @ rows + weights[-1], theta)
    slope = x.T @ residual
    slope += rows * (np.bincount(column) * penalty[used]).astype(np.float32)[:, None]
    for where, of in (
        (used, slope),
        (np.array([len(weights) - 1]), residual.sum(axis=0, keepdims=True)),
    ):
        squares[where] += np.einsum("wk,wk->w", of, of) / of.shape[1]
        weights[where] -= of * (step / np.sqrt(squares[where])).astype(np.float32)[:, None]
    return nats


def _residual(logits: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, float]:
    """(p - theta float32[D, K], - sum of theta log p) of logits, which are used up."""
    logits -= logits.max(axis=1, keepdims=True)
    score = float(np.einsum("dk,dk->", theta, logits, dtype=np.float64))
    np.exp(logits, out=logits)
    total = logits.sum(axis=1, keepdims=True)
    mass = theta.sum(axis=1, dtype=np.float64)
    logits /= total
    logits -= theta
    return logits, float((mass * np.log(total[:, 0].astype(np.float64))).sum()) - score


def best_temperature(logits: np.ndarray, theta: np.ndarray) -> float:
    """The temperature at which KL(theta || softmax(logits / temperature)) is least; logits, theta:
    float[D, K].
    """
    low, high = np.log(TEMPERATURES)
    minimum = minimize_scalar(
        lambda t: label_divergence(logits, theta, np.exp(t)), bounds=(low, high), method="bounded"
    )
    return float(np.exp(minimum.x))


def label_divergence(logits: np.ndarray, theta: np.ndarray, temperature: float) -> float:
    """Mean KL(theta || softmax(logits / temperature)) over the documents, in nats."""
    z = logits.astype(np.float64) / temperature
    z -= z.max(axis=1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    logt = np.log(np.maximum(theta, 1e-30), dtype=np.float64)
    return float((theta * (logt - logp)).sum(axis=1).mean())
