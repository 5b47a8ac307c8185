"""scikit-learn's LatentDirichletAllocation, in the caller's process: its files are pickles."""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.errors import InputError
from topicstream.model.topic_model import TopicModel


def from_sklearn(model: Any, words: Any = None) -> TopicModel:
    """A fitted ``LatentDirichletAllocation``, or our own estimator.  words: names of the columns (of the vectorizer's
    ``get_feature_names_out``), where the model was fitted on an array without names."""
    try:
        components = np.asarray(model.components_, np.float64)
        beta = float(getattr(model, "topic_word_prior_", 0.0))
        alpha = getattr(model, "doc_topic_prior_", 1.0 / len(components))
    except (AttributeError, TypeError, ValueError) as e:
        raise InputError(f"not a fitted LatentDirichletAllocation ({type(e).__name__}: {e})") from None
    for name in ("vocabulary_", "feature_names_in_"):
        words = getattr(model, name, None) if words is None else words
    if words is None:
        raise InputError("the model does not know its words; give words=vectorizer.get_feature_names_out()")
    if len(words) != components.shape[1]:
        raise InputError(f"{len(words)} words for {components.shape[1]} columns")
    if not (np.isfinite(components).all() and components.min(initial=0.0) >= 0):
        raise InputError("components_ hold a number that is negative or not finite")
    phi = np.maximum(components - beta, 0.0).T
    return TopicModel.from_arrays(
        phi, [str(w) for w in words], np.asarray(alpha, np.float64), beta, engine="imported",
        cites="imported from scikit-learn", options={}, imported={"format": "sklearn"},
    )  # fmt: skip


def to_sklearn(model: TopicModel) -> Any:
    """A ``LatentDirichletAllocation`` that transforms and can be fitted on (``partial_fit``): K W doubles, twice.  It has one
    alpha for all topics: ours where they are equal, else their mean.  ImportError where scikit-learn is missing."""
    try:
        from sklearn.decomposition import LatentDirichletAllocation
    except ImportError:
        raise ImportError("to_sklearn() needs scikit-learn: pip install scikit-learn") from None
    from scipy.special import digamma

    made = LatentDirichletAllocation(
        model.n_topics, doc_topic_prior=float(model.alpha.mean()), topic_word_prior=model.beta or 1e-12
    )
    made.doc_topic_prior_, made.topic_word_prior_ = made.doc_topic_prior, made.topic_word_prior
    components = np.empty((model.n_topics, model.n_words))
    for start, rows in model.spans():
        components[:, start : start + len(rows)] = rows.T
    components += made.topic_word_prior_
    made.components_ = components
    made.exp_dirichlet_component_ = np.exp(digamma(components) - digamma(components.sum(axis=1))[:, None])
    made.n_features_in_, made.n_batch_iter_, made.n_iter_ = model.n_words, 1, 0
    made.random_state_ = np.random.RandomState(0)
    made.bound_ = np.nan
    return made
