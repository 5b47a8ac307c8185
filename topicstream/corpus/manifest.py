"""What the manifest of a store has to say before anything is read on its word."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from topicstream.corpus.format import CELLS, DOCS, KINDS, PARTS
from topicstream.errors import StoreError


def check_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """StoreError naming the file and the member that is missing or impossible; ``path``: the manifest's."""
    try:
        _member(isinstance(manifest["weighted"], bool), "weighted")
        _member(_count(manifest["n_words"]), "n_words")
        _member(isinstance(manifest["fingerprint"], str), "fingerprint")
        for part in PARTS:
            _part(manifest["parts"][part], f"parts.{part}")
        for kind, entry in manifest.get("files", {}).items():
            _file(entry, f"files.{kind}")
        for entry in manifest.get("docs", []):
            _file(entry, "docs")
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as e:
        what = f"{e}" if isinstance(e, _Wrong) else f"{type(e).__name__}: {e}"
        raise StoreError(f"{path}: incomplete ({what}); the file is damaged, restore it or ingest again") from None


class _Wrong(ValueError):
    """A member that cannot be."""


def _member(good: bool, name: str) -> None:
    if not good:
        raise _Wrong(f"{name} is not what it must be")


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e300


def _part(entry: dict[str, Any], name: str) -> None:
    _member(all(_count(entry[k]) for k in ("docs", "cells", "rows", "bytes")) and _amount(entry["tokens"]), name)
    row = 0
    for number, block in enumerate(entry["blocks"]):
        what = f"block {number} of {name}"
        first, last = block["rows"]
        _member(_count(first) and _count(last) and first == row and last > first, what)
        row, rows = last, last - first
        _member(_count(block["docs"]) and _count(block["cells"]) and _amount(block["tokens"]), what)
        _member(block["docs"] <= rows * DOCS and block["cells"] <= rows * CELLS, what)
        removed = block.get("removed", {})
        _member(_count(removed.get("cells", 0)) and _amount(removed.get("tokens", 0)), what)
        for kind in KINDS:
            chunks = block["files"][kind]
            _member(len(chunks) == rows, what)
            for size, crc in chunks:
                _member(_count(size) and size <= 1 << 30 and _count(crc), what)
    _member(row == entry["rows"], name)


def _file(entry: dict[str, Any], name: str) -> None:
    file = entry["file"]
    _member(isinstance(file, str) and file != "", name)
    _member(not PurePosixPath(file).is_absolute() and ".." not in PurePosixPath(file).parts and "\0" not in file, name)
    if "crc32c" in entry:
        _member(_count(entry["crc32c"]) and _count(entry["size"]), name)
