"""A trained model of Gaussian components: what points are under it."""

from __future__ import annotations

import contextlib
from functools import cached_property
from pathlib import Path

import numpy as np

from topicstream.errors import StoreError
from topicstream.kernels.gaussian_density import Densities, log_density, point_densities
from topicstream.machine import one_blas_thread
from topicstream.model.clusters import log_sums
from topicstream.model.manifest import read_manifest
from topicstream.model.topic_model import TopicModel

POINTS = 4096  # scored at a time


def is_of_vectors(model: object) -> bool:
    """Whether a model's folder holds Gaussian components."""
    return (
        isinstance(model, str | Path)
        and (Path(model) / "manifest.json").exists()
        and bool(read_manifest(model).width)
    )


class GaussianModel:
    """sizes float64[K], points of the components; pi, their mean shares; means [K, n]; covariances
    [K, n, n], or [K, n] of diagonal ones; patches: width of the image patches that the points are,
    0: none."""

    def __init__(self, path: str | Path) -> None:
        opened = TopicModel.open(path, memory_limit=-1, dense=True)
        self.path, self.manifest, self.n = Path(path), opened.manifest, opened.n_words
        every = np.arange(opened.n_topics)
        self.sizes = opened.table("sizes").gather(every[:1])[0].astype(np.float64)
        self.means = opened.table("means").gather(every).astype(np.float64)
        covariances = opened.table("covariances").gather(every).astype(np.float64)
        self.covariances = (
            covariances
            if covariances.shape[1] == self.n
            else covariances.reshape(-1, self.n, self.n)
        )
        if (
            self.covariances.shape[1:] not in ((self.n,), (self.n, self.n))
            or self.means.shape[1] != self.n
        ):
            raise StoreError(
                f"{path}: its components are not of {self.n} numbers; restore the model or "
                f"train again"
            )
        weights = np.maximum(self.sizes, 0.0) + opened.alpha
        self.pi = weights / weights.sum()
        self.patches = self.manifest.patches or 0
        one_blas_thread()

    def answer(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(log p(x) float64[D], p(k | x) float32[D, K]) of points [D, n]."""
        return answer(x, self.joint)

    @cached_property
    def joint(self) -> Densities:
        """log p(x, k).  StoreError where there is no such density."""
        with contextlib.suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
            density = joint(self.means, self.covariances, self.pi)
            if (density.plus < np.inf).all() and (density.plus > -np.inf).any():
                return density
        raise StoreError(
            f"{self.path}: a covariance is not positive definite; restore the model or train again"
        )


def joint(means: np.ndarray, covariances: np.ndarray, pi: np.ndarray) -> Densities:
    """log p(x, k) of point estimates."""
    of = point_densities(means, covariances)
    of.plus[:] += np.log(pi)
    return of


def answer(x: np.ndarray, of: Densities) -> tuple[np.ndarray, np.ndarray]:
    """(log p(x) float64[D], p(k | x) float32[D, K]) of points [D, n]."""
    fit, shares = np.empty(len(x)), np.empty((len(x), len(of.plus)), np.float32)
    for at in range(0, len(x), POINTS):
        part = slice(at, at + POINTS)
        log_sums(log_density(x[part].astype(np.float64), of), fit[part], shares[part])
    return fit, shares
