"""The trained table -> a model on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.corpus.reader import Corpus
from topicstream.engines.base import Engine
from topicstream.model.seeds import labels_of
from topicstream.model.store import ModelWriter
from topicstream.model.vocabulary import Vocabulary
from topicstream.tables.table import Table
from topicstream.training.state.record import Record


def write_model(
    folder: Path,
    record: Record,
    corpus: Corpus,
    vocab: Path,
    engine: Engine,
    tables: Mapping[str, Table],
    params: dict[str, np.ndarray],
    passes: int,
    reason: str,
) -> None:
    """Stream the rows of the tables that the engine shows into the model of ``folder`` and commit it (manifest last).
    vocab: the corpus' words."""
    topics = record.settings["topics"]
    with ModelWriter(folder, corpus.n_words, topics) as writer:
        for name in engine.shown:
            table, spec = tables[name], engine.tables[name]
            write = writer.write_rows
            if name != "phi":
                axis = spec.axis or ""
                names = names_of(corpus, axis) if axis in engine.axes else None
                write = writer.add_table(name, table.n_rows, table.columns, axis, names).write_rows
            for start, rows in table.pieces():
                write(start, rows)
        if "phi" not in engine.shown:
            writer.write_rows(0, engine.model_rows(params))
        for name in engine.shown_params:
            value = np.atleast_2d(params[name])
            writer.add_table(name, *value.shape).write_rows(0, value)
        manifest: dict[str, Any] = {
            "engine": record.engine,
            "cites": record.cites,
            "options": record.options,
            "seed": record.settings["seed"],
            "start": record.settings["start"],
            "layout": record.layout,
            "versions": record.versions,
            "corpus": {
                "fingerprint": corpus.fingerprint,
                "generation": corpus.manifest.get("generation", 1),
                "docs": corpus.n_docs,
                "cells": corpus.n_cells,
                "tokens": corpus.n_tokens,
            },
            "tokenizer": corpus.manifest.get("tokenizer"),
            **({"reading": corpus.manifest["reading"]} if "reading" in corpus.manifest else {}),
            "passes": passes,
            "stopped": reason,
        }
        manifest |= {name: corpus.manifest[name] for name in ("vectors", "patches") if name in corpus.manifest}
        if engine.topics_axis:
            first = topics - corpus.axes[engine.topics_axis].size
            names = chain.from_iterable(piece.to_pylist() for piece in names_of(corpus, engine.topics_axis))
            manifest["labels"] = {str(first + i): name for i, name in enumerate(names)}
            manifest["label_docs"] = corpus.axes[engine.topics_axis].docs().tolist()
        if corpus.weights is not None:
            manifest["weighting"] = corpus.weights.to_json()
        if record.settings["seed_words"] is not None:
            manifest["seed_words"] = record.settings["seed_words"]
            manifest["labels"] = labels_of(record.settings["seed_words"]) | manifest.get("labels", {})
        vocabulary = Vocabulary.read(vocab)
        if record.settings["sample"] is not None:
            manifest["sample"], df = record.settings["sample"], corpus.document_counts()
            vocabulary = Vocabulary.of(vocabulary.words, df if corpus.weighted else corpus.word_counts(), df)
        writer.commit(manifest, vocabulary, params["alpha"], float(params["beta"][0]))


def names_of(corpus: Corpus, axis: str, step: int = 1 << 16) -> Iterator[pa.Array]:
    """The names of an axis, in order, some at a time."""
    for first in range(0, corpus.axes[axis].size, step):
        yield corpus.axes[axis].names(first, first + step)
