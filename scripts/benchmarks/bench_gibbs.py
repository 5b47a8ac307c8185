"""Measure the Gibbs samplers: speed beside tomotopy, SparseLDA against GS, cost and memory over
passes, quality.

    python scripts/benchmarks/bench_gibbs.py [speed] [dense] [fall] [width] [quality] --data
    ../shared/data --peers PEERS/bin/python

Prints Markdown.  Every comparison is made in one run on one machine; a pass is timed whole
                  (decoding, sampling, scatter,
statistics, block memory).  FULL=1 takes the full sizes.  --plot FILE draws what ``fall`` measures.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import full, heading, table
from train_quality import QUIET, curve, enwiki, peer

from topicstream import ingest
from topicstream.corpus.reader import Corpus
from topicstream.engines.gibbs import gs
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.rng import bits, step, stream, uniform
from topicstream.training.loop import train

FIXED = {"alpha": 0.1, "beta": 0.01, "learn_priors": False}
MALLET = {
    100: 11.2,
    500: 10.5,
    1000: 7.9,
}  # M tokens/s, 2 threads, measured before on the same articles


def run(
    store: Path, model: Path, algo: str, topics: int, passes: int, **given: Any
) -> list[dict[str, Any]]:
    """Train again; the history's passes."""
    options = {**FIXED, **given.pop("options", {})}
    settings = {
        "tol": 0,
        "threads": 2,
        "start": "random",
        "force": True,
        "progress": QUIET,
        **given,
    }
    train(store, model, algo=algo, topics=topics, passes=passes, options=options, **settings)
    return [
        r
        for r in map(json.loads, (model / "history.jsonl").read_text().splitlines())
        if r["pass"] > 0
    ]


def nips(data: Path, work: Path) -> Path:
    """The NIPS corpus of Yao, Mimno & McCallum 2009's figures (its first 12 volumes)."""
    out = work / "nips12.zarr"
    if not out.exists():
        ingest(data / "nips12" / "docword.txt.gz", out=out, heldout="10%", mem_limit="2G")
    return out


def tomotopy_speed(python: str, store: Path, work: Path, topics: int, passes: int) -> float:
    """tomotopy's tokens a second over its last five passes."""
    peer(python, "tomotopy_lda", store, work, topics, passes, [])
    seconds = json.loads((work / f"tomotopy_lda-{store.stem}-{topics}-1" / "run.json").read_text())[
        "seconds"
    ]
    return float(Corpus.open(store).n_tokens / statistics.median(seconds[-5:]))


def speed(data: Path, work: Path, python: str) -> None:
    """Tokens a second on two threads after 50 passes, beside tomotopy in the same run."""
    store = enwiki(data, work, 10_000 if full() else 1_500)
    rows = []
    passes = 50 if full() else 12
    tokens = Corpus.open(store).n_tokens
    for topics in (100, 500, 1000) if full() else (100, 500):
        began = time.process_time()
        history = run(store, work / "speed", "sparselda", topics, passes)
        cpu = time.process_time() - began
        seconds = [r["seconds"] for r in history]
        ours = tokens / statistics.median(seconds[-5:])
        theirs = tomotopy_speed(python, store, work, topics, passes)
        rows.append(
            [
                topics,
                f"{tokens / seconds[0] / 1e6:.1f}",
                f"{ours / 1e6:.1f}",
                f"{theirs / 1e6:.1f}",
                f"{ours / theirs:.1f}",
                f"{MALLET[topics]}",
                f"{sum(seconds):.0f}",
                f"{cpu:.0f}",
                f"{history[-1]['table_bytes'] / 2**20:.1f}",
            ]
        )
    heading(
        "SparseLDA's speed",
        f"enwiki, {Corpus.open(store).n_docs:,} training articles, {tokens / 1e6:.1f} M tokens; "
        f"M tokens/s on 2 threads, whole passes, "
        f"median of the last 5 of {passes}; alpha 0.1, beta 0.01 fixed; MALLET's figures were "
        f"measured earlier on 10,000 articles",
    )
    columns = [
        "K",
        "first pass",
        f"after {passes}",
        "tomotopy",
        "ratio",
        "MALLET (earlier)",
        "s, all passes",
        "CPU s with compiling",
        "table MB",
    ]
    table(columns, rows)


