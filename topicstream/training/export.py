"""The trained table -> a model on disk."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.engines.base import VectorEngine
from topicstream.model.manifest import as_origin, origin_of
from topicstream.model.store import ModelWriter
from topicstream.training.session import Session


def write_model(session: Session, reason: str) -> None:
    """Stream the rows of the tables that the engine shows into the model of the run's folder and
    commit it (manifest last).
    """
    run = session.run
    tables = session.tables.current
    params = session.params
    passes = session.passes
    folder = run.folder
    record = run.record
    corpus = run.corpus
    engine = run.engine
    vocab = session.vocab
    topics = record.topics
    with ModelWriter(folder, corpus.n_words, topics) as writer:
        for name in engine.about.stored_tables:
            table = tables[name]
            spec = engine.tables[name]
            write = writer.write_rows
            if name != "phi":
                axis = spec.axis or ""
                names = names_of(corpus, axis) if axis in engine.about.axes else None
                write = writer.add_table(name, table.n_rows, table.columns, axis, names).write_rows
            for start, rows in table.pieces():
                write(start, rows)
        if isinstance(engine, VectorEngine):
            writer.write_rows(0, engine.model_rows(params))
        for name in engine.about.stored_params:
            value = np.atleast_2d(params[name])
            writer.add_table(name, *value.shape).write_rows(0, value)
        manifest: dict[str, Any] = {
            "engine": record.engine,
            "cites": record.cites,
            "options": record.options,
            "seed": record.seed,
            "start": record.start,
            "layout": record.layout,
            "versions": record.versions,
            "corpus": {
                "fingerprint": corpus.fingerprint,
                "generation": corpus.manifest.generation,
                "docs": corpus.n_docs,
                "cells": corpus.n_cells,
                "tokens": corpus.n_tokens,
            },
            "tokenizer": corpus.manifest.tokenizer,
            "reading": corpus.manifest.reading,
            "vectors": corpus.width or None,
            "patches": corpus.manifest.patches,
            "passes": passes,
            "stopped": reason,
        }
        topic_names: dict[str, str] = {}
        if engine.about.topics_axis:
            first = topics - corpus.axes[engine.about.topics_axis].size
            names = chain.from_iterable(
                piece.to_pylist() for piece in names_of(corpus, engine.about.topics_axis)
            )
            topic_names = {str(first + i): name for i, name in enumerate(names)}
            manifest["label_docs"] = corpus.axes[engine.about.topics_axis].docs().tolist()
        if corpus.weights is not None:
            manifest["weighting"] = corpus.weights.about
        if record.seed_words is not None:
            manifest["seed_words"] = record.seed_words
            topic_names = {str(seed.topic): seed.name for seed in record.seed_words} | topic_names
        vocabulary = Vocabulary.read(vocab)
        if record.sample is not None:
            manifest["sample"], df = record.sample, corpus.document_counts()
            vocabulary = Vocabulary.from_words(
                vocabulary.words, df if corpus.weighted else corpus.word_counts(), df
            )
        writer.commit(
            origin_of(as_origin(manifest), topic_names=topic_names),
            vocabulary,
            params["alpha"],
            float(params["beta"][0]),
        )


def names_of(corpus: Corpus, axis: str, step: int = 1 << 16) -> Iterator[pa.Array]:
    """The names of an axis, in order, some at a time."""
    for first in range(0, corpus.axes[axis].size, step):
        yield corpus.axes[axis].names(first, first + step)
