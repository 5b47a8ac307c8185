"""Dirichlet-multinomial regression of another program on an exported corpus.

    python covariates.py tomotopy|topica EXPORTED OUT.npz TOPICS ITERATIONS SEED

EXPORTED is what ``bench_covariates.py`` writes: the cells (export_corpus.py), and ``labels.json``
with the labels of each document. OUT holds phi (probabilities [W, K]), the names of the labels,
their coefficients (float64[1 + labels, K], the intercept first) and the processor seconds of
training. One thread, eta 0.01, all else as the program has it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from trainers import Data

ETA = 0.01


def run_tomotopy(data: Data, labels: list[list[str]], setting: list[int]) -> tuple:
    """Train tomotopy's DMRModel, each label a value of its multi_metadata."""
    import tomotopy as tp

    topics, iterations, seed = setting
    model = tp.DMRModel(k=topics, eta=ETA, seed=seed)
    for d, own in enumerate(labels):
        cells = slice(data.indptr[d], data.indptr[d + 1])
        words = np.repeat(data.words[cells], data.counts[cells].astype(int)).tolist()
        if words:
            model.add_doc([f"w{w}" for w in words], multi_metadata=own)
    began = time.process_time()
    model.train(iterations, workers=1)
    seconds = time.process_time() - began
    order = np.array([int(word[1:]) for word in model.used_vocabs])
    phi = np.array([model.get_topic_word_dist(k) for k in range(topics)])
    names = list(model.multi_metadata_dict)
    return phi, order, names, np.asarray(model.lambda_)[:, 0].T, seconds


def run_topica(data: Data, labels: list[list[str]], setting: list[int]) -> tuple:
    """Train topica's DMR, each label a column of ones and zeros."""
    import topica

    topics, iterations, seed = setting
    names = sorted({label for own in labels for label in own})
    place = {name: i for i, name in enumerate(names)}
    features = np.zeros((len(labels), len(names)))
    docs = []
    for d, own in enumerate(labels):
        cells = slice(data.indptr[d], data.indptr[d + 1])
        words = np.repeat(data.words[cells], data.counts[cells].astype(int)).tolist()
        docs.append([f"w{w}" for w in words])
        features[d, [place[label] for label in own]] = 1.0
    model = topica.DMR(topics, beta=ETA, seed=seed)
    began = time.process_time()
    model.fit(docs, features, feature_names=names, iters=iterations, keep_theta_draws=False)
    seconds = time.process_time() - began
    order = np.array([int(word[1:]) for word in model.vocabulary])
    assert list(model.feature_names)[1:] == names
    return np.asarray(model.topic_word), order, names, np.asarray(model.feature_effects).T, seconds


def main() -> None:
    """Train, and write the topics."""
    program, folder, out = sys.argv[1:4]
    setting = [int(text) for text in sys.argv[4:]]
    exported = Path(folder)
    data = Data.read(exported, json.loads((exported / "meta.json").read_text())["words"])
    labels = json.loads((exported / "labels.json").read_text())
    trainer = {"tomotopy": run_tomotopy, "topica": run_topica}[program]
    phi, order, names, coefficients, seconds = trainer(data, labels, setting)
    whole = np.repeat(phi.min(axis=1)[:, None], data.n_words, axis=1)  # a word that has no token
    whole[:, order] = phi
    np.savez(out, phi=whole.T, names=names, coefficients=coefficients, seconds=seconds)


if __name__ == "__main__":
    main()