@kernel
def plain(
    indptr, words, counts, z, rows, n_t, alpha, beta, mass, seed, pass_number, first_doc, n_td, sums
):
    """The conditional as a textbook writes it: all topics, one after the other, a division each."""
    topics = len(alpha)
    i = np.int64(0)
    for d in range(len(indptr) - 1):
        n_td[:] = 0
        j = i
        for c in range(indptr[d], indptr[d + 1]):
            for _ in range(counts[c]):
                n_td[z[j]] += 1
                j += 1
        state = stream(seed, pass_number, first_doc + d)
        for c in range(indptr[d], indptr[d + 1]):
            u = words[c]
            for _ in range(counts[c]):
                old = z[i]
                rows[u, old] -= 1
                n_t[old] -= 1.0
                n_td[old] -= 1
                total = 0.0
                for t in range(topics):
                    total += (alpha[t] + n_td[t]) * (beta + rows[u, t]) / (mass + n_t[t])
                    sums[t] = total
                state = step(state)
                x = uniform(bits(state)) * total
                new = 0
                while sums[new] <= x:
                    new += 1
                rows[u, new] += 1
                n_t[new] += 1.0
                n_td[new] += 1
                z[i] = new
                i += 1


def scalar(
    indptr,
    words,
    counts,
    z,
    rows,
    n_t,
    coef,
    sums,
    alpha,
    beta,
    mass,
    seed,
    number,
    first,
    n_td,
    topics,
    bins,
    lengths,
    found,
):
    """``plain`` in the place of GS's sweep; counts its tokens, has no other statistics."""
    plain(
        indptr,
        words,
        counts,
        z,
        rows,
        n_t,
        alpha,
        beta,
        mass,
        seed,
        number,
        first,
        n_td,
        np.empty(len(alpha)),
    )
    found[:] = 0.0
    found[5], found[8] = len(indptr) - 1, counts.sum()
    lengths[:] = 0.0


def dense(data: Path, work: Path, python: str) -> None:
    """SparseLDA against a vectorised and a plain scalar GS at the same number of passes."""
    store = nips(data, work)
    topics = 800
    passes = 50 if full() else 8
    tokens = Corpus.open(store).n_tokens
    found = {}
    vectorised = gs.sweep
    for name, algo, sweep in (
        ("SparseLDA", "sparselda", vectorised),
        ("GS, vectorised", "gs", vectorised),
        ("GS, plain scalar", "gs", scalar),
    ):
        gs.sweep = sweep
        try:
            found[name] = run(store, work / "dense", algo, topics, passes)
        finally:
            gs.sweep = vectorised
    rows = []
    fastest = statistics.median(r["seconds"] for r in found["SparseLDA"][-3:])
    for name, history in found.items():
        seconds = statistics.median(r["seconds"] for r in history[-3:])
        rows.append(
            [
                name,
                f"{history[0]['seconds']:.2f}",
                f"{seconds:.2f}",
                f"{tokens / seconds / 1e6:.2f}",
                f"{seconds / fastest:.1f}",
            ]
        )
    heading(
        "SparseLDA against GS", f"nips12, K = {topics}, {passes} passes, 2 threads, whole passes"
    )
    table(
        ["sampler", "first pass, s", f"pass {passes}, s", "M tokens/s", "times SparseLDA's"], rows
    )


