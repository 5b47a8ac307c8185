"""The last half of an ingest: from the spools to a store that is committed by one rename.

A new store is built in the working folder and renamed into place.  An append writes files that no manifest mentions into
the store (higher rows, new parts, files of the new generation) and replaces the manifest last.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa

from topicstream.corpus.documents import DocumentsWriter, places, schema_of
from topicstream.corpus.format import PARTS, SCHEMA, create_arrays, part_summary, set_rows
from topicstream.durable import exchange, sync_file, sync_folder, write_json
from topicstream.ingest.decide import DROPPED, Decision, piece_metadata
from topicstream.ingest.journal import Journal
from topicstream.ingest.progress import Progress
from topicstream.machine import versions
from topicstream.tokens.recipe import Recipe


def file_entry(folder: Path, name: str) -> dict[str, Any]:
    """The manifest's entry of a file: name, size, crc32c."""
    crc, size = 0, 0
    with open(folder / name, "rb") as f:
        while data := f.read(1 << 20):
            crc = google_crc32c.extend(crc, data)
            size += len(data)
    return {"file": name, "size": size, "crc32c": int(crc)}


def fingerprint(vocabulary_hash: str, parts: dict[str, Any], removed: dict[str, Any] | None) -> str:
    """sha256 over the vocabulary and the blocks' checksums in order: equal for stores of equal content."""
    digest = hashlib.sha256(vocabulary_hash.encode())
    for part in PARTS:
        for block in parts[part]["blocks"]:
            crcs = [crc for kind in sorted(block["files"]) for _, crc in block["files"][kind]]
            digest.update(np.array([block["docs"], block["cells"], *crcs], "<i8").tobytes())
    if removed is not None:
        digest.update(int(removed["crc32c"]).to_bytes(4, "little"))
    return digest.hexdigest()


def write_documents(
    journal: Journal,
    decision: Decision,
    folder: Path,
    columns: dict[str, str],
    first_part: int,
    new_blocks: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    first_blocks: tuple[int, int],
    progress: Progress,
) -> list[dict[str, Any]]:
    """Write the documents' table of this ingest; the manifest's entries of its files."""
    edges = tuple(np.cumsum([0, *(b["docs"] for b in blocks)]) for blocks in new_blocks)
    schema = schema_of(columns)
    writer = DocumentsWriter(folder / "docs", schema, first_part)
    part_column = pa.array(PARTS, pa.string())
    seen = [0, 0]
    for i in range(len(journal.docs)):
        arrays, _ = journal.docs.read(i)
        kind = decision.classes(i, arrays["high"])
        kept = np.flatnonzero(kind != DROPPED)
        table = piece_metadata(arrays)
        if len(kept) != len(kind):
            table = table.take(kept)
        part = kind[kept]
        block, row = places(part, (edges[0], edges[1]), seen)
        block += np.asarray(first_blocks, np.int32)[part]
        table = table.append_column("part", pa.DictionaryArray.from_arrays(pa.array(part.astype(np.int8)), part_column))
        writer.add(table.append_column("block", pa.array(block)).append_column("row", pa.array(row)))
        progress.step("writing documents", i + 1, len(journal.docs))
    writer.close()
    return [file_entry(folder, f"docs/{path.name}") for path in writer.files]


def settle_arrays(folder: Path, weighted: bool, parts: dict[str, Any]) -> None:
    """Tell stock zarr how many rows there are."""
    if not (folder / "zarr.json").exists():
        create_arrays(folder, weighted)
    for part in PARTS:
        set_rows(folder, part, parts[part]["rows"])


def make_manifest(
    *,
    generation: int,
    weighted: bool,
    words: int,
    vocabulary_hash: str,
    parts: dict[str, Any],
    heldout: dict[str, Any],
    recipe: Recipe,
    text: bool,
    vocabulary: dict[str, Any],
    files: dict[str, Any],
    docs: list[dict[str, Any]],
    columns: dict[str, str],
    sources: list[str],
    summary: dict[str, Any],
) -> dict[str, Any]:
    """The manifest of a store.  No times in it: the same input gives the same bytes."""
    return {
        "schema": SCHEMA,
        "kind": "corpus",
        "created_with": versions(),
        "generation": generation,
        "weighted": weighted,
        "n_words": words,
        "fingerprint": fingerprint(vocabulary_hash, parts, files.get("removed")),
        "parts": parts,
        "heldout": heldout,
        "tokenizer": recipe.to_json() if text else None,
        "tokenizer_hash": recipe.hash() if text else None,
        "vocabulary": {**vocabulary, "hash": vocabulary_hash},
        "files": files,
        "docs": docs,
        "columns": columns,
        "sources": {"count": len(sources), "first": sources[:100]},
        "summary": summary,
    }


def summarise_parts(old: dict[str, Any] | None, new: tuple[list[Any], list[Any]]) -> dict[str, Any]:
    """The parts' entries: the old blocks, then the new ones."""
    return {part: part_summary([*(old[part]["blocks"] if old else []), *new[i]]) for i, part in enumerate(PARTS)}


def sweep(store: Path, manifest: dict[str, Any]) -> None:
    """Remove what a killed append left: rows, parts and files that the manifest does not mention."""
    named = {e["file"] for e in manifest["files"].values()} | {e["file"] for e in manifest["docs"]}
    for pattern in ("vocab*.parquet", "pruned*.parquet", "removed*.npy", "docs/part-*.parquet", ".*.tmp"):
        for path in store.glob(pattern):
            if str(path.relative_to(store)) not in named | {"vocab.parquet", "pruned.parquet"}:
                path.unlink()
    for part in PARTS:
        rows = manifest["parts"][part]["rows"]
        for path in store.glob(f"{part}/*/c/*"):
            if path.name.isdigit() and int(path.name) >= rows:
                shutil.rmtree(path)


def plain_names(store: Path, manifest: dict[str, Any]) -> None:
    """``vocab.parquet`` and ``pruned.parquet`` are the files of the latest generation, under their plain name too."""
    for kind in ("vocab", "pruned"):
        name = manifest["files"][kind]["file"]
        if name != f"{kind}.parquet":
            beside = store / f".{kind}.tmp"
            beside.unlink(missing_ok=True)
            os.link(store / name, beside)
            os.replace(beside, store / f"{kind}.parquet")


def put_in_place(new: Path, out: Path) -> None:
    """Rename ``new`` to ``out``; a store that is there is exchanged in one step and then removed."""
    if out.exists() and any(out.iterdir()):
        if exchange(new, out):
            shutil.rmtree(new)
        else:
            old = out.with_name(out.name + ".old")
            os.replace(out, old)
            os.replace(new, out)
            shutil.rmtree(old)
    else:
        os.replace(new, out)
    sync_folder(out.parent)


def commit_manifest(store: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest, last of all."""
    write_json(store / "manifest.json", manifest)


def remove_folder(folder: Path) -> None:
    """Remove a folder and all in it."""
    shutil.rmtree(folder)


def copy_file(source: Path, target: Path) -> None:
    """Copy and fsync."""
    shutil.copyfile(source, target)
    sync_file(target)
