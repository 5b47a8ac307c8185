"""Places that a user names: files and folders of this machine, and addresses such as ``s3://``.

The core asks one object, ``places()``, and never whether a name is an address.  Names of this
machine are answered by ``Places``.  Addresses are answered by the provider of their scheme: the
add-on cloud, or another package's (entry points ``topicstream.places``,
docs/internals/extending.md).  A provider is imported when the first address of its scheme is used.
"""

from __future__ import annotations

import glob
import hashlib
import math
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TypeVar

from topicstream.base import plugins
from topicstream.base.errors import InputError, UsageError

T = TypeVar("T")
Name = str | os.PathLike[str]
MIRROR = ".address"
"""The file of a folder that stands for an address, which it holds."""
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}([^/].*)", re.DOTALL)
"""An address, also as a ``Path`` writes it, which keeps one slash of two."""


class Product(Protocol):
    """A store that is made wherever it is to lie, and known again when it was made before."""

    kind: Literal["corpus"]
    """As marks of folders name it: ``corpus``."""
    appends: bool
    force: bool
    progress: Any

    @property
    def inputs(self) -> str:
        """Return a digest of what it is made of, "" where that cannot be known."""

    def make(self, folder: Name) -> dict[str, Any]:
        """Make it in a folder of this machine; return its summary."""

    def is_made(self, folder: Path) -> bool:
        """Tell whether a folder holds it, or what a killed run has left of it."""

    def describe_made(self, folder: Path) -> dict[str, Any]:
        """Return the summary of one that was made before."""


