"""Training of the classifier, ``topicstream.train_classifier``.

It is a multinomial logistic regression on soft targets, by minibatches (Yao, Mimno and McCallum
2009, eq. 13 and 17):

    loss(weights) = - sum_d sum_k theta_dk log p(k|d)  +  sum of weights^2 / (2 variance)
    p(k|d)        ~ exp(sum_w weights[w, k] x_wd + weights[W, k])

The last row (the bias) is not penalised. AdaGrad has one step size a word, the root of the sum of
its row's squared gradients (Duchi, Hazan and Singer 2011), because counts of words differ by orders
of magnitude. docs/internals/decisions/classifier.md has the figures.

The targets are theta of the training documents, as ``infer`` computes it by belief propagation. The
temperature that the logits are divided by afterwards is chosen on training documents that the
weights were not fitted to (every 20th), by the Kullback-Leibler divergence from theta.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from msgspec.structs import asdict
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array

from topicstream.addons.classifier.config import ClassifierConfig
from topicstream.addons.classifier.model import ClassifierFacts, save_classifier
from topicstream.base.errors import InputError
from topicstream.base.files.durable import lock
from topicstream.base.machine import default_threads
from topicstream.base.memory import Array, MemoryLimit, plan_memory
from topicstream.base.options import configured
from topicstream.base.progress import listener
from topicstream.base.records import Json
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import select_learned
from topicstream.corpus.vocabulary import BYTES_PER_WORD
from topicstream.inference.config import InferConfig
from topicstream.inference.documents import Documents
from topicstream.inference.memory import LEAST_DOCS, InferencePlan, plan_inference, thread_bytes
from topicstream.inference.method import TopicRows
from topicstream.inference.methods.bp import BP
from topicstream.inference.source import open_source
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.parallel import in_order

BATCH = 256
"""Documents of a step at most."""
BATCHES = 32
"""Steps of a pass at least, where there are as many documents."""
QUIET = 2
"""Passes in a row that must change the loss little before the fit ends."""
TEMPERATURES = 0.2, 5.0
"""Bounds of the temperature."""


@dataclass(frozen=True)
class Examples:
    """Labelled documents.

    Attributes
    ----------
    x
        float32[D, W], sparse.
    theta
        float32[D, K], rows sum to 1.
    """

    x: csr_array
    theta: np.ndarray

    def __len__(self) -> int:
        return len(self.theta)

    def select(self, rows: np.ndarray) -> Examples:
        """Select documents."""
        return Examples(self.x[rows], self.theta[rows])


@dataclass(frozen=True)
class Fitted:
    """Fitted weights.

    Attributes
    ----------
    weights
        float32[W + 1, K].
    loss
        Penalised loss of all documents, summed over the last pass.
    passes
        Passes made.
    converged
        True if ``tol`` stopped it.
    """

    weights: np.ndarray
    loss: float
    passes: int
    converged: bool


def fit_softmax(
    examples: Examples,
    *,
    variance: float,
    tol: float,
    passes: int,
    progress: Callable[[int], None] | None = None,
) -> Fitted:
    """Fit the weights, beginning at 0.

    The result has the same bits every time.

    Parameters
    ----------
    variance
        Of the weights' Gaussian prior.
    tol
        Stop when two passes in a row lower the loss by less than this share of it.
    passes
        Most passes.
    progress
        Called with the passes done.
    """
    x = examples.x
    (docs, words) = examples.x.shape
    weights = np.zeros((words + 1, examples.theta.shape[1]), np.float32)
    # the first step changes a typical document's logits by about 1
    step = docs / max(float(x.sum(dtype=np.float64)), 1e-300)
    penalty = 1.0 / (variance * np.maximum(np.bincount(x.indices, minlength=words), 1))
    squares = np.full(words + 1, 1e-12)
    order = np.random.default_rng(0)
    loss = np.inf
    quiet = 0
    size = max(1, min(BATCH, docs // BATCHES))
    for passes_done in range(1, passes + 1):
        before = loss
        loss = 0.0
        shuffled = order.permutation(docs)
        for first in range(0, docs, size):
            chosen = np.sort(shuffled[first : first + size])
            loss += _descend(weights, squares, x[chosen], examples.theta[chosen], penalty, step)
        loss += float(np.square(weights[:-1], dtype=np.float64).sum()) / (2 * variance)
        if progress is not None:
            progress(passes_done)
        quiet = quiet + 1 if before - loss <= tol * before < np.inf else 0
        if quiet == QUIET:
            return Fitted(weights, loss, passes_done, True)
    return Fitted(weights, loss, passes, False)


def _descend(
    weights: np.ndarray,
    squares: np.ndarray,
    x: csr_array,
    theta: np.ndarray,
    penalty: np.ndarray,
    step: float,
) -> float:
    """Make one step on some documents, and return their loss without the penalty.

    A word's penalty is spread over the documents that have it.
    """
    word_ids, column = np.unique(x.indices, return_inverse=True)
    x = csr_array((x.data, column.astype(np.int32), x.indptr), shape=(x.shape[0], len(word_ids)))
    used_weights = weights[word_ids]
    residual, nats = _residual(x @ used_weights + weights[-1], theta)
    slope = x.T @ residual
    slope += used_weights * (np.bincount(column) * penalty[word_ids]).astype(np.float32)[:, None]
    for rows_of_step, gradient in (
        (word_ids, slope),
        (np.array([len(weights) - 1]), residual.sum(axis=0, keepdims=True)),
    ):
        squares[rows_of_step] += np.einsum("wk,wk->w", gradient, gradient) / gradient.shape[1]
        weights[rows_of_step] -= (
            gradient * (step / np.sqrt(squares[rows_of_step])).astype(np.float32)[:, None]
        )
    return nats


def _residual(logits: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, float]:
    """Compute p - theta, float32[D, K], and the cross-entropy, overwriting the logits.

    The cross-entropy is - sum of theta log p.
    """
    logits -= logits.max(axis=1, keepdims=True)
    score = float(np.einsum("dk,dk->", theta, logits, dtype=np.float64))
    np.exp(logits, out=logits)
    total = logits.sum(axis=1, keepdims=True)
    mass = theta.sum(axis=1, dtype=np.float64)
    logits /= total
    logits -= theta
    return logits, float((mass * np.log(total[:, 0].astype(np.float64))).sum()) - score


def best_temperature(logits: np.ndarray, theta: np.ndarray) -> float:
    """Find the temperature at which KL(theta || softmax(logits / temperature)) is least.

    ``logits`` and ``theta`` are float[D, K].
    """
    low, high = np.log(TEMPERATURES)
    minimum = minimize_scalar(
        lambda t: label_divergence(logits, theta, np.exp(t)), bounds=(low, high), method="bounded"
    )
    return float(np.exp(minimum.x))


def label_divergence(logits: np.ndarray, theta: np.ndarray, temperature: float) -> float:
    """Average KL(theta || softmax(logits / temperature)) over the documents, in nats."""
    z = logits.astype(np.float64) / temperature
    z -= z.max(axis=1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    logt = np.log(np.maximum(theta, 1e-30), dtype=np.float64)
    return float((theta * (logt - logp)).sum(axis=1).mean())


ASIDE = 20
"""Every ``ASIDE``-th document chooses the temperature."""
MOST_ASIDE = 2000
"""Documents at most that choose the temperature."""
LEAST_EXAMPLES = 16 << 20
"""Bytes of documents to learn from that a memory limit must leave room for."""
PIECE = 1 << 12


@configured(ClassifierConfig)
def train_classifier(config: ClassifierConfig) -> dict[str, Json]:
    """Train the classifier of a stored model and store it there.

    It serves ``infer(..., method="maxent")``.

    Where ``mem_limit`` has no room for all ``documents``, it learns from fewer, evenly spaced.

    Returns
    -------
    dict
        features, documents, passes, converged, loss (nats a document, penalty included), divergence
        (KL from theta on the documents set aside), temperature, variance, seconds.

    Raises
    ------
    InputError
        For a model in memory, and where no document has a known word.
    DoesNotFit
        Where the memory limit is too small.
    StoreError
        For a missing or damaged model or store.
    Busy
        While another command writes to the model.

    Examples
    --------
    >>> _ = topicstream.train_classifier("model", "corpus.zarr", passes=20, progress=False)
    >>> topicstream.infer("model", ["the captain of the crew"], method="maxent", top=1).num_rows
    1
    """
    begin = time.perf_counter()
    tell = listener(config.progress)
    model = config.model
    opened, folder = _open_model(model)
    store = config.corpus if isinstance(config.corpus, Corpus) else Corpus.open(config.corpus)
    store = select_learned(store, opened.manifest.sample)
    every, memory_left = _plan_examples(opened, store, config)
    plan = plan_inference(
        opened, memory_left, config.threads or default_threads(), owned=opened is not model
    )
    with lock(folder, "writing to"):
        if plan.load:
            opened.load()
        length = (
            0.0 if config.features == "counts" else float(store.n_tokens / max(store.n_docs, 1))
        )
        examples, aside = _set_aside(_label_documents(opened, store, plan, config, every, length))
        if opened is not model:
            opened.phi = None
        fitted = fit_softmax(
            examples,
            variance=config.variance,
            tol=config.tol,
            passes=config.passes,
            progress=lambda n: tell.step("passes of the classifier", n, config.passes, "done"),
        )
        weights = fitted.weights
        chosen = config.temperature
        logits = aside.x @ weights[:-1] + weights[-1]
        chosen = best_temperature(logits, aside.theta) if chosen is None else float(chosen)
        facts = ClassifierFacts(
            features=config.features,
            documents=len(examples),
            passes=fitted.passes,
            converged=fitted.converged,
            loss=fitted.loss / len(examples),
            divergence=label_divergence(logits, aside.theta, chosen),
            temperature=chosen,
            variance=float(config.variance),
        )
        pieces = (weights[first : first + PIECE] for first in range(0, len(weights), PIECE))
        save_classifier(opened, pieces, chosen, length, facts)
    return {"model": str(folder), **asdict(facts), "seconds": time.perf_counter() - begin}


def _open_model(model: str | Path | TopicModel) -> tuple[TopicModel, Path]:
    """Open the model, and return it with its folder.

    Raises
    ------
    InputError
        If it can have no classifier.
    """
    opened = model if isinstance(model, TopicModel) else TopicModel.open(model, memory_limit=-1)
    if opened.path is None:
        raise InputError("a model in memory has no folder for a classifier; save it first")
    if opened.weights is not None:
        raise InputError(
            f"{opened.path}: uses weighted cells ({opened.weights.about.kind}), which a "
            f"classifier does not take; infer without --method maxent"
        )
    return opened, opened.path


def _plan_examples(
    model: TopicModel, store: Corpus, config: ClassifierConfig
) -> tuple[int, MemoryLimit]:
    """Plan how many documents to learn from.

    Returns
    -------
    tuple
        The step between documents that are learned from, and the memory left beside them for
        labelling.
    """
    part = store.part()
    topics = model.n_topics
    docs = max(part.docs, 1)
    cells = part.cells
    rows = min(model.n_words, BATCH * (cells // docs + 1))
    weights = Array((model.n_words + 1, topics), np.float32).nbytes + 16 * (model.n_words + 1)
    batch = 3 * Array((BATCH + rows, topics), np.float32).nbytes
    examples = 2 * (8 * cells + (4 * topics + 16) * docs)  # twice: while they are put together
    some = min(examples, LEAST_EXAMPLES)
    fixed = {
        "words": BYTES_PER_WORD * model.n_words,
        "weights": weights,
        "batch": batch,
        "examples": some,
    }
    per_thread = {"labelling": thread_bytes(topics, LEAST_DOCS, 1)}
    free = plan_memory("the classifier", config.memory, 1, fixed, per_thread).free + some
    every = max(-(-examples // free), -(-docs // config.documents) if config.documents else 1)
    return every, MemoryLimit(config.memory.bytes - examples // every, config.memory.stated)


def _label_documents(
    model: TopicModel,
    corpus: Corpus,
    plan: InferencePlan,
    config: ClassifierConfig,
    every: int,
    length: float,
) -> Examples:
    """Collect every ``every``-th training document with its features and theta."""
    source = open_source(InferConfig(model, corpus, parts=("train",)), model, plan)
    method = BP(TopicRows(model))
    root = config.features == "root"

    def every_nth() -> Iterator[Documents]:
        """Yield the chosen documents that have a known word."""
        documents_before = 0
        for docs in source.documents():
            number = np.arange(documents_before, documents_before + len(docs))
            documents_before += len(docs)
            chosen = np.flatnonzero((number % every == 0) & (np.diff(docs.indptr) > 0))
            if len(chosen):
                yield docs.take(chosen)

    def label(docs: Documents) -> tuple[Documents, np.ndarray]:
        """Return documents with their features, and theta."""
        theta = method.shares(docs)
        return replace(docs, counts=docs.scale_counts(length, root)), theta

    labelled = list(in_order(label, every_nth(), plan.threads))
    if not labelled:
        raise InputError(f"{corpus.path}: no training document has a word that the model knows")
    indptr = np.concatenate([[0], *(np.diff(docs.indptr) for docs, _ in labelled)]).cumsum()
    words = np.concatenate([docs.words.astype(np.int32) for docs, _ in labelled])
    counts = np.concatenate([docs.counts for docs, _ in labelled])
    x = csr_array((counts, words, indptr), shape=(len(indptr) - 1, model.n_words))
    return Examples(x, np.concatenate([theta for _, theta in labelled]))


def _set_aside(examples: Examples) -> tuple[Examples, Examples]:
    """Split the examples: most to fit the weights, some to choose the temperature.

    Few documents serve both.
    """
    number = np.arange(len(examples))
    if len(examples) < 2 * ASIDE:
        return examples, examples
    aside = number[number % ASIDE == ASIDE - 1][:MOST_ASIDE]
    others = np.setdiff1d(number, aside)
    return examples.select(others), examples.select(aside)
