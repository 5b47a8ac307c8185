"""64-bit keys of documents and words, from their texts: what a held-out split depends on.

FNV-1a over the UTF-8 bytes, mixed by the finaliser of SplitMix64 (Steele, Lea & Flood 2014).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.corpus.format import PARTS
from topicstream.corpus.reader import Corpus
from topicstream.errors import StoreError
from topicstream.inference.documents import fnv1a
from topicstream.tokens.vocabulary import stream_pruned
from topicstream.vocabulary import Vocabulary

_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(keys: np.ndarray) -> np.ndarray:
    """64 well-mixed bits of each key, uint64[n]; the same as ``kernels.rng.bits``."""
    keys = (keys ^ (keys >> np.uint64(30))) * _M1
    keys = (keys ^ (keys >> np.uint64(27))) * _M2
    return np.asarray(keys ^ (keys >> np.uint64(31)))


def hash_strings(strings: pa.Array | Iterable[str]) -> np.ndarray:
    """Keys of Arrow strings (or anything that Arrow converts), uint64[n]; equal texts have equal
    keys.
    """
    return mix(fnv1a(strings))


def word_keys(corpus: Corpus) -> np.ndarray:
    """Keys of the corpus' words, uint64[W]."""
    return hash_strings(corpus_vocabulary(corpus).words)


def corpus_vocabulary(corpus: Corpus) -> Vocabulary:
    """The words, counts and document frequencies of an open ``Corpus``."""
    path = corpus.file("vocab")
    vocabulary = Vocabulary.read(path)
    if len(vocabulary) < corpus.n_words:
        raise StoreError(
            f"{path}: {len(vocabulary)} words where the manifest says {corpus.n_words}; ingest "
            f"again"
        )
    return vocabulary


def first_documents(corpus: Corpus, heldout: bool) -> np.ndarray:
    """The first global document number of each storage block of a part, and their end, int64[blocks
    + 1].
    """
    docs = [block.docs for block in corpus.part(heldout).blocks]
    return np.concatenate(([0], np.cumsum(np.array(docs, np.int64))))


def document_keys(corpus: Corpus, heldout: bool) -> np.ndarray:
    """Keys of the documents of a part, uint64[docs] by global number: of their ids."""
    keys = np.zeros(corpus.part(heldout).docs, np.uint64)
    for numbers, batch in documents(corpus, heldout, ["id"]):
        keys[numbers] = hash_strings(batch.column("id"))
    return keys


def documents(
    corpus: Corpus, heldout: bool, columns: list[str]
) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """Stream the documents' table of a part, in the table's order: (global numbers int64[n], record
    batch of ``columns``).

    Global numbers count the rows of the part's blocks; documents that were removed are left out.
    """
    first = first_documents(corpus, heldout)
    for batch, _, block, row in corpus.placed(columns, (PARTS[heldout],)):
        numbers = first[block] + row
        if (numbers >= first[block + 1]).any():
            raise StoreError(f"{corpus.path}/docs: a document lies past its block; ingest again")
        yield numbers, batch.select(columns)


def met_words(words: Any, corpus: Corpus) -> np.ndarray:
    """bool[n]: which words the training part of a corpus has, kept or pruned; the pruned ones are
    streamed.
    """
    met = corpus_vocabulary(corpus).find(words) >= 0
    if "pruned" in corpus.manifest.files:
        for batch in stream_pruned(corpus.file("pruned")):
            some = batch["word"].cast(words.type)
            met |= pc.is_in(words, value_set=some).to_numpy(zero_copy_only=False)
    return np.asarray(met)


def match_words(vocabulary: Vocabulary, corpus: Corpus) -> np.ndarray | None:
    """Model ids of the corpus' words, int64[W of the corpus], -1 unknown; None where both
    vocabularies are the same.
    """
    other = corpus_vocabulary(corpus)
    if len(other) == len(vocabulary) and other.sha256 == vocabulary.sha256:
        return None
    return vocabulary.find(other.words)
