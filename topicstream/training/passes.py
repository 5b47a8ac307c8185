"""One pass over the corpus: gather rows, process blocks, scatter deltas, round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from topicstream.corpus.reader import Corpus, Cutter, Grid
from topicstream.engines.base import Engine, Key, Out, Rows, Rule, Scratch
from topicstream.parallel.rounds import Workers
from topicstream.training.ahead import StorageAhead
from topicstream.training.deltas import Deltas, Spill
from topicstream.training.memory import BlockMemory


class Visited(NamedTuple):
    """What the end of a round needs of a block; the cells themselves are let go."""

    vocab: np.ndarray
    docs: int
    delta: dict[str, Any]
    stats: dict[str, np.ndarray]


class PassRunner:
    """Owns the buffers and runs passes of one engine over one grid.

    tables, nexts   name -> table; nexts are the other copies under REPLACE (else empty)
    deltas          name -> where dense deltas go
    spill           where sparse deltas go until the round has ended; None: they stay in memory
    prefetch        storage blocks decoded ahead
    """

    def __init__(
        self,
        engine: Engine,
        corpus: Corpus,
        grid: Grid,
        tables: dict[str, Any],
        nexts: dict[str, Any],
        workers: Workers,
        deltas: dict[str, Deltas],
        seed: int,
        round_blocks: int,
        spill: Spill | None = None,
        prefetch: int = 2,
    ) -> None:
        self._spill, self._prefetch = spill, prefetch
        self.engine, self.corpus, self.grid, self.workers = engine, corpus, grid, workers
        self.tables, self.nexts, self._deltas, self._seed = tables, nexts, deltas, seed
        self.round_blocks = round_blocks
        self._cutters = [Cutter(corpus.n_words) for _ in range(workers.threads)]
        self._scratch = [Scratch() for _ in range(workers.threads)]
        self._io_scratch = [Scratch() for _ in range(workers.threads)]
        self._table_scratch = [{name: Scratch() for name in tables} for _ in range(workers.threads)]
        self._keep = [Scratch() for _ in range(self.round_blocks)]
        self._before_spill = [Scratch() for _ in range(workers.threads)]
        self._following: tuple[np.ndarray, StorageAhead] | None = None

    def new_stats(self) -> dict[str, np.ndarray]:
        """Zeroed statistics."""
        return {name: np.zeros(n) for name, n in self.engine.stats.items()}

    def run(
        self,
        pass_number: int,
        numbers: np.ndarray,
        first_round: int,
        stats: dict[str, np.ndarray],
        params: dict[str, np.ndarray],
        seeds: Any | None,
        old: BlockMemory | None,
        new: BlockMemory | None,
        before_scatter: Callable[[], None],
        after_round: Callable[[int, int], bool],
        following: np.ndarray | None = None,
    ) -> bool:
        """Rounds ``first_round`` .. of one pass (pass 0 is the start).  Returns False when ``after_round(rounds done,
        cells done)`` asked to stop before the end.  ``stats`` is added to; ``params`` changed by ``end_round``.
        following: the blocks of the pass to come, if there will be one: its first are decoded while this one ends."""
        engine, size = self.engine, self.round_blocks
        starting = pass_number == 0
        numbers = np.asarray(numbers, np.int64)
        todo = numbers[first_round * size :]
        ahead = self._ahead(todo)
        totals = {name: table.totals for name, table in self.tables.items()}
        key = Key(self._seed, pass_number)
        cells_done = int(self.grid.cells[numbers[: first_round * size]].sum())
        try:
            for at in range(0, len(todo), size):
                group = todo[at : at + size]
                slots: list[Any] = [None] * len(group)

                def work(i: int, group: np.ndarray = group, at: int = at, slots: list[Any] = slots) -> None:
                    slots[i] = self._visit(int(group[i]), at + i, i, ahead, totals, params, key, seeds, old, new)

                if old is not None:
                    for number in todo[at + size : at + 2 * size]:
                        old.ahead(int(number))
                if following is not None and at + size >= len(todo):
                    # queued behind the last visits, for a worker that has none left
                    first = min(self.workers.threads - 1, self._prefetch)
                    self._following = following, StorageAhead(self.corpus, self.grid, following, first, self.workers)
                self.workers.run(work, len(group))
                round_stats = self.new_stats()
                docs = 0
                for visited in slots:
                    docs += visited.docs
                    for name, value in visited.stats.items():
                        round_stats[name] += value
                before_scatter()
                self._scatter(slots, starting, params, docs)
                for name, value in round_stats.items():
                    stats[name] += value
                if not starting:
                    engine.end_round(params, round_stats)
                cells_done += int(self.grid.cells[group].sum())
                if not after_round(first_round + at // size + 1, cells_done):
                    return False
        finally:
            ahead.close()
        return True

    def _ahead(self, todo: np.ndarray) -> StorageAhead:
        """What the end of the pass before has begun to decode, if it is the right thing."""
        begun, self._following = self._following, None
        if begun is not None:
            if np.array_equal(begun[0], todo):
                begun[1].reach(self._prefetch)
                return begun[1]
            begun[1].close()
        return StorageAhead(self.corpus, self.grid, todo, self._prefetch, self.workers)

    def _visit(
        self,
        number: int,
        position: int,
        slot: int,
        ahead: StorageAhead,
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        seeds: Any | None,
        old: BlockMemory | None,
        new: BlockMemory | None,
    ) -> Visited:
        worker = self.workers.number()
        scratch, io = self._scratch[worker], self._io_scratch[worker]
        block = self._cutters[worker].block(self.corpus, self.grid, number, ahead.get(position))
        ahead.done(position)
        delta: dict[str, Any] = {}
        for name, deltas in self._deltas.items():
            delta[name] = deltas.slot(slot, block.vocab, scratch)
        memory = new.buffers(block, io) if new is not None else {}
        keep = self._keep[slot] if self._spill is None else self._before_spill[worker]
        out = Out(delta, dict(memory), self.new_stats(), scratch, keep)
        if key.pass_number == 0:
            rows: dict[str, Any] = {}
            sums: Mapping[str, np.ndarray] = {}
            if seeds is not None:
                base = seeds.rows(block.vocab)
                rows = {"phi": Rows(base, np.arange(len(block.vocab), dtype=np.int64))}
                sums = {"phi": seeds.totals}
            self.engine.start(block, rows, sums, params, key, out)
        else:
            own = self._table_scratch[worker]
            rows = {name: table.rows(block.vocab, own[name]) for name, table in self.tables.items()}
            kept = old.read(number, block, io) if old is not None else {}
            self.engine.process(block, rows, totals, kept, params, key, out)
        for name, deltas in self._deltas.items():
            deltas.filled(slot, delta[name])
            del delta[name]  # the accumulator has it; a buffer that is outgrown must not be held until the round ends
        if new is not None:
            new.write(number, out.memory)
        if self._spill is not None:
            for name, changed in delta.items():
                if name not in self._deltas:
                    delta[name] = self._spill.put(changed, self._keep[slot])
        return Visited(block.vocab, block.n_docs, delta, out.stats)

    def _scatter(self, slots: list[Visited], starting: bool, params: Mapping[str, np.ndarray], docs: int) -> None:
        rule = self.engine.rule
        for name, spec in self.engine.tables.items():
            # rows hold their mass only once every block has entered: not while a start or a REPLACE pass builds them up
            target = self.nexts[name] if (rule is Rule.REPLACE and not starting) else self.tables[name]
            hold = rule is Rule.ADD and not starting
            factor = 1.0
            if rule is Rule.BLEND and not starting:
                rho, scale = self.engine.blend(params, docs)
                factor = rho * scale * target.blend(rho)
            if spec.layout == "packed":
                target.scatter([(v.vocab, v.delta[name]) for v in slots])
            elif spec.delta == "sparse":
                target.scatter_sparse([(v.vocab, v.delta[name]) for v in slots], factor)
            else:
                target.scatter(self._deltas[name], len(slots), factor, hold)
        if self._spill is not None:
            self._spill.clear()

    def release(self) -> None:
        """Give the buffers back: no pass follows."""
        if self._following is not None:
            self._following[1].close()
            self._following = None
        self._cutters, self._keep = [], []
        self._scratch, self._io_scratch, self._table_scratch, self._before_spill = [], [], [], []
        self._deltas = {}

    def scratch_bytes(self) -> int:
        """Bytes the buffers hold now."""
        every = [
            *self._scratch,
            *self._io_scratch,
            *self._keep,
            *self._before_spill,
            *(s for d in self._table_scratch for s in d.values()),
        ]
        return sum(s.nbytes for s in every)
