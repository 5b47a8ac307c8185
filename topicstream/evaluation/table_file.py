"""A table as a file: ``.parquet``, ``.csv`` or ``.jsonl``, in one rename."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from topicstream.errors import UsageError, json_line
from topicstream.files.outputs import PARQUET_MARK, check_output, written

SUFFIXES = (".parquet", ".csv", ".jsonl")


def check_table_file(path: str | Path, option: str, *, force: bool = False) -> Path:
    """UsageError for another name or a missing folder, TopicsError where the file exists."""
    place = Path(path)
    if place.suffix not in SUFFIXES:
        raise UsageError(f"{option} {path}: the name must end in {', '.join(SUFFIXES)}")
    if not place.parent.is_dir():
        raise UsageError(f"{option} {path}: no such folder {place.parent}")
    check_output(place, option, force=force)
    return place


def write_table(table: pa.Table, path: str | Path, *, option: str = "--out", force: bool = False) -> None:
    """Write a table; errors as ``check_table_file``."""
    place = check_table_file(path, option, force=force)
    with written(place, force=force, option=option) as out:
        if place.suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **PARQUET_MARK}), out)
        elif place.suffix == ".csv":
            import pyarrow.csv as pc

            pc.write_csv(table, out)
        else:
            for row in table.to_pylist():
                out.write(json_line(row).encode() + b"\n")
