"""A hash that tells machines apart whose kernels round differently."""

from __future__ import annotations

import hashlib

import numpy as np

from topicstream.kernels.local_step import dirichlet_weights, probabilities


def self_test() -> str:
    """sha256 over what two kernels make of fixed numbers; instruction sets that sum in another order give another one.

    Returns
    -------
    str
        The first 16 hexadecimal digits.
    """
    cells, width = 40, 48
    base = (np.arange(cells * width, dtype=np.float32).reshape(cells, width) % np.float32(17.3)) / np.float32(7)
    theta, inverse = np.sqrt(base[3] + 1), 1 / (base[5] + np.float32(3))
    weights, p = np.zeros(width, np.float32), np.zeros(cells, np.float32)
    dirichlet_weights(base[7], np.full(width, np.float32(0.1)), weights)
    rows = np.arange(cells, dtype=np.int64)
    probabilities(rows, base, 0.01, inverse, theta, np.empty(cells * width, np.float32), p)
    return hashlib.sha256(weights.tobytes() + p.tobytes()).hexdigest()[:16]
