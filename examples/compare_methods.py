"""Compare the methods of inference of one model on held-out documents.

    python examples/compare_methods.py MODEL [--corpus corpus.zarr] [--methods bp,vb,gibbs]

The question of Yao, Mimno and McCallum (2009): how near does each method come to sampling all new
documents together, and at what cost? The table has, for each method, the cosine of its answers
with those of the reference, their Kullback-Leibler divergence, F1 of the largest topics (80 % of a
document), seconds on one thread, and the perplexity of a fifth of each document's words. A second
run of the reference with another seed shows how near any method can come.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

import topicstream

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "bp": ("bp", {}),
    "vb": ("vb", {}),
    "vb-point": ("vb", {"phi": "point"}),
    "vb-prior": ("vb", {"phi": "point", "begin": "prior"}),
    "gibbs": ("gibbs", {}),
    "gibbs2": ("gibbs", {"joint": True}),
    "gibbs3": ("gibbs", {"own_counts": True}),
    "gibbs2.s": ("gibbs", {"joint": True, "burn": 1, "sweeps": 1}),
    "gibbs3.s": ("gibbs", {"own_counts": True, "burn": 1, "sweeps": 1}),
    "maxent": ("maxent", {}),
    "hybrid": ("hybrid", {}),
    "naive-bayes": ("naive-bayes", {}),
    "naive-bayes-log": ("naive-bayes", {"log": True}),
}
"""Name -> method of ``topics infer`` and its options."""
SHARE = 0.8
"""Of a document: the share of its topics that are compared as a set, and of its words observed."""
FLOOR = 1e-12
"""No share counts for less in a divergence."""
MEASURES = ("cosine", "divergence", "f1", "seconds", "perplexity")


def compare_methods(
    model: topicstream.TopicModel,
    documents: csr_array,
    names: Iterable[str],
    *,
    reference: str = "gibbs2",
    burn: int = 200,
    sweeps: int = 50,
    seed: int = 0,
) -> dict[str, dict[str, float]]:
    """Find the topics of the same documents by each method, and compare answers and time.

    Parameters
    ----------
    documents
        Counts of the model's words (``known_counts``).
    names
        Keys of ``METHODS``.

    Returns
    -------
    dict
        Name -> ``MEASURES``. First comes the reference, then the reference with the next seed.
    """
    samplers = {"burn": burn, "sweeps": sweeps}
    observed, scored = split_cells(documents)

    def find_topics(name: str, matrix: csr_array, seed: int) -> np.ndarray:
        method, options = METHODS[name]
        if method == "gibbs":
            options = {**samplers, "seed": seed, **options}
        elif method == "hybrid":
            options = {"seed": seed}
        return model.transform(
            matrix, edits=False, vocabulary=model.words, method=method, threads=1, **options
        )

    attempts = {reference: (reference, seed), f"{reference} again": (reference, seed + 1)}
    attempts |= {name: (name, seed) for name in names if name != reference}
    answers: dict[str, dict[str, float]] = {}
    for label, (name, used_seed) in attempts.items():
        find_topics(name, documents[:1], used_seed)  # kernels are loaded
        begin = time.perf_counter()
        theta = find_topics(name, documents, used_seed)
        seconds = time.perf_counter() - begin
        if label == reference:
            nearest = theta
        answers[label] = {
            "cosine": cosine(nearest, theta).mean(),
            "divergence": divergence(nearest, theta).mean(),
            "f1": f1(nearest, theta).mean(),
            "seconds": seconds,
            "perplexity": perplexity(model, find_topics(name, observed, used_seed), scored),
        }
    return answers


def known_counts(
    model: topicstream.TopicModel, matrix: csr_array, words: pa.Array, most: int
) -> csr_array:
    """Return counts of the model's words, of at most so many documents, evenly spaced."""
    columns = model.vocabulary.find(words)
    known = columns >= 0
    matrix = csr_array(matrix)[:: max(1, -(-matrix.shape[0] // most))]
    cells = matrix[:, known].tocoo()
    shape = (matrix.shape[0], model.n_words)
    counts = csr_array((cells.data, (cells.row, columns[known][cells.col])), shape=shape)
    return counts[np.diff(counts.indptr) > 0]


def split_cells(matrix: csr_array) -> tuple[csr_array, csr_array]:
    """Split the cells of documents at random into those observed and those scored."""
    cells = matrix.tocoo()
    is_observed = np.random.default_rng(0).random(cells.nnz) < SHARE
    sides = []
    for side in (is_observed, ~is_observed):
        place = (cells.row[side], cells.col[side])
        sides.append(csr_array((cells.data[side], place), shape=matrix.shape))
    both = np.all([np.diff(side.indptr) > 0 for side in sides], axis=0)
    return sides[0][both], sides[1][both]


def perplexity(model: topicstream.TopicModel, theta: np.ndarray, scored: csr_array) -> float:
    """Compute the perplexity of cells under p(w|d) = sum_k theta[d, k] p(w|k)."""
    loglik = 0.0
    topic_word = model.topic_word
    for d in range(scored.shape[0]):
        cells = slice(scored.indptr[d], scored.indptr[d + 1])
        p = theta[d] @ topic_word[:, scored.indices[cells]]
        loglik += float(scored.data[cells] @ np.log(p))
    return float(np.exp(-loglik / scored.sum()))


def cosine(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Compute the cosine of each two rows of float[D, K]."""
    p = p.astype(np.float64)
    q = q.astype(np.float64)
    return (p * q).sum(axis=1) / np.sqrt((p * p).sum(axis=1) * (q * q).sum(axis=1))


def divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Compute the Kullback-Leibler divergence of q from p in nats, row by row."""
    p = np.maximum(p, FLOOR).astype(np.float64)
    q = np.maximum(q, FLOOR).astype(np.float64)
    return (p * np.log(p / q)).sum(axis=1)


def topic_sets(theta: np.ndarray) -> np.ndarray:
    """Mark the largest topics of a document that add up to at most ``SHARE``, and the first."""
    order = np.argsort(-theta, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(theta.astype(np.float64), order, axis=1), axis=1)
    in_set = sums <= SHARE
    in_set[:, 0] = True
    marked = np.zeros(theta.shape, bool)
    np.put_along_axis(marked, order, in_set, axis=1)
    return marked


def f1(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Compute F1 of the topic sets of q against those of p, row by row."""
    wanted = topic_sets(p)
    answered = topic_sets(q)
    common = (wanted & answered).sum(axis=1)
    return 2.0 * common / (wanted.sum(axis=1) + answered.sum(axis=1))


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the methods of inference of one model.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--corpus", type=Path, default=Path("corpus.zarr"))
    parser.add_argument("--methods", default="bp,vb,gibbs", help=f"of {', '.join(METHODS)}")
    parser.add_argument("--reference", default="gibbs2", choices=METHODS)
    parser.add_argument("--documents", type=int, default=2000, help="at most, evenly spaced")
    parser.add_argument("--burn", type=int, default=200, help="burn-in sweeps of the samplers")
    parser.add_argument("--sweeps", type=int, default=50, help="sweeps that are averaged")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    names = given.methods.split(",")
    if unknown := [name for name in names if name not in METHODS]:
        parser.error(f"--methods {unknown[0]}: choose of {', '.join(METHODS)}")
    model = topicstream.TopicModel.open(given.model)
    corpus = topicstream.Corpus.open(given.corpus)
    held_out = corpus.to_scipy(parts="heldout")
    documents = known_counts(model, held_out, corpus.words, given.documents)
    if not documents.shape[0]:
        parser.error(f"{given.corpus}: no held-out document; ingest with --heldout 10%")
    answers = compare_methods(
        model,
        documents,
        names,
        reference=given.reference,
        burn=given.burn,
        sweeps=given.sweeps,
        seed=given.seed,
    )
    print(f"{'method':18}" + "".join(f"{measure:>12}" for measure in MEASURES))
    for name, measured in answers.items():
        print(f"{name:18}" + "".join(f"{measured[measure]:12.4g}" for measure in MEASURES))


if __name__ == "__main__":
    main()
