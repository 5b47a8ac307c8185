"""Topics of documents to a file (.parquet, .jsonl, .csv) or a stream, block by block; a file appears when it is complete."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from topicstream.durable import sync_file, sync_folder
from topicstream.errors import InputError
from topicstream.inference.documents import FLAGS
from topicstream.inference.keep import Lists
from topicstream.inference.text import csv_head, csv_lines, json_lines

About = tuple[np.ndarray, np.ndarray, np.ndarray]
VALUES_OF_GROUP = 1 << 20
ROWS_OF_GROUP = 1 << 16


class Format(Protocol):
    """``encode`` runs in any thread, ``write`` takes what it gave, in order."""

    def encode(self, ids: Any, lists: Lists, about: About | None) -> Any: ...
    def write(self, encoded: Any) -> None: ...
    def close(self) -> None: ...


class JsonLines:
    """A line a document: {"id": ..., "topics": [...], "shares": [...], ...}."""

    def __init__(self, file: BinaryIO, about: bool) -> None:
        self._file = file

    def encode(self, ids: Any, lists: Lists, about: About | None) -> memoryview:
        return json_lines(ids, lists, about)

    def write(self, encoded: memoryview) -> None:
        self._file.write(encoded)

    def close(self) -> None:
        self._file.flush()


class Csv(JsonLines):
    """A line a document and topic, under a head line."""

    def __init__(self, file: BinaryIO, about: bool) -> None:
        super().__init__(file, about)
        file.write(csv_head(about))

    def encode(self, ids: Any, lists: Lists, about: About | None) -> memoryview:
        return csv_lines(ids, lists, about)


class Parquet:
    """id large_string, topics list<int32>, shares list<float>; with ``about`` tokens, oov_rate double, flag string."""

    def __init__(self, file: BinaryIO, about: bool) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._pa = pa
        lists = [("topics", pa.list_(pa.int32())), ("shares", pa.list_(pa.float32()))]
        more = [("tokens", pa.float64()), ("oov_rate", pa.float64()), ("flag", pa.string())] if about else []
        self._schema = pa.schema([("id", pa.large_string()), *lists, *more])
        self._flags = pa.array([None, *FLAGS[1:]], pa.string())
        self._held: list[Any] = []
        self._rows = self._values = 0
        self._writer = pq.ParquetWriter(
            file,
            self._schema,
            compression="lz4",
            use_dictionary=["topics.list.element", "flag"],
            write_statistics=False,
        )

    def encode(self, ids: Any, lists: Lists, about: About | None) -> Any:
        pa = self._pa
        offsets = pa.array(lists.offsets.astype(np.int32))
        columns = [pa.ListArray.from_arrays(offsets, pa.array(v)) for v in (lists.topics, lists.shares)]
        if about is not None:
            tokens, rates, flags = about
            columns += [pa.array(tokens), pa.array(rates), self._flags.take(pa.array(flags))]
        return pa.table([ids.cast(pa.large_string()), *columns], schema=self._schema)

    def write(self, encoded: Any) -> None:
        self._held.append(encoded)
        self._rows += len(encoded)
        self._values += encoded.nbytes // 8
        if self._rows >= ROWS_OF_GROUP or self._values >= VALUES_OF_GROUP:
            self._group()

    def _group(self) -> None:
        if self._held:
            self._writer.write_table(self._pa.concat_tables(self._held))
        self._held, self._rows, self._values = [], 0, 0

    def close(self) -> None:
        self._group()
        self._writer.close()


FORMATS: dict[str, Any] = {".parquet": Parquet, ".jsonl": JsonLines, ".csv": Csv}


class OutputFile:
    """A file written beside and renamed when ``commit`` is called; left alone when it is not (use as a context)."""

    def __init__(self, path: str | Path, *, about: bool, option: str) -> None:
        self.path = Path(path)
        if self.path.suffix not in FORMATS:
            raise InputError(f"{option} {path}: the name must end in {', '.join(FORMATS)}")
        if not self.path.parent.is_dir():
            raise InputError(f"{option} {path}: no such folder {self.path.parent}")
        self._beside = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        self._file = open(self._beside, "wb")  # noqa: SIM115
        self._done = False
        self.format: Format = FORMATS[self.path.suffix](self._file, about)

    def __enter__(self) -> OutputFile:
        return self

    def commit(self) -> None:
        """Finish the file and put it in its place."""
        self.format.close()
        self._file.close()
        sync_file(self._beside)
        os.replace(self._beside, self.path)
        sync_folder(self.path.parent)
        self._done = True

    def __exit__(self, *exc: object) -> None:
        if not self._done:
            with suppress(Exception):  # a Parquet writer must not outlive its file; what failed is being told
                self.format.close()
            self._file.close()
            with suppress(OSError):
                os.unlink(self._beside)
