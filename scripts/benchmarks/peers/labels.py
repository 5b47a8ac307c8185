"""Classifiers and tomotopy's labeled LDA on a file of cells and labels (scripts/benchmarks/bench_labels.py): F1 and seconds as JSON.

    python scripts/benchmarks/peers/labels.py FILE.npz "naive Bayes" "logistic regression" LLDAModel

Runs under the peers' own Python; needs nothing of topicstream.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
from scipy.sparse import csr_matrix

warnings.filterwarnings("ignore")


def scores(true: np.ndarray, said: np.ndarray, keep: np.ndarray, first: np.ndarray | None) -> dict[str, float]:
    right, a, b = (true & said).sum(0), said.sum(0), true.sum(0)
    f1 = 2 * right / np.maximum(a + b, 1)
    found = {"micro_f1": 2 * right.sum() / (a.sum() + b.sum()), "macro_f1": f1[keep].mean()}
    one = true.sum(1) == 1
    if first is not None and one.any():
        found["accuracy"] = true[one, first[one]].mean()
    return {k: float(v) for k, v in found.items()}


def main() -> None:
    data, which = np.load(sys.argv[1]), sys.argv[2:]
    w, n = int(data["words"]), int(data["n_labels"])
    x, y = {}, {}
    for part in ("train", "test"):
        cells = tuple(data[f"{part}_{k}"] for k in ("counts", "words", "indptr"))
        x[part] = csr_matrix(cells, shape=(len(cells[2]) - 1, w), dtype=float)
        labels, indptr = data[f"{part}_labels"], data[f"{part}_label_indptr"]
        y[part] = csr_matrix((np.ones(len(labels)), labels, indptr), shape=(len(indptr) - 1, n)).toarray() > 0
    known, keep = y["train"].any(0), y["train"].any(0) & y["test"].any(0)
    found = {}
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.naive_bayes import MultinomialNB

    def fit(name: str, model: object, how: str) -> None:
        began = time.process_time()
        rest = OneVsRestClassifier(model).fit(x["train"], y["train"][:, known])
        seconds = time.process_time() - began
        said, score = np.zeros_like(y["test"]), np.full(y["test"].shape, -np.inf)
        said[:, known] = rest.predict(x["test"]) > 0
        score[:, known] = rest.predict_proba(x["test"])
        found[name] = {**scores(y["test"], said, keep, score.argmax(1)), "seconds": seconds, "how": how}

    if "naive Bayes" in which:
        for alpha in (1.0, 0.01):
            fit(f"naive Bayes, alpha {alpha:g}", MultinomialNB(alpha=alpha), "one against the rest, scikit-learn")
    if "logistic regression" in which:
        fit("logistic regression", LogisticRegression(solver="liblinear"), "one against the rest on counts, C = 1")
    if "LLDAModel" in which:
        import tomotopy as tp

        model = tp.LLDAModel(alpha=0.1, eta=0.01, seed=1)
        for d in range(x["train"].shape[0]):
            row = x["train"][d]
            words = np.repeat(row.indices, row.data.astype(int))
            if len(words):
                model.add_doc([f"w{i}" for i in words], labels=[f"l{k}" for k in np.flatnonzero(y["train"][d])])
        began = time.process_time()
        model.train(100, workers=1)
        found["tomotopy LLDAModel"] = {"seconds": time.process_time() - began, "how": "100 iterations, 1 worker"}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
