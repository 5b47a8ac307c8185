"""The core's ``Places`` for buckets and web servers."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from topicstream.addons.cloud.mirror import (
    cache_folder,
    fetch_ahead,
    fetch_missing,
    resolve_mirror,
)
from topicstream.addons.cloud.publication import WRITABLE, claim_address, publish
from topicstream.addons.cloud.remote import (
    SCHEMES,
    RemoteFile,
    forget_versions,
    is_object,
    list_below,
    memory_taken,
    open_ahead,
    open_remote,
    traffic,
    unreadable_objects,
    version_of,
)
from topicstream.base.errors import StoreError, TopicsError, UsageError
from topicstream.base.files import durable
from topicstream.base.files import ownership as owned
from topicstream.base.places import Addresses, Name, Product

T = TypeVar("T")
BUFFER = 1 << 20
"""Bytes that are read at once where a library goes to and fro in an object."""


class CloudPlaces(Addresses):
    """Buckets and web servers."""

    schemes = SCHEMES

    def resolve(self, place: T) -> T | Path:
        return resolve_mirror(place)

    def fetch(self, path: Name) -> int | None:
        return fetch_missing(path)

    def fetch_ahead(self, paths: Iterable[Name]) -> None:
        fetch_ahead(paths)

    def is_file(self, name: Name) -> bool:
        return is_object(name)

    def expand(self, name: str) -> list[str]:
        if name.rstrip("/").endswith(".zarr"):
            try:
                return [str(resolve_mirror(name))]
            except StoreError as e:
                raise StoreError(
                    f"{e}; AnnData in Zarr is read from a folder of this machine: copy it first"
                ) from None
        # who may read an object need not be allowed to list its folder
        return [name] if is_object(name) else []

    def list_objects(self, name: str) -> list[str]:
        return list_below(name)

    def left_out(self) -> dict[str, int]:
        return unreadable_objects()

    def size(self, name: Name) -> int:
        return version_of(os.fspath(name))[0]

    def stamp(self, name: str, most: float = math.inf) -> list[int | str] | None:
        return [1, *version_of(name)]

    def open(self, name: Name) -> BinaryIO:
        return open_remote(os.fspath(name))

    def open_ahead(self, name: Name, size: int) -> None:
        open_ahead(os.fspath(name), size)

    def open_file(self, name: Name) -> Any:
        return io.BufferedReader(RemoteFile(os.fspath(name)), BUFFER)

    def make(self, place: Name, product: Product) -> dict[str, Any]:
        """Make a store in a working folder of this machine, and publish it.

        The folder stays until that is done, so that the same command carries on after a kill; any
        other starts over.
        """
        address = os.fspath(place).rstrip("/")
        if product.appends:
            raise UsageError(
                f"--out {address}: a store at an address cannot be appended to; append to one of "
                f"this machine and publish it"
            )
        inputs = product.inputs
        current, _ = claim_address(address, product.kind)
        home = cache_folder().joinpath("uploads", *address.split("://"))
        work = home / "store"
        with durable.lock(home, "making", kind="ingest"):
            if current is not None and not product.force:
                if not inputs or current.inputs != inputs:
                    unknown = (
                        ""
                        if inputs
                        else ", and documents that are in no file cannot be compared with it"
                    )
                    raise TopicsError(f"{address}: exists{unknown}; --force replaces it")
                version = current.version
                summary = product.describe_made(Path(resolve_mirror(address)))
            else:
                if not product.is_made(work):
                    owned.remove(work, product.kind)  # of another ingest, which was killed
                summary = product.make(work)
                published = publish(work, address, inputs=inputs, progress=product.progress)
                version = published["version"]
            owned.remove(home, "ingest")
        return summary | {"out": address, "version": version}

    def check_upload(self, address: str) -> str:
        return address if WRITABLE.match(address) else super().check_upload(address)

    def publish(self, folder: Name, address: str) -> dict[str, Any]:
        return publish(folder, address)

    def traffic(self) -> dict[str, int]:
        return traffic()

    def buffers(self) -> int:
        return memory_taken()

    def renew(self) -> None:
        forget_versions()
