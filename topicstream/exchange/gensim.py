"""gensim's LdaModel, in the caller's process: its files are pickles, so no file is read or written."""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.errors import InputError
from topicstream.model.topic_model import TopicModel


def from_gensim(model: Any) -> TopicModel:
    """An ``LdaModel`` (or ``LdaMulticore``): its posterior lambda without eta; eta that differs by word keeps its least."""
    try:
        posterior = np.asarray(model.state.get_lambda(), np.float64)
        eta = float(np.min(np.asarray(model.eta, np.float64)))
        alpha = np.asarray(model.alpha, np.float64)
        words = [model.id2word[i] for i in range(posterior.shape[1])]
    except (AttributeError, KeyError, TypeError, IndexError) as e:
        raise InputError(f"not a gensim LdaModel with its dictionary ({type(e).__name__}: {e})") from None
    phi = np.maximum(posterior - eta, 0.0).T
    return TopicModel.from_arrays(
        phi, [str(w) for w in words], alpha, eta, engine="imported", cites="imported from gensim", options={},
        imported={"format": "gensim"},
    )  # fmt: skip


def to_gensim(model: TopicModel) -> Any:
    """A ``gensim.models.LdaModel`` with the same topics and priors: ``inference``, ``update`` and coherence work.
    Takes 4 K W bytes twice (float32).  ImportError where gensim is missing."""
    try:
        from gensim.models import LdaModel
    except ImportError:
        raise ImportError("to_gensim() needs gensim: pip install gensim") from None
    words = dict(enumerate(model.words.to_pylist()))
    beta = model.beta if model.beta > 0 else 1e-12
    made = LdaModel(
        id2word=words, num_topics=model.n_topics, alpha=np.maximum(model.alpha, 1e-12), eta=beta, dtype=np.float32
    )
    for start, rows in model.spans():
        made.state.sstats[:, start : start + len(rows)] = rows.T
    docs = (model.manifest.get("corpus") or {}).get("docs")
    made.state.numdocs = int(docs or 0)
    made.sync_state()
    return made
