"""Build the axes of a store from its table of documents.

Each command that commits a store calls ``build_axes``.

The names in ``NAMED`` columns get ids once and for all, the most frequent name first; new names of
an append get the next ids. ``axes/<name>.parquet`` lists them by id, with the number of training
documents (docs) and of held-out ones (heldout) that have each.

The ids of ``links`` are the numbers of training documents (rows of the training part). The arrays
hold, for every document of both parts, the training documents linked with it in either direction.
Links to held-out or removed documents are left out.

Existing files never change: each build writes a new folder and file, which the manifest then names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.base.errors import StoreError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import replacing, sync
from topicstream.base.files.plain import batches, open_table
from topicstream.base.memory import Room
from topicstream.base.relations import Relations
from topicstream.corpus.axes import write_lists
from topicstream.corpus.documents import hash_ids, placed_documents, remove_empty
from topicstream.corpus.format import LINKS, LISTS, NAMED, PARTS, write_array_metadata
from topicstream.corpus.manifest import (
    AxisEntry,
    AxisPart,
    StoreFile,
    StoreManifest,
    block_edges,
    store_file,
)

MEMORY = 128 << 20
"""Bytes for sorting names and links where no plan says otherwise."""
BATCH = 1 << 14
"""Documents read at a time: lists of names are long."""
ROWS_OF_NAMES = 1 << 16
DISTINCT_AT_ONCE = 1 << 20
"""Links of which repeats are removed at a time: a hash table of all of them may not fit MEMORY."""
NAMES = pa.schema([("name", pa.large_string()), ("docs", pa.int64()), ("heldout", pa.int64())])
NAME_BYTES = 120
"""Memory of a name until all is written: its bytes, figures, Parquet."""
_LIST = pa.list_(pa.large_string())


@dataclass(frozen=True)
class Contents:
    """The contents of a store that the axes are built from.

    Attributes
    ----------
    path, manifest
        Folder and manifest of the store.
    removed
        int64[n, 4], as returned by ``Corpus.removed``.
    """

    path: Path
    manifest: StoreManifest
    removed: np.ndarray

    @property
    def names(self) -> list[str]:
        """List the axes that the table of documents has columns for."""
        return [name for name in (*NAMED, LINKS) if self.manifest.columns.get(name) == "list"]

    def is_fresh(self, name: str, entry: AxisEntry | None) -> bool:
        """Return True if an axis' entry matches the documents of the store."""
        if entry is None or entry.removed_docs != len(self.removed):
            return False
        if entry.fingerprint not in (None, self.manifest.fingerprint):
            return False
        for part in PARTS:
            blocks = self.manifest.parts[part].blocks
            if part not in entry.parts:
                return False
            if [b.block_crc for b in entry.parts[part].blocks] != [b.lengths_crc for b in blocks]:
                return False
        return True


def stored_axes(path: Path, manifest: StoreManifest, removed: np.ndarray) -> dict[str, AxisEntry]:
    """Return the axes that the manifest lists.

    Raises
    ------
    StoreError
        If one is missing or out of date.
    """
    contents = Contents(path, manifest, removed)
    for name in contents.names:
        if not contents.is_fresh(name, manifest.axes.get(name)):
            raise StoreError(
                f"{path}: its index of {name} is not that of its documents; ingest again"
            )
    return {name: manifest.axes[name] for name in contents.names}


def build_axes(
    contents: Contents, old: Mapping[str, AxisEntry], memory: int, room: Room | None = None
) -> dict[str, AxisEntry]:
    """Write missing or outdated axes, and return the manifest's ``axes``.

    Nothing that ``old`` names is changed. The caller commits.

    Parameters
    ----------
    contents
        The store.
    old
        The axes of an earlier manifest of this store.
    memory
        Bytes for sorting.
    room
        Memory for the names of an axis.

    Raises
    ------
    DoesNotFit
        If the names need more memory than there is room for.
    """
    axes = {
        name: old[name]
        for name in contents.names
        if name in old and contents.is_fresh(name, old[name])
    }
    if len(axes) == len(contents.names):
        return axes
    (contents.path / "axes").mkdir(exist_ok=True)
    with owned.scratch(contents.path, "axes") as scratch, Relations(scratch, memory) as relations:
        for name in contents.names:
            if name in axes:
                continue
            build = _build_link_axis if name == LINKS else _build_named_axis
            axes[name] = build(contents, name, old.get(name), relations, room)
            relations.clear()
    sync(contents.path / "axes")
    return axes


def load_names(path: Path) -> pa.Table:
    """Read the table of an axis' names (schema NAMES).

    Raises
    ------
    StoreError
        If it is damaged.
    """
    with open_table(path) as file:
        table = pa.Table.from_batches(list(batches(file, NAMES.names, BATCH)), NAMES)
        if any(column.null_count for column in table.columns):
            raise ValueError("empty fields")
        return table


