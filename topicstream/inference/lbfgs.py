"""L-BFGS (Nocedal 1980; Liu and Nocedal 1989) over vectors that may lie on disk, for a convex function.

The line search halves the step until the function falls enough (Armijo); with a convex function every accepted step then
has positive curvature, and a pair without it (rounding) is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from topicstream.inference.vectors import Space, Vector

ENOUGH, SHORTER, MOST_TRIES = 1e-4, 0.5, 20


@dataclass(frozen=True)
class Minimum:
    """value: of the function at its least; passes: evaluations; converged: whether it stopped by itself."""

    value: float
    passes: int
    converged: bool


def _scaled(factor: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    number = np.float32(factor)
    return lambda a, b: a + number * b


def direction(
    gradient: Vector, pairs: list[tuple[Vector, Vector, float]], out: Vector, inverse: np.ndarray | None = None
) -> None:
    """out = - H gradient, H the inverse Hessian that the pairs (step, change of gradient, their product) imply on top of
    ``inverse``, float32[rows]: its diagonal, but for a factor."""
    out.take(lambda _, g: -g, gradient)
    weights = []
    for s, y, sy in reversed(pairs):
        a = s.dot(out) / sy
        weights.append(a)
        out.take(_scaled(-a), y)
    scale = np.ones(1, np.float32) if inverse is None else inverse
    if pairs:
        _, y, sy = pairs[-1]
        scale = scale * np.float32(sy / y.dot(y, scale))
    out.take(lambda v: scale[:, None] * v)
    for (s, y, sy), a in zip(pairs, reversed(weights), strict=True):
        out.take(_scaled(a - y.dot(out) / sy), s)


def minimise(
    function: Callable[[Vector, Vector], float],
    space: Space,
    *,
    memory: int = 6,
    tol: float = 1e-5,
    passes: int = 100,
    inverse: np.ndarray | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> tuple[Vector, Minimum]:
    """Least of a convex function from 0 on.

    function  (point, gradient to be filled) -> value
    memory    pairs kept;  tol: stop when the value falls by less than this share of it, twice running
    inverse   float32[rows]: a guess of the inverse Hessian's diagonal, a number a row
    passes    evaluations at most;  progress: called with (evaluations, value) after each step
    """
    x, g, there, g_there, way = (space.zeros() for _ in range(5))
    value, done, quiet = function(x, g), 1, 0
    pairs: list[tuple[Vector, Vector, float]] = []
    while done < passes and quiet < 2:
        slope = g.dot(g)
        if slope == 0.0:
            quiet = 2
            break
        direction(g, pairs, way, inverse)
        slope = g.dot(way)
        if slope >= 0.0:  # rounding has spoilt the pairs
            for s, y, _ in pairs:
                space.forget(s)
                space.forget(y)
            pairs = []
            direction(g, pairs, way, inverse)
            slope = g.dot(way)
        step, least = (1.0 if pairs or inverse is not None else min(1.0, 1.0 / np.sqrt(-slope))), np.inf
        for _ in range(MOST_TRIES):
            length = np.float32(step)
            there.take(lambda _, a, b, n=length: a + n * b, x, way)
            least = function(there, g_there)
            done += 1
            if least <= value + ENOUGH * step * slope or done >= passes:
                break
            # the parabola through what is known, within what halving would allow
            bend = 2.0 * (least - value - step * slope)
            step *= min(SHORTER, max(0.1, -slope * step / bend)) if np.isfinite(bend) and bend > 0 else 0.1
        if not least < value:
            break  # nothing is gained any more at this precision
        s, y = (space.zeros(), space.zeros()) if len(pairs) < memory else pairs.pop(0)[:2]
        s.take(lambda _, a, b: a - b, there, x)
        y.take(lambda _, a, b: a - b, g_there, g)
        curve = s.dot(y)
        if curve > 1e-10 * y.dot(y):
            pairs.append((s, y, curve))
        else:
            space.forget(s)
            space.forget(y)
        quiet = quiet + 1 if value - least <= tol * abs(least) else 0
        value, x, there, g, g_there = least, there, x, g_there, g
        if progress is not None:
            progress(done, value)
    for v in (g, there, g_there, way, *(v for pair in pairs for v in pair[:2])):
        space.forget(v)
    return x, Minimum(float(value), done, done < passes)
