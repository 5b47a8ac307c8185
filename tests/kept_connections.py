"""Connections of DuckDB that serve one test after another: to make one takes 16 ms of a processor,
a fifth of an ingest of a few documents.

A connection that is closed has its tables dropped and waits for the next one that asks for the
same settings.  One that wrote to a disk, or that cannot be emptied, is closed.  Processes that
tests start have connections of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

MOST = 4
"""Connections that wait with the same settings."""
_FOLDER = "temp_directory"
_connect = duckdb.connect
_waiting: dict[str, list[Any]] = {}


class KeptConnection:
    """A connection to tables in memory, which is kept where it is closed."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._settings = str({name: value for name, value in config.items() if name != _FOLDER})
        self._folder = Path(config[_FOLDER])
        self._altered = False
        self._views: set[str] = set()
        waiting = _waiting.setdefault(self._settings, [])
        if waiting:
            self._connection = waiting.pop()
            quoted = str(self._folder).replace("'", "''")
            self._connection.execute(f"set {_FOLDER} = '{quoted}'")
        else:
            self._connection = _connect(":memory:", config=config)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str) -> Any:
        """Run a statement, and note one that alters the settings."""
        self._altered = self._altered or (sql.startswith("set ") and "progress" not in sql)
        return self._connection.execute(sql)

    def register(self, name: str, rows: Any) -> Any:
        """Show rows as a view, which is forgotten where the connection is closed."""
        self._views.add(name)
        return self._connection.register(name, rows)

    def close(self) -> None:
        """Drop all tables and keep the connection, or close it."""
        connection = self.__dict__.pop("_connection")
        waiting = _waiting[self._settings]
        if self._altered or len(waiting) >= MOST or self._folder.exists():
            connection.close()
            return
        try:
            for name in self._views:
                connection.unregister(name)
            for kind in ("view", "table"):
                found = f"select {kind}_name from duckdb_{kind}s() where not internal"
                for (name,) in connection.execute(found).fetchall():
                    connection.execute(f'drop {kind} "{name}"')
        except duckdb.Error:
            connection.close()
        else:
            waiting.append(connection)


def _connect_kept(database: str = ":memory:", *given: Any, **settings: Any) -> Any:
    config = settings.get("config")
    if given or database != ":memory:" or not config or _FOLDER not in config:
        return _connect(database, *given, **settings)
    return KeptConnection(config)


def install() -> None:
    """Let every connection with a folder for what overflows be kept."""
    duckdb.connect = _connect_kept