class Places:
    """Files and folders of this machine."""

    schemes: tuple[str, ...] = ()
    """Schemes of the addresses that a provider answers for."""

    def resolve(self, place: T) -> T | Path:
        """Return the folder through which a store or a model is read.

        Parameters
        ----------
        place
            A folder, an address, or an open store or model.

        Returns
        -------
        Path
            Of an address its mirror on this machine; anything else is returned as it is.

        Raises
        ------
        InputError
            Where the address cannot be read, or holds neither a store nor a model (StoreError).
        """
        return place

    def fetch(self, path: Name) -> int | None:
        """Open a file that a mirror does not have yet.

        Parameters
        ----------
        path
            A file that is not there, below a folder with the file ``.address``.

        Returns
        -------
        int or None
            A descriptor; None where the folder is no mirror of this provider.

        Raises
        ------
        FileNotFoundError
            Where there is no such object.
        InputError
            Where it cannot be read.
        """
        return None

    def origin(self, folder: Name) -> str | None:
        """Return the address that a mirror stands for, None for any other folder."""
        try:
            with open(os.path.join(folder, MIRROR), encoding="utf-8") as file:
                return file.read()
        except (OSError, ValueError):
            return None

    def describe(self, name: Name) -> str:
        """Return the whole name of a place: an absolute path, or an address with two slashes."""
        return os.path.abspath(name)

    def on_this_machine(self, name: Name) -> bool:
        """Tell whether a name is a path, which means nothing to another machine."""
        return True

    def exists(self, name: Name) -> bool:
        """Tell whether something lies at a place; an address is asked when it is read."""
        return os.path.exists(name)

    def is_file(self, name: Name) -> bool:
        """Tell whether a file or an object lies at a place, and may be read.

        Raises
        ------
        InputError
            Where the address cannot be asked.
        """
        return os.path.isfile(name)

    def names_file(self, text: str) -> bool:
        """Tell whether a text names a file; an address by its looks, without a request."""
        return os.path.isfile(text)

    def is_stream(self, name: Name) -> bool:
        """Tell whether a place is a pipe, a socket or a device, which may never end."""
        return os.path.exists(name) and not (os.path.isfile(name) or os.path.isdir(name))

    def expand(self, name: str) -> list[str]:
        """Return the inputs that a name stands for.

        Returns
        -------
        list of str
            The name itself, what a pattern matches, an object, the mirror of a store; nothing
            where the place is a folder of objects, which ``list_objects`` lists.

        Raises
        ------
        InputError
            Where a pattern matches nothing, or nobody reads such addresses.
        """
        if os.path.exists(name):
            return [name]
        if (scheme := re.match(r"([a-z][a-z0-9+]{1,9}):/{1,2}[^/]", name)) is not None:
            address = re.sub(":/+", "://", name, count=1)  # a Path has one slash of them
            raise InputError(
                f"{address}: only files and s3, gs, az and https are read; fetch it first "
                f"(a tool that speaks {scheme[1]}), or pipe it in as -"
            )
        if not glob.has_magic(name):
            return [name]
        matched = sorted(glob.glob(name, recursive=True), key=os.fsencode)
        if not matched:
            raise InputError(f"{name}: no file matches this pattern")
        return matched

    def list_objects(self, name: str) -> list[str]:
        """Return the addresses of all objects below a folder; of this machine none.

        Raises
        ------
        InputError
            Where they cannot be listed.
        """
        return []

    def size(self, name: Name) -> int:
        """Return the bytes of a file or an object.

        Raises
        ------
        OSError, InputError
            Where there is none, or it may not be read.
        """
        return os.stat(name).st_size

    def stamp(self, name: str, most: float = math.inf) -> list[int | str] | None:
        """Return what tells a raw input from a changed one.

        Parameters
        ----------
        most
            Files of a folder; one with more has no stamp.

        Returns
        -------
        list or None
            Files, bytes, and a digest of names, sizes and times; of an object 1, its bytes and
            its version.  None for standard input, and for what is gone.
        """
        if name == "-" or not os.path.exists(name):
            return None
        paths: list[str] = [] if os.path.isdir(name) else [name]
        for at, _, inside in os.walk(name):
            paths += [os.path.join(at, f) for f in inside]
            if len(paths) > most:
                return None
        digest = hashlib.sha256()
        files = 0
        size = 0
        for path in sorted(paths):
            if not os.path.exists(path):
                continue
            about = os.stat(path)
            files = files + 1
            size = size + about.st_size
            digest.update(
                b"%s\0%d\0%d\n"
                % (os.fsencode(os.path.relpath(path, name)), about.st_size, about.st_mtime_ns)
            )
        return [files, size, digest.hexdigest()[:32]]

    def open(self, name: Name) -> BinaryIO:
        """Open raw bytes for reading from start to end; a provider reads ahead.

        Returns
        -------
        BinaryIO
            Buffered, with ``peek``.

        Raises
        ------
        OSError, InputError
            Where there is none, or it may not be read.
        """
        return open(name, "rb")

    def open_file(self, name: Name) -> Any:
        """Return what a library opens that goes to and fro in a file.

        Returns
        -------
        Path or BinaryIO
            The path; an object is a file that is read by ranges.

        Raises
        ------
        InputError
            Where the object may not be read.
        """
        return Path(name)

    def refuse_output(self, name: Name, option: str) -> None:
        """Raise UsageError where a file cannot be written.

        Parameters
        ----------
        option
            How the command calls it, for the message.
        """

    def refuse_folder(self, folder: Name) -> None:
        """Raise UsageError where a folder cannot be written to: an address, or its mirror."""
        if self.origin(folder) is not None:
            raise _read_only(folder)

    def make(self, place: Name, product: Product) -> dict[str, Any]:
        """Make a store at a place.

        Returns
        -------
        dict
            The summary; of an address with ``out`` and ``version``.

        Raises
        ------
        TopicsError
            Where the place holds something else, or cannot be written to.
        """
        return product.make(place)

    def check_upload(self, address: str) -> str:
        """Return an address to which folders can be published.

        Raises
        ------
        UsageError
            For any other place.
        """
        raise UsageError(f"{address}: versions are uploaded to s3://, gs:// or az://")

    def publish(self, folder: Name, address: str) -> dict[str, Any]:
        """Upload a store or a model, and make it the current version at an address.

        Returns
        -------
        dict
            ``uploaded`` (files), and what else the provider tells.

        Raises
        ------
        UsageError
            Where nothing can be published.
        Busy
            Where another publisher was faster.
        """
        self.check_upload(address)
        raise UsageError(f"{address}: cannot be published to")

    def traffic(self) -> dict[str, int]:
        """Return ``requests`` and ``bytes`` since the last call; {} where none were fetched."""
        return {}

    def renew(self) -> None:
        """Ask anew for what lies at addresses, of which a command reads one version."""


