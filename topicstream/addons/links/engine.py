"""The relational topic model by belief propagation.

A document's topics are drawn to those of the documents it is linked with. A cell's message weighs
the factor of its own document against that of the links (Zeng, Cheung & Liu 2013, eq. 28 to 30):

    mu    ~  [(1 - xi) m_theta + xi m_eta] m_phi
    m_eta =  mean over the linked documents d' of eta theta_d' / n_d'
    eta   =  sum over links of theta_d theta_d'^T, each row scaled to the sum 1

Links count in both directions. The printed eq. (29) adds up unnormalised theta, whose size would be
that of the linked documents. The authors' published code takes the mean, not renormalised over
topics, and so do we.

The documents' theta is a table over documents, read along the links: a visit sees the linked
documents as they were at the end of the pass before (synchronous in the link factor, whatever the
schedule in the words). eta is a parameter, computed at the end of a pass from the theta that the
pass saw, so it is one pass behind. The first pass has none yet and is that of ``bp``. (The paper
computes eta within each iteration, the first too.) A learned eta smears topics over the linked
documents' ones. The default is the identity, a link to the same topics, which tells links far
better (docs/internals/decisions/links.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from topicstream.engines.base import (
    BlockShape,
    Buffer,
    Out,
    PassEnd,
    Priors,
    Rule,
    TableSpec,
    Visit,
    option,
    padded,
)
from topicstream.engines.message.bp import DenseMessages, DenseOptions
from topicstream.engines.message.messages import CELL, Links, gather_theta
from topicstream.numeric.kernels.arrays import Array, Doubles, Floats, Ints, Longs, address_of
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.sums import dot_rows, sum_row
from topicstream.numeric.tables.spec import DOCUMENTS

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)


class LinkedTheta(NamedTuple):
    """The links of documents, and theta of the pass before.

    Attributes
    ----------
    ptr, local
        The links of document d are local[ptr[d]] .. local[ptr[d + 1] - 1].
    theta, row
        A link's row is theta[row[local]].
    """

    ptr: Longs
    local: Ints
    theta: Floats
    row: Longs


@kernel
def link_messages(
    links: LinkedTheta,
    eta: Floats,
    renormalise: bool,
    link: Floats,
    sums: Floats,
    weight: Floats,
) -> None:
    """Compute the link message of every document of a block, eq. (29).

    It is the mean of eta theta_d' / n_d' over the linked documents that have words.

    Parameters
    ----------
    eta
        float32[K, K].
    renormalise
        Scale a document's message to the sum 1.
    link, sums
        float32[D, Kp], results: the messages, and the linked documents' theta added up, not
        normalised, as eq. (28) needs it.
    weight
        float32[D], result: the sum of a document's link message, 0 if it has none.
    """
    (ptr, local, theta, row) = links
    k_all = eta.shape[0]
    mean = np.empty(k_all, np.float32)
    mean_ = address_of(mean)
    eta_ = address_of(eta)
    for d in range(len(ptr) - 1):
        mean[:] = _ZERO
        link[d] = _ZERO
        sums[d] = _ZERO
        weight[d] = _ZERO
        degree = 0
        # mean_k = sum over the linked documents of theta_d'k / n_d', and sums_k that of theta_d'k
        for e in range(ptr[d], ptr[d + 1]):
            other = theta[row[local[e]]]
            n = sum_row(address_of(other), k_all)
            if n > _ZERO:
                degree += 1
                scale = _ONE / n
                for k in range(k_all):
                    mean[k] += scale * other[k]
                    sums[d, k] += other[k]
        if degree == 0:
            continue
        # eq. (29): m_eta = eta mean / degree
        each = _ONE / np.float32(degree)
        for k in range(k_all):
            link[d, k] = each * dot_rows(eta_ + 4 * k_all * k, mean_, k_all)
        # its sum, by which a visit weighs it, or (renormalise) scale it to 1
        total = sum_row(address_of(link) + 4 * link.shape[1] * d, k_all)
        weight[d] = total
        if renormalise and total > _ZERO:
            for k in range(k_all):
                link[d, k] /= total
            weight[d] = _ONE


@kernel
def link_products(before: Floats, sums: Floats, pairs: Doubles) -> None:
    """Add the numerator of eq. (28) to ``pairs``, both directions of each link, in float64.

    pairs[k, j] += before[d, k] sums[d, j].
    """
    k_all = len(pairs)
    for d in range(len(before)):
        for k in range(k_all):
            own = np.float64(before[d, k])
            if own > 0.0:
                for j in range(k_all):
                    pairs[k, j] += own * sums[d, j]


@kernel
def sum_messages(indptr: Longs, counts: Array, messages: Floats, thetas: Floats) -> None:
    """Sum x mu over the cells of each document d to thetas[d], float32[D, K]."""
    for d in range(len(indptr) - 1):
        gather_theta(indptr[d], indptr[d + 1], counts, messages, thetas[d])


@dataclass(frozen=True)
class RelationalOptions(DenseOptions):
    """Options of ``rtm``."""

    xi: float = option(
        0.5,
        "Weight of the links against a document's own words (the paper: 0.15; 0: plain belief "
        "propagation).",
        min=0.0,
        max=1.0,
    )
    eta: str = option(
        "identity",
        "How topics of linked documents relate: identity (the same topics), rows (learned, as "
        "in the paper) "
        "or columns (learned, transposed).",
        choices=("rows", "columns", "identity"),
    )
    renormalise: bool = option(
        False,
        "Normalise the links' message to sum to 1 over topics (default: use the mean unscaled)",
    )


class RelationalTopicModel(DenseMessages):
    """The relational topic model by message passing.

    Attributes
    ----------
    tables
        ``phi``, and ``theta`` over documents.
    params
        Beside the priors: ``eta`` [K, K], ``ends`` [K] (share of the links' ends by topic: ends_k
        eta_kj is symmetric), ``xi`` [1].
    """

    name = "rtm"
    cites = (
        "Zeng, Cheung & Liu 2013, Learning topic models by belief propagation, eq. (28) to "
        "(30), Fig. 8"
    )
    Options = RelationalOptions
    options: RelationalOptions
    exclude = CELL
    about = replace(
        DenseMessages.about,
        # chosen by folds, as xi and eta (docs/internals/decisions/links.md); the paper's is 0.01
        priors=Priors(0.1, 0.1),
        axes=("links",),
        stored_tables=("phi", "theta"),
        stored_params=("eta", "ends", "xi"),
    )

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {
            **super().tables,
            "theta": TableSpec(rows=DOCUMENTS, reads="links", rule=Rule.REPLACE),
        }

    @property
    def stats(self) -> Mapping[str, int]:
        """Declare the statistics of a visit.

        ``pairs`` is the numerator of eq. (28), row by row, ``linked`` the tokens of linked
        documents.
        """
        return {**super().stats, "pairs": self.shape.topics**2, "linked": 1}

    def initial_params(self) -> dict[str, np.ndarray]:
        topics = self.shape.topics
        return super().initial_params() | {
            "eta": np.zeros((topics, topics)),
            "ends": np.zeros(topics),
            "xi": np.array([self.options.xi], np.float64),
        }

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        topics = self.shape.topics
        wide = padded(self.shape.topics)
        docs = block.docs
        return super().workspace(block) | {
            "link": Buffer((docs, wide), "float32"),
            "sums": Buffer((docs, wide), "float32"),
            "weight of links": Buffer(docs, "float32"),
            "before": Buffer((docs, wide), "float32"),
            "eta": Buffer((topics, topics), "float32"),
            # pairs of a round's blocks and their sum
            "statistics": Buffer((self.layout.round_blocks + 2, topics, topics), "float64"),
        }

    def start(self, visit: Visit, out: Out) -> None:
        super().start(visit, out)
        thetas = out.array("theta")
        block = visit.block
        sum_messages(block.indptr, block.counts, out.state["messages"], thetas)
        self._write_delta(thetas, out)

    def process(self, visit: Visit, out: Out) -> None:
        topics = self.shape.topics
        theta = visit.rows["theta"]
        link = out.array("link")
        sums = out.array("sums")
        weight = out.array("weight of links")
        links = visit.block.rows("links")
        link_messages(
            LinkedTheta(links.indptr, links.local, theta.base, theta.index),
            self._prepare_eta(visit.params),
            self.options.renormalise,
            link,
            sums,
            weight,
        )
        before = out.array("before")
        thetas = out.array("theta")
        xi = float(visit.params["xi"][0])
        self._update(visit, out, before, Links(link, weight, xi, thetas, out.stats["linked"]))
        link_products(before, sums, out.stats["pairs"].reshape(topics, topics))
        self._write_delta(thetas, out)
        self.count_for_priors(visit, thetas, out)

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        """Compute eta from the links of the pass, eq. (28)."""
        figures = super().end_pass(end)
        params = end.params
        stats = end.stats
        figures["linked"] = float(stats["linked"][0] / max(stats["tokens"][0], 1e-300))
        pairs = stats["pairs"].reshape(self.shape.topics, -1)
        pairs = (pairs + pairs.T) / 2
        ends = pairs.sum(1)
        params["eta"][:] = np.divide(
            pairs, ends[:, None], out=np.zeros_like(pairs), where=ends[:, None] > 0
        )
        params["ends"][:] = ends / max(float(ends.sum()), 1e-300)
        if end.key.pass_number == 2 and not figures["linked"]:
            end.say("warning: no training document links to another: rtm trains like bp")
        return figures

    def _prepare_eta(self, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return eta as a visit uses it, float32[K, K]: from linked shares to the links' message.

        The identity is zero in the first pass, which has no links yet.
        """
        eta = params["eta"]
        if self.options.eta == "identity":
            return np.eye(len(eta), dtype=np.float32) * np.float32(eta.any())
        return np.ascontiguousarray(eta if self.options.eta == "rows" else eta.T, np.float32)

    def _write_delta(self, thetas: np.ndarray, out: Out) -> None:
        """Write the block's theta, never negative, to the delta."""
        delta = out.delta["theta"]
        np.maximum(thetas, 0.0, out=delta)
