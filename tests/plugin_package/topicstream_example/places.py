"""Raw files in the memory of this process: ``mem://NAME``."""

from __future__ import annotations

import hashlib
import io
import math
import os
from typing import BinaryIO

from topicstream.base.errors import InputError
from topicstream.base.places import Addresses, Name

FILES: dict[str, bytes] = {}
"""Address -> content."""


class MemoryPlaces(Addresses):
    """Bytes that a program holds."""

    schemes = ("mem",)

    def is_file(self, name: Name) -> bool:
        return os.fspath(name) in FILES

    def expand(self, name: str) -> list[str]:
        return [name] if name in FILES else []

    def list_objects(self, name: str) -> list[str]:
        folder = name.rstrip("/") + "/"
        return sorted(address for address in FILES if address.startswith(folder))

    def size(self, name: Name) -> int:
        return len(self._content(name))

    def stamp(self, name: str, most: float = math.inf) -> list[int | str] | None:
        content = self._content(name)
        return [1, len(content), hashlib.sha256(content).hexdigest()]

    def open(self, name: Name) -> BinaryIO:
        return io.BufferedReader(io.BytesIO(self._content(name)))  # type: ignore[arg-type]

    def _content(self, name: Name) -> bytes:
        try:
            return FILES[os.fspath(name)]
        except KeyError:
            raise InputError(f"{name}: no such file in memory") from None
