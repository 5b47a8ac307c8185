"""Documents taken out of a committed store: tombstones.

Blocks are never rewritten. ``removed.npy`` (int64[n, 4]: document number, part, block, row) lists
the documents that readers see as empty; the manifest marks the blocks touched with the generation
of the change.

A committed store rewritten: without some documents, without some words, small neighbouring
blocks as one.

``compact``, ``forget`` and ``edit --drop-words`` are each one ``Rewrite``. Blocks go to folders of
their own (``train-2``
beside ``train``); one that stays as it is becomes a second name of its chunk files. Nothing that
the present manifest names
is touched, so readers go on. Killed at any instant, the store is the old one or the new one, and
the next command that writes
to it removes what is left over.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from topicstream.base.errors import DoesNotFit, StoreError, TopicsError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import lock, sync, sync_all
from topicstream.base.files.outputs import folder_named
from topicstream.base.files.plain import refuse_links
from topicstream.base.machine import format_bytes
from topicstream.base.progress import Progress
from topicstream.corpus.axis_build import MEMORY, Contents, blank_names, build_axes
from topicstream.corpus.documents import PlacedDocuments, read_documents, remove_values
from topicstream.corpus.format import (
    CELLS,
    DOCS,
    KINDS,
    LINKS,
    PARTS,
    chunk_path,
    write_array_metadata,
)
from topicstream.corpus.manifest import (
    BlockEntry,
    PartEntry,
    StoreFile,
    StoreManifest,
    Totals,
    part_folder,
    part_of,
)
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sweep import folder_number, list_replaced_files, remove_stale_files
from topicstream.corpus.texts import remove_texts, with_texts
from topicstream.corpus.writer import BlockWriter
from topicstream.ingestion.store import commit
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary


class Removal:
    """Documents of a store that are gone.

    Earlier appends removed some, this one withdraws others.
    """

    def __init__(self, base: Corpus | None) -> None:
        self._base = base
        self._before = base.removed() if base is not None else np.zeros((0, 4), np.int64)
        self._new = np.zeros((0, 4), np.int64)
        self._changes: dict[tuple[int, int], Totals] = {}

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of all documents that are gone, int64."""
        return self.listed[:, 0]

    @property
    def listed(self) -> np.ndarray:
        """List all documents that are gone, those of earlier appends first.

        int64[n, 4] as of ``Corpus.removed``.
        """
        return np.concatenate((self._before, self._new))

    @property
    def training(self) -> int:
        """Training documents of the store that are left."""
        return (
            0
            if self._base is None
            else self._base.part().docs - int((self.listed[:, 1] == 0).sum())
        )

    def take(self, numbers: np.ndarray) -> None:
        """Withdraw documents by number (ascending)."""
        if self._base is None or not len(numbers):
            return
        taken = [self._new]
        for every, batch in read_documents(
            self._base.path, self._base.manifest.docs, ["part", "block", "row"]
        ):
            matches = np.flatnonzero(np.isin(every, numbers))
            part = pc.index_in(batch["part"].cast(pa.string()), value_set=pa.array(PARTS))
            columns = [np.asarray(c)[matches] for c in (part, batch["block"], batch["row"])]
            taken.append(np.stack([every[matches], *columns], axis=1).astype(np.int64))
        self._new = np.concatenate(taken)

    def subtract(self, vocabulary: TokenVocabulary) -> TokenVocabulary:
        """Subtract the counts of the withdrawn training documents from the vocabulary.

        What each block loses is noted.
        """
        assert self._base is not None
        counts = vocabulary.counts
        df = vocabulary.df
        for part, block in sorted({(int(p), int(b)) for p, b in self._new[:, 1:3]}):
            raw = self._base.decode(block, heldout=bool(part))
            rows = self._new[(self._new[:, 1] == part) & (self._new[:, 2] == block), 3]
            lost = raw.matrix(len(vocabulary))[rows]
            tokens = lost.data.sum(dtype=np.float64 if self._base.weighted else np.int64).item()
            self._changes[part, block] = Totals(
                docs=len(rows), cells=lost.nnz, tokens=len(rows) if self._base.width else tokens
            )
            if part == 0:
                gone = np.bincount(lost.indices, minlength=len(vocabulary))
                counts = counts - (
                    gone if self._base.weighted else lost.sum(axis=0, dtype=np.int64)
                )
                df = df - gone
        return TokenVocabulary.from_words(vocabulary.words, counts, df)

    def apply(self, parts: Mapping[str, PartEntry], generation: int) -> dict[str, PartEntry]:
        """Mark the blocks that changed in the parts' entries."""
        blocks = {name: list(entry.blocks) for name, entry in parts.items()}
        for (part, block), lost in self._changes.items():
            entry = blocks[PARTS[part]][block]
            gone = entry.removed
            total = Totals(
                docs=gone.docs + lost.docs,
                cells=gone.cells + lost.cells,
                tokens=gone.tokens + lost.tokens,
            )
            blocks[PARTS[part]][block] = msgspec.structs.replace(
                entry, removed=total, changed=generation
            )
        return {name: part_of(blocks[name], entry.folder) for name, entry in parts.items()}

    def save(self, folder: Path, name: str) -> str | None:
        """Write the list.

        Returns its name, or None when nothing was withdrawn now.
        """
        if not len(self._new):
            return None
        with owned.create(folder / name) as f:
            np.save(f, self.listed)
        sync(folder / name)
        return name


