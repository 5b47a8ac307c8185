"""Models of gensim, scikit-learn and tomotopy in the caller's process.

Their files are pickles or dumps of C++ objects, which run or crash on whatever they hold, so no
file is read or written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from topicstream.base.errors import InputError, StoreError
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.model.exchange import read_counts
from topicstream.model.topic_model import TopicModel


def _build_model(
    format: str,
    phi: np.ndarray,
    words: Iterable[object],
    alpha: np.ndarray,
    beta: float,
    **more: Any,
) -> TopicModel:
    """Build a model in memory that records its origin.

    ``more`` holds its tokenizer, or counts and df of its words.
    """
    origin: dict[str, Any] = {
        "engine": "imported",
        "cites": f"imported from {format}",
        "options": {},
        "imported": {"format": format},
    }
    return TopicModel.from_arrays(phi, [str(w) for w in words], alpha, beta, **origin, **more)


def from_gensim(model: Any, tokenizer: Mapping[str, Any] | TopicModel | None = None) -> TopicModel:
    """Convert a gensim ``LdaModel`` or ``LdaMulticore``.

    The counts are its posterior lambda without eta. Of an eta that differs by word the least is
    kept.

    Parameters
    ----------
    tokenizer
        How raw text becomes its words: the options of ``ingest`` (``{"min_length": 3, "stopwords":
        ["the"]}``), or a model whose tokenizer it has. None: by the default rules, without stop
        words; documents may also be lists of words.
    """
    if isinstance(tokenizer, TopicModel):
        recipe = tokenizer.manifest.tokenizer
    else:
        plain = {"stopwords": (), "stopwords_from": "none", "min_length": 1}
        try:
            recipe = Recipe.from_json({**plain, **(tokenizer or {})}).to_json()
        except (StoreError, TypeError) as e:
            raise InputError(
                f"tokenizer: {e}; give options of ingest, such as {{'min_length': 3}}, or a model"
            ) from None
    try:
        posterior = np.asarray(model.state.get_lambda(), np.float64)
        eta = float(np.min(np.asarray(model.eta, np.float64)))
        alpha = np.asarray(model.alpha, np.float64)
        words = [model.id2word[i] for i in range(posterior.shape[1])]
    except (AttributeError, KeyError, TypeError, IndexError) as e:
        raise InputError(
            f"not a gensim LdaModel with its dictionary ({type(e).__name__}: {e})"
        ) from None
    phi = np.maximum(posterior - eta, 0.0).T
    return _build_model("gensim", phi, words, alpha, eta, tokenizer=recipe)


def to_gensim(model: TopicModel) -> Any:
    """Convert to a ``gensim.models.LdaModel`` with the same topics and priors.

    Its ``inference``, ``update`` and coherence work. It takes 4 K W bytes twice (float32).

    Raises
    ------
    ImportError
        If gensim is missing.
    """
    try:
        from gensim.models import LdaModel
    except ImportError:
        raise ImportError("to_gensim() needs gensim: pip install gensim") from None
    words = dict(enumerate(model.words))
    beta = model.beta if model.beta > 0 else 1e-12
    lda = LdaModel(
        id2word=words,
        num_topics=model.n_topics,
        alpha=np.maximum(model.alpha, 1e-12),
        eta=beta,
        dtype=np.float32,
    )
    lda.state.sstats[:] = read_counts(model).T
    lda.state.numdocs = model.manifest.corpus.docs or 0
    lda.sync_state()
    return lda


def from_sklearn(model: Any, words: Any = None) -> TopicModel:
    """Convert a fitted ``LatentDirichletAllocation``, or our own estimator.

    Parameters
    ----------
    words
        Names of the columns (the vectorizer's ``get_feature_names_out``), if the model was fitted
        on an array without names.
    """
    try:
        components = np.asarray(model.components_, np.float64)
        beta = float(getattr(model, "topic_word_prior_", 0.0))
        alpha = getattr(model, "doc_topic_prior_", 1.0 / len(components))
    except (AttributeError, TypeError, ValueError) as e:
        raise InputError(
            f"not a fitted LatentDirichletAllocation ({type(e).__name__}: {e})"
        ) from None
    for name in ("vocabulary_", "feature_names_in_"):
        words = getattr(model, name, None) if words is None else words
    if words is None:
        raise InputError(
            "the model does not know its words; give words=vectorizer.get_feature_names_out()"
        )
    if len(words) != components.shape[1]:
        raise InputError(f"{len(words)} words for {components.shape[1]} columns")
    if not (np.isfinite(components).all() and components.min(initial=0.0) >= 0):
        raise InputError("a number in components_ is negative or not finite")
    phi = np.maximum(components - beta, 0.0).T
    return _build_model("sklearn", phi, words, np.asarray(alpha, np.float64), beta)


def to_sklearn(model: TopicModel) -> Any:
    """Convert to a ``LatentDirichletAllocation`` that transforms and can be fitted further.

    It takes K W doubles, twice. scikit-learn has one alpha for all topics: ours where they are
    equal, else their mean.

    Raises
    ------
    ImportError
        If scikit-learn is missing.
    """
    try:
        from sklearn.decomposition import LatentDirichletAllocation
    except ImportError:
        raise ImportError("to_sklearn() needs scikit-learn: pip install scikit-learn") from None
    from scipy.special import digamma

    lda = LatentDirichletAllocation(
        model.n_topics,
        doc_topic_prior=float(model.alpha.mean()),
        topic_word_prior=model.beta or 1e-12,
    )
    lda.doc_topic_prior_ = lda.doc_topic_prior
    lda.topic_word_prior_ = lda.topic_word_prior
    components = np.ascontiguousarray(read_counts(model).T, np.float64) + lda.topic_word_prior_
    lda.components_ = components
    lda.exp_dirichlet_component_ = np.exp(
        digamma(components) - digamma(components.sum(axis=1))[:, None]
    )
    lda.n_features_in_ = model.n_words
    lda.n_batch_iter_ = 1
    lda.n_iter_ = 0
    lda.random_state_ = np.random.RandomState(0)
    lda.bound_ = np.nan
    return lda


def from_tomotopy(model: Any) -> TopicModel:
    """Convert a trained ``LDAModel`` of tomotopy, or a related model.

    It needs ``get_topic_word_dist``. Words that it left out stay out.
    """
    try:
        topics = int(model.k)
        eta = float(model.eta)
        words = [str(w) for w in model.used_vocabs]
        alpha = np.broadcast_to(np.asarray(model.alpha, np.float64), (topics,)).copy()
        totals = np.asarray(model.get_count_by_topics(), np.float64)
        counts = np.asarray(model.used_vocab_freq, np.int64)
        df = np.asarray(model.used_vocab_df, np.int64)
    except (AttributeError, TypeError, ValueError) as e:
        raise InputError(f"not a trained tomotopy LDAModel ({type(e).__name__}: {e})") from None
    if not words:
        raise InputError("the tomotopy model has no words yet; train it first")
    p = np.array([model.get_topic_word_dist(k) for k in range(topics)], np.float64).T
    phi = np.maximum(p * (totals + len(words) * eta) - eta, 0.0)
    if str(getattr(model, "tw", "")).endswith("ONE"):
        phi = np.rint(phi)  # what it holds are whole counts
    return _build_model("tomotopy", phi, words, alpha, eta, counts=counts, df=df)
