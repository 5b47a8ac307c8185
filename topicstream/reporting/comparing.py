"""``topicstream.compare_methods``: every way to find the topics of documents, side by side, on the user's own documents.

The question of Yao, Mimno and McCallum (2009): how near does each method come to sampling all new documents together, and
at what cost?  A second run of the reference with another seed is the ceiling: nobody comes nearer than it to itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, UsageError
from topicstream.evaluation.completion import Half, score_cells, split_cells
from topicstream.evaluation.evaluate import parse_split
from topicstream.evaluation.keys import hash_strings
from topicstream.evaluation.likeness import cosine, divergence, f1
from topicstream.inference.config import InferConfig
from topicstream.inference.documents import Documents, apart
from topicstream.inference.infer import DocumentSource, make
from topicstream.inference.memory import fit
from topicstream.inference.method import Method, TopicRows
from topicstream.model.topic_model import TopicModel
from topicstream.options import configured
from topicstream.progress import listener
from topicstream.reporting.comparison_plot import envelope
from topicstream.reporting.config import METHODS, MethodsConfig

TIMES, SHORT = 5, 0.2
"""Runs of a method that takes fewer seconds than this: the least counts."""


def chosen(text: str) -> list[str]:
    """``all`` or names separated by commas; InputError for one there is not."""
    names = list(METHODS) if text == "all" else [n.strip() for n in text.split(",") if n.strip()]
    for name in names:
        if name not in METHODS:
            raise UsageError(f"--methods {name}: choose of {', '.join(METHODS)}")
    return names


@configured(MethodsConfig)
def compare_methods(config: MethodsConfig) -> dict[str, Any]:
    """Find the topics of the same documents by each method, on one thread: a dict with ``documents``, ``tokens``,
    ``reference``, ``methods`` (a record each: name, told, cosine, divergence and f1 at 0.8 against the reference, seconds,
    documents_per_second, perplexity by document completion), ``ceiling`` (the reference with another seed, the same
    record), ``envelope`` (by ``cosine`` and by ``f1``: the methods that are nearer than all faster ones, the fastest first) and
    ``left_out`` (name -> why).

    Seconds are those of the answers alone (the least of five where they take little): documents are in memory, kernels
    are loaded.  Raises InputError, StoreError,
    DoesNotFit.
    """
    names = chosen(config.methods)
    if config.reference not in METHODS:
        raise UsageError(f"--reference {config.reference}: choose of {', '.join(METHODS)}")
    opened = config.model if isinstance(config.model, TopicModel) else TopicModel.open(config.model, memory_limit=-1)
    place = fit(opened, config.mem_limit, 1, own=opened is not config.model, tables=2)
    if place.load:
        opened.load()
    docs = gathered(opened, config.corpus, config.on, place, config.documents)
    seen, rest = parts_of(docs, opened, parse_split(config.split))
    trial = _Trial(config, opened, docs, seen, rest)
    left_out: dict[str, str] = {}
    total, tell = len(names) + 2, listener(config.progress)

    def say(done: int) -> None:
        tell.step("comparing", done, total, "methods")

    say(0)
    reference, record = trial.run(config.reference, config.seed)
    records: dict[str, dict[str, Any]] = {config.reference: record | _against(reference, reference)}
    ceiling = None
    if METHODS[config.reference].random:
        again, of_again = trial.run(config.reference, config.seed + 1)
        ceiling = of_again | _against(reference, again)
    say(2)
    for done, name in enumerate(names, 1):
        if name != config.reference:
            try:
                theta, record = trial.run(name, config.seed)
                records[name] = record | _against(reference, theta)
            except InputError as e:
                if config.methods != "all":
                    raise
                left_out[name] = str(e)
        say(2 + done)
    judged = [r for name, r in records.items() if name != config.reference]
    ordered = [records[n] for n in dict.fromkeys([*names, config.reference]) if n in records]
    return {
        "model": str(opened.path or "in memory"),
        "topics": opened.n_topics,
        "documents": len(docs),
        "tokens": float(docs.tokens.sum()),
        "on": str(config.on),
        "reference": config.reference,
        "burn": config.burn,
        "sweeps": config.sweeps,
        "methods": ordered,
        "ceiling": ceiling,
        "envelope": {what: envelope(judged, what) for what in ("cosine", "f1")},
        "left_out": left_out,
        "measured": f"perplexity of {config.split.split('/')[-1]} % of each document's words by type, topics found on the rest; "
        "seconds on one thread",
    }


def _against(reference: np.ndarray, theta: np.ndarray) -> dict[str, float]:
    return {
        "cosine": float(cosine(reference, theta).mean()),
        "divergence": float(divergence(reference, theta).mean()),
        "f1": float(f1(reference, theta).mean()),
    }


class _Trial:
    """Documents that method after method is tried on."""

    def __init__(
        self, config: MethodsConfig, model: TopicModel, docs: Documents, seen: Documents, rest: Documents
    ) -> None:
        self.config, self.model, self.rows = config, model, TopicRows(model)
        self.docs, self.seen, self.rest = docs, seen, rest

    def _made(self, name: str, seed: int) -> Method:
        named = METHODS[name]
        options: dict[str, Any] = dict(named.options)
        if named.sampled:
            burn, sweeps = (self.config.burn, self.config.sweeps) if named.sampled == "long" else (1, 1)
            options |= {"burn": burn, "sweeps": sweeps}
        if named.random:
            options["seed"] = seed
        if named.method == "gibbs1":
            options["trained_on"] = self.config.corpus
        method = make(named.method, self.rows, **options)
        if self.model.phi is not None:
            method.load()
        return method

    def run(self, name: str, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        """(theta float32[D, K], what it cost and how well it foretells the rest of the words)."""
        warm = self._made(name, seed) if METHODS[name].method != "gibbs1" else None
        if warm is not None:  # kernels are loaded, the first rows are in the caches
            _shares(warm, [self.docs.take(np.arange(1))])
        seconds = math.inf
        for _ in range(TIMES):
            method = self._made(name, seed)
            begin = time.perf_counter()
            theta = _shares(method, [self.docs])
            seconds = min(seconds, time.perf_counter() - begin)
            if seconds > SHORT:
                break
        return theta, {
            "name": name,
            "told": METHODS[name].told,
            "seconds": seconds,
            "documents_per_second": len(self.docs) / max(seconds, 1e-9),
            "perplexity": completion(self.rows, _shares(self._made(name, seed), [self.seen]), self.rest),
        }


def _shares(method: Method, blocks: Sequence[Documents]) -> np.ndarray:
    return np.concatenate([method.shares(block) for block in method.gather(blocks)])


def completion(rows: TopicRows, theta: np.ndarray, rest: Documents) -> float:
    """exp of the mean of - log p(w|d) over the tokens of ``rest``."""
    at, base = rows.of(rest)
    loglik, tokens = np.empty(len(rest)), np.empty(len(rest))
    score_cells(
        rest.indptr, at, rest.counts, base, rows.beta, rows.inverse, np.ascontiguousarray(theta), loglik, tokens
    )
    return float(np.exp(-loglik.sum() / tokens.sum()))


def gathered(model: TopicModel, corpus: Any, on: str | Path | Corpus, place: Any, documents: int) -> Documents:
    """The documents to try, evenly spaced, in one; InputError where none has a known word."""
    own = isinstance(on, str) and on in ("heldout", "rest")
    wanted: Any = corpus if own else on
    wanted = Path(wanted) if isinstance(wanted, str) else wanted
    parts = (str(on),) if own else ("train", "heldout")
    source = DocumentSource(InferConfig(model, wanted, parts=parts), model, place)
    every = max(1, -(-source.total // documents)) if documents and source.total else 1
    kept, number = [], 0
    for block in source.documents():
        which = np.arange(number, number + len(block))
        number += len(block)
        use = np.flatnonzero((which % every == 0) & (np.diff(block.indptr) > 0))
        if len(use):
            kept.append(block.take(use))
        if documents and not source.total and sum(map(len, kept)) >= documents:
            break
    if not kept:
        hint = "; ingest with --heldout 10%, or name a file" if parts == ("heldout",) else ""
        raise InputError(f"--on {on}: no document with a word that the model knows{hint}")
    return joined(kept)


def joined(blocks: Sequence[Documents]) -> Documents:
    """Several blocks as one."""
    indptr = np.concatenate([[0], *(np.diff(b.indptr) for b in blocks)]).cumsum().astype(np.int64)
    return Documents(
        pa.concat_arrays([apart(b.ids)[0] for b in blocks]),
        indptr,
        np.concatenate([b.words for b in blocks]),
        np.concatenate([b.counts for b in blocks]),
        np.concatenate([b.tokens for b in blocks]),
        np.concatenate([b.unknown for b in blocks]),
    )


def parts_of(docs: Documents, model: TopicModel, split: float) -> tuple[Documents, Documents]:
    """The observed and the scored cells of documents, split by word type as ``evaluate`` does it; a document without a cell
    on one of the two sides is empty on both."""
    n = len(docs.words)
    seen, rest = (
        Half(np.empty(len(docs) + 1, np.int64), np.empty(n, np.int64), np.empty(n, np.float32)) for _ in range(2)
    )
    ids, local = np.unique(docs.words, return_inverse=True)
    hashes = hash_strings(model.words.take(pa.array(ids)))
    split_cells(
        docs.indptr, local.astype(np.int32), docs.counts, ids, hash_strings(docs.ids), hashes, float(split), *seen, *rest,
        np.zeros(2),
    )  # fmt: skip
    if not len(rest.rows) or not rest.indptr[-1]:
        raise InputError("no document could be scored: each needs two known words or more")
    out = []
    for half in (seen, rest):
        end = half.indptr[-1]
        out.append(Documents(docs.ids, half.indptr, half.rows[:end], half.counts[:end], docs.tokens, docs.unknown))
    return out[0], out[1]