_LIST = pa.list_(pa.large_string())


def grouped(blocks: Sequence[BlockEntry]) -> list[list[int]]:
    """Group neighbouring blocks that go into one.

    Each group takes the next block as long as it has room. Any two groups side by side are more
    than one block, so twice the least number of blocks is never passed, and a second time changes
    nothing.
    """
    groups: list[list[int]] = []
    cells = docs = 0
    for number, entry in enumerate(blocks):
        cells = cells + entry.remaining.cells
        docs = docs + entry.remaining.docs
        if groups and cells <= CELLS and docs <= DOCS:
            groups[-1].append(number)
        else:
            groups.append([number])
            cells = entry.remaining.cells
            docs = entry.remaining.docs
    return groups


@contextlib.contextmanager
def writing(store: Path, *, dense: bool = True) -> Iterator[Corpus]:
    """Open a store under the writer's lock, without what earlier writers left.

    StoreError, Busy, TopicsError where an ingest into it was killed and has not been run again;
    dense: as of ``Corpus.open``.
    """
    store = folder_named(store)
    Corpus.open(store, dense=dense)  # before anything is made
    with lock(store, "writing to", kind="corpus"):
        refuse_links(store)
        wip = store.with_name(store.name + ".wip")
        if (wip / "state.json").exists():
            raise TopicsError(
                f"{wip}: an unfinished ingest; run it again first, or remove that folder"
            )
        base = Corpus.open(store, dense=dense)
        remove_stale_files(store, base.manifest)
        yield base


