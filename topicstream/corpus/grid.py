"""How a corpus is cut into engine blocks: runs of documents of about so many cells, never across a storage block.

A grid is a function of the corpus and of two numbers alone.  Making one takes a decode of the whole part, so what was
found is remembered in the user's cache folder, under a hash of the chunks' checksums: it is not the store's, a store may be
read-only and belong to somebody else.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import google_crc32c
import numpy as np

from topicstream.corpus.block import AxisShape
from topicstream.corpus.cutting import Decoded, cut_axis
from topicstream.corpus.format import from_gaps, number_words
from topicstream.errors import NotOurs, StoreError
from topicstream.files import owned
from topicstream.files.ownership import claim, temporary
from topicstream.kernels.arrays import Array, Longs
from topicstream.kernels.jit import kernel

if TYPE_CHECKING:
    from topicstream.corpus.reader import Corpus

KEPT = 200  # grids that are remembered
LARGEST = 64 << 20  # bytes of a remembered grid


@dataclass(frozen=True)
class Grid:
    """The engine blocks of one part of a corpus, in the order of a sequential pass.

    All arrays have one entry a block: storage (storage block), row_start, row_stop (its documents within that block),
    cell_start (first cell within that block), cells, first_doc (global), tokens (float64).  ``max_words`` bounds a block's local words,
    ``longest`` is the cells of the longest document.  axes: the sizes of the axes that were asked for.
    """

    heldout: bool
    storage: np.ndarray
    row_start: np.ndarray
    row_stop: np.ndarray
    cell_start: np.ndarray
    cells: np.ndarray
    first_doc: np.ndarray
    tokens: np.ndarray
    max_words: int
    longest: int
    axes: Mapping[str, AxisShape] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.storage)

    @property
    def docs(self) -> np.ndarray:
        """Documents of each block, int64."""
        return np.asarray(self.row_stop - self.row_start)

    def order(self, how: str, seed: int, pass_number: int) -> np.ndarray:
        """Block numbers in visiting order: ``sequential``, or ``shuffled`` (storage blocks are shuffled, then the blocks
        within each, so that a shuffled pass still reads every chunk once)."""
        n = len(self)
        if how == "sequential":
            return np.arange(n)
        if how != "shuffled":
            raise ValueError(f"order must be 'sequential' or 'shuffled', not {how!r}")
        rng = np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), pass_number]))
        by_storage = [np.flatnonzero(self.storage == s) for s in rng.permutation(np.unique(self.storage))]
        return np.concatenate([rng.permutation(group) for group in by_storage]) if by_storage else np.arange(0)


@kernel
def cut_lengths(lengths: Array, cells: int, docs: int, starts: Longs) -> int:
    """First documents of the blocks of one storage block -> starts: int64[]; returns how many."""
    n = 0
    in_cells = in_docs = 0
    for d in range(len(lengths)):
        if d == 0 or (in_cells > 0 and in_cells + lengths[d] > cells) or in_docs >= docs:
            starts[n] = d
            n += 1
            in_cells = in_docs = 0
        in_cells += lengths[d]
        in_docs += 1
    return n


def cut_grid(corpus: Corpus, cells: int, docs: int, heldout: bool, axes: Sequence[str]) -> Grid:
    """See ``Corpus.grid``."""
    key = _key(corpus, cells, docs, heldout, axes)
    found = _recall(key, corpus, heldout)
    if found is None:
        found = _cut_anew(corpus, cells, docs, heldout, axes)
        _remember(key, found)
    return found


def _cut_anew(corpus: Corpus, cells: int, docs: int, heldout: bool, axes: Sequence[str]) -> Grid:
    columns: list[list[np.ndarray]] = [[], [], [], [], [], [], []]
    first_doc, widest, longest = 0, 1, 0
    marker, local = np.zeros(corpus.n_words, np.uint8), np.empty(corpus.n_words, np.int32)
    vocab = np.empty(corpus.n_words, np.int32)
    shapes = {name: AxisShape(0, 0, 0) for name in axes}
    for s in range(len(corpus.part(heldout)["blocks"])):
        raw = corpus.decode(s, heldout, axes)
        starts = np.empty(len(raw.lengths) + 1, np.int64)
        n = cut_lengths(raw.lengths, cells, docs, starts)
        edges = np.append(starts[:n], len(raw.lengths))
        cell_edges = np.concatenate(([0], np.cumsum(raw.lengths, dtype=np.int64)))[edges]
        ids = np.empty(int(np.diff(cell_edges).max(initial=0)), np.int32)
        tokens = np.zeros(n)
        for i in range(n):
            if from_gaps(raw.gaps, raw.lengths, edges[i], edges[i + 1], cell_edges[i], ids, marker) < 0:
                raise StoreError(f"{corpus.path}: block {s}: a word id past the vocabulary; ingest again")
            here = number_words(marker, vocab, local)
            widest = max(widest, here)
            tokens[i] = raw.counts[cell_edges[i] : cell_edges[i + 1]].sum(dtype=np.float64)
            for name in axes:
                shapes[name] = shapes[name].or_larger(_axis_shape(raw, name, edges[i], edges[i + 1], here))
        found = (np.full(n, s), edges[:-1], edges[1:], cell_edges[:-1], np.diff(cell_edges), first_doc + edges[:-1])
        for column, values in zip(columns, (*found, tokens)):
            column.append(values)
        first_doc += len(raw.lengths)
        longest = max(longest, int(raw.lengths.max(initial=0)))
        raw.close()
    arrays = [np.concatenate(c).astype(np.int64) if c else np.zeros(0, np.int64) for c in columns[:-1]]
    tokens = np.concatenate(columns[-1]) if columns[-1] else np.zeros(0)
    return Grid(heldout, *arrays, tokens, widest, longest, shapes)  # type: ignore[call-arg, arg-type]


def _axis_shape(raw: Decoded, name: str, first: int, last: int, words: int) -> AxisShape:
    """What documents first .. last - 1 of a storage block have; words: their distinct words."""
    lengths = raw.lengths[first:last] if name == "words" else np.diff(raw.axes[name][0][first : last + 1])
    entries, longest = int(lengths.sum(dtype=np.int64)), int(lengths.max(initial=0))
    return AxisShape(words if name == "words" else len(cut_axis(raw, name, first, last).ids), entries, longest)


# -- what is remembered -------------------------------------------------------------------------------------------------
ARRAYS = ("storage", "row_start", "row_stop", "cell_start", "cells", "first_doc", "tokens")


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "topicstream-grids"


def _key(corpus: Corpus, cells: int, docs: int, heldout: bool, axes: Sequence[str]) -> str:
    gone = corpus.manifest.get("files", {}).get("removed")
    content = [corpus.part(heldout), gone]  # sizes and checksums of all chunks that are read
    entries = {name: corpus.axis_record(name) for name in axes if name != "words"}
    facts = [1, corpus.n_words, content, cells, docs, heldout, entries]
    if "sample" in corpus.manifest:
        facts.append(corpus.manifest["sample"])
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:40] + ".grid"


def _remember(key: str, grid: Grid) -> None:
    """Written beside and renamed; where that cannot be, nothing is remembered."""
    buffer = io.BytesIO()
    facts = {"max_words": grid.max_words, "longest": grid.longest, "axes": {n: list(s) for n, s in grid.axes.items()}}
    text = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    np.savez(buffer, facts=text, **{name: getattr(grid, name) for name in ARRAYS})
    body = buffer.getvalue()
    if len(body) > LARGEST:
        return
    with contextlib.suppress(OSError, NotOurs):
        folder = _folder()
        claim(folder, "grids")
        there = sorted(folder.glob("*.grid"), key=lambda p: p.stat().st_mtime)
        for old in there[: max(0, len(there) - KEPT)]:
            owned.remove_file(old, missing_ok=True)
        beside = temporary(folder / key)
        try:
            with owned.create(beside) as f:
                f.write(google_crc32c.value(body).to_bytes(4, "little") + body)
            owned.replace(beside, folder / key)
        except BaseException:
            owned.discard(beside)
            raise


def _recall(key: str, corpus: Corpus, heldout: bool) -> Grid | None:
    """None where nothing whole is remembered."""
    try:
        path = _folder() / key
        if path.is_symlink() or path.stat().st_uid != os.geteuid() or path.stat().st_size > LARGEST + 4:
            return None
        data = path.read_bytes()
    except OSError:
        return None
    body = data[4:]
    if google_crc32c.value(body).to_bytes(4, "little") != data[:4]:
        return None
    with np.load(io.BytesIO(body), allow_pickle=False) as found:
        arrays = [found[name] for name in ARRAYS]
        facts = json.loads(found["facts"].tobytes())
    shapes = {name: AxisShape(*sizes) for name, sizes in facts["axes"].items()}
    grid = Grid(heldout, *arrays, facts["max_words"], facts["longest"], shapes)  # type: ignore[call-arg]
    part = corpus.part(heldout)
    whole = grid.docs.sum() == sum(b["docs"] for b in part["blocks"]) and grid.cells.sum() == part["cells"]
    return grid if whole else None
