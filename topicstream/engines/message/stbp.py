"""Synchronous tiny belief propagation (Zeng, Liu & Cao 2012, Fig. 2).

phi, theta and lam of the last pass are only read; their successors are the sums of this pass's x
eta:

    eta_k = (phi[w,k] + beta)(theta[d,k] + alpha_k)/(lam_k + W beta) / sum       (lines 15-16)
    phi' += x eta,  theta' += x eta,  lam' += x eta                              (lines 17-19)

The arithmetic is engines/message/tiny.py's, which has the table symbol -> array.
"""

from __future__ import annotations

from collections.abc import Mapping

from topicstream.engines.base import Out, Rule, TableSpec, Visit
from topicstream.engines.message.tiny import TinyEngine


class STBP(TinyEngine):
    """Synchronous tiny belief propagation (``stbp``).

    The whole contribution of a block is added to phi at the end of the pass. Parameters and
    attributes: see ``TinyEngine``.

    Examples
    --------
    >>> from topicstream.engines.base import Shape
    >>> shape = Shape(docs=10_000, words=5_000, cells=500_000, tokens=600_000.0, topics=100)
    >>> engine = STBP(shape, STBP.Options(theta="fold-in"))
    >>> engine.state  # nothing is stored of a document
    {}

    References
    ----------
    Zeng, Liu & Cao (2012). Memory-efficient topic modeling. arXiv:1206.1147. Fig. 2.
    """

    name = "stbp"
    cites = "Zeng, Liu & Cao, Memory-Efficient Topic Modeling, Fig. 2"

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        """Declare phi.

        A delta is the block's contribution to the next phi.
        """
        return {"phi": TableSpec(mass="row", rule=Rule.REPLACE)}

    def process(self, visit: Visit, out: Out) -> None:
        """Visit a block with the stored theta, or fold theta in first.

        Folding in takes ``fold_sweeps`` inner iterations before the last.
        """
        theta = self.theta_of(visit, out)
        priors = self.priors(visit, out)
        tol = self.options.fold_tol
        out.stats["loglik"][0] = self.assign(
            visit, out, theta, priors, self.sweeps, tol, out.delta["phi"]
        )
        out.stats["tokens"][0] = visit.block.tokens
        self.count_for_priors(visit, theta, out)
