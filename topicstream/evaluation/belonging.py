"""The corpus that a model is scored on: whether the two belong together, and raw text read as the
model's own was.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, StoreError, UsageError, named
from topicstream.files.mirror import mirrored
from topicstream.files.remote import address_of
from topicstream.model.topic_model import TopicModel
from topicstream.text import noun_of, payload_of
from topicstream.vocabulary import Vocabulary, as_words

BOTH_PARTS = ("train", "heldout")
LEAST = 0.1
"""Share of a corpus' tokens that a model must know the words of.  Other texts of the same language:
70 % and more; another
language: 1 to 5 % (names, and words that look alike)."""


def strangers(model: TopicModel, corpus: Corpus) -> str | None:
    """A sentence where the model was trained on another corpus, with both names; None where it was
    trained on this one (or an
    earlier state of it), or does not say.  UsageError where they have next to no word in common:
                                            scores would say nothing."""
    trained = model.manifest.corpus.fingerprint
    if trained is None or corpus.is_of(trained):
        return None
    corpus_words = Vocabulary.read(corpus.file("vocab"))
    own = model.vocabulary.words
    if len(own) <= len(corpus_words.words) and as_words(
        corpus_words.words.slice(0, len(own))
    ).equals(as_words(own)):
        return None  # an earlier state of it, before it grew
    known = float(corpus_words.counts[model.vocabulary.find(corpus_words.words) >= 0].sum()) / max(
        float(corpus_words.counts.sum()), 1.0
    )
    if known < LEAST:
        raise UsageError(
            f"{model.name} and {corpus.path} do not match: the model was trained on another "
            f"corpus and knows "
            f"{100 * known:.1f} % of this one's tokens; give the model's own corpus, or a model "
            f"of this one"
        )
    return named(
        f"{model.name} was trained on another corpus than {corpus.path}, or on another state of "
        f"it; it knows {100 * known:.0f} % of "
        "its tokens"
    )


def check_payload(corpus: Corpus, model: TopicModel) -> None:
    """UsageError where a store does not hold what the model is of."""
    if corpus.width != model.manifest.width:
        raise UsageError(
            f"{corpus.path}: holds {payload_of(corpus.width)}, and the model is of "
            f"{payload_of(model.manifest.width)}"
        )


@contextlib.contextmanager
def other_corpus(
    path: str | Path,
    model: TopicModel,
    meta: Mapping[str, str],
    mem_limit: int | None = None,
    **reading: Any,
) -> Iterator[Corpus]:
    """A corpus store as it is, or raw text ingested into a temporary one.

    Raw text is read with the model's tokenizer, and all its words are kept, so that the
    out-of-vocabulary rate is known. meta: fields of raw documents to keep, by the name of the
    column."""
    remote, width = address_of(path), model.manifest.width
    path = Path(mirrored(path) if str(path).endswith(".zarr") else path)
    if remote is None and not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if (path / "manifest.json").exists():
        corpus = Corpus.open(path, dense=bool(width))
        check_payload(corpus, model)
        yield corpus
        return
    if width:
        raise UsageError(f"{path}: of {noun_of(width)}, a store is scored; ingest the file")
    from topicstream.ingestion.pipeline import ingest
    from topicstream.ingestion.read_options import FIELDS, LAYOUT, ReadOptions, remembered_meta
    from topicstream.tokens.recipe import Recipe

    recipe = model.manifest.tokenizer
    if recipe is None:
        raise StoreError(
            f"{model.path}: the model does not say how its text was tokenised; ingest {path} "
            f"and name the store"
        )
    with tempfile.TemporaryDirectory(prefix="topics-heldout-") as folder:
        out = Path(folder) / "corpus.zarr"
        read = ReadOptions(**reading).recall(model.manifest.reading, FIELDS, LAYOUT)
        if meta:
            # a field that is called as its column may have another name in the model's input
            earlier = remembered_meta(model.manifest.reading)
            named = {c: earlier.get(c, c) if field == c else field for c, field in meta.items()}
            read = replace(read, meta=named)
        words = Recipe.from_json(recipe)
        ingest(
            [Path(path)],
            out,
            recipe=words,
            min_df=1,
            max_df=1.0,
            heldout=0,
            mem_limit=mem_limit,
            **read.given(),
        )
        yield Corpus.open(out)
