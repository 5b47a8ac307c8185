"""Stores and models at addresses, read through local folders.

The folders are filled as files are opened.

Each version of a store or a model has a folder in the cache, its *mirror*. ``plain.open_plain``
fetches a file of a mirror that is not there yet. Versions never change, so what was fetched once
is good for ever.

The cache is bounded (``TOPICS_CACHE_SIZE``). The chunks of mirrors opened longest ago make room
for those of others. Where a single store is larger than the cache, the chunks that came first stay
and the others are fetched in each pass: a pass reads all in turn, so throwing out the oldest would
throw out each chunk just before it is read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from topicstream.addons.cloud.remote import (
    AHEAD,
    POOL,
    Absent,
    download,
    get_object,
    list_below,
    remote_address,
)
from topicstream.base.errors import ADDRESSES, InputError, StoreError
from topicstream.base.files.ownership import temporary_path
from topicstream.base.machine import parse_bytes
from topicstream.base.places import MIRROR, places

T = TypeVar("T")
Kind = Literal["corpus", "model"]
CURRENT = "current.json"
LISTING = "files.json"
"""Names of the published objects: the current version, and the list of its files."""
SIZE = "20G"
"""Bytes of chunks in the cache, unless TOPICS_CACHE_SIZE says otherwise."""
_CHUNK = re.compile(r"(.*/)?c/\d+/\d+")


def cache_folder() -> Path:
    """Return the folder of mirrors: TOPICS_CACHE, else below the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(
        os.path.abspath(
            os.environ.get("TOPICS_CACHE") or os.path.join(base, "topicstream", "remote")
        )
    )


class Current(msgspec.Struct, frozen=True):
    """The contents of ``current.json``.

    ``inputs`` is a digest of the documents that an ingest made the version of, or "".
    """

    kind: Kind
    version: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    nonce: str
    inputs: str = ""
    schema: Literal[1] = 1


def read_current(address: str) -> tuple[Current | None, Any]:
    """Read what is published at an address, None if nothing is.

    Returns
    -------
    tuple
        The record, and the condition on which it may be replaced.

    Raises
    ------
    StoreError
        If the file was not written by this program.
    """
    try:
        content, condition = get_object(f"{address}/{CURRENT}")
        return msgspec.json.decode(content, type=Current), condition
    except Absent:
        return None, "create"
    except msgspec.DecodeError as e:
        raise StoreError(
            f"{address}/{CURRENT}: was not written by this program, or is damaged ({e})"
        ) from None


def resolve_mirror(place: T) -> T | Path:
    """Return the mirror of an address, and any other place or object as it is.

    Raises
    ------
    StoreError
        If there is neither a store nor a model at the address.
    InputError
        If it cannot be read.
    """
    address = remote_address(place) if isinstance(place, (str, os.PathLike)) else None
    if address is None:
        return place
    address = address.rstrip("/")
    try:
        current, _ = read_current(address)
        source = address if current is None else f"{address}/versions/{current.version}"
        manifest, _ = get_object(f"{source}/manifest.json")
        kind = json.loads(manifest)["kind"]
        names = _list_model_files(source, current) if kind == "model" else []
    except Absent as e:
        raise StoreError(f"{address}: neither a corpus store nor a model ({e})") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StoreError(
            f"{address}/manifest.json: is the manifest of neither a corpus store nor a model"
        ) from None
    scheme, _, below_scheme = address.partition("://")
    version = hashlib.sha256(manifest).hexdigest() if current is None else current.version
    folder = cache_folder() / scheme / f"{below_scheme}@{version[:16]}"
    ADDRESSES[str(folder)] = address
    if ".." in folder.parts:
        raise InputError(f"{address}: contains ..; name the object by its key")
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "manifest.json").exists():  # which is written last
        _write(folder / MIRROR, source.encode())
        list(POOL.map(lambda name: os.close(_fetch(folder, name)), names))
        _write(folder / "manifest.json", manifest)
    os.utime(folder)
    return folder


def _list_model_files(source: str, current: Current | None) -> list[str]:
    """List the files of a model by their paths in its folder.

    The model is as it was published, or copied to a bucket.

    Raises
    ------
    ValueError
        If the listing is damaged.
    """
    places = (
        list_below(source)
        if current is None
        else msgspec.json.decode(get_object(f"{source}/{LISTING}")[0], type=dict[str, str])
    )
    return [
        name
        for name in (place.removeprefix(f"{source}/") for place in places)
        if is_published(name)
    ]


