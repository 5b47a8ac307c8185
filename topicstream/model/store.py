"""A model on disk: ``manifest.json``, ``vocab.parquet`` and ``topics``, a Zarr v3 array float32[W, K] with word rows.

The array's chunks hold whole rows (about 1 MiB), Blosc lz4 with byte shuffle, then crc32c.  Stock zarr opens it; our own
reader gathers rows without it.  The array's attributes hold ``alpha`` [K], ``beta``, ``totals`` [K] (column sums) and
``chunks``: size and crc32c of every chunk file.  The manifest holds the checksums of ``vocab.parquet`` and of the
array's ``zarr.json``, so every byte hangs on the manifest, which is replaced last, in one rename.

A save over an older model writes beside it (``topics-2``, ``vocab-2.parquet``), then the manifest, then deletes the old;
the manifest names the two in use.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import google_crc32c
import numcodecs.blosc
import numpy as np

from topicstream.durable import read_json, read_sealed, sync_file, sync_folder, write_json
from topicstream.errors import StoreError
from topicstream.model.vocabulary import Vocabulary

SCHEMA = 1
CHUNK_BYTES = 1 << 20
TOPICS = ("topics", "topics-2")
VOCABS = ("vocab.parquet", "vocab-2.parquet")

numcodecs.blosc.use_threads = False


def chunk_rows(topics: int) -> int:
    """Rows of a chunk: about 1 MiB."""
    return max(1, CHUNK_BYTES // (4 * topics))


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
        known = files["topics"]["name"] in TOPICS and files["vocab"]["name"] in VOCABS
        known = known and all(isinstance(files[kind]["crc32c"], int) for kind in ("topics", "vocab"))
    except (KeyError, TypeError, ValueError):
        known, sizes = False, (0, 0)
    if not known or min(sizes) < 1:
        raise StoreError(f"{folder}/manifest.json: incomplete; the file is damaged, restore it")
    return manifest


def read_history(folder: str | Path, *, verify: bool = False) -> list[dict[str, Any]]:
    """The lines of ``history.jsonl``, one a pass; a last line cut short by a kill is left out, and so is a damaged one
    (``verify``: StoreError that names it)."""
    records, damaged = read_sealed(Path(folder) / "history.jsonl")
    if damaged and verify:
        raise StoreError(damaged[0].replace("this line is left out", "restore the file"))
    return records


def file_crc(path: Path) -> int:
    """crc32c of a file's bytes; StoreError when it is missing."""
    crc = google_crc32c.Checksum()
    try:
        with open(path, "rb") as f:
            while data := f.read(1 << 20):
                crc.update(data)
    except FileNotFoundError:
        raise StoreError(f"{path}: not found; restore the file or train again") from None
    return int.from_bytes(crc.digest(), "big")


def check_file(folder: Path, entry: dict[str, Any], name: str) -> Path:
    """The path of a file whose checksum the manifest holds, verified."""
    path = folder / name
    if file_crc(path) != entry["crc32c"]:
        raise StoreError(f"{path}: does not match its checksum; restore the file or train again")
    return path


