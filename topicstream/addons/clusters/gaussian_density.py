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
TILE = 64
"""Points whose first numbers are looked at together."""
NEAR = 1 << 14
"""Numbers that stay in the cache while they are worked with."""
NOTHING = 20.0
"""Nats below the best from which on a share, 2e-9, is lost beside 1 in float32."""


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


def log_density(x: np.ndarray, components: Densities) -> np.ndarray:
    """Compute the log density of every component, float64[D, K].

    ``x`` is float64[D, n].
    """
    out = np.empty((len(x), len(components.plus)))
    for points in near_parts(len(x), x.shape[1]) if components.turn.ndim == 2 else (slice(None),):
        for k in range(len(components.plus)):
            out[points, k] = _component_density(x[points], components, k)
    return out


def near_parts(points: int, n: int) -> Iterator[slice]:
    """Cut points of n numbers into slices whose intermediate results stay in the cache."""
    step = max(NEAR // n, 1)
    return (slice(first, first + step) for first in range(0, points, step))


def best_density(
    x: np.ndarray, components: Densities, most: int, near: np.ndarray | None
) -> np.ndarray:
    """Compute ``log_density`` of the best components only, -inf of the others.

    A component is left out if it cannot be among the ``most`` best of a point, or is NOTHING to it.

    Parameters
    ----------
    near
        int[D, >= most], different components of each point that are likely to be among its best.
        None: unknown.
    """
    topics = len(components.plus)
    n = x.shape[1]
    if components.turn.ndim == 2 or n < 16 or 2 * most > topics:
        return log_density(x, components)
    screen = Screen(x, components)
    bounds = screen.bound_all(n // 4)
    if near is None:
        near = np.argpartition(-bounds, 2 * most - 1, axis=0)[: 2 * most].T
    wide = near.shape[1]
    exact = np.empty(near.shape)
    known = np.zeros(bounds.shape, np.bool_)
    order = np.argsort(near, axis=None, kind="stable")
    ends = np.searchsorted(near.reshape(-1)[order], np.arange(topics + 1))
    out = np.full((len(x), topics), -np.inf)
    for k in np.flatnonzero(np.diff(ends)).tolist():
        cells = order[ends[k] : ends[k + 1]]
        points = cells // wide
        density = _component_density(x[points], components, k)
        exact.reshape(-1)[cells] = density
        out[points, k] = density
        known[k, points] = True
    least = np.maximum(
        np.partition(exact, wide - most, axis=1)[:, wide - most], exact.max(axis=1) - NOTHING
    )
    undecided = ~((bounds < least) | known)
    for k in range(topics):
        points = np.flatnonzero(undecided[k])
        points = points[~(screen.refine(points, k, n // 4, n // 2) < least[points])]
        out[points, k] = _component_density(x[points], components, k)
    out[out < out.max(axis=1, keepdims=True) - NOTHING] = -np.inf
    return out


def _component_density(x: np.ndarray, components: Densities, k: int) -> np.ndarray:
    """Compute the log density of one component, float64[D]."""
    y = x * components.turn[k] if components.turn.ndim == 2 else x @ components.turn[k]
    y -= components.shift[k]
    density: np.ndarray = components.plus[k] - components.half[k] * np.einsum("ij,ij->i", y, y)
    return density


class Screen:
    """Upper bounds of densities by the first numbers of y, in float32.

    They allow for what rounding may have added to the length of y: (n + 4) eps (|x| |turn_k| +
    |shift_k|), whatever order a product adds in (Higham 2002, 3.5). NaN screens nothing.
    """

    def __init__(self, x: np.ndarray, components: Densities) -> None:
        n = x.shape[1]
        self.components = components
        self.x = x.astype(np.float32)
        self.turn = components.turn.astype(np.float32)
        self.shift = components.shift.astype(np.float32)
        eps = (n + 4) * float(np.finfo(np.float32).eps)
        self.less = (
            eps * np.sqrt((components.turn * components.turn).sum(axis=(1, 2))),
            eps * np.sqrt((components.shift * components.shift).sum(axis=1)),
        )
        self.length = np.sqrt((x * x).sum(axis=1))
        self.rounded = 1.0 - eps
        self.squares = np.empty((len(components.plus), len(x)), np.float32)

    def bound_all(self, first: int) -> np.ndarray:
        """Bound all pairs by their ``first`` numbers, float64[K, D]."""
        topics = len(self.components.plus)
        n = self.x.shape[1]
        turn = np.ascontiguousarray(self.turn[:, :, :first].transpose(0, 2, 1)).reshape(
            topics * first, n
        )
        shift = self.shift[:, :first].reshape(-1, 1)
        for begin in range(0, len(self.x), TILE):
            y = turn @ self.x[begin : begin + TILE].T
            y -= shift
            y *= y
            y.reshape(topics, first, -1).sum(axis=1, out=self.squares[:, begin : begin + TILE])
        less = self.less[0][:, None] * self.length + self.less[1][:, None]
        least = np.maximum(np.sqrt(self.squares) * self.rounded - less, 0.0)
        bounds: np.ndarray = (
            self.components.plus[:, None] - self.components.half[:, None] * least * least
        )
        return bounds

    def refine(self, points: np.ndarray, k: int, low: int, high: int) -> np.ndarray:
        """Bound some points and one component by the numbers up to ``high``, float64[P]."""
        y = self.x[points] @ self.turn[k, :, low:high] - self.shift[k, low:high]
        squares = self.squares[k, points] + np.einsum("ij,ij->i", y, y)
        less = self.less[0][k] * self.length[points] + self.less[1][k]
        least = np.maximum(np.sqrt(squares) * self.rounded - less, 0.0)
        bounds: np.ndarray = self.components.plus[k] - self.components.half[k] * least * least
        return bounds
