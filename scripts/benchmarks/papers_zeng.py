"""Tables of Zeng, Cheung and Liu, and of Zeng, Liu and Cao (papers.py)."""

from __future__ import annotations

import argparse
import contextlib
import time
from pathlib import Path
from typing import Any

import numpy as np
from paper_tools import fit, head, line, spread, store
from scipy.sparse import csr_matrix, vstack

import topicstream
from topicstream.addons.views.intrusion import IntrusionView
from topicstream.base.progress import Silent
from topicstream.corpus.reader import Corpus
from topicstream.engines import find
from topicstream.training.setup import default_start, shape_of


class Enough(Exception):
    """So many processor seconds are over."""


class Clock(Silent):
    """Processor seconds and held-out perplexity of every pass."""

    def __init__(self, most: float = np.inf) -> None:
        self.at = [time.process_time()]
        self.most = most
        self.heldout: list[float | None] = []

    def end_pass(self, record: Any, passes: int) -> None:
        self.at.append(time.process_time())
        self.heldout.append(record["heldout_perplexity"])
        if self.at[-1] - self.at[0] > self.most:
            raise Enough


def stream(a: argparse.Namespace) -> None:
    """Held-out perplexity against processor seconds, pass by pass, alpha = 2/K and beta = 0.01."""
    head("engine", "passes", "processor s: held-out perplexity")
    for algo in a.only or ("atbp", "stbp", "ovb"):
        clock = Clock(a.seconds)
        options = {"algo": algo, "alpha": 2 / a.topics, "beta": 0.01}
        with contextlib.suppress(Enough):
            settings: dict[str, Any] = {
                "topics": a.topics,
                "tol": 0.0,
                "eval_every": 1,
                "passes": 500,
            }
            fit(a.store, a.work / f"stream-{algo}", options, **settings, progress=clock)
        points = [
            f"{at - clock.at[0]:.0f}: {low:.0f}"
            for at, low in zip(clock.at[1:], clock.heldout)
            if low
        ]
        line(algo, len(points), ", ".join(points))


# -- belief propagation
# --------------------------------------------------------------------------------------------------
ENGINES: dict[str, dict[str, Any]] = {
    "bp sync": {"algo": "bp", "schedule": "sync"},
    "bp async": {"algo": "bp"},
    "cvb0": {"algo": "cvb0"},
    "sibp": {"algo": "sibp"},
    "atbp": {"algo": "atbp"},
    "stbp": {"algo": "stbp"},
    "vb point": {"algo": "vb", "phi": "point"},
    "vb": {"algo": "vb"},
    "mvi L=8": {"algo": "mvi"},
    "sparse-bp": {"algo": "sparse-bp"},
    "sparse-bp, the paper's update": {
        "algo": "sparse-bp",
        "message_bits": "32",
        "step": 1.0,
        "band": -1.0,
        "learn_priors": False,
    },
}


def engines(a: argparse.Namespace) -> None:
    """Held-out perplexity of halves, mean and spread over seeds."""
    for name in a.corpora:
        corpus = store(a, name, "50%")
        head("engine", "passes", "held-out perplexity, folded in by BP", "by VB", "processor s")
        for engine in a.only or ENGINES:
            runs = np.array(
                [
                    halves(a, corpus, a.work / "halves", ENGINES[engine], seed)
                    for seed in range(a.runs)
                ]
            )
            line(engine, *(spread(column) for column in runs[:, :3].T), f"{runs[:, 3].mean():.1f}")


FROM_BEST = ("bp async", "atbp", "vb point", "vb", "mvi L=8", "sparse-bp")


def starts(a: argparse.Namespace) -> None:
    """Held-out perplexity of halves by start, the engine's own in bold: by BP, by VB, passes."""
    corpus = store(a, a.corpora[0], "50%")
    names = ("documents", "best", "random")
    head("engine", *(cell for name in names for cell in (f"`{name}`", "by VB", "passes")))
    for engine in a.only or ENGINES:
        kind = find(ENGINES[engine]["algo"])
        shape = shape_of(Corpus.open(corpus), a.topics)
        own = default_start(kind(shape, kind.Options()))
        cells: list[str] = []
        for name in names:
            if name == "best" != own and engine not in FROM_BEST:
                cells += ["", "", ""]
                continue
            a.start = name
            runs = np.array(
                [
                    halves(a, corpus, a.work / "starts", ENGINES[engine], seed)
                    for seed in range(a.runs)
                ]
            )
            made, by_bp, by_vb = (spread(column) for column in runs[:, :3].T)
            cells += [f"**{by_bp}**" if name == own else by_bp, by_vb, made]
        line(engine, *cells)


