"""``topicstream.compare_methods``: every way to find the topics of documents, side by side, on the
user's own documents.

The question of Yao, Mimno and McCallum (2009): how near does each method come to sampling all new
documents together, and at what cost? A second run of the reference with another seed is the
ceiling.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.base.cluster import Cluster, connected_within
from topicstream.base.errors import InputError
from topicstream.base.memory import MemoryLimit
from topicstream.base.options import configured, listed_names
from topicstream.base.progress import Progress, listener
from topicstream.base.text import each, render
from topicstream.corpus.reader import Corpus
from topicstream.display.config import MethodsConfig
from topicstream.display.figures import Figure
from topicstream.evaluation.completion import log_likelihood, split_documents
from topicstream.evaluation.evaluate import parse_split
from topicstream.evaluation.keys import hash_strings
from topicstream.inference.config import InferConfig
from topicstream.inference.documents import Documents
from topicstream.inference.memory import InferencePlan, plan_inference
from topicstream.inference.method import Method, TopicRows
from topicstream.inference.methods import (
    check_metadata_free,
    fields_of,
    find_variant,
    make_variant,
    variants,
)
from topicstream.inference.source import open_source
from topicstream.model.topic_model import TopicModel

TIMES = 5
SHORT = 0.2
"""Runs of a method that takes fewer seconds than this: the least counts."""
SHARE = 0.8
"""Of a document, that the topics of its set have together at most."""
FLOOR = 1e-12
"""No share counts for less in a divergence."""


def chosen(text: str | Sequence[str]) -> list[str]:
    """``all`` or names separated by commas; UsageError for one there is not."""
    names = list(variants()) if text == "all" else listed_names(text)
    for name in names:
        find_variant(name, "--methods")
    return names


def _attempts(config: MethodsConfig, names: Sequence[str]) -> list[tuple[str, int]]:
    """Methods and seeds to try: the reference, again with another seed where it draws, and the
    others.
    """
    reference, _ = find_variant(config.reference, "--reference")
    again = [(config.reference, config.seed + 1)] if "seed" in fields_of(reference) else []
    others = [(name, config.seed) for name in dict.fromkeys(names) if name != config.reference]
    return [(config.reference, config.seed), *again, *others]


def _run_attempts(
    trial: _Trial, attempts: Sequence[tuple[str, int]], cluster: Cluster | None, tell: Progress
) -> tuple[dict[tuple[str, int], dict[str, Any]], dict[str, str]]:
    """A record of each attempt, in this process or each on some worker; methods that cannot answer,
    and why.
    """
    records = dict[tuple[str, int], dict[str, Any]]()
    left_out = dict[str, str]()
    answers = (map if cluster is None else cluster.map)(trial.attempt, attempts)
    reference = None
    for done, (attempt, answer) in enumerate(zip(attempts, answers, strict=True), 1):
        tell.step("comparing", done, len(attempts), "methods")
        if isinstance(answer, str):
            if trial.config.methods != "all" or reference is None:
                raise InputError(answer)
            left_out[attempt[0]] = answer
            continue
        theta, record = answer
        reference = theta if reference is None else reference
        records[attempt] = record | {
            measure.__name__: float(measure(reference, theta).mean())
            for measure in (cosine, divergence, f1)
        }
    return records, left_out


@configured(MethodsConfig)
def compare_methods(config: MethodsConfig) -> dict[str, Any]:
    """Find the topics of the same documents by each inference method, on one thread, and compare
    answers and time.

    Seconds are those of the answers alone (the least of five where they take little): documents are
    in memory and kernels are loaded.

    Returns
    -------
    dict
        ``documents``, ``tokens``, ``reference``; ``methods``: a dict each with name, told, cosine,
        divergence and f1 at 0.8 against the reference, seconds, documents_per_second, and
        perplexity by document completion; ``ceiling``: the reference with another seed, in the same
        form; ``envelope``: by ``cosine`` and by ``f1``, the methods that are nearer than all faster
        ones, the fastest first; ``left_out``: name -> why.

    Raises
    ------
    InputError
        Without documents to compare on.
    StoreError
        For a missing or damaged model or store.
    DoesNotFit
        Where the memory limit is too small.

    Examples
    --------
    >>> compared = topicstream.compare_methods(
    ...     "model", "corpus.zarr", methods="bp,vb", reference="bp", progress=False
    ... )
    >>> sorted(method["name"] for method in compared["methods"])
    ['bp', 'vb']
    """
    names = chosen(config.methods)
    tell = listener(config.progress)
    attempts = _attempts(config, names)
    with connected_within(config.scheduler, config.memory, [config.model, config.corpus]) as (
        cluster,
        limit,
    ):
        opened, place = opened_to_compare(config.model, limit)
        docs = gathered(opened, config, place)
        tried, left_out = _run_attempts(_Trial(config, opened, docs), attempts, cluster, tell)
    ceiling = tried.pop((config.reference, config.seed + 1), None)
    records = {name: record for (name, _), record in tried.items()}
    judged = [record for name, record in records.items() if name != config.reference]
    return {
        "model": opened.name,
        "topics": opened.n_topics,
        "documents": len(docs),
        "tokens": float(docs.tokens.sum()),
        "on": str(config.on),
        "reference": config.reference,
        "burn": config.burn,
        "sweeps": config.sweeps,
        "methods": [records[n] for n in dict.fromkeys([*names, config.reference]) if n in records],
        "ceiling": ceiling,
        "envelope": {what: envelope(judged, what) for what in ("cosine", "f1")},
        "left_out": left_out,
        "measured": f"perplexity of {config.split.split('/')[-1]} % of each document's words by "
        "type, topics found on the rest; seconds on one thread",
    }


def opened_to_compare(
    model: str | Path | TopicModel, limit: MemoryLimit
) -> tuple[TopicModel, InferencePlan]:
    """A model to infer with by several methods, one after the other, and what they may hold."""
    opened = model if isinstance(model, TopicModel) else TopicModel.open(model, memory_limit=-1)
    place = plan_inference(opened, limit, 1, owned=opened is not model, tables=2)
    if place.load:
        opened.load()
    return opened, place


def envelope(records: Iterable[dict[str, Any]], measure: str = "f1") -> list[str]:
    """Names of the methods that no other beats in both time and this measure of nearness, the
    fastest first.
    """
    out = []
    best = -math.inf
    for record in sorted(records, key=lambda r: (r["seconds"], -r[measure])):
        if record[measure] > best:
            out.append(record["name"])
            best = record[measure]
    return out


class _Trial:
    """Documents that method after method is tried on."""

    def __init__(self, config: MethodsConfig, model: TopicModel, docs: Documents) -> None:
        corpus = (
            config.corpus if isinstance(config.corpus, Corpus) else Path(config.corpus).absolute()
        )
        # for another process, too
        self.config = replace(config, corpus=corpus, model=model, scheduler=None, progress=None)
        self._rows = TopicRows(model)
        self._docs = docs
        self._seen, self._rest = parts_of(docs, model, parse_split(config.split))

    def attempt(self, method: tuple[str, int]) -> tuple[np.ndarray, dict[str, Any]] | str:
        """``run`` of a method and a seed, or why it cannot answer."""
        try:
            return self.run(*method)
        except InputError as e:
            return str(e)

    def run(self, name: str, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        """(theta float32[D, K], what it cost and how well it predicts the rest of the words)."""
        config = self.config
        (kind, variant) = find_variant(name, "--methods")

        def method() -> Method:
            variant_method = make_variant(
                name,
                self._rows,
                burn=config.burn,
                sweeps=config.sweeps,
                seed=seed,
                trained_on=config.corpus,
            )
            check_metadata_free(variant_method)
            return variant_method

        # kernels are loaded, the first rows are in the caches
        if "trained_on" not in fields_of(kind):
            shares_by(method(), [self._docs.take(np.arange(1))])
        seconds = math.inf
        for _ in range(TIMES):
            timed = method()
            begin = time.perf_counter()
            theta = shares_by(timed, [self._docs])
            seconds = min(seconds, time.perf_counter() - begin)
            if seconds > SHORT:
                break
        return theta, {
            "name": name,
            "told": variant.about,
            "seconds": seconds,
            "documents_per_second": len(self._docs) / max(seconds, 1e-9),
            "perplexity": completion(self._rows, shares_by(method(), [self._seen]), self._rest),
        }


def shares_by(method: Method, blocks: Sequence[Documents]) -> np.ndarray:
    """p(topic | document) of all documents of the blocks, float32[D, K]."""
    return np.concatenate([method.shares(block) for block in method.gather(blocks)])


def completion(rows: TopicRows, theta: np.ndarray, rest: Documents) -> float:
    """exp of the mean of - log p(w|d) over the tokens of ``rest``."""
    loglik, tokens = log_likelihood(rows, rest, np.ascontiguousarray(theta))
    return float(np.exp(-loglik.sum() / tokens.sum()))


def gathered(model: TopicModel, config: MethodsConfig, place: InferencePlan) -> Documents:
    """The documents to try, evenly spaced, in one; InputError where none has a known word."""
    of_corpus = config.on in ("heldout", "rest")
    documents = config.documents
    documents_given: Any = config.corpus if of_corpus else config.on
    parts = (str(config.on),) if of_corpus else ("train", "heldout")
    documents_given = Path(documents_given) if isinstance(documents_given, str) else documents_given
    source = open_source(InferConfig(model, documents_given, parts=parts), model, place)
    every = max(1, -(-source.total // documents)) if documents and source.total else 1
    batches = []
    number = 0
    for block in source.documents():
        use = np.flatnonzero(
            ((number + np.arange(len(block))) % every == 0) & (np.diff(block.indptr) > 0)
        )
        number += len(block)
        if len(use):
            batches.append(block.take(use))
        if documents and not source.total and sum(map(len, batches)) >= documents:
            break
    if not batches:
        hint = "; ingest with --heldout 10%, or name a file" if parts == ("heldout",) else ""
        raise InputError(f"--on {config.on}: no document with a word that the model knows{hint}")
    return joined(batches)


def joined(blocks: Sequence[Documents]) -> Documents:
    """Several blocks as one."""
    indptr = np.concatenate([[0], *(np.diff(b.indptr) for b in blocks)]).cumsum().astype(np.int64)
    return Documents(
        pa.concat_arrays([b.ids for b in blocks]),
        indptr,
        np.concatenate([b.words for b in blocks]),
        np.concatenate([b.counts for b in blocks]),
        np.concatenate([b.tokens for b in blocks]),
        np.concatenate([b.unknown for b in blocks]),
    )


def parts_of(docs: Documents, model: TopicModel, split: float) -> tuple[Documents, Documents]:
    """The observed and the scored cells of documents, split by word type as ``evaluate`` does it; a
    document without a cell on one of the two sides is empty on both.
    """
    seen, rest, scored = split_documents(
        docs, hash_strings(docs.ids), hash_strings(model.vocabulary.words), split
    )
    if not scored.any():
        raise InputError("no document could be scored: each needs two different known words")
    return seen, rest


TABLE = (
    "{name:16} {cosine:7.3f} {divergence:8.3f} {f1:7.3f} {seconds:9.3f} "
    "{documents_per_second:12,.0f} {perplexity:11.1f}"
)
REFERENCE = (
    "{name:16}                reference {seconds:9.3f} {documents_per_second:12,.0f} "
    "{perplexity:11.1f}"
)


def method_lines(result: dict[str, Any]) -> list[str]:
    """The comparison for people."""
    out = render(
        "{model}: {topics} topics, {documents:document} of {on}, {tokens:,.0f} tokens; against "
        "{reference}",
        result,
    )
    out.append(
        f"{'method':16} {'cosine':>7} {'KL':>8} {'F1 0.8':>7} {'seconds':>9} "
        f"{'documents/s':>12} {'perplexity':>11}"
    )
    for record in result["methods"]:
        out += render(REFERENCE if record["name"] == result["reference"] else TABLE, record)
    if result["ceiling"] is not None:
        out += render(TABLE, {**result["ceiling"], "name": f"{result['reference']} again"})
    out += render(
        "  {measured}[{ceiling:?}; again: another seed, the nearest that any method can come]\n"
        "[  none is faster and nearer, by cosine: {envelope.cosine}; by F1: {envelope.f1}]",
        result,
    )
    return out + each(
        "  left out {name}: {why}", ({"name": n, "why": w} for n, w in result["left_out"].items())
    )


def plot_methods(result: dict[str, Any], figure: Figure) -> None:
    """Draw the result of ``compare_methods``: milliseconds a document (logarithmic) across, F1
    upwards, each method a point.
    """
    (axis,) = figure.add_panels(1, across=1, size=(7.6, 4.8))
    best = result["envelope"]["f1"]
    documents = max(1, result["documents"])
    for record in result["methods"]:
        if record["name"] != result["reference"]:
            place = (1000 * record["seconds"] / documents, record["f1"])
            colour = "tab:blue" if record["name"] in best else "tab:orange"
            axis.plot(*place, "o", color=colour)
            axis.annotate(
                record["name"], place, xytext=(6, -3), textcoords="offset points", color=colour
            )
    if result["ceiling"] is not None:
        axis.axhline(
            result["ceiling"]["f1"],
            ls="--",
            color="gray",
            lw=1,
            label=f"{result['reference']}, next seed",
        )
        axis.legend(frameon=False)
    axis.set(xscale="log", ylim=(0, 1.02), xlabel="milliseconds a document, one thread")
    figure.set_title(
        axis,
        f"F1 of topics at 0.8 against {result['reference']}, {result['documents']:,} documents",
    )
    figure.save()


def cosine(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Of the rows of p and q, float[D, K] -> float64[D]."""
    p = p.astype(np.float64)
    q = q.astype(np.float64)
    norms = np.sqrt((p * p).sum(axis=1) * (q * q).sum(axis=1))
    return np.asarray(np.divide((p * q).sum(axis=1), norms, out=np.zeros(len(p)), where=norms > 0))


def divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Kullback-Leibler divergence of q from p in nats, float64[D]; no share counts for less than
    1e-12.
    """
    p = np.maximum(p, FLOOR).astype(np.float64)
    q = np.maximum(q, FLOOR).astype(np.float64)
    return np.asarray((p * np.log(p / q)).sum(axis=1))


def topic_sets(theta: np.ndarray) -> np.ndarray:
    """bool[D, K]: the largest topics of each document whose shares add up to at most ``SHARE``; the
    first in any case.
    """
    order = np.argsort(-theta, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(theta.astype(np.float64), order, axis=1), axis=1)
    in_set = sums <= SHARE
    in_set[:, 0] = True
    out = np.zeros(theta.shape, bool)
    np.put_along_axis(out, order, in_set, axis=1)
    return out


def f1(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Of the topic sets of q against those of p, the reference, float64[D]."""
    a = topic_sets(p)
    b = topic_sets(q)
    return np.asarray(2.0 * (a & b).sum(axis=1) / (a.sum(axis=1) + b.sum(axis=1)))
