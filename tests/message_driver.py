"""A pass loop of a few lines for tests of the message-passing engines: one round a block, tables in
float64.
"""

import numpy as np

from tests.visits import out_for, pass_end, unwritten
from topicstream.corpus.block import Block
from topicstream.engines.base import Key, Rows, Rule, Scratch, Shape, Visit, new_stats, padded


def dense_block(x, index=0, first_doc=0):
    """x: [D, W] -> Block over the words that occur."""
    indptr = np.concatenate(([0], np.cumsum((x > 0).sum(1)))).astype(np.int64)
    _, words = np.nonzero(x)
    vocab, local = np.unique(words, return_inverse=True)
    counts = x[x > 0]
    counts = counts.astype(np.int32 if np.issubdtype(x.dtype, np.integer) else np.float32)
    return Block(
        index,
        first_doc,
        indptr,
        local.astype(np.int32),
        counts,
        vocab.astype(np.int32),
        float(x.sum()),
    )


def shape_of(blocks, words, topics):
    cells = sum(b.n_cells for b in blocks)
    tokens = sum(b.tokens for b in blocks)
    return Shape(sum(b.n_docs for b in blocks), words, cells, tokens, topics)


class Driver:
    """Applies one engine to a list of blocks; phi: float64[W, Kp]."""

    def __init__(self, engine, blocks, memories=None):
        self.engine = engine
        self.blocks = blocks
        self.kp = padded(engine.shape.topics)
        self.phi = np.zeros((engine.shape.words, self.kp))
        self.params = engine.initial_params()
        self.memory = memories or [None] * len(blocks)
        self.pass_number = 0
        self.scratch = Scratch()

    def _out(self, block):
        delta = unwritten(block, self.kp) if self.engine.tables["phi"].delta == "dense" else {}
        return out_for(self.engine, block, delta, self.scratch)

    def _apply(self, target, block, delta):
        if isinstance(delta, np.ndarray):
            target[block.vocab] += delta
            return
        for u in range(block.n_words):
            cut = slice(delta.ptr[u], delta.ptr[u + 1])
            np.add.at(target[block.vocab[u]], delta.topic[cut].astype(np.int64), delta.value[cut])

    def start(self, seed_table=None, seed=0):
        target = np.zeros_like(self.phi)
        for b, block in enumerate(self.blocks):
            rows = {}
            totals = {}
            if seed_table is not None:
                base = np.zeros((len(seed_table), self.kp), np.float32)
                base[:, : seed_table.shape[1]] = seed_table
                rows = {"phi": Rows(base, block.vocab.astype(np.int64))}
                totals = {"phi": base.sum(0, dtype=np.float64)}
            out = self._out(block)
            self.engine.start(Visit(block, rows, totals, {}, self.params, Key(seed, 0)), out)
            self._apply(target, block, out.delta["phi"])
            self.memory[b] = {k: v.copy() for k, v in out.state.items()}
        self.phi = target
        return self

    def rows(self, block):
        """Rows and totals as a visit of the block sees them."""
        return {"phi": Rows(self.phi.astype(np.float32), block.vocab.astype(np.int64))}, {
            "phi": self.phi.sum(0)
        }

    def sweep(self, passes=1, seed=0):
        """Passes over all blocks; returns running perplexity of the last."""
        for _ in range(passes):
            self.pass_number += 1
            fresh = np.zeros_like(self.phi)
            total = new_stats(self.engine)
            for b, block in enumerate(self.blocks):
                (rows, totals) = self.rows(block)
                out = self._out(block)
                before = {k: v.copy() for k, v in self.memory[b].items()}
                key = Key(seed, self.pass_number)
                self.engine.process(
                    Visit(block, rows, totals, self.memory[b], self.params, key), out
                )
                for k, v in before.items():
                    np.testing.assert_array_equal(
                        v, self.memory[b][k]
                    )  # memory of the last visit is read-only
                self._apply(
                    fresh if self.engine.tables["phi"].rule is Rule.REPLACE else self.phi,
                    block,
                    out.delta["phi"],
                )
                self.memory[b] = {k: v.copy() for k, v in out.state.items()}
                for k, v in out.stats.items():
                    total[k] += v
            if self.engine.tables["phi"].rule is Rule.REPLACE:
                self.phi = fresh
            self.engine.end_pass(pass_end(self.params, total, {"phi": self.phi.sum(0)}))
        return float(np.exp(-total["loglik"][0] / total["tokens"][0]))


def planted(docs, words, topics, length, seed, concentration=0.1):
    """Counts [docs, words] from an LDA model with separated topics; returns (x, topic-word
    probabilities).
    """
    rng = np.random.default_rng(seed)
    share = words // topics
    phi = np.full((topics, words), 0.05 / words)
    for k in range(topics):
        phi[k, k * share : (k + 1) * share] += 0.95 * rng.dirichlet(np.full(share, 1.0))
    phi /= phi.sum(1, keepdims=True)
    theta = rng.dirichlet(np.full(topics, concentration), docs)
    return np.array([rng.multinomial(length, t @ phi) for t in theta]), phi
