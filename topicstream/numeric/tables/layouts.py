"""Registry of the table layouts."""

from __future__ import annotations

from topicstream.numeric.tables.dense import DenseTable
from topicstream.numeric.tables.packed import PackedTable
from topicstream.numeric.tables.table import Table

LAYOUTS: dict[str, type[Table]] = {"dense": DenseTable, "packed": PackedTable}
