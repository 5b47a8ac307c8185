"""Topics from pairs of words: how well they are found, and in what processor time.

    python scripts/benchmarks/bench_moments.py synthetic --work WORK        T = 20, V = 250, 50,000
    documents of 30 tokens (published test)
    python scripts/benchmarks/bench_moments.py tables --work WORK --corpus acl.zarr       Fisher,
    Kozdoba & Mannor, Tables 2 and 3 (Table 1: bench_recovery.py)
    python scripts/benchmarks/bench_moments.py size --work WORK --corpus big.zarr -K 100  anchors on
    a corpus of make_corpus.py
    python scripts/benchmarks/bench_moments.py dense --work WORK --corpus kos.zarr -K 20   anchors
    beside the dense matrix's (nothing held out)
    python scripts/benchmarks/bench_moments.py growth --work WORK           anchors' error against
    the number of documents

Errors are the mean l1 distance of matched topics (0 the same, 2 apart).  Lines are Markdown table
rows for BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix, diags, vstack

import topicstream
from topicstream.corpus.reader import Corpus
from topicstream.model.topic_model import TopicModel

METHOD = {"refine": 0}  # anchors as published


def drawn(
    phi: np.ndarray, docs: int, length: int, alpha: float, seed: int
) -> tuple[csr_matrix, np.ndarray]:
    """Counts [docs, W]: theta ~ Dir(alpha), so many tokens a document; and what the topics
    themselves gave, [K, W].
    """
    rng = np.random.default_rng(seed)
    topics, words = phi.shape
    edges = np.cumsum(rng.dirichlet(np.full(topics, alpha), docs), 1)
    place = rng.random((docs, length, 1))
    z = np.concatenate(
        [
            (place[d : d + 1000] > edges[d : d + 1000, None, :-1]).sum(2)
            for d in range(0, docs, 1000)
        ]
    )
    w = np.empty((docs, length), np.int64)
    for k in range(topics):
        own = z == k
        w[own] = rng.choice(words, int(own.sum()), p=phi[k] / phi[k].sum())
    rows = np.repeat(np.arange(docs), length)
    counts = np.bincount(z.ravel() * words + w.ravel(), minlength=topics * words).reshape(
        topics, words
    )
    return csr_matrix((np.ones(docs * length, np.int64), (rows, w.ravel())), (docs, words)), counts


def probabilities(model: TopicModel, words: int = 0) -> np.ndarray:
    """p(w | k), [K, W]; word v of a drawn corpus of so many words is called wv."""
    p = model.probabilities(np.arange(model.n_words)).T
    if not words:
        return p
    found = np.zeros((len(p), words), p.dtype)
    found[:, [int(str(name)[1:]) for name in model.words]] = p
    return found


def matched(phi: np.ndarray, found: np.ndarray) -> np.ndarray:
    """l1 distances of topics matched so that their sum is least."""
    cost = np.stack([np.abs(row - found).sum(1) for row in phi])
    return cost[linear_sum_assignment(cost)]


def error(phi: np.ndarray, model: Path) -> tuple[float, int]:
    """Mean matched l1 distance, and topics further than half of what two true topics are apart."""
    distances = matched(phi, probabilities(TopicModel.open(model), phi.shape[1]))
    return float(distances.mean()), int((distances > 0.9).sum())


def train(
    corpus: Path, model: Path, algo: str, topics: int, options: dict[str, Any], **given: Any
) -> tuple[float, dict]:
    """Processor seconds of a training in a process of its own (its start included), and its
    result.
    """
    code = (
        "import json, sys; import topicstream; g = json.loads(sys.argv[1]); "
        "d = topicstream.train(progress=False, **g); print(json.dumps([d.passes, d.reason, "
        "dict(d.last)]))"
    )
    told = {
        "corpus": str(corpus),
        "model": str(model),
        "algo": algo,
        "topics": topics,
        "options": options,
        "force": True,
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(told | {"threads": 1} | given)],
        capture_output=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr)
    passes, reason, last = json.loads(done.stdout.splitlines()[-1])
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, {"passes": passes, "reason": reason, **last}


def ingest(x: csr_matrix, out: Path) -> Path:
    """A store of these counts; word v is called wv."""
    if not out.exists():
        words = [f"w{v}" for v in range(x.shape[1])]
        topicstream.ingest(x, out, vocabulary=words, heldout="1%", progress=False)
    return out


def synthetic(args: argparse.Namespace) -> None:
    rng = np.random.default_rng(args.seed)
    phi = rng.dirichlet(np.full(250, 10 / 250), 20)
    corpus = ingest(
        drawn(phi, 50_000, 30, 1 / 20, args.seed + 1)[0], args.work / f"synthetic-{args.seed}.zarr"
    )
    print("| engine | l1 error | missed of 20 | passes | processor s |\n|---|---|---|---|---|")
    for name, algo, options, given in [
        ("anchors", "anchors", METHOD, {}),
        ("anchors --min-docs 500", "anchors", METHOD | {"min_docs": 500}, {}),
        ("fdm (defaults)", "fdm", {}, {}),
        ("fdm --start documents", "fdm", {}, {"start": "documents", "passes": 200, "tol": 0}),
        ("sparse-bp", "sparse-bp", {"alpha": 0.05}, {}),
    ]:
        model = args.work / "model"
        seconds, last = train(corpus, model, algo, 20, options, **given)
        mean, missed = error(phi, model)
        print(f"| {name} | {mean:.3f} | {missed} | {last['passes']} | {seconds:.1f} |", flush=True)


def tables(args: argparse.Namespace) -> None:
    """Log-likelihood a token of the documents set aside (whole, and by completion of 80/20), UMass
    and NPMI of ten words; how far topics of the engines are from each other's and from the mean
    topic (Fig. 2b)."""
    print(
        "| engine | whole documents | completion | UMass | NPMI | processor s "
        "|\n|---|---|---|---|---|---|"
    )
    beta = 0.01
    mean = None
    found = {}
    for name, algo, options, given in [
        ("sparselda", "sparselda", {}, {"passes": args.passes}),
        ("sparse-bp", "sparse-bp", {}, {}),
        ("anchors", "anchors", METHOD, {}),
        ("fdm", "fdm", {}, {"passes": args.em}),
    ]:
        model = args.work / "model"
        seconds, _ = train(
            args.corpus,
            model,
            algo,
            args.topics,
            {"beta": beta, **options},
            seed=args.seed,
            **given,
        )
        r = topicstream.evaluate(
            model, args.corpus, heldout=True, whole=True, coherent=True, threads=1, progress=False
        )
        mean = mean or r["coherence"]
        found[name] = probabilities(TopicModel.open(model))
        told = [
            -r["whole"]["nats_per_token"],
            -r["heldout"]["nats_per_token"],
            r["coherence"]["umass"],
            r["coherence"]["npmi"],
        ]
        print(f"| {name} | {' | '.join(f'{x:.3f}' for x in told)} | {seconds:.0f} |", flush=True)
    assert mean is not None
    print(
        f"| the mean topic | | | {mean['umass_mean_topic']:.3f} | {mean['npmi_mean_topic']:.3f} | |"
    )
    ours = found["fdm"]
    empirical = Corpus.open(args.corpus).word_counts()
    empirical /= empirical.sum()
    spread = {f"fdm to {name}": matched(ours, p) for name, p in found.items() if p is not ours}
    spread |= {
        f"{name} to the mean topic": np.abs(p - empirical).sum(1) for name, p in found.items()
    }
    edges = np.arange(0, 2.01, 0.2)
    print(
        "\n| distance up to | "
        + " | ".join(f"{edge:.1f}" for edge in edges[1:])
        + " | mean |\n"
        + "|---" * (len(edges) + 1)
        + "|"
    )
    for name, distances in spread.items():
        print(
            f"| {name} | "
            + " | ".join(map(str, np.histogram(distances, edges)[0]))
            + f" | {distances.mean():.2f} |"
        )


def size(args: argparse.Namespace) -> None:
    began = time.monotonic()
    seconds, last = train(
        args.corpus, args.work / "model", "anchors", args.topics, METHOD, mem_limit="2G", threads=2
    )
    peak = last["rss_peak_bytes"] / 2**20
    print(
        f"anchors, K = {args.topics}: {seconds:.0f} processor s, {time.monotonic() - began:.0f} "
        f"s by the clock, peak {peak:.0f} MB"
    )


def growth(args: argparse.Namespace) -> None:
    """Error against the number of documents, each topic with a planted anchor (Fisher, Kozdoba &
    Mannor, Theorem 4.2).
    """
    rng = np.random.default_rng(args.seed)
    phi = np.hstack([0.05 * np.eye(20), 0.95 * rng.dirichlet(np.full(230, 10 / 250), 20)])
    print(
        "| documents | l1 error | times the root of documents | missed of 20 | processor s "
        "|\n|---|---|---|---|---|"
    )
    for docs in (1_000, 4_000, 16_000, 64_000):
        corpus = ingest(
            drawn(phi, docs, 30, 1 / 20, args.seed + docs)[0],
            args.work / f"growth-{docs}-{args.seed}.zarr",
        )
        seconds, _ = train(corpus, args.work / "model", "anchors", 20, METHOD)
        mean, missed = error(phi, args.work / "model")
        print(
            f"| {docs:,} | {mean:.3f} | {mean * docs**0.5:.1f} | {missed} | {seconds:.1f} |",
            flush=True,
        )


def dense(args: argparse.Namespace) -> None:
    """Anchor words with the matrix itself, W x W numbers, step by step as Arora et al.

    2013 and ankura have them.
    """
    from scipy.optimize import nnls

    from topicstream.addons.moments.anchors import PROJECTION
    from topicstream.addons.moments.cooccurrence import draw_signs

    model = args.work / "model"
    train(args.corpus, model, "anchors", args.topics, METHOD | {"min_tokens": 2})
    ours = TopicModel.open(model)
    corpus = Corpus.open(args.corpus)
    blocks = [
        (b.indptr, b.vocab[b.words], b.counts.astype(np.float64)) for b in corpus.blocks(prefetch=0)
    ]
    n = corpus.n_words
    parts = [csr_matrix((counts, words, ptr), (len(ptr) - 1, n)) for ptr, words, counts in blocks]
    length = np.concatenate([np.asarray(x.sum(1)).ravel() for x in parts])
    x = vstack(parts).tocsr()[length >= 2]
    length = length[length >= 2]
    weighted = diags(1 / (length - 1)) @ x
    m = (x.T @ weighted).toarray() - np.diag(np.asarray(weighted.sum(0)).ravel())  # eq. 9
    p = m.sum(1)
    q = m / p[:, None]
    signs = draw_signs(0, np.arange(n, dtype=np.int32), PROJECTION)
    r = np.zeros((n, PROJECTION))
    np.put_along_axis(r, signs.column, signs.value, axis=1)
    docs = np.asarray((x > 0).sum(0)).ravel()
    names = np.flatnonzero(docs >= max(2, int(corpus.n_docs * min(1 / args.topics, 0.05))))
    rows = (m[names] @ r) / p[names, None]
    picked = [int(np.argmax((rows**2).sum(1)))]
    rest = rows - rows[picked[0]]
    while len(picked) < args.topics:
        picked.append(int(np.argmax((rest**2).sum(1))))
        direction = rest[picked[-1]] / np.linalg.norm(rest[picked[-1]])
        rest = rest - np.outer(rest @ direction, direction)
    anchors = names[picked]
    same = int((anchors == ours.table("anchors").gather(np.arange(1))[0]).sum())
    basis, triangle = np.linalg.qr(q[anchors].T)
    heavy = 1e4 * np.abs(triangle).max()  # of the sum to one, beside the squares
    left = np.vstack([triangle, np.full(args.topics, heavy)])
    c = np.stack([nnls(left, np.append(basis.T @ row, heavy), maxiter=10_000)[0] for row in q])
    c[anchors] = np.eye(args.topics)
    theirs = c * p[:, None]
    theirs /= theirs.sum(0)
    counts = ours.rows(np.arange(n))[:, : args.topics].astype(np.float64)
    mine = counts / counts.sum(0)
    apart = np.abs(mine - theirs)
    print(
        f"{n:,} words, K = {args.topics}: {same} of {args.topics} anchors the same; p(w|k) "
        f"apart at most {apart.max():.1e}, "
        f"l1 of a topic at most {apart.sum(0).max():.1e}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["synthetic", "size", "dense", "growth", "tables"])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("-K", "--topics", type=int, default=100)
    parser.add_argument("--passes", type=int, default=200, help="of sparselda")
    parser.add_argument("--em", type=int, default=20, help="passes of fdm")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    made = {f.__name__: f for f in (synthetic, size, dense, growth, tables)}
    made[given.what](given)