def is_published(name: str) -> bool:
    """Return True if a file, by its path in the folder, belongs to a publication."""
    parts = name.split("/")
    return parts[0] not in ("", "checkpoints", "work") and not any(
        part.startswith(".") for part in parts
    )


_COMING: dict[Path, Future[int | None]] = {}
"""Files of mirrors that are being fetched before they are opened. An answer is a descriptor of a
file that did not stay in the cache.
"""


def fetch_ahead(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Begin to fetch files that their mirror does not have yet.

    All threads of ``AHEAD`` work on them at once; ``fetch_missing`` waits for a file on its way.
    """
    for path in paths:
        place = Path(os.path.abspath(path))
        home = None if place in _COMING or place.exists() else _find_mirror(place)
        if home is not None:
            name = place.relative_to(home).as_posix()
            _COMING[place] = AHEAD.submit(_fetch_to_stay, home, name)


def _fetch_to_stay(home: Path, name: str) -> int | None:
    """Fetch a file of a mirror.

    Returns a descriptor only if the file did not stay there.
    """
    descriptor = _fetch(home, name)
    if not (home / name).exists():
        return descriptor
    os.close(descriptor)
    return None


def fetch_missing(path: str | os.PathLike[str]) -> int | None:
    """Fetch a file that its mirror does not have yet, and return a descriptor.

    None if the path lies in no mirror.

    Raises
    ------
    FileNotFoundError
        If there is no such object.
    InputError
        If it cannot be read.
    """
    place = Path(os.path.abspath(path))
    home = _find_mirror(place)
    if home is None:
        return None
    coming = _COMING.pop(place, None)
    if coming is not None:
        descriptor = coming.result()
        if descriptor is not None:
            return descriptor
        with contextlib.suppress(FileNotFoundError):  # another process made room
            return os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    return _fetch(home, place.relative_to(home).as_posix())


def _find_mirror(place: Path) -> Path | None:
    """Find the mirror that a path lies in."""
    if not place.is_relative_to(cache_folder()):
        return None
    return next((p for p in place.parents if (p / MIRROR).is_file()), None)


def _fetch(home: Path, name: str) -> int:
    """Fetch a file of a mirror, and return a descriptor of it."""
    if not is_published(name):  # nor may it lead out of the mirror
        raise FileNotFoundError(f"{home}: has no {name}")
    place = home / name
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = temporary_path(place)
    try:
        with open(beside, "xb") as file:
            size = download(f"{places().origin(home)}/{name}", file)
        fd = os.open(beside, os.O_RDONLY | os.O_CLOEXEC)
        if not _CHUNK.fullmatch(name) or _ROOM.reserve(size, home):
            os.replace(beside, place)
        return fd
    except Absent as e:
        raise FileNotFoundError(str(e)) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)


def _write(path: Path, content: bytes) -> None:
    """Write a file of a mirror in one rename."""
    beside = temporary_path(path)
    beside.write_bytes(content)
    os.replace(beside, path)


class _Room:
    """The room left in the cache, by this process's account.

    ``_others`` are the mirrors that make room, those opened longest ago first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._home = Path()
        self._free = 0
        self._others = list[Path]()

    def reserve(self, size: int, home: Path) -> bool:
        """Make room for a chunk in other mirrors, and return whether it may stay.

        Parameters
        ----------
        size
            Bytes of the chunk.
        home
            Its mirror.
        """
        with self._lock:
            if home != self._home:
                marks = (
                    m
                    for m in cache_folder().rglob(MIRROR)
                    if m.is_file() and remote_address(m.read_text(errors="replace"))
                )
                mirrors = sorted((m.parent for m in marks), key=lambda p: p.stat().st_mtime)
                self._free = parse_bytes(os.environ.get("TOPICS_CACHE_SIZE", SIZE))
                for mirror in mirrors:
                    self._free -= sum(chunk_size for _, chunk_size in _chunks(mirror))
                self._home = home
                self._others = [mirror for mirror in mirrors if mirror != home]
            while self._free < size and self._others:
                for path, chunk_size in _chunks(self._others.pop(0)):
                    path.unlink(missing_ok=True)
                    self._free += chunk_size
            fits = size <= self._free
            self._free -= size if fits else 0
            return fits


_ROOM = _Room()


def _chunks(mirror: Path) -> Iterator[tuple[Path, int]]:
    """Yield the chunks that a mirror has, with their sizes."""
    for path in mirror.rglob("c/*/*"):
        with contextlib.suppress(FileNotFoundError):  # another process made room
            yield path, path.stat().st_size
