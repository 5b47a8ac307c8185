"""Batch variational Bayes: a dense local step for all documents, then the global step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from topicstream.engines.about import LONG_ENOUGH
from topicstream.engines.base import Out, Priors, Rule, TableSpec, Visit
from topicstream.engines.variational.family import Variational


class VariationalBayes(Variational):
    """Batch variational Bayes (``vb``).

    A pass reads the tables of the pass before (REPLACE). See ``Variational``.

    Examples
    --------
    >>> from topicstream.engines.base import Shape
    >>> shape = Shape(docs=10_000, words=5_000, cells=500_000, tokens=600_000.0, topics=100)
    >>> engine = VariationalBayes(shape, VariationalBayes.Options(alpha=0.05))
    >>> engine.initial_params()["alpha"][:2].tolist()
    [0.05, 0.05]

    References
    ----------
    Blei, Ng & Jordan (2003). Latent Dirichlet allocation. JMLR 3, 993-1022.

    Zeng, Liu & Cao (2012). Memory-efficient topic modeling. arXiv:1206.1147. Eq. 8-10.
    """

    name = "vb"
    cites = (
        "Zeng, Liu & Cao 2012, eq. 8-10; Hughes & Sudderth 2016, Alg. 2 DenseStepForDoc; Blei, "
        "Ng & Jordan 2003"
    )
    # Zeng, Liu & Cao 2012: alpha = 2 / K, beta = 0.01
    about = replace(
        Variational.about, priors=Priors(2.0, 0.01, together=True), best_from=LONG_ENOUGH
    )
    tracks_bound: ClassVar[bool] = True

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"phi": TableSpec(mass="row", rule=Rule.REPLACE)}

    def start(self, visit: Visit, out: Out) -> None:
        self.dense_visit(visit, out, out.delta["phi"], starting=True)

    def process(self, visit: Visit, out: Out) -> None:
        self.dense_visit(visit, out, out.delta["phi"])
