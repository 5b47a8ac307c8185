"""``.forgotten.json``: ids that ``topics forget`` removed, which no later ingest takes in again.

The list holds keyed hashes: sha256 of a random salt of this list and of the id's 128-bit hash.
Nobody can read the ids from it, but whoever has the list can check if an id that they know is on
it. It lies in the store, and in the folder of ``topics retrain`` too, where it outlives the store.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import pyarrow as pa
from msgspec import Meta
from msgspec.structs import replace

from topicstream.base.files.durable import sync
from topicstream.base.records import Record, read_record, write_record
from topicstream.corpus.documents import hash_ids

NAME = ".forgotten.json"
HOME_STORE = "corpus.zarr"
"""Name of the store in a retrain's folder, whose list holds for it."""
DIGITS = 40
"""Hexadecimal digits of a hash."""


class ForgottenIds(Record):
    """A list of forgotten ids.

    Attributes
    ----------
    salt
        Random hexadecimal digits, "" for an empty list.
    hashes
        The keyed hashes, in order.
    """

    salt: Annotated[str, Meta(pattern="^[0-9a-f]*$")] = ""
    hashes: list[str] = []

    def hash_id(self, high: int, low: int) -> str:
        """Compute the keyed hash of an id from its two numbers, as ``sql`` does."""
        text = f"{self.salt}:{high}:{low}"
        return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]

    def sql(self) -> str:
        """Return the keyed hash of columns ``high`` and ``low`` as DuckDB computes it."""
        return f"substr(sha256('{self.salt}:' || high || ':' || low), 1, {DIGITS})"

    def add(self, ids: Iterable[str]) -> ForgottenIds:
        """Return the list with more ids."""
        salted = self if self.salt else replace(self, salt=secrets.token_hex(16))
        return replace(salted, hashes=sorted({*self.hashes, *salted._hashes(ids)}))

    def without(self, ids: Iterable[str]) -> ForgottenIds:
        """Return the list without some ids."""
        lifted = set(self._hashes(ids))
        return replace(self, hashes=[digest for digest in self.hashes if digest not in lifted])

    def _hashes(self, ids: Iterable[str]) -> list[str]:
        """Hash ids with the key of the list."""
        high, low = hash_ids(pa.array(list(ids), pa.large_string()))
        return list(map(self.hash_id, high.tolist(), low.tolist()))


def read_forgotten(folder: Path) -> ForgottenIds:
    """Read a folder's list of forgotten ids, empty if there is no file.

    Raises
    ------
    StoreError
        If it is damaged.
    """
    path = folder / NAME
    if not path.exists():
        return ForgottenIds()
    advice = "Restore it; without it documents that were forgotten come back"
    return read_record(path, ForgottenIds, advice)


def write_forgotten(folder: Path, listed: ForgottenIds) -> None:
    """Replace the list of a folder."""
    write_record(folder / NAME, listed)
    sync(folder)


def lists_for(store: Path) -> list[ForgottenIds]:
    """Read the lists that apply to a store: its own, and its retrain folder's."""
    folders = [store]
    if store.name == HOME_STORE:
        folders.append(store.parent)
    lists = map(read_forgotten, folders)
    return [listed for listed in lists if listed.hashes]