class ChunkedRows:
    """Rows of the ``topics`` array straight from its chunk files, each chunk verified and decoded once a call.

    Safe to use from several threads.
    """

    def __init__(self, folder: Path, words: int, topics: int, step: int, chunks: str) -> None:
        self.folder, self.words, self.topics, self.step = folder, words, topics, step
        pairs = [c.split(":") for c in chunks.split()]
        self._files = [(int(size), int(crc, 16)) for size, crc in pairs]
        if len(self._files) != -(-words // self.step):
            raise StoreError(f"{folder}/zarr.json: lists {len(self._files)} chunks for {words} words; restore the file")

    def chunk(self, number: int, out: np.ndarray | None = None) -> np.ndarray:
        """Rows ``number * step`` and on, float32[step, K]; rows past the vocabulary are zeros."""
        size, crc = self._files[number]
        path = self.folder / "c" / str(number) / "0"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise StoreError(f"{path}: this chunk of the topics is missing; restore the file or train again") from None
        body = data[:-4]
        if len(data) != size or google_crc32c.value(body) != crc or int.from_bytes(data[-4:], "little") != crc:
            raise StoreError(f"{path}: does not match its checksum; restore the file or train again")
        if out is None:
            out = np.empty((self.step, self.topics), np.float32)
        try:
            numcodecs.blosc.decompress(body, out)
        except (RuntimeError, ValueError) as e:
            raise StoreError(f"{path}: cannot be decoded ({e}); restore the file or train again") from None
        return out

    def spans(self) -> Iterator[tuple[int, np.ndarray]]:
        """(first word, float32[n, K]) over the whole table; the buffer is reused."""
        buffer = np.empty((self.step, self.topics), np.float32)
        for number in range(len(self._files)):
            start = number * self.step
            yield start, self.chunk(number, buffer)[: min(self.step, self.words - start)]

    def gather(self, ids: np.ndarray, out: np.ndarray) -> None:
        """Rows of ``ids`` (any order) into ``out[:, :K]``."""
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        edges = np.searchsorted(ordered, np.arange(len(self._files) + 1) * self.step)
        buffer = np.empty((self.step, self.topics), np.float32)
        for number in np.flatnonzero(np.diff(edges)):
            span = slice(edges[number], edges[number + 1])
            rows = self.chunk(int(number), buffer)
            out[order[span], : self.topics] = rows[ordered[span] - number * self.step]


class ModelWriter:
    """Writes a model's table row by row, in order, then commits it as one: for tables that live on disk.

    ``write_rows(start, rows)`` takes float rows [n, >= K] (padding columns are dropped); ``commit(manifest)`` makes the
    model visible.  Leaving the ``with`` block without a commit deletes what was written.  The caller holds the folder's
    lock (``durable.lock``) where others may write.
    """

    def __init__(self, path: str | Path, words: int, topics: int) -> None:
        if words < 1 or topics < 1:
            raise ValueError(f"a model needs words and topics, not {words} and {topics}")
        self.path, self.words, self.topics = Path(path), words, topics
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            self._old: dict[str, Any] | None = read_manifest(self.path)
        except StoreError:
            self._old = None
        in_use = self._old["files"]["topics"]["name"] if self._old else None
        self._name = next(n for n in TOPICS if n != in_use)
        self._folder = self.path / self._name
        shutil.rmtree(self._folder, ignore_errors=True)
        (self._folder / "c").mkdir(parents=True)
        self._step = chunk_rows(topics)
        self._buffer = np.zeros((self._step, topics), np.float32)
        self._done = 0  # rows taken
        self._chunks: list[str] = []
        self.totals = np.zeros(topics, np.float64)
        self._committed = False

    def __enter__(self) -> ModelWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._committed:
            shutil.rmtree(self._folder, ignore_errors=True)

    def write_rows(self, start: int, rows: np.ndarray) -> None:
        """The next rows; ``start`` must be the number of rows written so far."""
        if start != self._done or start + len(rows) > self.words:
            raise ValueError(f"rows {start}..{start + len(rows)} given where {self._done} of {self.words} are written")
        at = 0
        while at < len(rows):
            fill = self._done % self._step
            n = min(self._step - fill, len(rows) - at)
            self._buffer[fill : fill + n] = rows[at : at + n, : self.topics]
            at += n
            self._done += n
            if self._done % self._step == 0 or self._done == self.words:
                self._flush()

    def _flush(self) -> None:
        used = (self._done - 1) % self._step + 1
        self._buffer[used:] = 0
        self.totals += self._buffer.sum(axis=0, dtype=np.float64)
        body = bytes(numcodecs.blosc.compress(self._buffer, b"lz4", 1, numcodecs.blosc.SHUFFLE))
        crc = int(google_crc32c.value(body))
        file = self._folder / "c" / str(len(self._chunks)) / "0"
        file.parent.mkdir()
        file.write_bytes(body + crc.to_bytes(4, "little"))
        self._chunks.append(f"{len(body) + 4}:{crc:08x}")

    def _write_metadata(self, alpha: np.ndarray, beta: float) -> None:
        import zarr
        from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec

        zarr.create_array(
            str(self._folder),
            shape=(self.words, self.topics),
            chunks=(self._step, self.topics),
            dtype="float32",
            fill_value=0,
            serializer=BytesCodec(endian="little"),
            compressors=[BloscCodec(cname="lz4", clevel=1, shuffle="shuffle", typesize=4), Crc32cCodec()],
            dimension_names=("word", "topic"),
            zarr_format=3,
            attributes={
                "alpha": [float(a) for a in alpha],
                "beta": float(beta),
                "totals": [float(t) for t in self.totals],
                "chunks": " ".join(self._chunks),
            },
        )

    def commit(self, manifest: dict[str, Any], vocabulary: Vocabulary, alpha: Any, beta: float) -> dict[str, Any]:
        """Sync everything, then replace the manifest; returns it.

        manifest  plain JSON values: engine, cites, options, seed, corpus, tokenizer, passes, created, ...; what this
                  module adds: schema, kind, words, topics, alpha_sum, beta, vocab_sha256, files
        alpha     [K] per topic (a scalar is spread)
        """
        if self._done != self.words or len(vocabulary) != self.words:
            raise ValueError(f"{self._done} rows and {len(vocabulary)} words given for a model of {self.words}")
        alpha = np.broadcast_to(np.asarray(alpha, np.float64), (self.topics,))
        if not (np.isfinite(self.totals).all() and np.isfinite(alpha).all() and np.isfinite(beta)):
            raise ValueError("a model with NaN or infinite numbers is not written")
        self._write_metadata(alpha, beta)
        vocab_entry = self._write_vocabulary(vocabulary)
        # one fsync a file of the table, once a commit
        for file in self._folder.rglob("0"):
            sync_file(file)
            sync_folder(file.parent)
        sync_file(self._folder / "zarr.json")
        sync_folder(self._folder / "c")
        sync_folder(self._folder)
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
                "topics": {"name": self._name, "crc32c": file_crc(self._folder / "zarr.json")},
                "vocab": vocab_entry,
            },
        }
        write_json(self.path / "manifest.json", full)
        self._committed = True
        self._sweep(full)
        return full

    def _write_vocabulary(self, vocabulary: Vocabulary) -> dict[str, Any]:
        in_use = self._old["files"]["vocab"]["name"] if self._old else None
        beside = self.path / f".vocab.{os.getpid()}.tmp"
        vocabulary.write(beside)
        crc = file_crc(beside)
        if self._old and in_use and crc == self._old["files"]["vocab"]["crc32c"]:
            with contextlib.suppress(StoreError):
                if file_crc(self.path / in_use) == crc:
                    os.unlink(beside)
                    return {"name": in_use, "crc32c": crc}
        name = next(n for n in VOCABS if n != in_use)
        sync_file(beside)
        os.replace(beside, self.path / name)
        return {"name": name, "crc32c": crc}

    def _sweep(self, manifest: dict[str, Any]) -> None:
        for name in TOPICS:
            if name != manifest["files"]["topics"]["name"]:
                shutil.rmtree(self.path / name, ignore_errors=True)
        for name in VOCABS:
            if name != manifest["files"]["vocab"]["name"]:
                with contextlib.suppress(OSError):
                    os.unlink(self.path / name)
        for pattern in (".vocab.*.tmp", ".manifest.json.*.tmp"):  # of a save that was killed
            for stray in self.path.glob(pattern):
                with contextlib.suppress(OSError):
                    os.unlink(stray)
