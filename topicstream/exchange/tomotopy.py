"""tomotopy's LDAModel, in the caller's process: its files are dumps of C++ objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.errors import InputError
from topicstream.model.topic_model import TopicModel


def from_tomotopy(model: Any) -> TopicModel:
    """An ``LDAModel`` (or a kin with ``get_topic_word_dist``) after training; words it left out stay out."""
    try:
        topics, eta = int(model.k), float(model.eta)
        words = [str(w) for w in model.used_vocabs]
        alpha = np.broadcast_to(np.asarray(model.alpha, np.float64), (topics,)).copy()
        totals = np.asarray(model.get_count_by_topics(), np.float64)
        counts = np.asarray(model.used_vocab_freq, np.int64)
        df = np.asarray(model.used_vocab_df, np.int64)
    except (AttributeError, TypeError, ValueError) as e:
        raise InputError(f"not a trained tomotopy LDAModel ({type(e).__name__}: {e})") from None
    if not words:
        raise InputError("the tomotopy model has no words yet; train it first")
    phi = np.empty((len(words), topics), np.float32)
    for k in range(topics):
        p = np.asarray(model.get_topic_word_dist(k), np.float64)
        phi[:, k] = np.maximum(p * (totals[k] + len(words) * eta) - eta, 0.0)
    if str(getattr(model, "tw", "")).endswith("ONE"):
        phi = np.rint(phi)  # what it holds are whole counts
    return TopicModel.from_arrays(
        phi, words, alpha, eta, counts=counts, df=df, engine="imported", cites="imported from tomotopy", options={},
        imported={"format": "tomotopy"},
    )  # fmt: skip
