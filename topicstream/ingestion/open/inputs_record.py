"""``.inputs.json`` of a store: the ingest that made it, and where its inputs lay.

An ingest finds in it if it is finished already, and a report where the raw files are. It is not
part of the store's content: no fingerprint, manifest or checksum covers it, and a store works
without it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from topicstream.base.errors import StoreError
from topicstream.base.options import names_tagged
from topicstream.base.places import places
from topicstream.base.records import Record, plain, read_record, write_record
from topicstream.ingestion.config import IngestConfig
from topicstream.ingestion.open.source import printable
from topicstream.ingestion.settings import describe_reading, heldout_of

NAME = ".inputs.json"


class InputReading(Record):
    """Options with which files of an input were read.

    Attributes
    ----------
    options
        The options (``ReadOptions.remembered``).
    patterns
        Patterns of paths below the input's folder; without any, the options hold for every file.
    """

    options: dict[str, Any]
    patterns: list[str] = []

    def holds_for(self, below: str) -> bool:
        """Tell whether a file was read with these options, by its path below the folder."""
        return not self.patterns or matches(below, self.patterns)


class InputPlace(Record):
    """Place of an input.

    Attributes
    ----------
    place
        Absolute path or address.
    folder
        True for a folder.
    stamp
        Values that change with the input (``Places.stamp``). In a store from elsewhere it may be
        anything.
    readings
        Options of its files, the first that holds for a file; empty if the input was read as the
        store's manifest says.
    """

    place: str
    folder: bool
    stamp: Any
    readings: list[InputReading] = []


class InputsRecord(Record):
    """Contents of ``.inputs.json``.

    Attributes
    ----------
    inputs
        All inputs of the store, those of earlier ingests first.
    request
        Digest of the ingest that wrote the store last, the same if it is run again.
    fingerprint
        Fingerprint of the store as this ingest wrote it.
    """

    inputs: list[InputPlace] = []
    request: str = ""
    fingerprint: str = ""

    @property
    def is_known(self) -> bool:
        """Tell whether every input has a stamp that tells it from a changed one."""
        return bool(self.inputs) and all(entry.stamp is not None for entry in self.inputs)


def describe_inputs(
    names: list[str], config: IngestConfig, base: str | None = None
) -> InputsRecord:
    """Describe an ingest that begins.

    Parameters
    ----------
    names
        Names of the inputs, as given; [] for documents in memory.
    config
        Its options, before phrases were learnt.
    base
        Fingerprint of the store that it appends to.

    Returns
    -------
    InputsRecord
        The record. Its request is a digest of all that the content depends on, or random if the
        inputs cannot be recognised later.
    """
    inputs = [place_of(name) for name in names]
    record = InputsRecord(inputs=inputs, request=secrets.token_hex(16))
    if not record.is_known:
        return record
    choosing = names_tagged(IngestConfig, "decides", "words", "documents")
    lists = (config.vocab, config.words, config.drop_words)
    files = [os.fspath(path) for path in lists if path is not None]
    settings = {name: getattr(config, name) for name in choosing} | {
        "heldout": heldout_of(config),
        "reading": describe_reading(config),
        "files": [[os.path.abspath(f), places().stamp(f)] for f in files],
        "inputs": plain(inputs),
        "append to": base,
    }
    text = json.dumps(settings, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return replace(record, request=digest[:32])


def place_of(name: str) -> InputPlace:
    """Return the place of an input, with its stamp."""
    if name == "-":
        return InputPlace(place=name, folder=False, stamp=None)
    place = printable(places().describe(name))
    return InputPlace(place=place, folder=os.path.isdir(name), stamp=places().stamp(name))


def matches(below: str, patterns: Sequence[str]) -> bool:
    """Tell whether a path below a folder, or its last name, matches one of the patterns."""
    name = below.rpartition("/")[2]
    return any(fnmatch(below, pattern) or fnmatch(name, pattern) for pattern in patterns)


def save_record(
    store: Path,
    record: InputsRecord,
    fingerprint: str,
    *,
    appended: bool,
    readings: Sequence[InputReading] = (),
) -> None:
    """Write the record of an ingest into its store.

    Parameters
    ----------
    store
        Folder of the store.
    record
        The record.
    fingerprint
        Fingerprint of the store.
    appended
        True after an append: the earlier inputs stay in the record.
    readings
        Options of the appended inputs, which may be others than the store's.
    """
    inputs = record.inputs
    if appended:
        new = {entry.place for entry in inputs}
        earlier = [entry for entry in load_record(store).inputs if entry.place not in new]
        inputs = earlier + [replace(entry, readings=list(readings)) for entry in inputs]
    write_record(store / NAME, replace(record, inputs=inputs, fingerprint=fingerprint))


def load_record(store: Path) -> InputsRecord:
    """Read the record of a store, or return one without inputs if it cannot be read."""
    try:
        return read_record(store / NAME, InputsRecord)
    except (StoreError, OSError):
        return InputsRecord()


def is_made_by(store: Path, fingerprint: str, request: str) -> bool:
    """Tell whether an ingest has made the store, and nothing has changed it since."""
    stored = load_record(store)
    return stored.request == request and stored.fingerprint == fingerprint


def are_same(record: InputsRecord, earlier: str) -> bool:
    """Tell whether inputs are unchanged since an earlier run of this request.

    It is never certain if two of their files may have the same key.
    """
    have_distinct_keys = len(record.inputs) == 1 or not any(e.folder for e in record.inputs)
    return have_distinct_keys and record.is_known and record.request == earlier


def file_of(source: str) -> str:
    """Return the file of a source.

    A source is ``docs.jsonl:17`` (a line), ``docs.parquet#17`` (a record), or a file that is one
    document.
    """
    return re.sub(r":\d{1,17}$|(?<=[^/]\.)([^/.#]+)#\d{1,17}$", r"\1", source)


def raw_files(store: Path, *, unchanged: bool = False) -> Callable[[str], str | None]:
    """Make a function from a source's stored file name to the path of its file.

    It returns None if the file is missing.

    Parameters
    ----------
    store
        Folder of the store.
    unchanged
        Find only files of inputs that are unchanged, to the nanosecond. A store of a stranger, who
        cannot know the times of this machine's files, then leads to none of them.
    """
    inputs = load_record(store).inputs
    files = [entry for entry in inputs if not entry.folder and entry.place != "-"]
    folders = [entry for entry in inputs if entry.folder]
    are_unchanged: dict[str, bool] = {}

    def is_allowed(entry: InputPlace, path: str) -> bool:
        """Tell whether a file of an input may be returned."""
        if not unchanged:
            return True
        place = entry.place
        if place not in are_unchanged:
            are_unchanged[place] = _is_unchanged(entry)
        # stamps do not cover linked folders within a folder
        above = os.path.realpath(os.path.dirname(path))
        root = os.path.realpath(place)
        is_within = path == place or above == root or above.startswith(root + os.sep)
        return are_unchanged[place] and is_within

    def find(name: str) -> str | None:
        """Return the path of a file by its stored name, or None."""
        tail = os.sep + name.lstrip(os.sep)
        for entry in files:
            place = entry.place
            if place.endswith(tail) and os.path.isfile(place) and is_allowed(entry, place):
                return place
        for entry in folders:
            place = entry.place
            for below in _names_below(place, name):
                path = os.path.normpath(os.path.join(place, below))
                is_file = path.startswith(place + os.sep) and os.path.isfile(path)
                if is_file and is_allowed(entry, path):
                    return path
        is_file = os.path.isabs(name) and os.path.isfile(name)
        return name if is_file and not unchanged else None

    return find


def _is_unchanged(entry: InputPlace) -> bool:
    """Tell whether an input has the stamp of its record."""
    stamp = entry.stamp
    if not isinstance(stamp, list) or not stamp or not isinstance(stamp[0], int):
        return False
    files = stamp[0]
    return files > 0 and places().stamp(entry.place, files) == stamp


def _names_below(place: str, name: str) -> list[str]:
    """List the paths below a folder that a stored name may mean: it may begin with the folder's."""
    first, _, below = name.partition("/")
    return [name, below] if below and os.path.basename(place) == first else [name]


def find_reading(store: Path, path: str) -> dict[str, Any] | None:
    """Return the options with which a raw file was read, or None if they are the manifest's.

    Parameters
    ----------
    store
        The folder of the store.
    path
        The file, as ``raw_files`` finds it.
    """
    for entry in load_record(store).inputs:
        inside = entry.folder and path.startswith(entry.place + os.sep)
        if not inside and path != entry.place:
            continue
        below = path[len(entry.place) + 1 :] if inside else os.path.basename(path)
        for reading in entry.readings:
            if reading.holds_for(below):
                return reading.options
    return None


def forget_files(store: Path, ids: set[str]) -> None:
    """Remove files with the name of one of these documents from the record, and all stamps."""
    inputs = load_record(store).inputs
    if not inputs:
        return
    remaining = []
    for entry in inputs:
        if entry.folder or os.path.basename(entry.place) not in ids:
            remaining.append(replace(entry, stamp=None))
    write_record(store / NAME, InputsRecord(inputs=remaining))
