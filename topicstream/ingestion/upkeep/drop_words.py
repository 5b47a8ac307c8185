"""``topics edit --drop-words``: remove words from a store, without its raw input.

Blocks and vocabulary are rewritten as ``compact`` does it; the words that stay keep their order.
The words that go are listed with those left out of the vocabulary, and stay out when new documents
have them again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.base.errors import InputError
from topicstream.base.files import ownership as owned
from topicstream.base.progress import Progress, ProgressLike, listener
from topicstream.base.records import Json
from topicstream.base.relations import Relations
from topicstream.corpus.axis_build import MEMORY
from topicstream.corpus.manifest import StoreManifest, store_file
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.vocabulary import (
    TokenVocabulary,
    are_counted_words,
    read_drop_words,
    stream_pruned,
    write_words,
)
from topicstream.ingestion.tokens.word_lists import WordList
from topicstream.ingestion.upkeep.rewrite import Rewrite, open_for_writing


def drop_words(
    words: str | os.PathLike[str] | Iterable[str],
    corpus: str | Path = "corpus.zarr",
    *,
    dry_run: bool = False,
    progress: ProgressLike = None,
) -> dict[str, Json]:
    """Remove words from a corpus store for good: from its vocabulary and from all documents.

    Readers that hold the store open go on with what they opened. To a model, the store is another
    corpus afterwards: train again to have topics without the words.

    Parameters
    ----------
    words
        The words, or a file with a word a line (or a ``vocab.parquet``). The tokenizer of the
        store treats each of them as text: capitals become small letters, and a hyphen or an
        apostrophe divides two words.
    corpus
        The store.
    dry_run
        Only return the figures, and change nothing.
    progress
        False: silent.

    Returns
    -------
    dict
        ``dropped`` (words that were there), ``not_found`` (a number), ``missing`` (some of those),
        ``parted`` (words that are counted as several), ``words`` (left), ``cells`` and ``tokens``
        that went.

    Raises
    ------
    InputError
        If no word would be left.
    StoreError
        If the store is damaged.
    Busy
        If another command writes to it.
    DoesNotFit
        If memory or disk have no room.
    TopicsError
        If an ingest into it is unfinished.

    Examples
    --------
    >>> topicstream.drop_words(["salt", "pepper"], "corpus.zarr", progress=False)["not_found"]
    1
    """
    if isinstance(words, (str, os.PathLike)):
        to_drop = read_drop_words(words)
        as_counted = are_counted_words(words)
    else:
        to_drop = set(words)
        as_counted = False
    path = Path(corpus)
    with open_for_writing(path, dense=False) as base:
        vocabulary = TokenVocabulary.read(base.file("vocab"))
        recipe = None
        if base.manifest.tokenizer is not None and not as_counted:
            recipe = Recipe.from_json(base.manifest.tokenizer)
        listed = WordList.tokenize(pa.array(sorted(to_drop), pa.large_string()), recipe)
        mask, summary = _matches(path, vocabulary, listed)
        present = set(vocabulary.words.filter(pa.array(mask)).to_pylist())
        if dry_run or not present:
            return summary
        before = base.manifest
        manifest = _rewrite(base, vocabulary, mask, present, listener(progress))
    for figure in ("cells", "tokens"):
        summary[figure] = sum(
            getattr(entry, figure) - getattr(manifest.parts[part], figure)
            for part, entry in before.parts.items()
        )
    return summary


def _matches(
    path: Path, vocabulary: TokenVocabulary, listed: WordList
) -> tuple[np.ndarray, dict[str, Json]]:
    """Find the words of the vocabulary that a list names.

    Returns
    -------
    mask, summary
        bool[W], the words that go, and the figures of the removal.

    Raises
    ------
    InputError
        If no word would be left.
    """
    matched = listed.as_in_corpus(lambda words: vocabulary.lookup(words) >= 0)
    mask = np.zeros(len(vocabulary), np.bool_)
    mask[vocabulary.lookup(matched.words)[matched.known]] = True
    if mask.all():
        raise InputError(f"{path}: would remove all words of {len(vocabulary):,}; drop fewer")
    dropped = int(mask.sum())
    occurring = matched.summary()
    summary: dict[str, Json] = {
        "corpus": str(path),
        "dropped": dropped,
        "not_found": occurring["words"] - occurring["occur"],
        "missing": occurring["missing"],
        "parted": occurring["parted"],
        "words": len(vocabulary) - dropped,
        "cells": int(vocabulary.df[mask].sum()),
        "tokens": int(vocabulary.counts[mask].sum()),
    }
    return mask, summary


def _rewrite(
    base: Corpus, vocabulary: TokenVocabulary, mask: np.ndarray, words: set[str], progress: Progress
) -> StoreManifest:
    """Commit the store without some words, and return its manifest.

    Parameters
    ----------
    base
        The store.
    vocabulary
        Its words.
    mask
        bool[W], the words that go.
    words
        The same as strings.
    progress
        The progress listener.
    """
    old = base.manifest
    store = base.path
    generation = old.generation + 1
    rewrite = Rewrite(base, base.removed(), words=np.flatnonzero(~mask))
    rewrite.check_room()
    staying = TokenVocabulary.from_words(*vocabulary.table.filter(pa.array(~mask)).columns)
    names = {kind: f"{kind}-{generation:04d}.parquet" for kind in ("vocab", "pruned")}
    staying.save(store / names["vocab"])
    with owned.scratch(store, "words") as folder, Relations(folder, MEMORY) as pruned:
        pruned.insert("words", vocabulary.table.filter(pa.array(mask)))
        for batch in stream_pruned(base.file("pruned")):
            pruned.insert("words", batch)
        write_words(store / names["pruned"], pruned.stream("from words order by word"))
    files = old.files | {kind: store_file(store, name) for kind, name in names.items()}
    dropped = sorted({*old.vocabulary.get("dropped", []), *words})
    changes: dict[str, Any] = {
        "files": files,
        "same_as": [],
        "n_words": len(staying),
        "vocabulary": old.vocabulary | {"hash": staying.hash, "dropped": dropped},
        "summary": {
            "words": len(staying),
            "words_pruned": old.summary["words_pruned"] + len(words),
            "tokens_pruned": old.summary["tokens_pruned"] + int(vocabulary.counts[mask].sum()),
        },
    }
    return rewrite.commit(progress, changes)
