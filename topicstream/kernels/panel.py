"""A document's rows side by side, and one inner iteration over them.

The fixed point of every local step with the topics held still is

    z_j = sum_k own[j,k] t[k],    acc[k] = sum_j (x_j / z_j) own[j,k],    n[k] = t[k] acc[k]

with own[j,k] = p(w_j|k) (BP, EM) or exp E[log phi] (VB), t[k] = n[k] + alpha[k] or exp(psi(n[k] + alpha[k])).

    symbol      array
    own         float32[cells, KP], KP a multiple of 16; padding zero
    t, acc      float32[KP]
    x           float32[cells]
    z           float32[cells]
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.jit import kernel
from topicstream.kernels.simd import WIDTH, fma, load, splat, store, total

LEAST = np.float32(1e-30)
"""A cell whose z is below this says nothing: its word is impossible in every topic."""


@kernel
def fill(rows, base, beta, inverse, own):
    """own[j, k] = (base[rows[j], k] + beta) * inverse[k].

    rows: int64[m] of base: float32[R, K]; inverse: float32[KP], zero in padding -> own[:m]: float32[m, KP].
    """
    topics, width = base.shape[1], own.shape[1]
    whole = topics - topics % WIDTH
    b = np.float32(beta)
    smooth = splat(b)
    for j in range(len(rows)):
        at, to = rows[j] * topics, j * width
        for k in range(0, whole, WIDTH):
            store(own, to + k, (load(base, at + k) + smooth) * load(inverse, k))
        for k in range(whole, width):
            own[j, k] = (base[rows[j], k] + b) * inverse[k] if k < topics else np.float32(0)


@kernel
def sweep(cells, x, own, t, z, acc):
    """Add sum_j (x_j / z_j) own[j, :] of the first ``cells`` rows to acc, and write z.

    Four rows at a time: t and acc are read once for the four, and the rows are still near for their second use.
    """
    width = own.shape[1]
    zero = np.float32(0)
    nothing = splat(zero)
    for i in range(0, cells, 4):
        # a last group of fewer than four repeats its last cell with weight 0
        i1, i2, i3 = min(i + 1, cells - 1), min(i + 2, cells - 1), min(i + 3, cells - 1)
        o0, o1, o2, o3 = i * width, i1 * width, i2 * width, i3 * width
        v0, v1, v2, v3 = nothing, nothing, nothing, nothing
        for k in range(0, width, WIDTH):
            y = load(t, k)
            v0 = fma(load(own, o0 + k), y, v0)
            v1 = fma(load(own, o1 + k), y, v1)
            v2 = fma(load(own, o2 + k), y, v2)
            v3 = fma(load(own, o3 + k), y, v3)
        z0, z1, z2, z3 = total(v0), total(v1), total(v2), total(v3)
        z[i], z[i1], z[i2], z[i3] = z0, z1, z2, z3
        w0 = splat(x[i] / z0 if z0 > LEAST else zero)
        w1 = splat(x[i1] / z1 if z1 > LEAST and i + 1 < cells else zero)
        w2 = splat(x[i2] / z2 if z2 > LEAST and i + 2 < cells else zero)
        w3 = splat(x[i3] / z3 if z3 > LEAST and i + 3 < cells else zero)
        for k in range(0, width, WIDTH):
            y = fma(w0, load(own, o0 + k), load(acc, k))
            y = fma(w1, load(own, o1 + k), y)
            v = fma(w3, load(own, o3 + k), w2 * load(own, o2 + k))
            store(acc, k, y + v)
