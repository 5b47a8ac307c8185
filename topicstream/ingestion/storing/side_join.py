"""Side files are joined to the documents out of core, piece by piece of the spool, and the split by a field is prepared.

A row finds its documents by number or by the hash of a key.  Keys are joined in partitions of the hash; what a document gets
is collected in buckets of consecutive documents; the spool of the documents is then written anew, each piece with what its
documents got.  Memory: one partition, one bucket, one piece.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.corpus.id_hash import find_hashes, hash_ids
from topicstream.errors import NothingKept
from topicstream.files import owned
from topicstream.ingestion.parsing.columns import LISTS
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.spooling.parts import DOCUMENT
from topicstream.ingestion.spooling.prepare import as_stream
from topicstream.ingestion.spooling.spool import Spool, encode_frame
from topicstream.ingestion.storing.decide import piece_metadata
from topicstream.ingestion.storing.side_files import SideFile, SideOptions, SideRows, whole_numbers

BUCKET_DOCS = 1 << 16
PARTITION_BYTES = 8 << 20
"""Bytes of a side file, as it lies on disk uncompressed, that one partition should hold."""
MOST_PARTITIONS = 1024
CHUNK = 1 << 16
"""Documents joined at a time."""
_TEXT, _LIST = pa.large_string(), pa.list_(pa.large_string())
_NUMBER, _HIGH, _LOW = "\0number", "\0high", "\0low"


class Buckets:
    """Tables parted over files: each part is a sequence of Arrow streams in a file of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._there: set[int] = set()

    def _path(self, bucket: int) -> Path:
        return self._folder / f"{self._name}-{bucket}.arrows"

    def add(self, buckets: np.ndarray, table: pa.Table) -> None:
        """Row r goes into bucket ``buckets[r]``; rows of a bucket keep their order."""
        order = np.argsort(buckets, kind="stable")
        ordered = buckets[order]
        for rows in np.split(order, np.flatnonzero(np.diff(ordered)) + 1):
            if len(rows):
                bucket = int(buckets[rows[0]])
                part = table.take(pa.array(rows))
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                with (
                    (owned.append if bucket in self._there else owned.create)(self._path(bucket)) as file,
                    pa.ipc.new_stream(file, table.schema, options=options) as out,
                ):
                    out.write_table(part)
                self._there.add(bucket)

    def pieces(self, bucket: int) -> Iterator[pa.Table]:
        """The tables of a bucket, as they were added."""
        if bucket in self._there:
            with open(self._path(bucket), "rb") as file:
                size = self._path(bucket).stat().st_size
                while file.tell() < size:
                    with pa.ipc.open_stream(file) as stream:
                        yield stream.read_all()

    def read(self, bucket: int) -> pa.Table | None:
        """All of a bucket; None where nothing is in it."""
        found = list(self.pieces(bucket))
        return pa.concat_tables(found).combine_chunks() if found else None

    def remove(self) -> None:
        """Remove the files."""
        for bucket in self._there:
            owned.remove_file(self._path(bucket))
        self._there.clear()


