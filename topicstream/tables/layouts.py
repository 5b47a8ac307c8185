"""The layouts that a table can have."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from topicstream.kernels.constants import Constants
from topicstream.tables.dense import DenseTable
from topicstream.tables.packed import PackedTable
from topicstream.tables.spec import TableSpec
from topicstream.tables.table import RunAll, Table

LAYOUTS: dict[str, type[Table]] = {"dense": DenseTable, "packed": PackedTable}


def new_table(
    spec: TableSpec,
    rows: int,
    columns: int,
    mass: np.ndarray | None,
    folder: Path | None,
    run_all: RunAll,
    constants: Constants | None = None,
) -> Table:
    """An empty table.

    Parameters
    ----------
    mass
        float64[rows], what each row sums to (a packed table needs it).
    folder
        Where the file for the rows is made; None: they are in memory.
    run_all
        Runs the work on ranges of rows, perhaps on several threads.
    constants
        What is added where rows are gathered.
    """
    return LAYOUTS[spec.layout](spec, rows, columns, mass, folder, run_all, constants)  # type: ignore[call-arg, arg-type]
