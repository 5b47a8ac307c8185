"""A table as a file: ``.parquet``, ``.csv`` or ``.jsonl``, in one rename."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from topicstream.errors import InputError, NotOurs, TopicsError, json_line
from topicstream.files.durable import write_bytes

SUFFIXES = (".parquet", ".csv", ".jsonl")


def check_table_file(path: str | Path, option: str, *, force: bool = False) -> Path:
    """InputError for another name or a missing folder, TopicsError where the file exists."""
    place = Path(path)
    if place.suffix not in SUFFIXES:
        raise InputError(f"{option} {path}: the name must end in {', '.join(SUFFIXES)}")
    if not place.parent.is_dir():
        raise InputError(f"{option} {path}: no such folder {place.parent}")
    check_replace(place, force=force, ours=_reads_as_ours)
    return place


def check_replace(path: Path, *, force: bool, ours: Callable[[Path], bool]) -> None:
    """TopicsError where a file is there and not to be replaced, NotOurs where it is not of our making."""
    if os.path.lexists(path):
        if not force:
            raise TopicsError(f"{path}: exists; --force replaces it")
        if path.is_symlink() or not path.is_file() or not ours(path):
            raise NotOurs(f"{path}: was not written by this command; move it away, or name another file")


OURS = (("period", "group", "topic"), ("question",), ("id", "tokens", "loglik"), ("topics", "seed", "algo"))
"""First columns of the tables that commands write."""


def _reads_as_ours(path: Path) -> bool:
    if path.stat().st_size == 0:
        return True
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            names = pq.ParquetFile(path).schema_arrow.names
        else:
            with open(path, encoding="utf-8") as f:
                line = f.readline(1 << 20)
            names = list(json.loads(line)) if path.suffix == ".jsonl" else next(csv.reader([line]))
    except (pa.ArrowException, ValueError, OSError, StopIteration, RecursionError):
        return False
    return any(tuple(names[: len(first)]) == first for first in OURS)


def write_table(table: pa.Table, path: str | Path, *, option: str = "--out", force: bool = False) -> None:
    """Write a table; errors as ``check_table_file``."""
    place = check_table_file(path, option, force=force)
    out = io.BytesIO()
    if place.suffix == ".parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, out)
    elif place.suffix == ".csv":
        import pyarrow.csv as pc

        pc.write_csv(table, out)
    else:
        for row in table.to_pylist():
            out.write(json_line(row).encode() + b"\n")
    write_bytes(place, out.getvalue())
