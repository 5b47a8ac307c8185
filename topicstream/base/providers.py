"""Providers of places: the interface, as this machine answers it, and the base of all others.

``places()`` (base/places.py) finds the provider of a name.
"""

from __future__ import annotations

import glob
import hashlib
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TypeVar

from topicstream.base.errors import InputError, UsageError

T = TypeVar("T")
Name = str | os.PathLike[str]
MIRROR = ".address"
"""The file in a mirror that contains its address."""


class Product(Protocol):
    """A store that a place can make, wherever it is to lie.

    Attributes
    ----------
    kind
        The kind in the mark of its folder.
    appends, force
        Settings of the ingest that makes it.
    progress
        Its progress listener.
    """

    kind: Literal["corpus"]
    appends: bool
    force: bool
    progress: Any

    @property
    def inputs(self) -> str:
        """Return a digest of its inputs, "" if they cannot be known."""

    def make(self, folder: Name) -> dict[str, Any]:
        """Make it in a folder of this machine, and return its summary."""

    def is_made(self, folder: Path) -> bool:
        """Tell whether a folder holds it, whole or as a killed run has left it."""

    def describe_made(self, folder: Path) -> dict[str, Any]:
        """Return the summary of a store that was made before."""


class Places:
    """Files and folders of this machine.

    Attributes
    ----------
    schemes
        Schemes of the addresses that a provider answers for.
    """

    schemes: tuple[str, ...] = ()

    def resolve(self, place: T) -> T | Path:
        """Return the folder through which a store or a model is read.

        Parameters
        ----------
        place
            A folder, an address, or an open store or model.

        Returns
        -------
        Path
            The mirror of an address on this machine; anything else is returned as it is.

        Raises
        ------
        InputError
            If the address cannot be read.
        StoreError
            If it holds neither a store nor a model.
        """
        return place

    def fetch(self, path: Name) -> int | None:
        """Open a file that a mirror does not have yet.

        Parameters
        ----------
        path
            A missing file below a folder with the file ``.address``.

        Returns
        -------
        int or None
            A descriptor; None if the folder is no mirror of this provider.

        Raises
        ------
        FileNotFoundError
            If there is no such object.
        InputError
            If it cannot be read.
        """
        return None

    def fetch_ahead(self, paths: Iterable[Name]) -> None:
        """Begin to fetch files of a mirror that are opened soon, in this order.

        Parameters
        ----------
        paths
            Files below a folder with the file ``.address``, of which some may be there.
        """

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
        """Tell whether something lies at a place, as an address does until it is read."""
        return os.path.exists(name)

    def is_file(self, name: Name) -> bool:
        """Tell whether a file or an object lies at a place, and may be read.

        Raises
        ------
        InputError
            If the address cannot be asked.
        """
        return os.path.isfile(name)

    def names_file(self, text: str) -> bool:
        """Tell whether a text names a file or, without a request, an object."""
        return os.path.isfile(text)

    def is_stream(self, name: Name) -> bool:
        """Tell whether a place is a pipe, a socket or a device, which may never end."""
        return os.path.exists(name) and not (os.path.isfile(name) or os.path.isdir(name))

    def expand(self, name: str) -> list[str]:
        """Return the inputs that a name stands for.

        Returns
        -------
        list of str
            The name itself, the matches of a pattern, an object, or the mirror of a store; nothing
            for a folder of objects, which ``list_objects`` lists.

        Raises
        ------
        InputError
            If a pattern matches nothing, or no provider reads such addresses.
        """
        if os.path.exists(name):
            return [name]
        scheme = re.match(r"([a-z][a-z0-9+]{1,9}):/{1,2}[^/]", name)
        if scheme is not None:
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
        """Return the addresses of all objects below a folder at an address.

        Raises
        ------
        InputError
            If they cannot be listed.
        """
        return []

    def left_out(self) -> dict[str, int]:
        """Return notes on objects of the last lists that cannot be read, with their numbers."""
        return {}

    def size(self, name: Name) -> int:
        """Return the bytes of a file or an object.

        Raises
        ------
        OSError, InputError
            If there is none, or it may not be read.
        """
        return os.stat(name).st_size

    def stamp(self, name: str, most: float = math.inf) -> list[int | str] | None:
        """Return values that change when a raw input changes.

        Parameters
        ----------
        name
            The input, a file or a folder.
        most
            Files of a folder, at most; one with more has no stamp.

        Returns
        -------
        list or None
            Files, bytes, and a digest of names, sizes and times; for an object 1, its bytes and
            its version. None for standard input, and for an input that is gone.
        """
        if name == "-" or not os.path.exists(name):
            return None
        paths: list[str] = [] if os.path.isdir(name) else [name]
        for folder, _, names in os.walk(name):
            paths += [os.path.join(folder, inside) for inside in names]
            if len(paths) > most:
                return None
        digest = hashlib.sha256()
        files = 0
        size = 0
        for path in sorted(paths):
            if not os.path.exists(path):
                continue
            about = os.stat(path)
            files += 1
            size += about.st_size
            digest.update(
                b"%s\0%d\0%d\n"
                % (os.fsencode(os.path.relpath(path, name)), about.st_size, about.st_mtime_ns)
            )
        return [files, size, digest.hexdigest()[:32]]

    def open(self, name: Name) -> BinaryIO:
        """Open raw bytes for reading from start to end.

        A provider reads ahead.

        Returns
        -------
        BinaryIO
            A buffered file with ``peek``.

        Raises
        ------
        OSError, InputError
            If there is none, or it may not be read.
        """
        return open(name, "rb")

    def open_ahead(self, name: Name, size: int) -> None:
        """Begin to read a raw file that is opened soon, if that takes a while.

        Parameters
        ----------
        name
            The file. An error is raised when it is opened.
        size
            Bytes that are read, at most.
        """

    def open_file(self, name: Name) -> Any:
        """Return a path or file for libraries that seek in it.

        Returns
        -------
        Path or BinaryIO
            The path; for an object, a file that is read by ranges.

        Raises
        ------
        InputError
            If the object may not be read.
        """
        return Path(name)

    def refuse_output(self, name: Name, option: str) -> None:
        """Raise UsageError if a file cannot be written.

        Parameters
        ----------
        name
            The file.
        option
            The option that names it, for the message.
        """

    def refuse_folder(self, folder: Name) -> None:
        """Raise UsageError if a folder cannot be written to: an address, or its mirror."""
        if self.origin(folder) is not None:
            raise _read_only(folder)

    def make(self, place: Name, product: Product) -> dict[str, Any]:
        """Make a store at a place.

        Returns
        -------
        dict
            The summary; for an address, with ``out`` and ``version``.

        Raises
        ------
        TopicsError
            If the place holds something else, or cannot be written to.
        """
        return product.make(place)

    def check_upload(self, address: str) -> str:
        """Return an address if folders can be published there.

        Raises
        ------
        UsageError
            If they cannot.
        """
        raise UsageError(f"{address}: versions are uploaded to s3://, gs:// or az://")

    def publish(self, folder: Name, address: str) -> dict[str, Any]:
        """Upload a store or a model, and make it the current version at an address.

        Returns
        -------
        dict
            ``uploaded`` (files), and further values of the provider.

        Raises
        ------
        UsageError
            If nothing can be published there.
        Busy
            If another publisher was faster.
        """
        self.check_upload(address)
        raise UsageError(f"{address}: cannot be published to")

    def traffic(self) -> dict[str, int]:
        """Return ``requests`` and ``bytes`` since the last call, {} without any."""
        return {}

    def buffers(self) -> int:
        """Return the bytes that objects on their way take in memory.

        0 until something was read from an address.
        """
        return 0

    def renew(self) -> None:
        """Forget the versions of addresses, of which a command reads one each."""


