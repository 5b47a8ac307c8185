"""Links between documents: names of targets in the documents' table -> who is linked with whom.

The ids of the axis ``links`` are training documents by their number (row of the training part).  The arrays hold, for every
document of both parts, the training documents that it is linked with in either direction, ascending; a link to a document
that is held out or gone is never among them.  Out of core: the ids and the targets are joined by their hashes range by
range, the pairs are sorted on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.corpus.format import PARTS
from topicstream.corpus.id_hash import find_hashes, hash_ids
from topicstream.corpus.ragged import RaggedWriter
from topicstream.corpus.runs import SortedRuns, distinct, ranges

HASHED = np.dtype([("high", "<u8"), ("low", "<u8"), ("document", "<i8")])
"""document: number within its part, times two, plus the part (0 train, 1 heldout)."""
PAIR = np.dtype([("pair", "<u8")])
_LOW = np.uint64(0xFFFFFFFF)
_S32 = np.uint64(32)


class Links:
    """Collects documents and their links; ``write`` makes the arrays.  folder: scratch; most: records sorted at a time (40
    bytes each while that goes on)."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most
        self._ids = SortedRuns(folder, "ids", HASHED, "high", most)
        self._targets = SortedRuns(folder, "targets", HASHED, "high", most)
        self.given = self.repeats = 0

    def add(self, ids: pa.Array, documents: np.ndarray, lengths: np.ndarray, targets: pa.Array) -> None:
        """Documents that are there.  ids: large_string[D]; documents: int64[D] (as in HASHED); lengths: int64[D] links of
        each; targets: large_string[lengths.sum()], none of them empty."""
        self._ids.add(_hashed(ids, documents))
        self.given += len(targets)
        owner = np.repeat(np.arange(len(documents)), lengths)
        codes = targets.dictionary_encode()
        size = max(len(codes.dictionary), 1)
        pairs = distinct(owner * size + codes.indices.to_numpy())
        self.repeats += len(targets) - len(pairs)
        hashed = _hashed(codes.dictionary, np.zeros(len(codes.dictionary), np.int64))[pairs % size]
        hashed["document"] = documents[pairs // size]
        self._targets.add(hashed)

    def write(self, folder: Path, docs: dict[str, list[int]]) -> tuple[dict[str, RaggedWriter], dict[str, int]]:
        """Write both parts' arrays; the writers and what became of the links, in figures.  docs: documents of each storage
        block of each part."""
        runs = [SortedRuns(self._folder, f"pairs-{part}", PAIR, "pair", self._most) for part in PARTS]
        told = {"given": self.given, "repeats": self.repeats, "self": 0, "dangling": 0, "between_heldout": 0}
        self._ids.seal()
        self._targets.seal()
        for low, high in ranges(self._ids.edges(0.5)):
            there = np.concatenate([np.zeros(0, HASHED), *self._ids.between(low, high)])
            there = there[np.lexsort((there["low"], there["high"]))]
            for links in self._targets.between(low, high):
                at = find_hashes(there["high"], there["low"], links["high"], links["low"])
                told["dangling"] += int((at < 0).sum())
                self._pair(links["document"][at >= 0], there["document"][at[at >= 0]], runs, told)
        self._ids.close()
        self._targets.close()
        writers = {}
        for part, pairs in zip(PARTS, runs):
            pairs.seal()
            writers[part] = RaggedWriter(folder, part, docs[part])
            n = _write_part(writers[part], pairs, sum(docs[part]))
            told["training" if part == "train" else "heldout"] = n // 2 if part == "train" else n
            pairs.close()
        return writers, told

    def _pair(self, source: np.ndarray, target: np.ndarray, runs: list[SortedRuns], told: dict[str, int]) -> None:
        other = source != target
        told["self"] += int((~other).sum())
        source, target = source[other], target[other]
        held = (source & 1) + (target & 1)
        told["between_heldout"] += int((held == 2).sum())
        for a, b in ((source, target), (target, source)):
            trained = (b & 1) == 0
            for part in (0, 1):
                mine = trained & ((a & 1) == part)
                runs[part].add(_pairs(a[mine] >> 1, b[mine] >> 1))


def _hashed(names: pa.Array, documents: np.ndarray) -> np.ndarray:
    out = np.empty(len(names), HASHED)
    out["high"], out["low"] = hash_ids(names)
    out["document"] = documents
    return out


def _pairs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.empty(len(a), PAIR)
    out["pair"] = (a.astype(np.uint64) << _S32) | b.astype(np.uint64)
    return out


def _unique(pairs: SortedRuns) -> Iterator[np.ndarray]:
    """The distinct pairs, ascending, uint64, in arrays."""
    for low, high in ranges(pairs.edges()):
        parts = [part["pair"] for part in pairs.between(low, high)]
        if parts:
            yield distinct(np.concatenate(parts))


def _write_part(writer: RaggedWriter, pairs: SortedRuns, docs: int) -> int:
    """Write the neighbours of all documents of a part; how many."""
    done = total = 0
    rest = np.zeros(0, np.uint64)
    for found in _unique(pairs):
        total += len(found)
        found = np.concatenate((rest, found))
        last = int(found[-1] >> _S32)  # its neighbours may go on in the next array
        cut = int(np.searchsorted(found, np.uint64(last) << _S32))
        done, rest = _write(writer, found[:cut], done, last), found[cut:]
    _write(writer, rest, done, docs)
    return total


def _write(writer: RaggedWriter, pairs: np.ndarray, first: int, stop: int) -> int:
    """Write documents first..stop-1; stop."""
    sources = (pairs >> _S32).astype(np.int64) - first
    step = 1 << 20  # documents without links come by the million
    for at in range(0, stop - first, step):
        a, b = np.searchsorted(sources, (at, at + step))
        lengths = np.bincount(sources[a:b] - at, minlength=min(step, stop - first - at))
        writer.add(lengths, (pairs[a:b] & _LOW).astype(np.int64))
    return stop
