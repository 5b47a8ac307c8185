"""Gibbs sampling of new documents together with the training documents (Yao, Mimno and McCallum
2009, Gibbs1).

All tokens are sampled, old and new; the old ones go on from the topics that the run left them with,
so topics keep their
numbers.  Each new token is first drawn given what has a topic by then.  What the faster methods are
          measured by: it holds
corpus and topics in memory, on one thread, and its answers depend on the documents and their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows, Variant
from topicstream.inference.methods.gibbs import (
    SamplingOptions,
    by_block,
    bytes_sampled,
    require_prior,
    together,
    undrawn,
)
from topicstream.inference.token_topics import token_topics
from topicstream.options import option


@dataclass(frozen=True)
class Gibbs1Options(SamplingOptions):
    """Options of sampling with the training documents."""

    trained_on: str | Path | Corpus = option(
        "corpus.zarr",
        "Corpus that the model was trained on with gs or sparselda.",
        path=True,
        metavar="CORPUS",
        show=True,
    )


class Gibbs1(Method):
    """Gibbs sampling together with the training documents, whose run should have converged."""

    name: ClassVar[str] = "gibbs1"
    cites: ClassVar[str] = "Yao, Mimno and McCallum 2009, Gibbs1"
    Options: ClassVar[type] = Gibbs1Options
    variants: ClassVar[Mapping[str, Variant]] = {
        "gibbs1": Variant("sampled with the training documents")
    }
    needs_all: bool = True
    options: Gibbs1Options

    def __init__(self, rows: TopicRows, **options: Any) -> None:
        super().__init__(rows, **options)
        require_prior(rows, "--method gibbs1")
        trained_on = self.options.trained_on
        self.corpus = trained_on if isinstance(trained_on, Corpus) else Corpus.open(trained_on)
        self._blocks = token_topics(rows.model.path, self.corpus, rows.topics, "--method gibbs1")
        self._answers: dict[int, np.ndarray] = {}

    def load(self) -> None:
        """Nothing: the topics' counts come from the tokens."""

    def gather(self, blocks: Iterable[Documents]) -> Iterable[Documents]:
        """All documents are sampled before the first answer."""
        words, topics, old_part = self.rows.model.n_words, self.rows.topics, self.corpus.part()
        trained = 64 * old_part.cells + 12 * int(old_part.tokens) + 4 * topics * old_part.docs
        blocks_held = self.hold(
            blocks, lambda block: bytes_sampled(block, topics), 12 * words * topics + trained
        )
        if not blocks_held:
            return blocks_held
        extra, still, sums = (
            np.zeros((words, topics)),
            np.zeros((words, topics), np.float32),
            np.zeros(topics),
        )
        if (seeds := self.rows.model.seeds) is not None:  # counts that no draw moves
            seeds.add(still, seeds.ids.astype(np.int64), np.arange(len(seeds)))
            sums += seeds.totals[:topics]
        old = [
            (
                np.diff(block.indptr),
                block.vocab.astype(np.int64)[block.words],
                block.counts.astype(np.float32),
                z.astype(np.int32),
            )
            for block, z in self._blocks
        ]
        for _, ids, x, z in old:
            np.add.at(extra, (np.repeat(ids, x.astype(np.int64)), z), 1.0)
        new = [
            (np.diff(docs.indptr), docs.words, docs.counts, undrawn(docs.counts))
            for docs in blocks_held
        ]
        lengths, ids, x, z = (np.concatenate(part) for part in zip(*old, *new, strict=True))
        indptr, totals = (
            np.concatenate([[0], lengths]).cumsum().astype(np.int64),
            extra.sum(axis=0) + sums,
        )
        shares, options = np.empty((len(lengths), topics), np.float32), self.options
        together(
            indptr,
            ids,
            x,
            z,
            still,
            extra,
            totals,
            self.rows.beta,
            words * self.rows.beta,
            self.rows.alpha64,
            options.seed,
            np.uint64(1),
            options.burn,
            options.sweeps,
            shares,
        )
        self._answers = by_block(blocks_held, shares[-sum(map(len, blocks_held)) :])
        return blocks_held

    def shares(self, docs: Documents) -> np.ndarray:
        return self._answers[id(docs)]