class Side:
    """``attach`` gives every document of the spool its fields of the side files; ``notes`` counts what found no document.

    places: of the inputs, for the key ``file`` (inputs.py).  columns: the fields found, name -> ``list`` or ``string``.
    """

    def __init__(
        self, docs: Spool, folder: Path, options: SideOptions, read: ReadOptions, places: Sequence[str] = ()
    ) -> None:
        self._places = sorted(places, key=len, reverse=True)
        self._docs, self._folder, self._options, self._read = docs, folder, options, read
        folder.mkdir(exist_ok=True)
        owned.sweep(folder, "*.arrows")
        self.notes: Counter[str] = Counter()
        self.columns: dict[str, str] = {}
        lengths = [len(docs.read(i)[0]["high"]) for i in range(len(docs))]
        self._starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
        self._bucket_of = self._starts[:-1] // BUCKET_DOCS
        self._files: list[Buckets] = []

    def attach(self, target: Spool, split: tuple[str, str | None] | None) -> None:
        """Write the documents, with their fields, into ``target``.  split: (field, value or None) that decides who is held out
        (see ``_split``)."""
        for n, spec in enumerate(self._options.meta_files):
            self._meta(SideFile.open(spec, self._options.key, self._read), n)
        for n, spec in enumerate(self._options.links, len(self._files)):
            self._links(SideFile.open(spec, self._options.key, self._read, links=True), n)
        held: dict[int, tuple[int, pa.Table | None]] = {}
        for i in range(len(self._docs)):
            arrays, facts = self._docs.read(i)
            table = piece_metadata(arrays)
            bucket = int(self._bucket_of[i])
            for n, buckets in enumerate(self._files):
                if held.get(n, (-1, None))[0] != bucket:
                    held.pop(n, None)
                    held[n] = bucket, self._sorted(buckets, bucket)
                found = held[n][1]
                if found is not None:
                    table = self._merge(table, found, int(self._starts[i]))
            arrays["metadata"] = as_stream(table)
            if split is not None:
                arrays["split"] = _split(table, arrays["high"], *split)
            target.append(encode_frame(arrays, **facts))
        for buckets in self._files:
            buckets.remove()

    # -- rows to documents
    def _number_buckets(self, numbers: np.ndarray) -> np.ndarray:
        piece = np.searchsorted(self._starts, numbers, "right") - 1
        return self._bucket_of[np.minimum(piece, len(self._bucket_of) - 1)]

    def _take(self, buckets: Buckets, numbers: np.ndarray, table: pa.Table, path: str) -> None:
        """Rows for documents by number."""
        there = (numbers >= 0) & (numbers < self._starts[-1])
        if not there.all():
            self.notes[f"rows of {os.path.basename(path)} about no document"] += int((~there).sum())
            table, numbers = table.filter(pa.array(there)), numbers[there]
        if len(table):
            table = table.append_column(_NUMBER, pa.array(numbers))
            buckets.add(self._number_buckets(numbers), table)

    def _meta(self, file: SideFile, n: int) -> None:
        for name in file.fields:
            self.columns[name] = "list" if name in LISTS else "string"
        out = Buckets(self._folder, f"file{n}")
        self._files.append(out)
        if self._options.key == "row":
            for rows in file.rows():
                assert rows.numbers is not None
                self._take(out, rows.numbers, rows.table, file.path)
        else:
            self._by_hash(file, file.rows(), out)

    def _by_hash(self, file: SideFile, rows: Iterator[SideRows], out: Buckets) -> None:
        """Join by the hash of the key, partition by partition."""
        size = Path(file.path).stat().st_size * (4 if Path(file.path).suffix in (".gz", ".bz2", ".xz", ".zst") else 1)
        size = max(size * (4 if file.form == "parquet" else 1), 64 * int(self._starts[-1]))
        bits = min(max(size // PARTITION_BYTES, 1).bit_length(), MOST_PARTITIONS.bit_length() - 1)
        side, docs = Buckets(self._folder, "side"), Buckets(self._folder, "docs")
        for part in rows:
            assert part.keys is not None
            side.add(*_keyed(self._as_stored(part.keys), part.table, bits))
        for number, keys in self._keys():
            docs.add(*_keyed(keys, pa.table({_NUMBER: pa.array(number)}), bits))
        for p in range(1 << bits):
            if (found := side.read(p)) is not None:
                self._join(found, docs.pieces(p), out, file.path)
        side.remove()
        docs.remove()

    def _keys(self) -> Iterator[tuple[np.ndarray, pa.Array]]:
        """(numbers, keys) of the documents; key ``file``: by the path of the file and by its base name."""
        for i in range(len(self._docs)):
            table = piece_metadata(self._docs.read(i)[0])
            numbers = np.arange(self._starts[i], self._starts[i + 1])
            if self._options.key != "file":
                yield numbers, table["id" if self._read.split is None else DOCUMENT].combine_chunks()
                continue
            paths = pc.replace_substring_regex(table["source"].combine_chunks(), r"[:#]\d+$", "")
            yield numbers, paths
            names = pc.replace_substring_regex(paths, r"^.*/", "")
            other = pc.not_equal(names, paths)
            yield numbers[other.to_numpy(zero_copy_only=False)], names.filter(other)

    def _as_stored(self, keys: pa.Array) -> pa.Array:
        """Paths without the place of the input, as the documents' sources are."""
        if self._options.key != "file":
            return keys
        for place in self._places:
            rest = pc.utf8_slice_codeunits(keys, len(place))
            keys = pc.if_else(pc.starts_with(keys, place), rest, keys)
        return keys

    def _join(self, side: pa.Table, docs: Iterator[pa.Table], out: Buckets, path: str) -> None:
        high, low = side[_HIGH].to_numpy(), side[_LOW].to_numpy()
        order = np.lexsort((low, high))  # stable: rows of a key keep their order
        high, low = high[order], low[order]
        first = np.flatnonzero(np.concatenate(([True], (high[1:] != high[:-1]) | (low[1:] != low[:-1]))))
        count = np.diff(np.append(first, len(order)))
        used = np.zeros(len(first), np.bool_)
        fields = side.drop_columns([_HIGH, _LOW])
        for piece in docs:
            for at in range(0, len(piece), CHUNK):
                some = piece.slice(at, CHUNK)
                key = find_hashes(high[first], low[first], some[_HIGH].to_numpy(), some[_LOW].to_numpy())
                hit = np.flatnonzero(key >= 0)
                used[key[hit]] = True
                times = count[key[hit]]
                within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
                rows = order[np.repeat(first[key[hit]], times) + within]
                numbers = np.repeat(some[_NUMBER].to_numpy()[hit], times)
                self._take(out, numbers, fields.take(pa.array(rows)), path)
        if not used.all():
            self.notes[f"rows of {os.path.basename(path)} about no document"] += int(count[~used].sum())

    def _links(self, file: SideFile, n: int) -> None:
        """Two columns, citing and cited: a list of targets for each citing document."""
        self.columns["links"] = "list"
        out = Buckets(self._folder, f"file{n}")
        self._files.append(out)
        if self._options.key != "row":
            rows = (SideRows(None, pc.fill_null(r.table["citing"], "").combine_chunks(), _targets(r.table["cited"]), r.where) for r in file.rows())  # fmt: skip
            self._by_hash(file, rows, out)
            return
        cited = Buckets(self._folder, "cited")
        for rows_ in file.rows():
            pair = [whole_numbers(rows_.table[name], rows_.where) - 1 for name in ("citing", "cited")]
            self._take(cited, pair[1], pa.table({"citing": pa.array(pair[0])}), file.path)
        for bucket in np.unique(self._bucket_of).tolist():
            table = cited.read(bucket)
            if table is None:
                continue
            table = table.sort_by(_NUMBER)
            numbers = table[_NUMBER].to_numpy()
            for i in np.flatnonzero(self._bucket_of == bucket).tolist():
                a, b = np.searchsorted(numbers, self._starts[i : i + 2])
                if b > a:
                    ids = piece_metadata(self._docs.read(i)[0])["id"]
                    targets = ids.take(pa.array(numbers[a:b] - self._starts[i]))
                    self._take(out, table["citing"].to_numpy()[a:b], _targets(targets), file.path)
        cited.remove()

    # -- documents with their rows
    def _sorted(self, buckets: Buckets, bucket: int) -> pa.Table | None:
        table = buckets.read(bucket)
        if table is None:
            return None
        return table.take(pa.array(np.argsort(table[_NUMBER].to_numpy(), kind="stable"))).combine_chunks()

    def _merge(self, table: pa.Table, found: pa.Table, start: int) -> pa.Table:
        """The documents' fields, replaced where there are rows: lists of several rows joined, of other fields the last."""
        numbers = found[_NUMBER].to_numpy()
        a, b = np.searchsorted(numbers, (start, start + len(table)))
        own = numbers[a:b] - start
        times = np.bincount(own, minlength=len(table))
        last = np.cumsum(times) - 1
        has = pa.array(times > 0)
        for name in found.column_names:
            if name == _NUMBER:
                continue
            rows = found[name].slice(a, b - a).combine_chunks()
            if self.columns[name] == "list":
                lengths = np.bincount(own, rows.value_lengths().fill_null(0).to_numpy(), len(table)).astype(np.int64)
                offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))).astype(np.int32)
                new = pa.ListArray.from_arrays(pa.array(offsets), rows.flatten()).cast(_LIST)
            else:
                new = rows.take(pa.array(last, mask=times == 0)).cast(_TEXT)
            if name in table.column_names:
                old = table[name].combine_chunks()
                table = table.set_column(table.column_names.index(name), name, pc.if_else(has, new, old))
            else:
                table = table.append_column(name, new)
        return table


