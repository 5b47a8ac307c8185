"""``topics edit --drop-words``: words leave a store that is there, without its raw input.

Blocks and vocabulary are written anew as ``compact`` does it, the words that stay numbered as before, in their order.  What
goes is listed with the words left out of the vocabulary, and stays out when new documents bring it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.corpus.manifest import file_entry
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, TopicsError
from topicstream.files import durable
from topicstream.ingestion.storing import commit
from topicstream.ingestion.upkeep.compact import refuse_unfinished, write_anew
from topicstream.ingestion.upkeep.rewrite import Rewrite
from topicstream.progress import Progress, Told, listener
from topicstream.tokens.vocabulary import TokenVocabulary, read_drop_words, stream_pruned, word_table, write_words


def drop_words(
    words: str | os.PathLike[str] | Iterable[str],
    corpus: str | Path = "corpus.zarr",
    *,
    dry_run: bool = False,
    progress: Told = None,
) -> dict[str, Any]:
    """Take words out of a corpus store: out of its vocabulary and of all documents, for good.

    words    a file with a word a line (or a ``vocab.parquet``), or the words themselves, as the vocabulary has them

    Readers that hold the store open go on with what they opened.  To a model the store is another corpus then: one that was
    trained before keeps its words; train anew to have topics without them.

    Returns plain values: ``dropped`` (words that were there), ``not_found``, ``words`` (left), ``cells`` and ``tokens`` that
    went.  Raises StoreError, InputError (no word would be left), Busy, DoesNotFit,
    TopicsError (an unfinished ingest).
    """
    wanted = read_drop_words(words) if isinstance(words, (str, os.PathLike)) else set(words)
    path, progress = Path(corpus), listener(progress)
    Corpus.open(path).let_go()
    with durable.lock(path, "writing to", kind="corpus"):
        base = Corpus.open(path).to_change()
        refuse_unfinished(path)
        base.let_go()  # the writer's lock keeps what it reads
        vocabulary = TokenVocabulary.load(base.file("vocab"))
        out = pc.is_in(vocabulary.words, value_set=pa.array(sorted(wanted), pa.large_string()))
        mask = np.asarray(out.to_numpy(zero_copy_only=False), np.bool_)
        if mask.all():
            raise InputError(f"{path}: no word would be left of {len(vocabulary):,}; drop fewer")
        there = set(vocabulary.words.filter(out).to_pylist())
        told: dict[str, Any] = {
            "corpus": str(path),
            "dropped": len(there),
            "not_found": len(wanted) - len(there),
            "words": len(vocabulary) - len(there),
            "cells": int(vocabulary.df[mask].sum()),
            "tokens": int(vocabulary.counts[mask].sum()),
        }
        if dry_run or not there:
            return told
        commit.sweep(path, base.manifest)
        before = base.manifest
        manifest = _rewrite(base, vocabulary, mask, there, progress)
        commit.sweep(path, manifest)
        commit.plain_names(path, manifest)
    for what in ("cells", "tokens"):
        told[what] = sum(before["parts"][p][what] - manifest["parts"][p][what] for p in before["parts"])
    return told


def _rewrite(
    base: Corpus, vocabulary: TokenVocabulary, mask: np.ndarray, words: set[str], progress: Progress
) -> dict[str, Any]:
    """The store without the words (bool[W]), committed: its manifest."""
    old, store = base.manifest, base.path
    generation = old["generation"] + 1
    ids = np.where(mask, -1, np.cumsum(~mask) - 1).astype(np.int32)
    work = Rewrite(base, old["parts"], base.removed(), progress, words=ids)
    work.check_room()
    keep = pa.array(~mask)
    left = TokenVocabulary(vocabulary.words.filter(keep), vocabulary.counts[~mask], vocabulary.df[~mask])
    gone = word_table(vocabulary.words.filter(pa.array(mask)), vocabulary.counts[mask], vocabulary.df[mask])
    names = {kind: f"{kind}-{generation:04d}.parquet" for kind in ("vocab", "pruned")}
    left.save(store / names["vocab"])
    earlier = (pa.Table.from_batches([batch]) for batch in stream_pruned(base.file("pruned")))
    write_words(store / names["pruned"], _merged(earlier, gone.sort_by("word")))
    files = old["files"] | {kind: file_entry(store, name) for kind, name in names.items()}
    dropped = sorted({*old["vocabulary"].get("dropped", []), *words})
    changes: dict[str, Any] = {
        "files": files,
        "same_as": [],
        "n_words": len(left),
        "vocabulary": old["vocabulary"] | {"hash": left.hash, "dropped": dropped},
        "summary": {
            "words": len(left),
            "words_pruned": old["summary"]["words_pruned"] + len(words),
            "tokens_pruned": old["summary"]["tokens_pruned"] + int(vocabulary.counts[mask].sum()),
        },
    }
    return write_anew(base, work, progress, changes)


def _merged(earlier: Iterable[pa.Table], more: pa.Table) -> Iterable[pa.Table]:
    """Tables in the order of their words' bytes, with ``more`` (as sorted, and small) among them."""
    at = 0
    for table in earlier:
        last = table["word"][-1].as_py().encode() if len(table) else b""
        upto = at
        while upto < len(more) and more["word"][upto].as_py().encode() <= last:
            upto += 1
        if upto > at:
            table = pa.concat_tables([table, more.slice(at, upto - at)]).sort_by("word")
        yield table
        at = upto
    if at < len(more):
        yield more.slice(at)


def store_at(path: str | Path) -> bool:
    """Whether a corpus store lies there (and not a model)."""
    manifest = Path(path) / "manifest.json"
    try:
        return manifest.exists() and durable.read_json(manifest).get("kind") == "corpus"
    except TopicsError:
        return False
