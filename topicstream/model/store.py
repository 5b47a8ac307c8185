"""A model on disk: ``manifest.json``, ``vocab.parquet`` and ``topics``, a Zarr v3 array float32[W, K] with word rows.

The array's chunks hold whole rows (about 1 MiB), Blosc lz4 with byte shuffle, then crc32c.  Stock zarr opens it; our own
reader gathers rows without it.  The array's attributes hold ``alpha`` [K], ``beta``, ``totals`` [K] (column sums) and
``chunks``: size and crc32c of every chunk file.  The manifest holds the checksums of ``vocab.parquet`` and of the
array's ``zarr.json``, so every byte hangs on the manifest, which is replaced last, in one rename.

Some engines store more tables (authors x topics): ``table-NAME``, arrays of the same kind, with the names of their rows in
``names-NAME.parquet``; the manifest lists them under ``tables``.

A save over an older model writes beside it (``topics-2``, ``vocab-2.parquet``), then the manifest, then deletes the old;
the manifest names the two in use.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.errors import NotOurs, StoreError
from topicstream.files import owned
from topicstream.files.durable import read_json, read_sealed, sync_file, sync_folder, write_json
from topicstream.files.ownership import claim, temporary
from topicstream.files.parquet import read_words
from topicstream.files.plain import open_plain
from topicstream.model.arrays import UNFIT, ArrayWriter, ChunkedRows
from topicstream.model.manifest import count, odd_member
from topicstream.model.vocabulary import Vocabulary

SCHEMA = 1
TOPICS = ("topics", "topics-2")
VOCABS = ("vocab.parquet", "vocab-2.parquet")
MEASURED = ("running_perplexity", "train_perplexity", "heldout_perplexity", "cells_per_second", "seconds", "rss_peak_bytes")
NAME = r"[a-z]{1,20}"  # of a table beside the topics


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """The manifest of a model folder; StoreError (one line) when there is none, or of another kind or version."""
    folder = Path(folder)
    if not (folder / "manifest.json").exists():
        raise StoreError(f"{folder}: no model here (no manifest.json); make one with `topics train --model {folder}`")
    manifest = read_json(folder / "manifest.json")
    if not isinstance(manifest, dict) or manifest.get("kind") != "model":
        raise StoreError(f"{folder}/manifest.json: not the manifest of a model")
    if manifest.get("schema") != SCHEMA:
        raise StoreError(
            f"{folder}: model of schema {manifest.get('schema')}, this version reads {SCHEMA}; train again"
        )
    try:
        files, sizes = manifest["files"], (int(manifest["words"]), int(manifest["topics"]))
        known = all(isinstance(manifest[n], int) and manifest[n] < 1 << 31 for n in ("words", "topics"))
        known = known and files["topics"]["name"] in TOPICS and files["vocab"]["name"] in VOCABS
        known = known and all(isinstance(files[kind]["crc32c"], int) for kind in ("topics", "vocab"))
    except UNFIT:
        known, sizes = False, (0, 0)
    if not known or min(sizes) < 1:
        raise StoreError(f"{folder}/manifest.json: incomplete; the file is damaged, restore it")
    if (name := odd_member(manifest)) is not None:
        raise StoreError(f"{folder}/manifest.json: {name} is not what it must be; the file is damaged, restore it")
    return manifest


def read_history(folder: str | Path, *, verify: bool = False) -> list[dict[str, Any]]:
    """The lines of ``history.jsonl``, one a pass; a last line cut short by a kill is left out, and so is a damaged one
    (``verify``: StoreError that names it)."""
    records, damaged = read_sealed(Path(folder) / "history.jsonl")
    if damaged and verify:
        raise StoreError(damaged[0].replace("this line is left out", "restore the file"))
    return [as_named_now(a_pass(record, folder)) for record in records]


def a_pass(record: dict[str, Any], folder: str | Path) -> dict[str, Any]:
    """The record, which says a pass and numbers of it; StoreError otherwise."""
    odd = [k for k in MEASURED if not (record.get(k) is None or count(record[k]) or isinstance(record[k], float))]
    if odd or not count(record.get("pass")):
        raise StoreError(f"{folder}/history.jsonl: a line whose {(odd or ['pass'])[0]} is no number; restore the file")
    return record


def as_named_now(record: dict[str, Any]) -> dict[str, Any]:
    """A line of a history with the names of today: ``running_perplexity`` was called ``train_perplexity``."""
    return {"running_perplexity" if k == "train_perplexity" else k: v for k, v in record.items()}


def file_crc(path: Path) -> int:
    """crc32c of a file's bytes; StoreError when it is missing."""
    crc = google_crc32c.Checksum()
    try:
        with open(open_plain(path), "rb") as f:
            while data := f.read(1 << 20):
                crc.update(data)
    except FileNotFoundError:
        raise StoreError(f"{path}: not found; restore the file or train again") from None
    return int.from_bytes(crc.digest(), "big")


def check_file(folder: Path, entry: dict[str, Any], name: str) -> Path:
    """The path of a file whose checksum the manifest holds, verified."""
    path = folder / name
    if file_crc(path) != entry.get("crc32c"):
        raise StoreError(f"{path}: does not match its checksum; restore the file or train again")
    return path


