"""The last half of an ingest: from the spools to a store that is committed by one rename.

A new store is built in the working folder and renamed into place.  An append writes files that no manifest mentions into
the store (higher rows, new parts, files of the new generation) and replaces the manifest last.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.corpus.axis_build import sweep_axes
from topicstream.corpus.documents import DocumentsWriter, next_part, places, schema_of
from topicstream.corpus.format import KINDS, PARTS, SCHEMA, create_arrays, part_folder, part_summary, set_rows
from topicstream.corpus.manifest import file_entry
from topicstream.files import owned
from topicstream.files.durable import exchange, sync_file, sync_folder, write_json
from topicstream.files.ownership import Mark, claim, owns, refuse_strangers, temporary
from topicstream.ingestion.spooling.journal import Journal
from topicstream.ingestion.storing.decide import DROPPED, Decision, piece_metadata
from topicstream.ingestion.upkeep import retired
from topicstream.machine import versions
from topicstream.progress import Progress
from topicstream.tokens.recipe import Recipe


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
        kind = decision.classes(i, arrays)
        kept = np.flatnonzero(kind != DROPPED)
        table = piece_metadata(arrays)
        if len(kept) != len(kind):
            table = table.take(kept)
        part = kind[kept]
        block, row = places(part, (edges[0], edges[1]), seen)
        block += np.asarray(first_blocks, np.int32)[part]
        table = table.append_column("part", pa.DictionaryArray.from_arrays(pa.array(part.astype(np.int8)), part_column))
        writer.add(table.append_column("block", pa.array(block)).append_column("row", pa.array(row)))
        progress.step("writing documents", i + 1, len(journal.docs), "piece")
    writer.close()
    return [file_entry(folder, f"docs/{path.name}") for path in writer.files]


def settle_arrays(folder: Path, weighted: bool, parts: dict[str, Any]) -> None:
    """Tell stock zarr how many rows there are."""
    folders = {part_folder(parts[part], part): parts[part]["rows"] for part in PARTS}
    if not all((folder / place / "zarr.json").exists() for place in folders):
        create_arrays(folder, weighted, tuple(folders))
    for place, rows in folders.items():
        set_rows(folder, place, rows)


def make_manifest(
    *,
    generation: int,
    weighted: bool,
    words: int,
    fingerprint: str,
    vocabulary_hash: str,
    parts: dict[str, Any],
    axes: dict[str, Any],
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
        "fingerprint": fingerprint,
        "parts": parts,
        "axes": axes,
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


def axes_summary(axes: dict[str, Any]) -> dict[str, Any]:
    """What the summary says of the axes: their sizes, and what became of the links."""
    sizes = {name: entry["size"] for name, entry in axes.items() if name != "links"}
    return {"axes": sizes, "links": axes["links"]["figures"] if "links" in axes else None}


def summarise_parts(old: dict[str, Any] | None, new: tuple[list[Any], list[Any]]) -> dict[str, Any]:
    """The parts' entries: the old blocks, then the new ones, in the old folder."""
    made = {part: part_summary([*(old[part]["blocks"] if old else []), *new[i]]) for i, part in enumerate(PARTS)}
    for part in PARTS:
        if old and "folder" in old[part]:
            made[part]["folder"] = old[part]["folder"]
    return made


def sweep(store: Path, manifest: dict[str, Any]) -> None:
    """Remove what a killed append or compaction left: rows, parts and files that the manifest does not mention; and what
    a compaction has put aside, unless somebody still reads it."""
    with retired.readers_gone(store, manifest) as (gone, unread):
        _sweep(store, manifest, gone, unread)
        retired.remove_folders(store, manifest, gone)


def _sweep(store: Path, manifest: dict[str, Any], gone: bool, unread: bool) -> None:
    newest = {"docs": next_part(manifest["docs"]), "other": manifest.get("generation", 1) + 1}
    named = {e["file"] for e in manifest["files"].values()} | {e["file"] for e in manifest["docs"]}
    for pattern in ("vocab*.parquet", "pruned*.parquet", "removed*.npy", "docs/part-*.parquet", ".*.tmp"):
        for path in store.glob(pattern):
            if str(path.relative_to(store)) in named | {"vocab.parquet", "pruned.parquet"}:
                continue
            last, table = path.stem.rpartition("-")[2], path.parent != store
            number = int(last) if last.isdecimal() else 1
            # an append leaves no part of the documents' table unnamed, but files of the generation before
            needed = not gone if table or number < manifest.get("compacted", 0) else not unread
            since = number >= newest["docs" if table else "other"] or path.name.startswith(".")
            if (since or not needed) and owns(path):
                owned.remove_file(path)
    sweep_axes(store, manifest, held=not unread)
    for part in PARTS:
        rows, place = manifest["parts"][part]["rows"], store / part_folder(manifest["parts"][part], part)
        for folder in (place, *(place / kind for kind in KINDS)):
            owned.sweep(folder)
        for path in place.glob("*/c/*"):
            if path.name.isdecimal() and int(path.name) >= rows:
                owned.remove_within(path, "corpus")


def plain_names(store: Path, manifest: dict[str, Any]) -> None:
    """``vocab.parquet``, ``pruned.parquet`` and the names of axes are the files of the latest generation, under their plain
    name too."""
    latest = {f"{kind}.parquet": manifest["files"][kind]["file"] for kind in ("vocab", "pruned")}
    axes = (manifest.get("axes") or {}).items()
    latest |= {f"axes/{kind}.parquet": entry["names"]["file"] for kind, entry in axes if "names" in entry}
    for plain, name in latest.items():
        if name != plain and not ((store / plain).exists() and os.path.samefile(store / name, store / plain)):
            beside = temporary(store / plain)
            os.link(store / name, beside)
            owned.replace(beside, store / plain)


def put_in_place(new: Path, out: Path) -> None:
    """Rename ``new`` to ``out``; a store that is there is exchanged in one step and then removed.  What others have put
    into it stops this before anything has changed."""
    if out.exists() and any(out.iterdir()):
        claim(out, "corpus")
        refuse_strangers(out, "corpus")
        if not exchange(new, out):
            old = new.with_name("old")  # a reader may miss the store for an instant
            owned.move_folder(out, old)
            owned.move_folder(new, out)
            owned.move_folder(old, new)
        owned.remove(new, "corpus")
    else:
        owned.move_folder(new, out)
    sync_folder(out.parent)


def mark(fingerprint: str) -> Mark:
    """The mark of a store: from its content, so that equal input gives equal bytes."""
    return Mark("corpus", fingerprint[:16])


def commit_manifest(store: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest, last of all."""
    write_json(store / "manifest.json", manifest)


def copy_file(source: Path, target: Path) -> None:
    """Copy and fsync."""
    owned.copy_file(source, target)
    sync_file(target)