def blank_names(store: Path, file: str) -> StoreFile:
    """Replace names that no document has by placeholders, and return the file's entry.

    Ids stay as they are. No manifest may name the file yet.
    """
    table = load_names(store / file)
    unused = np.flatnonzero((table["docs"].to_numpy() == 0) & (table["heldout"].to_numpy() == 0))
    if len(unused):
        names = np.array(table["name"].to_pylist(), object)
        names[unused] = [f"(no name {n})" for n in unused.tolist()]
        columns = [pa.array(names, pa.large_string()), *table.columns[1:]]
        _write_names(store / file, pa.table(columns, schema=NAMES).to_batches())
    return store_file(store, file)


def _write_names(path: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """Replace a file of names by batches of schema NAMES, which are never in memory together."""
    with (
        replacing(path) as beside,
        pq.ParquetWriter(beside, NAMES, compression="zstd", use_dictionary=False) as writer,
    ):
        waiting = NAMES.empty_table()
        written = 0
        for batch in batches:
            waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch])])
            while len(waiting) >= ROWS_OF_NAMES:
                writer.write_table(waiting.slice(0, ROWS_OF_NAMES).combine_chunks())
                written += ROWS_OF_NAMES
                waiting = waiting.slice(ROWS_OF_NAMES)
        if len(waiting) or not written:
            writer.write_table(waiting.combine_chunks())


def _attach_counts(texts: Iterable[pa.RecordBatch], counts: np.ndarray) -> Iterator[pa.RecordBatch]:
    """Yield names in the order of their ids, as batches of schema NAMES.

    Parameters
    ----------
    texts
        Batches of names.
    counts
        int64[2, size], documents of each part that have each name.
    """
    first = 0
    for batch in texts:
        name = batch.column(0).cast(pa.large_string())
        columns = [pa.array(part[first : first + len(name)]) for part in counts]
        first += len(name)
        yield pa.record_batch([name, *columns], schema=NAMES)


def _build_named_axis(
    contents: Contents, name: str, before: AxisEntry | None, relations: Relations, room: Room | None
) -> AxisEntry:
    """Build an axis of names, keeping the ids that ``before`` lists."""
    old_file = before.names.file if before is not None and before.names is not None else None
    stored_names = pa.chunked_array([], pa.large_string())
    if old_file is not None:
        stored_names = load_names(contents.path / old_file)["name"]
    relations.insert("names", pa.table({"name": stored_names, "id": np.arange(len(stored_names))}))
    _insert_mentions(contents, name, relations)
    relations.execute(
        "create table added as select name, count(*) as times from mentions anti join names "
        "using (name) group by name"
    )
    size = len(stored_names) + relations.number("select count(*) from added")
    if size > len(stored_names) and room is not None:
        room.check(size * NAME_BYTES, f"a list of {size:,} {name}")
    relations.execute(
        f"insert into names select name, {len(stored_names)} + row_number() over (order by "
        f"times desc, name) - 1 from added"
    )
    relations.execute(
        "create table lists as select distinct part, document, id from mentions join names "
        "using (name)"
    )
    folder = _new_folder(contents, name, before)
    parts = _write_parts(
        contents,
        folder,
        relations,
        "select document, id from lists where part = {} order by document, id",
    )
    counts = np.zeros((2, size), np.int64)
    for p in (0, 1):
        for batch in relations.stream(
            f"select id, count(*) from lists where part = {p} group by id"
        ):
            ids, times = (column.to_numpy() for column in batch.columns)
            counts[p, ids] += times
    # the plain name may be a second name of another generation's file
    file = f"axes/{name}.parquet"
    if old_file is not None:
        generation = contents.manifest.generation
        numbered = [f"axes/{name}-{generation + n:04d}.parquet" for n in (0, 1)]
        file = next(candidate for candidate in numbered if candidate != old_file)
    texts = relations.stream("select name from names order by id")
    _write_names(contents.path / file, _attach_counts(texts, counts))
    names = store_file(contents.path, file)
    return AxisEntry(
        folder=folder,
        size=size,
        parts=parts,
        removed_docs=len(contents.removed),
        names=names,
    )


