"""Side files joined to the documents by the query engine.

A row finds its documents by a key: their id, number or file. Each file is joined once. Its rows are
then read once in the order of documents, while the metadata of these are written again. If several
rows have the same document, lists are joined, and of other fields the last one counts.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import one_line
from topicstream.base.files import ownership as owned
from topicstream.base.relations import Relations
from topicstream.base.text import compose_text
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.columns import LISTS, without_missing
from topicstream.ingestion.parse.documents import LIST, TEXT
from topicstream.ingestion.parts.part_files import LZ4
from topicstream.ingestion.parts.split import DOCUMENT
from topicstream.ingestion.parts.working_folder import WorkingFolder
from topicstream.ingestion.store.side_files import KEY, SideFile, SideOptions, whole_numbers
from topicstream.ingestion.tokens.normal import compose_column, compose_strings

JOINED_AT_ONCE = 1 << 21
"""Documents and rows joined at a time: a hash join of more does not fit 64 MB."""
LEAST_SORTED = 1 << 15
"""Rows sorted at a time, at least."""
BYTES_OF_VALUE = 512
"""Memory of a value while it is sorted, several times its length, because the engine takes memory
beyond its limit to sort wide rows.
"""


def composed_table(table: pa.Table) -> pa.Table:
    """Compose the letters of the strings of a table (NFC)."""
    columns = [compose_column(column.combine_chunks()) for column in table.columns]
    return pa.table(columns, names=table.column_names)


class SideJoin:
    """The side files of an ingest, joined to its documents.

    Parameters
    ----------
    working
        The folder with the documents.
    relations
        Query engine without tables.
    side
        The side files.
    read
        Options on raw input.

    Attributes
    ----------
    columns
        Kind of each metadata column of the files, ``list`` or ``string``, by name.
    notes
        Counts of rows without a document, and of rows that others replace.
    """

    def __init__(
        self,
        working: WorkingFolder,
        relations: Relations,
        side: SideOptions,
        read: ReadOptions,
    ) -> None:
        self._working = working
        self._relations = relations
        self._key = side.key
        self._missing = read.na
        self._places = sorted(map(compose_text, working.state.places), key=len, reverse=True)
        self._files: list[_JoinedRows] = []
        self.columns: dict[str, str] = {}
        self.notes: Counter[str] = Counter()
        self._documents = 0
        for table in self._keys("id" if read.split is None else DOCUMENT):
            relations.insert("documents", table)
        for number, file in enumerate(side.open(read)):
            self._relate(file, f"file{number}")

    def _keys(self, id_column: str) -> Iterator[pa.Table]:
        """Yield numbers, ids and keys of the documents.

        With ``--key file`` a document has up to three keys: the path of its file, the base name,
        and this without its ending, as tables of metadata name files.
        """
        for piece in self._working.pieces():
            metadata = piece.metadata
            numbers = np.arange(self._documents, self._documents + len(metadata))
            self._documents += len(metadata)
            ids = metadata[id_column]
            if self._key == "file":
                source = compose_strings(metadata["source"])
                paths = pc.replace_substring_regex(source, r"[:#]\d+$", "")
                base_names = pc.replace_substring_regex(paths, r"^.*/", "")
                stems = pc.replace_substring_regex(base_names, r"(.)\.[^.]*$", r"\1")
                for keys, longer in ((base_names, paths), (stems, base_names)):
                    table = pa.table({"number": numbers, "id": ids, "key": keys})
                    yield table.filter(pc.not_equal(keys, longer))
                keys = paths
            else:
                keys = ids if self._key != "row" else pa.array(numbers + 1).cast(TEXT)
            yield pa.table({"number": numbers, "id": ids, "key": keys})

    def _relate(self, file: SideFile, name: str) -> None:
        """Join the rows of a file to their documents.

        The table ``{name}_joined`` has number, position, and a column for each field.
        """
        fields = ["links"] if file.links else list(file.fields)
        self.columns |= {field: "list" if field in LISTS else "string" for field in fields}
        rows = 0
        for where, rows_as_written in file.tables():
            table = self._without_missing(composed_table(rows_as_written))
            if file.links:
                related = self._link_rows(table, where)
            else:
                related = self._rows(table, where, fields, rows)
            positions = pa.array(np.arange(rows, rows + len(table)))
            self._relations.insert(f"{name}_rows", related.append_column("position", positions))
            rows += len(table)
        if not rows:
            return
        # fields have numbers, because the engine does not tell capitals from small letters
        columns = ["d.number", "position", *(f"f{i}" for i in range(len(fields)))]
        if file.links and self._key == "row":
            # the ids of cited documents are stored, in the order of the documents' numbers
            cited = (
                f"if(d.id is null, null, r.key) as key, d.number * {rows} + position as "
                f"position, [d.id] as f0"
            )
            self._join(f"{name}_rows", f"{name}_cited", "cited", cited, rows)
            self._join(f"{name}_cited", f"{name}_joined", "key", ", ".join(columns), rows)
        else:
            self._join(f"{name}_rows", f"{name}_joined", "key", ", ".join(columns), rows)
        self._note_unmatched(file, name, rows)
        self._note_repeated(file, name, fields)
        row_bytes = BYTES_OF_VALUE * (1 + len(fields))
        sorted_at_once = max(LEAST_SORTED, self._relations.memory // row_bytes)
        ranges = -(-rows // sorted_at_once)
        step = -(-self._documents // ranges)
        self._files.append(_JoinedRows(self._relations, f"{name}_joined", fields, step))

    def _note_unmatched(self, file: SideFile, name: str, rows: int) -> None:
        """Count the rows of a file without a document, with advice if no row has one."""
        unmatched = self._relations.number(
            f"select count(*) from {name}_joined where number is null"
        )
        if not unmatched:
            return
        note = f"rows of {os.path.basename(file.path)} about no document"
        if unmatched == rows:
            for batch in self._relations.stream("select key from documents limit 1"):
                note += (
                    f", and so all of them: documents are called "
                    f"{one_line(batch['key'][0])[:60]!r} (--key file matches names of "
                    f"files with or without their endings, --key row numbers)"
                )
        self.notes[note] += unmatched

    def _without_missing(self, table: pa.Table) -> pa.Table:
        """Make values of fields, but not of keys, null that stand for a missing one (``--na``)."""
        for place, name in enumerate(table.column_names):
            if self._missing and name not in (KEY, "citing", "cited"):
                column = without_missing(table.column(place).combine_chunks(), self._missing)
                table = table.set_column(place, name, column)
        return table

    def _note_repeated(self, file: SideFile, name: str, fields: list[str]) -> None:
        """Count the rows that a later one of the same document replaces.

        Lists are joined, so a file of lists alone has none.
        """
        if all(field in LISTS for field in fields):
            return
        parts = 1 + self._documents // JOINED_AT_ONCE
        repeated = sum(
            self._relations.number(
                f"select coalesce(count(number) - count(distinct number), 0) from {name}_joined "
                f"where hash(number) % {parts} = {part}"
            )
            for part in range(parts)
        )
        if repeated:
            about = f"rows of {os.path.basename(file.path)} about a document that has another row"
            self.notes[f"{about} (the last one counts; lists are joined)"] += repeated

    def _rows(self, table: pa.Table, where: pa.Array, fields: list[str], first: int) -> pa.Table:
        """Return rows of metadata: key and fields."""
        if KEY not in table.column_names:
            keys = pa.array(np.arange(first + 1, first + 1 + len(table))).cast(TEXT)
        else:
            keys = self._as_key(table[KEY], where)
        return pa.table(
            [keys, *table.select(fields).columns],
            names=["key", *(f"f{i}" for i in range(len(fields)))],
        )

    def _link_rows(self, table: pa.Table, where: pa.Array) -> pa.Table:
        """Return rows of links: the key of the citing document, and a list of the cited one."""
        key = self._as_key(table["citing"], where)
        cited = table["cited"]
        if self._key == "row":
            return pa.table({"key": key, "cited": self._as_key(cited, where)})
        targets = pc.fill_null(cited, "").combine_chunks()
        offsets = pa.array(np.arange(len(targets) + 1, dtype=np.int32))
        return pa.table({"key": key, "f0": pa.ListArray.from_arrays(offsets, targets)})

    def _as_key(self, keys: pa.ChunkedArray, where: pa.Array) -> pa.Array:
        """Write keys as the documents have them.

        Numbers have no zeros before them, and paths lack the place of the input.
        """
        if self._key == "row":
            return pa.array(whole_numbers(keys, where)).cast(TEXT)
        keys = pc.fill_null(keys, "").combine_chunks()
        for place in self._places if self._key == "file" else ():
            keys = pc.if_else(
                pc.starts_with(keys, place), pc.utf8_slice_codeunits(keys, len(place)), keys
            )
        return keys

    def _join(self, rows: str, target: str, key: str, columns: str, size: int) -> None:
        """Join rows (r) to the documents (d) of their key, if any, and drop their table.

        Parameters
        ----------
        rows, target
            Tables of the rows and of the result.
        key
            Column of the rows with the key.
        columns
            Columns of the result.
        size
            Number of rows.
        """
        parts = 1 + max(size, self._documents) // JOINED_AT_ONCE
        for part in range(parts):
            left = f"(select * from {rows} where hash({key}) % {parts} = {part})"
            right = f"(select * from documents where hash(key) % {parts} = {part})"
            into = f"insert into {target}" if part else f"create table {target} as"
            self._relations.execute(
                f"{into} select {columns} from {left} r left join {right} d on r.{key} = d.key"
            )
        self._relations.execute(f"drop table {rows}")

    def add_fields(self, table: pa.Table, first: int) -> pa.Table:
        """Add the fields of side files to the metadata of some documents.

        Parameters
        ----------
        table
            The metadata. Calls take the documents in the order of their numbers, each once.
        first
            Number of the first document.
        """
        for rows in self._files:
            joined = rows.take_before(first + len(table))
            numbers = joined["number"].to_numpy() - first
            with_row = pa.array(np.bincount(numbers, minlength=len(table)) > 0)
            for i, field in enumerate(rows.fields):
                gather = _gather_lists if field in LISTS else _gather_last
                new = gather(joined[f"f{i}"].combine_chunks(), numbers, len(table))
                if field not in table.column_names:
                    table = table.append_column(field, new)
                    continue
                old = table[field].combine_chunks()
                column = pc.if_else(with_row, new, old)
                table = table.set_column(table.column_names.index(field), field, column)
        return table


class _JoinedRows:
    """Rows of a side file that have a document, read once, in the order of documents.

    Parameters
    ----------
    relations, name
        The engine, and the table of the joined rows.
    fields
        Names of the fields, columns ``f0``, ``f1``, ... of the table.
    step
        Documents whose rows are sorted at a time. A sort of all rows would not fit the memory.
    """

    def __init__(self, relations: Relations, name: str, fields: list[str], step: int) -> None:
        self.fields = fields
        self._relations = relations
        self._name = name
        self._step = max(1, step)
        columns = [("number", pa.int64())]
        for i, field in enumerate(fields):
            columns.append((f"f{i}", LIST if field in LISTS else TEXT))
        self._schema = pa.schema(columns)
        self._batches = self._sorted_batches()
        self._waiting = self._schema.empty_table()

    def _sorted_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows range of documents by range, each sorted."""
        last = self._relations.number(f"select coalesce(max(number), -1) from {self._name}")
        for first in range(0, last + 1, self._step):
            yield from self._relations.stream(
                f"select {', '.join(self._schema.names)} from {self._name} "
                f"where number >= {first} and number < {first + self._step} "
                f"order by number, position"
            )

    def take_before(self, number: int) -> pa.Table:
        """Return the rows of documents below a number that were not taken yet."""
        parts = [self._schema.empty_table()]
        while True:
            cut = int(np.searchsorted(self._waiting["number"].to_numpy(), number))
            parts.append(self._waiting.slice(0, cut))
            self._waiting = self._waiting.slice(cut)
            batch = None if len(self._waiting) else next(self._batches, None)
            if batch is None:
                return pa.concat_tables(parts)
            self._waiting = pa.Table.from_batches([batch]).cast(self._schema)


