"""How topics lie to each other: Hellinger distances from one stream over the table, a map and a tree.

The Gram matrix of sqrt(p(w|k)) is added up by ranges of rows, so neither the corpus nor the table is ever in memory; its
entries are Bhattacharyya coefficients, 1 for the same topic and 0 for no word in common.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topicstream.model.topic_model import TopicModel

ROWS = 4096


def gram(model: TopicModel) -> np.ndarray:
    """float64[K, K]: sum over words of sqrt(p(w|i) p(w|j)); ones on the diagonal."""
    norms = model.norms
    total = np.zeros((model.n_topics, model.n_topics))
    held: list[np.ndarray] = []
    rows_held = 0

    def add() -> None:
        piece = np.concatenate(held)
        total[:] += piece.T @ piece

    for _, rows in model.spans():
        held.append(np.sqrt((rows + model.beta) / norms).astype(np.float32))
        rows_held += len(rows)
        if rows_held >= ROWS:
            add()
            held, rows_held = [], 0
    if held:
        add()
    total = (total + total.T) / 2
    np.fill_diagonal(total, 1.0)  # an empty topic of a model without a prior is at least like itself
    return np.clip(total, 0.0, 1.0)


def layout(similar: np.ndarray) -> np.ndarray:
    """float64[K, 2]: classical scaling of the Hellinger distances (squared: 2 - 2 gram), each axis pointing so that its
    farthest topic is on the positive side; zeros where there is nothing to spread."""
    k = len(similar)
    out = np.zeros((k, 2))
    if k < 2:
        return out
    centred = similar - similar.mean(axis=0) - similar.mean(axis=1)[:, None] + similar.mean()
    values, vectors = np.linalg.eigh(centred)
    for axis in range(min(2, k)):
        value, vector = values[-1 - axis], vectors[:, -1 - axis]
        if value <= 1e-12:
            continue
        rounded = np.round(np.abs(vector), 9)
        out[:, axis] = vector * np.sqrt(value) * (1.0 if vector[int(np.argmax(rounded))] > 0 else -1.0)
    return out


@dataclass(frozen=True)
class MergeTree:
    """A merge hierarchy.  left, right: int64[K-1], the two clusters merged at each step (0..K-1 are topics, K + i the
    result of step i); height: float64[K-1], ascending; order: int64[K], topics as they lie under the tree."""

    left: np.ndarray
    right: np.ndarray
    height: np.ndarray
    order: np.ndarray

    def cut(self, clusters: int) -> list[list[int]]:
        """The topics in so many clusters, each ascending, the clusters by their first topic."""
        k = len(self.order)
        parts: dict[int, list[int]] = {i: [i] for i in range(k)}
        for i in range(k - max(1, min(clusters, k))):
            parts[k + i] = sorted(parts.pop(int(self.left[i])) + parts.pop(int(self.right[i])))
        return sorted(parts.values())


def tree(similar: np.ndarray, sizes: np.ndarray) -> MergeTree:
    """Ward's linkage of the Hellinger distances (Euclidean ones, between sqrt(p)), by chains of nearest neighbours
    (Murtagh 1983); heights are distances, sqrt(1 - gram) for two single topics; under each merge the cluster with more
    mass (sizes: float64[K]) comes first."""
    k = len(similar)
    distance = np.maximum(0.0, 1.0 - similar)  # squared
    np.fill_diagonal(distance, np.inf)
    weight = np.ones(k)
    alive = np.ones(k, bool)
    merges: list[tuple[float, int, int]] = []
    chain: list[int] = []
    for _ in range(k - 1):
        if not chain:
            chain.append(int(np.argmax(alive)))
        while True:
            here = chain[-1]
            row = distance[here]
            nearest = int(np.argmin(row))
            if len(chain) > 1 and row[chain[-2]] <= row[nearest]:
                nearest = chain[-2]
                break
            chain.append(nearest)
        a, b = sorted((chain.pop(), chain.pop()))
        between = float(distance[a, b])
        merges.append((float(np.sqrt(max(0.0, between))), a, b))
        with np.errstate(invalid="ignore"):
            joined = (weight[a] + weight) * distance[a] + (weight[b] + weight) * distance[b] - weight * between
            joined /= weight[a] + weight[b] + weight
        joined[~alive] = np.inf
        distance[a], distance[:, a] = joined, joined
        distance[a, a] = np.inf
        distance[b], distance[:, b] = np.inf, np.inf
        weight[a] += weight[b]
        alive[b] = False
    merges.sort(key=lambda m: m[0])
    return _ordered(k, merges, sizes)


def _ordered(k: int, merges: list[tuple[float, int, int]], sizes: np.ndarray) -> MergeTree:
    cluster = np.arange(k)  # of a representative topic
    root = np.arange(k)

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = int(root[i])
        return i

    mass = np.concatenate((sizes, np.zeros(max(0, k - 1))))
    left, right, height = (np.zeros(max(0, k - 1), t) for t in (np.int64, np.int64, np.float64))
    for i, (h, a, b) in enumerate(merges):
        ra, rb = find(a), find(b)
        ca, cb = int(cluster[ra]), int(cluster[rb])
        if (mass[cb], -cb) > (mass[ca], -ca):
            ca, cb = cb, ca
        left[i], right[i], height[i] = ca, cb, h
        mass[k + i] = mass[ca] + mass[cb]
        root[rb] = ra
        cluster[ra] = k + i
    order: list[int] = []
    stack = [2 * k - 2] if k > 1 else [0]
    while stack:
        node = stack.pop()
        if node < k:
            order.append(node)
        else:
            stack += [int(right[node - k]), int(left[node - k])]
    return MergeTree(left, right, height, np.array(order, np.int64))
