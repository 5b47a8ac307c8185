"""Relational topics: link prediction and perplexity of ``rtm`` against ``bp`` and a Gibbs sampler; a large corpus with links.

    python scripts/benchmarks/bench_links.py cora [--data ../shared/data/cora] [--topics 10,30,50] [--folds 5] [--passes 60] [--only 0,1]
    python scripts/benchmarks/bench_links.py scale [--docs 100000] [--links 1000000] [--topics 20] [--limit 1G]

``cora``: folds over documents; links of the test documents are unknown in training.  Each row is a model; the columns are

    perplexity   90/10 document completion of all test documents from words alone
    withheld, given   the same of the test documents that have links, without and with their links to training documents
    F, AUC       evaluation/links.py, features ``product`` (the protocol) and ``root``, five draws of the negatives
    gain         F against the same priors without links (xi 0): mean over folds of the differences, and its standard error

The Gibbs sampler is Chang & Blei's (2010) with the exponential link function, weight 3 for every topic, alpha and eta 0.1 (what
the demonstration of the R package lda uses on these documents), written down here and judged by the same evaluator: its theta
of training documents is that of its last state.

``scale``: documents of a few hundred words a community, linked within it, ingested from a text file and trained in a process
of its own under the limit: seconds a pass, peak memory, and how well topics tell links of documents set aside.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import heading, table

import topicstream
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.links import link_prediction, linked_completion
from topicstream.model.topic_model import TopicModel
from topicstream.progress import Shown as Progress

QUIET = Progress(-1)
MODELS: list[
    tuple[str, str, dict[str, Any]]
] = [  # label, engine, options; the first of the same priors is what gains are against
    ("bp = rtm, xi 0 (paper's priors)", "rtm", {"xi": 0.0}),
    ("rtm, xi 0.15 (the paper's)", "rtm", {"xi": 0.15}),
    ("rtm, xi 0, alpha 0.1", "rtm", {"xi": 0.0, "alpha": 0.1}),
    ("rtm, xi 0.15, alpha 0.1", "rtm", {"xi": 0.15, "alpha": 0.1}),
    ("rtm, xi 0.5, alpha 0.1, eta identity", "rtm", {"xi": 0.5, "alpha": 0.1, "eta": "identity"}),
    ("rtm, learned xi, alpha 0.1, eta identity", "rtm", {"learn_xi": True, "alpha": 0.1, "eta": "identity"}),
    ("rtm, xi 0, alpha 0.1, beta 0.1", "rtm", {"xi": 0.0, "alpha": 0.1, "beta": 0.1}),
    (
        "rtm, xi 0.5, alpha 0.1, beta 0.1, eta identity",
        "rtm",
        {"xi": 0.5, "alpha": 0.1, "beta": 0.1, "eta": "identity"},
    ),
    ("Gibbs, exponential links", "gibbs", {"alpha": 0.1, "beta": 0.1, "weight": 3.0}),
]


@numba.njit
def sweep(docs, words, z, c_dk, c_wk, c_k, n_d, ptr, others, alpha, beta, weight, random):
    """One sweep of the relational topic model's collapsed Gibbs sampler; every array is changed in place but ptr, others."""
    topics, smooth = c_k.shape[0], len(c_wk) * beta
    p, pull, last = np.empty(topics), np.zeros(topics), -1
    for i in range(len(z)):
        d, w = docs[i], words[i]
        if d != last:  # what the linked documents say, while this one is sampled
            pull[:] = 0.0
            for e in others[ptr[d] : ptr[d + 1]]:
                pull += c_dk[e] / n_d[e]
            pull = np.exp(weight * pull / n_d[d])
            last = d
        k = z[i]
        c_dk[d, k] -= 1
        c_wk[w, k] -= 1
        c_k[k] -= 1
        total = 0.0
        for k in range(topics):
            total += (c_dk[d, k] + alpha) * (c_wk[w, k] + beta) / (c_k[k] + smooth) * pull[k]
            p[k] = total
        k = min(np.searchsorted(p, random[i] * total), topics - 1)
        z[i] = k
        c_dk[d, k] += 1
        c_wk[w, k] += 1
        c_k[k] += 1


