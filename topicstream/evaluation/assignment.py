"""The assignment of least total cost: each row gets one column, no column twice (shortest augmenting paths; Crouse 2016,
after Jonker & Volgenant 1987).

NumPy and no kernel: a thousand topics take a tenth of a second (three seconds for the worst matrices known), and to
compile a kernel takes longer.
"""

from __future__ import annotations

import numpy as np


def least_cost(cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """cost: finite float[R, C] -> rows (ascending) and their columns, int64[min(R, C)] each, of least total cost.

    Of several assignments of the same total the same one is found every time.  O(min(R, C)^2 max(R, C)).
    ValueError for costs that are NaN, infinite or beyond 1e300 (sums of them would overflow).
    """
    cost = np.asarray(cost, np.float64)
    if cost.ndim != 2 or not (np.abs(cost) <= 1e300).all():
        raise ValueError("the costs must be a matrix of finite numbers")
    if not cost.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if cost.shape[0] > cost.shape[1]:
        columns, rows = least_cost(cost.T)
        order = np.argsort(rows)
        return rows[order], columns[order]
    row_of = _augment(np.ascontiguousarray(cost))
    columns = np.flatnonzero(row_of >= 0)
    order = np.argsort(row_of[columns])
    return row_of[columns][order], columns[order]


def _greedy(cost: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """A start: rows that have their cheapest column (at prices v) to themselves.

    Returns row_of: int64[C] (-1 free), u: float64[R] and the rows left over, in order."""
    reduced = cost - v
    best = np.argmin(reduced, axis=1)
    row_of = np.full(cost.shape[1], -1, np.int64)
    _, first = np.unique(best, return_index=True)
    row_of[best[first]] = first
    left = np.ones(len(cost), np.bool_)
    left[first] = False
    return row_of, reduced[np.arange(len(cost)), best], np.flatnonzero(left).tolist()


def _augment(cost: np.ndarray) -> np.ndarray:
    """cost: float64[R, C], R <= C -> int64[C]: the row of each column, -1 of a free one."""
    n_rows, n_columns = cost.shape
    v = cost.min(axis=0) if n_rows == n_columns else np.zeros(n_columns)  # a free column must keep price 0
    row_of, u, left = _greedy(cost, v)
    column_of = np.full(n_rows, -1, np.int64)
    taken = np.flatnonzero(row_of >= 0)
    column_of[row_of[taken]] = taken
    reach, through = np.empty(n_columns), np.empty(n_columns, np.int64)
    step, nearer = np.empty(n_columns), np.empty(n_columns, np.bool_)
    free = row_of < 0
    for start in left:
        # Dijkstra over reduced costs; once a column is settled its price here is -inf, so it is never nearer again
        price, open_ = v.copy(), np.full(n_columns, np.inf)
        settled: list[int] = []
        i, lowest = start, 0.0
        while True:
            np.subtract(cost[i], price, out=step)
            step += lowest - u[i]
            np.less(step, open_, out=nearer)
            np.copyto(open_, step, where=nearer)
            through[nearer] = i
            j = int(open_.argmin())
            lowest = float(open_[j])
            if not free[j]:
                # of columns equally near a free one ends the search, the first such
                np.equal(open_, lowest, out=nearer)
                nearer &= free
                other = int(nearer.argmax())
                j = other if nearer[other] else j
            if free[j]:
                break
            reach[j], price[j], open_[j] = lowest, -np.inf, np.inf
            settled.append(j)
            i = int(row_of[j])
        u[start] += lowest
        u[row_of[settled]] += lowest - reach[settled]
        v[settled] -= lowest - reach[settled]
        free[j] = False
        while True:
            i = int(through[j])
            row_of[j] = i
            j, column_of[i] = int(column_of[i]), j
            if i == start:
                break
    return row_of
