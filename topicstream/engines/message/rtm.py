"""The relational topic model by belief propagation: a document's topics are drawn to those of the documents it is linked with.

A cell's message weighs the factor of its own document against that of the links (Zeng, Cheung & Liu 2013, eq. 28 to 30):

    mu    ~  [(1 - xi) m_theta + xi m_eta] m_phi
    m_eta =  mean over the linked documents d' of eta theta_d' / n_d'
    eta   =  sum over links of theta_d theta_d'^T, each row scaled to the sum 1

Links count in both directions.  The printed eq. (29) adds up unnormalised theta, whose size would be that of the linked
documents; the mean, not renormalised over topics, is what the authors' published code does.

The documents' theta is a table over documents, read along the links: a visit sees what the linked documents had at the end
of the pass before (synchronous in the link factor, whatever the schedule in the words).  eta is a parameter, computed at the
end of a pass from the theta that the pass saw, so it is one pass behind; the first pass has none yet and is that of ``bp``.
(The paper computes eta within each iteration, the first too.)  A learned eta smears topics over the linked documents' ones;
the default is the identity, a link to the same topics, which tells links far better (docs/decisions/links.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import BlockShape, Key, Out, Rule, TableSpec, option, padded
from topicstream.engines.message import linked_messages as kernels
from topicstream.engines.message.dense import DenseMessages, DenseOptions
from topicstream.engines.message.learning import count_rows
from topicstream.engines.message.messages import CELL
from topicstream.engines.message.priors import count_documents
from topicstream.tables.spec import DOCUMENTS

MOST = 0.95  # of the weight goes to the links at most where xi is learned


@dataclass(frozen=True)
class RelationalOptions(DenseOptions):
    """Options of ``rtm``."""

    xi: float = option(
        0.5,
        "weight of the links against a document's own words; the paper's is 0.15; 0: belief propagation",
        min=0.0,
        max=1.0,
    )
    learn_xi: bool = option(False, "choose xi by running perplexity, pass by pass, starting from --xi")
    eta: str = option(
        "identity",
        "how topics lead to linked ones: identity (to the same), rows (the paper's, learned), columns (a topic given the "
        "linked one)",
        choices=("rows", "columns", "identity"),
    )
    renormalise: bool = option(False, "scale the links' message to the sum 1 over topics (default: the mean as it is)")


class RelationalTopicModel(DenseMessages):
    """Tables: phi, and theta over documents.  Params beside the priors: eta [K, K], ends [K] (share of the links' ends by
    topic: ends_k eta_kj is symmetric), xi [1]."""

    name = "rtm"
    cites = "Zeng, Cheung & Liu 2013, Learning topic models by belief propagation, eq. (28) to (30), Fig. 8"
    Options = RelationalOptions
    options: RelationalOptions
    exclude = CELL
    default_alpha = default_beta = 0.1  # as xi and eta by folds (docs/decisions/links.md); the paper's is 0.01
    prior_defaults = ("0.1", "0.1")
    axes = ("links",)
    shown = ("phi", "theta")
    shown_params = ("eta", "ends", "xi")

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {**super().tables, "theta": TableSpec(rows=DOCUMENTS, reads="links", rule=Rule.REPLACE)}

    @property
    def stats(self) -> Mapping[str, int]:
        """pairs: the numerator of eq. (28), row by row; linked: tokens of linked documents, those that links explain."""
        return {**super().stats, "pairs": self.shape.topics**2, "linked": 2}

    def initial_params(self) -> dict[str, np.ndarray]:
        topics = self.shape.topics
        own = {
            "eta": np.zeros((topics, topics)),
            "ends": np.zeros(topics),
            "xi": np.array([self.options.xi], np.float64),
        }
        return super().initial_params() | own

    def scratch_bytes(self, block: BlockShape) -> int:
        topics, wide = self.shape.topics, padded(self.shape.topics)
        statistics = 8 * topics**2 * (self.round_blocks() + 2)  # of a round's blocks and their sum
        return super().scratch_bytes(block) + 4 * block.docs * (topics + 2 * wide + 1) + 4 * topics**2 + statistics

    def start(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        super().start(block, rows, totals, params, key, out)
        thetas = out.scratch.array("theta", (block.n_docs, self.shape.topics), np.float32)
        kernels.own_theta(block.indptr, block.counts, self._cells(out.memory["messages"]), thetas)
        self._write(thetas, out)

    def process(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        memory: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        topics, take = self.shape.topics, out.scratch.array
        link = take("link", (block.n_docs, padded(topics)), np.float32)
        sums = take("sums", (block.n_docs, padded(topics)), np.float32)
        weight = take("weight", block.n_docs, np.float32)
        links, theta = block.rows("links"), rows["theta"]
        kernels.link_messages(
            links.indptr,
            links.local,
            theta.base,
            theta.index,
            self._eta(params),
            self.options.renormalise,
            link,
            sums,
            weight,
        )
        before = take("before", (block.n_docs, topics), np.float32)
        thetas = take("theta", (block.n_docs, topics), np.float32)
        beta = float(params["beta"][0])
        out.stats["loglik"][0] = kernels.linked_visit(
            block.indptr,
            block.words,
            block.counts,
            rows["phi"].base,
            rows["phi"].index,
            totals["phi"],
            self._cells(memory["messages"]),
            self._cells(out.memory["messages"]),
            out.delta["phi"],
            params["alpha"].astype(np.float32),
            np.float32(beta),
            np.float32(self.shape.words * beta),
            float(params["xi"][0]),
            link,
            weight,
            self._asynchronous,
            self.options.learn_xi,
            before,
            thetas,
            out.stats["linked"],
        )
        out.stats["tokens"][0] = block.tokens
        kernels.link_products(before, sums, out.stats["pairs"].reshape(topics, topics))
        self._write(thetas, out)
        if self.options.learn_priors:
            count_documents(thetas, topics, out.stats["topic_bins"], out.stats["length_bins"])
            count_rows(block, rows["phi"], topics, out)

    def end_pass(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], totals: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """eta from the pass's links; xi, where it is learned, to the share of the linked documents' tokens that links explain:
        a step of EM for the mixture's weight, so running perplexity falls by it."""
        found = super().end_pass(params, stats, totals)
        found["linked"] = float(stats["linked"][0] / max(stats["tokens"][0], 1e-300))
        if self.options.learn_xi and stats["linked"][1] > 0:
            params["xi"][0] = min(float(stats["linked"][1] / stats["linked"][0]), MOST)
            found["xi"] = float(params["xi"][0])
        pairs = stats["pairs"].reshape(self.shape.topics, -1)
        pairs = (pairs + pairs.T) / 2
        ends = pairs.sum(1)
        params["eta"][:] = np.divide(pairs, ends[:, None], out=np.zeros_like(pairs), where=ends[:, None] > 0)
        params["ends"][:] = ends / max(float(ends.sum()), 1e-300)
        return found

    def warnings(self, record: Mapping[str, Any]) -> list[str]:
        if record["pass"] == 2 and not record["linked"]:
            return ["no training document has a link to another: rtm is bp here"]
        return super().warnings(record)

    def _eta(self, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """float32[K, K]: a linked document's shares -> the links' message."""
        eta = params["eta"]
        if self.options.eta == "identity":
            return np.eye(len(eta), dtype=np.float32) * np.float32(eta.any())
        return np.ascontiguousarray(eta if self.options.eta == "rows" else eta.T, np.float32)

    def _write(self, thetas: np.ndarray, out: Out) -> None:
        delta = out.delta["theta"]
        np.maximum(thetas, 0.0, out=delta[:, : self.shape.topics])
        delta[:, self.shape.topics :] = 0.0
