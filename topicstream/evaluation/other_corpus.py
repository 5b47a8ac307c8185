"""Another corpus to be scored: a store, or raw text that is read as the model's own was."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, StoreError, UsageError
from topicstream.model.topic_model import TopicModel
from topicstream.text import noun_of, payload_of


def check_payload(corpus: Corpus, model: TopicModel) -> None:
    """UsageError where a store does not hold what the model is of."""
    if corpus.width != model.manifest.width:
        raise UsageError(f"{corpus.path}: holds {payload_of(corpus.width)}, and the model is of {payload_of(model.manifest.width)}")


@contextlib.contextmanager
def other_corpus(path: str | Path, model: TopicModel, meta: Mapping[str, str], mem_limit: int | None = None, **reading: Any) -> Iterator[Corpus]:
    """A corpus store as it is, or raw text ingested into a temporary one.

    Raw text is read with the model's tokenizer, and all its words are kept, so that the out-of-vocabulary rate is known.
    meta: fields of raw documents to keep, by the name of the column.
    """
    path, width = Path(path), model.manifest.width
    if not path.exists():
        raise InputError(f"--heldout {path}: no such file or folder")
    if (path / "manifest.json").exists():
        corpus = Corpus.open(path, dense=bool(width))
        check_payload(corpus, model)
        yield corpus
        return
    if width:
        raise UsageError(f"--heldout {path}: of {noun_of(width)}, a store is scored; ingest the file")
    from topicstream.ingestion.pipeline import ingest
    from topicstream.ingestion.read_options import ReadOptions
    from topicstream.tokens.recipe import Recipe

    recipe = model.manifest.tokenizer
    if recipe is None:
        raise StoreError(
            f"{model.path}: the model does not say how its text was tokenised; ingest {path} and name the store"
        )
    with tempfile.TemporaryDirectory(prefix="topics-heldout-") as folder:
        out = Path(folder) / "corpus.zarr"
        read = ReadOptions(**reading).recall(model.manifest.reading)
        if meta:
            read = replace(read, meta=meta)
        words = Recipe.from_json(recipe)
        ingest([Path(path)], out, recipe=words, min_df=1, max_df=1.0, heldout=0, mem_limit=mem_limit, **read.given())
        yield Corpus.open(out)