def _build_link_axis(
    contents: Contents, name: str, before: AxisEntry | None, relations: Relations, room: Room | None
) -> AxisEntry:
    """Build the axis of links, finding targets by the hashes of their ids."""
    _insert_mentions(contents, name, relations)
    run = relations.execute
    count = relations.number
    mentioned = count("select count(*) from mentions")
    parts_of_links = 1 + mentioned // DISTINCT_AT_ONCE
    for i in range(parts_of_links):
        into = "insert into links" if i else "create table links as"
        run(
            f"{into} select distinct 2 * document + part as source, high, low from mentions "
            f"where document % {parts_of_links} = {i}"
        )
    # a window takes less memory than a join: it sorts and holds one id at a time
    # rows of one hash are a document and the links to it, and only the document's has a number;
    run("""create table resolved as select source, target from (
           select source, max(document) over (partition by high, low) as target
           from (select high, low, null as source, 2 * document + part as document from documents
                 union all select high, low, source, null from links)) where source is not null""")
    for i in range(parts_of_links):
        into = "insert into pairs" if i else "create table pairs as"
        in_turn = f"source // 2 % {parts_of_links} = {i}"
        run(f"""{into} select distinct source, target from (
                select source, target from resolved where target % 2 = 0
                union all select target, source from resolved where source % 2 = 0
            ) where source <> target and {in_turn}""")
    figures = {
        "given": mentioned,
        "repeats": mentioned - count("select count(*) from links"),
        "self": count("select count(*) from resolved where source = target"),
        "dangling": count("select count(*) from resolved where target is null"),
        "between_heldout": count(
            "select count(*) from resolved where source <> target and source % 2 = 1 and target "
            "% 2 = 1"
        ),
    }
    folder = _new_folder(contents, name, before)
    query = (
        "select source // 2, target // 2 from pairs where source % 2 = {} order by source, target"
    )
    parts = _write_parts(contents, folder, relations, query)
    figures |= {"training": parts["train"].entries // 2, "heldout": parts["heldout"].entries}
    return AxisEntry(
        folder=folder,
        size=contents.manifest.parts["train"].docs,
        parts=parts,
        figures=figures,
        removed_docs=len(contents.removed),
        fingerprint=contents.manifest.fingerprint,
    )


def _insert_mentions(contents: Contents, name: str, relations: Relations) -> None:
    """Fill the tables ``mentions`` and, for links, ``documents``.

    A row of ``mentions`` is a name in the list of a document: part (0 train, 1 heldout), document
    (number within the part), and the name; for links the hash of an id in its place, as high and
    low. ``documents`` has part, document, high and low of each document that was not removed.
    """
    key = [("name", pa.large_string())]
    if name == LINKS:
        key = [("high", pa.uint64()), ("low", pa.uint64())]
    schema = pa.schema([("part", pa.uint8()), ("document", pa.int64()), *key])
    relations.insert("mentions", schema.empty_table())
    if name == LINKS:
        relations.insert("documents", schema.empty_table())
    store = contents.path
    manifest = contents.manifest
    edges = [block_edges(manifest.parts[part].blocks) for part in PARTS]
    removed = contents.removed[:, 0]
    for batch, part, block, row in placed_documents(store, manifest, removed, [name], BATCH):
        document = row.copy()
        for p, edges_of_part in enumerate(edges):
            in_part = part == p
            document[in_part] += edges_of_part[block[in_part]]
        try:
            lists = pa.nulls(len(batch), _LIST)
            if name in batch.schema.names:
                lists = batch[name].cast(_LIST)
        except pa.ArrowException as e:
            raise StoreError(
                f"{store}/docs: {e}; the documents' table is damaged, ingest again"
            ) from None
        lists = remove_empty(lists)
        owner = lists.value_parent_indices().to_numpy()
        values = lists.flatten()
        if name == LINKS:
            relations.insert(
                "documents", pa.table([part, document, *hash_ids(batch["id"])], schema=schema)
            )
        columns = hash_ids(values) if name == LINKS else (values,)
        relations.insert(
            "mentions", pa.table([part[owner], document[owner], *columns], schema=schema)
        )


def _new_folder(contents: Contents, name: str, before: AxisEntry | None) -> str:
    """Choose a folder for an axis' arrays beside the current one, removing leftovers."""
    generation = contents.manifest.generation
    numbered = [f"axes/{name}-{n:04d}" for n in (generation, generation + 1)]
    if before is None:
        folder = f"axes/{name}"
    else:
        folder = next(candidate for candidate in numbered if candidate != before.folder)
    if (contents.path / folder).exists():
        owned.remove_within(contents.path / folder)
    return folder


def _write_parts(
    contents: Contents, folder: str, relations: Relations, query: str
) -> dict[str, AxisPart]:
    """Write the arrays of both parts, and return their entries.

    Parameters
    ----------
    contents, folder
        The store, and the axis' folder in it.
    relations
        The tables.
    query
        Selects document and id, ascending, of part ``{}`` (0 train, 1 heldout).
    """
    path = contents.path / folder
    parts = {}
    for p, part in enumerate(PARTS):
        rows = relations.stream(query.format(p))
        parts[part] = write_lists(path, part, rows, contents.manifest.parts[part].blocks)
    write_array_metadata(path, {part: entry.rows for part, entry in parts.items()}, kinds=LISTS)
    return parts
