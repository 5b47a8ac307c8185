"""``topicstream.sklearn.TopicModel``, an estimator like ``LatentDirichletAllocation``.

It needs scikit-learn (``pip install 'topicstream[sklearn]'``).
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from topicstream import verbs
from topicstream.base.errors import TopicsError
from topicstream.base.machine import default_threads
from topicstream.base.options import checked
from topicstream.base.progress import Progress
from topicstream.corpus.block import Block
from topicstream.corpus.reader import Corpus
from topicstream.engines import find
from topicstream.engines.base import (
    Engine,
    Key,
    Out,
    Rows,
    Shape,
    SparseDelta,
    Visit,
    padded,
)
from topicstream.evaluation.completion import score_model
from topicstream.inference.documents import Documents, cut_cells, documents_of_cells
from topicstream.inference.memory import BLOCK_CELLS, BLOCK_DOCS
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import check_metadata_free, make_method
from topicstream.ingestion.open.memory import InMemory
from topicstream.ingestion.pipeline import ingest
from topicstream.numeric.parallel import in_order
from topicstream.training.executor import new_out, run_visit
from topicstream.training.loop import train

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data
except ImportError as e:
    raise ImportError(
        f"topicstream.sklearn needs scikit-learn 1.6 or later: pip install "
        f"'topicstream[sklearn]' ({e})"
    ) from e

STOCHASTIC = ("ovb", "svi")


def _check_stochastic(estimator: TopicModel) -> bool:
    """Raise AttributeError if the algorithm has no steps, as ``available_if`` expects."""
    if estimator.algorithm not in ("auto", *STOCHASTIC):
        raise AttributeError(
            f"partial_fit needs algorithm='auto', 'ovb' or 'svi', not {estimator.algorithm!r}"
        )
    return True


class PassLines(Progress):
    """A listener that prints a line for every pass, as scikit-learn's estimators do."""

    def end_pass(self, record: Mapping[str, Any], passes: int) -> None:
        """Print the pass and its running perplexity."""
        if record["pass"]:  # 0 is the start
            perplexity = record.get("running_perplexity")
            more = f", running perplexity {perplexity:.4f}" if perplexity else ""
            print(f"pass {record['pass']} of at most {passes}{more}")


@contextmanager
def _as_value_errors() -> Iterator[None]:
    """Raise errors of topicstream as ValueError, as scikit-learn's estimators do."""
    try:
        yield
    except TopicsError as e:
        raise ValueError(str(e)) from e


