"""The axes of a corpus: kinds of rows that its documents point to.

``words`` always; ``authors``, ``labels`` and ``links`` (training documents) where the input had them.  A store made before
there were axes gets them on first need, in one step, under the writer's lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.corpus.documents import read_documents
from topicstream.corpus.format import PARTS
from topicstream.errors import StoreError
from topicstream.files.durable import file_problem, lock, read_json, write_json
from topicstream.files.parquet import batches

if TYPE_CHECKING:
    from topicstream.corpus.reader import Corpus

MEMORY = 64 << 20
"""Bytes that may be taken to sort names and links when a store gets its axes on first need."""


class Axis:
    """One axis of a corpus.  Ids are 0 .. size - 1; those that there are stay as they are when documents are appended.

    name     words, authors, labels or links
    size     number of ids; of ``links`` the documents of the training part (ids are their numbers)
    entries  ids that all training documents have together (cells, of words)
    longest  most ids of one training document (0: not known, of words)
    figures  what became of the links of the input: given, training, heldout (pairs), dangling, self, repeats,
             between_heldout; empty for other axes
    """

    def __init__(self, corpus: Corpus, name: str, entry: dict[str, Any] | None) -> None:
        self._corpus, self._entry, self.name = corpus, entry, name
        self.figures: dict[str, int] = dict(entry.get("figures", {})) if entry is not None else {}
        if entry is None:
            self.size, self.entries, self.longest = corpus.n_words, corpus.n_cells, 0
        else:
            train = entry["parts"]["train"]
            self.size, self.entries = entry["size"], train["entries"]
            self.longest = max((b["longest"] for b in train["blocks"]), default=0)

    def __repr__(self) -> str:
        return f"Axis({self.name!r}, size={self.size:,}, entries={self.entries:,})"

    def names(self, first: int = 0, stop: int | None = None) -> pa.LargeStringArray:
        """The names of ids first .. stop - 1, as a slice (links: the ids of the documents); reads no more of the file than
        it must."""
        first, stop, _ = slice(first, stop).indices(self.size)
        pieces = self._document_ids(first, stop) if self.name == "links" else self._table(first, stop, 0)
        return pa.concat_arrays([pa.array([], pa.large_string()), *pieces])

    def docs(self) -> np.ndarray:
        """int64[size]: training documents that have each id (links: documents that each is linked with)."""
        if self._entry is not None and self.name == "links":
            return np.concatenate(
                [np.zeros(0, np.int64), *(self._corpus.ragged("links", b)[0] for b in range(len(self._blocks())))]
            ).astype(np.int64)
        return np.concatenate([np.zeros(0, np.int64), *(c.to_numpy() for c in self._table(0, self.size, 1))])

    def find(self, names: pa.Array) -> np.ndarray:
        """int64[]: the id of each name, -1 where there is none.  names: large_string without nulls; memory: one row group."""
        wanted = names.cast(pa.large_string())
        found = np.full(len(wanted), -1, np.int64)
        at = 0
        pieces = self._document_ids(0, self.size) if self.name == "links" else self._table(0, self.size, 0)
        for piece in pieces:
            here = pc.index_in(wanted, value_set=piece)
            there = here.is_valid().to_numpy(zero_copy_only=False)
            found[there] = here.drop_null().to_numpy() + at
            at += len(piece)
        return found

    def _blocks(self) -> list[dict[str, Any]]:
        return self._entry["parts"]["train"]["blocks"] if self._entry is not None else []

    def _table(self, first: int, stop: int, column: int) -> Iterator[pa.Array]:
        """Rows first .. stop - 1 of a column of the names: 0 the name, 1 the documents."""
        if self._entry is None:
            path, columns = self._corpus.file("vocab"), ("word", "df")
        else:
            path, columns = self._corpus.axis_file(self.name), ("name", "docs")
        try:
            at = 0
            for batch in batches(path, [columns[column]], 1 << 16):
                a, b = max(first - at, 0), min(stop - at, len(batch))
                if a < b:
                    yield batch.column(0).cast((pa.large_string(), pa.int64())[column]).slice(a, b - a)
                at += len(batch)
            if at != self.size:
                raise ValueError(f"{at} rows where the manifest says {self.size}")
        except FileNotFoundError:
            raise StoreError(f"{path}: missing; restore the file or ingest again") from None
        except (OSError, ValueError, KeyError, pa.ArrowException) as e:
            raise StoreError(f"{path}: cannot be read as names ({e}); restore the file") from None

    def _document_ids(self, first: int, stop: int) -> Iterator[pa.Array]:
        at = 0
        for batch in read_documents(self._corpus.path, self._corpus.manifest.get("docs", []), ["id", "part"]):
            ids = batch["id"].filter(pc.equal(batch["part"].cast(pa.string()), "train"))
            a, b = max(first - at, 0), min(stop - at, len(ids))
            if a < b:
                yield ids.slice(a, b - a)
            at += len(ids)
            if at >= stop:
                return


class Axes(Mapping[str, Axis]):
    """name -> Axis, ``words`` first."""

    def __init__(self, corpus: Corpus, entries: dict[str, Any]) -> None:
        self._axes = {"words": Axis(corpus, "words", None)}
        self._axes |= {name: Axis(corpus, name, entries[name]) for name in entries}

    def __getitem__(self, name: str) -> Axis:
        if name not in self._axes:
            raise StoreError(
                f"no axis {name!r} in this corpus, it has {', '.join(self._axes)}; ingest with --meta {name}"
            )
        return self._axes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._axes

    def __iter__(self) -> Iterator[str]:
        return iter(self._axes)

    def __len__(self) -> int:
        return len(self._axes)


def entries_of(corpus: Corpus) -> dict[str, Any]:
    """The manifest's axes, made now where the store has none or they are of other documents.  StoreError, Busy."""
    from topicstream.corpus.axis_build import Contents, derive, fresh, sweep_axes

    def contents(manifest: dict[str, Any], removed: np.ndarray) -> Contents:
        facts = (manifest["parts"], manifest.get("docs", []), manifest.get("columns", {}), manifest["fingerprint"])
        return Contents(corpus.path, *facts, manifest.get("generation", 1), removed)

    here = contents(corpus.manifest, corpus.removed())
    axes: dict[str, Any] = corpus.manifest.get("axes") or {}
    if all(fresh(here, name, axes.get(name)) for name in here.names):
        return {name: axes[name] for name in here.names}
    try:
        with lock(corpus.path, "writing to", wait=True):
            manifest = read_json(corpus.path / "manifest.json")
            if manifest.get("fingerprint") != corpus.fingerprint:
                raise StoreError(f"{corpus.path}: was changed since it was opened; open it again")
            axes = manifest.get("axes") or {}
            if not all(fresh(here, name, axes.get(name)) for name in here.names):
                sweep_axes(corpus.path, manifest)
                axes = derive(here, axes, MEMORY)
                write_json(corpus.path / "manifest.json", manifest | {"axes": axes})
    except OSError as e:
        raise StoreError(
            f"{corpus.path}: has no index of its {', '.join(here.names)} yet and cannot be written to ({e.strerror}); "
            "run `topics info` on it once where it can be"
        ) from None
    return axes


def verify_axes(corpus: Corpus) -> Iterator[str]:
    """A sentence for each file or chunk of the axes that is damaged.  (A store that has none yet has none damaged.)"""
    for name, entry in (corpus.manifest.get("axes") or {}).items():
        if "names" in entry:
            names = entry["names"]
            if (problem := file_problem(corpus.path / names["file"], names["size"], names["crc32c"])) is not None:
                yield problem
        for heldout, part in enumerate(PARTS):
            for block in range(len(entry["parts"][part]["blocks"])):
                try:
                    corpus.ragged(name, block, bool(heldout))
                except StoreError as e:
                    yield str(e)
