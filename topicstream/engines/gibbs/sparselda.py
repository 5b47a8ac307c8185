"""SparseLDA, the Gibbs sampler whose cost a token is the topics of its word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topicstream.base.errors import TopicsError
from topicstream.engines.base import BlockShape, Buffer, Out, PackedRows, Visit
from topicstream.engines.gibbs.buckets import (
    DocumentTopics,
    Draws,
    Priors,
    Results,
    Topics,
    WordRows,
    sweep_tokens,
)
from topicstream.engines.gibbs.chain import Chain
from topicstream.numeric.kernels.packed import READ_PAST, entry_bytes, slack_starts


class SparseLDA(Chain):
    """The Gibbs sampler whose cost a token is the topics of its word (``sparselda``).

    The conditional is split into s (every topic), r (the document's topics) and q (the word's
    topics):

        p(z = t) ~ alpha_t beta / (beta W + n_t) + n_td beta / (beta W + n_t) + coef_t n_wt

    Within a block every draw sees all earlier ones. Blocks of one round do not see each other
    (AD-LDA). At round width 1 the chain is the exact collapsed sampler. Parameters and attributes:
    see ``Chain``.

    Examples
    --------
    >>> from topicstream.engines.base import Shape
    >>> shape = Shape(docs=10_000, words=5_000, cells=500_000, tokens=600_000.0, topics=100)
    >>> engine = SparseLDA(shape, SparseLDA.Options(samples=3, sample_every=10))
    >>> list(engine.samples)  # passes that are averaged, counted back from the last one
    [-20, -10, 0]

    References
    ----------
    Yao, Mimno & McCallum (2009). Efficient methods for topic model inference on streaming document
    collections. KDD 2009. Section 3.4, eq. (5)-(10).

    Newman, Asuncion, Smyth & Welling (2007). Distributed inference for latent Dirichlet allocation.
    NIPS 20.
    """

    name = "sparselda"
    about = replace(Chain.about, covariates=True)
    cites = (
        "Yao, Mimno & McCallum 2009, Efficient methods for topic model inference, section 3.4, "
        "eq. (6)-(10)"
    )

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        """Declare the arena of packed rows, each with room to grow.

        It comes on top of the arrays of every sampler. A row begins at a cache line.
        """
        topics = self.shape.topics
        most = (block.table_entries or int(self.shape.tokens)) + block.tokens
        entries = min(block.words * topics, most) + 16 * block.words + READ_PAST
        return super().workspace(block) | {
            "word tokens": Buffer(block.words, "int32"),
            "row start": Buffer(block.words, "int64"),
            "row length": Buffer(block.words, "int32"),
            "arena": Buffer(entries, f"u{self.entry_bytes(block)}"),
            "coefficients": Buffer((2, topics), "float64"),
            "document topics": Buffer((3, topics), "int64"),
        }

    def sweep(self, visit: Visit, out: Out, n_t: np.ndarray, figures: np.ndarray) -> None:
        block = visit.block
        params = visit.params
        key = visit.key
        stats = out.stats
        phi: PackedRows = visit.rows["phi"]
        k = self.shape.topics
        tokens = out.array("word tokens")
        start = out.array("row start")
        length = out.array("row length")
        length[:] = phi.length
        entries = slack_starts(block.words, block.counts, length, k, tokens, start)
        size = entry_bytes(phi.largest + int(tokens.max(initial=0)), k)
        arena = out.array("arena", entries + READ_PAST, f"u{size}")
        phi.copy(0, block.n_words, start, arena)
        coefficients = out.array("coefficients")
        document = out.array("document topics")
        alphas, row_of = self.priors(visit, out)
        beta = float(params["beta"][0])
        stray = sweep_tokens(
            block.cells,
            out.state["z"],
            WordRows(start, length, arena, phi.bits),
            Topics(n_t, coefficients[0], coefficients[1]),
            DocumentTopics(document[0], document[1], document[2]),
            Priors(alphas, row_of, beta, beta * self.shape.words),
            Draws(key.seed, key.pass_number, block.first_doc),
            Results(stats["topic_bins"], stats["lengths"], figures),
        )
        if stray >= 0:
            raise TopicsError(
                f"{self.name}: block {block.index}, token {stray}: its topic is not in the table, "
                "so the stored topics and the table do not belong together; start over with --force"
            )
