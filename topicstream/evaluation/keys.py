"""64-bit keys of documents and words, from their texts: what a held-out split hangs on.

FNV-1a (Fowler, Noll, Vo) over the utf-8 bytes, finished by SplitMix64's mixer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from topicstream.errors import StoreError
from topicstream.kernels.jit import kernel
from topicstream.kernels.rng import GOLDEN, bits
from topicstream.model.vocabulary import Vocabulary, string_buffers

_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


@kernel
def _hash(offsets, text, out):
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
def _number_keys(out, salt):
    for i in range(len(out)):
        out[i] = bits(bits(np.uint64(i) + GOLDEN) ^ salt)


def word_keys(corpus: Any) -> np.ndarray:
    """Keys of the corpus' words, uint64[W]."""
    return hash_strings(corpus_vocabulary(corpus).words)


def corpus_vocabulary(corpus: Any) -> Vocabulary:
    """The words, counts and document frequencies of an open ``Corpus``."""
    path = Path(corpus.path) / "vocab.parquet"
    vocabulary = Vocabulary.read(path)
    if len(vocabulary) < corpus.n_words:
        raise StoreError(f"{path}: {len(vocabulary)} words where the manifest says {corpus.n_words}; ingest again")
    return vocabulary


def document_parts(corpus: Any) -> list[Path]:
    """The document tables of a corpus, in order; empty where the store has none."""
    return sorted((Path(corpus.path) / "docs").glob("part-*.parquet"))


def first_documents(corpus: Any, heldout: bool) -> np.ndarray:
    """Global number of the first document of each storage block of a part, int64[blocks + 1]."""
    docs = [b["docs"] for b in corpus.part(heldout)["blocks"]]
    return np.concatenate(([0], np.cumsum(np.array(docs, np.int64)))).astype(np.int64)


def document_keys(corpus: Any, heldout: bool) -> np.ndarray:
    """Keys of the documents of a part, uint64[docs] by global number: of the id where the store has document tables, else
    of the number itself."""
    keys = np.empty(corpus.part(heldout)["docs"], np.uint64)
    _number_keys(keys, np.uint64(1 if heldout else 2))
    for numbers, ids in documents(corpus, heldout, ["id"]):
        keys[numbers] = hash_strings(ids.column("id"))
    return keys


def documents(corpus: Any, heldout: bool, columns: list[str]) -> Any:
    """Stream the document tables of a part: (global numbers int64[n], Arrow record batch of ``columns``), in file order.

    ``part`` in the table is ``train`` or ``heldout``; ``block`` and ``row`` say where in it a document lies (negative:
    in no block).
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    first = first_documents(corpus, heldout)
    total = int(first[-1])
    for path in document_parts(corpus):
        try:
            file = pq.ParquetFile(path)
            for batch in file.iter_batches(1 << 14, columns=[*columns, "part", "block", "row"]):
                mine = batch.filter(pc.equal(batch.column("part").cast(pa.string()), "heldout" if heldout else "train"))
                block = mine.column("block").fill_null(-1).to_numpy(zero_copy_only=False)
                row = mine.column("row").fill_null(-1).to_numpy(zero_copy_only=False)
                placed = (block >= 0) & (row >= 0)
                numbers = first[np.where(placed, block, 0).clip(0, len(first) - 1)] + row
                if (numbers[placed] >= total).any() or (block[placed] >= len(first) - 1).any():
                    raise StoreError(f"{path}: a document lies past the blocks of the store; ingest again")
                mine = mine.filter(pa.array(placed))
                yield numbers[placed].astype(np.int64), mine.select(columns)
        except (OSError, pa.ArrowInvalid, KeyError) as e:
            reason = str(e).splitlines()[0]
            raise StoreError(f"{path}: cannot be read as a document table ({reason}); restore the file") from None


def match_words(vocabulary: Vocabulary, corpus: Any) -> np.ndarray | None:
    """Model ids of the corpus' words, int64[W of the corpus], -1 unknown; None where both vocabularies are the same."""
    other = corpus_vocabulary(corpus)
    if len(other) == len(vocabulary) and other.sha256 == vocabulary.sha256:
        return None
    return vocabulary.find(other.words)
