"""Train pyrmallet, tomotopy or topica with priors that it learns, as their manuals recommend:

    python corners.py pyrmallet|tomotopy|topica EXPORTED OUT.npy TOPICS PASSES SEED

EXPORTED is of export_corpus.py. OUT holds float64[W, K], the probabilities of words. One thread.
Runs under the peers' own Python.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np

ALPHA_SUM = 5.0  # at the start
BETA = 0.01
TO_LETTERS = str.maketrans("0123456789", "abcdefghij")  # words that every tokenizer keeps
TO_DIGITS = str.maketrans("abcdefghij", "0123456789")


def read_documents(folder: Path) -> tuple[list[list[str]], int]:
    """Read documents as lists of words, which spell their numbers."""
    indptr = np.load(folder / "indptr.npy")
    words = np.load(folder / "words.npy")
    counts = np.load(folder / "counts.npy")
    size = len((folder / "words.txt").read_text(encoding="utf-8").splitlines())
    names = np.array([f"z{i}z".translate(TO_LETTERS) for i in range(size)], dtype=object)
    documents = []
    for first, stop in itertools.pairwise(indptr):
        repeated = np.repeat(words[first:stop], counts[first:stop])
        documents.append(names[repeated].tolist())
    return [document for document in documents if document], size


def place(names: list[str], rows: np.ndarray, size: int) -> np.ndarray:
    """Sort a program's float[K, V] by our numbers of words, float64[W, K]."""
    out = np.zeros((size, len(rows)))
    out[[int(name[1:-1].translate(TO_DIGITS)) for name in names]] = rows.T
    return out


def train_pyrmallet(
    documents: list[list[str]], size: int, topics: int, passes: int, seed: int
) -> np.ndarray:
    import pyrmallet

    model = pyrmallet.LatentDirichletAllocation(
        topics,
        doc_topic_prior=ALPHA_SUM,
        topic_word_prior=BETA,
        max_iter=passes,
        random_state=seed,
    )
    model.fit([" ".join(document) for document in documents])
    return place(list(model.feature_names_in_), np.asarray(model.components_), size)


def train_tomotopy(
    documents: list[list[str]], size: int, topics: int, passes: int, seed: int
) -> np.ndarray:
    import tomotopy

    model = tomotopy.LDAModel(k=topics, alpha=ALPHA_SUM / topics, eta=BETA, seed=seed)
    for document in documents:
        model.add_doc(document)
    model.train(passes, workers=1)
    rows = np.array([model.get_topic_word_dist(k) for k in range(topics)])
    return place(list(model.used_vocabs), rows, size)


def train_topica(
    documents: list[list[str]], size: int, topics: int, passes: int, seed: int
) -> np.ndarray:
    import topica

    model = topica.LDA(topics, alpha_sum=ALPHA_SUM, beta=BETA, seed=seed)
    model.fit(documents, iters=passes, keep_theta_draws=False)
    return place(list(model.vocabulary), np.asarray(model.topic_word), size)


TRAINERS = {"pyrmallet": train_pyrmallet, "tomotopy": train_tomotopy, "topica": train_topica}


def main() -> None:
    program, folder, out = sys.argv[1:4]
    topics, passes, seed = map(int, sys.argv[4:])
    documents, size = read_documents(Path(folder))
    np.save(out, TRAINERS[program](documents, size, topics, passes, seed))


if __name__ == "__main__":
    main()
