"""Documents removed from a committed store, and stores written anew.

An append marks documents as removed (``Removal``), and rewrites no block. ``removed.npy``
(int64[n, 4]: document number, part, block, row) lists the documents that readers see as empty, and
the manifest marks their blocks with the generation of the change.

``compact``, ``forget`` and ``edit --drop-words`` write a store anew (``Rewrite``): without some
documents, without some words, and with small neighbouring blocks joined. Blocks go to new folders
(``train-2`` beside ``train``); chunk files of a block that stays as it is get a second name there.
No file that the present manifest names is changed, so readers go on. After a kill the store is the
old one or the new one, and the next command that writes to it removes leftover files.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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
    """Documents of a store that are removed, by earlier appends or by this one.

    Parameters
    ----------
    base
        The store, or None for a new one.
    """

    def __init__(self, base: Corpus | None) -> None:
        self._base = base
        self._before = base.removed() if base is not None else np.zeros((0, 4), np.int64)
        self._new = np.zeros((0, 4), np.int64)
        self._changes: dict[tuple[int, int], Totals] = {}

    @property
    def numbers(self) -> np.ndarray:
        """Return the numbers of all removed documents, int64."""
        return self.listed[:, 0]

    @property
    def listed(self) -> np.ndarray:
        """List all removed documents, those of earlier appends first, as ``Corpus.removed``."""
        return np.concatenate((self._before, self._new))

    @property
    def training(self) -> int:
        """Count the training documents of the store that are not removed."""
        if self._base is None:
            return 0
        removed = int(np.count_nonzero(self.listed[:, 1] == 0))
        return self._base.part().docs - removed

    def withdraw(self, numbers: np.ndarray) -> None:
        """Remove documents by number (ascending)."""
        if self._base is None or not len(numbers):
            return
        withdrawn = [self._new]
        docs = self._base.manifest.docs
        for all_numbers, batch in read_documents(self._base.path, docs, ["part", "block", "row"]):
            matches = np.flatnonzero(np.isin(all_numbers, numbers))
            part = pc.index_in(batch["part"].cast(pa.string()), value_set=pa.array(PARTS))
            columns = [np.asarray(c)[matches] for c in (part, batch["block"], batch["row"])]
            withdrawn.append(np.stack([all_numbers[matches], *columns], axis=1).astype(np.int64))
        self._new = np.concatenate(withdrawn)

    def subtract(self, vocabulary: TokenVocabulary) -> TokenVocabulary:
        """Subtract the counts of newly removed training documents from the vocabulary.

        The totals that each block loses are noted for ``apply``.
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
                lost_df = np.bincount(lost.indices, minlength=len(vocabulary))
                if self._base.weighted:  # a weight counts as one occurrence
                    counts = counts - lost_df
                else:
                    counts = counts - lost.sum(axis=0, dtype=np.int64)
                df = df - lost_df
        return TokenVocabulary.from_words(vocabulary.words, counts, df)

    def apply(self, parts: Mapping[str, PartEntry], generation: int) -> dict[str, PartEntry]:
        """Mark the removed documents in the entries of their blocks."""
        blocks = {name: list(entry.blocks) for name, entry in parts.items()}
        for (part, block), lost in self._changes.items():
            entry = blocks[PARTS[part]][block]
            total = Totals(
                docs=entry.removed.docs + lost.docs,
                cells=entry.removed.cells + lost.cells,
                tokens=entry.removed.tokens + lost.tokens,
            )
            blocks[PARTS[part]][block] = replace(entry, removed=total, changed=generation)
        return {name: part_of(blocks[name], entry.folder) for name, entry in parts.items()}

    def save(self, folder: Path, name: str) -> str | None:
        """Write the list, and return its name, or None if no document was removed now."""
        if not len(self._new):
            return None
        with owned.create(folder / name) as f:
            np.save(f, self.listed)
        sync(folder / name)
        return name


_LIST = pa.list_(pa.large_string())


