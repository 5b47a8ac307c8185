"""Check every byte of a store against its manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from topicstream.corpus.axes import verify_axes
from topicstream.corpus.format import PARTS, from_gaps, metadata_problems, part_folder
from topicstream.corpus.reader import Corpus
from topicstream.errors import StoreError
from topicstream.files.durable import file_problem


def _block_problem(corpus: Corpus, block: int, heldout: bool, marker: np.ndarray) -> str | None:
    entry = corpus.part(heldout)["blocks"][block]
    gone = entry.get("removed", {}).get("cells", 0)
    try:
        raw = corpus.decode(block, heldout)
    except StoreError as e:
        return str(e)
    where = f"{corpus.path}: block {block} of {PARTS[int(heldout)]}"
    try:
        return _content_problem(raw, entry, gone, marker, where, corpus.vectors > 0)
    finally:
        raw.close()


def _content_problem(
    raw: Any, entry: dict[str, Any], gone: int, marker: np.ndarray, where: str, vectors: bool
) -> str | None:
    ids = np.empty(len(raw.gaps), np.int32)
    if from_gaps(raw.gaps, raw.lengths, 0, len(raw.lengths), 0, ids, marker) != entry["cells"] - gone:
        return f"{where}: a word id past the vocabulary or cells missing; ingest again"
    # of vectors, points are counted; their numbers may have any sum
    total = (len(raw.lengths) if vectors else raw.counts.sum(dtype=np.float64)) + entry.get("removed", {}).get(
        "tokens", 0
    )
    if not np.isclose(total, entry["tokens"], rtol=1e-12, atol=0.0):
        return f"{where}: its counts do not add up to the manifest's; ingest again"
    return None


def verify(corpus: Corpus, told: Callable[[int, int], None] | None = None) -> Iterator[str]:
    """Read all chunks and files of a store; a line for each that is missing, altered or inconsistent (none: all is
    well).  ``told(done, of)`` is called after each block."""
    said: set[str] = set()
    for problem in _problems(corpus, told):
        if problem not in said:  # a damaged list of removed documents is met at every block
            said.add(problem)
            yield problem


def _plain_problems(corpus: Corpus) -> Iterator[str]:
    """``vocab.parquet`` and ``pruned.parquet`` of a store that was appended to: the latest files under their plain name,
    for stock readers (our own take the manifest's)."""
    for kind in ("vocab", "pruned"):
        entry, plain = corpus.manifest.get("files", {}).get(kind), corpus.path / f"{kind}.parquet"
        if entry is not None and entry["file"] != plain.name and plain.exists():
            yield from filter(None, [file_problem(plain, entry["size"], entry["crc32c"])])


def _problems(corpus: Corpus, told: Callable[[int, int], None] | None) -> Iterator[str]:
    damaged = set()
    for entry in [*corpus.manifest.get("files", {}).values(), *corpus.manifest.get("docs", [])]:
        if "crc32c" not in entry:
            yield f"{corpus.path / entry['file']}: the manifest has no checksum of it; ingest again"
        elif (problem := file_problem(corpus.path / entry["file"], entry["size"], entry["crc32c"])) is not None:
            damaged.add(problem)
            yield problem
    yield from _plain_problems(corpus)
    try:
        corpus.file("vocab")
    except StoreError as e:
        if str(e) not in damaged:
            yield str(e)
    entries = {p: corpus.manifest["parts"][p] for p in PARTS}
    yield from metadata_problems(
        corpus.path, corpus.weighted, {part_folder(e, p): e["rows"] for p, e in entries.items()}
    )
    yield from verify_axes(corpus)
    marker = np.zeros(corpus.n_words, np.uint8)
    blocks = [(b, heldout) for heldout in (False, True) for b in range(len(corpus.part(heldout)["blocks"]))]
    for i, (b, heldout) in enumerate(blocks):
        if (problem := _block_problem(corpus, b, heldout, marker)) is not None:
            yield problem
        if told is not None:
            told(i + 1, len(blocks))
