"""The common part of the variational engines: priors, local step and bound.

The evidence lower bound, with the topics' own terms (Hughes & Sudderth 2016, eq. 42-49):

    L = sum_d bound_d + sum_k [log B(beta-hat_k) - log B(beta)] + sum_wk (beta - beta-hat_wk) E[log
    phi_wk]

``process`` sums bound_d at the tables it saw. Where the tables are exactly the sums of the
documents' statistics (after a pass of ``vb`` or ``mvi``) the data term and the last sum cancel and

    L = sum_d (bound_d - sum_wk x_w r_wk E[log phi_wk]) + sum_k [log B(beta-hat_k) - log B(beta)]

whose first sum ``process`` reports as ``local_bound``, and whose second one ``rows_bound`` sums
over table rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import (
    About,
    BlockShape,
    Buffer,
    Engine,
    Options,
    Out,
    PassEnd,
    Priors,
    Visit,
    option,
    padded,
)
from topicstream.engines.variational import bounds, dense
from topicstream.engines.variational import statistics as weights

START_INNER = 3  # inner iterations of the first assignment to seed topics


@dataclass(frozen=True)
class VariationalOptions(Options):
    """Options of every variational engine."""

    phi: str = option(
        "dirichlet",
        "Topics as a Dirichlet posterior (as Hoffman and Hughes) or a point estimate (as Zeng, "
        "Liu & Cao 2012; Zeng, Cheung & Liu 2013).",
        choices=("dirichlet", "point"),
    )
    restarts: int = option(
        0,
        "Restart proposals per document: empty a small topic, and accept if the bound rises.",
        min=0,
    )
    inner_tol: float = option(
        0.05,
        "Stop inner iterations when no topic of a document changes by more than this many tokens.",
        min=0.0,
    )
    inner_max: int = option(
        100, "Maximum number of inner iterations for a document, two at least.", min=1
    )


class Variational(Engine):
    """Base class of ``vb``, ``ovb``, ``mvi`` and ``svi``.

    Topics have Dirichlet posteriors beta-hat_kw = phi_wk + beta (or are point estimates, ``phi``).
    The local step iterates, for each document,

        r_wk ~ exp(E[log phi_wk] + psi(N_dk + alpha_k)),    N_dk = sum_w x_w r_wk

    A subclass sets its priors and the rule by which expected counts x_w r_wk update phi.

    Parameters
    ----------
    shape, options
        See ``Engine``. The options are ``VariationalOptions``.

    Attributes
    ----------
    tables
        ``phi`` float32[W, K], expected counts without the prior.
    tracks_bound
        True if the table is the sum of the documents' statistics after a pass, so that the history
        has the evidence lower bound.

    References
    ----------
    Hughes & Sudderth (2016). Fast learning of clusters and topics via sparse posteriors.
    arXiv:1609.07521.
    """

    Options: ClassVar[Any] = VariationalOptions
    about = About(
        priors=Priors(0.5, 0.1, together=True),  # Hughes & Sudderth 2016
        starts=("documents", "kmeans", "best", "anchors", "warm", "random"),
        poor_on_short=True,
        random_seeds=True,
        learns_priors=False,
    )
    tracks_bound: ClassVar[bool] = False

    @property
    def stats(self) -> Mapping[str, int]:
        return dict.fromkeys(
            (
                "loglik",
                "tokens",
                "docs",
                "bound",
                "local_bound",
                "inner",
                "capped",
                "tried",
                "accepted",
            ),
            1,
        )

    def initial_params(self) -> dict[str, np.ndarray]:
        params = super().initial_params()
        return {**params, "bound": np.full(1, -np.inf)} if self.tracks_bound else params

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        width = padded(self.shape.topics)
        longest = block.document
        return {
            "term": Buffer(width, "float64"),
            "factor": Buffer(width, "float32"),
            "alpha": Buffer(width, "float64"),
            "work": Buffer(width, "float64"),
            "weights": Buffer((block.words, width), "float32"),
            "log scale": Buffer(block.words, "float64"),
            # a document's rows (they go by eights), counts and normalisers, and lanes of the
            # weights
            "document": Buffer((longest + 8, width), "float32"),
            "document's counts": Buffer(longest + 32, "float32"),
            "normalisers": Buffer((2, longest + 16), "float32"),
            "lanes": Buffer((3, width), "float32"),
            "of topics": Buffer((8, width), "float64"),
        }

    def dense_visit(
        self, visit: Visit, out: Out, delta: np.ndarray, starting: bool = False
    ) -> None:
        """Run the dense local step on a block and report its statistics.

        Parameters
        ----------
        delta
            float32[U, P], receives the block's expected counts.
        starting
            Whether rows are seed topics. They are taken as a point estimate, for a few inner
            iterations without restarts.
        """
        words = self.weigh_words(visit, out, starting)
        reports = np.zeros(len(dense.REPORTS))
        delta[:] = 0.0
        buffers = (
            out.array("document").reshape(-1),
            out.array("lanes"),
            out.array("document's counts"),
            out.array("normalisers"),
        )
        dense.dense_step(words, self.effort(starting), delta, reports, *buffers)
        self.add_reports(visit.block, reports, out)
        if self.tracks_bound:
            data_term = bounds.data_term(words.src, words.e, words.log_scale, delta)
            out.stats["local_bound"][0] = out.stats["bound"][0] - data_term

    def effort(self, starting: bool) -> dense.Effort:
        """Return the limits of a document's visit, lower at the start."""
        options: Any = self.options
        if starting:
            return dense.Effort(options.inner_tol, min(options.inner_max, START_INNER), 0)
        return dense.Effort(options.inner_tol, options.inner_max, options.restarts)

    def weigh_words(self, visit: Visit, out: Out, starting: bool) -> dense.Words:
        """Compute the weights of the block's words."""
        k = self.shape.topics
        totals = visit.totals["phi"]
        base, index, scale = visit.rows["phi"][:3]
        beta = float(visit.params["beta"][0])
        point = bool(self.options.phi == "point")
        if starting:  # seed topics come in any unit: smooth them by a hundredth of their mean entry
            beta = 0.01 * float(totals.sum()) / (k * self.shape.words)
            point = True
        term = out.array("term")
        factor = out.array("factor")
        alpha = out.array("alpha")
        alpha[:] = 0.0
        alpha[:k] = np.maximum(visit.params["alpha"], 1e-8)
        e = out.array("weights")
        log_scale = out.array("log scale")
        least = weights.topic_terms(totals, self.shape.words * beta, k, point, term, factor)
        src = weights.WeightSource(index, base, float(scale), beta, term, k, point)
        weights.word_weights(src, factor, least, out.array("work"), e, log_scale)
        return dense.Words(src, visit.block.cells, e, log_scale, alpha)

    def add_reports(self, block: Block, reports: np.ndarray, out: Out) -> None:
        """Add the documents' reports, float64[6], to the statistics."""
        for name, total in zip(dense.REPORTS, reports):
            out.stats[name][0] = total
        out.stats["tokens"][0] = block.tokens
        out.stats["docs"][0] = np.count_nonzero(np.diff(block.indptr))

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        """Report inner iterations, and the bound if it is tracked."""
        stats = end.stats
        docs = max(float(stats["docs"][0]), 1.0)
        tokens = max(float(stats["tokens"][0]), 1.0)
        record: dict[str, float] = {
            "doc_bound_per_token": float(stats["bound"][0]) / tokens,
            "inner_per_document": float(stats["inner"][0]) / docs,
            "capped_share": float(stats["capped"][0]) / docs,
        }
        if stats["tried"][0] > 0:
            record["restarts_accepted_share"] = float(stats["accepted"][0] / stats["tried"][0])
        return record | self.compute_bound(end) if self.tracks_bound else record

    def compute_bound(self, end: PassEnd) -> dict[str, float]:
        """Compute the evidence lower bound from statistics and table rows.

        Cold starts and the rounding of inner iterations allow small falls from pass to pass.

        Returns
        -------
        ``bound``, and ``bound_fall`` where it fell, both in nats.
        """
        beta = float(end.params["beta"][0])
        topics = self.shape.topics
        seeds = self.shape.seeds
        value = float(end.stats["local_bound"][0])
        totals = np.zeros(topics)
        seeded = np.zeros(len(seeds.weight) if seeds is not None else 0)
        for first, piece in end.tables["phi"].pieces():
            if seeds is not None:
                seeds.take(first, piece, seeded)
            value += bounds.rows_bound(piece, beta, topics)
            totals += piece[:, :topics].sum(axis=0, dtype=np.float64)
        value += bounds.totals_bound(totals, beta * self.shape.words)
        if seeds is not None:
            value += seeds.evidence(seeded, totals, beta, beta * self.shape.words)
        fall = float(end.params["bound"][0]) - value
        end.params["bound"][0] = value
        if fall > 0:
            end.say(f"warning: the bound fell by {fall:.3g} in pass {end.key.pass_number}")
            return {"bound": value, "bound_fall": fall}
        return {"bound": value}
