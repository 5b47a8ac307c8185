"""One visit of sparse-L belief propagation in scalar float64 NumPy, from its description in
``engines.message.sparse_messages``.
"""

import numpy as np


def sweep(
    ptr,
    doc,
    x,
    base,
    index,
    topics,
    before,
    theta,
    lam,
    old,
    alpha,
    beta,
    top,
    band,
    step,
    first,
    chosen,
    reach,
    k_all,
):
    """Returns the new integers, the change of the table, theta + alpha, normalisers s and bids of
    outside topics.
    """
    phi = base.astype(np.float64)
    theta = theta.astype(np.float64)
    new = np.zeros(old.shape, int)
    s_all = np.zeros(len(doc))
    delta = np.zeros(base.shape)
    scores = np.zeros((max(chosen.max() + 1, 0), base.shape[1]))
    for u in range(len(ptr) - 1):
        row = phi[index[u]]
        ratio = (row + beta) / lam
        strong = ratio * (ratio > reach * ratio.max())
        for i in range(ptr[u], ptr[u + 1]):
            d = doc[i]
            a = topics[d].astype(int)
            was = before[d].astype(int)
            q = old[i].astype(np.float64) * (0 if first else 1)
            own = x[i] * q**2 / max((q**2).sum(), 1e-300)
            change = np.zeros(base.shape[1])
            change[was[was != a]] -= own[was != a]
            own = own * (was == a)
            f = row + delta[index[u]] * (0 if first else 1) + change
            p = (
                np.maximum(theta[d] - own, alpha)
                * np.maximum(f[a] - own + beta, beta)
                / (lam[a] - own)
            )
            s_all[i], highest = p.sum(), p.max()
            if not first and (was == a).all():
                p = np.maximum(p - p.sum() * (step - 1) / step * own / x[i], 0)
            to = np.floor(top * np.sqrt(p / highest) + 0.5)
            if chosen[d] >= 0:
                scores[chosen[d]] += x[i] / s_all[i] * strong
            if not first and (was == a).all() and np.abs(to - q).max() <= band:
                new[i] = q
                continue
            move = x[i] * to**2 / (to**2).sum() - own
            if not first:
                theta[d] += move
            change[a] += move
            delta[index[u]] += change
            new[i] = to
    return {"new": new, "delta": delta, "theta": theta, "s": s_all, "scores": scores}