class ModelWriter:
    """Writes a model's tables row by row, in order, then commits them as one: for tables that live on disk.

    ``write_rows(start, rows)`` takes the topics' rows, float [n, >= K] (padding columns are dropped), ``add_table`` opens
    another table; ``commit(manifest)`` makes the model visible.  Leaving the ``with`` block without a commit deletes what
    was written.  The caller holds the folder's lock (``durable.lock``) where others may write.
    """

    def __init__(self, path: str | Path, words: int, topics: int) -> None:
        if words < 1 or topics < 1:
            raise ValueError(f"a model needs words and topics, not {words} and {topics}")
        self.path, self.words, self.topics = Path(path), words, topics
        claim(self.path, "model")
        self._old = read_manifest(self.path) if (self.path / "manifest.json").exists() else None
        in_use = self._old["files"]["topics"]["name"] if self._old else None
        self._main = ArrayWriter(self.path / next(n for n in TOPICS if n != in_use), words, topics)
        self._others: dict[str, tuple[ArrayWriter, str, dict[str, Any] | None]] = {}
        self._committed = False

    @property
    def totals(self) -> np.ndarray:
        """Column sums of the topics, float64[K]."""
        return self._main.totals

    def __enter__(self) -> ModelWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._committed:
            for writer in [self._main, *(other[0] for other in self._others.values())]:
                writer.discard()

    def write_rows(self, start: int, rows: np.ndarray) -> None:
        """The next rows of the topics; ``start`` must be the number of rows written so far."""
        self._main.write_rows(start, rows)

    def add_table(
        self, name: str, rows: int, columns: int, axis: str = "", names: Iterable[pa.Array] | None = None
    ) -> ArrayWriter:
        """A table beside the topics (an author's topics, ...), to be written row by row; axis: what its rows are; names:
        their names in order, piece by piece, which go into a Parquet file of the model."""
        if not re.fullmatch(NAME, name):
            raise ValueError(f"{name!r} is no name for a table: small letters only")
        old = ((self._old or {}).get("tables") or {}).get(name) or {}
        folder = next(n for n in _both(f"table-{name}") if n != old.get("name"))
        entry = None
        if names is not None:
            file = next(n for n in _both(f"names-{name}", ".parquet") if n != (old.get("names") or {}).get("name"))
            entry = self._write_names(file, names)
        writer = ArrayWriter(self.path / folder, rows, columns)
        self._others[name] = writer, axis, entry
        return writer

    def _write_names(self, file: str, names: Iterable[pa.Array]) -> dict[str, Any]:
        beside, schema = temporary(self.path / "names"), pa.schema([("name", pa.large_string())])
        with pq.ParquetWriter(beside, schema, compression="zstd") as writer:
            for piece in names:
                writer.write_table(pa.table([piece.cast(pa.large_string())], schema=schema))
        sync_file(beside)
        owned.replace(beside, self.path / file)
        return {"name": file, "crc32c": file_crc(self.path / file)}

    def commit(self, manifest: dict[str, Any], vocabulary: Vocabulary, alpha: Any, beta: float) -> dict[str, Any]:
        """Sync everything, then replace the manifest; returns it.

        manifest  plain JSON values: engine, cites, options, seed, corpus, tokenizer, passes, created, ...; what this
                  module adds: schema, kind, words, topics, alpha_sum, beta, vocab_sha256, files, tables
        alpha     [K] per topic (a scalar is spread)
        """
        if self._main.done != self.words or len(vocabulary) != self.words:
            raise ValueError(f"{self._main.done} rows and {len(vocabulary)} words given for a model of {self.words}")
        alpha = np.broadcast_to(np.asarray(alpha, np.float64), (self.topics,))
        if not (np.isfinite(self.totals).all() and np.isfinite(alpha).all() and np.isfinite(beta)):
            raise ValueError("a model with NaN or infinite numbers is not written")
        self._main.finish(("word", "topic"), {"alpha": [float(a) for a in alpha], "beta": float(beta)})
        tables = {}
        for name, (writer, axis, names) in self._others.items():
            writer.finish((axis or "row", "column"), {})
            crc = file_crc(writer.folder / "zarr.json")
            sizes = {"rows": writer.n_rows, "columns": writer.columns, "axis": axis}
            tables[name] = {"name": writer.folder.name, "crc32c": crc, **sizes, "names": names}
        vocab_entry = self._write_vocabulary(vocabulary)
        sync_folder(self.path)
        full = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            **manifest,
            "schema": SCHEMA,
            "kind": "model",
            "words": self.words,
            "topics": self.topics,
            "alpha": float(alpha[0]) if np.all(alpha == alpha[0]) else alpha.tolist(),
            "alpha_sum": float(alpha.sum()),
            "beta": float(beta),
            "vocab_sha256": vocabulary.sha256,
            "files": {
                "topics": {"name": self._main.folder.name, "crc32c": file_crc(self._main.folder / "zarr.json")},
                "vocab": vocab_entry,
            },
        }
        full.pop("tables", None)  # of the model that this one was made from
        if tables:
            full["tables"] = tables
        write_json(self.path / "manifest.json", full)
        self._committed = True
        self._sweep(full)
        return full

    def _write_vocabulary(self, vocabulary: Vocabulary) -> dict[str, Any]:
        in_use = self._old["files"]["vocab"]["name"] if self._old else None
        beside = temporary(self.path / "vocab")
        vocabulary.write(beside)
        crc = file_crc(beside)
        if self._old and in_use and crc == self._old["files"]["vocab"]["crc32c"]:
            with contextlib.suppress(StoreError):
                if file_crc(self.path / in_use) == crc:
                    owned.remove_file(beside)
                    return {"name": in_use, "crc32c": crc}
        name = next(n for n in VOCABS if n != in_use)
        sync_file(beside)
        owned.replace(beside, self.path / name)
        return {"name": name, "crc32c": crc}

    def _sweep(self, manifest: dict[str, Any]) -> None:
        tables = manifest.get("tables", {})
        used = {manifest["files"]["topics"]["name"], *(t["name"] for t in tables.values())}
        files = {manifest["files"]["vocab"]["name"], *(t["names"]["name"] for t in tables.values() if t["names"])}
        before = (self._old or {}).get("tables") or {}
        for name in [*TOPICS, *(n for table in before for n in _both(f"table-{table}"))]:
            if name not in used:
                with contextlib.suppress(OSError, NotOurs):
                    owned.remove(self.path / name, "topics")
        for name in [*VOCABS, *(n for table in before for n in _both(f"names-{table}", ".parquet"))]:
            if name not in files:
                owned.discard(self.path / name)
        owned.sweep(self.path, ".vocab.*.tmp", ".names.*.tmp", ".manifest.json.*.tmp")  # of a save that was killed


