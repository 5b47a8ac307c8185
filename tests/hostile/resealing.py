"""Stores and models with other contents, every checksum and total above them made to fit: what a
stranger makes who knows the format.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import google_crc32c
import msgspec
import numpy as np
from numcodecs import blosc

from topicstream.base.files.durable import read_json, with_checksum
from topicstream.base.records import plain
from topicstream.corpus.format import CELLS, DOCS, KINDS, chunk_path, write_row
from topicstream.corpus.manifest import BlockEntry, part_of


def write_sealed(path: Path, value: Any) -> None:
    """JSON with a checksum that fits."""
    path.write_bytes(with_checksum(b"{\n" + json.dumps(value, sort_keys=True).encode()[1:]))


def chunks_of(store: Path, part: str, block: int) -> dict[str, np.ndarray]:
    """words, counts, lengths of a storage block of one row, as they lie on disk."""
    manifest = read_json(store / "manifest.json")
    entry = manifest["parts"][part]["blocks"][block]
    found = {}
    for kind in KINDS:
        body = chunk_path(store, part, kind, entry["rows"][0]).read_bytes()[:-4]
        n = entry["docs"] if kind == "lengths" else entry["cells"]
        found[kind] = np.frombuffer(blosc.decompress(body), np.uint32)[:n].copy()
    return found


def reseal_block(
    store: Path,
    part: str,
    block: int,
    arrays: dict[str, np.ndarray],
    *,
    totals: bool = True,
    same: Any = None,
) -> None:
    """Put arrays in a block's place; sizes and checksums fit, and (``totals``) so do documents,
    cells and tokens. Arrays that are those of ``same`` are there already.
    """
    manifest = read_json(store / "manifest.json")
    entry = manifest["parts"][part]["blocks"][block]
    for kind, values in arrays.items():
        if same is not None and values is same[kind]:
            continue
        path = chunk_path(store, part, kind, entry["rows"][0])
        path.unlink()
        entry["files"][kind] = [write_row(path, values, DOCS if kind == "lengths" else CELLS)]
    if totals:
        entry["docs"] = len(arrays["lengths"])
        entry["cells"] = int(arrays["lengths"].sum(dtype=np.int64))
        counts = arrays["counts"][: entry["cells"]]
        entry["tokens"] = int(counts.view(np.int32).sum(dtype=np.int64))
        manifest["parts"][part] = plain(
            part_of(msgspec.convert(manifest["parts"][part]["blocks"], list[BlockEntry]))
        )
    write_sealed(store / "manifest.json", manifest)


def reseal_file(store: Path, name: str, data: bytes) -> None:
    """Another content for a file of a store that its manifest lists."""
    manifest = read_json(store / "manifest.json")
    for entry in [*manifest["files"].values(), *manifest["docs"]]:
        if entry["file"] == name:
            entry |= {"size": len(data), "crc32c": int(google_crc32c.value(data))}
    (store / name).write_bytes(data)
    write_sealed(store / "manifest.json", manifest)


def reseal_model(
    model: Path,
    attributes: dict[str, Any],
    rows: np.ndarray | None = None,
    vocab: bytes | None = None,
) -> None:
    """Other attributes of the topics' array, another first chunk (float32[step, K]), another
    vocabulary.
    """
    manifest = read_json(model / "manifest.json")
    topics = model / manifest["files"]["topics"]["name"]
    meta = json.loads((topics / "zarr.json").read_text())
    if rows is not None:
        body = bytes(blosc.compress(rows, b"lz4", 1, blosc.SHUFFLE))
        crc = int(google_crc32c.value(body))
        (topics / "c" / "0" / "0").write_bytes(body + crc.to_bytes(4, "little"))
        chunks = meta["attributes"]["chunks"].split()
        meta["attributes"]["chunks"] = " ".join([f"{len(body) + 4}:{crc:08x}", *chunks[1:]])
    meta["attributes"] |= attributes
    text = json.dumps(meta).encode()
    (topics / "zarr.json").write_bytes(text)
    manifest["files"]["topics"]["crc32c"] = int(google_crc32c.value(text))
    if vocab is not None:
        (model / manifest["files"]["vocab"]["name"]).write_bytes(vocab)
        manifest["files"]["vocab"]["crc32c"] = int(google_crc32c.value(vocab))
    write_sealed(model / "manifest.json", manifest)
