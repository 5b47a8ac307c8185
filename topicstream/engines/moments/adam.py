"""The minibatch Adam of the full dependence mixture, on whichever array library is at hand: NumPy, CuPy or PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.errors import TopicsError

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Arrays:
    """The few operations that differ between the libraries; ``xp`` has the rest (``exp``, ``log``, ``sqrt``)."""

    def __init__(self, device: str) -> None:
        self.torch = False
        if device == "cpu":
            self.xp: Any = np
            return
        try:
            import torch

            if torch.cuda.is_available():
                self.xp, self.torch = torch, True
                return
        except ImportError:
            pass
        try:
            import cupy

            if cupy.cuda.runtime.getDeviceCount() > 0:
                self.xp = cupy
                return
        except Exception:
            pass
        raise TopicsError(
            "--device gpu needs a CUDA device and PyTorch or CuPy (`pip install topicstream[gpu]`); leave it out to compute on the processor"
        )

    def put(self, array: np.ndarray) -> Any:
        """A copy on the device."""
        if self.torch:
            return self.xp.from_numpy(np.ascontiguousarray(array).copy()).to("cuda")
        return self.xp.array(array)

    def get(self, array: Any) -> np.ndarray:
        """A copy here."""
        if self.torch:
            return np.asarray(array.cpu().numpy())
        return np.asarray(array.get() if hasattr(array, "get") else array)

    def add_rows(self, target: Any, ids: Any, rows: Any) -> None:
        """target[ids] += rows, an id as often as it stands there."""
        if self.torch:
            target.index_add_(0, ids, rows)
        elif self.xp is np:
            np.add.at(target, ids, rows)
        else:
            self.xp.add.at(target, ids, rows)


class Mixture:
    """Parameters and Adam's moments on the device.

    logits float32[W, T] (mu = softmax over words), pair_logits float32[T, T] (a = softmax of it plus its transpose);
    first, second: running means of the gradient and of its square, for each
    """

    def __init__(self, arrays: Arrays, values: dict[str, np.ndarray], step: int) -> None:
        self.arrays, self.step_number = arrays, step
        self.values = {name: arrays.put(value) for name, value in values.items()}

    def topics(self) -> tuple[Any, Any]:
        """mu [W, T] and a [T, T]."""
        xp, z, b = self.arrays.xp, self.values["logits"], self.values["pair_logits"]
        mu = xp.exp(z - xp.amax(z, 0))
        mu /= mu.sum(0)
        s = b + b.T
        a = xp.exp(s - xp.amax(s))
        return mu, a / a.sum()

    def step(self, u: np.ndarray, v: np.ndarray, rate: float) -> Any:
        """One step on a batch of pairs of words; returns the batch's mean -log p as it was before."""
        arrays, xp = self.arrays, self.arrays.xp
        mu, a = self.topics()
        ids_u, ids_v = arrays.put(u), arrays.put(v)
        one, two = mu[ids_u], mu[ids_v]
        other = two @ a
        p = (one * other).sum(1) + 1e-30
        share = (1.0 / (len(u) * p))[:, None]
        gradient = xp.zeros_like(mu)
        arrays.add_rows(gradient, ids_u, -share * other)
        arrays.add_rows(gradient, ids_v, -share * (one @ a))
        gradient -= (mu * gradient).sum(0)
        gradient *= mu
        pairs = -(one * share).T @ two
        pairs = a * (pairs - (a * pairs).sum())
        self.step_number += 1
        self._move("logits", gradient, rate)
        self._move("pair_logits", pairs + pairs.T, rate)
        return -xp.log(p).mean()

    def _move(self, name: str, gradient: Any, rate: float) -> None:
        values, xp, t = self.values, self.arrays.xp, self.step_number
        first, second = values[f"{name}_first"], values[f"{name}_second"]
        first *= BETA1
        first += (1 - BETA1) * gradient
        second *= BETA2
        second += (1 - BETA2) * gradient * gradient
        scale = rate * float(np.sqrt(1 - BETA2**t)) / (1 - BETA1**t)
        values[name] -= scale * first / (xp.sqrt(second) + EPSILON)
