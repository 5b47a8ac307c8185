"""Tables larger than memory, which DuckDB sorts, joins and counts within a memory limit.

Every result that is stored is ordered by a complete key, so that it does not depend on DuckDB's
threads or on what it spills.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Self, TypeVar

import pyarrow as pa

from topicstream.base.errors import DiskTooSmall, DoesNotFit, TopicsError
from topicstream.base.files.marker import list_paths
from topicstream.base.machine import default_threads

LEAST_MEMORY = 64 << 20
"""Bytes with which DuckDB 2.0 sorts and groups tens of millions of rows in one thread; a hash join
of a million needs twice as much."""
MEMORY_OF_A_THREAD = 64 << 20
ROWS = 1 << 16
"""Rows of a batch of a result."""
OVERFLOW = "duckdb_temp"
_FULL_DISK = re.compile(
    "No space left on device|max_temp_directory_size|File too large|Disk quota exceeded"
)
"""Errors about the disk: DuckDB fills nine tenths of what is free, and calls more a lack of memory.
"""
Result = TypeVar("Result")


def _name_failure(folder: Path, error: Exception) -> TopicsError | None:
    """Translate an error of the query engine, None if it is a fault of the program.

    Errors of a stream come through Arrow, so their text decides, not their type.
    """
    text = str(error)
    if _FULL_DISK.search(text):
        return DiskTooSmall(
            f"{folder}: the disk is full; make room on it and run the same command again"
        )
    if isinstance(error, MemoryError) or "Out of Memory Error" in text:
        return DoesNotFit(
            f"{folder}: {text.splitlines()[0] if text else 'out of memory'}; raise --mem-limit"
        )
    if "IO Error" in text or isinstance(error, OSError):
        return TopicsError(f"{folder}: {text.splitlines()[0]}; check the folder and its disk")
    return None


class Relations:
    """Tables by name, as a context.

    Parameters
    ----------
    folder
        A folder of ours; data that does not fit memory goes into ``duckdb_temp`` below it.
    memory
        Bytes that tables, sorts and joins may take together (at least LEAST_MEMORY). An attribute
        of this name holds them.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        import duckdb  # 70 ms, which only commands that write stores need

        memory = max(memory, LEAST_MEMORY)
        self.memory = memory
        overflow = str(folder / OVERFLOW)
        overflow.encode()  # UnicodeEncodeError here: DuckDB crashes on a name that is not UTF-8
        self._errors = (duckdb.Error, pa.ArrowException, MemoryError)
        self._folder = folder
        list_paths(f"{folder / OVERFLOW}/")
        self._created: set[str] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="relations")
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{memory >> 10}KiB",
                "threads": max(1, min(default_threads(), memory // MEMORY_OF_A_THREAD - 1)),
                "temp_directory": overflow,
                "preserve_insertion_order": False,
                "arrow_large_buffer_size": True,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )
        # a program of `python -c` would show a bar; a notebook without ipywidgets, which has
        # none, refuses the setting
        with contextlib.suppress(duckdb.Error):
            self._connection.execute("set enable_progress_bar = false")

    def insert(self, name: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows to a table, which is created by the first ones."""
        self._connection.register("arriving", rows)
        self.execute(
            f"insert into {name} from arriving"
            if name in self._created
            else f"create table {name} as from arriving"
        )
        self._created.add(name)

    def execute(self, sql: str) -> None:
        """Run a statement.

        Raises
        ------
        DoesNotFit
            Where memory or the disk is too small for it.
        TopicsError
            Where files of the folder cannot be read or written.
        """
        self._run(self._connection, lambda: self._connection.execute(sql))

    def number(self, sql: str) -> int:
        """Return the only value of a query, or the number of rows that a statement stored."""
        [value] = self.numbers(sql)
        return value

    def numbers(self, sql: str) -> list[int]:
        """Return the values of a query whose result is one row."""
        [row] = self._rows(sql)
        return [int(value) for value in row]

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        rows: list[tuple[Any, ...]] = self._run(
            self._connection, lambda: self._connection.execute(sql).fetchall()
        )
        return rows

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Yield the result of a query in its order, a batch at a time."""
        cursor = self._connection.cursor()
        reader = self._run(cursor, lambda: cursor.sql(sql).to_arrow_reader(ROWS))
        while True:
            batch = self._run(cursor, lambda: next(reader, None))
            if batch is None:
                break
            yield batch

    def _run(self, connection: Any, work: Callable[[], Result]) -> Result:
        """Run work of a connection in a thread, and interrupt it if the wait for it ends early.

        In the main thread the query engine would run the handlers of signals, and lose the errors
        that they raise.
        """
        with self._rewrite_errors():
            if threading.current_thread() is not threading.main_thread():
                return work()
            future = self._thread.submit(work)
            try:
                return future.result()
            except BaseException:
                if not future.done():
                    connection.interrupt()
                    wait([future])
                raise

    @contextlib.contextmanager
    def _rewrite_errors(self) -> Iterator[None]:
        """Name the folder and what to do in errors of the query engine that a user can mend."""
        try:
            yield
        except self._errors as e:
            mended = _name_failure(self._folder, e)
            if mended is None:
                raise
            raise mended from e

    def clear(self) -> None:
        """Drop all tables and views, which is faster than a new connection."""
        for name, kind in self._rows(
            "select table_name, table_type from information_schema.tables"
        ):
            self.execute(f"drop {'view' if kind == 'VIEW' else 'table'} {name}")
        self._created.clear()

    def close(self) -> None:
        """Release memory and files."""
        self._thread.shutdown()
        self._connection.close()  # removes its folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