class Addresses(Places):
    """Base of a provider: methods are called with a whole address, ``scheme://rest``.

    Each refuses in one line what the provider does not override.
    """

    def refusal(self, address: Name, doing: str) -> UsageError:
        """Return the error for what the provider cannot do."""
        return UsageError(f"{address}: {doing}; copy it to this machine")

    def resolve(self, place: T) -> T | Path:
        raise self.refusal(str(place), "stores and models are not read from such addresses")

    def origin(self, folder: Name) -> str | None:
        return None

    def describe(self, name: Name) -> str:
        return os.fspath(name)

    def on_this_machine(self, name: Name) -> bool:
        return False

    def exists(self, name: Name) -> bool:
        return True

    def is_file(self, name: Name) -> bool:
        return True

    def names_file(self, text: str) -> bool:
        return True

    def is_stream(self, name: Name) -> bool:
        return False

    def expand(self, name: str) -> list[str]:
        return [name]

    def size(self, name: Name) -> int:
        raise self.refusal(name, "raw files are not read from such addresses")

    def stamp(self, name: str, most: float = math.inf) -> list[int | str] | None:
        return None

    def open(self, name: Name) -> BinaryIO:
        raise self.refusal(name, "raw files are not read from such addresses")

    def open_file(self, name: Name) -> Any:
        return self.open(name)

    def refuse_output(self, name: Name, option: str) -> None:
        raise UsageError(
            f"{option} {name}: files are written to this machine only; name one, and copy it there"
        )

    def refuse_folder(self, folder: Name) -> None:
        raise _read_only(folder)

    def make(self, place: Name, product: Product) -> dict[str, Any]:
        raise _read_only(place)


class _Missing(Addresses):
    """Addresses of the add-on cloud, where that is not there."""

    schemes = ("s3", "gs", "az", "abfs", "abfss", "https", "http")

    def refusal(self, address: Name, doing: str) -> UsageError:
        return UsageError(f"{address}: addresses need the add-on cloud, which is not installed")

    def expand(self, name: str) -> list[str]:
        raise self.refusal(name, "")

    def make(self, place: Name, product: Product) -> dict[str, Any]:
        raise self.refusal(place, "")

    def check_upload(self, address: str) -> str:
        raise self.refusal(address, "")


def _read_only(folder: Name) -> UsageError:
    return UsageError(f"{folder}: addresses are read only; name a folder of this machine")


