"""Hellinger distances between topics, and a map and a tree made from them.

The Gram matrix of sqrt(p(w|k)) is added up by ranges of rows, so neither the corpus nor the table
is ever in memory. Its entries are Bhattacharyya coefficients, 1 for the same topic and 0 for no
word in common.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topicstream.model.topic_model import TopicModel


def gram(model: TopicModel) -> np.ndarray:
    """Compute the Bhattacharyya coefficients of all pairs of topics, float64[K, K].

    An entry is the sum over words of sqrt(p(w|i) p(w|j)); the diagonal is 1.
    """
    total = np.zeros((model.n_topics, model.n_topics))
    for _, rows in model.spans():
        roots = np.sqrt((rows + model.beta) / model.norms).astype(np.float32)
        total += roots.T @ roots
    total = (total + total.T) / 2
    # an empty topic of a model without a prior is at least like itself
    np.fill_diagonal(total, 1.0)
    return np.clip(total, 0.0, 1.0)


def layout(similar: np.ndarray) -> np.ndarray:
    """Place topics on a plane by classical scaling of their Hellinger distances.

    Each axis points so that its farthest topic lies on the positive side.

    Parameters
    ----------
    similar
        Bhattacharyya coefficients, float64[K, K]; the squared distances are 2 - 2 similar.

    Returns
    -------
    float64[K, 2], zeros where there is nothing to spread.
    """
    k = len(similar)
    out = np.zeros((k, 2))
    centred = similar - similar.mean(axis=0) - similar.mean(axis=1)[:, None] + similar.mean()
    values, axes = np.linalg.eigh(centred)
    for axis in range(min(2, k)):
        value = values[-1 - axis]
        vector = axes[:, -1 - axis]
        if value <= 1e-12:
            continue
        rounded = np.round(np.abs(vector), 9)
        out[:, axis] = (
            vector * np.sqrt(value) * (1.0 if vector[int(np.argmax(rounded))] > 0 else -1.0)
        )
    return out


@dataclass(frozen=True)
class MergeTree:
    """A hierarchy of topics, merged step by step.

    Attributes
    ----------
    left, right
        The two clusters merged at each step, int64[K-1]: 0 .. K-1 are topics, K + i is the result
        of step i.
    height
        Distance of the two, float64[K-1], ascending.
    order
        Topics as they lie under the tree, int64[K].
    """

    left: np.ndarray
    right: np.ndarray
    height: np.ndarray
    order: np.ndarray

    def cut(self, clusters: int) -> list[list[int]]:
        """Cut the tree into clusters of topics, each ascending, ordered by their first topic."""
        k = len(self.order)
        parts: dict[int, list[int]] = {i: [i] for i in range(k)}
        for i in range(k - max(1, min(clusters, k))):
            parts[k + i] = sorted(parts.pop(int(self.left[i])) + parts.pop(int(self.right[i])))
        return sorted(parts.values())


def tree(similar: np.ndarray, sizes: np.ndarray) -> MergeTree:
    """Merge topics by Ward's linkage of their Hellinger distances.

    Parameters
    ----------
    similar
        Bhattacharyya coefficients, float64[K, K]; two single topics merge at sqrt(1 - similar).
    sizes
        Tokens of the topics, float64[K]. The larger of two merged clusters comes first.
    """
    # the import takes a tenth of a second, which a map alone need not spend
    from scipy.cluster.hierarchy import leaves_list, linkage

    k = len(similar)
    if k < 2:
        none = np.zeros(0, np.int64)
        return MergeTree(none, none, np.zeros(0), np.arange(k))
    distances = np.sqrt(np.maximum(0.0, 1.0 - similar[np.triu_indices(k, 1)]))
    merges = linkage(distances, "ward")
    pairs = merges[:, :2].astype(np.int64)
    mass = np.concatenate((sizes, np.zeros(k - 1)))
    for i, (a, b) in enumerate(pairs.tolist()):
        if (mass[b], -b) > (mass[a], -a):
            pairs[i] = b, a
        mass[k + i] = mass[a] + mass[b]
    merges[:, :2] = pairs
    return MergeTree(pairs[:, 0], pairs[:, 1], merges[:, 2], leaves_list(merges).astype(np.int64))