def gibbs(
    corpus: Corpus, topics: int, sweeps: int, seed: int, alpha: float, beta: float, weight: float
) -> tuple[TopicModel, np.ndarray]:
    """(model of the last state, its counts of training documents by topic)."""
    docs, words, ptr, others, rows = [], [], [0], [], 0
    for block in corpus.blocks(axes=["links"]):
        owner = np.repeat(np.arange(block.n_docs), np.diff(block.indptr)) + block.first_doc
        docs.append(np.repeat(owner, block.counts))
        words.append(np.repeat(block.vocab[block.words], block.counts))
        links = block.rows("links")
        others.append(links.ids[links.local])
        ptr += (links.indptr[1:] + ptr[-1]).tolist()
        rows += block.n_docs
    d, w = np.concatenate(docs), np.concatenate(words)
    rng = np.random.default_rng(seed)
    z = rng.integers(topics, size=len(d))
    c_dk, c_wk = np.zeros((rows, topics)), np.zeros((corpus.n_words, topics))
    np.add.at(c_dk, (d, z), 1)
    np.add.at(c_wk, (w, z), 1)
    c_k, n_d = c_wk.sum(0), np.maximum(np.bincount(d, minlength=rows), 1).astype(float)
    for _ in range(sweeps):
        sweep(
            d,
            w,
            z,
            c_dk,
            c_wk,
            c_k,
            n_d,
            np.array(ptr),
            np.concatenate(others),
            alpha,
            beta,
            weight,
            rng.random(len(z)),
        )
    names = corpus.axes["words"].names()
    return TopicModel.from_arrays(c_wk, names, np.full(topics, alpha), beta), c_dk


def cora(
    data: Path, topics: list[int], folds: int, passes: int, work: Path, kept: Path | None, only: list[int]
) -> None:
    rng = np.random.default_rng(0)
    documents = 2410
    (work / "folds.tsv").write_text(
        "".join(f"{d + 1}\tf{f}\n" for d, f in enumerate(rng.permutation(documents) % folds))
    )
    stores = []
    for f in range(folds):
        sides = {"meta_files": f"{work / 'folds.tsv'}:row,fold", "key": "row", "links": str(data / "links.tsv")}
        given = {"heldout": f"fold=f{f}", "min_df": 1, "max_df": 1.0, "progress": QUIET}
        topicstream.ingest(data / "docword.txt.gz", work / f"{f}.zarr", **sides, **given)
        stores.append(work / f"{f}.zarr")
    heading("Links, cora", f"{folds} folds, {passes} passes, random start, 1 thread; mean over folds, noisy machine")
    columns = (
        "K",
        "model",
        "perplexity",
        "withheld",
        "given",
        "F product",
        "gain",
        "AUC",
        "F root",
        "gain",
        "AUC",
        "xi",
        "CPU s",
    )
    rows, raw = [], {}
    for k in topics:
        base: dict[Any, np.ndarray] = {}
        for label, algo, options in [MODELS[n] for n in only]:
            began = time.process_time()
            found = np.array([one(stores[f], algo, k, passes, f, options, work / "model") for f in range(folds)])
            spent = (time.process_time() - began) / folds
            mean, prior = found.mean(0), (options.get("alpha"), options.get("beta"))
            against = base.setdefault(prior, found)
            gains = []
            for column in (3, 5):
                change = found[:, column] - against[:, column]
                gains.append(
                    "" if against is found else f"{change.mean():+.3f} ± {change.std(ddof=1) / folds**0.5:.3f}"
                )
            shown = [f"{v:.0f}" if np.isfinite(v) else "" for v in mean[:3]]
            f = [f"{mean[3]:.3f}", gains[0], f"{mean[4]:.3f}", f"{mean[5]:.3f}", gains[1], f"{mean[6]:.3f}"]
            rows.append((k, label, *shown, *f, f"{mean[7]:.2f}" if np.isfinite(mean[7]) else "", f"{spent:.1f}"))
            raw[f"{k} {label}"] = found.tolist()
            print(" | ".join(map(str, rows[-1])), file=sys.stderr, flush=True)
    table(columns, rows)
    if kept is not None:
        kept.write_text(json.dumps(raw))


def one(
    store: Path, algo: str, topics: int, passes: int, seed: int, options: dict[str, Any], model: Path
) -> list[float]:
    """perplexity, withheld, given, F and AUC of products, of roots, xi."""
    corpus, counts = Corpus.open(store), None
    if algo == "gibbs":
        made, counts = gibbs(corpus, topics, 3 * passes, seed, options["alpha"], options["beta"], options["weight"])
    else:
        topicstream.train(
            store,
            model,
            algo=algo,
            topics=topics,
            passes=passes,
            tol=0.0,
            start="random",
            seed=seed,
            options=options,
            threads=1,
            force=True,
            progress=QUIET,
        )
        made = TopicModel.open(model)
    words = topicstream.evaluate(made, store, heldout=True, split="90/10", threads=1)["heldout"]["perplexity"]
    given = {"withheld": np.nan, "perplexity": np.nan, "xi": np.nan}
    if algo == "rtm":
        given = linked_completion(made, corpus, split=0.9)
    found = link_prediction(made, corpus, theta=counts)
    scores = [found[features][name] for features in ("product", "root") for name in ("f", "auc")]
    return [words, given["withheld"], given["perplexity"], *scores, given["xi"]]


