"""The interface of a start: where the topics of a run begin.

A start that has seed topics gives a seed table, whose rows are made on demand; the
first visit of every block begins from them. Draws depend on the seed and on document and word
numbers only, so not on blocks, threads or memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from topicstream.base.errors import TopicsError
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import BlockShape, Engine, Layout
from topicstream.numeric.parallel import Workers
from topicstream.numeric.tables.table import Table
from topicstream.training.executor import MakeExecutor
from topicstream.training.plan import StartMemory
from topicstream.training.starts.seeds import Seeds


@dataclass(frozen=True)
class Ground:
    """The parts of a run that a start may look at.

    Attributes
    ----------
    engine, corpus
        Of the run.
    grid
        Any grid of the corpus' training part. It decides what is read, not the result.
    seed
        Random seed of the run.
    n_w
        float64[W], training tokens of each word.
    workers
        Threads for a start that computes in parallel.
    free
        Bytes that may be held besides.
    say
        Shows a line to the user.
    layout, executor
        Of the run, for a start that visits blocks itself.
    step
        Shows progress, see ``PassEnd``.
    """

    engine: Engine
    corpus: Corpus
    grid: Grid
    seed: int
    n_w: np.ndarray
    workers: Workers
    free: int
    say: Callable[[str], None]
    layout: Layout
    executor: MakeExecutor
    step: Callable[[str, int, int, str], None] = lambda *_: None


class Start:
    """Base class of starts. A subclass must define ``seeds``.

    Attributes
    ----------
    learned
        True if the seed topics were learned from the corpus. Seed words then take the topic in
        which they are likeliest.
    """

    learned: ClassVar[bool] = False

    @classmethod
    def for_engine(cls, engine: Engine) -> Self:
        """Make the start of a run of this engine."""
        return cls()

    def check(self, engine: Engine) -> None:
        """Refuse an engine that cannot start so, before anything is planned.

        Raises
        ------
        UsageError, InputError
            If it cannot.
        """

    def memory(self, engine: Engine, block: BlockShape) -> StartMemory:
        """Return the bytes that are held while seed topics are made.

        ``block`` has the largest of everything over the blocks.
        """
        return StartMemory()

    def has_seeds(self, engine: Engine) -> bool:
        """Return True if the start has a seed table."""
        return True

    def prepare(self, ground: Ground, params: dict[str, np.ndarray]) -> None:
        """Prepare the start before pass 0, which may change ``params``."""

    def seeds(self, ground: Ground) -> Seeds | None:
        """Return the seed table, or None if the engine draws topics itself."""
        raise NotImplementedError(f"{type(self).__name__}.seeds")

    def fill(
        self, ground: Ground, tables: Mapping[str, Table], params: Mapping[str, np.ndarray]
    ) -> None:
        """Fill the tables from the seed table, scaled to the corpus.

        For engines that begin with the seed table itself.

        Raises
        ------
        TopicsError
            If the start has no seed table.
        """
        seeds = self.seeds(ground)
        if seeds is None:
            raise TopicsError(f"{ground.engine.name} needs seed topics; choose another --start")
        scale = np.float32(float(ground.corpus.n_tokens) / float(np.sum(seeds.totals)))
        tables["phi"].fill(lambda a, b: seeds.rows(np.arange(a, b, dtype=np.int32)) * scale)


def seeds_blocks(engine: Engine, start: Start) -> bool:
    """Return True if the blocks of pass 0 are visited with rows of a seed table."""
    return engine.phases[0].start == "visit" and start.has_seeds(engine)
