"""Labeled LDA by belief propagation in dense float64 NumPy (Zeng, Cheung & Liu 2013, eq.

7 on the labels of a document).
"""

import numpy as np


def visit(x, mu, phi, lam, open_topics, alpha, beta):
    """One visit of a block, word by word and within a word document by document: phi_w and theta_d
    move after each cell, lam (which begins as the column sums of phi) after the block.

    x: [D, W]; mu: [D, W, K], all zeros in cells that have not entered yet; phi: [W, K];
    open_topics: bool[D, K]; alpha: [D, K]. Changes mu and phi; returns p(w | all other cells) [D,
    W], nan where there is no cell.
    """
    theta = (x[:, :, None] * mu).sum(1)
    words = x.shape[1]
    likely = np.full(x.shape, np.nan)
    for w in range(words):
        for d in np.flatnonzero(x[:, w]):
            k = open_topics[d]
            if not k.any():
                continue
            own = x[d, w] * mu[d, w]
            p = (theta[d] - own + alpha[d]) * (phi[w] - own + beta) / (lam - own + words * beta) * k
            likely[d, w] = p.sum() / ((theta[d] - own)[k].sum() + alpha[d, k].sum())
            mu[d, w] = p / p.sum()
            theta[d] += x[d, w] * mu[d, w] - own
            phi[w] += x[d, w] * mu[d, w] - own
    return likely
