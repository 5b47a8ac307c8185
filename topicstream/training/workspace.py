"""What a run works on between checkpoints: its tables and the deltas of a round, in memory or, where the plan says so, in
files of the work folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from topicstream.engines.base import BlockShape, Engine
from topicstream.parallel.rounds import Workers
from topicstream.training.deltas import Deltas, Spill
from topicstream.training.plan import Plan
from topicstream.training.tables import DenseTable


def sweep(work: Path) -> None:
    """Make the folder, and remove what a run that was killed left in it; block memory stays."""
    work.mkdir(exist_ok=True)
    for pattern in ("*.scratch", "*.rows"):
        for path in work.glob(pattern):
            path.unlink(missing_ok=True)


def new_tables(engine: Engine, role: str, work: Path, plan: Plan, workers: Workers, n_w: np.ndarray) -> dict[str, Any]:
    """One empty table a ``TableSpec``.  role: ``table``, or ``next`` of engines that REPLACE; n_w: float64[W]."""
    tables: dict[str, Any] = {}
    words, topics = engine.shape.words, engine.shape.topics
    for name, spec in engine.tables.items():
        path = work / f"{name}-{role}.rows" if plan.tables_on_disk else None
        if spec.layout == "packed":
            from topicstream.training.packed_table import PackedTable

            most = getattr(engine.options, "samples", 0)
            tables[name] = PackedTable(spec, words, topics, workers.run_ranges, n_w, path, most)
        else:
            tables[name] = DenseTable(spec, words, topics, n_w, path, workers.run_ranges)
    return tables


def new_deltas(
    engine: Engine, tables: dict[str, Any], work: Path, plan: Plan, round_blocks: int, block: BlockShape
) -> dict[str, Deltas]:
    """The accumulators of a round, for the tables whose deltas are dense rows."""
    return {
        name: Deltas(
            round_blocks,
            block.words,
            tables[name].width,
            work / f"deltas-{name}.scratch" if plan.deltas_on_disk else None,
        )
        for name, spec in engine.tables.items()
        if spec.layout == "dense" and spec.delta == "dense"
    }


def new_spill(engine: Engine, work: Path, plan: Plan) -> Spill | None:
    """Where sparse deltas wait for the end of the round, when the plan has no room for them."""
    sparse = any(spec.layout == "packed" or spec.delta == "sparse" for spec in engine.tables.values())
    return Spill(work / "sparse-deltas.scratch") if plan.deltas_on_disk and sparse else None
