"""Runs with ``--covariates`` that several tests make, and what they check of their models."""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import topicstream
from topicstream.base.errors import Interrupted
from topicstream.base.progress import Shown
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import score_model
from topicstream.model.design import decode_design
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train
from topicstream.training.passes import PassRunner


def ingest_documents(documents: list[dict[str, Any]], path: Path, columns: tuple[str, ...]) -> Path:
    """Ingest documents with their metadata; a tenth of them is held out."""
    meta = {name: name for name in columns}
    topicstream.ingest(documents, out=path, meta=meta, heldout=0.1, min_df=1, progress=False)
    return path


def train_quietly(corpus: Path, model: Path, algo: str = "sparse-bp", **options: Any) -> Any:
    """Train four topics in small blocks on one thread, unless ``options`` say otherwise."""
    if algo == "sparselda":
        options = {"learn_after": 0, **options}
    defaults = {"topics": 4, "tol": 0, "threads": 1, "block_cells": 1000, "round_blocks": 3}
    return train(corpus, model, algo=algo, **{**defaults, "progress": Shown(-1), **options})


def train_and_stop(
    monkeypatch: pytest.MonkeyPatch, stop_round: int, corpus: Path, model: Path, **options: Any
) -> None:
    """Train as ``train_quietly``, and send SIGTERM after a number of rounds."""
    apply_round = PassRunner._apply
    rounds = count(1)

    def apply_and_stop(*arguments: Any) -> None:
        apply_round(*arguments)
        if next(rounds) == stop_round:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(PassRunner, "_apply", apply_and_stop)
        train_quietly(corpus, model, **options)


def check_mean_alpha(corpus: Path, model: Path, columns: tuple[str, ...]) -> None:
    """Check that a model's alpha is the mean over its training documents."""
    opened = TopicModel.open(model)
    design = decode_design(opened.manifest.covariates)
    rows = []
    for batch in Corpus.open(corpus).documents(list(columns), parts=("train",)):
        values = {name: batch.column(name) for name in design.columns}
        rows.append(design.rows(values).dense(len(design.names)))
    alpha = np.exp(np.concatenate(rows) @ opened.coefficients).mean(0)
    np.testing.assert_allclose(opened.alpha, alpha, rtol=1e-5)


def check_held_out_perplexity(corpus: Path, model: Path, **options: Any) -> None:
    """Check that training judges held-out documents by the prior that evaluation gives them."""
    done = train_quietly(corpus, model, passes=12, eval_every=12, **options)
    score = score_model(TopicModel.open(model), Corpus.open(corpus))
    assert done.last["heldout_perplexity"] == pytest.approx(score.perplexity, rel=1e-5)
