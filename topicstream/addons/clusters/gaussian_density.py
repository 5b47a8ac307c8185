"""Densities of many Gaussians at many points, by eigenvectors and NumPy's products.

With v the eigenvalues of a scale matrix, ascending, and V its eigenvectors, y = v^-1/2 V' (x - m)
has (x - m)' scale^-1 (x - m) as its squared length. Its first numbers, those of the narrowest
directions, are most of it for a point that is far from a component.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

LOG_2PI = float(np.log(2 * np.pi))
TILE = 64  # points whose first numbers are looked at together
NEAR = 1 << 14  # numbers that stay in the cache while they are worked with
NOTHING = 20.0  # nats below the best: a share of 2e-9, which float32 shares of 1 do not see


class Densities(NamedTuple):
    """Log densities W_k(x) = plus_k - half_k |(x - m_k) turn_k|^2.

    Attributes
    ----------
    turn
        [K, n, n], or [K, n] of diagonal ones.
    shift
        m_k turn_k.
    """

    turn: np.ndarray
    shift: np.ndarray
    half: np.ndarray
    plus: np.ndarray


def densities(
    means: np.ndarray, scale: np.ndarray, factor: np.ndarray, plus: np.ndarray
) -> Densities:
    """Prepare plus_k - factor_k / 2 (x - m_k)' scale_k^-1 (x - m_k)."""
    if scale.ndim == 2:
        turn = 1.0 / np.sqrt(scale)
        return Densities(turn, means * turn, 0.5 * factor, plus)
    values, turn = np.linalg.eigh(scale)
    turn /= np.sqrt(np.maximum(values, np.finfo(float).eps * values[:, -1:]))[:, None, :]
    return Densities(turn, np.einsum("ki,kij->kj", means, turn), 0.5 * factor, plus)


def point_densities(means: np.ndarray, covariance: np.ndarray) -> Densities:
    """Prepare log N(x | mean_k, Sigma_k)."""
    if covariance.ndim == 2:
        logdet = np.log(covariance).sum(axis=1)
    else:
        logdet = 2.0 * np.log(np.diagonal(np.linalg.cholesky(covariance), axis1=1, axis2=2)).sum(
            axis=1
        )
    plus = -0.5 * (logdet + means.shape[1] * LOG_2PI)
    return densities(means, covariance, np.ones(len(means)), plus)


def log_density(x: np.ndarray, of: Densities) -> np.ndarray:
    """Compute the log density of every component, float64[D, K].

    ``x`` is float64[D, n].
    """
    out = np.empty((len(x), len(of.plus)))
    for points in near_parts(len(x), x.shape[1]) if of.turn.ndim == 2 else (slice(None),):
        for k in range(len(of.plus)):
            out[points, k] = _of_one(x[points], of, k)
    return out


def near_parts(points: int, n: int) -> Iterator[slice]:
    """Cut points of n numbers into slices whose intermediate results stay in the cache."""
    step = max(NEAR // n, 1)
    return (slice(at, at + step) for at in range(0, points, step))


def best_density(x: np.ndarray, of: Densities, most: int, near: np.ndarray | None) -> np.ndarray:
    """Compute ``log_density`` of the best components only, -inf of the others.

    A component is left out if it cannot be among the ``most`` best of a point, or is NOTHING to it.

    Parameters
    ----------
    near
        int[D, >= most], different components of each point that are likely to be among its best.
        None: unknown.
    """
    topics = len(of.plus)
    n = x.shape[1]
    if of.turn.ndim == 2 or n < 16 or 2 * most > topics:
        return log_density(x, of)
    screen = Screen(x, of)
    bounds = screen.beginnings(n // 4)
    if near is None:
        near = np.argpartition(-bounds, 2 * most - 1, axis=0)[: 2 * most].T
    wide = near.shape[1]
    exact = np.empty(near.shape)
    done = np.zeros(bounds.shape, np.bool_)
    order = np.argsort(near, axis=None, kind="stable")
    ends = np.searchsorted(near.reshape(-1)[order], np.arange(topics + 1))
    out = np.full((len(x), topics), -np.inf)
    for k in np.flatnonzero(np.diff(ends)).tolist():
        cells = order[ends[k] : ends[k + 1]]
        points = cells // wide
        out[points, k] = exact.reshape(-1)[cells] = _of_one(x[points], of, k)
        done[k, points] = True
    least = np.maximum(
        np.partition(exact, wide - most, axis=1)[:, wide - most], exact.max(axis=1) - NOTHING
    )
    open_ = ~((bounds < least) | done)
    for k in range(topics):
        points = np.flatnonzero(open_[k])
        points = points[~(screen.more(points, k, n // 4, n // 2) < least[points])]
        out[points, k] = _of_one(x[points], of, k)
    out[out < out.max(axis=1, keepdims=True) - NOTHING] = -np.inf
    return out


def _of_one(x: np.ndarray, of: Densities, k: int) -> np.ndarray:
    y = x * of.turn[k] if of.turn.ndim == 2 else x @ of.turn[k]
    y -= of.shift[k]
    density: np.ndarray = of.plus[k] - of.half[k] * np.einsum("ij,ij->i", y, y)
    return density


class Screen:
    """Upper bounds of densities by the first numbers of y, in float32.

    They allow for what rounding may have added to the length of y: (n + 4) eps (|x| |turn_k| +
    |shift_k|), whatever order a product adds in (Higham 2002, 3.5). NaN screens nothing.
    """

    def __init__(self, x: np.ndarray, of: Densities) -> None:
        n = x.shape[1]
        self.of = of
        self.x = x.astype(np.float32)
        self.turn = of.turn.astype(np.float32)
        self.shift = of.shift.astype(np.float32)
        eps = (n + 4) * float(np.finfo(np.float32).eps)
        self.less = (
            eps * np.sqrt((of.turn * of.turn).sum(axis=(1, 2))),
            eps * np.sqrt((of.shift * of.shift).sum(axis=1)),
        )
        self.length = np.sqrt((x * x).sum(axis=1))
        self.rounded = 1.0 - eps
        self.squares = np.empty((len(of.plus), len(x)), np.float32)

    def beginnings(self, first: int) -> np.ndarray:
        """Bound all pairs by their ``first`` numbers, float64[K, D]."""
        topics = len(self.of.plus)
        n = self.x.shape[1]
        turn = np.ascontiguousarray(self.turn[:, :, :first].transpose(0, 2, 1)).reshape(
            topics * first, n
        )
        shift = self.shift[:, :first].reshape(-1, 1)
        for at in range(0, len(self.x), TILE):
            y = turn @ self.x[at : at + TILE].T
            y -= shift
            y *= y
            y.reshape(topics, first, -1).sum(axis=1, out=self.squares[:, at : at + TILE])
        less = self.less[0][:, None] * self.length + self.less[1][:, None]
        least = np.maximum(np.sqrt(self.squares) * self.rounded - less, 0.0)
        bounds: np.ndarray = self.of.plus[:, None] - self.of.half[:, None] * least * least
        return bounds

    def more(self, points: np.ndarray, k: int, low: int, high: int) -> np.ndarray:
        """Bound some points and one component by the numbers up to ``high``, float64[P]."""
        y = self.x[points] @ self.turn[k, :, low:high] - self.shift[k, low:high]
        squares = self.squares[k, points] + np.einsum("ij,ij->i", y, y)
        less = self.less[0][k] * self.length[points] + self.less[1][k]
        least = np.maximum(np.sqrt(squares) * self.rounded - less, 0.0)
        bounds: np.ndarray = self.of.plus[k] - self.of.half[k] * least * least
        return bounds
