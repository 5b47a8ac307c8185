"""How well a model of clusters foretells documents, and how its clusters agree with labels that the documents have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, UsageError
from topicstream.evaluation.completion import halves, rows_of
from topicstream.evaluation.keys import documents, match_words
from topicstream.evaluation.memory import block_cells, block_docs
from topicstream.model.clusters import ClusterView
from topicstream.model.topic_model import TopicModel
from topicstream.parallel.order import in_order


@dataclass(frozen=True)
class ClusterScore:
    """perplexity = exp(nats_per_token); nats_per_point: -log p(x) of a document, on average; skipped: documents without a word
    that the model knows."""

    perplexity: float
    nats_per_token: float
    nats_per_point: float
    tokens: float
    docs: int
    skipped: int
    oov_tokens: float
    oov_rate: float
    measured: str = "log-likelihood of whole documents, each drawn from one cluster (multinomial coefficients left out)"

    def as_dict(self) -> dict[str, Any]:
        return {k: v for k, v in asdict(self).items() if k != "measured"}


def _answers(
    model: TopicModel, store: Corpus, heldout: bool, threads: int
) -> Iterator[tuple[Block, np.ndarray, np.ndarray, np.ndarray, float]]:
    """(block, known cells of each document, log p(x), its cluster, tokens of unknown words), in document order."""
    clusters, index, width = ClusterView.of(model), match_words(model.vocabulary, store), model.n_topics

    def visit(block: Block) -> tuple[Block, np.ndarray, np.ndarray, np.ndarray, float]:
        ids = block.vocab.astype(np.int64) if index is None else index[block.vocab]
        base, at = rows_of(model, ids, width)
        nothing = np.zeros(block.n_docs, np.uint64)
        seen, _, _, unknown = halves(block, at, nothing, np.zeros(block.n_words, np.uint64), None)
        fit, shares = clusters.answer(seen.indptr, seen.rows, seen.counts, base)
        return block, np.diff(seen.indptr), fit, shares.argmax(1), float(unknown)

    topics = model.n_topics
    grid = store.grid(block_cells(topics), block_docs(topics), heldout=heldout)
    yield from in_order(visit, store.blocks(grid=grid, heldout=heldout), threads)


def score_clusters(
    model: TopicModel,
    store: Corpus,
    parts: tuple[str, ...],
    threads: int,
    progress: Callable[[int, int], None] | None = None,
) -> ClusterScore:
    """Log-likelihood of the documents of the parts (``train``, ``heldout``); InputError where none has a word."""
    fit, tokens, oov = 0.0, 0.0, 0.0
    docs = skipped = 0
    total = sum(store.part(part == "heldout")["docs"] for part in parts)
    for part in parts:
        if not store.part(part == "heldout")["docs"]:
            continue
        for block, cells, logs, _, unknown in _answers(model, store, part == "heldout", threads):
            there = cells > 0
            for value in logs[there].tolist():  # one by one: the same bits for any blocks
                fit += value
            docs, skipped = docs + int(there.sum()), skipped + int((~there).sum())
            tokens, oov = tokens + block.tokens - unknown, oov + unknown
            if progress is not None:
                progress(docs + skipped, total)
    if not docs:
        raise InputError(f"{store.path}: no document to score has a word that the model knows")
    nats = -fit / tokens
    return ClusterScore(
        float(np.exp(nats)), nats, -fit / docs, tokens, docs, skipped, oov, oov / max(tokens + oov, 1e-300)
    )


def entropy_of(counts: np.ndarray) -> float:
    """-sum p log p, in nats."""
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log(p)).sum())


def agreement(table: np.ndarray) -> tuple[float, float]:
    """(NMI, ARI) of a contingency table, classes x clusters: mutual information over the mean of the two entropies, and the
    adjusted Rand index (Hubert & Arabie 1985)."""
    n, rows, columns = float(table.sum()), table.sum(1), table.sum(0)
    h, g = entropy_of(rows), entropy_of(columns)
    mutual = h + g - entropy_of(table.ravel())

    def pairs(x: np.ndarray) -> float:
        return float((x * (x - 1.0) / 2.0).sum())

    index, expected = pairs(table), pairs(rows) * pairs(columns) / max(n * (n - 1.0) / 2.0, 1.0)
    most = 0.5 * (pairs(rows) + pairs(columns))
    nmi = mutual / (0.5 * (h + g)) if h + g > 0 else 1.0
    return nmi, (index - expected) / (most - expected) if most != expected else 1.0


def clusters_of(model: TopicModel, store: Corpus, heldout: bool, threads: int) -> np.ndarray:
    """The likeliest cluster of each document of a part, int64, -1: no word of it is known."""
    found = np.full(store.part(heldout)["docs"], -1, np.int64)
    for block, cells, _, cluster, _ in _answers(model, store, heldout, threads):
        found[block.first_doc : block.first_doc + block.n_docs] = np.where(cells > 0, cluster, -1)
    return found


def score_agreement(
    store: Corpus, parts: tuple[str, ...], field: str, clusters: int, of_part: Callable[[bool], np.ndarray]
) -> dict[str, Any]:
    """NMI and ARI of the clusters and a column of the documents; those without a value, or with several, are left out.
    of_part: the cluster of each document of a part (heldout?), -1: none."""
    if field not in (store.manifest.get("columns") or {}):
        raise UsageError(f"--label-field {field}: {store.path} has no such column; ingest with --meta {field}=FIELD")
    counts: Counter[tuple[str, int]] = Counter()
    out = 0
    for part in parts:
        heldout = part == "heldout"
        if not store.part(heldout)["docs"]:
            continue
        found = of_part(heldout)
        for numbers, batch in documents(store, heldout, [field]):
            for k, value in zip(found[numbers].tolist(), batch.column(field).to_pylist(), strict=True):
                one = value[0] if isinstance(value, list) and len(value) == 1 else value
                if k < 0 or not isinstance(one, str | int) or one == "":
                    out += 1
                else:
                    counts[str(one), k] += 1
    if not counts:
        raise InputError(f"{store.path}: none of these documents has one value in {field}")
    names = {name: i for i, name in enumerate(sorted({name for name, _ in counts}))}
    table = np.zeros((len(names), clusters))
    for (name, k), n in counts.items():
        table[names[name], k] = n
    nmi, ari = agreement(table)
    return {
        "nmi": nmi,
        "ari": ari,
        "purity": float(table.max(0).sum() / table.sum()),
        "docs": int(table.sum()),
        "left_out": out,
        "classes": len(names),
        "clusters": int((table.sum(0) > 0).sum()),
        "measured": f"documents in their likeliest cluster, against {field}",
    }
