"""``topicstream.train_classifier``: learn to name a document's topics by one sparse product (Yao, Mimno and McCallum 2009).

Multinomial logistic regression on a document's words (``model/classifier.py``); what it learns to say of each training document is theta as ``infer``
finds it by belief propagation.  Documents and shares are written once to a scratch file and read again every pass, so the
corpus may be larger than memory, and so may weights and the optimiser's vectors, which then lie in files too.

The temperature that the logits are divided by afterwards is chosen on training documents that the weights were not
fitted to (every 20th), by the Kullback-Leibler divergence from theta.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import learned_from
from topicstream.errors import DoesNotFit, InputError
from topicstream.files import owned
from topicstream.files.durable import lock
from topicstream.files.ownership import claim
from topicstream.inference.config import ClassifierConfig, InferConfig
from topicstream.inference.documents import Documents
from topicstream.inference.examples import Examples, Likelihood, temperature
from topicstream.inference.infer import DocumentSource
from topicstream.inference.lbfgs import minimise
from topicstream.inference.memory import A_THREAD, A_WORD, fit
from topicstream.inference.method import TopicRows
from topicstream.inference.methods.bp import BP
from topicstream.inference.vectors import Space, Vector
from topicstream.kernels.linear import even, products
from topicstream.machine import PROCESS_BYTES, default_memory_limit, default_threads, format_bytes, parse_bytes
from topicstream.model.classifier import save_classifier
from topicstream.model.topic_model import TopicModel
from topicstream.options import configured
from topicstream.parallel.order import in_order
from topicstream.progress import Progress, listener

ASIDE, MOST_ASIDE = 20, 2000
"""Every so-many-th document chooses the temperature; so many at most."""
PAIRS, FEWEST_PAIRS = 6, 3
LIVING, SUMS = 5, 2
"""Vectors of the optimiser beside its pairs; float64 sums of the gradient, in vectors."""


@configured(ClassifierConfig)
def train_classifier(config: ClassifierConfig) -> dict[str, Any]:
    """Learn the classifier of a stored model and store it there; ``infer(..., method="maxent")`` uses it.

    Multinomial logistic regression with a Gaussian prior; what does not fit ``mem_limit`` lies in files in the model's
    folder meanwhile.

    Returns plain values: features, documents, passes, converged, loss (nats a document, penalty included), divergence (KL from theta
    on the documents set aside), temperature, variance, on_disk, seconds.

    Raises InputError (a model in memory; no document with a known word), DoesNotFit, StoreError, Busy.
    """
    begin, tell = time.perf_counter(), listener(config.progress)
    model, variance, passes, mem_limit = config.model, config.variance, config.passes, config.mem_limit
    opened = model if isinstance(model, TopicModel) else TopicModel.open(model, memory_limit=-1)
    if opened.path is None:
        raise InputError("a model in memory has no folder for a classifier; save it first")
    store = config.corpus if isinstance(config.corpus, Corpus) else Corpus.open(config.corpus)
    store = learned_from(store, opened.manifest, opened.path)
    limit = parse_bytes(mem_limit) if mem_limit is not None else default_memory_limit()
    if mem_limit is not None and _needed(opened, 1) > limit:
        _plan(opened, limit, True, 1)  # takes more than an inference, which would be asked for its least
    place = fit(opened, mem_limit, config.threads or default_threads(), own=opened is not model)
    threads = place.threads
    while threads > 1 and _needed(opened, threads) > limit:
        threads -= 1
    place = dataclasses.replace(place, threads=threads)
    shape, pairs, on_disk, slices = _plan(opened, limit, mem_limit is not None, threads)
    with lock(opened.path, "writing to"):
        work = opened.path / "work"
        claim(work, "work")
        owned.sweep(work, "vector-*.scratch", "classifier.scratch")  # of a run that was killed
        examples = Examples(work / "classifier.scratch", opened.n_topics)
        space = Space(*shape, slices=slices, folder=work if on_disk else None)
        try:
            if place.load:
                opened.load()
            length = 0.0 if config.features == "counts" else float(store.n_tokens / max(store.n_docs, 1))
            aside = _examples(opened, store, place, examples, config, length, tell)
            if opened is not model:
                opened.phi = None
            if not examples.docs:
                raise InputError(f"{store.path}: no training document has a word that the model knows")
            likelihood = Likelihood(examples, variance, place.threads)
            weights, found = minimise(
                likelihood, space, memory=pairs, tol=config.tol, passes=passes, inverse=likelihood.inverse(shape[0]),
                progress=lambda n, _: tell.step("passes of the classifier", n, passes, "done"),
            )  # fmt: skip
            held = aside or [(b.indptr, b.words, b.counts, b.theta) for b in [examples.read(0)]]
            logits, theta = _logits(weights, held), np.concatenate([h[3] for h in held])
            chosen = float(config.temperature) if config.temperature is not None else temperature(logits, theta)
            facts = {
                "method": "maxent",
                "features": config.features,
                "documents": examples.docs,
                "passes": found.passes,
                "converged": found.converged,
                "loss": found.value / examples.docs,
                "divergence": _divergence(logits, theta, chosen),
                "temperature": chosen,
                "variance": float(variance),
                "on_disk": on_disk,
            }
            save_classifier(opened, weights.row_pieces(1 << 12), chosen, length, facts)
        finally:
            space.close()
            examples.close()
            with_nothing = not any(p.name not in (".topicstream", ".lock") for p in work.iterdir())
            if with_nothing:
                owned.remove(work, "work")
    return {"model": str(opened.path), **facts, "seconds": time.perf_counter() - begin}


def _needed(model: TopicModel, threads: int) -> int:
    """Bytes that the classifier takes at least."""
    fixed = PROCESS_BYTES + A_WORD * model.n_words + threads * A_THREAD + (1 << 25)
    return fixed + (SUMS + 4) * 4 * (model.n_words + 1)


def _plan(model: TopicModel, limit: int, given: bool, threads: int) -> tuple[tuple[int, int], int, bool, int]:
    """((rows, columns), pairs kept, whether vectors lie on disk, slices)."""
    rows, columns = model.n_words + 1, model.n_topics
    room = limit - PROCESS_BYTES - A_WORD * model.n_words - threads * A_THREAD - (1 << 25)
    whole = 4 * rows * columns
    for pairs in range(PAIRS, FEWEST_PAIRS - 1, -1):
        if (LIVING + SUMS + 2 * pairs + 1) * whole <= room:
            return (rows, columns), pairs, False, 1
    slices = -(-(SUMS + 4) * whole // max(room, 1))
    if room <= 0 or slices > columns:
        needed = -(-_needed(model, threads) // (1 << 20))
        if given:
            raise DoesNotFit(
                f"--mem-limit {format_bytes(limit)}: the classifier needs {needed}M at least; give that or more"
            )
        slices = columns
    return (rows, columns), PAIRS, True, int(slices)


def _examples(
    model: TopicModel,
    corpus: Corpus,
    place: Any,
    examples: Examples,
    config: ClassifierConfig,
    length: float,
    progress: Progress,
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Fill the scratch file; what was set aside of it."""
    source = DocumentSource(InferConfig(model, corpus, parts=("train",)), model, place)
    method, total, root = BP(TopicRows(model)), source.total, config.features == "root"
    every = max(1, -(-total // config.documents)) if config.documents else 1
    aside: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
    spared, seen, taken = 0, 0, 0

    def label(docs: Documents) -> tuple[Documents, np.ndarray]:
        theta = method.shares(docs)
        x = np.sqrt(docs.counts) if root else docs.counts.copy()
        even(docs.indptr, x, length, root)
        return dataclasses.replace(docs, counts=x), theta

    def chosen() -> Any:
        nonlocal seen
        for docs in source.documents():
            number = np.arange(seen, seen + len(docs))
            seen += len(docs)
            kept = np.flatnonzero((number % every == 0) & (np.diff(docs.indptr) > 0))
            if len(kept):
                yield take(docs, kept)

    enough = total // every >= 2 * ASIDE
    for docs, theta in in_order(label, chosen(), place.threads):
        number = np.arange(taken, taken + len(docs))
        taken += len(docs)
        out = (number % ASIDE == ASIDE - 1) & enough
        out[np.cumsum(out) + spared > MOST_ASIDE] = False
        if out.any():
            some = take(docs, np.flatnonzero(out))
            aside.append((some.indptr, some.words, some.counts, theta[out]))
            spared += int(out.sum())
        if not out.all():
            examples.add(take(docs, np.flatnonzero(~out)), theta[~out])
        progress.step("topics of training documents", seen, total, "done")
    return aside


def take(docs: Documents, which: np.ndarray) -> Documents:
    """Some of the documents, in the order of ``which``."""
    lengths = np.diff(docs.indptr)[which]
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    cells = np.arange(indptr[-1]) + np.repeat(docs.indptr[which] - indptr[:-1], lengths)
    return Documents(
        docs.ids.take(which), indptr, docs.words[cells], docs.counts[cells], docs.tokens[which], docs.unknown[which]
    )


def _logits(weights: Vector, held: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    """float32[D, K] of documents, a slice of the weights at a time."""
    out = np.empty((sum(len(h[3]) for h in held), weights.space.columns), np.float32)
    for s, (first, last) in enumerate(weights.space.slices):
        table, at = weights.read(s), 0
        for indptr, words, counts, theta in held:
            z = np.empty((len(theta), last - first), np.float32)
            products(indptr, words, counts, table, table[-1], z)
            out[at : at + len(z), first:last] = z
            at += len(z)
    return out


def _divergence(logits: np.ndarray, theta: np.ndarray, temperature: float) -> float:
    """Mean KL(theta || p) in nats."""
    z = logits.astype(np.float64) / temperature
    z -= z.max(axis=1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    logt = np.log(np.maximum(theta, 1e-30), dtype=np.float64)
    return float((theta * (logt - logp)).sum(axis=1).mean())
