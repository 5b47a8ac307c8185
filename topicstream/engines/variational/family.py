"""What the four variational engines share: priors, the local step over a block, the bound in the history.

The evidence lower bound, with the topics' own terms (Hughes & Sudderth 2016, eq. 42-49):

    L = sum_d bound_d + sum_k [log B(beta-hat_k) - log B(beta)] + sum_wk (beta - beta-hat_wk) E[log phi_wk]

``process`` sums bound_d at the tables it saw.  Where the tables are exactly the sums of the documents' statistics
(after a pass of ``vb`` or ``mvi``) the data term and the last sum cancel and

    L = sum_d (bound_d - sum_wk x_w r_wk E[log phi_wk]) + sum_k [log B(beta-hat_k) - log B(beta)]

whose first sum ``process`` reports as ``local_bound``, and whose second one ``rows_bound`` sums over table rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import BlockShape, Engine, Options, Out, Shape, TableSpec, option, padded
from topicstream.engines.variational import bounds, dense, weights
from topicstream.errors import TopicsError

RESTART_INNER = 5  # inner iterations of a restart proposal
START_INNER = 3  # inner iterations of the first assignment to seed topics
# vb and mvi keep to their seeds: of ``best`` held-out perplexity is 2 to 13 % lower with 20 topics, but on titles and subject
# lines, where a sample's topics are poor, up to twice as high (docs/decisions/defaults.md)
LONG_ENOUGH = 20.0
COLD = np.empty((0, 0), np.float32)  # no document goes on from where it was


@dataclass(frozen=True)
class VariationalOptions(Options):
    """Options of every variational engine."""

    phi: str = option(
        "dirichlet",
        "topics as a Dirichlet posterior (papers of Hoffman, Hughes) or a point estimate (Zeng, Liu & Cao 2012; Zeng, Cheung & Liu 2013)",
        choices=("dirichlet", "point"),
    )
    restarts: int = option(0, "restart proposals a document: a small topic emptied, kept if the bound rises", min=0)
    inner_tol: float = option(0.05, "inner iterations stop when no topic of a document moves by more tokens", min=0.0)
    inner_max: int = option(100, "most inner iterations a document", min=1)


class Variational(Engine):
    """Base of ``vb``, ``ovb``, ``mvi`` and ``svi``.  A subclass sets its priors and its rule."""

    Options: ClassVar[Any] = VariationalOptions
    default_alpha_sum: ClassVar[float] = 0.5  # Hughes & Sudderth 2016: 0.5 over all topics
    default_beta: ClassVar[float] = 0.1
    prior_defaults = ("0.5/K", "0.1")
    tracks_bound: ClassVar[bool] = False  # after a pass the table is the sum of the documents' statistics

    def __init__(self, shape: Shape, options: Any) -> None:
        super().__init__(shape, options)
        if options.learn_priors:
            raise TopicsError(
                f"{self.name} does not learn its priors; leave --learn-priors out, or train with atbp, bp or sparselda"
            )

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"phi": TableSpec(mass="row")}

    @property
    def stats(self) -> Mapping[str, int]:
        return dict.fromkeys(
            ("loglik", "tokens", "docs", "bound", "local_bound", "inner", "capped", "tried", "accepted"), 1
        )

    def initial_params(self) -> dict[str, np.ndarray]:
        params = super().initial_params()
        return {**params, "bound": np.full(1, -np.inf)} if self.tracks_bound else params

    def scratch_bytes(self, block: BlockShape) -> int:
        width = padded(self.shape.topics)
        document = block.document + 32  # rows go by eights and sixteens
        return (block.words + document) * (width * 4 + 12) + 8 * block.docs * dense.REPORTS + 128 * width

    def dense_visit(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        out: Out,
        delta: np.ndarray,
        starting: bool = False,
        held: np.ndarray = COLD,
    ) -> None:
        """Word weights, the dense local step and its statistics; ``delta`` [U, P] becomes the block's expected counts.

        ``starting``: rows are seed topics, taken as a point estimate; a few inner iterations without restarts.
        ``held``: float32[D, K], where documents begin and, afterwards, where they ended.
        """
        o: Any = self.options
        src, e, log_scale, alpha = self.weigh(block, rows, totals, params, out, starting)
        longest, width = dense.longest_document(block.indptr), e.shape[1]
        reports = out.scratch.array("reports", (block.n_docs, dense.REPORTS), np.float64)
        reports[:] = 0.0
        delta[:] = 0.0
        dense.dense_step(
            src,
            block.indptr,
            block.words,
            block.counts,
            e,
            log_scale,
            alpha,
            o.inner_tol,
            min(o.inner_max, START_INNER) if starting else o.inner_max,
            0 if starting else o.restarts,
            RESTART_INNER,
            delta,
            reports,
            out.scratch.array("document", (longest + 8) * width, np.float32),
            out.scratch.array("lanes", (3, width), np.float32),
            out.scratch.array("document's counts", longest + 32, np.float32),
            out.scratch.array("normalisers", (2, longest + 16), np.float32),
            held,
        )
        self.report(block, reports, out)
        if self.tracks_bound:
            out.stats["local_bound"][0] = out.stats["bound"][0] - bounds.data_term(src, e, log_scale, delta)

    def weigh(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        out: Out,
        starting: bool,
    ) -> tuple[weights.WeightSource, np.ndarray, np.ndarray, np.ndarray]:
        """Source, e, log_scale and alpha (padded) of a visit."""
        width, k = padded(self.shape.topics), self.shape.topics
        base, index, scale = rows["phi"][:3]
        beta = float(params["beta"][0])
        point = bool(self.options.phi == "point")
        if starting:  # seed topics come in any unit: smooth them by a hundredth of their mean entry
            beta, point = 0.01 * float(totals["phi"].sum()) / (k * self.shape.words), True
        term = out.scratch.array("term", width, np.float64)
        factor = out.scratch.array("factor", width, np.float32)
        alpha = out.scratch.array("alpha", width, np.float64)
        alpha[:] = 0.0
        alpha[:k] = np.maximum(params["alpha"], 1e-8)
        e = out.scratch.array("weights", (block.n_words, width), np.float32)
        log_scale = out.scratch.array("log scale", block.n_words, np.float64)
        least = weights.topic_terms(totals["phi"], self.shape.words * beta, k, point, term, factor)
        src = weights.WeightSource(index, base, float(scale), beta, term, k, point)
        weights.word_weights(src, factor, least, out.scratch.array("work", width, np.float64), e, log_scale)
        return src, e, log_scale, alpha

    def report(self, block: Block, reports: np.ndarray, out: Out) -> None:
        """Sum the documents' reports, in order, into the statistics."""
        sums = bounds.column_sums(reports)
        out.stats["bound"][0] = sums[dense.BOUND]
        out.stats["loglik"][0] = sums[dense.LOGLIK]
        out.stats["inner"][0] = sums[dense.INNER]
        out.stats["capped"][0] = sums[dense.CAPPED]
        out.stats["tried"][0] = sums[dense.TRIED]
        out.stats["accepted"][0] = sums[dense.ACCEPTED]
        out.stats["tokens"][0] = block.tokens
        out.stats["docs"][0] = np.count_nonzero(np.diff(block.indptr))

    def end_pass(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], totals: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        docs, tokens = max(float(stats["docs"][0]), 1.0), max(float(stats["tokens"][0]), 1.0)
        record = {
            "doc_bound_per_token": float(stats["bound"][0]) / tokens,
            "inner_per_document": float(stats["inner"][0]) / docs,
            "capped_share": float(stats["capped"][0]) / docs,
        }
        if stats["tried"][0] > 0:
            record["restarts_accepted_share"] = float(stats["accepted"][0] / stats["tried"][0])
        return record

    def warnings(self, record: Mapping[str, Any]) -> list[str]:
        """Where the bound fell: cold starts and the rounding of inner iterations allow small falls."""
        fall = record.get("bound_fall")
        return [f"the bound fell by {fall:.3g} in pass {record['pass']}"] if fall else []

    def end_pass_rows(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], rows: Iterable[tuple[int, np.ndarray]]
    ) -> dict[str, float]:
        """The evidence lower bound, from the pass's statistics and the table's rows (first row, float32[n, P]) in order.

        Where it fell below that of the pass before, ``bound_fall`` says by how much (nats): cold starts and the rounding
        of inner iterations allow small falls.
        """
        if not self.tracks_bound:
            return {}
        beta, topics, seeds = float(params["beta"][0]), self.shape.topics, self.shape.seeds
        value, totals = float(stats["local_bound"][0]), np.zeros(topics)
        seeded = np.zeros(len(seeds.weight) if seeds is not None else 0)
        for first, piece in rows:
            if seeds is not None:
                seeds.take(first, piece, seeded)
            value += bounds.rows_bound(piece, 1.0, beta, topics)
            totals += piece[:, :topics].sum(axis=0, dtype=np.float64)
        value += bounds.totals_bound(totals, beta * self.shape.words, topics)
        if seeds is not None:
            value += seeds.evidence(seeded, totals, beta, beta * self.shape.words)
        fall = float(params["bound"][0]) - value
        params["bound"][0] = value
        return {"bound": value, "bound_fall": fall} if fall > 0 else {"bound": value}
