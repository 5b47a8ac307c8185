"""``topics edit --drop-words``: words leave a store that is there, without its raw input.

Blocks and vocabulary are rewritten as ``compact`` does it, the words that stay numbered as before,
in their order. What goes is listed with the words left out of the vocabulary, and stays out when
new documents bring it again.
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
from topicstream.ingestion.upkeep.rewrite import Rewrite, writing


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
        store makes of each what it makes of text: capitals are small, and what a hyphen or an
        apostrophe parts are two words.
    corpus
        The store.
    dry_run
        Only say what would go.
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
        Where no word would be left.
    StoreError
        For a damaged store.
    Busy
        While another command writes to it.
    DoesNotFit
        Where memory or disk has no room.
    TopicsError
        While an ingest into it is unfinished.

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
    with writing(path, dense=False) as base:
        vocabulary = TokenVocabulary.read(base.file("vocab"))
        made_of_text = base.manifest.tokenizer
        recipe = None
        if made_of_text is not None and not as_counted:
            recipe = Recipe.from_json(made_of_text)
        listed = WordList.of(pa.array(sorted(to_drop), pa.large_string()), recipe)
        mask, summary = _matches(path, vocabulary, listed)
        present = set(vocabulary.words.filter(pa.array(mask)).to_pylist())
        if dry_run or not present:
            return summary
        before = base.manifest
        manifest = _rewrite(base, vocabulary, mask, present, listener(progress))
    for what in ("cells", "tokens"):
        summary[what] = sum(
            getattr(before.parts[p], what) - getattr(manifest.parts[p], what) for p in before.parts
        )
    return summary


def _matches(
    path: Path, vocabulary: TokenVocabulary, listed: WordList
) -> tuple[np.ndarray, dict[str, Json]]:
    """Tell which words of the vocabulary are to go, bool[W], and what goes with them.

    Raises InputError where none would be left.
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
    """Commit the store without the words (bool[W]).

    Returns its manifest.
    """
    old = base.manifest
    store = base.path
    generation = old.generation + 1
    work = Rewrite(base, base.removed(), words=np.flatnonzero(~mask))
    work.check_room()
    left, gone = (
        TokenVocabulary.from_words(*vocabulary.table.filter(pa.array(rows)).columns)
        for rows in (~mask, mask)
    )
    names = {kind: f"{kind}-{generation:04d}.parquet" for kind in ("vocab", "pruned")}
    left.save(store / names["vocab"])
    with owned.scratch(store, "words") as folder, Relations(folder, MEMORY) as pruned:
        pruned.insert("words", gone.table)
        for batch in stream_pruned(base.file("pruned")):
            pruned.insert("words", batch)
        write_words(store / names["pruned"], pruned.stream("from words order by word"))
    files = old.files | {kind: store_file(store, name) for kind, name in names.items()}
    dropped = sorted({*old.vocabulary.get("dropped", []), *words})
    changes: dict[str, Any] = {
        "files": files,
        "same_as": [],
        "n_words": len(left),
        "vocabulary": old.vocabulary | {"hash": left.hash, "dropped": dropped},
        "summary": {
            "words": len(left),
            "words_pruned": old.summary["words_pruned"] + len(words),
            "tokens_pruned": old.summary["tokens_pruned"] + int(vocabulary.counts[mask].sum()),
        },
    }
    return work.commit(progress, changes)
