"""Gibbs sampling of new documents together with the training documents (Yao, Mimno and McCallum 2009, Gibbs1).

All tokens are sampled, old and new; the old ones go on from the topics that the run left them with, so topics keep their
numbers.  Each new token is first drawn given what has a topic by then.  What the faster methods are measured by: it holds
corpus and topics in memory, on one thread, and its answers depend on the documents and their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.errors import UsageError
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows
from topicstream.inference.methods.gibbs import BURN, SWEEPS, bytes_of, together, undrawn
from topicstream.training.state.token_topics import token_topics


class Gibbs1(Method):
    """Training documents and new ones, sampled together.  ``trained_on``: the corpus that the model was trained on."""

    name: ClassVar[str] = "gibbs1"
    cites: ClassVar[str] = "Yao, Mimno and McCallum 2009, Gibbs1"
    needs_all: bool = True

    def __init__(
        self,
        rows: TopicRows,
        *,
        sweeps: int = SWEEPS,
        burn: int = BURN,
        seed: int = 0,
        trained_on: str | Path | Corpus = "corpus.zarr",
    ) -> None:
        if not (sweeps >= 1 and burn >= 0 and seed >= 0):
            raise UsageError(f"--sweeps {sweeps} --burn {burn} --seed {seed}: give at least 1, 0 and 0")
        self.rows, self.sweeps, self.burn, self.seed = rows, int(sweeps), int(burn), int(seed)
        self.corpus = trained_on if isinstance(trained_on, Corpus) else Corpus.open(trained_on)
        self._blocks = token_topics(rows.model.path, self.corpus, rows.topics, "--method gibbs1")
        self._found: dict[int, np.ndarray] = {}

    def load(self) -> None:
        """Nothing: the topics' counts come from the tokens."""

    def gather(self, blocks: Iterable[Documents]) -> Iterable[Documents]:
        """All documents are sampled before the first answer."""
        words, topics, old_part = self.rows.model.n_words, self.rows.topics, self.corpus.part()
        trained = 64 * old_part["cells"] + 12 * int(old_part["tokens"]) + 4 * topics * old_part["docs"]
        held = self.held(blocks, lambda block: bytes_of(block, topics), 12 * words * topics + trained)
        if not held:
            return held
        extra, still, sums = np.zeros((words, topics)), np.zeros((words, topics), np.float32), np.zeros(topics)
        if (seeds := self.rows.model.seeds) is not None:  # counts that no draw moves
            seeds.add(still, seeds.ids.astype(np.int64), np.arange(len(seeds)))
            sums += seeds.totals[:topics]
        lengths, at, counts, state = [], [], [], []
        old = 0
        for block, z in self._blocks:
            ids = block.vocab.astype(np.int64)[block.words]
            np.add.at(extra, (np.repeat(ids, block.counts), z), 1.0)
            lengths.append(np.diff(block.indptr))
            at.append(ids)
            counts.append(block.counts.astype(np.float32))
            state.append(z.astype(np.int32))
            old += block.n_docs
        for new in held:
            lengths.append(np.diff(new.indptr))
            at.append(new.words)
            counts.append(new.counts)
            state.append(undrawn(new.counts))
        indptr = np.concatenate([[0], *lengths]).cumsum().astype(np.int64)
        shares = np.empty((len(indptr) - 1, topics), np.float32)
        together(
            indptr,
            np.concatenate(at).astype(np.int64),
            np.concatenate(counts),
            np.concatenate(state),
            still,
            extra,
            extra.sum(axis=0) + sums,
            self.rows.beta,
            words * self.rows.beta,
            self.rows.alpha64,
            self.seed,
            np.uint64(1),
            self.burn,
            self.sweeps,
            shares,
        )
        first = old
        for new in held:
            self._found[id(new)] = shares[first : first + len(new)]
            first += len(new)
        return held

    def shares(self, docs: Documents) -> np.ndarray:
        return self._found[id(docs)]
