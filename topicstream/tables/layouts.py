"""The layouts that a table can have; a layout's code is loaded by the runs that need it."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np

from topicstream.kernels.constants import Constants
from topicstream.tables.spec import TableSpec
from topicstream.tables.table import RunAll, Table

LAYOUTS = {"dense": ("topicstream.tables.dense", "DenseTable"), "packed": ("topicstream.tables.packed", "PackedTable")}


def layout_of(spec: TableSpec) -> type[Table]:
    """The class of tables of that layout."""
    module, name = LAYOUTS[spec.layout]
    found: type[Table] = getattr(importlib.import_module(module), name)
    return found


def new_table(
    spec: TableSpec,
    rows: int,
    columns: int,
    mass: np.ndarray | None,
    path: Path | None,
    run_all: RunAll,
    constants: Constants | None = None,
) -> Table:
    """An empty table; mass: float64[rows], what each row sums to (a packed table needs it); path: where its rows are to be,
    None: in RAM; constants: what is added where rows are gathered."""
    return layout_of(spec)(spec, rows, columns, mass, path, run_all, constants)  # type: ignore[call-arg, arg-type]
