"""A model on disk: ``manifest.json``, ``vocab.parquet`` and ``topics``.

``topics`` is a Zarr v3 array float32[W, K] with a row for each word. The array's attributes hold
``alpha`` [K], ``beta``, ``totals`` [K] (column sums) and ``chunks``: size and crc32c of every chunk
file (arrays.py). The manifest holds the checksums of ``vocab.parquet`` and of the array's
``zarr.json``, so every byte hangs on the manifest, which is replaced last, in one rename.

Some engines store more tables (names x topics): ``table-NAME``, arrays of the same kind, with the
names of their rows in ``names-NAME.parquet``; the manifest lists them under ``tables``.

A save over an older model writes beside it (``topics-2``, ``vocab-2.parquet``), then the manifest,
then deletes the old; the manifest names the two in use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from topicstream.base.errors import StoreError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import read_sealed, replacing, size_and_crc, sync
from topicstream.base.files.openings import explain_damage
from topicstream.base.files.ownership import claim
from topicstream.base.files.plain import open_table
from topicstream.base.records import Count, Record, decode_record
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.model.arrays import ArrayWriter, StoredArray
from topicstream.model.manifest import (
    EDITS,
    IDS,
    TOPICS,
    VOCABS,
    FileEntry,
    ModelFiles,
    ModelManifest,
    Origin,
    TableEntry,
    alternating_names,
    origin_of,
    read_manifest,
    write_manifest,
)


class _Pass(Record):
    """The required members of a line of ``history.jsonl``, which may have more."""

    number: Count = msgspec.field(name="pass")
    running_perplexity: float | None = None
    heldout_perplexity: float | None = None
    cells_per_second: float | None = None
    seconds: float | None = None
    rss_peak_bytes: float | None = None


def read_history(folder: str | Path, *, verify: bool = False) -> list[dict[str, Any]]:
    """Return the lines of ``history.jsonl``, one a pass.

    Damaged lines, and a last line that a kill cut short, are left out.

    Raises
    ------
    StoreError
        A line is damaged and ``verify`` is set.
    """
    records, damaged = read_sealed(Path(folder) / "history.jsonl")
    if damaged and verify:
        raise StoreError(damaged[0].replace("this line is left out", "restore the file"))
    return [check_history_line(record, folder) for record in records]


def check_history_line(record: dict[str, Any], folder: str | Path) -> dict[str, Any]:
    """Check a line of a history.

    Raises
    ------
    StoreError
        If it lacks a required member.
    """
    decode_record(record, _Pass, f"{folder}/history.jsonl")
    return record


def check_file(folder: Path, entry: FileEntry) -> Path:
    """Verify the checksum of a file that the manifest lists, and return its path.

    Raises
    ------
    StoreError
        If it does not match.
    """
    path = folder / entry.name
    if size_and_crc(path)[1] != entry.crc32c:
        raise explain_damage(
            f"{path}: does not match its checksum; restore the file or train again"
        )
    return path


class ModelWriter:
    """Writer of a model's tables, row by row, committed as one.

    ``write_rows(start, rows)`` takes the topics' rows, float [n, >= K] (padding columns are
    dropped), and ``add_table`` opens another table. ``commit(origin)`` makes the model visible.
    Leaving the ``with`` block without a commit deletes the new files. The caller holds the folder's
    lock (``durable.lock``) where others may write.

    Parameters
    ----------
    path
        Folder of the model. An older model there stays until the commit.
    words, topics
        Size of the topics' table.
    """

    def __init__(self, path: str | Path, words: int, topics: int) -> None:
        if words < 1 or topics < 1:
            raise ValueError(f"a model needs words and topics, not {words} and {topics}")
        self.path = Path(path)
        self.words = words
        self.topics = topics
        claim(self.path, "model")
        self._old = read_manifest(self.path) if (self.path / "manifest.json").exists() else None
        in_use = None if self._old is None else self._old.files.topics
        self._main = ArrayWriter(self.path / _unused_name(TOPICS, in_use), words, topics)
        self._tables: dict[str, tuple[ArrayWriter, str, FileEntry | None]] = {}
        self._committed = False

    @property
    def totals(self) -> np.ndarray:
        """Return the column sums of the topics, float64[K]."""
        return self._main.totals

    def __enter__(self) -> ModelWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._committed:
            self._main.discard()
            for table in self._tables.values():
                table[0].discard()

    def write_rows(self, start: int, rows: np.ndarray) -> None:
        """Write the next rows of the topics.

        ``start`` must be the number of rows written so far.
        """
        self._main.write_rows(start, rows)

    def add_table(
        self,
        name: str,
        rows: int,
        columns: int,
        axis: str = "",
        names: Iterable[pa.Array] | None = None,
    ) -> ArrayWriter:
        """Open a table beside the topics, such as an author's topics, for writing.

        Parameters
        ----------
        name
            Its name in the manifest.
        rows, columns
            Its size.
        axis
            Axis of its rows.
        names
            Names of the rows in order, in pieces. They go into a Parquet file of the model.
        """
        old = self._old.tables.get(name) if self._old is not None else None
        entry = None
        if names is not None:
            old_names = None if old is None else old.names
            file = _unused_name(alternating_names(f"names-{name}", ".parquet"), old_names)
            entry = self._write_names(file, names)
        folder = self.path / _unused_name(alternating_names(f"table-{name}"), old)
        writer = ArrayWriter(folder, rows, columns)
        self._tables[name] = (writer, axis, entry)
        return writer

    def _write_names(self, file: str, names: Iterable[pa.Array]) -> FileEntry:
        """Write names of rows to a Parquet file."""
        schema = pa.schema([("name", pa.large_string())])
        with (
            replacing(self.path / file) as beside,
            pq.ParquetWriter(beside, schema, compression="zstd") as writer,
        ):
            for piece in names:
                writer.write_table(pa.table([piece.cast(pa.large_string())], schema=schema))
        return FileEntry(name=file, crc32c=size_and_crc(self.path / file)[1])

    def commit(
        self, origin: Origin, vocabulary: Vocabulary, alpha: ArrayLike, beta: float
    ) -> ModelManifest:
        """Sync everything, then replace the manifest and return it.

        Parameters
        ----------
        origin
            Origin of the model. Its ``created`` defaults to now.
        alpha
            [K] per topic, or a number for all.
        """
        if self._main.rows_written != self.words or len(vocabulary) != self.words:
            raise ValueError(
                f"{self._main.rows_written} rows and {len(vocabulary)} words given for a model of "
                f"{self.words}"
            )
        alpha = np.broadcast_to(np.asarray(alpha, np.float64), (self.topics,))
        if not (np.isfinite(self.totals).all() and np.isfinite(alpha).all() and np.isfinite(beta)):
            raise ValueError("a model with NaN or infinite numbers is not written")
        crc = self._main.finish(("word", "topic"), {"alpha": alpha.tolist(), "beta": float(beta)})
        tables = {}
        for name, (writer, axis, names) in self._tables.items():
            tables[name] = TableEntry(
                name=writer.folder.name,
                crc32c=writer.finish((axis or "row", "column"), {}),
                rows=writer.n_rows,
                columns=writer.columns,
                axis=axis,
                names=names,
            )
        vocab = self._write_vocabulary(vocabulary)
        sync(self.path)
        created = origin.created or datetime.now(UTC).isoformat(timespec="seconds")
        manifest = ModelManifest(
            **msgspec.structs.asdict(origin_of(origin, tables=tables, created=created)),
            schema=1,
            kind="model",
            words=self.words,
            topics=self.topics,
            alpha=float(alpha[0]) if np.all(alpha == alpha[0]) else alpha.tolist(),
            alpha_sum=float(alpha.sum()),
            beta=float(beta),
            vocab_sha256=vocabulary.sha256,
            files=ModelFiles(
                topics=FileEntry(name=self._main.folder.name, crc32c=crc), vocab=vocab
            ),
        )
        if self._old is not None and not _continues(self._old, manifest):
            for name in (EDITS, IDS):  # they are of topics that the folder no longer holds
                owned.discard(self.path / name)
        write_manifest(self.path, manifest)
        self._committed = True
        self._sweep(manifest)
        return manifest

    def _write_vocabulary(self, vocabulary: Vocabulary) -> FileEntry:
        """Write the vocabulary, unless the older model's file holds the same."""
        old = self._old.files.vocab if self._old is not None else None
        name = _unused_name(VOCABS, old)
        vocabulary.write(self.path / name)
        crc = size_and_crc(self.path / name)[1]
        if old is not None and crc == old.crc32c:
            with contextlib.suppress(StoreError):
                check_file(self.path, old)
                return old
        return FileEntry(name=name, crc32c=crc)

    def _sweep(self, manifest: ModelManifest) -> None:
        """Remove files that only the old manifest names, and those of a killed save."""
        used = {entry.name for entry in files_of(manifest)}
        old = [] if self._old is None else [entry.name for entry in files_of(self._old)]
        for path in (self.path / name for name in {*TOPICS, *VOCABS, *old} - used):
            if path.suffix:
                owned.discard(path)
            else:
                owned.remove_within(path)
        owned.sweep(self.path)


