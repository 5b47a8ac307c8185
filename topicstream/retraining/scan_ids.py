"""Where ids still stand in the files of a folder of ours: what ``topics forget`` proves its work by.

Parquet tables are read column by column (words of a vocabulary are no ids and are left out), JSON value by value (but for the tokenizer's words), other
files byte by byte (ids of eight bytes and more; shorter ones would be met by chance).  Chunks of arrays hold numbers alone
and are not searched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.arrow import pc

LEAST_BYTES = 8
WORDS = ("word", "name")
"""Columns of vocabularies and of the names of axes."""
_PIECE = 1 << 22


class Scan:
    """ids: what is looked for.  files: how many have been read; left: file and what stands there, one entry each."""

    def __init__(self, ids: list[str]) -> None:
        self._ids = set(ids)
        self._values = pa.array(sorted(self._ids), pa.large_string())
        long = sorted(i.encode() for i in self._ids if len(i.encode()) >= LEAST_BYTES)
        self._longest = max(map(len, long), default=0)
        self._bytes = re.compile(b"|".join(map(re.escape, long))) if long else None
        self.files = 0
        self.left: list[dict[str, Any]] = []

    def folder(self, place: Path) -> None:
        """Every regular file below a folder."""
        for path in sorted(place.rglob("*")) if place.is_dir() else ():
            if path.is_file() and not path.is_symlink():
                self.file(path)

    def file(self, path: Path) -> None:
        """One file."""
        if path.name == "0" and path.parent.parent.name == "c":
            return  # a chunk of an array
        self.files += 1
        try:
            for what in self._found(path):
                self.left.append({"file": str(path), "what": what})
        except (OSError, ValueError, pa.ArrowException) as e:
            self.left.append({"file": str(path), "what": f"cannot be read ({e})"})

    def _found(self, path: Path) -> Iterator[str]:
        if path.suffix == ".parquet":
            yield from self._in_table(path)
        elif path.suffix in (".json", ".jsonl"):
            text = path.read_text(encoding="utf-8", errors="replace")
            records = text.splitlines() if path.suffix == ".jsonl" else [text]
            if n := sum(self._in_json(record) for record in records):
                yield f"{n} values"
        elif self._bytes is not None and self._in_bytes(path):
            yield "bytes"

    def _in_table(self, path: Path) -> Iterator[str]:
        with pq.ParquetFile(path) as file:
            columns = [f.name for f in file.schema_arrow if _texts(f.type) and f.name not in WORDS]
            for column in columns:
                n = 0
                for batch in file.iter_batches(1 << 16, columns=[column]):
                    values = batch.column(0)
                    while pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
                        values = values.flatten()
                    n += pc.sum(pc.is_in(values.cast(pa.large_string()), value_set=self._values)).as_py() or 0
                if n:
                    yield f"{n} values of the column {column}"

    def _in_json(self, text: str) -> int:
        try:
            waiting: list[Any] = [json.loads(text)]
        except (ValueError, RecursionError):  # no JSON, a line cut short, or nested without end: as it stands
            return sum(i in text for i in self._ids if len(i.encode()) >= LEAST_BYTES)
        n = 0
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                waiting += [*value.keys(), *(v for k, v in value.items() if k != "tokenizer")]
            elif isinstance(value, list):
                waiting += value
            elif isinstance(value, str):
                n += value in self._ids or (self._bytes is not None and bool(self._bytes.search(value.encode(errors="surrogatepass"))))
        return n

    def _in_bytes(self, path: Path) -> bool:
        assert self._bytes is not None
        before = b""
        with open(path, "rb") as f:
            while piece := f.read(_PIECE):
                if self._bytes.search(before + piece):
                    return True
                before = piece[-self._longest :]
        return False


def _texts(kind: Any) -> bool:
    while pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
