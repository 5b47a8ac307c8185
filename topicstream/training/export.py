"""The trained table -> a model on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.model.store import ModelWriter
from topicstream.model.vocabulary import Vocabulary
from topicstream.training.record import Record


def export_model(
    folder: Path,
    record: Record,
    corpus: Corpus,
    vocab: Path,
    table: Any,
    params: dict[str, np.ndarray],
    passes: int,
    reason: str,
) -> None:
    """Stream the table's rows into the model of ``folder`` and commit it (manifest last).  vocab: the corpus' words."""
    topics = record.topics
    with ModelWriter(folder, corpus.n_words, topics) as writer:
        for start, rows in table.pieces():
            writer.write_rows(start, rows[:, :topics])
        manifest = {
            "engine": record.engine,
            "cites": record.cites,
            "options": record.options,
            "seed": record.seed,
            "start": record.start,
            "layout": record.layout,
            "versions": record.versions,
            "corpus": {
                "fingerprint": corpus.fingerprint,
                "docs": corpus.n_docs,
                "cells": corpus.n_cells,
                "tokens": corpus.n_tokens,
            },
            "tokenizer": corpus.manifest.get("tokenizer"),
            "passes": passes,
            "stopped": reason,
        }
        vocabulary = Vocabulary.read(vocab)
        writer.commit(manifest, vocabulary, params["alpha"], float(params["beta"][0]))
