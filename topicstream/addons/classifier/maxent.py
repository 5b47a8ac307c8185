"""The method ``maxent``: topics by the model's classifier.

One sparse product, no iteration, nothing drawn (Yao, Mimno and McCallum 2009):

    theta[k]  ~  exp((sum_w x_w weights[w, k] + bias[k]) / temperature)

`topics classifier` trains the weights. A document without a known word gets the prior's mean, as
with every method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from topicstream.addons.classifier.model import Classifier
from topicstream.base.options import option
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows


@dataclass(frozen=True)
class MaxEntOptions:
    """Options of the classifier."""

    temperature: float | None = option(
        None,
        "Divide the logits by this number (default: chosen when the classifier was trained).",
        above=0,
    )


class MaxEnt(Method):
    """The model's classifier (`topics classifier`), the fastest method."""

    name: ClassVar[str] = "maxent"
    cites: ClassVar[str] = "Yao, Mimno and McCallum 2009"
    poor_on_short: ClassVar[bool] = True
    Options: ClassVar[type] = MaxEntOptions
    options: MaxEntOptions

    def __init__(self, rows: TopicRows, **options: Any) -> None:
        super().__init__(rows, **options)
        self.classifier = Classifier.open(rows.model)
        if rows.model.phi is not None:  # a caller's own model, in memory
            self.classifier.load()
        self.temperature = float(self.options.temperature or self.classifier.temperature)

    def load(self) -> None:
        self.classifier.load()

    def shares(self, docs: Documents) -> np.ndarray:
        classifier = self.classifier
        root = self.classifier.features == "root"
        cells, weights = classifier.gather(docs.words)
        x = csr_array(
            (docs.scale_counts(classifier.length, root), cells, docs.indptr),
            shape=(len(docs), len(weights)),
        )
        z = (x @ weights + classifier.bias) / np.float32(self.temperature)
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=1, keepdims=True)
        z[np.diff(docs.indptr) == 0] = self.rows.prior
        return np.asarray(z)
