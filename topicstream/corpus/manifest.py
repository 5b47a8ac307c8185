"""What the manifest of a store has to say before anything is read on its word; entries of files."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

import google_crc32c

from topicstream.corpus.format import CELLS, DOCS, KINDS, PARTS
from topicstream.errors import StoreError

_TABLE = re.compile(r"docs/part-[0-9]{5,12}\.parquet")


def file_entry(folder: Path, name: str) -> dict[str, Any]:
    """The manifest's entry of a file: name, size, crc32c."""
    crc, size = 0, 0
    with open(folder / name, "rb") as f:
        while data := f.read(1 << 20):
            crc = google_crc32c.extend(crc, data)
            size += len(data)
    return {"file": name, "size": size, "crc32c": int(crc)}


def check_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """StoreError naming the file and the member that is missing or impossible; ``path``: the manifest's."""
    try:
        _member(isinstance(manifest["weighted"], bool), "weighted")
        _member(_count(manifest["n_words"]) and manifest["n_words"] < 1 << 31, "n_words")
        _member(manifest.get("vectors", 0) in (0, manifest["n_words"]), "vectors")
        _member(isinstance(manifest["fingerprint"], str), "fingerprint")
        _described(manifest)
        for part in PARTS:
            _part(manifest["parts"][part], f"parts.{part}")
        _member(all(isinstance(f, str) for f in manifest.get("same_as", [])), "same_as")
        _member(_count(manifest.get("compacted", 0)), "compacted")
        for kind, entry in manifest.get("files", {}).items():
            _file(entry, f"files.{kind}")
        _member(isinstance(manifest.get("docs", []), list), "docs")
        for entry in manifest.get("docs", []):
            _file(entry, "docs")
            _member(_TABLE.fullmatch(entry["file"]) is not None, "docs")
        for name, entry in (manifest.get("axes") or {}).items():
            _member(manifest.get("columns", {}).get(name) == "list", f"axes.{name} (of a column of lists)")
            _axis(entry, name)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as e:
        what = f"{e}" if isinstance(e, _Wrong) else f"{type(e).__name__}: {e}"
        raise StoreError(f"{path}: incomplete ({what}); the file is damaged, restore it or ingest again") from None


def check_changeable(path: Path, manifest: dict[str, Any]) -> None:
    """StoreError where a member is missing that an append, a compaction or `topics forget` goes on from."""
    members = {
        "heldout": ("asked", "threshold"),
        "vocabulary": ("hash",),
        "files": ("vocab", "pruned"),
        "columns": (),
        "summary": ("words_pruned", "tokens_pruned"),
    }
    missing = [name for name in ("generation", "docs", "tokenizer") if name not in manifest]
    for name, inner in members.items():
        value = manifest.get(name)
        missing += [f"{name}.{i}" for i in inner if i not in value] if isinstance(value, dict) else [name]
    if missing:
        raise StoreError(f"{path}: incomplete (no {missing[0]}); the file is damaged, restore it or ingest again")


def _described(manifest: dict[str, Any]) -> None:
    """What a store says of how it came to be: shown, and taken up by what changes it."""
    said = {k: manifest.get(k) or {} for k in ("heldout", "sources", "vocabulary", "columns", "summary")}
    for name, value in said.items():
        _member(isinstance(value, dict), name)
    heldout, sources, vocabulary = said["heldout"], said["sources"], said["vocabulary"]
    _member(_count(manifest.get("generation", 1)), "generation")
    _member(isinstance(heldout.get("asked", ""), str), "heldout.asked")
    threshold = heldout.get("threshold", "0x" + 16 * "0")
    _member(isinstance(threshold, str) and re.fullmatch(r"0x[0-9a-f]{16}", threshold) is not None, "heldout.threshold")
    _member(_count(sources.get("count", 0)) and _texts(sources.get("first", [])), "sources")
    _member(isinstance(vocabulary.get("hash", ""), str) and _texts(vocabulary.get("dropped", [])), "vocabulary")
    for name, kind in said["columns"].items():
        _member(kind in ("list", "string"), f"columns.{name}")
    for name, value in said["summary"].items():
        counted = name in _COUNTED
        _member(_amount(value) if counted else value is None or isinstance(value, (str, int, float, dict)), f"summary.{name}")


_COUNTED = ("documents_empty", "documents_removed", "words_before", "words_pruned", "tokens_pruned")


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


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
    part = name.rpartition(".")[2]
    _member(re.fullmatch(rf"{part}(-[1-9]\d{{0,8}})?", entry.get("folder", part)) is not None, f"{name}.folder")
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
    for total in ("docs", "cells", "tokens"):
        left = sum(b[total] - (b.get("removed", {}).get(total, 0) if total != "docs" else 0) for b in entry["blocks"])
        _member(abs(left - entry[total]) <= 1e-9 * abs(left), f"{total} of {name}")


_OF_LINKS = ("given", "training", "heldout", "dangling", "self", "repeats", "between_heldout")
_AXIS = re.compile(r"(authors|labels|links)(-[0-9]{4,10})?")


def _axis(entry: dict[str, Any], name: str) -> None:
    """One axis (corpus/axis_build.py): a plain folder, chunks of possible sizes."""
    what = f"axes.{name}"
    folder, slash, last = entry["folder"].partition("/")
    _member(folder == "axes" and slash == "/" and _AXIS.fullmatch(last) is not None and last.startswith(name), what)
    _member(_count(entry["size"]) and entry["size"] < 1 << 31 and _count(entry["gone"]), what)
    if name == "links":
        _member(isinstance(entry["fingerprint"], str) and set(_OF_LINKS) <= set(entry["figures"]), what)
        _member(all(map(_count, entry["figures"].values())), what)
    else:
        _file(entry["names"], what)
    for part in PARTS:
        row = total = 0
        for block in entry["parts"][part]["blocks"]:
            first, last = block["rows"]
            _member(_count(first) and _count(last) and first == row and last > first, what)
            row, rows = last, last - first
            entries, longest = block["entries"], block["longest"]
            _member(_count(entries) and _count(longest) and longest <= entries <= rows * CELLS, what)
            _member(_count(block["of"]) and (rows == 1 or entries > (rows - 1) * CELLS), what)
            for kind in ("lengths", "ids"):
                _chunks(block["files"][kind], rows, what)
            total += entries
        _member(entry["parts"][part]["rows"] == row and entry["parts"][part]["entries"] == total, what)


def _chunks(chunks: list[Any], rows: int, what: str) -> None:
    _member(len(chunks) == rows, what)
    for size, crc in chunks:
        _member(_count(size) and 4 < size <= 1 << 30 and _count(crc), what)


def _file(entry: dict[str, Any], name: str) -> None:
    file = entry["file"]
    _member(isinstance(file, str) and file != "", name)
    _member(not PurePosixPath(file).is_absolute() and ".." not in PurePosixPath(file).parts and file.isprintable(), name)
    if "crc32c" in entry:
        _member(_count(entry["crc32c"]) and _count(entry["size"]), name)