def group_blocks(blocks: Sequence[BlockEntry]) -> list[list[int]]:
    """Group neighbouring blocks that are joined to one.

    Each group takes the next block as long as it has room. Any two neighbouring groups are more
    than a block, so there are never twice as many blocks as needed, and grouping them again changes
    nothing.
    """
    groups: list[list[int]] = []
    cells = docs = 0
    for number, entry in enumerate(blocks):
        cells += entry.remaining.cells
        docs += entry.remaining.docs
        if groups and cells <= CELLS and docs <= DOCS:
            groups[-1].append(number)
        else:
            groups.append([number])
            cells = entry.remaining.cells
            docs = entry.remaining.docs
    return groups


@contextlib.contextmanager
def open_for_writing(store: Path, *, dense: bool = True) -> Iterator[Corpus]:
    """Open a store under the writer's lock, after the removal of earlier writers' leftover files.

    Parameters
    ----------
    store
        Folder of the store.
    dense
        Accept a store of dense rows, too.

    Raises
    ------
    StoreError
        If the store is damaged.
    Busy
        If another command writes to it.
    TopicsError
        If an ingest into it was killed and has not been run again.
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
    removed
        int64[n, 4], as of ``Corpus.removed``: the documents left out.
    parts
        The parts of the manifest with all of these marked as removed (default: as they are).
    words
        int64[], ids of the words that stay, ascending (default: all).
    """

    def __init__(
        self,
        base: Corpus,
        removed: np.ndarray,
        parts: Mapping[str, PartEntry] | None = None,
        words: np.ndarray | None = None,
    ) -> None:
        self._base = base
        self._removed = removed
        self._words = words
        self._parts = parts or base.manifest.parts
        self._store = base.path
        number = 1 + max(folder_number(part_folder(self._parts[p], p)) for p in PARTS)
        self._folders = {p: f"{p}-{number}" for p in PARTS}
        self._groups = {p: group_blocks(self._parts[p].blocks) for p in PARTS}
        # blocks with removed documents, by number of the part and of the block
        self._touched = {(int(part), int(block)) for part, block in removed[:, 1:3]}

    def _stays(self, part: str, group: list[int]) -> bool:
        """Tell whether a group is one block that stays as it is."""
        if self._words is not None or len(group) > 1:
            return False
        return (PARTS.index(part), group[0]) not in self._touched

    def _rewritten_groups(self) -> Iterator[tuple[str, list[int]]]:
        """Yield the part and the blocks of each group that is written anew."""
        for part in PARTS:
            for group in self._groups[part]:
                if not self._stays(part, group):
                    yield part, group

    @property
    def changes_store(self) -> bool:
        """Tell whether any block or document is rewritten."""
        return any(self._rewritten_groups())

    @property
    def blocks_saved(self) -> int:
        """Return the number of blocks by which the store gets smaller."""
        return sum(len(self._parts[p].blocks) - len(self._groups[p]) for p in PARTS)

    def check_room(self) -> None:
        """Raise DoesNotFit if the disk has no room for the new files beside the old ones."""
        tables = [*self._base.manifest.docs, *(self._base.manifest.texts or [])]
        need = sum(entry.size for entry in tables)
        for part, group in self._rewritten_groups():
            for block in group:
                files = self._parts[part].blocks[block].files
                need += sum(size for kind in KINDS for size, _ in files[kind])
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
        """Write blocks, documents and axes, and commit them.

        If anything fails before the commit, the new files are removed.

        Parameters
        ----------
        progress
            The progress listener.
        changes
            Members that replace the old manifest's; of ``summary`` only the figures given.
        forgotten
            Ids that are removed from other documents' lists of links. Names that no document has
            any more are then replaced by placeholders.
        before
            Called before the manifest is written, when nothing can refuse the commit any more.
        """
        path = self._store
        self.check_room()
        try:
            parts = {part: self._write_blocks(part, progress) for part in PARTS}
            rows = {part_folder(entry, part): entry.rows for part, entry in parts.items()}
            write_array_metadata(path, rows, weighted=self._base.weighted)
            docs = self._write_documents(parts, forgotten, progress)
            texts = self._base.manifest.texts
            if texts is not None:
                texts = remove_texts(path, texts, self._removed[:, 0])
            manifest = with_texts(self._manifest(parts, docs, changes or {}), texts)
            contents = Contents(path, manifest, self._removed[:0])
            axes = build_axes(contents, self._base.manifest.axes, MEMORY)
            if forgotten is not None:
                for name, entry in axes.items():
                    if entry.names is not None:
                        axes[name] = replace(entry, names=blank_names(path, entry.names.file))
            summary = manifest.summary | commit.axes_summary(axes)
            manifest = replace(manifest, axes=axes, summary=summary)
            sync(path)
            before()
            list_replaced_files(path, self._base.manifest, manifest)
            manifest.write(path)
        except BaseException:
            # after the commit this removes nothing new, as the manifest names all of it
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
        """Make the new manifest, with the changes of ``commit``."""
        old = self._base.manifest
        vocabulary = changes.get("vocabulary", old.vocabulary)
        files = dict(changes.get("files", old.files))
        files.pop("removed", None)
        summary = old.summary | commit.parts_summary(parts) | changes.get("summary", {})
        members: dict[str, Any] = {"same_as": [*(old.same_as or ()), old.fingerprint], **changes}
        members |= {
            "files": files,
            "texts": None,
            "generation": old.generation + 1,
            "compacted": old.generation + 1,
            "fingerprint": commit.fingerprint(vocabulary["hash"], parts, None),
            "parts": parts,
            "docs": docs,
            "summary": summary,
        }
        return replace(old, **members)

    def _write_blocks(self, part: str, progress: Progress) -> PartEntry:
        """Write the blocks of a part into its new folder."""
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
        """Give the chunk files of a block second names in the new folder.

        Parameters
        ----------
        part, number
            The block.
        row
            Its first row in the new folder.
        linked
            Receives the new names.

        Returns
        -------
        BlockEntry
            The entry of the block in the new folder.
        """
        entry = self._parts[part].blocks[number]
        old_folder = part_folder(self._parts[part], part)
        rows = entry.rows[1] - entry.rows[0]
        for kind in KINDS:
            for r in range(rows):
                source = chunk_path(self._store, old_folder, kind, entry.rows[0] + r)
                target = chunk_path(self._store, self._folders[part], kind, row + r)
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    owned.link_file(source, target)
                except FileNotFoundError:
                    raise StoreError(
                        f"{source}: block {number} of {part} ({kind}) is missing; restore the "
                        f"file or ingest again"
                    ) from None
                linked.append(target)
        return replace(entry, rows=(row, row + rows), changed=None)

    def _merge(self, part: str, group: list[int], row: int) -> list[BlockEntry]:
        """Write the remaining documents of several blocks, or of one, as one block.

        Returns
        -------
        list of BlockEntry
            The entry of the new block; [] if no document remains.

        Raises
        ------
        StoreError
            If the blocks have another number of documents than the manifest says.
        """
        writer = BlockWriter(
            self._store, self._folders[part], row, self._base.weighted, dense=self._base.width > 0
        )
        removed = self._removed[self._removed[:, 1] == PARTS.index(part)]
        for number in group:
            raw = self._base.decode(number, part == "heldout")
            removed_rows = removed[removed[:, 2] == number, 3]
            staying = np.delete(np.arange(len(raw.lengths)), removed_rows)
            cells = raw.matrix(self._base.n_words)[staying]
            if self._words is not None:
                cells = cells[:, self._words]
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
        """Write the documents' table, in the same order, with the places in the new parts."""
        manifest = self._base.manifest
        writer = PlacedDocuments(self._store, manifest.columns, manifest.docs, parts)
        for numbers, batch in read_documents(self._store, manifest.docs):
            stays = pa.array(np.isin(numbers, self._removed[:, 0], invert=True))
            table = pa.Table.from_batches([batch]).filter(stays)
            part = pc.equal(table["part"].cast(pa.string()), "heldout").to_numpy().astype(np.uint8)
            if forgotten is not None and LINKS in table.column_names:
                lists = table[LINKS].combine_chunks().cast(_LIST)
                links = remove_values(lists, pc.is_in(lists.flatten(), value_set=forgotten))
                table = table.set_column(table.column_names.index(LINKS), LINKS, links)
            writer.place(table, part)
            written = int(numbers.max(initial=-1)) + 1
            progress.step("writing documents", written, written, "piece")
        return writer.finish()