class Addresses(Places):
    """Base of a provider of addresses.

    Its methods are called with a whole address, ``scheme://rest``. A method that the provider does
    not override refuses the address in one line, or answers as for an object that is not read yet.

    Examples
    --------
    >>> import io
    >>> from topicstream.base.places import Addresses
    >>> class Notes(Addresses):
    ...     schemes = ("note",)
    ...
    ...     def size(self, name):
    ...         return len(name)
    ...
    ...     def open(self, name):
    ...         return io.BufferedReader(io.BytesIO(name.removeprefix("note://").encode()))
    >>> Notes().open("note://cats and dogs").read()
    b'cats and dogs'
    """

    def refusal(self, address: Name, doing: str) -> UsageError:
        """Make the error about work that the provider cannot do."""
        return UsageError(f"{address}: {doing}; copy it to this machine")

    def resolve(self, place: T) -> T | Path:
        """Refuse to read a store or a model."""
        raise self.refusal(str(place), "stores and models are not read from such addresses")

    def origin(self, folder: Name) -> str | None:
        """Return None: an address is no mirror."""
        return None

    def describe(self, name: Name) -> str:
        """Return the address."""
        return os.fspath(name)

    def on_this_machine(self, name: Name) -> bool:
        """Return False: every machine reads an address."""
        return False

    def exists(self, name: Name) -> bool:
        """Return True, without a request."""
        return True

    def is_file(self, name: Name) -> bool:
        """Return True, without a request."""
        return True

    def names_file(self, text: str) -> bool:
        """Return True, without a request."""
        return True

    def is_stream(self, name: Name) -> bool:
        """Return False: an object has an end."""
        return False

    def expand(self, name: str) -> list[str]:
        """Return the address: there are no patterns."""
        return [name]

    def size(self, name: Name) -> int:
        """Refuse to read a raw file."""
        raise self.refusal(name, "raw files are not read from such addresses")

    def stamp(self, name: str, most: float = math.inf) -> list[int | str] | None:
        """Return None: changes are not noticed."""
        return None

    def open(self, name: Name) -> BinaryIO:
        """Refuse to read a raw file."""
        raise self.refusal(name, "raw files are not read from such addresses")

    def open_file(self, name: Name) -> Any:
        """Open the object as ``open`` does."""
        return self.open(name)

    def refuse_output(self, name: Name, option: str) -> None:
        """Refuse to write a file."""
        raise UsageError(
            f"{option} {name}: files are written to this machine only; name one, and copy it there"
        )

    def refuse_folder(self, folder: Name) -> None:
        """Refuse to write to a folder."""
        raise _read_only(folder)

    def make(self, place: Name, product: Product) -> dict[str, Any]:
        """Refuse to make a store."""
        raise _read_only(place)


def _read_only(folder: Name) -> UsageError:
    """Make the error about writing to an address."""
    return UsageError(f"{folder}: addresses are read only; name a folder of this machine")
