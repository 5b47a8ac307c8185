"""The axes of a store out of its documents' table: written by an ingest, or on first need for a store made before.

``authors`` and ``labels``: names get ids once and for all (the most frequent first; an append's new names follow behind),
``axes/<name>.parquet`` lists them in the order of the ids: name, docs (training documents), heldout (held-out documents).
``links``: see corpus/links.py.  What a manifest says of an axis:

    folder   of the ragged arrays (corpus/ragged.py)     size    ids are 0 .. size - 1
    parts    part -> blocks (entries of the chunks, each with ``of``: the checksum of the storage block's lengths), rows,
             entries                                      names   the file of the names (not for links)
    gone     removed documents that are left out of the counts: the first so many of the list
    figures  what became of the links; fingerprint: of the store that they were resolved for (links only)
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.arrow import pc
from topicstream.corpus.documents import read_documents
from topicstream.corpus.format import PARTS
from topicstream.corpus.links import Links
from topicstream.corpus.manifest import file_entry
from topicstream.corpus.ragged import RaggedWriter, read_ragged, remove_rows, settle
from topicstream.corpus.runs import distinct
from topicstream.errors import DoesNotFit, StoreError
from topicstream.files import owned
from topicstream.files.durable import sync_file, sync_folder
from topicstream.files.ownership import kind_names as names_of
from topicstream.files.ownership import owns
from topicstream.files.parquet import batches
from topicstream.tokens.builder import VocabularyBuilder
from topicstream.tokens.vocabulary import TokenVocabulary, word_buffers

NAMED = ("authors", "labels")
LINKS = "links"
SCRATCH = ".axes-"
BATCH = 1 << 14
"""Documents read at a time: lists of names are long."""
ROWS_OF_NAMES = 1 << 16
NAMES = pa.schema([("name", pa.large_string()), ("docs", pa.int64()), ("heldout", pa.int64())])
RECORD_BYTES = 120
"""What a link costs while it is sorted."""
_LIST = pa.list_(pa.large_string())


@dataclass(frozen=True)
class Contents:
    """What a store holds, as far as its axes are concerned; all of it stands in the manifest but ``removed``.

    docs: the entries of the documents' table; parts: of the manifest; removed: int64[n, 4] as of ``Corpus.removed``.
    """

    path: Path
    parts: dict[str, Any]
    docs: list[dict[str, Any]]
    columns: dict[str, str]
    fingerprint: str
    generation: int
    removed: np.ndarray

    @property
    def names(self) -> list[str]:
        """The axes that the documents' table has columns for."""
        return [name for name in (*NAMED, LINKS) if self.columns.get(name) == "list"]

    def docs_of(self, part: str, first: int = 0) -> list[int]:
        """Documents of each storage block from block ``first`` on."""
        return [block["docs"] for block in self.parts[part]["blocks"][first:]]

    def of(self, part: str) -> list[int]:
        """The checksum that ties the arrays of a block to the block."""
        return [block["files"]["lengths"][0][1] for block in self.parts[part]["blocks"]]


def fresh(contents: Contents, name: str, entry: dict[str, Any] | None) -> bool:
    """Whether an axis' entry stands for the documents of the store as they are."""
    if entry is None or (name == LINKS and entry["fingerprint"] != contents.fingerprint):
        return False
    if entry["gone"] != len(contents.removed):
        return False
    return all([b["of"] for b in entry["parts"][p]["blocks"]] == contents.of(p) for p in PARTS)


def derive(contents: Contents, old: dict[str, Any] | None, memory: int, room: int | None = None) -> dict[str, Any]:
    """Write what the axes lack; the manifest's ``axes``.  Nothing that ``old`` names is changed; who calls commits.

    old: the axes of an earlier manifest of this store, or None; memory: bytes for sorting; room: bytes that
    the names of an axis may take.  DoesNotFit.
    """
    if not contents.names:
        return {}
    (contents.path / "axes").mkdir(exist_ok=True)
    found = {}
    with tempfile.TemporaryDirectory(dir=contents.path, prefix=SCRATCH) as scratch:
        for name in contents.names:
            before = (old or {}).get(name)
            if before is not None and fresh(contents, name, before):
                found[name] = before
            elif name == LINKS:
                found[name] = _links(contents, before, Path(scratch), memory)
            else:
                found[name] = _Named(contents, name, before, Path(scratch) / name, memory, room).entry()
    sync_folder(contents.path / "axes")
    return found


