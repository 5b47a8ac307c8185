"""The layouts that a table can have."""

from __future__ import annotations

from topicstream.tables.dense import DenseTable
from topicstream.tables.packed import PackedTable
from topicstream.tables.table import Table

LAYOUTS: dict[str, type[Table]] = {"dense": DenseTable, "packed": PackedTable}
