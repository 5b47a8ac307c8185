"""What a run works on between checkpoints: its tables, in memory or, where the plan says so, in files of the work folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from topicstream.engines.base import Engine, Rule
from topicstream.files import owned
from topicstream.files.ownership import claim
from topicstream.parallel.rounds import Workers
from topicstream.tables.layouts import new_table
from topicstream.tables.spec import WORDS
from topicstream.tables.table import Table
from topicstream.training.plan import Plan


def clean_work(work: Path) -> None:
    """Make the folder, and remove what a run that was killed left in it; block memory stays."""
    claim(work, "work")
    owned.sweep(work, "*.scratch", "*.rows", ".*.tmp")


def new_tables(
    engine: Engine, role: str, work: Path, plan: Plan, workers: Workers, n_w: np.ndarray
) -> dict[str, Table]:
    """One empty table a ``TableSpec``.  role: ``table``, or ``next`` (only of tables that REPLACE); n_w: float64[W]."""
    shape = engine.shape
    return {
        name: new_table(
            spec,
            spec.n_rows(shape.sizes),
            spec.n_columns(shape.topics),
            n_w if spec.axis == WORDS else None,
            work / f"{name}-{role}.rows" if plan.tables_on_disk else None,
            workers.run_ranges,
            engine.constants(name),
        )
        for name, spec in engine.tables.items()
        if role == "table" or spec.rule is Rule.REPLACE
    }
