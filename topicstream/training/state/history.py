"""``history.jsonl``: one line a pass, the start's with ``pass`` 0."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from topicstream.files import owned
from topicstream.files.durable import read_sealed, sealed_line, write_bytes
from topicstream.model.store import as_pass


class History:
    """The file and its latest record, ``last`` (empty before the first)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.last: dict[str, Any] = {}

    def rewind(self, passes: int, needs_start: bool) -> list[str]:
        """Keep the lines of the first ``passes`` passes (and of the start, unless it is to be made again): what was
        written after the checkpoint that a run resumes from is lost, and so is a line that a kill cut short.  Returns what to say of lines that are damaged (they are left out)."""
        records, damaged = read_sealed(self._path)
        kept = []
        for record in records:
            named = as_pass(record, self._path.parent)
            if named["pass"] <= passes and (named["pass"] > 0 or not needs_start):
                kept.append(record)
                self.last = named
        write_bytes(self._path, "".join(map(sealed_line, kept)).encode(), durable=False)
        return damaged

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a pass."""
        self.last = dict(record)
        with owned.append(self._path) as f:
            f.write(sealed_line(self.last).encode())
