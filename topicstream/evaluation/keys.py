"""The corpus that a model is scored on: keys of its documents and words, and its match.

Keys are hashes of 64 bits of ids and words, on which the split of held-out documents depends:
FNV-1a over the UTF-8 bytes, mixed by the finaliser of SplitMix64 (Steele, Lea & Flood 2014).

The rest tells whether a corpus and a model belong together, and reads raw text as the model's own
was read.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, StoreError, UsageError, show_addresses
from topicstream.base.places import places
from topicstream.base.text import noun_of, payload_of
from topicstream.corpus.format import PARTS
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary, as_words
from topicstream.inference.documents import fnv1a
from topicstream.model.design import decode_design
from topicstream.model.topic_model import TopicModel

# constants of SplitMix64
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)


def mix(keys: np.ndarray) -> np.ndarray:
    """Mix the bits of each key, uint64[n], as ``kernels.rng.bits`` does."""
    keys = (keys ^ (keys >> np.uint64(30))) * _M1
    keys = (keys ^ (keys >> np.uint64(27))) * _M2
    return np.asarray(keys ^ (keys >> np.uint64(31)))


def hash_strings(strings: pa.Array | Iterable[str]) -> np.ndarray:
    """Hash Arrow strings to keys, uint64[n].

    Equal texts have equal keys. Other sequences are converted to Arrow.
    """
    return mix(fnv1a(strings))


def word_keys(corpus: Corpus) -> np.ndarray:
    """Hash the words of a corpus to keys, uint64[W]."""
    return hash_strings(corpus.read_vocabulary().words)


def first_documents(corpus: Corpus, heldout: bool) -> np.ndarray:
    """Return the first document of each storage block of a part, and the end, int64[blocks + 1]."""
    docs = [block.docs for block in corpus.part(heldout).blocks]
    return np.concatenate(([0], np.cumsum(np.array(docs, np.int64))))


def document_keys(corpus: Corpus, heldout: bool) -> np.ndarray:
    """Hash the ids of the documents of a part to keys, uint64[docs], by document number."""
    keys = np.zeros(corpus.part(heldout).docs, np.uint64)
    for numbers, batch in stream_documents(corpus, heldout, ["id"]):
        keys[numbers] = hash_strings(batch.column("id"))
    return keys


def stream_documents(
    corpus: Corpus, heldout: bool, columns: list[str]
) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """Stream the table of documents of a part in order.

    Removed documents are left out.

    Yields
    ------
    Numbers of documents, int64[n], which count the rows of the part's blocks, and a record batch of
    ``columns``.

    Raises
    ------
    StoreError
        A document lies past its block.
    """
    first = first_documents(corpus, heldout)
    for batch, _, block, row in corpus.placed(columns, (PARTS[heldout],)):
        numbers = first[block] + row
        if (numbers >= first[block + 1]).any():
            raise StoreError(f"{corpus.path}/docs: a document lies past its block; ingest again")
        yield numbers, batch.select(columns)


def mark_known_words(words: Any, corpus: Corpus) -> np.ndarray:
    """Mark the words that the training part of a corpus has, kept or pruned, bool[n].

    The pruned words are streamed.
    """
    is_known = corpus.read_vocabulary().find(words) >= 0
    if "pruned" in corpus.manifest.files:
        from topicstream.ingestion.tokens.vocabulary import stream_pruned  # only scores need it

        for batch in stream_pruned(corpus.file("pruned")):
            pruned = batch["word"].cast(words.type)
            is_known |= pc.is_in(words, value_set=pruned).to_numpy(zero_copy_only=False)
    return np.asarray(is_known)


def match_words(vocabulary: Vocabulary, corpus: Corpus) -> np.ndarray | None:
    """Look up the corpus' words in a model's vocabulary, int64[W], -1 for unknown words.

    Returns None if both vocabularies are the same.
    """
    corpus_words = corpus.read_vocabulary()
    if len(corpus_words) == len(vocabulary) and corpus_words.sha256 == vocabulary.sha256:
        return None
    return vocabulary.find(corpus_words.words)


BOTH_PARTS = ("train", "heldout")
LEAST = 0.1
"""Least share of a corpus' tokens whose words a model must know. Of other texts in its language it
knows 70 % and more, of another language 1 to 5 % (names, and words that look alike)."""


def describe_mismatch(model: TopicModel, corpus: Corpus) -> str | None:
    """Describe in a sentence that a model was trained on another corpus.

    Returns
    -------
    None for the model's own corpus, for a later state of it, and if the model does not say.

    Raises
    ------
    UsageError
        The two share almost no words, so that scores would mean nothing.
    """
    trained = model.manifest.corpus.fingerprint
    if trained is None or corpus.has_fingerprint(trained):
        return None
    corpus_words = corpus.read_vocabulary()
    model_words = model.vocabulary.words
    first_words = corpus_words.words.slice(0, len(model_words))
    if as_words(first_words).equals(as_words(model_words)):
        return None  # the model is of an earlier state, before the vocabulary grew
    is_known = model.vocabulary.find(corpus_words.words) >= 0
    all_tokens = max(float(corpus_words.counts.sum()), 1.0)
    share = float(corpus_words.counts[is_known].sum()) / all_tokens
    if share < LEAST:
        raise UsageError(
            f"{model.name} and {corpus.path} do not match: the model was trained on another "
            f"corpus and knows {100 * share:.1f} % of this one's tokens; give the model's own "
            f"corpus, or a model of this one"
        )
    return show_addresses(
        f"{model.name} was trained on another corpus than {corpus.path}, or on another state of "
        f"it; it knows {100 * share:.0f} % of its tokens"
    )


def check_payload(corpus: Corpus, model: TopicModel) -> None:
    """Check that a store holds what the model is of.

    Raises
    ------
    UsageError
        It holds documents in place of dense rows, rows of another length, or the like.
    """
    if corpus.width != model.manifest.width:
        raise UsageError(
            f"{corpus.path}: holds {payload_of(corpus.width)}, and the model is of "
            f"{payload_of(model.manifest.width)}"
        )


@contextlib.contextmanager
def open_other_corpus(
    path: str | Path,
    model: TopicModel,
    meta: Mapping[str, str],
    mem_limit: int | None = None,
    **reading: Any,
) -> Iterator[Corpus]:
    """Open a corpus store, or ingest raw text into a temporary one.

    Raw text is read with the model's tokenizer and keeps all words, so that the out-of-vocabulary
    rate is known. Covariates of the model are kept where the documents have them.

    Parameters
    ----------
    meta
        Fields of raw documents to keep, by the name of the column.
    reading
        Options of reading raw documents.

    Raises
    ------
    InputError
        There is no such file or folder.
    UsageError
        The model is of dense rows, and the path is no store.
    StoreError
        The model does not say how its text became words.
    """
    width = model.manifest.width
    path = Path(places().resolve(path) if str(path).endswith(".zarr") else path)
    if not places().exists(path):
        raise InputError(f"{path}: no such file or folder")
    if (path / "manifest.json").exists():
        corpus = Corpus.open(path, dense=bool(width))
        check_payload(corpus, model)
        yield corpus
        return
    if width:
        raise UsageError(f"{path}: of {noun_of(width)}, a store is scored; ingest the file")
    from topicstream.ingestion.options import FIELDS, LAYOUT, ReadOptions, remembered_meta
    from topicstream.ingestion.pipeline import ingest
    from topicstream.ingestion.tokens.recipe import Recipe

    recipe = model.manifest.tokenizer
    if recipe is None:
        raise StoreError(
            f"{model.path}: the model does not say how its text was tokenised; ingest {path} "
            f"and name the store"
        )
    with tempfile.TemporaryDirectory(prefix="topics-heldout-") as folder:
        out = Path(folder) / "corpus.zarr"
        options = ReadOptions(**reading).recall(model.manifest.reading, FIELDS, LAYOUT)
        entry = model.manifest.covariates
        columns = [] if entry is None else decode_design(entry).columns
        of_formula = [column for column in columns if column not in meta]
        meta = {**meta, **{column: column for column in of_formula}}
        if meta:
            # a field that is called as its column may have another name in the model's input
            earlier = remembered_meta(model.manifest.reading)
            fields = {c: earlier.get(c, c) if field == c else field for c, field in meta.items()}
            options = replace(options, meta=fields, recalled_columns=tuple(of_formula))
        ingest(
            [Path(path)],
            out,
            recipe=Recipe.from_json(recipe),
            min_df=1,
            max_df=1.0,
            heldout=0,
            mem_limit=mem_limit,
            **options.non_defaults(),
        )
        yield Corpus.open(out)
