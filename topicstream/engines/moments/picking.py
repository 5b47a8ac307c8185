"""Choosing anchor words: the words whose rows of the co-occurrence matrix lie furthest apart (Arora
et al. 2013, Algorithm 4).

The first is the row with the largest norm; the origin moves there; then the row furthest from the
span of those chosen is taken, again and again, the span kept orthonormal by Gram-Schmidt with a
second projection (rounding undone)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

Pieces = Callable[[], Iterator[tuple[int, np.ndarray]]]
TOLD = 30  # distances that are printed; the model has all
# of the first distance: a row that is no further from the span is a mixture of the others, but for
# noise
NOISE = 0.1


class Picked(NamedTuple):
    """anchors int64[K], rows in the order in which they were chosen; distances float64[K] at which
    they were: from zero, from the first, then from the span of those before."""

    anchors: np.ndarray
    distances: np.ndarray


def pick(
    pieces: Pieces,
    columns: int,
    row_sums: np.ndarray,
    candidates: int,
    topics: int,
    step: Callable[[int], None] = lambda _: None,
) -> Picked:
    """``topics`` of the first ``candidates`` rows (as many at least), by rows / ``row_sums``
    (float64[candidates]).

    pieces()  (first row, rows [n, >= columns]) in order: read ``topics`` times, and nothing of
              their size is held
    step      called after each with how many are chosen
    """
    inverse = 1.0 / row_sums

    def parts() -> Iterator[tuple[slice, np.ndarray]]:
        for first, rows in pieces():
            part = slice(first, min(first + len(rows), candidates))
            if part.start < part.stop:
                yield part, rows[: part.stop - first, :columns].astype(np.float64)

    def row(place: int) -> np.ndarray:
        for first, rows in pieces():
            if first <= place < first + len(rows):
                return np.asarray(rows[place - first, :columns].astype(np.float64) * inverse[place])
        raise IndexError(place)

    def along(direction: np.ndarray) -> np.ndarray:
        products = np.empty(candidates)
        for part, rows in parts():
            products[part] = np.einsum("ij,j->i", rows, direction)
        return products * inverse

    squares = np.empty(candidates)
    for part, rows in parts():
        squares[part] = np.einsum("ij,ij->i", rows, rows)
    squares *= inverse**2
    chosen = [int(np.argmax(squares))]
    origin = row(chosen[0])
    distances = [float(np.sqrt(squares[chosen[0]]))]
    squares += origin @ origin - 2.0 * along(origin)  # from the origin's new place
    candidates_left = np.ones(candidates, np.bool_)
    basis = np.zeros((0, columns))
    while len(chosen) < topics:
        candidates_left[chosen[-1]] = False
        far = int(np.argmax(np.where(candidates_left, squares, -np.inf)))
        rest = row(far) - origin
        for _ in range(2):
            rest -= np.einsum(
                "ij,i->j", basis, np.einsum("ij,j->i", basis, rest)
            )  # BLAS sums by its number of threads
        norm = float(np.linalg.norm(rest))
        chosen.append(far)
        distances.append(norm)
        step(len(chosen))
        if norm > 0.0 and len(chosen) < topics:
            direction = rest / norm
            basis = np.vstack([basis, direction])
            squares -= (along(direction) - origin @ direction) ** 2
    return Picked(np.array(chosen, np.int64), np.array(distances))


def lines(picked: Picked, words: int) -> list[str]:
    """What to say of the picks."""
    all_told = [f"{d:.3g}" for d in picked.distances]
    told = " ".join(
        all_told
        if len(all_told) <= TOLD
        else [*all_told[: TOLD // 2], "...", *all_told[-TOLD // 2 :]]
    )
    said = [
        f"{len(picked.anchors)} anchor words of {words:,} candidates, each chosen at a distance "
        f"of {told}"
    ]
    base = float(picked.distances[1]) if len(picked.distances) > 1 else 0.0
    noise = int(np.count_nonzero(picked.distances[1:] < NOISE * base))
    if noise or (len(picked.distances) > 1 and not base > 0):
        said.append(
            f"warning: {noise} of {len(picked.anchors)} anchor words lie nearer than "
            f"{NOISE:.0%} of the first distance to the "
            "others' span: they are noise or near-duplicates; lower -K or raise --min-docs"
        )
    return said
