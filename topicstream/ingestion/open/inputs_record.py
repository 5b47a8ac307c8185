"""``.inputs.json`` of a store: the ingest that made it, and where its inputs lay.

It alone tells whether an ingest is finished, and a report where the raw files are. It is no part
of the store's content: no fingerprint, no manifest and no checksum knows of it, and a store without
it lacks nothing else.
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
    """How files of an input were read (``ReadOptions.remembered``).

    Patterns are those of paths below the input's folder; without any it holds for every file.
    """

    options: dict[str, Any]
    patterns: list[str] = []

    def holds_for(self, below: str) -> bool:
        """Tell whether a file, by its path below the input's folder, was read so."""
        return not self.patterns or matches(below, self.patterns)


class InputPlace(Record):
    """Place of an input, and the stamp that tells it from a changed one.

    The stamp of a store from elsewhere may be anything. ``readings`` are empty where the input was
    read as the store's manifest says; the first that holds for a file counts.
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
        Names the ingest that wrote the store last: equal where the same ingest is run again.
    fingerprint
        That of the store as this ingest wrote it.
    """

    inputs: list[InputPlace] = []
    request: str = ""
    fingerprint: str = ""

    @property
    def is_known(self) -> bool:
        """Tell whether every input has a stamp that tells it from a changed one."""
        return bool(self.inputs) and all(entry.stamp is not None for entry in self.inputs)


def describe(names: list[str], config: IngestConfig, base: str | None = None) -> InputsRecord:
    """Describe an ingest that begins.

    Parameters
    ----------
    names
        Of the inputs, as given; [] for documents in memory.
    config
        Its options, before phrases were learnt.
    base
        Fingerprint of the store that it appends to.

    Returns
    -------
    InputsRecord
        Its request is a digest of all that decides the content, or random where the inputs cannot
        be known again.
    """
    inputs = [place_of(name) for name in names]
    record = InputsRecord(inputs=inputs, request=secrets.token_hex(16))
    if not record.is_known:
        return record
    choosing = names_tagged(IngestConfig, "decides", "words", "documents")
    files = [os.fspath(f) for f in (config.vocab, config.words, config.drop_words) if f is not None]
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
    """Return where an input lies, and its stamp."""
    if name == "-":
        return InputPlace(place=name, folder=False, stamp=None)
    place = printable(places().describe(name))
    return InputPlace(place=place, folder=os.path.isdir(name), stamp=places().stamp(name))


def matches(below: str, patterns: Sequence[str]) -> bool:
    """Tell whether a path below a folder, or its last name, matches one of the patterns."""
    name = below.rpartition("/")[2]
    return any(fnmatch(below, pattern) or fnmatch(name, pattern) for pattern in patterns)


def save(
    store: Path,
    record: InputsRecord,
    fingerprint: str,
    *,
    appended: bool,
    readings: Sequence[InputReading] = (),
) -> None:
    """Write the record.

    After an append it has the earlier inputs, too. The appended inputs have the readings, because
    their options may be others than the store's.
    """
    inputs = record.inputs
    if appended:
        new = {entry.place for entry in inputs}
        earlier = [entry for entry in load(store).inputs if entry.place not in new]
        inputs = earlier + [replace(entry, readings=list(readings)) for entry in inputs]
    write_record(store / NAME, replace(record, inputs=inputs, fingerprint=fingerprint))


def load(store: Path) -> InputsRecord:
    """Read the record of a store.

    It has no inputs where there is none, or none that can be read.
    """
    try:
        return read_record(store / NAME, InputsRecord)
    except (StoreError, OSError):
        return InputsRecord()


def is_made_by(store: Path, fingerprint: str, request: str) -> bool:
    """Tell whether an ingest has made the store, which nothing has changed since."""
    stored = load(store)
    return stored.request == request and stored.fingerprint == fingerprint


def are_same(record: InputsRecord, earlier: str) -> bool:
    """Tell whether inputs are as an earlier run of this request saw them.

    No two of their files may have one key.
    """
    apart = len(record.inputs) == 1 or not any(entry.folder for entry in record.inputs)
    return apart and record.is_known and record.request == earlier


def file_of(source: str) -> str:
    """Return the file of a source.

    A source is ``docs.jsonl:17`` (a line), ``docs.parquet#17`` (a record), or a file that is one
    document.
    """
    return re.sub(r":\d{1,17}$|(?<=[^/]\.)([^/.#]+)#\d{1,17}$", r"\1", source)


def raw_files(store: Path, *, known: bool = False) -> Callable[[str], str | None]:
    """Make a function from a source's stored file name to the path of its file.

    It returns None where the file is not there.

    known  only of inputs that are as the record says, to the nanosecond: a store of a stranger, who
           cannot know that, leads to no file of this machine
    """
    inputs = load(store).inputs
    files = [e for e in inputs if not e.folder and e.place != "-"]
    folders = [e for e in inputs if e.folder]
    unchanged: dict[str, bool] = {}

    def good(entry: InputPlace, path: str) -> bool:
        if not known:
            return True
        place = entry.place
        if place not in unchanged:
            said = entry.stamp
            files = said[0] if isinstance(said, list) and said and isinstance(said[0], int) else -1
            unchanged[place] = files > 0 and places().stamp(place, files) == said
        # a linked folder within is in no stamp
        above = os.path.realpath(os.path.dirname(path))
        root = os.path.realpath(place)
        return unchanged[place] and (
            path == place or above == root or above.startswith(root + os.sep)
        )

    def find(name: str) -> str | None:
        tail = os.sep + name.lstrip(os.sep)
        for entry in files:
            place = entry.place
            if place.endswith(tail) and os.path.isfile(place) and good(entry, place):
                return place
        first, _, rest = name.partition("/")
        for entry in folders:
            place = entry.place
            inside = [name, rest] if os.path.basename(place) == first and rest else [name]
            for one in inside:
                path = os.path.normpath(os.path.join(place, one))
                if path.startswith(place + os.sep) and os.path.isfile(path) and good(entry, path):
                    return path
        return name if not known and os.path.isabs(name) and os.path.isfile(name) else None

    return find


def find_reading(store: Path, path: str) -> dict[str, Any] | None:
    """Return how a raw file was read, or None if that is as the store's manifest says.

    Parameters
    ----------
    store
        The folder of the store.
    path
        The file, as ``raw_files`` finds it.
    """
    for entry in load(store).inputs:
        inside = entry.folder and path.startswith(entry.place + os.sep)
        if not inside and path != entry.place:
            continue
        below = path[len(entry.place) + 1 :] if inside else os.path.basename(path)
        for reading in entry.readings:
            if reading.holds_for(below):
                return reading.options
    return None


def forget(store: Path, ids: set[str]) -> None:
    """Take out the files that are one of these documents each, and all stamps."""
    if inputs := load(store).inputs:
        others = [
            replace(e, stamp=None)
            for e in inputs
            if e.folder or os.path.basename(e.place) not in ids
        ]
        write_record(store / NAME, InputsRecord(inputs=others))