def _targets(names: pa.ChunkedArray | pa.Array) -> pa.Table:
    """One target a row, as lists."""
    names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    offsets = pa.array(np.arange(len(names) + 1, dtype=np.int32))
    return pa.table({"links": pa.ListArray.from_arrays(offsets, pc.fill_null(names.cast(_TEXT), "")).cast(_LIST)})


def _keyed(keys: pa.Array, table: pa.Table, bits: int) -> tuple[np.ndarray, pa.Table]:
    """(partition of each row, the table with the hashes of the keys)."""
    high, low = hash_ids(keys)
    part = (high >> np.uint64(63 - bits) >> np.uint64(1)).astype(np.int64)
    return part, table.append_column(_HIGH, pa.array(high)).append_column(_LOW, pa.array(low))


def _split(table: pa.Table, high: np.ndarray, name: str, value: str | None) -> np.ndarray:
    """uint64[D], compared with the threshold in place of the hash of the id.  With a value: 0 where the field is (or has) it,
    else the largest; without: the hash of the field, of the id where a document has none."""
    if name not in table.column_names:
        raise NothingKept(
            f"--heldout {name}: no document has that field; there are {', '.join(table.column_names)} (--meta keeps more)"
        )
    column = table[name].combine_chunks()
    if pa.types.is_list(column.type):
        if value is None:
            raise NothingKept(f"--heldout-by {name}: a document may have several; choose a field of one value")
        owner = np.repeat(np.arange(len(column)), column.value_lengths().fill_null(0).to_numpy())
        equal = pc.fill_null(pc.equal(column.flatten(), value), False).to_numpy(zero_copy_only=False)
        return np.where(np.bincount(owner[equal], minlength=len(column)) > 0, np.uint64(0), np.uint64(2**64 - 1))
    texts = pc.fill_null(column.cast(_TEXT), "")
    if value is not None:
        equal = pc.equal(texts, value).to_numpy(zero_copy_only=False)
        return np.where(equal, np.uint64(0), np.uint64(2**64 - 1))
    some = pc.not_equal(texts, "").to_numpy(zero_copy_only=False)
    return np.where(some, hash_ids(texts)[0], high)


def attach(
    docs: Spool,
    folder: Path,
    side: SideOptions,
    read: ReadOptions,
    split: tuple[str, str | None] | None,
    places: Sequence[str] = (),
) -> tuple[Spool, dict[str, str], Counter[str]]:
    """The documents' spool with the fields of the side files; the columns that they add, and notes for the summary."""
    target = Spool(folder / "sided.spool")
    target.truncate(0, 0)
    joined = Side(docs, folder / "side", side, read, places)
    joined.attach(target, split)
    owned.remove_within(folder / "side", "ingest")
    return target, joined.columns, joined.notes


def check(side: SideOptions, read: ReadOptions) -> None:
    """Look at the heads of the side files before anything is read.  InputError."""
    for spec in side.meta_files:
        SideFile.open(spec, side.key, read)
    for spec in side.links:
        SideFile.open(spec, side.key, read, links=True)