class Rewrite:
    """Plan of a store that is written anew.

    Parameters
    ----------
    base
        The store, under the writer's lock.
    gone
        int64[n, 4] as of ``Corpus.removed``: the documents left out.
    parts
        The parts of the manifest with all of these marked as removed (default: as they are).
    words
        int64[], ids of the words that stay, ascending (default: all).
    """

    def __init__(
        self,
        base: Corpus,
        gone: np.ndarray,
        parts: Mapping[str, PartEntry] | None = None,
        words: np.ndarray | None = None,
    ) -> None:
        self._base = base
        self._gone = gone
        self._words = words
        self._parts = parts or base.manifest.parts
        self._store = base.path
        number = 1 + max(folder_number(part_folder(self._parts[p], p)) for p in PARTS)
        self._folders = {p: f"{p}-{number}" for p in PARTS}
        self._groups = {p: grouped(self._parts[p].blocks) for p in PARTS}
        self._touched = {(int(part), int(block)) for part, block in gone[:, 1:3]}

    def _stays(self, part: str, group: list[int]) -> bool:
        return (
            self._words is None
            and len(group) == 1
            and (PARTS.index(part), group[0]) not in self._touched
        )

    @property
    def changes(self) -> bool:
        """Tell whether any block or document is rewritten."""
        return not all(self._stays(part, group) for part in PARTS for group in self._groups[part])

    @property
    def spare(self) -> int:
        """Blocks that there will be fewer."""
        return sum(len(self._parts[p].blocks) - len(self._groups[p]) for p in PARTS)

    def check_room(self) -> None:
        """DoesNotFit where the disk has no room for the new files beside the old ones."""
        rewritten = [
            (p, b)
            for p in PARTS
            for group in self._groups[p]
            if not self._stays(p, group)
            for b in group
        ]
        chunks = [
            chunk
            for p, b in rewritten
            for kind in KINDS
            for chunk in self._parts[p].blocks[b].files[kind]
        ]
        tables = [*self._base.manifest.docs, *(self._base.manifest.texts or [])]
        need = sum(entry.size for entry in tables) + sum(size for size, _ in chunks)
        free = shutil.disk_usage(self._store).free
        if free < need + (need >> 3):
            raise DoesNotFit(
                f"{self._store}: rewriting it takes {format_bytes(need)} on the disk, "
                f"{format_bytes(free)} are free; "
                "make room and run the same command again"
            )

    def commit(
        self,
        progress: Progress,
        changes: dict[str, Any] | None = None,
        forgotten: pa.Array | None = None,
        before: Callable[[], None] = lambda: None,
    ) -> StoreManifest:
        """Write blocks, documents and axes and commit them.

        What was written is removed when something goes wrong before.

        Parameters
        ----------
        changes
            Members that take the place of the old manifest's; of ``summary`` only the figures
            given.
        forgotten
            Ids of documents that are taken out of other documents' lists of linked ones; names that
            no document has any more are replaced by something without meaning.
        before
            Called when all is written and nothing can refuse any more, before the manifest.
        """
        path = self._store
        self.check_room()
        try:
            parts = {part: self._write_blocks(part, progress) for part in PARTS}
            write_array_metadata(
                path,
                {part_folder(e, p): e.rows for p, e in parts.items()},
                weighted=self._base.weighted,
            )
            docs = self._write_documents(parts, forgotten, progress)
            texts = self._base.manifest.texts
            if texts is not None:
                texts = remove_texts(path, texts, self._gone[:, 0])
            manifest = with_texts(self._manifest(parts, docs, changes or {}), texts)
            axes = build_axes(
                Contents(path, manifest, self._gone[:0]), self._base.manifest.axes, MEMORY
            )
            for name, entry in axes.items() if forgotten is not None else ():
                if entry.names is not None:
                    axes[name] = replace(entry, names=blank_names(path, entry.names.file))
            manifest = replace(
                manifest, axes=axes, summary=manifest.summary | commit.axes_summary(axes)
            )
            sync(path)
            before()
            list_replaced_files(path, self._base.manifest, manifest)
            manifest.write(path)
        except BaseException:  # behind the commit nothing of it goes: it is named now
            with contextlib.suppress(OSError, TopicsError):
                remove_stale_files(path, Corpus.open(path, dense=True).manifest)
            raise
        finally:
            progress.close()
        remove_stale_files(path, manifest)
        return manifest

    def _manifest(
        self, parts: dict[str, PartEntry], docs: list[StoreFile], changes: dict[str, Any]
    ) -> StoreManifest:
        old = self._base.manifest
        vocabulary = changes.get("vocabulary", old.vocabulary)
        members: dict[str, Any] = {
            "same_as": [*(old.same_as or ()), old.fingerprint],
            "files": old.files,
            "texts": None,
            **changes,
        }
        members["files"] = {
            kind: file for kind, file in members["files"].items() if kind != "removed"
        }
        return replace(
            old,
            **members
            | {
                "generation": old.generation + 1,
                "compacted": old.generation + 1,
                "fingerprint": commit.fingerprint(vocabulary["hash"], parts, None),
                "parts": parts,
                "docs": docs,
                "summary": old.summary | commit.parts_summary(parts) | changes.get("summary", {}),
            },
        )

    def _write_blocks(self, part: str, progress: Progress) -> PartEntry:
        entries: list[BlockEntry] = []
        linked: list[Path] = []
        (self._store / self._folders[part]).mkdir(exist_ok=True)
        for number, group in enumerate(self._groups[part]):
            row = entries[-1].rows[1] if entries else 0
            if self._stays(part, group):
                entries.append(self._link(part, group[0], row, linked))
            else:
                entries += self._merge(part, group, row)
            progress.step("writing blocks", number + 1, len(self._groups[part]), "piece")
        sync_all(linked, levels=4)
        return part_of(entries, self._folders[part])

    def _link(self, part: str, number: int, row: int, linked: list[Path]) -> BlockEntry:
        entry = self._parts[part].blocks[number]
        rows = entry.rows[1] - entry.rows[0]
        for kind, r in ((kind, r) for kind in KINDS for r in range(rows)):
            source = chunk_path(
                self._store, part_folder(self._parts[part], part), kind, entry.rows[0] + r
            )
            target = chunk_path(self._store, self._folders[part], kind, row + r)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                owned.link_file(source, target)
            except FileNotFoundError:
                what = f"block {number} of {part} ({kind})"
                raise StoreError(
                    f"{source}: {what} is missing; restore the file or ingest again"
                ) from None
            linked.append(target)
        return replace(entry, rows=(row, row + rows), changed=None)

    def _merge(self, part: str, group: list[int], row: int) -> list[BlockEntry]:
        """Merge several blocks, or what is left of one.

        Yields none where nothing is left.
        """
        writer = BlockWriter(
            self._store, self._folders[part], row, self._base.weighted, dense=self._base.width > 0
        )
        gone = self._gone[self._gone[:, 1] == PARTS.index(part)]
        for number in group:
            raw = self._base.decode(number, part == "heldout")
            left = np.delete(np.arange(len(raw.lengths)), gone[gone[:, 2] == number, 3])
            cells = raw.matrix(self._base.n_words)[left]
            cells = cells if self._words is None else cells[:, self._words]
            writer.add(cells.indptr.astype(np.int64), cells.indices, cells.data)
        writer.close()
        docs = sum(self._parts[part].blocks[b].remaining.docs for b in group)
        if sum(e.docs for e in writer.entries) != docs or len(writer.entries) != (docs > 0):
            raise StoreError(
                f"{self._store}: the blocks {group} of {part} do not hold what the manifest "
                f"says; verify it"
            )
        return writer.entries

    def _write_documents(
        self, parts: Mapping[str, PartEntry], forgotten: pa.Array | None, progress: Progress
    ) -> list[StoreFile]:
        """Write the documents' table with the places in the new parts.

        Documents stand there in the same order.
        """
        manifest = self._base.manifest
        writer = PlacedDocuments(self._store, manifest.columns, manifest.docs, parts)
        for numbers, batch in read_documents(self._store, manifest.docs):
            table = pa.Table.from_batches([batch]).filter(
                pa.array(np.isin(numbers, self._gone[:, 0], invert=True))
            )
            part = pc.equal(table["part"].cast(pa.string()), "heldout").to_numpy().astype(np.uint8)
            if forgotten is not None and LINKS in table.column_names:
                lists = table[LINKS].combine_chunks().cast(_LIST)
                left = remove_values(lists, pc.is_in(lists.flatten(), value_set=forgotten))
                table = table.set_column(table.column_names.index(LINKS), LINKS, left)
            writer.place(table, part)
            done = int(numbers.max(initial=-1)) + 1
            progress.step("writing documents", done, done, "piece")
        return writer.finish()
