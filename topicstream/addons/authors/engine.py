"""The author-topic model by belief propagation.

A message is over (author, topic) pairs, and a second table is keyed by author. A document's topics
are those of its authors: T (authors x topics) takes the place of the documents' own mixtures, and
the author factor keeps its denominator, which makes authors of few tokens as eligible as prolific
ones. With one author a document, all of them different, it is belief propagation for LDA, message
by message.

- Pairs: a document keeps the ``sparsity`` strongest of its authors x topics pairs, so that a cell
  costs as many numbers, however many authors and topics there are. ``--sparsity 0`` keeps them all
  (the paper's joint message). Every ``reopen`` passes a document looks at all of them again.
- Authors: a document that names none has a private one, which is LDA for that document (``own``),
  or is left out (``skip``).
- Schedules: async and sync, as for the dense engines (engines/message/bp.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from topicstream.addons.authors.messages import (
    AuthorTopics,
    DocumentBlock,
    Messages,
    PairStart,
    Update,
    WordTopics,
    start_pairs,
)
from topicstream.addons.authors.visit import visit_pairs
from topicstream.base.errors import StoreError
from topicstream.base.text import counted
from topicstream.corpus.block import Block
from topicstream.engines.base import (
    About,
    ArraySpec,
    BlockShape,
    Buffer,
    Engine,
    Layout,
    Options,
    Out,
    PassEnd,
    Priors,
    Rows,
    Rule,
    TableSpec,
    Visit,
    option,
)

START_ROUNDS = 3
AXIS = "authors"
TYPICAL = 4
"""Authors of a document by which blocks of joint messages are sized; more make buffers larger."""


@dataclass(frozen=True)
class AuthorOptions(Options):
    """Options of ``atm``."""

    schedule: str = option(
        "async",
        "Update messages one after another (async) or all from the previous pass (sync).",
        choices=("async", "sync"),
    )
    sparsity: int = option(
        32,
        "Active (author, topic) pairs a document; 0: all pairs (the joint message).",
        min=0,
        max=65536,
    )
    no_author: str = option(
        "own",
        "Documents without an author: give each a private author (own), or leave them out of "
        "training (skip).",
        choices=("own", "skip"),
    )
    reopen: int = option(
        4, "Reconsider inactive pairs of a document every N passes.", min=1, advanced=True
    )
    gain: float = option(
        4.0, "Tokens given to an inactive pair when it is reconsidered.", min=0.0, advanced=True
    )


class AuthorTopicModel(Engine):
    """The author-topic model by message passing.

    Attributes
    ----------
    tables
        ``phi`` (words) and ``authors`` (T).
    state
        The documents' pairs, and messages over them, both ragged: document d has min(sparsity, its
        authors x K) pairs, and as many floats a cell.
    """

    name = "atm"
    cites = (
        "Zeng, Cheung & Liu 2013, Learning topic models by belief propagation, eq. (24)-(27), "
        "Fig. 6"
    )
    Options = AuthorOptions
    about = About(
        priors=Priors(0.01, 0.01), learns_priors=False, axes=(AXIS,), stored_tables=("phi", AXIS)
    )
    options: AuthorOptions

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        rule = Rule.ADD if self._asynchronous else Rule.REPLACE
        # documents left out have words too: their counts are not a row's mass then
        mass = "row" if self.options.no_author == "own" else "part"
        return {"phi": TableSpec(mass=mass, rule=rule), AXIS: TableSpec(rows=AXIS, rule=rule)}

    @property
    def _asynchronous(self) -> bool:
        """Tell whether sums move with each cell."""
        return self.options.schedule == "async"

    def _most_pairs(self, block: BlockShape) -> int:
        """Count the pairs that a document of the block can have, at most."""
        longest = max(1, block.axes[AXIS].longest) if AXIS in block.axes else TYPICAL
        return int(self._count_pairs(longest))

    def _count_pairs(self, authors: Any) -> Any:
        """Count the pairs of a document with so many authors (an int or an array)."""
        every = authors * self.shape.topics
        return every if self.options.sparsity == 0 else np.minimum(every, self.options.sparsity)

    @property
    def state(self) -> Mapping[str, ArraySpec]:
        return {
            "pairs": ArraySpec("block", "int32", limit=lambda b: b.docs * self._most_pairs(b)),
            "messages": ArraySpec(
                "block", "float32", limit=lambda b: b.cells * self._most_pairs(b)
            ),
        }

    @property
    def stats(self) -> Mapping[str, int]:
        return {"loglik": 1, "tokens": 1, "unnamed": 1}

    @property
    def layout(self) -> Layout:
        """Layout with blocks whose two copies of messages take about 64 MiB each.

        A thread has both in RAM, and beside them three rows of K floats for each author.
        """
        cells = min(super().layout.block_cells, (1 << 26) // (4 * int(self._count_pairs(TYPICAL))))
        docs = max(min(1 << 14, (1 << 22) // self.shape.topics), 1 << 8)
        return Layout(max(cells, 1 << 12), docs, super().layout.round_blocks)

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        topics = self.shape.topics
        authors = block.axes[AXIS].rows + 1 if AXIS in block.axes else block.docs * TYPICAL
        return {
            "change": Buffer((authors, topics), "float32"),
            "have": Buffer((authors, topics), "float32"),
            "places and sums": Buffer(authors + 2 * block.docs, "int64"),
            "of a document": Buffer((16, TYPICAL, topics), "float32"),
        }

    def start(self, visit: Visit, out: Out) -> None:
        block = visit.block
        none = Rows(np.zeros((0, 1), np.float32), np.zeros(0, np.int64))
        names, pptr, mptr = self._locate(block)
        pairs, messages = self._trim_state(out, pptr, mptr)
        change = out.array("change", (len(names.ids) + 1, self.shape.topics))
        phi = visit.rows.get("phi", none)
        sums = visit.totals.get("phi", np.zeros(0))
        start_pairs(
            DocumentBlock(*block.cells, names.indptr, names.local, pptr, mptr),
            WordTopics(phi.base, phi.index, sums),
            PairStart(
                visit.params["alpha"].astype(np.float32),
                START_ROUNDS,
                visit.key.seed,
                block.first_doc,
            ),
            Messages(pairs, messages),
            out.delta["phi"],
            change,
        )
        self._write_delta(out, change)
        out.stats["tokens"][0] = block.tokens

    def process(self, visit: Visit, out: Out) -> None:
        block = visit.block
        phi = visit.rows["phi"]
        table = visit.rows[AXIS]
        names, pptr, mptr = self._locate(block)
        before = visit.state["pairs"]
        old = visit.state["messages"]
        self._check(block, names.indptr, pptr, mptr, before, old)
        pairs, messages = self._trim_state(out, pptr, mptr)
        topics = self.shape.topics
        beta = visit.params["beta"][0]
        change = out.array("change", (len(names.ids) + 1, topics))
        have = out.array("have", (len(names.ids) + 1, topics))
        np.take(table.base[:, :topics], table.index, axis=0, out=have[:-1])
        numbers = block.first_doc + np.arange(block.n_docs)
        looks = ((numbers + visit.key.pass_number) % self.options.reopen == 0).astype(np.uint8)
        out.stats["loglik"][0] = visit_pairs(
            DocumentBlock(*block.cells, names.indptr, names.local, pptr, mptr),
            WordTopics(phi.base, phi.index, visit.totals["phi"]),
            AuthorTopics(have, change),
            Messages(before, old),
            Messages(pairs, messages),
            out.delta["phi"],
            Update(
                visit.params["alpha"].astype(np.float32),
                np.float32(beta),
                np.float32(self.shape.words * beta),
                not self._asynchronous,
                np.float32(self.options.gain),
            ),
            looks,
        )
        self._write_delta(out, change)
        without = np.diff(names.indptr) == 0
        out.stats["tokens"][0] = block.tokens
        if self.options.no_author == "skip":
            cells = np.repeat(without, np.diff(block.indptr))
            out.stats["tokens"][0] -= block.counts[cells].sum(dtype=np.float64)
        out.stats["unnamed"][0] = np.count_nonzero(without & (np.diff(block.indptr) > 0))

    def _locate(self, block: Block) -> tuple[Any, np.ndarray, np.ndarray]:
        """Locate the pairs and the messages of each document.

        Returns
        -------
        tuple
            The block's authors, and the offsets of pairs and messages, int64[D+1] each.
        """
        names = block.rows(AXIS)
        authors = np.diff(names.indptr)
        if self.options.no_author == "own":
            authors = np.maximum(authors, 1)
        pairs = self._count_pairs(authors).astype(np.int64)
        return (
            names,
            np.append(0, np.cumsum(pairs)),
            np.append(0, np.cumsum(pairs * np.diff(block.indptr))),
        )

    @staticmethod
    def _trim_state(out: Out, pptr: np.ndarray, mptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cut the block's state to its length."""
        out.state["pairs"] = out.state["pairs"][: pptr[-1]]
        out.state["messages"] = out.state["messages"][: mptr[-1]]
        return out.state["pairs"], out.state["messages"]

    @staticmethod
    def _write_delta(out: Out, change: np.ndarray) -> None:
        """Write the changes of named authors, without the private one, to the delta."""
        delta = out.delta[AXIS]
        delta[:, : change.shape[1]] = change[:-1]
        delta[:, change.shape[1] :] = 0.0

    def _check(
        self,
        block: Block,
        aptr: np.ndarray,
        pptr: np.ndarray,
        mptr: np.ndarray,
        pairs: np.ndarray,
        messages: np.ndarray,
    ) -> None:
        """Check the block state, by which kernels index without bounds.

        Raises
        ------
        StoreError
            If block state is corrupt.
        """
        limit = np.repeat(np.maximum(np.diff(aptr), 1) * self.shape.topics, np.diff(pptr))
        sound = len(pairs) == pptr[-1] and len(messages) == mptr[-1]
        if not (sound and bool((pairs >= 0).all()) and bool((pairs < limit).all())):
            raise StoreError(
                f"the memory of block {block.index} is corrupt; start over with --force"
            )

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        n = int(end.stats["unnamed"][0])
        if end.key.pass_number == 1 and n:
            fate = "given a private one" if self.options.no_author == "own" else "left out"
            end.say(f"warning: {counted(n, 'document')} without an author: {fate} (--no-author)")
        return {"documents_without_author": float(n)}
