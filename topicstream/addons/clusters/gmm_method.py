"""The method ``gmm``: components of points, p(k|x) at the point estimates.

See Hughes & Sudderth (2016).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from topicstream.addons.clusters.model import GaussianModel
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows
from topicstream.model.topic_model import TopicModel


class GMM(Method):
    """p(component | vector) of a model of --algo gmm, as its default method."""

    name: ClassVar[str] = "gmm"
    cites: ClassVar[str] = "Hughes & Sudderth 2016"
    dense: ClassVar[bool] = True

    def __init__(self, rows: TopicRows, **options: Any) -> None:
        super().__init__(rows, **options)
        assert rows.model.path is not None
        self._components = GaussianModel(rows.model.path)

    @classmethod
    def required_by(cls, model: TopicModel) -> bool:
        return bool(model.manifest.width)

    @classmethod
    def table_bytes(cls, model: TopicModel) -> int:
        covariances = len(model.table("covariances").totals)
        return 4 * 8 * model.n_topics * (model.n_words + covariances)

    def load(self) -> None:
        """Load nothing, for the components are in memory."""

    def shares(self, docs: Documents) -> np.ndarray:
        return self.likelihoods(docs)[1]

    def likelihoods(self, docs: Documents) -> tuple[np.ndarray, np.ndarray]:
        """Return log p(x) of each vector, float64[D], and ``shares``."""
        return self._components.answer(docs.counts.reshape(len(docs), -1))
