"""The clusters of a document under a model of ``mixture``: p(k|x) at the point estimates (Hughes & Sudderth 2016)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from topicstream.errors import InputError
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows
from topicstream.model.clusters import ClusterView


class MixtureMethod(Method):
    """What models of clusters answer by; a document without a known word gets the clusters' sizes."""

    name: ClassVar[str] = "mixture"
    cites: ClassVar[str] = "Hughes & Sudderth 2016"

    def __init__(self, rows: TopicRows) -> None:
        if rows.model.cluster_sizes is None:
            raise InputError("--method mixture: the model has no clusters; train with --algo mixture")
        self.rows, self._clusters = rows, ClusterView.of(rows.model)

    def shares(self, docs: Documents) -> np.ndarray:
        docs = self.rows.weigh(docs)
        at, base = self.rows.of(docs)
        return self._clusters.answer(docs.indptr, at, docs.counts, base)[1]
