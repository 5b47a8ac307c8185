"""Coverage of the intervals of ``topics show --covariates`` over planted corpora.

    python scripts/campaigns/covariate_intervals.py                 20 corpora, some seconds
    nice -n 10 python scripts/campaigns/covariate_intervals.py --corpora 200

Documents are drawn from topics whose prior depends on a group, a level of a column with small
levels (3 to 10 documents each) and a number. A model is trained on each corpus, its topics are
matched with the true ones, and each interval of a predicted share is asked whether it holds the
true share. Stars are counted where the truth is that nothing differs (--null: no effects at all).
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax

import topicstream
from topicstream.model.topic_model import TopicModel

TOPICS = 4
WORDS = 200
RECOVERED = 0.9
"""Bhattacharyya coefficient of a true topic and its own, from which on it counts as recovered:
the intervals are about documents, not about topics that are others."""
SMALL = (3, 4, 5, 6, 7, 8, 9, 10)
LEVELS = ("rest", *(f"n{size}" for size in SMALL))
GROUPS = ("a", "b", "c")


class Planted(NamedTuple):
    """A corpus: documents, p(w|k) and the true coefficients of each covariate."""

    documents: list[dict[str, Any]]
    phi: np.ndarray
    intercept: np.ndarray
    groups: np.ndarray
    levels: np.ndarray
    slope: np.ndarray


def plant(seed: int, options: argparse.Namespace) -> Planted:
    """Draw a corpus."""
    deviation = 0.0 if options.null else options.deviation
    docs = options.docs
    rng = np.random.default_rng(seed)
    shared = rng.dirichlet(np.full(WORDS, 1.0))
    own = np.zeros((TOPICS, WORDS))
    for k, words in enumerate(np.split(rng.permutation(WORDS), TOPICS)):
        own[k, words] = rng.dirichlet(np.ones(len(words)))
    phi = (1.0 - options.shared) * own + options.shared * shared
    if options.sparse:
        phi = rng.dirichlet(np.full(WORDS, options.sparse), TOPICS)
    intercept = rng.normal(np.log(0.2), 0.4, TOPICS)
    groups = rng.normal(0.0, deviation, (len(GROUPS), TOPICS))
    levels = rng.normal(0.0, deviation, (len(LEVELS), TOPICS))
    slope = rng.normal(0.0, deviation, TOPICS)
    groups[0] = levels[0] = 0.0
    group = rng.choice(len(GROUPS), docs, p=(0.5, 0.3, 0.2))
    sizes = [docs - sum(SMALL), *SMALL]
    level = rng.permutation(np.repeat(np.arange(len(LEVELS)), sizes))
    number = rng.normal(size=docs)
    documents = []
    for d in range(docs):
        eta = intercept + groups[group[d]] + levels[level[d]] + number[d] * slope
        theta = rng.dirichlet(np.maximum(np.exp(eta), 1e-3))
        counts = rng.multinomial(1 + rng.poisson(options.length), theta @ phi)
        text = " ".join(f"w{w}" for w in np.repeat(np.arange(WORDS), counts))
        documents.append(
            {
                "id": str(d),
                "text": text,
                "party": GROUPS[group[d]],
                "level": LEVELS[level[d]],
                "score": f"{number[d]:.4f}",
            }
        )
    return Planted(documents, phi, intercept, groups, levels, slope)


def match(model: TopicModel, phi: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the true topic of each topic of a model, and how alike the least alike two are."""
    ids = [int(word[1:]) for word in model.words]
    rows = model.rows(np.arange(model.n_words))[:, :TOPICS].astype(float)
    own = np.zeros((TOPICS, WORDS))
    own[:, ids] = (rows / rows.sum(0)).T
    alike = np.sqrt(own) @ np.sqrt(phi).T
    rows, columns = linear_sum_assignment(-alike)
    return columns, float(alike[rows, columns].min())


def true_share(planted: Planted, row: dict[str, Any], mean: float) -> np.ndarray:
    """Return the true shares at the value of a row, the others at their reference or mean."""
    eta = planted.intercept + mean * planted.slope
    if row["variable"] == "party":
        eta = eta + planted.groups[GROUPS.index(row["value"])]
    elif row["variable"] == "level":
        eta = eta + planted.levels[LEVELS.index(row["value"])]
    else:
        eta = planted.intercept + float(row["value"]) * planted.slope
    return np.asarray(softmax(eta))


def study(seed: int, options: argparse.Namespace, counts: dict[str, list[float]]) -> bool:
    """Train on one corpus, and count intervals that hold the truth and stars.

    Returns
    -------
    bool
        Whether its topics were recovered, without which nothing is counted.
    """
    planted = plant(seed, options)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "corpus.zarr"
        meta = {name: name for name in ("party", "level", "score")}
        topicstream.ingest(
            planted.documents, out=store, meta=meta, min_df=1, max_df=1.0, progress=False
        )
        given: dict[str, Any] = {"topics": TOPICS, "passes": options.passes, "tol": 0}
        given |= {} if options.means is None else {"covariate_means": options.means}
        formula = "party + level + score"
        model = Path(folder) / "model"
        topicstream.train(store, model, covariates=formula, progress=False, seed=seed, **given)
        rows = topicstream.show(model, corpus=store, covariates=True, progress=False)
        opened = TopicModel.open(model)
        truth_of, alike = match(opened, planted.phi)
        mean = next(c.mean for c in opened.manifest.covariates.columns if c.column == "score")
    if alike < RECOVERED:
        return False
    for number, row in enumerate(rows):
        if row["variable"] == "score" and number // TOPICS % 6:
            continue  # neighbours on a line say the same
        share = true_share(planted, row, mean)[truth_of[row["topic"]]]
        kind = row["variable"]
        if kind == "level" and row["value"] != "rest":
            kind = "level of 3 to 5" if row["documents"] < 6 else "level of 6 to 10"
        counts[kind][0] += 1
        counts[kind][1] += row["low"] <= share <= row["high"]
        counts[kind][2] += bool(row["differs"])
        counts[kind][3] += row["high"] - row["low"]
    return True


def main() -> None:
    """Run the study and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=int, default=20)
    parser.add_argument("--docs", type=int, default=400)
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--passes", type=int, default=60)
    parser.add_argument("--deviation", type=float, default=0.5, help="of the true coefficients")
    parser.add_argument(
        "--shared", type=float, default=0.0, help="share of words that all topics have in common"
    )
    parser.add_argument(
        "--sparse", type=float, default=0.0, help="topics from a Dirichlet distribution of this"
    )
    parser.add_argument("--means", type=float, help="--covariate-means of the training")
    parser.add_argument("--null", action="store_true", help="no effects")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0, 0.0])
    recovered = 0
    for number in range(options.corpora):
        recovered += study(options.seed + number, options, counts)
    print(f"{options.corpora} corpora, {recovered} whose topics were recovered")
    print(f"{'':18} intervals  hold the truth  stars  mean width")
    for kind, (asked, held, stars, width) in counts.items():
        print(
            f"{kind:18} {asked:9,} {100 * held / asked:12.1f} % {100 * stars / asked:5.1f} % "
            f"{100 * width / asked:7.1f}"
        )


if __name__ == "__main__":
    main()
