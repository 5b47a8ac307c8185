"""``topicstream.train_classifier``: learn to name a document's topics by one sparse product (Yao,
Mimno and McCallum 2009).

Multinomial logistic regression on a document's words (``model/classifier.py``), fitted by
minibatches (``softmax.py``) to theta of
the training documents as ``infer`` finds it by belief propagation.  The temperature that the logits
are divided by afterwards is
chosen on training documents that the weights were not fitted to (every 20th), by the
Kullback-Leibler divergence from theta."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec.structs import asdict
from scipy.sparse import csr_array

from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import learned_from
from topicstream.errors import InputError
from topicstream.files.durable import lock
from topicstream.inference.config import ClassifierConfig, InferConfig
from topicstream.inference.documents import Documents
from topicstream.inference.memory import LEAST_DOCS, InferencePlan, plan_inference, thread_bytes
from topicstream.inference.method import TopicRows
from topicstream.inference.methods.bp import BP
from topicstream.inference.softmax import (
    BATCH,
    Examples,
    best_temperature,
    fit_softmax,
    label_divergence,
)
from topicstream.inference.source import open_source
from topicstream.machine import default_threads
from topicstream.memory import Array, MemoryLimit, plan_memory
from topicstream.model.classifier import ClassifierFacts, save_classifier
from topicstream.model.topic_model import TopicModel
from topicstream.options import configured
from topicstream.parallel.order import in_order
from topicstream.progress import listener
from topicstream.records import Json
from topicstream.vocabulary import A_WORD

ASIDE, MOST_ASIDE = 20, 2000
"""Every so-many-th document chooses the temperature; so many at most."""
LEAST_EXAMPLES = 16 << 20
"""Bytes of documents to learn from that a memory limit must leave room for."""
PIECE = 1 << 12


@configured(ClassifierConfig)
def train_classifier(config: ClassifierConfig) -> dict[str, Json]:
    """Train the classifier of a stored model and store it there; ``infer(..., method="maxent")``
    uses it.

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
    begin, tell = time.perf_counter(), listener(config.progress)
    model = config.model
    opened, folder = _opened(model)
    store = config.corpus if isinstance(config.corpus, Corpus) else Corpus.open(config.corpus)
    store = learned_from(store, opened.manifest.sample)
    every, left = _plan(opened, store, config)
    plan = plan_inference(
        opened, left, config.threads or default_threads(), owned=opened is not model
    )
    with lock(folder, "writing to"):
        if plan.load:
            opened.load()
        length = (
            0.0 if config.features == "counts" else float(store.n_tokens / max(store.n_docs, 1))
        )
        examples, aside = _set_aside(_labelled(opened, store, plan, config, every, length))
        if opened is not model:
            opened.phi = None
        fitted = fit_softmax(
            examples,
            variance=config.variance,
            tol=config.tol,
            passes=config.passes,
            progress=lambda n: tell.step("passes of the classifier", n, config.passes, "done"),
        )
        weights, chosen = fitted.weights, config.temperature
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
        pieces = (weights[at : at + PIECE] for at in range(0, len(weights), PIECE))
        save_classifier(opened, pieces, chosen, length, facts)
    return {"model": str(folder), **asdict(facts), "seconds": time.perf_counter() - begin}


def _opened(model: str | Path | TopicModel) -> tuple[TopicModel, Path]:
    """The model and its folder; InputError where it can have no classifier."""
    opened = model if isinstance(model, TopicModel) else TopicModel.open(model, memory_limit=-1)
    if opened.path is None:
        raise InputError("a model in memory has no folder for a classifier; save it first")
    if opened.weights is not None:
        raise InputError(
            f"{opened.path}: uses weighted cells ({opened.weights.about.kind}), which a "
            f"classifier does not take; infer without --method maxent"
        )
    return opened, opened.path


def _plan(model: TopicModel, store: Corpus, config: ClassifierConfig) -> tuple[int, MemoryLimit]:
    """Every how many-th document is learned from, and the memory left beside these for labelling
    them.
    """
    part, topics = store.part(), model.n_topics
    docs, cells = max(part.docs, 1), part.cells
    rows = min(model.n_words, BATCH * (cells // docs + 1))
    weights = Array((model.n_words + 1, topics), np.float32).nbytes + 16 * (model.n_words + 1)
    batch = 3 * Array((BATCH + rows, topics), np.float32).nbytes
    examples = 2 * (8 * cells + (4 * topics + 16) * docs)  # twice: while they are put together
    some = min(examples, LEAST_EXAMPLES)
    fixed = {"words": A_WORD * model.n_words, "weights": weights, "batch": batch, "examples": some}
    each = {"labelling": thread_bytes(topics, LEAST_DOCS, 1)}
    free = plan_memory("the classifier", config.memory, 1, fixed, each).free + some
    every = max(-(-examples // free), -(-docs // config.documents) if config.documents else 1)
    return every, MemoryLimit(config.memory.bytes - examples // every, config.memory.stated)


def _labelled(
    model: TopicModel,
    corpus: Corpus,
    plan: InferencePlan,
    config: ClassifierConfig,
    every: int,
    length: float,
) -> Examples:
    """Every so-many-th training document with its features and theta."""
    source = open_source(InferConfig(model, corpus, parts=("train",)), model, plan)
    method, root = BP(TopicRows(model)), config.features == "root"

    def chosen() -> Iterator[Documents]:
        seen = 0
        for docs in source.documents():
            number = np.arange(seen, seen + len(docs))
            seen += len(docs)
            kept = np.flatnonzero((number % every == 0) & (np.diff(docs.indptr) > 0))
            if len(kept):
                yield docs.take(kept)

    def label(docs: Documents) -> tuple[Documents, np.ndarray]:
        theta = method.shares(docs)
        return replace(docs, counts=docs.evened(length, root)), theta

    labelled = list(in_order(label, chosen(), plan.threads))
    if not labelled:
        raise InputError(f"{corpus.path}: no training document has a word that the model knows")
    indptr = np.concatenate([[0], *(np.diff(docs.indptr) for docs, _ in labelled)]).cumsum()
    words = np.concatenate([docs.words.astype(np.int32) for docs, _ in labelled])
    counts = np.concatenate([docs.counts for docs, _ in labelled])
    x = csr_array((counts, words, indptr), shape=(len(indptr) - 1, model.n_words))
    return Examples(x, np.concatenate([theta for _, theta in labelled]))


def _set_aside(examples: Examples) -> tuple[Examples, Examples]:
    """(those to fit the weights to, those to choose the temperature on: of few documents the same)."""
    number = np.arange(len(examples))
    if len(examples) < 2 * ASIDE:
        return examples, examples
    out = number[number % ASIDE == ASIDE - 1][:MOST_ASIDE]
    rest = np.setdiff1d(number, out)
    return examples.only(rest), examples.only(out)
