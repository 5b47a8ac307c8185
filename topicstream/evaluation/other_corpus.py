"""Another corpus to be scored: a store, or raw text that is read as the model's own was."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, StoreError
from topicstream.model.topic_model import TopicModel


@contextlib.contextmanager
def other_corpus(
    path: str | Path, model: TopicModel, label_field: str | None = None, **reading: Any
) -> Iterator[Corpus]:
    """A corpus store as it is, or raw text ingested into a temporary one with the model's tokenizer and all its words kept
    (so that the out-of-vocabulary rate is known).  label_field: where raw documents have their labels."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"--heldout {path}: no such file or folder")
    if (path / "manifest.json").exists():
        yield Corpus.open(path)
        return
    from topicstream.ingestion.pipeline import ingest
    from topicstream.ingestion.read_options import ReadOptions
    from topicstream.ingestion.settings import Heldout, IngestOptions
    from topicstream.tokens.recipe import Recipe

    recipe = model.manifest.get("tokenizer")
    if recipe is None:
        raise StoreError(
            f"{model.path}: the model does not say how its text was tokenised; ingest {path} and name the store"
        )
    with tempfile.TemporaryDirectory(prefix="topics-heldout-") as folder:
        out = Path(folder) / "corpus.zarr"
        read = ReadOptions(**reading).recall(model.manifest.get("reading"))
        if label_field is not None:
            read = replace(read, meta={"labels": label_field})
        options = IngestOptions(recipe=Recipe.from_json(recipe), min_df=1, max_df=1.0, heldout=Heldout.of(0), read=read)
        ingest([Path(path)], out, options=options)
        yield Corpus.open(out)