class _Registered(Places):
    """Places of this machine and of all providers; each name goes to who answers for it."""

    def __init__(self) -> None:
        self._local = Places()
        self._loaded: dict[str, Places] = {}
        self._by_scheme: dict[str, Places] = {}

    def _providers(self) -> Iterator[Places]:
        """Load the providers one after the other, ours first."""
        for name in plugins.own(plugins.PLACES):
            yield self._make_provider(name, plugins.load(plugins.PLACES, name))
        for name, provider in plugins.loaded(plugins.PLACES):
            yield self._make_provider(name, provider)
        yield _Missing()
        yield self._local

    def _make_provider(self, name: str, provider: type[Places]) -> Places:
        if name not in self._loaded:
            self._loaded[name] = provider()
        return self._loaded[name]

    def _at(self, name: Name) -> tuple[Places, str]:
        """Return who answers for a name, and the name as that takes it."""
        text = os.fspath(name)
        match = _ADDRESS.fullmatch(text)
        if match is None:
            return self._local, text
        scheme = match[1]
        if scheme not in self._by_scheme:
            self._by_scheme[scheme] = next(
                p for p in self._providers() if p is self._local or scheme in p.schemes
            )
        provider = self._by_scheme[scheme]
        return provider, text if provider is self._local else f"{scheme}://{match[2]}"

    def _at_input(self, name: str) -> tuple[Places, str]:
        """Return who answers for a raw input: a file of this machine may have an address's name."""
        return (self._local, name) if os.path.exists(name) else self._at(name)

    def resolve(self, place: T) -> T | Path:
        if not isinstance(place, str | os.PathLike):
            return place
        provider, address = self._at(place)
        return place if provider is self._local else Path(provider.resolve(address))

    def fetch(self, path: Name) -> int | None:
        whole = Path(os.path.abspath(path))
        for folder in whole.parents:
            if (address := self.origin(folder)) is not None:
                provider, _ = self._at(address)
                return provider.fetch(whole)
        return None

    def origin(self, folder: Name) -> str | None:
        return self._local.origin(folder)

    def describe(self, name: Name) -> str:
        provider, place = self._at(name)
        return provider.describe(place)

    def on_this_machine(self, name: Name) -> bool:
        provider, place = self._at(name)
        return provider.on_this_machine(place)

    def exists(self, name: Name) -> bool:
        provider, place = self._at(name)
        return provider.exists(place)

    def is_file(self, name: Name) -> bool:
        provider, place = self._at(name)
        return provider.is_file(place)

    def names_file(self, text: str) -> bool:
        provider, place = self._at(text)
        return provider.names_file(place)

    def is_stream(self, name: Name) -> bool:
        provider, place = self._at(name)
        return provider.is_stream(place)

    def expand(self, name: str) -> list[str]:
        provider, place = self._at_input(name)
        return provider.expand(place)

    def list_objects(self, name: str) -> list[str]:
        provider, place = self._at(name)
        return provider.list_objects(place)

    def size(self, name: Name) -> int:
        provider, place = self._at(name)
        return provider.size(place)

    def stamp(self, name: str, most: float = math.inf) -> list[int | str] | None:
        provider, place = self._at_input(name)
        return provider.stamp(place, most)

    def open(self, name: Name) -> BinaryIO:
        provider, place = self._at(name)
        return provider.open(place)

    def open_file(self, name: Name) -> Any:
        provider, place = self._at(name)
        return provider.open_file(place)

    def refuse_output(self, name: Name, option: str) -> None:
        provider, place = self._at(name)
        provider.refuse_output(place, option)

    def refuse_folder(self, folder: Name) -> None:
        provider, place = self._at(folder)
        provider.refuse_folder(place)

    def make(self, place: Name, product: Product) -> dict[str, Any]:
        provider, name = self._at(place)
        if provider is self._local and _ADDRESS.fullmatch(name) is not None:
            # Arrow takes such a relative path for an address, too
            address = re.sub(":/+", "://", name, count=1)
            raise UsageError(
                f"--out {address}: stores are written to this machine and to s3://, gs:// or "
                f"az://; name a folder"
            )
        return provider.make(name, product)

    def check_upload(self, address: str) -> str:
        provider, place = self._at(address)
        return provider.check_upload(place)

    def publish(self, folder: Name, address: str) -> dict[str, Any]:
        provider, place = self._at(address)
        return provider.publish(folder, place)

    def traffic(self) -> dict[str, int]:
        each = [fetched for p in self._loaded.values() if (fetched := p.traffic())]
        names = ("requests", "bytes")
        return {name: sum(fetched[name] for fetched in each) for name in names} if each else {}

    def renew(self) -> None:
        for provider in self._loaded.values():
            provider.renew()


@cache
def places() -> Places:
    """Return the one object that answers for every place; it loads no provider yet."""
    return _Registered()