def sweep_axes(store: Path, manifest: dict[str, Any], held: bool = False) -> None:
    """Remove what is no axis of the manifest: left by a killed writer, or by generations before (``held``: readers still
    need those)."""
    axes = manifest.get("axes") or {}
    kept = {e["folder"] for e in axes.values()} | {e["names"]["file"] for e in axes.values() if "names" in e}
    plain = {f"axes/{name}.parquet" for name in axes}
    for path in store.glob("axes/*"):
        name = str(path.relative_to(store))
        last = path.stem.rpartition("-")[2]
        if held and int(last if last.isdecimal() else 0) < manifest.get("generation", 1):
            continue
        if path.is_dir() and name not in kept:
            if names_of("corpus")[0].fullmatch(name):
                owned.remove_within(path, "corpus")
        elif path.suffix == ".parquet" and name not in kept | plain and owns(path):
            owned.remove_file(path)
    for entry in axes.values():
        remove_rows(store / entry["folder"], {p: entry["parts"][p]["rows"] for p in PARTS})
    for path in store.glob(f"{SCRATCH}*"):
        owned.remove_within(path, "corpus")


def load_names(path: Path) -> pa.Table:
    """The table of an axis' names (schema NAMES); StoreError."""
    try:
        found = list(batches(path, NAMES.names, BATCH))
        table = pa.Table.from_batches(found).cast(NAMES) if found else NAMES.empty_table()
    except FileNotFoundError:
        raise StoreError(f"{path}: missing; restore the file or ingest again") from None
    except (OSError, ValueError, KeyError, pa.ArrowException) as e:
        raise StoreError(f"{path}: cannot be read as the names of an axis ({e}); restore the file") from None
    if any(column.null_count for column in table.columns):
        raise StoreError(f"{path}: has empty fields; restore the file or ingest again")
    return table


def blank_names(store: Path, file: str) -> dict[str, Any]:
    """Put something without meaning in the place of the names that no document has (the ids stay); the file's new entry.
    The file must not be named by a manifest yet."""
    table = load_names(store / file)
    unused = np.flatnonzero((table["docs"].to_numpy() == 0) & (table["heldout"].to_numpy() == 0))
    if len(unused):
        names = np.array(table["name"].to_pylist(), object)
        names[unused] = [f"(no name {n})" for n in unused.tolist()]
        _write_names(store / file, pa.table([pa.array(names, pa.large_string()), *table.columns[1:]], schema=NAMES))
    return file_entry(store, file)


def _write_names(path: Path, table: pa.Table) -> None:
    with pq.ParquetWriter(owned.reserve(path), NAMES, compression="zstd", use_dictionary=False) as writer:
        writer.write_table(table, row_group_size=ROWS_OF_NAMES)
    sync_file(path)


@dataclass(frozen=True)
class _Batch:
    """Documents in the order of the table.  numbers: int64[D] in the table; part: uint8[D]; own: int64[D] number in the part;
    gone: bool[D]; ids: the column id or None; lengths: int64[D], values: large_string[lengths.sum()]: the lists, without empty
    names, and none of documents that are gone."""

    part: np.ndarray
    own: np.ndarray
    gone: np.ndarray
    ids: pa.Array | None
    lengths: np.ndarray
    values: pa.Array


def _batches(
    contents: Contents, column: str, files: slice, first: dict[str, int], ids: bool = False
) -> Iterator[_Batch]:
    """The lists of one column.  files: which of the documents' table; first: documents of each part before them."""
    number, seen = sum(first.values()), [first[p] for p in PARTS]
    edges = [np.cumsum([0, *contents.docs_of(p)]) for p in PARTS]
    gone = np.sort(contents.removed[:, 0])
    wanted = ["part", "block", "row", column, *(["id"] if ids else [])]
    for batch in read_documents(contents.path, contents.docs[files], wanted, BATCH):
        try:
            part = pc.equal(batch["part"].cast(pa.string()), "heldout").to_numpy(zero_copy_only=False).astype(np.uint8)
            block, row = batch["block"].to_numpy(), batch["row"].to_numpy()
            own = np.empty(len(batch), np.int64)
            for p in (0, 1):
                mine = np.flatnonzero(part == p)
                own[mine] = np.arange(seen[p], seen[p] + len(mine))
                seen[p] += len(mine)
                if not np.array_equal(edges[p][block[mine]] + row[mine], own[mine]):
                    raise ValueError("its documents do not stand in the order of the blocks")
            numbers = np.arange(number, number + len(batch))
            number += len(batch)
            lost = gone[np.minimum(np.searchsorted(gone, numbers), len(gone) - 1)] == numbers if len(gone) else part > 1
            there = column in batch.schema.names
            lists = batch[column].cast(_LIST) if there else pa.nulls(len(batch), _LIST)
            lengths, values = _lists(lists, lost)
            yield _Batch(part, own, lost, batch["id"] if ids else None, lengths, values)
        except (ValueError, KeyError, IndexError, pa.ArrowException) as e:
            raise StoreError(f"{contents.path}/docs: {e}; the documents' table is damaged, ingest again") from None


