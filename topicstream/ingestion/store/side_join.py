"""Side files joined to the documents by the query engine.

A row finds its documents by a key: their id, number or file. The metadata of the documents are
written again, each piece with what its documents got: lists of several rows joined, of other
fields the last.
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
from topicstream.ingestion.parts.parts import DOCUMENT
from topicstream.ingestion.parts.working_folder import WorkingFolder
from topicstream.ingestion.store.side_files import KEY, SideFile, SideOptions, whole_numbers
from topicstream.ingestion.tokens.normal import compose_column, compose_strings

JOINED_AT_ONCE = 1 << 21
"""Documents and rows joined at a time: a hash join of more does not fit 64 MB."""


def composed_table(table: pa.Table) -> pa.Table:
    """Compose the letters of the strings of a table (NFC)."""
    columns = [compose_column(column.combine_chunks()) for column in table.columns]
    return pa.table(columns, names=table.column_names)


class SideJoin:
    """The side files of an ingest, related to its documents.

    Parameters
    ----------
    working
        The folder with the documents.
    relations
        Where the tables go.

    Attributes
    ----------
    columns
        The metadata columns that the files bring: name -> ``list`` or ``string``.
    notes
        Counts of rows that found no document.
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
        self._files: list[tuple[str, list[str]]] = []
        self.columns: dict[str, str] = {}
        self.notes: Counter[str] = Counter()
        self._documents = 0
        for table in self._keys("id" if read.split is None else DOCUMENT):
            relations.insert("documents", table)
        for number, file in enumerate(side.open(read)):
            self._relate(file, f"file{number}")

    def _keys(self, id_column: str) -> Iterator[pa.Table]:
        """Yield numbers, ids and keys of the documents.

        Documents of a file have up to three keys: its path, its base name, and that without its
        ending, as tables of metadata name it.
        """
        for piece in self._working.pieces():
            metadata = piece.metadata
            numbers = np.arange(self._documents, self._documents + len(metadata))
            self._documents += len(metadata)
            ids = metadata[id_column]
            if self._key == "file":
                source = compose_strings(metadata["source"])
                keys = pc.replace_substring_regex(source, r"[:#]\d+$", "")
                name = keys
                for part, rest in ((r"^.*/", ""), (r"(.)\.[^.]*$", r"\1")):
                    longer = name
                    name = pc.replace_substring_regex(name, part, rest)
                    yield pa.table({"number": numbers, "id": ids, "key": name}).filter(
                        pc.not_equal(name, longer)
                    )
            else:
                keys = ids if self._key != "row" else pa.array(numbers + 1).cast(TEXT)
            yield pa.table({"number": numbers, "id": ids, "key": keys})

    def _relate(self, file: SideFile, name: str) -> None:
        """Make the table ``name`` of the rows of a file and their documents.

        Its columns are number, position and one a field.
        """
        fields = ["links"] if file.links else list(file.fields)
        self.columns |= {field: "list" if field in LISTS else "string" for field in fields}
        rows = 0
        for where, rows_as_written in file.tables():
            table = self._without_missing(composed_table(rows_as_written))
            related = (
                self._link_rows(table, where)
                if file.links
                else self._rows(table, where, fields, rows)
            )
            positions = pa.array(np.arange(rows, rows + len(table)))
            self._relations.insert(f"{name}_rows", related.append_column("position", positions))
            rows += len(table)
        if not rows:
            return
        columns = [
            "position",
            *(f"f{i}" for i in range(len(fields))),
        ]  # the engine's names know no case
        if (
            file.links and self._key == "row"
        ):  # stored are the ids of the cited documents, in the order of their numbers
            cited = (
                f"if(d.id is null, null, r.key) as key, d.number * {rows} + position as "
                f"position, [d.id] as f0"
            )
            self._join(f"{name}_rows", f"{name}_cited", "cited", cited, rows)
            self._join(f"{name}_cited", f"{name}_joined", "key", "d.number, position, f0", rows)
        else:
            self._join(
                f"{name}_rows", f"{name}_joined", "key", ", ".join(["d.number", *columns]), rows
            )
        if lost := self._relations.number(
            f"select count(*) from {name}_joined where number is null"
        ):
            note = f"rows of {os.path.basename(file.path)} about no document"
            if lost == rows:
                for called in self._relations.stream("select key from documents limit 1"):
                    note += (
                        f", and so all of them: documents are called "
                        f"{one_line(called['key'][0])[:60]!r} (--key file matches names of "
                        f"files with or without their endings, --key row numbers)"
                    )
            self.notes[note] += lost
        self._note_repeated(file, name, fields)
        # in order, so that the rows of a piece lie together
        self._relations.execute(
            f"create table {name} as from {name}_joined where number is not null order by "
            f"number, position"
        )
        self._relations.execute(f"drop table {name}_joined")
        self._files.append((name, fields))

    def _without_missing(self, table: pa.Table) -> pa.Table:
        """Take values of fields that say that there is none for none.

        Keys stay.
        """
        for place, name in enumerate(table.column_names):
            if self._missing and name not in (KEY, "citing", "cited"):
                column = without_missing(table.column(place).combine_chunks(), self._missing)
                table = table.set_column(place, name, column)
        return table

    def _note_repeated(self, file: SideFile, name: str, fields: list[str]) -> None:
        """Count the rows whose document has another row.

        Of lists all rows count.
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
        """Rows of metadata: key and fields."""
        if KEY not in table.column_names:
            keys = pa.array(np.arange(first + 1, first + 1 + len(table))).cast(TEXT)
        else:
            keys = self._as_key(table[KEY], where)
        return pa.table(
            [keys, *table.select(fields).columns],
            names=["key", *(f"f{i}" for i in range(len(fields)))],
        )

    def _link_rows(self, table: pa.Table, where: pa.Array) -> pa.Table:
        """Rows of links: the key of the citing document, and the cited one, as a list of one."""
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
        """Make the table ``target`` of rows (r) and the documents (d) of their key, if any.

        The rows go.
        """
        parts = 1 + max(size, self._documents) // JOINED_AT_ONCE
        for part in range(parts):
            sides = [
                f"(select * from {t} where hash({k}) % {parts} = {part})"
                for t, k in ((rows, key), ("documents", "key"))
            ]
            do = f"insert into {target}" if part else f"create table {target} as"
            self._relations.execute(
                f"{do} select {columns} from {sides[0]} r left join {sides[1]} d on r.{key} = d.key"
            )
        self._relations.execute(f"drop table {rows}")

    def add_fields(self, table: pa.Table, first: int) -> pa.Table:
        """Add the fields of their rows to the metadata of documents from ``first`` on."""
        for name, fields in self._files:
            lists = [field in LISTS for field in fields]
            values = [
                f"flatten(list(f{i} order by position))"
                if is_list
                else f"last(f{i} order by position)"
                for i, is_list in enumerate(lists)
            ]
            batches = self._relations.stream(
                f"select number, {', '.join(values)} from {name} where number >= {first} and "
                f"number < {first + len(table)}"
                " group by number"
            )
            schema = pa.schema(
                [
                    ("number", pa.int64()),
                    *((str(i), LIST if one else TEXT) for i, one in enumerate(lists)),
                ]
            )
            nothing = pa.Table.from_pylist(
                [{"number": -1} | {str(i): [] for i, one in enumerate(lists) if one}], schema
            )
            related = [
                pa.Table.from_batches([b]).rename_columns(schema.names).cast(schema)
                for b in batches
            ]
            rows = pa.concat_tables([nothing, *related]).combine_chunks()
            place = np.zeros(len(table), np.int64)  # of those without a row: ``nothing``
            place[rows["number"].to_numpy()[1:] - first] = np.arange(1, len(rows))
            for i, field in enumerate(fields):
                new = rows[str(i)].chunk(0).take(pa.array(place))
                if field not in table.column_names:
                    table = table.append_column(field, new)
                    continue
                old = table[field].combine_chunks()
                table = table.set_column(
                    table.column_names.index(field),
                    field,
                    pc.if_else(pa.array(place > 0), new, old),
                )
        return table


def join_side_files(
    working: WorkingFolder, side: SideOptions, read: ReadOptions, memory: int
) -> tuple[dict[str, str], Counter[str]]:
    """Write the metadata of all documents again, with the fields of the side files.

    Returns
    -------
    The columns added (name -> ``list`` or ``string``), and notes for the summary.
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
    gone = len(withdrawn)
    columns = []
    for field in schema:
        if field.name == "withdrawn":
            column = pa.array(np.arange(len(table) + gone) >= len(table))
        else:
            present = field.name in table.column_names
            column = (
                table[field.name].combine_chunks().cast(field.type)
                if present
                else pa.nulls(len(table), field.type)
            )
            last = withdrawn["id"] if field.name == "id" else pa.nulls(gone, field.type)
            column = pa.concat_arrays([column, last])
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