def drop_tables(folder: str | Path, axis: str) -> list[str]:
    """Take the tables over an axis out of a model (``documents``: their topics) and remove their files; the names of those
    that were there.  Who reads such a table later is told that the model has none."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    tables = manifest.get("tables") or {}
    gone = [name for name, entry in tables.items() if entry.get("axis") == axis]
    if gone:
        kept = {name: entry for name, entry in tables.items() if name not in gone}
        write_json(folder / "manifest.json", {**manifest, "tables": kept})
    for place in (n for name in gone for n in _both(f"table-{name}")):
        if (folder / place).exists():
            claim(folder / place, "topics")
            owned.remove(folder / place, "topics")
    if gone:
        sync_folder(folder)
    return gone


def _both(name: str, suffix: str = "") -> tuple[str, str]:
    """The two names that a file or folder of a model takes in turn."""
    return f"{name}{suffix}", f"{name}-2{suffix}"


class StoredTable:
    """A table of a model beside the topics.  rows: its numbers; names: pyarrow.LargeStringArray[rows] of what the rows are,
    or None; axis: their kind; totals float64[columns]."""

    def __init__(self, folder: str | Path, manifest: dict[str, Any], name: str) -> None:
        folder, entry = Path(folder), (manifest.get("tables") or {}).get(name)
        if entry is None:
            there = ", ".join(manifest.get("tables") or {}) or "only topics"
            raise StoreError(f"{folder}: this model ({manifest.get('engine')}) has no table of {name}; it has {there}")
        try:
            folders, files = _both(f"table-{name}"), _both(f"names-{name}", ".parquet")
            n_rows, columns, self.axis = int(entry["rows"]), int(entry["columns"]), str(entry["axis"])
            names = entry["names"]
            known = entry["name"] in folders and (names is None or names["name"] in files) and min(n_rows, columns) >= 0
        except UNFIT:
            known = False
        if not known:
            raise StoreError(f"{folder}/manifest.json: incomplete (table {name}); the file is damaged, restore it")
        meta = read_json(check_file(folder, entry, f"{entry['name']}/zarr.json"))
        try:
            step = int(meta["chunk_grid"]["configuration"]["chunk_shape"][0])
            self.rows = ChunkedRows(
                folder / entry["name"], n_rows, columns, step, meta["attributes"]["chunks"], counts=False
            )
            self.totals = np.array(meta["attributes"]["totals"], np.float64)
            fits = list(meta["shape"]) == [n_rows, columns] and self.totals.shape == (columns,)
        except UNFIT as e:
            raise StoreError(f"{folder}/{entry['name']}/zarr.json: incomplete ({e!r}); restore the file") from None
        if not fits:
            raise StoreError(f"{folder}/{entry['name']}/zarr.json: shape disagrees with the manifest; restore the file")
        self.n_rows, self.columns, self.names = n_rows, columns, None
        if names is not None:
            found = read_words(check_file(folder, names, names["name"]), ["name"])
            if len(found) != n_rows:
                raise StoreError(f"{folder}/{names['name']}: {len(found)} names for {n_rows} rows")
            self.names = found["name"].combine_chunks()

    def gather(self, ids: np.ndarray) -> np.ndarray:
        """Rows of these ids (any order), float32[n, columns]."""
        out = np.empty((len(ids), self.columns), np.float32)
        self.rows.gather(np.asarray(ids), out)
        return out
