"""A table as a file: ``.parquet``, ``.csv`` or ``.jsonl``, in one rename."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from topicstream.errors import UsageError, json_line
from topicstream.files import owned
from topicstream.files.outputs import PARQUET_MARK, check_output, marked_parquet, written

SUFFIXES = (".parquet", ".csv", ".jsonl")


def check_table_file(path: str | Path, option: str, *, force: bool = False) -> Path:
    """UsageError for another name or a missing folder, TopicsError where the file exists."""
    place = Path(path)
    if place.suffix not in SUFFIXES:
        raise UsageError(f"{option} {path}: the name must end in {', '.join(SUFFIXES)}")
    if not place.parent.is_dir():
        raise UsageError(f"{option} {path}: no such folder {place.parent}")
    check_output(place, option, force=force, reads=partial(_reads_as_ours, place))
    return place


OURS = (("period", "group", "topic"), ("question",), ("id", "tokens", "loglik"), ("topics", "seed", "algo"))
"""First columns of the tables that commands write."""


def _reads_as_ours(place: Path, file: BinaryIO) -> bool:
    if place.suffix == ".parquet":
        return marked_parquet(file)
    if owned.keeps_notes(place):
        return False
    try:
        line = file.readline(1 << 20).decode()
        names = list(json.loads(line)) if place.suffix == ".jsonl" else next(csv.reader([line]))
    except (ValueError, StopIteration, RecursionError):
        return False
    return any(tuple(names[: len(first)]) == first for first in OURS)


def write_table(table: pa.Table, path: str | Path, *, option: str = "--out", force: bool = False) -> None:
    """Write a table; errors as ``check_table_file``."""
    place = check_table_file(path, option, force=force)
    with written(place, force=force, option=option, reads=partial(_reads_as_ours, place)) as out:
        if place.suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **PARQUET_MARK}), out)
        elif place.suffix == ".csv":
            import pyarrow.csv as pc

            pc.write_csv(table, out)
        else:
            for row in table.to_pylist():
                out.write(json_line(row).encode() + b"\n")