def _lists(lists: pa.Array, lost: np.ndarray) -> tuple[np.ndarray, pa.Array]:
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    values = lists.flatten()
    keep = pc.fill_null(pc.greater(pc.binary_length(values), 0), False).to_numpy(zero_copy_only=False)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    keep &= ~lost[owner]
    if keep.all():
        return lengths, values
    return np.bincount(owner[keep], minlength=len(lengths)).astype(np.int64), values.filter(pa.array(keep))


def _links(contents: Contents, before: dict[str, Any] | None, scratch: Path, memory: int) -> dict[str, Any]:
    links = Links(scratch, max(1 << 12, memory // RECORD_BYTES))
    for batch in _batches(contents, LINKS, slice(None), dict.fromkeys(PARTS, 0), ids=True):
        assert batch.ids is not None
        here = np.flatnonzero(~batch.gone)
        documents = 2 * batch.own + batch.part
        links.add(batch.ids.take(pa.array(here)), documents[here], batch.lengths[here], batch.values)
    folder = _new_folder(contents, LINKS, before)
    writers, figures = links.write(contents.path / folder, {p: contents.docs_of(p) for p in PARTS})
    parts = _close(contents, contents.path / folder, writers, None)
    size = sum(contents.docs_of("train"))
    state = {"gone": len(contents.removed), "fingerprint": contents.fingerprint}
    return {"folder": folder, "size": size, "parts": parts, "figures": figures, **state}


def _new_folder(contents: Contents, name: str, before: dict[str, Any] | None) -> str:
    """A folder for an axis' arrays that is not the one in use; what a killed writer left there is removed."""
    used = before["folder"] if before is not None else None
    numbered = [f"axes/{name}-{n:04d}" for n in (contents.generation, contents.generation + 1)]
    folder = next(f for f in [*([f"axes/{name}"] if used is None else []), *numbered] if f != used)
    if (contents.path / folder).exists():
        owned.remove_within(contents.path / folder, "corpus")
    return folder


def _close(
    contents: Contents, folder: Path, writers: dict[str, RaggedWriter], before: dict[str, Any] | None
) -> dict[str, Any]:
    """Flush the arrays; the entry's ``parts``."""
    parts = {}
    for part, writer in writers.items():
        writer.close()
        old = before["parts"][part]["blocks"] if before is not None else []
        new = [{**e, "of": of} for e, of in zip(writer.entries, contents.of(part)[len(old) :])]
        blocks = [*old, *new]
        rows = blocks[-1]["rows"][1] if blocks else 0
        parts[part] = {"blocks": blocks, "rows": rows, "entries": sum(b["entries"] for b in blocks)}
    settle(folder, {part: parts[part]["rows"] for part in PARTS})
    return parts


class _Named:
    """One axis of names, from nothing or from what an earlier manifest lists."""

    def __init__(
        self,
        contents: Contents,
        name: str,
        before: dict[str, Any] | None,
        scratch: Path,
        memory: int,
        room: int | None,
    ) -> None:
        self.contents, self.name, self.scratch, self.memory, self.room = contents, name, scratch, memory, room
        self.names = load_names(contents.path / before["names"]["file"]) if before is not None else NAMES.empty_table()
        self.taken = before["names"]["file"] if before is not None else None
        self.before = before if before is not None and self._goes_on(before) else None
        blocks = {p: len(self.before["parts"][p]["blocks"]) if self.before else 0 for p in PARTS}
        self.blocks = blocks
        self.first = {p: sum(contents.docs_of(p)[: blocks[p]]) for p in PARTS}
        self.files = slice(self._files_before(), None)
        self.newly = contents.removed[self.before["gone"] :] if self.before is not None else contents.removed[:0]
        self.folder = before["folder"] if self.before and before else _new_folder(contents, name, before)

    def _goes_on(self, before: dict[str, Any]) -> bool:
        """Whether its blocks are the first ones of the store."""
        return before["gone"] <= len(self.contents.removed) and all(
            (of := [b["of"] for b in before["parts"][p]["blocks"]]) == self.contents.of(p)[: len(of)] for p in PARTS
        )

    def _files_before(self) -> int:
        """Files of the documents' table that the axis has seen."""
        left, files = sum(self.first.values()), 0
        while left > 0 and files < len(self.contents.docs):
            with pq.ParquetFile(self.contents.path / self.contents.docs[files]["file"]) as file:
                left -= file.metadata.num_rows
            files += 1
        if left:
            raise StoreError(f"{self.contents.path}/docs: does not fit the blocks of the store; ingest again")
        return files

    def entry(self) -> dict[str, Any]:
        """Write the names and the arrays; the manifest's entry."""
        vocabulary = self._vocabulary()
        size = len(vocabulary)
        counts = np.zeros((2, size), np.int64)
        if self.before is not None:
            for p, column in enumerate(("docs", "heldout")):
                counts[p, : len(self.names)] = self.names[column].to_numpy()
            self._subtract(counts)
        path = self.contents.path / self.folder
        writers = {}
        for part in PARTS:
            first_row = self.before["parts"][part]["rows"] if self.before is not None else 0
            writers[part] = RaggedWriter(path, part, self.contents.docs_of(part, self.blocks[part]), first_row)
        for batch in _batches(self.contents, self.name, self.files, self.first):
            owner, ids = self._ids(batch, vocabulary)
            for p, part in enumerate(PARTS):
                mine = np.flatnonzero(batch.part == p)
                lengths = np.bincount(owner, minlength=len(batch.part))[mine]
                chosen = ids[batch.part[owner] == p]
                np.add.at(counts[p], chosen, 1)
                writers[part].add(lengths, chosen)
        parts = _close(self.contents, path, writers, self.before)
        names = self._save(vocabulary.words, counts)
        gone = len(self.contents.removed)
        return {"folder": self.folder, "size": size, "parts": parts, "names": names, "gone": gone}

    def _vocabulary(self) -> TokenVocabulary:
        """The names with their ids: those that are known, then the new ones."""
        zeros = np.zeros(len(self.names), np.int64)
        known = pa.concat_arrays([pa.array([], pa.large_string()), *self.names["name"].chunks])
        fixed = TokenVocabulary(known, zeros, zeros)
        builder = VocabularyBuilder(self.scratch, self.memory)
        added = 0
        for batch in _batches(self.contents, self.name, self.files, self.first):
            codes = batch.values.dictionary_encode()
            if len(codes.dictionary):
                data, offsets = word_buffers(codes.dictionary)
                times = np.bincount(codes.indices.to_numpy(), minlength=len(codes.dictionary))
                builder.add(data, offsets, times, times)
                added += len(codes)
        if not added:
            return fixed
        state = builder.checkpoint()
        del builder  # its table and the batches are given back before the runs are merged
        builder = VocabularyBuilder.resume(self.scratch, self.memory, state)
        rules: dict[str, Any] = {"documents": added, "max_df": added, "room": self.room}
        try:
            return builder.finish(**rules, fixed=fixed if len(fixed) else None, grow=bool(len(fixed))).vocabulary
        except DoesNotFit as e:
            raise DoesNotFit(
                f"the names of {self.name}: {str(e).split(':')[0]}: raise --mem-limit by as much"
            ) from None

    @staticmethod
    def _ids(batch: _Batch, vocabulary: TokenVocabulary) -> tuple[np.ndarray, np.ndarray]:
        """(document within the batch, id) of each name, int64, ascending, a repeated one once."""
        if not len(batch.values):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        codes = batch.values.dictionary_encode()
        ids = vocabulary.lookup(*word_buffers(codes.dictionary)).astype(np.int64)[codes.indices.to_numpy()]
        owner = np.repeat(np.arange(len(batch.part)), batch.lengths)
        pairs = distinct(owner * len(vocabulary) + ids)
        return pairs // len(vocabulary), pairs % len(vocabulary)

    def _subtract(self, counts: np.ndarray) -> None:
        """Take the documents that have gone since out of the counts."""
        assert self.before is not None
        for p, part in enumerate(PARTS):
            mine = self.newly[self.newly[:, 1] == p]
            for block in np.unique(mine[:, 2]).tolist():
                entry = self.before["parts"][part]["blocks"][block]
                docs, folder = self.contents.docs_of(part)[block], self.contents.path / self.before["folder"]
                lengths, ids = read_ragged(folder, part, block, entry, docs, self.before["size"])
                lost = np.isin(np.arange(docs), mine[mine[:, 2] == block, 3])
                np.subtract.at(counts[p], ids[np.repeat(lost, lengths)], 1)

    def _save(self, names: pa.Array, counts: np.ndarray) -> dict[str, Any]:
        candidates = [f"axes/{self.name}.parquet"] if self.taken is None else []
        candidates += [f"axes/{self.name}-{self.contents.generation + n:04d}.parquet" for n in (0, 1)]
        file = next(f for f in candidates if f != self.taken)
        path = self.contents.path / file
        table = pa.table([names, pa.array(counts[0]), pa.array(counts[1])], schema=NAMES)
        # the plain name may be another generation's: the file goes first, as it has two names
        _write_names(path, table)
        return file_entry(self.contents.path, file)
