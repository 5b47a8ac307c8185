"""64-bit keys of documents and words, from their texts: what a held-out split hangs on.

FNV-1a (Fowler, Noll, Vo) over the utf-8 bytes, finished by SplitMix64's mixer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.documents import read_documents
from topicstream.corpus.format import chunk_path, part_folder
from topicstream.errors import StoreError
from topicstream.kernels.arrays import Bytes, Longs, Words
from topicstream.kernels.jit import kernel
from topicstream.kernels.rng import GOLDEN, bits
from topicstream.model.vocabulary import Vocabulary, string_buffers

_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


@kernel
def _hash(offsets: Longs, text: Bytes, out: Words) -> None:
    for i in range(len(offsets) - 1):
        h = _BASIS
        for j in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(text[j])) * _PRIME
        out[i] = bits(h)


def hash_strings(strings: Any) -> np.ndarray:
    """Arrow strings (or any that convert) -> uint64[n]; equal texts have equal keys."""
    offsets, text = string_buffers(strings)
    out = np.empty(len(offsets) - 1, np.uint64)
    _hash(offsets, text, out)
    return out


@kernel
def _number_keys(out: Words, salt: int) -> None:
    for i in range(len(out)):
        out[i] = bits(bits(np.uint64(i) + GOLDEN) ^ salt)


def word_keys(corpus: Any) -> np.ndarray:
    """Keys of the corpus' words, uint64[W]."""
    return hash_strings(corpus_vocabulary(corpus).words)


def corpus_vocabulary(corpus: Any) -> Vocabulary:
    """The words, counts and document frequencies of an open ``Corpus``."""
    path = corpus.file("vocab")
    vocabulary = Vocabulary.read(path)
    if len(vocabulary) < corpus.n_words:
        raise StoreError(f"{path}: {len(vocabulary)} words where the manifest says {corpus.n_words}; ingest again")
    return vocabulary


def first_documents(corpus: Any, heldout: bool) -> np.ndarray:
    """Global number of the first document of each storage block of a part, int64[blocks + 1]."""
    docs = [b["docs"] for b in corpus.part(heldout)["blocks"]]
    return np.concatenate(([0], np.cumsum(np.array(docs, np.int64)))).astype(np.int64)


def document_keys(corpus: Any, heldout: bool) -> np.ndarray:
    """Keys of the documents of a part, uint64[docs] by global number: of the id where the store has a documents'
    table, else of the number itself."""
    _there(corpus, heldout)
    keys = np.empty(corpus.part(heldout)["docs"], np.uint64)
    _number_keys(keys, np.uint64(1 if heldout else 2))
    for numbers, ids in documents(corpus, heldout, ["id"]):
        keys[numbers] = hash_strings(ids.column("id"))
    return keys


def _there(corpus: Any, heldout: bool) -> None:
    """StoreError where a block that the manifest declares has no chunks of the declared sizes: before anything is
    allocated by its number of documents."""
    entry = corpus.part(heldout)
    folder = part_folder(entry, "heldout" if heldout else "train")
    for block in entry["blocks"]:
        for row, (size, _) in zip(range(*block["rows"]), block["files"]["lengths"], strict=True):
            path = chunk_path(corpus.path, folder, "lengths", row)
            if not path.is_file() or path.stat().st_size != size:
                raise StoreError(f"{path}: is not there as the manifest declares it; restore it or ingest again")


def documents(corpus: Any, heldout: bool, columns: list[str]) -> Iterator[tuple[np.ndarray, Any]]:
    """Stream the documents' table of a part: (global numbers int64[n], Arrow record batch with ``columns``), in the
    table's order; nothing where the store has no such table.  Global numbers count the rows of the part's blocks."""
    import pyarrow as pa

    from topicstream.arrow import pc

    first, whole = first_documents(corpus, heldout), first_documents(corpus.whole, heldout)
    name = "heldout" if heldout else "train"
    wanted = [*columns, "part", "block", "row"]
    for batch in read_documents(Path(corpus.path), corpus.manifest.get("docs", []), wanted):
        mine = batch.filter(pc.equal(batch.column("part").cast(pa.string()), name))
        block, row = (
            pc.fill_null(mine.column(c), -1).to_numpy(zero_copy_only=False).astype(np.int64) for c in ("block", "row")
        )
        placed = (block >= 0) & (row >= 0)
        if (block[placed] >= len(first) - 1).any():
            raise StoreError(f"{corpus.path}/docs: a document lies past the blocks of the store; ingest again")
        at = np.flatnonzero(placed)
        if (whole[block[at]] + row[at] >= whole[block[at] + 1]).any():
            raise StoreError(f"{corpus.path}/docs: a document lies past its block; ingest again")
        which, row = corpus.within(np.full(len(at), int(heldout)), block[at], row[at])
        yield first[block[at[which]]] + row, mine.take(pa.array(at[which])).select(columns)


def match_words(vocabulary: Vocabulary, corpus: Any) -> np.ndarray | None:
    """Model ids of the corpus' words, int64[W of the corpus], -1 unknown; None where both vocabularies are the same."""
    other = corpus_vocabulary(corpus)
    if len(other) == len(vocabulary) and other.sha256 == vocabulary.sha256:
        return None
    return vocabulary.find(other.words)
