"""Batch variational Bayes: every document's dense local step, then the global step (Blei, Ng &
Jordan 2003; Zeng, Liu & Cao 2012; Hughes & Sudderth 2016).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from topicstream.engines.about import LONG_ENOUGH
from topicstream.engines.base import Out, Priors, Rule, TableSpec, Visit
from topicstream.engines.variational.family import Variational


class VariationalBayes(Variational):
    """``vb``: REPLACE; the tables of a pass are those of the pass before."""

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
