"""Planted regimes: how often ``train --covariates 'regimes(date, N)'`` finds the change points.

    python scripts/campaigns/regimes.py --corpora 32 --words 60 --shared 0

Each corpus has 2,000 documents of 40 years and 2 to 5 regimes of three years or more. From each to
the next, a third of 12 topics is twice or half as large. docs/internals/decisions/regimes.md has
the figures.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import topicstream
from topicstream.model.design import decode_design

TOPICS = 12
WORDS = 40
PERIODS = 40
DOCUMENTS = 2_000
FIRST_YEAR = 1980
PASSES = 30


def draw_cuts(rng: np.random.Generator, regimes: int) -> np.ndarray:
    """Draw change points, three years or more from each other and from the ends."""
    while True:
        cuts = np.sort(rng.choice(np.arange(3, PERIODS - 2), regimes - 1, replace=False))
        if np.diff([0, *cuts, PERIODS]).min() >= 3:
            return cuts


def draw_alphas(rng: np.random.Generator, regimes: int) -> np.ndarray:
    """Draw an alpha for each regime, float64[regimes, TOPICS]."""
    alphas = np.empty((regimes, TOPICS))
    alphas[0] = rng.dirichlet(np.full(TOPICS, 5.0)) * TOPICS * 0.1
    for state in range(1, regimes):
        alphas[state] = alphas[state - 1]
        changed = rng.choice(TOPICS, TOPICS // 3, replace=False)
        grows = rng.permutation(len(changed)) % 2 == 0
        alphas[state, changed] *= np.where(grows, 2.0, 0.5)
    return alphas


def draw_words(rng: np.random.Generator, shared: float) -> np.ndarray:
    """Draw p(word | topic), of which a part is common to all topics."""
    phi = np.zeros((TOPICS, TOPICS * WORDS))
    for topic in range(TOPICS):
        own = slice(topic * WORDS, (topic + 1) * WORDS)
        phi[topic, own] = rng.dirichlet(np.full(WORDS, 0.5))
    common = rng.dirichlet(np.full(phi.shape[1], 0.5))
    return (1 - shared) * phi + shared * common


def draw_corpus(seed: int, words: int, shared: float) -> tuple[list[dict[str, str]], np.ndarray]:
    """Draw documents, and the years that their regimes begin with."""
    rng = np.random.default_rng(seed)
    regimes = 2 + seed % 4
    cuts = draw_cuts(rng, regimes)
    alphas = draw_alphas(rng, regimes)
    phi = draw_words(rng, shared)
    state = np.searchsorted(cuts, np.arange(PERIODS), side="right")
    documents = []
    for number, period in enumerate(rng.integers(0, PERIODS, DOCUMENTS).tolist()):
        theta = rng.dirichlet(alphas[state[period]])
        tokens = rng.choice(phi.shape[1], max(3, rng.poisson(words)), p=theta @ phi)
        text = " ".join(f"w{token:04d}" for token in tokens)
        year = str(FIRST_YEAR + period)
        documents.append({"id": f"d{number}", "text": text, "year": year})
    return documents, cuts + FIRST_YEAR


def main() -> None:
    """Count the change points that are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=int, default=32)
    parser.add_argument("--words", type=int, default=60)
    parser.add_argument("--shared", type=float, default=0.0)
    parser.add_argument("--first-seed", type=int, default=100)
    given = parser.parse_args()
    near = []
    exact = []
    of_best = []
    of_true = []
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "corpus.zarr"
        model = Path(folder) / "model"
        for seed in range(given.first_seed, given.first_seed + given.corpora):
            documents, years = draw_corpus(seed, given.words, given.shared)
            meta = {"year": "year"}
            topicstream.ingest(
                documents, out=store, meta=meta, min_df=1, max_df=1.0, force=True, progress=False
            )
            topicstream.train(
                store,
                model,
                topics=TOPICS,
                passes=PASSES,
                tol=0,
                threads=1,
                algo="sparse-bp",
                covariates=f"regimes(year, {len(years) + 1})",
                force=True,
                progress=False,
            )
            entry = topicstream.TopicModel.open(model).manifest.covariates
            timed = decode_design(entry).regimes
            found = np.array(timed.starts[1:])
            near.append(np.abs(found - years).max() <= 1)
            exact += (found == years).tolist()
            for weights, best, true in zip(timed.weights, found, years, strict=True):
                of_best.append(weights.get(str(best), 0.0))
                of_true.append(weights.get(str(true), 0.0))
    print(f"all within a year: {sum(near)} of {len(near)} corpora")
    print(f"exact: {sum(exact)} of {len(exact)} change points")
    print(f"mean weight: {np.mean(of_best):.3f} of those found, {np.mean(of_true):.3f} of the true")


if __name__ == "__main__":
    main()
