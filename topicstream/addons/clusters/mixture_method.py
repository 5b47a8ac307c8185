"""The method ``mixture``: clusters of a document, p(k|x) at the point estimates.

See Hughes & Sudderth (2016).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from topicstream.addons.clusters.model import ClusterView
from topicstream.base.errors import InputError
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows
from topicstream.model.topic_model import TopicModel


class MixtureMethod(Method):
    """p(cluster | document) of a model of --algo mixture, as its default method."""

    name: ClassVar[str] = "mixture"
    cites: ClassVar[str] = "Hughes & Sudderth 2016"
    weighs_cells: ClassVar[bool] = True

    def __init__(self, rows: TopicRows, **options: Any) -> None:
        super().__init__(rows, **options)
        if not self.required_by(rows.model):
            raise InputError(
                "--method mixture: the model has no clusters; train with --algo mixture"
            )
        self._clusters = ClusterView.of_model(rows.model)

    @classmethod
    def required_by(cls, model: TopicModel) -> bool:
        return model.cluster_sizes is not None

    def shares(self, docs: Documents) -> np.ndarray:
        return self.likelihoods(docs)[1]

    def likelihoods(self, docs: Documents) -> tuple[np.ndarray, np.ndarray]:
        """Return log p(x) of each document, float64[D], and ``shares``."""
        docs = self.rows.weigh(docs)
        cells, base = self.rows.gather(docs)
        return self._clusters.answer(docs.indptr, cells, docs.counts, base)
