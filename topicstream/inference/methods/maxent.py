"""Topics by the model's classifier (Yao, Mimno and McCallum 2009): one sparse product, no iteration, nothing drawn.

    theta[k]  ~  exp((sum_w x_w weights[w, k] + bias[k]) / temperature)

`topics classifier` learns the weights.  A document without a known word gets the prior's mean, as everywhere.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from topicstream.errors import UsageError
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows
from topicstream.kernels.linear import logits
from topicstream.model.classifier import Classifier


class MaxEnt(Method):
    """The fastest: what the classifier says.  ``temperature``: another than the one chosen when it was learned."""

    name: ClassVar[str] = "maxent"
    cites: ClassVar[str] = "Yao, Mimno and McCallum 2009"

    def __init__(self, rows: TopicRows, *, temperature: float | None = None) -> None:
        if temperature is not None and not temperature > 0:
            raise UsageError(f"--temperature {temperature}: give a number above 0")
        self.rows = rows
        self.classifier = Classifier.open(rows.model)
        if rows.model.phi is not None:  # a caller's own model, in memory
            self.classifier.load()
        self.temperature = float(temperature if temperature is not None else self.classifier.temperature)
        prior = rows.alpha64
        self._prior = prior / prior.sum() if prior.sum() > 0 else np.full(rows.topics, 1 / rows.topics)

    def load(self) -> None:
        self.classifier.load()

    def shares(self, docs: Documents) -> np.ndarray:
        at, weights = self.classifier.of(docs.words)
        z = np.empty((len(docs), len(self.classifier.bias)), np.float32)
        has = self.classifier
        root = has.features == "root"
        x = np.sqrt(docs.counts) if root else docs.counts
        logits(docs.indptr, at, x, weights, has.bias, has.length, root, self.temperature, z)
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=1, keepdims=True)
        z[np.diff(docs.indptr) == 0] = self._prior
        return z