def _continues(old: ModelManifest, new: ModelManifest) -> bool:
    """Tell whether a model has the topics of the one that it replaces.

    It does as a copy, or as the same run after more passes.
    """
    if old.files.topics.crc32c == new.files.topics.crc32c:
        return True
    if old.engine in (None, "imported") or (old.topics, old.words) != (new.topics, new.words):
        return False
    alike = ("engine", "options", "seed", "start", "sample", "weighting", "seed_words")
    is_same_run = all(getattr(old, name) == getattr(new, name) for name in alike)
    same_corpus = old.corpus.fingerprint == new.corpus.fingerprint
    return is_same_run and same_corpus and (new.passes or 0) > (old.passes or 0)


def drop_tables(folder: str | Path, axis: str) -> list[str]:
    """Remove the tables over an axis from a model, and their files.

    The axis ``documents`` holds the documents' topics.

    Returns
    -------
    list of str
        Names of the removed tables.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    dropped = {name: entry for name, entry in manifest.tables.items() if entry.axis == axis}
    if not dropped:
        return []
    remaining = {name: entry for name, entry in manifest.tables.items() if name not in dropped}
    write_manifest(folder, msgspec.structs.replace(manifest, tables=remaining))
    for table in dropped:
        for name in alternating_names(f"table-{table}"):
            owned.remove_within(folder / name)
    sync(folder)
    return list(dropped)


def _unused_name(names: tuple[str, str], in_use: FileEntry | TableEntry | None) -> str:
    """Return the first of two names that the older model does not use."""
    return next(n for n in names if in_use is None or n != in_use.name)


def files_of(manifest: ModelManifest) -> list[FileEntry | TableEntry]:
    """List all files and arrays that a manifest names."""
    tables = manifest.tables.values()
    names = [table.names for table in tables if table.names is not None]
    return [manifest.files.topics, manifest.files.vocab, *tables, *names]


class StoredTable(StoredArray):
    """A table of a model beside the topics.

    Attributes
    ----------
    axis
        The axis of its rows.
    names
        pyarrow.LargeStringArray[rows], names of the rows, or None.
    """

    def __init__(self, folder: str | Path, manifest: Origin, name: str) -> None:
        folder = Path(folder)
        entry = manifest.tables.get(name)
        if entry is None:
            names = ", ".join(manifest.tables) or "only topics"
            raise StoreError(
                f"{folder}: this model ({manifest.engine}) has no table of {name}; it has {names}"
            )
        super().__init__(folder / entry.name, entry.crc32c, (entry.rows, entry.columns))
        self.axis = entry.axis
        self.names = None
        if entry.names is not None:
            with open_table(check_file(folder, entry.names)) as file:
                self.names = file.read(columns=["name"])["name"].combine_chunks()
            if len(self.names) != entry.rows:
                raise StoreError(
                    f"{folder}/{entry.names.name}: {len(self.names)} names for {entry.rows} rows"
                )
