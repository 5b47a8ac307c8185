"""Small engines for the contract tests: what no engine over words and topics shows.

``linked``   an ADD table over words beside a REPLACE table over documents, gathered along the
             links; ragged block state.
``phased``   one pass that adds up words x 7 columns, a rewriting end of the phase, steps on whole
             tables, then passes; block state that the steps leave as it is.
``steps-first``  the same, which steps before any block was visited.

All numbers are small and whole (or halves), so the dense twins below are exact.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topicstream.engines.base import (
    About,
    ArraySpec,
    Buffer,
    Engine,
    Objective,
    Options,
    Phase,
    Rule,
    SparseDelta,
    TableSpec,
)
from topicstream.numeric.tables.spec import DOCUMENTS

COLUMNS = 7


def topic_of(word, pass_number, topics):
    return (word * 3 + pass_number) % topics


class Linked(Engine):
    """phi: every token of word w is in topic (3 w + pass) mod K.  theta of a document: its words'
    counts by w mod K, and half of what its linked documents had in the pass before. State: a run
    of 1 + w mod 3 copies of each cell's topic.
    """

    name = "linked"
    cites = "for the contract tests"
    Options = Options
    about = About(
        axes=("links",), starts=("random",), stored_tables=("phi", "theta"), stored_params=("last",)
    )

    @property
    def tables(self):
        return {
            "phi": TableSpec(mass="row", delta="sparse"),
            "theta": TableSpec(rows=DOCUMENTS, reads="links", rule=Rule.REPLACE),
        }

    @property
    def state(self):
        return {
            "run": ArraySpec("block", "int32", limit=lambda b: 3 * b.cells + 1),
            "length": ArraySpec("cell", "uint8"),
        }

    @property
    def stats(self):
        return {"loglik": 1, "tokens": 1, "linked": 1}

    def initial_params(self):
        return {**super().initial_params(), "last": np.zeros(1)}

    def end_pass(self, end):
        end.params["last"] += 1
        return {}

    def workspace(self, block):
        return {
            "ptr": Buffer(block.words + 1, "int64", keep=True),
            "topic": Buffer(2 * block.cells, "int32", keep=True),
            "value": Buffer(2 * block.cells, "float32", keep=True),
        }

    def _own(self, block):
        own = np.zeros((block.n_docs, self.shape.topics))
        doc = np.repeat(np.arange(block.n_docs), np.diff(block.indptr))
        np.add.at(own, (doc, block.vocab[block.words] % self.shape.topics), block.counts)
        return own

    def _phi(self, block, key, old, out):
        words = block.vocab[block.words]
        new = topic_of(words, key.pass_number, self.shape.topics).astype(np.int32)
        length = 1 + words % 3
        out.state["length"][:] = length
        out.state["run"] = np.repeat(new, length)
        order = np.argsort(block.words, kind="stable")
        each = np.bincount(block.words, minlength=block.n_words)
        n = 1 if old is None else 2
        ptr = out.array("ptr")
        ptr[0] = 0
        ptr[1:] = np.cumsum(each * n)
        topic = out.array("topic", ptr[-1])
        value = out.array("value", ptr[-1])
        topic[::n] = new[order]
        value[::n] = block.counts[order]
        if old is not None:
            topic[1::2], value[1::2] = old[order], -block.counts[order].astype(np.float32)
        out.delta["phi"] = SparseDelta(ptr, topic, value)
        out.stats["tokens"][0] = block.tokens
        out.stats["loglik"][0] = -block.tokens

    def start(self, visit, out):
        self._phi(visit.block, visit.key, None, out)
        out.delta["theta"][:] = 0.0
        out.delta["theta"][:, : self.shape.topics] = self._own(visit.block)

    def process(self, visit, out):
        block = visit.block
        state = visit.state
        ends = np.cumsum(state["length"].astype(np.int64))
        assert len(state["run"]) == (ends[-1] if len(ends) else 0)
        self._phi(block, visit.key, state["run"][ends - 1], out)
        links = block.rows("links")
        theta = visit.rows["theta"]
        delta = out.delta["theta"]
        delta[:] = 0.0
        delta[:, : self.shape.topics] = self._own(block)
        last = theta.base[theta.index]
        assert len(last) == len(links.ids)
        for d in range(block.n_docs):
            for j in links.local[links.indptr[d] : links.indptr[d + 1]]:
                delta[d] += np.float32(0.5) * last[j]
        out.stats["linked"][0] = len(links.local)


def linked_twin(x, neighbours, topics, passes):
    """(phi [W, K], theta [D, K]) after so many passes.  x: [D, W]; neighbours: list of lists."""
    words = np.arange(x.shape[1])
    phi = np.zeros((x.shape[1], topics))
    phi[words, topic_of(words, passes, topics)] = x.sum(0)
    own = np.zeros((len(x), topics))
    for w in words:
        own[:, w % topics] += x[:, w]
    theta = own.copy()
    for _ in range(passes):
        theta = np.array(
            [
                own[d] + 0.5 * sum((theta[e] for e in neighbours[d]), np.zeros(topics))
                for d in range(len(x))
            ]
        )
    return phi, theta


class Phased(Engine):
    """sums: one pass adds x(w, d) (d mod 7 = column) up, the end of the phase squares it by ranges;
    phi begins empty; a pass of steps adds 1 to a fixed table; the last phase puts the squares' row
    sums in topic w mod K, times the steps.  State: how often each document was visited.
    """

    name = "phased"
    cites = "for the contract tests"
    Options = Options
    about = About(starts=("random",), objective=Objective("mean square", "squares", "rows"))

    @property
    def tables(self):
        return {
            "sums": TableSpec(columns=COLUMNS),
            "steps": TableSpec(rows=3, columns=2, dtype="float64"),
            "phi": TableSpec(rule=Rule.REPLACE),
        }

    @property
    def phases(self):
        return (
            Phase("sum", 1, reads=(), writes=("sums",), start="empty"),
            Phase("step", 2, steps=True),
            Phase("spread", None, reads=("sums", "steps"), writes=("phi",)),
        )

    @property
    def state(self):
        return {"visits": ArraySpec("document", "int32")}

    @property
    def stats(self):
        return {"squares": 1, "rows": 1}

    def initial_params(self):
        return {**super().initial_params(), "ended": np.zeros(1)}

    def process(self, visit, out):
        block = visit.block
        rows = visit.rows
        key = visit.key
        if key.phase == "sum":
            assert not visit.state
            out.state["visits"][:] = 1
            delta = out.delta["sums"]
            delta[:] = 0.0
            doc = block.first_doc + np.repeat(np.arange(block.n_docs), np.diff(block.indptr))
            np.add.at(delta, (block.words, doc % COLUMNS), block.counts)
            return
        assert key.phase == "spread" and visit.params["ended"][0] == 1
        # the steps stand between the first and the second visit
        assert visit.state["visits"].tolist() == [key.pass_number - 3] * block.n_docs
        out.state["visits"][:] = visit.state["visits"] + 1
        squares = rows["sums"].base[rows["sums"].index].sum(1)
        times = rows["steps"].base[:, 0].sum()
        share = np.bincount(block.words, block.counts, block.n_words)
        delta = out.delta["phi"]
        delta[:] = 0.0
        delta[np.arange(block.n_words), block.vocab % self.shape.topics] = share * times
        out.stats["squares"][0] = squares.sum()
        out.stats["rows"][0] = block.n_words

    def end_phase(self, end):
        if end.phase.name == "sum":
            end.tables["sums"].rewrite(lambda first, rows: rows * rows)
            end.params["ended"] += 1
        else:
            assert end.phase.name == "step"
            end.tables["steps"].rewrite(
                lambda first, rows: (
                    rows + np.pad(np.ones((len(rows), 2)), ((0, 0), (0, rows.shape[1] - 2)))
                )
            )


class StepsFirst(Phased):
    """The same in another order: no block was visited, and none has a state, when it steps."""

    name = "steps-first"

    @property
    def phases(self):
        add_up, step, spread = super().phases
        return (replace(step, start="empty"), replace(add_up, start="visit"), spread)


def phased_twin(x, topics):
    """(sums [W, 7] squared, phi [W, K])."""
    sums = np.stack([x[np.arange(len(x)) % COLUMNS == c].sum(0) for c in range(COLUMNS)], 1)
    words = np.arange(x.shape[1])
    phi = np.zeros((x.shape[1], topics))
    phi[words, words % topics] = x.sum(0) * 6.0  # three rows, two steps
    return sums**2, phi