def scale(docs: int, links: int, topics: int, limit: str, passes: int, work: Path) -> None:
    rng = np.random.default_rng(0)
    communities, width = 50, 40
    main = rng.integers(communities, size=docs)
    members = [np.flatnonzero(main == c) for c in range(communities)]
    words = [f"w{w}x" for w in range(20_000)]
    with open(work / "docs.jsonl", "w") as f:
        for d in range(docs):
            own = rng.random(60) < 0.5
            drawn = np.where(own, main[d] * width + rng.integers(width, size=60), rng.integers(20_000, size=60))
            f.write(json.dumps({"id": f"d{d}", "text": " ".join(map(words.__getitem__, drawn))}) + "\n")
    with open(work / "links.tsv", "w") as f:
        for d in range(docs):
            among = rng.choice(members[main[d]], links // docs)
            f.write("".join(f"d{d}\td{e}\n" for e in among))
    heading("Links, made corpus", f"{docs:,} documents, {links:,} links, {topics} topics, limit {limit}; noisy machine")
    run = [sys.executable, "-m", "topicstream.cli.main"]
    env = {**os.environ, "PYTHONPATH": str(Path(topicstream.__file__).parents[1])}
    store, model = ["--out", str(work / "c.zarr")], ["--corpus", str(work / "c.zarr"), "--model", str(work / "m")]
    sizes = ["--mem-limit", limit]
    commands = [
        (
            "ingest",
            [
                *run,
                "ingest",
                str(work / "docs.jsonl"),
                *store,
                "--links",
                str(work / "links.tsv"),
                "--heldout",
                "1%",
                *sizes,
            ],
        ),
        (
            "train",
            [
                *run,
                "train",
                "--algo",
                "rtm",
                "-K",
                str(topics),
                "--passes",
                str(passes),
                "--tol",
                "0",
                "--threads",
                "1",
                *model,
                *sizes,
            ],
        ),
        ("eval --links", [*run, "eval", "--links", "--threads", "1", *model, *sizes]),
        ("show --links", [*run, "show", "--links", "d0", "-n", "5", "--threads", "1", *model, *sizes]),
    ]
    rows = []
    for name, command in commands:
        began = time.monotonic()
        peak = work / "peak"
        done = subprocess.run(
            ["/usr/bin/time", "-f", "%M %U %S", "-o", str(peak), *command], env=env, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(done.stderr)
        kib, user, system = peak.read_text().split()[-3:]
        rows.append(
            (name, f"{time.monotonic() - began:.1f}", f"{float(user) + float(system):.1f}", f"{int(kib) / 1024:.0f}")
        )
        print(done.stderr[-900:], done.stdout, file=sys.stderr)
    table(("command", "seconds", "CPU s", "peak MB"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("cora")
    one.add_argument("--data", type=Path, default=Path(__file__).parents[3] / "shared/data/cora")
    one.add_argument("--topics", default="10,30,50")
    one.add_argument("--folds", type=int, default=5)
    one.add_argument("--passes", type=int, default=60)
    one.add_argument(
        "--only", default=",".join(map(str, range(len(MODELS)))), help="numbers of the models, with their xi 0"
    )
    one.add_argument("--raw", type=Path, help="also write the figures of every fold, as JSON")
    large = kinds.add_parser("scale")
    large.add_argument("--docs", type=int, default=100_000)
    large.add_argument("--links", type=int, default=1_000_000)
    large.add_argument("--topics", type=int, default=20)
    large.add_argument("--limit", default="1G")
    large.add_argument("--passes", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-links-") as work:
        if given.kind == "cora":
            topics, only = ([int(n) for n in value.split(",")] for value in (given.topics, given.only))
            cora(given.data, topics, given.folds, given.passes, Path(work), given.raw, only)
        else:
            scale(given.docs, given.links, given.topics, given.limit, given.passes, Path(work))


if __name__ == "__main__":
    main()
