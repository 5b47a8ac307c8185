"""``topics edit --drop-words``: words leave a store that is there, without its raw input.

Blocks and vocabulary are rewritten as ``compact`` does it, the words that stay numbered as before,
in their order.  What
goes is listed with the words left out of the vocabulary, and stays out when new documents bring it
again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.corpus.axis_build import MEMORY
from topicstream.corpus.manifest import StoreManifest, store_file
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError
from topicstream.files import owned
from topicstream.ingestion.upkeep.rewrite import Rewrite, writing
from topicstream.progress import Progress, Told, listener
from topicstream.records import Json
from topicstream.relations import Relations
from topicstream.tokens.vocabulary import (
    TokenVocabulary,
    read_drop_words,
    stream_pruned,
    write_words,
)


def drop_words(
    words: str | os.PathLike[str] | Iterable[str],
    corpus: str | Path = "corpus.zarr",
    *,
    dry_run: bool = False,
    progress: Told = None,
) -> dict[str, Json]:
    """Remove words from a corpus store for good: from its vocabulary and from all documents.

    Readers that hold the store open go on with what they opened.  To a model, the store is another
    corpus afterwards: train again
    to have topics without the words.

    Parameters
    ----------
    words
        The words as the vocabulary has them, or a file with a word a line (or a ``vocab.parquet``).
    corpus
        The store.
    dry_run
        Only say what would go.
    progress
        False: silent.

    Returns
    -------
    dict
        ``dropped`` (words that were there), ``not_found`` (a number), ``words`` (left), ``cells``
        and ``tokens`` that went.

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
    wanted = read_drop_words(words) if isinstance(words, (str, os.PathLike)) else set(words)
    path = Path(corpus)
    with writing(path, dense=False) as base:
        vocabulary = TokenVocabulary.read(base.file("vocab"))
        mask, told = _matches(path, vocabulary, wanted)
        present = set(vocabulary.words.filter(pa.array(mask)).to_pylist())
        if dry_run or not present:
            return told
        before = base.manifest
        manifest = _rewrite(base, vocabulary, mask, present, listener(progress))
    for what in ("cells", "tokens"):
        told[what] = sum(
            getattr(before.parts[p], what) - getattr(manifest.parts[p], what) for p in before.parts
        )
    return told


def _matches(
    path: Path, vocabulary: TokenVocabulary, wanted: set[str]
) -> tuple[np.ndarray, dict[str, Json]]:
    """Which words of the vocabulary are to go, bool[W], and what goes with them; InputError where
    none would be left.
    """
    out = pc.is_in(vocabulary.words, value_set=pa.array(sorted(wanted), pa.large_string()))
    mask = np.asarray(out.to_numpy(zero_copy_only=False), np.bool_)
    if mask.all():
        raise InputError(f"{path}: would remove all words of {len(vocabulary):,}; drop fewer")
    dropped = int(mask.sum())
    told: dict[str, Json] = {
        "corpus": str(path),
        "dropped": dropped,
        "not_found": len(wanted) - dropped,
        "words": len(vocabulary) - dropped,
        "cells": int(vocabulary.df[mask].sum()),
        "tokens": int(vocabulary.counts[mask].sum()),
    }
    return mask, told


def _rewrite(
    base: Corpus, vocabulary: TokenVocabulary, mask: np.ndarray, words: set[str], progress: Progress
) -> StoreManifest:
    """The store without the words (bool[W]), committed: its manifest."""
    old, store = base.manifest, base.path
    generation = old.generation + 1
    work = Rewrite(base, base.removed(), words=np.flatnonzero(~mask))
    work.check_room()
    left, gone = (
        TokenVocabulary.of(*vocabulary.table.filter(pa.array(rows)).columns)
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
