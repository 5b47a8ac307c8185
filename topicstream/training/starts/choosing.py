"""The start that a run asks for: its seed topics, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import Engine
from topicstream.parallel.rounds import Workers
from topicstream.training.executor import MakeExecutor
from topicstream.training.plan import Plan
from topicstream.training.starts.initial import RandomSeeds, make_seeds
from topicstream.training.starts.seeded import Background, SeededStart


def start_topics(
    how: str,
    engine: Engine,
    corpus: Corpus,
    grid: Grid,
    seed: int,
    n_w: np.ndarray,
    *,
    plan: Plan,
    workers: Workers,
    say: Callable[[str], None],
    warm: str | Path | None,
    warm_share: float,
    executor: MakeExecutor,
) -> Any:
    """The seed table of a start, told the words of ``--seed-words``; None for a start without seed topics."""
    if engine.on_vectors:
        return None
    shape = engine.shape
    axis, words, found = engine.topics_axis, shape.seeds, None
    if how == "best":
        from topicstream.training.starts.tries import best_seeds

        found = best_seeds(corpus, grid, shape.topics, seed, n_w, plan.threads)
    elif how == "anchors":
        from topicstream.training.starts.anchor_start import anchor_seeds

        found = anchor_seeds(corpus, grid, shape, seed, n_w, workers, say, executor)
    elif how == "kmeans" and (tries := getattr(engine.options, "tries", 1)) > 1:
        from topicstream.training.starts.cluster_start import best_clusters

        found = best_clusters(corpus, grid, shape.topics, seed, n_w, tries)
    elif how == "random" and engine.random_topics:
        found = RandomSeeds(n_w, shape.topics, seed)
    else:
        found = make_seeds(
            corpus,
            grid,
            how,
            shape.topics,
            seed,
            n_w,
            warm=warm,
            warm_share=warm_share,
            room=max(0, plan.limit - plan.total),
            names=corpus.axes[axis].names() if axis else None,
        )
    if found is not None and how != "warm" and getattr(engine.options, "background", None):
        found = Background(found, shape.topics, n_w)
    if words is None or found is None or how == "warm":
        return found
    return SeededStart(found, words, n_w, learned=how in ("best", "anchors"))