def halves(
    a: argparse.Namespace, corpus: Path, model: Path, engine: dict[str, Any], seed: int
) -> list[float]:
    """Passes, perplexity folded in by BP and by VB, processor seconds of one training."""
    options = (
        engine
        | {"alpha": 2 / a.topics, "beta": 0.01}
        | ({"sparsity": a.topics} if "step" in engine else {})
    )
    begin = time.process_time()
    done = fit(
        corpus, model, options, topics=a.topics, tol=1.0, passes=200, start=a.start, seed=seed
    )
    seconds = time.process_time() - begin
    scores = [
        topicstream.evaluate(model, corpus, heldout=True, fold_in=way, threads=1, progress=False)[
            "heldout"
        ]["perplexity"]
        for way in ("bp", "vb")
    ]
    return [done.passes, *scores, seconds]


FOLDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bp": ({"algo": "bp", "learn_priors": False}, {"passes": 100, "tol": 1.0}),
    "vb": ({"algo": "vb"}, {"passes": 100, "tol": 1.0}),
    "vb point": ({"algo": "vb", "phi": "point"}, {"passes": 100, "tol": 1.0}),
    "gs": ({"algo": "gs", "learn_priors": False}, {"passes": 300, "tol": 0.0}),
}


SMALL = {"alpha": 0.01, "beta": 0.01}


def matrix(path: Path) -> Any:
    """Counts of the training documents [D, W]."""
    corpus = Corpus.open(path)
    parts = [
        (b.indptr, b.vocab[b.words], b.counts.astype(np.float64)) for b in corpus.blocks(prefetch=0)
    ]
    return vstack(
        [csr_matrix((c, w, p), (len(p) - 1, corpus.n_words)) for p, w, c in parts]
    ).tocsr()


def folds(a: argparse.Namespace) -> None:
    """Held-out perplexity (document completion, 80/20, folded in by BP) by number of topics, mean
    and spread over folds.
    """
    x = matrix(store(a, a.corpora[0], "0"))
    fold = np.random.default_rng(0).permutation(x.shape[0]) % 10
    words = [f"w{v}" for v in range(x.shape[1])]
    train = a.work / "fold.zarr"
    test = a.work / "fold-test.zarr"
    model = a.work / "fold-model"
    found: dict[tuple[str, int], list[float]] = {}
    spent = dict.fromkeys(FOLDS, 0.0)
    for n in range(a.folds):
        for path, part in ((train, x[fold != n]), (test, x[fold == n])):
            topicstream.ingest(part, path, vocabulary=words, force=True, progress=False)
        for name in a.only or FOLDS:
            options, settings = FOLDS[name]
            for k in a.by:
                begin = time.process_time()
                fit(train, model, SMALL | options, topics=k, start=a.start, **settings)
                spent[name] += time.process_time() - begin
                scored = topicstream.evaluate(
                    model, train, heldout=test, threads=1, progress=False
                )["heldout"]
                found.setdefault((name, k), []).append(scored["perplexity"])
    head("engine", *(f"K = {k}" for k in a.by), "processor s")
    for name in a.only or FOLDS:
        line(name, *(spread(found[name, k]) for k in a.by), f"{spent[name]:.0f}")


def intrusion(a: argparse.Namespace) -> None:
    """Word intrusion (Chang et al. 2009): sheets of every engine, and how many questions a machine
    answers right, which takes the word whose mean NPMI with the other five is least (Lau, Newman
    and Baldwin 2014)."""
    corpus = store(a, a.corpora[0], "0")
    x = matrix(corpus)
    x.data[:] = 1
    ids = {w: i for i, w in enumerate(Corpus.open(corpus).words.to_pylist())}
    head("engine", "questions", "right")
    for name, (options, settings) in FOLDS.items():
        model = a.work / "intrusion"
        fit(corpus, model, SMALL | options, topics=a.topics, **settings)
        right = []
        for seed in range(a.runs):
            for row in IntrusionView(model, intrusion="words", seed=seed).table.to_pylist():
                own = x[:, [ids[row[f"word_{n}"]] for n in range(1, 7)]]
                both = np.maximum((own.T @ own).toarray() / x.shape[0], 1e-12)
                single = np.diagonal(both)
                npmi = np.log(both / np.outer(single, single)) / -np.log(both)
                np.fill_diagonal(npmi, 0)
                right.append(npmi.sum(1).argmin() + 1 == row["place"])
        line(name, len(right), f"{np.mean(right):.0%}")
