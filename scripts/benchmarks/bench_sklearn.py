"""``fit_transform`` of a matrix of counts beside scikit-learn's LatentDirichletAllocation and tomotopy.

    python scripts/benchmarks/bench_sklearn.py --docs 20news/docs.jsonl.gz --peers .peers/bin/python [-K 100]

Words as CountVectorizer(stop_words="english", min_df=5) counts them; a tenth of the documents is set aside and scored by our
evaluator for everyone (document completion).  Each program runs in a process of its own, on one thread; seconds are the
processor's, of fit_transform alone (tomotopy: training and the topics of all documents, without adding the documents).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
HEAD = """
import sys, time, json, numpy as np, scipy.sparse as sp
folder, K, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
X = sp.load_npz(folder + "/train.npz")
def tell(phi, alpha, beta, seconds, wall, passes):
    np.save(folder + "/phi.npy", phi)
    print(json.dumps({"alpha": np.broadcast_to(alpha, K).tolist(), "beta": float(beta), "seconds": seconds, "wall": wall, "passes": passes}))
"""
OURS = """
from topicstream.sklearn import TopicModel
m = TopicModel(K, n_jobs=1, max_iter=n or None)
t, w = time.process_time(), time.perf_counter(); m.fit_transform(X); t, w = time.process_time() - t, time.perf_counter() - w
tell(m.components_.T - m.topic_word_prior_, m.doc_topic_prior_, m.topic_word_prior_, t, w, m.n_iter_)
"""
THEIRS = """
from sklearn.decomposition import LatentDirichletAllocation
m = LatentDirichletAllocation(K, max_iter=n, learning_method="METHOD", random_state=0, n_jobs=1)
t, w = time.process_time(), time.perf_counter(); m.fit_transform(X); t, w = time.process_time() - t, time.perf_counter() - w
tell(m.components_.T - 1.0 / K, 1.0 / K, 1.0 / K, t, w, m.n_iter_)
"""
TOMOTOPY = """
import tomotopy as tp
m = tp.LDAModel(k=K, alpha=0.1, eta=0.01, seed=1)
for d in range(X.shape[0]):
    row = slice(X.indptr[d], X.indptr[d + 1])
    m.add_doc([str(w) for w, c in zip(X.indices[row].tolist(), X.data[row].tolist()) for _ in range(int(c))])
t, w = time.process_time(), time.perf_counter()
m.train(n, workers=1)
theta = [d.get_topic_dist() for d in m.docs]
t, w = time.process_time() - t, time.perf_counter() - w
phi = np.zeros((X.shape[1], K), np.float32)
counts = np.array(m.get_count_by_topics(), np.float64)
columns = [int(v) for v in m.used_vocabs]
for k in range(K):
    p = np.array(m.get_topic_word_dist(k), np.float64)
    phi[columns, k] = np.maximum(p * (counts[k] + 0.01 * len(columns)) - 0.01, 0)
tell(phi, m.alpha, 0.01, t, w, n)
"""


def main() -> None:
    import scipy.sparse as sp
    from sklearn.feature_extraction.text import CountVectorizer

    from topicstream.evaluation.completion import score_model
    from topicstream.model.topic_model import TopicModel
    from topicstream.sklearn import _store

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--peers", default=sys.executable, help="a Python with tomotopy")
    parser.add_argument("-K", type=int, default=100)
    parser.add_argument("--runs", nargs="+", default=["ours:0", "batch:10", "online:5", "tomotopy:100", "tomotopy:200"])
    args = parser.parse_args()
    with gzip.open(args.docs, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    X = CountVectorizer(stop_words="english", min_df=5).fit_transform(texts).astype(np.int32)
    aside = np.random.default_rng(0).random(X.shape[0]) < 0.1
    code = {"ours": OURS, "tomotopy": TOMOTOPY} | {m: THEIRS.replace("METHOD", m) for m in ("batch", "online")}
    with tempfile.TemporaryDirectory() as folder:
        sp.save_npz(f"{folder}/train.npz", X[~aside])
        heldout = _store(X[aside], Path(folder) / "heldout.zarr", None)
        print(f"{X.shape[0]:,} documents, {X.shape[1]:,} words, {aside.sum():,} set aside, K = {args.K}\n")
        print("| | passes | processor seconds | seconds | held-out perplexity |\n|---|---|---|---|---|")
        for run in args.runs:
            name, _, passes = run.partition(":")
            python = args.peers if name == "tomotopy" else sys.executable
            command = [python, "-c", HEAD + code[name], folder, str(args.K), passes]
            said: dict[str, Any] = json.loads(
                subprocess.run(command, env={**os.environ, **ONE}, check=True, stdout=subprocess.PIPE).stdout
            )
            phi = np.maximum(np.load(f"{folder}/phi.npy"), 0)
            words = [str(i) for i in range(len(phi))]
            model = TopicModel.from_arrays(phi, words, np.array(said["alpha"]), said["beta"])
            score = score_model(model, heldout, split=0.8, threads=1, parts=("train",))
            print(
                f"| {name} | {said['passes']} | {said['seconds']:.1f} | {said['wall']:.1f} | {score.perplexity:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