def fall(data: Path, work: Path, python: str, plot: Path | None) -> None:
    """Seconds a pass and table size as the likelihood rises (the paper's Fig. 2)."""
    store = nips(data, work)
    history = run(store, work / "fall", "sparselda", 800, 100 if full() else 15)
    shown = [r for r in history if r["pass"] in (1, 2, 3, 5, 10, 15, 20, 30, 50, 75, 100)]
    heading("Cost and memory fall as the likelihood rises", "nips12, K = 800, SparseLDA, 2 threads")
    columns = [
        "pass",
        "s",
        "log p(w, z) a token",
        "table MB",
        "topics a word",
        "topics a document",
        "q",
        "r",
        "s (bucket)",
    ]
    table(
        columns,
        [
            [
                r["pass"],
                f"{r['seconds']:.3f}",
                f"{r['joint_loglik_per_token']:.3f}",
                f"{r['table_bytes'] / 2**20:.2f}",
                f"{r['topics_per_word']:.1f}",
                f"{r['topics_per_document']:.1f}",
                f"{r['draws_q']:.4f}",
                f"{r['draws_r']:.4f}",
                f"{r['draws_s']:.5f}",
            ]
            for r in shown
        ],
    )
    if plot is not None:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(1, 2, figsize=(10, 4))
        for axis, key, label, scale in (
            (axes[0], "seconds", "seconds a pass", 1),
            (axes[1], "table_bytes", "table, MB", 2**20),
        ):
            axis.plot([r["pass"] for r in history], [r[key] / scale for r in history])
            axis.set(xlabel="pass", ylabel=label, ylim=(0, None))
            other = axis.twinx()
            other.plot(
                [r["pass"] for r in history], [r["joint_loglik_per_token"] for r in history], "r--"
            )
            other.set_ylabel("log p(w, z) a token")
        figure.tight_layout()
        figure.savefig(plot)


def width(data: Path, work: Path, python: str) -> None:
    """What rounds wider than one block cost in quality."""
    store = nips(data, work)
    rows = []
    for blocks in (1, 4, 8, 16):
        scores = [
            run(
                store,
                work / "width",
                "sparselda",
                100,
                100 if full() else 20,
                seed=s,
                round_blocks=blocks,
                eval_every=20,
            )[-1]
            for s in range(3 if full() else 1)
        ]
        rows.append(
            [
                blocks,
                f"{statistics.mean(r['heldout_perplexity'] for r in scores):.1f}",
                f"{statistics.mean(r['joint_loglik_per_token'] for r in scores):.4f}",
            ]
        )
    heading(
        "Width of a round",
        "nips12, K = 100, blocks that do not see each other's moves; 1 is the exact sampler",
    )
    table(["blocks a round", "held-out perplexity", "log p(w, z) a token"], rows)


def quality(data: Path, work: Path, python: str) -> None:
    """Held-out perplexity after the same passes with the same priors as tomotopy."""
    rows = []
    seeds = range(3 if full() else 1)
    stores = [nips(data, work), *([enwiki(data, work)] if full() else [])]
    for store in stores:
        passes = (500 if store.stem == "nips12" else 100) if full() else 30
        ours = [
            curve(store, work / "q", "sparselda", 100, passes, passes, s, learn_priors=False)[-1][2]
            for s in seeds
        ]
        theirs = [
            peer(python, "tomotopy_lda", store, work, 100, passes, [], s + 1)[-1][2] for s in seeds
        ]
        a = statistics.mean(ours)
        b = statistics.mean(theirs)
        rows.append([store.stem, passes, f"{a:.1f}", f"{b:.1f}", f"{100 * (a / b - 1):+.2f} %"])
    heading(
        "Quality",
        f"held-out perplexity, K = 100, alpha 0.1, beta 0.01 fixed, mean of {len(seeds)} seeds, "
        f"last state of the chain",
    )
    table(["corpus", "passes", "SparseLDA", "tomotopy", "difference"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=["speed", "dense", "fall", "width", "quality"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--peers", default=os.environ.get("PEERS", sys.executable))
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        for what in args.what:
            if what == "fall":
                fall(args.data, work, args.peers, args.plot)
            elif what in ("speed", "dense", "width", "quality"):
                {"speed": speed, "dense": dense, "width": width, "quality": quality}[what](
                    args.data, work, args.peers
                )
            else:
                parser.error(f"unknown measurement {what}")


if __name__ == "__main__":
    main()
