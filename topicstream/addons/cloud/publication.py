"""Publication of stores and models at an address.

Published objects never change, except ``current.json``, which names the version:

    ADDRESS/published.json          an empty object, which tests that the store heeds conditions
    ADDRESS/versions/VERSION/...    the files; VERSION is the hash of ``files.json``, their list
    ADDRESS/current.json            the version that readers take

``current.json`` is replaced last, on the condition that it is still what it was when the upload
began, so one of several publishers wins and readers see a whole version or the one before. It holds
a nonce: a publisher whose answer was lost sees that it won.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

import msgspec

from topicstream.addons.cloud.mirror import (
    CURRENT,
    LISTING,
    Current,
    Kind,
    is_published,
    read_current,
)
from topicstream.addons.cloud.remote import POOL, Changed, list_below, put_object
from topicstream.base.errors import Busy, NotOurs, StoreError, TopicsError, UsageError
from topicstream.base.files.marker import KINDS, kind_of
from topicstream.base.files.plain import refuse_links
from topicstream.base.progress import ProgressLike, listener
from topicstream.corpus.manifest import StoreManifest
from topicstream.corpus.sweep import outdated_files

PROBE = "published.json"
"""The object that tells whether conditions are heeded."""
WRITABLE = re.compile("(s3|gs|az|abfss?)://[^/]")
"""Addresses that can be published to."""
NEVER_MET = {"e_tag": '"0"', "version": "0"}
"""A condition that no object meets."""


def claim_address(address: str, kind: Kind) -> tuple[Current | None, Any]:
    """Make sure that a kind may be published at an address, whose store heeds conditions.

    Returns
    -------
    tuple
        What is published there, and the condition on which it may be replaced.

    Raises
    ------
    NotOurs
        Where something else lies there.
    UsageError
        For a web server or a folder.
    TopicsError
        Where the store ignores conditions, so that publishers could overwrite each other.
    """
    if not WRITABLE.match(address):
        raise UsageError(
            f"{address}: stores and models are published to s3://, gs:// or az://; elsewhere "
            f"copy the folder"
        )
    current, condition = read_current(address)
    if current is not None and current.kind != kind:
        raise NotOurs(
            f"{address}: is {KINDS[current.kind]}, not {KINDS[kind]}; name another address"
        )
    # another first publisher may have come just now: the condition says so in the end
    published = (f"{address}/versions/", f"{address}/{PROBE}", f"{address}/{CURRENT}")
    others = (
        []
        if current is not None
        else [name for name in list_below(address) if not name.startswith(published)]
    )
    if others:
        raise NotOurs(
            f"{address}: holds objects that were not published by this program ({others[0]}); "
            f"name another address"
        )
    with contextlib.suppress(Changed):  # it is there
        put_object(f"{address}/{PROBE}", b"", "create")
    for impossible in ("create", NEVER_MET):
        try:
            put_object(f"{address}/{PROBE}", b"", impossible)
        except Changed:
            continue
        raise TopicsError(
            f"{address}: this store ignores conditional writes, so publishers could overwrite "
            f"each other; use another store"
        )
    return current, condition


def publish(
    folder: str | os.PathLike[str], address: str, *, inputs: str = "", progress: ProgressLike = None
) -> dict[str, Any]:
    """Upload a corpus store or a model, and make it an address' current version.

    A publication that was killed is carried on: files that were uploaded are not uploaded again.

    Parameters
    ----------
    folder
        Of a store, a model, or a version of a retrain.
    address
        Such as ``s3://bucket/models/news``; docs/storage.md.
    inputs
        A digest of what the folder was made of, which ``ingest`` compares.
    progress
        As in ``ingest``.

    Returns
    -------
    dict
        address, kind, version, files, bytes, uploaded (files).

    Raises
    ------
    StoreError
        Where the folder is neither a store nor a model.
    NotOurs
        Where something else lies at the address.
    Busy
        Where another publisher was faster, or the folder has changed meanwhile; the current version
        stays.

    Examples
    --------
    >>> topicstream.publish("nothing", "s3://bucket/models/news")
    Traceback (most recent call last):
    topicstream.errors.StoreError: nothing: neither a corpus store nor a model; nothing is published
    """
    address = address.rstrip("/")
    place = Path(folder).resolve()
    kind: Kind = "corpus" if kind_of(place) == "corpus" else "model"
    if (
        kind_of(place) not in ("corpus", "model", "version")
        or not (place / "manifest.json").exists()
    ):
        raise StoreError(f"{folder}: neither a corpus store nor a model; nothing is published")
    before, condition = claim_address(address, kind)
    refuse_links(place, but=(".lock", "checkpoints", "work"))
    changed = Busy(f"{folder}: another process changed it during the upload; publish it again")
    try:
        files = {path for path in place.rglob("*") if path.is_file()}
        if kind == "corpus":
            files -= set(outdated_files(place, StoreManifest.read(place)))
        names = sorted(path.relative_to(place).as_posix() for path in files)
        sizes = {name: (place / name).stat().st_size for name in names if is_published(name)}
        hashes = dict(zip(sizes, POOL.map(lambda name: _sha256(place / name), sizes)))
        listing = json.dumps(hashes).encode()
        version = hashlib.sha256(listing).hexdigest()[:32]
        below = f"{address}/versions/{version}/"
        uploaded = {address_of_file.removeprefix(below) for address_of_file in list_below(below)}
        missing = [name for name in sizes if name not in uploaded]
        for number, _ in enumerate(
            POOL.map(lambda name: put_object(below + name, place / name), missing), 1
        ):
            listener(progress).step("uploading", number, len(missing), "files")
        if _sha256(place / "manifest.json") != hashes["manifest.json"]:
            raise changed
    except FileNotFoundError:  # listed just now: a compaction or another run has removed it
        raise changed from None
    put_object(below + LISTING, listing)
    if before is None or before.version != version:
        _replace(address, Current(kind, version, secrets.token_hex(16), inputs), condition)
    return {
        "address": address,
        "kind": kind,
        "version": version,
        "files": len(sizes),
        "bytes": sum(sizes.values()),
        "uploaded": len(missing),
    }


def _replace(address: str, new: Current, condition: Any) -> None:
    """Replace ``current.json`` if it is unchanged.

    Raises
    ------
    Busy
        If another publisher was faster.
    """
    try:
        put_object(f"{address}/{CURRENT}", msgspec.json.encode(new), condition)
    except Changed:
        winner, _ = read_current(address)
        if winner != new:
            other = (
                "another publisher"
                if winner is None
                else f"another publisher, of version {winner.version},"
            )
            raise Busy(
                f"{address}: {other} was faster; version {new.version} is uploaded but not "
                f"current: publish it again if it should be"
            ) from None


def _sha256(path: Path) -> str:
    """Hash the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