def _gather_last(values: pa.Array, numbers: np.ndarray, size: int) -> pa.Array:
    """Return for each document the value of its last row, or null.

    Parameters
    ----------
    values
        A value for each row.
    numbers
        int64[rows], ascending, the document of each row.
    size
        Number of documents.
    """
    places = np.full(size, -1)
    places[numbers] = np.arange(len(numbers))
    return values.take(pa.array(places, mask=places < 0))


def _gather_lists(values: pa.Array, numbers: np.ndarray, size: int) -> pa.Array:
    """Join the lists of each document's rows, which are neighbours."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
    sizes = np.bincount(numbers, lengths, size)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values.flatten())


def join_side_files(
    working: WorkingFolder, side: SideOptions, read: ReadOptions, memory: int
) -> tuple[dict[str, str], Counter[str]]:
    """Write the metadata of all documents again, with the fields of the side files.

    Parameters
    ----------
    working
        The folder with the documents.
    side
        The side files.
    read
        Options on raw input.
    memory
        Bytes for the query engine.

    Returns
    -------
    columns, notes
        Kind of each new column by name, and notes for the summary.
    """
    path = working.folder / "side.arrow"
    with Relations(working.folder, memory) as relations:
        join = SideJoin(working, relations, side, read)
        columns = working.state.columns | join.columns
        kinds = {"list": LIST, "string": TEXT}
        fields = [(name, kinds[kind]) for name, kind in columns.items()]
        schema = pa.schema([*fields, ("withdrawn", pa.bool_())])
        first = 0
        with pa.ipc.new_file(str(owned.reserve(path)), schema, options=LZ4) as file:
            for piece in working.pieces():
                table = join.add_fields(pa.Table.from_batches([piece.metadata]), first)
                first += len(table)
                file.write_batch(_with_withdrawn(table, piece.withdrawn, schema))
    working.side = path
    return join.columns, join.notes


def _with_withdrawn(
    table: pa.Table, withdrawn: pa.RecordBatch, schema: pa.Schema
) -> pa.RecordBatch:
    """Make a batch of documents, and of withdrawn ids behind them."""
    columns = []
    for field in schema:
        if field.name == "withdrawn":
            rows = len(table) + len(withdrawn)
            columns.append(pa.array(np.arange(rows) >= len(table)))
            continue
        column = pa.nulls(len(table), field.type)
        if field.name in table.column_names:
            column = table[field.name].combine_chunks().cast(field.type)
        is_id = field.name == "id"
        last = withdrawn["id"] if is_id else pa.nulls(len(withdrawn), field.type)
        columns.append(pa.concat_arrays([column, last]))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