@dataclass(eq=False, repr=False)
class TopicModel(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Topics of a document-word matrix, learnt by any engine of topicstream, streamed from disk.

    ``X`` is an array or sparse matrix [documents, words] of counts or non-negative weights, or the
    path of a store (or an open ``Corpus``), which may be bigger than memory.

    Parameters
    ----------
    n_components : int
        Number of topics K.
    algorithm : str
        An engine (``topics engines`` lists them) or ``auto``.
    doc_topic_prior, topic_word_prior : float or None
        Alpha of each topic and beta of each word; None: the engine's own, or learnt.
    max_iter, tol : int, float or str
        Most passes, and the change of running perplexity that ends them ("0.1%": over ten passes);
        None: the engine's own (60 to 80 passes at K = 100; ``max_iter=10``, what
        LatentDirichletAllocation makes, takes a fifth of the time and ends 4 to 6 % higher in
        held-out perplexity, 20 a third of it and 3 % higher).
    method : str
        How ``transform`` finds topics: ``bp``, ``vb`` or ``gibbs``.
    total_samples : int
        Documents in all, for ``partial_fit``.
    options : dict
        The engine's own options.
    mem_limit : str or int
        Memory of the process while training, as ``"2G"``.
    n_jobs : int or None
        Threads; None: all processors. The result does not depend on it.
    random_state : int, RandomState or None
        None is 0: the same data give the same topics.
    verbose : int
        0: silent; 1: a line on standard output for every pass.

    Attributes
    ----------
    components_ : float32[K, n_features]
        Counts with the prior, as in ``LatentDirichletAllocation``; rows divided by their sums are
        p(word | topic).
    doc_topic_prior_, topic_word_prior_ : float64[K], float
        Alpha and beta as they were used.
    n_iter_ : int
        Passes made.
    bound_ : float
        Perplexity of the training documents, as ``perplexity`` computes it (nan after
        ``partial_fit``, and where no document has two different words).
    vocabulary_ : Vocabulary
        The words, after ``fit`` on a store.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from topicstream.sklearn import TopicModel
    >>> counts = CountVectorizer().fit_transform(["ships and sails", "bread and butter"] * 20)
    >>> TopicModel(n_components=2, max_iter=5).fit_transform(counts).shape
    (40, 2)
    """

    n_components: int = 10
    _: KW_ONLY
    algorithm: str = "auto"
    doc_topic_prior: float | None = None
    topic_word_prior: float | None = None
    max_iter: int | None = None
    tol: float | str | None = None
    method: str = "bp"
    total_samples: float = 1e6
    options: dict[str, Any] | None = None
    mem_limit: str | int | None = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    # the protocol of scikit-learn

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        """Return the number of topics, which scikit-learn names as features."""
        return int(self.components_.shape[0])

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "_model"}

    def _check_matrix(self, X: Any, caller: str, *, reset: bool) -> Any:
        """Check a matrix of counts, with advice for texts, and return it as an array or CSR."""
        is_nested = isinstance(X, (list, tuple)) and bool(X) and isinstance(X[0], (list, tuple))
        is_array = hasattr(X, "__array__") and hasattr(X, "__getitem__")
        row = []
        if is_nested or is_array or isinstance(X, list):
            row = np.array(X[:1], object).ravel().tolist()
        if any(isinstance(value, (str, list)) for value in row):
            words = "analyzer=list" if is_nested or isinstance(row[0], list) else ""
            advice = ", and give it the column of texts alone" if hasattr(X, "columns") else ""
            raise ValueError(
                f"{caller} takes counts, and these are texts: put CountVectorizer before it, as in "
                f"make_pipeline(CountVectorizer({words}), TopicModel({self.n_components})){advice}"
            )
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
        check_non_negative(X, caller)
        return X

    @property
    def _seed(self) -> int:
        """Return the seed as a number."""
        if self.random_state is None or isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state or 0)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    @property
    def _threads(self) -> int:
        """Return the number of threads."""
        return (
            int(self.n_jobs) if self.n_jobs is not None and self.n_jobs > 0 else default_threads()
        )

    # learning

    def fit(self, X: Any, y: object = None) -> TopicModel:
        """Learn the topics of documents.

        Parameters
        ----------
        X
            An array or sparse matrix of counts, or a store, as the class describes.
        y
            Ignored.
        """
        with tempfile.TemporaryDirectory(prefix="topics-sklearn-") as folder, _as_value_errors():
            if isinstance(X, (str, os.PathLike, Corpus)):
                trained = self._train_model(
                    X if isinstance(X, Corpus) else Corpus.open(Path(X)), Path(folder)
                )
                words = trained.vocabulary.words
                self.vocabulary_ = np.array(words.to_pylist(), object)
                self.n_features_in_ = len(words)
                self.__dict__.pop("feature_names_in_", None)
                self.components_ = self._add_prior(trained.phi)
                self._model = trained
                self.bound_ = self._measure_bound(X)
                return self
            X = self._check_matrix(X, "TopicModel.fit", reset=True)
            self.__dict__.pop("vocabulary_", None)
            if not X.sum():
                return self._fit_nothing(X.shape[1])
            trained = self._train_model(
                _ingest_matrix(X, Path(folder) / "corpus.zarr", self.mem_limit), Path(folder)
            )
            columns = np.array(trained.vocabulary.words.to_pylist(), np.int64)
            # words without a count are no words of a store
            phi = np.zeros((X.shape[1], trained.n_topics), np.float32)
            phi[columns] = trained.phi
            self.components_ = self._add_prior(phi)
            self._model = self._make_model()
        self.bound_ = self._measure_bound(X)
        return self

    def _measure_bound(self, X: Any) -> float:
        """Compute the perplexity of the fitted documents, nan if none has two different words."""
        try:
            return self.perplexity(X)
        except ValueError:
            return float("nan")

    def _fit_nothing(self, words: int) -> TopicModel:
        """Learn topics of documents without a word: the priors, as scikit-learn does."""
        uniform = 1.0 / self.n_components
        alpha = uniform if self.doc_topic_prior is None else self.doc_topic_prior
        beta = uniform if self.topic_word_prior is None else self.topic_word_prior
        self.doc_topic_prior_ = np.full(self.n_components, float(alpha))
        self.topic_word_prior_ = float(beta)
        self.components_ = np.full((self.n_components, words), beta, np.float32)
        self.n_iter_ = 0
        self.bound_ = float("nan")
        self._model = self._make_model()
        return self

    def _train_model(self, corpus: Corpus, folder: Path) -> verbs.TopicModel:
        """Train on a store, and note priors and passes."""
        priors = {"alpha": self.doc_topic_prior, "beta": self.topic_word_prior}
        options = {
            **(self.options or {}),
            **{name: value for name, value in priors.items() if value is not None},
        }
        outcome = train(
            corpus.path,
            folder / "model",
            algo=self.algorithm,
            topics=self.n_components,
            seed=self._seed,
            passes=self.max_iter,
            tol=self.tol,
            threads=self._threads,
            mem_limit=self.mem_limit,
            options=options,
            progress=PassLines() if self.verbose else False,
        )
        trained = verbs.TopicModel.open(folder / "model")
        trained.path = None  # its folder goes away
        self.doc_topic_prior_ = trained.alpha
        self.topic_word_prior_ = trained.beta
        self.n_iter_ = outcome.passes
        return trained

    def _add_prior(self, phi: Any) -> np.ndarray:
        """Add the prior to phi, float32[K, W]."""
        return np.ascontiguousarray(phi.T + np.float32(self.topic_word_prior_))

    def _make_model(self) -> verbs.TopicModel:
        """Return the topics as the rest of the package takes them.

        After unpickling they are made again from the arrays.
        """
        beta = np.float32(self.topic_word_prior_)
        phi = np.maximum(self.components_ - beta, 0).T
        words = getattr(self, "vocabulary_", None)
        words = [str(i) for i in range(len(phi))] if words is None else words.tolist()
        return verbs.TopicModel.from_arrays(
            phi, words, self.doc_topic_prior_, self.topic_word_prior_
        )

    @available_if(_check_stochastic)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: object = None) -> TopicModel:
        """Learn from one more batch of documents, by ``ovb`` (also for ``auto``) or ``svi``.

        It is a stochastic step (Hoffman, Blei & Bach 2010).

        Parameters
        ----------
        X
            An array or sparse matrix of counts.
        y
            Ignored.
        """
        first = not hasattr(self, "components_")
        X = self._check_matrix(X, "TopicModel.partial_fit", reset=first)
        with _as_value_errors():
            self._take_step(csr_array(X), first)
        return self

    def _take_step(self, X: Any, first: bool) -> None:
        """Take one step of the engine on a batch, CSR [documents, words]."""
        engine = self._make_engine(X)
        params = engine.initial_params()
        if first:
            self.doc_topic_prior_ = params["alpha"]
            self.topic_word_prior_ = float(params["beta"][0])
            rng = np.random.default_rng(self._seed)
            counts = rng.gamma(100.0, 0.01, (self.n_components, X.shape[1])).astype(np.float32)
            self.components_ = counts + np.float32(self.topic_word_prior_)
            self.n_iter_ = 0
            self.bound_ = np.nan
        if self.n_components != len(self.components_):
            raise ValueError(
                f"n_components is {self.n_components}, and {len(self.components_)} topics have "
                f"been learnt"
            )
        params["alpha"] = self.doc_topic_prior_
        params["beta"] = np.array([self.topic_word_prior_])
        params["step"] = np.array([float(self.n_iter_)])
        phi = np.zeros((X.shape[1], padded(self.n_components)), np.float32)
        phi[:, : self.n_components] = self._make_model().phi
        totals = {"phi": phi.sum(axis=0, dtype=np.float64)}
        expected = np.zeros(phi.shape)
        key = Key(self._seed, self.n_iter_ + 1)

        def visit_block(block: Block) -> tuple[Block, Out]:
            rows = {"phi": Rows(phi, block.vocab.astype(np.int64))}
            visit = Visit(block, rows, totals, {}, params, key)
            return block, run_visit(engine, visit, new_out(engine, block))

        for block, out in in_order(visit_block, _cut_blocks(X), self._threads):
            _add_delta(expected, block, out)
        rho, scale = engine.end_round(params, {}, X.shape[0])
        new = (1 - rho) * phi + rho * scale * expected
        learnt = new[:, : self.n_components].T + self.topic_word_prior_
        self.components_ = learnt.astype(np.float32)
        self.n_iter_ += 1
        self._model = self._make_model()

    def _make_engine(self, X: Any) -> Engine:
        """Make the engine for a corpus of ``total_samples`` documents like those of a batch."""
        algorithm = STOCHASTIC[0] if self.algorithm == "auto" else self.algorithm
        kind = find(algorithm)
        priors = {"alpha": self.doc_topic_prior, "beta": self.topic_word_prior}
        options = checked(kind.Options, {**priors, **(self.options or {})}, algorithm)
        shape = Shape(
            docs=round(self.total_samples),
            words=X.shape[1],
            cells=X.nnz,
            tokens=float(X.sum()),
            topics=self.n_components,
            weighted=True,
        )
        return kind(shape, kind.Options(**options))

    # answers

    def _get_model(self) -> verbs.TopicModel:
        """Return the fitted model, made again after unpickling."""
        check_is_fitted(self, "components_")
        if not hasattr(self, "_model"):  # read from a pickle
            self._model = self._make_model()
        return self._model

    def transform(self, X: Any, *, normalize: bool = True) -> np.ndarray:
        """Return p(topic | document), [documents, K], whose rows sum to 1.

        A document without a known word gets the prior's mean.

        Parameters
        ----------
        X
            An array or sparse matrix of counts, or a store.
        normalize
            False: multiply rows by the sum of the document's tokens and of alpha, as the
            parameters of a Dirichlet distribution.
        """
        shares = self._infer_shares(X)
        if normalize:
            return shares
        if isinstance(X, (str, os.PathLike, Corpus)):
            raise ValueError("normalize=False takes a matrix, not a store")
        tokens = np.asarray(csr_array(X).sum(axis=1)).ravel()
        weight = tokens + float(np.sum(self.doc_topic_prior_))
        return np.asarray(shares * weight[:, None], shares.dtype)

    def _infer_shares(self, X: Any) -> np.ndarray:
        """Find the topics of documents."""
        model = self._get_model()
        with _as_value_errors():
            if isinstance(X, (str, os.PathLike, Corpus)):
                return model.transform(
                    X if isinstance(X, Corpus) else Corpus.open(Path(X)), method=self.method
                )
            X = self._check_matrix(X, "TopicModel.transform", reset=False)
            method = make_method(self.method, TopicRows(model))
            check_metadata_free(method)
            counts = csr_array(X)
            parts = list(
                in_order(method.shares, method.gather(_cut_documents(counts)), self._threads)
            )
            answered = int(np.count_nonzero(np.diff(counts.indptr)))
            for line in method.warn_of_length(float(counts.sum()), answered):
                warnings.warn(line.removeprefix("warning: "), UserWarning, stacklevel=3)
        return np.concatenate(parts).astype(X.dtype, copy=False)

    def perplexity(self, X: Any, sub_sampling: bool = False) -> float:
        """Compute the perplexity of documents.

        Theta comes from 80 % of a document's words, the rest are scored (as ``topics eval``).

        Parameters
        ----------
        X
            An array or sparse matrix of counts, or a store.
        sub_sampling
            Ignored: scikit-learn's callers give it.
        """
        nats, _ = self._score_tokens(X)
        return float(np.exp(nats))

    def score(self, X: Any, y: object = None) -> float:
        """Compute the log-likelihood of documents, in nats: more is better.

        It is minus the tokens of X times the logarithm of ``perplexity``.

        Parameters
        ----------
        X
            An array or sparse matrix of counts, or a store.
        y
            Ignored.
        """
        nats, tokens = self._score_tokens(X)
        return -nats * tokens

    def _score_tokens(self, X: Any) -> tuple[float, float]:
        """Score left-out words, and count the tokens of all."""
        model = self._get_model()
        with tempfile.TemporaryDirectory(prefix="topics-sklearn-") as folder, _as_value_errors():
            if isinstance(X, (str, os.PathLike, Corpus)):
                corpus = X if isinstance(X, Corpus) else Corpus.open(Path(X))
                tokens = float(corpus.n_tokens)
            else:
                X = self._check_matrix(X, "TopicModel.score", reset=False)
                tokens = float(X.sum())
                corpus = _ingest_matrix(X, Path(folder) / "corpus.zarr", self.mem_limit)
                model = verbs.TopicModel.from_arrays(
                    model.rows(np.arange(model.n_words)),
                    [str(i) for i in range(model.n_words)],
                    model.alpha,
                    model.beta,
                )
            scored = score_model(model, corpus, split=0.8, threads=self._threads, parts=("train",))
            return scored.nats_per_token, tokens


def _ingest_matrix(X: Any, path: Path, mem_limit: str | int | None) -> Corpus:
    """Ingest the matrix as a store, whose words are the numbers of its columns."""
    values = X.data if hasattr(X, "indptr") else X
    weighted = bool((values != np.floor(values)).any())
    ingest(
        InMemory(X), path, heldout=0, min_df=1, max_df=1.0, weighted=weighted, mem_limit=mem_limit
    )
    return Corpus.open(path)


def _cut_documents(X: Any) -> Iterator[Documents]:
    """Convert the rows of a CSR matrix to documents for inference, in blocks."""
    index = np.arange(X.shape[1], dtype=np.int64)
    indptr = np.asarray(X.indptr, np.int64)
    for first, last in cut_cells(indptr, BLOCK_DOCS, BLOCK_CELLS):
        begin = indptr[first]
        end = indptr[last]
        ids = pa.nulls(last - first, pa.large_string())
        words = X.indices[begin:end].astype(np.int32)
        counts = X.data[begin:end].astype(np.float32)
        yield documents_of_cells(ids, indptr[first : last + 1] - begin, words, counts, index)


def _cut_blocks(X: Any) -> Iterator[Block]:
    """Cut a CSR matrix into blocks for an engine."""
    X.sort_indices()
    indptr = np.asarray(X.indptr, np.int64)
    for number, (first, last) in enumerate(cut_cells(indptr, BLOCK_DOCS, BLOCK_CELLS)):
        cells = slice(indptr[first], indptr[last])
        vocab, words = np.unique(X.indices[cells], return_inverse=True)
        counts = X.data[cells].astype(np.float32)
        yield Block(
            number,
            first,
            indptr[first : last + 1] - indptr[first],
            words.astype(np.int32),
            counts,
            vocab.astype(np.int32),
            float(counts.sum()),
        )


def _add_delta(expected: np.ndarray, block: Block, out: Out) -> None:
    """Add the expected counts of a block, dense or sparse, float64[W, P]."""
    delta = out.delta["phi"]
    if isinstance(delta, SparseDelta):
        rows = np.repeat(block.vocab, np.diff(delta.ptr))
        np.add.at(expected, (rows, delta.topic[: delta.ptr[-1]]), delta.value[: delta.ptr[-1]])
    else:
        expected[block.vocab] += delta
