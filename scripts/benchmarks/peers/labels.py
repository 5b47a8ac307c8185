"""Classifiers and tomotopy's labeled LDA on a file of cells and labels
(scripts/benchmarks/bench_labels.py): F1 and seconds as JSON.

    python scripts/benchmarks/peers/labels.py FILE.npz "naive Bayes" "logistic regression" "logistic
    regression, TF-IDF" LLDAModel

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


def scores(
    true: np.ndarray, said: np.ndarray, keep: np.ndarray, first: np.ndarray | None
) -> dict[str, float]:
    right = (true & said).sum(0)
    a = said.sum(0)
    b = true.sum(0)
    f1 = 2 * right / np.maximum(a + b, 1)
    found = {"micro_f1": 2 * right.sum() / (a.sum() + b.sum()), "macro_f1": f1[keep].mean()}
    one = true.sum(1) == 1
    if first is not None and one.any():
        found["accuracy"] = true[one, first[one]].mean()
    return {k: float(v) for k, v in found.items()}


def chosen(true: np.ndarray, score: np.ndarray) -> tuple[float, bool]:
    """Our evaluation's rule (topicstream/addons/labels/prediction.py): the threshold, and whether a
    document gets one label at least, of
    the highest micro F1.  Tried are quantiles of the scores."""
    best = (-1.0, 0.5, False)
    for t in np.unique(np.quantile(score, 1 - np.geomspace(1e-4, 0.2, 200))):
        for one in (False, True):
            said = decided(score, t, one)
            f1 = 2 * (true & said).sum() / max(said.sum() + true.sum(), 1)
            best = max(best, (float(f1), float(t), one))
    return best[1], best[2]


def decided(score: np.ndarray, threshold: float, one: bool) -> np.ndarray:
    said = score >= threshold
    if one:
        bare = np.flatnonzero(~said.any(1))
        said[bare, score[bare].argmax(1)] = True
    return said


def main() -> None:
    data = np.load(sys.argv[1])
    which = sys.argv[2:]
    w = int(data["words"])
    n = int(data["n_labels"])
    x = {}
    y = {}
    for part in ("train", "test"):
        cells = tuple(data[f"{part}_{k}"] for k in ("counts", "words", "indptr"))
        x[part] = csr_matrix(cells, shape=(len(cells[2]) - 1, w), dtype=float)
        labels = data[f"{part}_labels"]
        indptr = data[f"{part}_label_indptr"]
        y[part] = (
            csr_matrix((np.ones(len(labels)), labels, indptr), shape=(len(indptr) - 1, n)).toarray()
            > 0
        )
    known = y["train"].any(0)
    keep = y["train"].any(0) & y["test"].any(0)
    found = {}
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.naive_bayes import MultinomialNB

    tenth = np.arange(len(y["train"])) % 10 == 0

    def fit(name: str, model: object, how: str, x: dict[str, csr_matrix] = x) -> None:
        began = time.process_time()
        rest = OneVsRestClassifier(model).fit(x["train"], y["train"][:, known])
        seconds = time.process_time() - began

        def score(rows: object, by: object = rest, there: np.ndarray = known) -> np.ndarray:
            out = np.full(
                (rows.shape[0], n), -1e9
            )  # log odds: probabilities of naive Bayes are 0 and 1 to the last bit
            for k, one in zip(np.flatnonzero(there), by.estimators_, strict=True):
                if hasattr(one, "predict_joint_log_proba"):
                    out[:, k] = np.diff(one.predict_joint_log_proba(rows)).ravel()
                else:
                    out[:, k] = one.decision_function(rows)
            return out

        test = score(x["test"])
        nine = y["train"][~tenth].any(0)
        apart = OneVsRestClassifier(model).fit(x["train"][~tenth], y["train"][~tenth][:, nine])
        rules = {
            "at even odds": (0.0, False),
            "threshold by a tenth of training, as ours": chosen(
                y["train"][tenth], score(x["train"][tenth])
            ),
            "threshold by a tenth kept from training": chosen(
                y["train"][tenth], score(x["train"][tenth], apart, nine)
            ),
        }
        for rule, (t, one) in rules.items():
            said = decided(test, t, one)
            about = f"{how}; threshold {t:.6g}{', one label at least' if one else ''}"
            figures = scores(y["test"], said, keep, test.argmax(1))
            found[f"{name}, {rule}"] = {**figures, "seconds": seconds, "how": about}

    if "naive Bayes" in which:
        for alpha in (1.0, 0.1, 0.01):
            fit(
                f"naive Bayes, alpha {alpha:g}",
                MultinomialNB(alpha=alpha),
                "one against the rest, scikit-learn",
            )
    if "logistic regression" in which:
        fit(
            "logistic regression",
            LogisticRegression(solver="liblinear"),
            "one against the rest on counts, C = 1",
        )
    if "logistic regression, TF-IDF" in which:
        weigh = TfidfTransformer(sublinear_tf=True).fit(x["train"])
        weighed = {part: weigh.transform(counts) for part, counts in x.items()}
        for c in (1.0, 10.0):
            model = LogisticRegression(solver="liblinear", C=c)
            fit(
                f"logistic regression, TF-IDF, C = {c:g}",
                model,
                "one against the rest, (1 + log count) idf, length 1",
                weighed,
            )
    if "LLDAModel" in which:
        import tomotopy as tp

        model = tp.LLDAModel(alpha=0.1, eta=0.01, seed=1)
        for d in range(x["train"].shape[0]):
            row = x["train"][d]
            words = np.repeat(row.indices, row.data.astype(int))
            if len(words):
                model.add_doc(
                    [f"w{i}" for i in words],
                    labels=[f"l{k}" for k in np.flatnonzero(y["train"][d])],
                )
        began = time.process_time()
        model.train(100, workers=1)
        found["tomotopy LLDAModel"] = {
            "seconds": time.process_time() - began,
            "how": "100 iterations, 1 worker",
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
