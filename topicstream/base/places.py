"""Places that a user names: files and folders of this machine, and addresses such as ``s3://``.

The core asks one object, ``places()``, and never tests if a name is an address. ``Places`` answers
for names of this machine. The provider of its scheme answers for an address: the add-on cloud, or
another package (entry points ``topicstream.places``, docs/internals/extending.md). A provider is
imported when the first address of its scheme is used.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from topicstream.base import plugins
from topicstream.base.errors import SCHEMES, UsageError
from topicstream.base.providers import MIRROR, Addresses, Name, Places, Product, T

__all__ = ["MIRROR", "Addresses", "Name", "Places", "Product", "places"]

_OTHER_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://")
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}([^/].*)", re.DOTALL)
"""An address, also as ``Path`` writes it, which keeps one slash of two."""


class _Missing(Addresses):
    """The addresses of the add-on cloud if that is not installed."""

    schemes = ("s3", "gs", "az", "abfs", "abfss", "https", "http")

    def refusal(self, address: Name, doing: str) -> UsageError:
        """Make the error about the missing add-on."""
        return UsageError(f"{address}: addresses need the add-on cloud, which is not installed")

    def expand(self, name: str) -> list[str]:
        """Refuse an input."""
        raise self.refusal(name, "")

    def make(self, place: Name, product: Product) -> dict[str, Any]:
        """Refuse to make a store."""
        raise self.refusal(place, "")

    def check_upload(self, address: str) -> str:
        """Refuse an upload."""
        raise self.refusal(address, "")


def _refuse_other_address(is_local: bool, name: str) -> None:
    """Raise UsageError for an address that nobody answers for."""
    if is_local and _OTHER_ADDRESS.match(name) and not os.path.exists(name):
        raise UsageError(
            f"{name}: only s3, gs, az and https addresses are known; copy it to a folder"
        )


class _Registered(Places):
    """The places of this machine and of all providers, one of which answers for each name."""

    def __init__(self) -> None:
        self._local = Places()
        self._loaded: dict[str, Places] = {}
        self._by_scheme: dict[str, Places] = {}

    def _providers(self) -> Iterator[Places]:
        """Yield the providers, ours first, and load each only when it is reached."""
        for name in plugins.own_names(plugins.PLACES):
            yield self._make_provider(name, plugins.load(plugins.PLACES, name))
        for name, provider in plugins.loaded(plugins.PLACES):
            yield self._make_provider(name, provider)
        yield _Missing()
        yield self._local

    def _make_provider(self, name: str, provider: type[Places]) -> Places:
        """Make a provider, once."""
        if name not in self._loaded:
            self._loaded[name] = provider()
            SCHEMES.update(provider.schemes)
        return self._loaded[name]

    def _find_provider(self, name: Name) -> tuple[Places, str]:
        """Find the provider of a name, and return the name as the provider takes it, too."""
        text = os.fspath(name)
        match = _ADDRESS.fullmatch(text)
        if match is None:
            return self._local, text
        scheme = match[1]
        if scheme not in self._by_scheme:
            # this machine comes last, and answers for a scheme that nobody knows
            self._by_scheme[scheme] = next(
                p for p in self._providers() if p is self._local or scheme in p.schemes
            )
        provider = self._by_scheme[scheme]
        return provider, text if provider is self._local else f"{scheme}://{match[2]}"

    def _find_input(self, name: str) -> tuple[Places, str]:
        """Find the provider of a raw input, which may be a file whose name is like an address."""
        return (self._local, name) if os.path.exists(name) else self._find_provider(name)

    def resolve(self, place: T) -> T | Path:
        if not isinstance(place, str | os.PathLike):
            return place
        provider, address = self._find_provider(place)
        if provider is not self._local:
            return Path(provider.resolve(address))
        _refuse_other_address(True, address)
        return place

    def fetch(self, path: Name) -> int | None:
        absolute = Path(os.path.abspath(path))
        for folder in absolute.parents:
            address = self.origin(folder)
            if address is not None:
                provider, _ = self._find_provider(address)
                return provider.fetch(absolute)
        return None

    def fetch_ahead(self, paths: Iterable[Name]) -> None:
        for path in paths:
            address = next(filter(None, map(self.origin, Path(path).parents)), None)
            if address is not None:
                provider, _ = self._find_provider(address)
                provider.fetch_ahead([path])

    def origin(self, folder: Name) -> str | None:
        return self._local.origin(folder)

    def describe(self, name: Name) -> str:
        provider, place = self._find_provider(name)
        return provider.describe(place)

    def on_this_machine(self, name: Name) -> bool:
        provider, place = self._find_provider(name)
        return provider.on_this_machine(place)

    def exists(self, name: Name) -> bool:
        provider, place = self._find_provider(name)
        return provider.exists(place)

    def is_file(self, name: Name) -> bool:
        provider, place = self._find_provider(name)
        return provider.is_file(place)

    def names_file(self, text: str) -> bool:
        provider, place = self._find_provider(text)
        return provider.names_file(place)

    def is_stream(self, name: Name) -> bool:
        provider, place = self._find_provider(name)
        return provider.is_stream(place)

    def expand(self, name: str) -> list[str]:
        provider, place = self._find_input(name)
        return provider.expand(place)

    def list_objects(self, name: str) -> list[str]:
        provider, place = self._find_provider(name)
        return provider.list_objects(place)

    def left_out(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for provider in self._loaded.values():
            total.update(provider.left_out())
        return total

    def size(self, name: Name) -> int:
        provider, place = self._find_provider(name)
        return provider.size(place)

    def stamp(self, name: str, most: float = math.inf) -> list[int | str] | None:
        provider, place = self._find_input(name)
        return provider.stamp(place, most)

    def open(self, name: Name) -> BinaryIO:
        provider, place = self._find_provider(name)
        return provider.open(place)

    def open_ahead(self, name: Name, size: int) -> None:
        provider, place = self._find_provider(name)
        provider.open_ahead(place, size)

    def open_file(self, name: Name) -> Any:
        provider, place = self._find_provider(name)
        return provider.open_file(place)

    def refuse_output(self, name: Name, option: str) -> None:
        provider, place = self._find_provider(name)
        provider.refuse_output(place, option)

    def refuse_folder(self, folder: Name) -> None:
        provider, place = self._find_provider(folder)
        _refuse_other_address(provider is self._local, place)
        provider.refuse_folder(place)

    def make(self, place: Name, product: Product) -> dict[str, Any]:
        provider, name = self._find_provider(place)
        if provider is self._local and _ADDRESS.fullmatch(name) is not None:
            # Arrow takes such a relative path for an address, too
            address = re.sub(":/+", "://", name, count=1)
            raise UsageError(
                f"--out {address}: stores are written to this machine and to s3://, gs:// or "
                f"az://; name a folder"
            )
        return provider.make(name, product)

    def check_upload(self, address: str) -> str:
        provider, place = self._find_provider(address)
        return provider.check_upload(place)

    def publish(self, folder: Name, address: str) -> dict[str, Any]:
        provider, place = self._find_provider(address)
        return provider.publish(folder, place)

    def traffic(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for provider in self._loaded.values():
            for name, number in provider.traffic().items():
                total[name] = total.get(name, 0) + number
        return total

    def buffers(self) -> int:
        return sum(provider.buffers() for provider in self._loaded.values())

    def renew(self) -> None:
        for provider in self._loaded.values():
            provider.renew()


@cache
def places() -> Places:
    """Return the one object that answers for every place."""
    return _Registered()
