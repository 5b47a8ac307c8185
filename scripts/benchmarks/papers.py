"""The tables of docs/reproduce, made with our own commands, printed as Markdown.

    python scripts/benchmarks/papers.py streaming --data ../shared/data --work FOLDER [--topics 70 --passes 300 --burn 50 --sweeps 30 --documents 130]
    python scripts/benchmarks/papers.py starts    --data ../shared/data --work FOLDER --corpora nips12 kos --runs 3 [--topics 70 --passes 300]
    python scripts/benchmarks/papers.py drift     --data ../shared/data --work FOLDER [--until 2010 --most 60]
    python scripts/benchmarks/papers.py windows   --data ../shared/data --work FOLDER [--each 1800 --most 150]
    python scripts/benchmarks/papers.py months    --data ../shared/data --work FOLDER [--most 150]
    python scripts/benchmarks/papers.py share     --data ../shared/data --work FOLDER [--most 150 --passes 200]
    python scripts/benchmarks/papers.py features  --data ../shared/data --work FOLDER
    python scripts/benchmarks/papers.py inputs    --data ../shared/data --work FOLDER [--corpora kos nips12 --most 200]
    python scripts/benchmarks/papers.py topics    --data ../shared/data --work FOLDER [--by 10 20 50 100 200]
    python scripts/benchmarks/papers.py passes    --data ../shared/data --work FOLDER [--by 50 100 200 400 800 --runs 5]
    python scripts/benchmarks/papers.py stream    --data ../shared/data --work FOLDER --store STORE [--topics 100 --seconds 480]
    python scripts/benchmarks/papers.py document  --data ../shared/data --work FOLDER
    python scripts/benchmarks/papers.py engines   --data ../shared/data --work FOLDER [--corpus kos --topics 50 --start documents --runs 3]
    python scripts/benchmarks/papers.py folds     --data ../shared/data --work FOLDER [--corpus cora --folds 5]
    python scripts/benchmarks/papers.py intrusion --data ../shared/data --work FOLDER [--corpus nips12 --topics 50 --runs 5]

streaming: Yao, Mimno and McCallum 2009, Figs. 3, 4 and 6: NIPS, 7:3, every method of inference against Gibbs2.
starts:    the same, Fig. 3: variational EM from all topics alike and from the prior, beside the fast methods, several seeds.
drift:     the same, Fig. 9: abstracts of the ACL Anthology up to a year, the classifier on the years after it.
windows:   the same, Fig. 9: so many abstracts of a year from 2016 on, alone and with the years up to 2022; asked about 2023.
months:    the same on Reuters-21578: trained up to 15 March 1987, asked month by month.
share:     the same, Fig. 8: `train --sample` of 10 to 70 % of the abstracts, asked about the same others and about the rest.
features:  the classifier on counts, on frequencies and on counts of words and of pairs of neighbours, one optimiser for all.
inputs:    `topics classifier --features counts`, `frequency` and `root` on several corpora, against Gibbs2.
topics:    the same, Fig. 7: every method against the number of topics (--passes, --burn, --sweeps, --documents as for streaming).
passes:    the same, Fig. 2: seconds a pass and memory of sparselda over the run and by the number of topics, and gs.
document:  the same, Table 1: the five largest topics of one document, by Gibbs1, MaxEnt and bp (after streaming).
folds:     Zeng, Cheung and Liu, Figs. 9 and 10: folds of a tenth, BP, VB and Gibbs sampling, alpha = beta = 0.01.
stream:    Zeng, Liu and Cao, Fig. 8: aTBP, sTBP and OVB over time on a store with documents set aside.
intrusion: Zeng, Cheung and Liu: sheets of word intrusion by BP, VB and Gibbs sampling, answered by co-occurrence.
engines:   Zeng, Liu and Cao: halves of a corpus, every engine from its own start or one for all, with alpha = 2/K and beta = 0.01 and the papers' own flags.

What is there in FOLDER is used again.  Seconds are of the process on one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import random
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, diags, vstack

import topicstream
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.likeness import cosine, divergence, f1
from topicstream.model.topic_model import TopicModel
from topicstream.progress import Silent
from topicstream.reporting.comparing import method_lines
from topicstream.reporting.drift import drift_lines
from topicstream.reporting.intrusion import word_intrusion


def nips(a: argparse.Namespace, model: Path, topics: int) -> Path:
    """The store of NIPS, 7:3, and a model of it with its classifier, made where they are not there."""
    corpus, begin = a.work / "nips.zarr", time.process_time()
    if not corpus.exists():
        topicstream.ingest([a.data / "nips12" / "docword.txt.gz"], corpus, heldout="30%", progress=False)
    if not (model / "finished.json").exists():
        topicstream.train(
            corpus, model, algo="sparselda", topics=topics, passes=a.passes, tol=0.0, threads=1, progress=False
        )
        print(f"training: {a.passes} sweeps of {topics} topics, {time.process_time() - begin:.0f} s of processor")
    if not (model / "classifier.json").exists():
        found = topicstream.train_classifier(model, corpus, threads=1, progress=False)
        print(
            f"classifier: {json.dumps({k: found[k] for k in ('passes', 'converged', 'divergence', 'temperature', 'seconds')})}"
        )
    return corpus


def streaming(a: argparse.Namespace) -> None:
    """The table of methods."""
    model = a.work / f"nips{a.topics}"
    result = topicstream.compare_methods(
        model, nips(a, model, a.topics), methods=a.methods, reference=a.reference, documents=a.documents, burn=a.burn, sweeps=a.sweeps,
        progress=False,
    )  # fmt: skip
    (a.work / f"streaming-{a.reference}.json").write_text(json.dumps(result, indent=1))
    print("\n".join(method_lines(result)))


def starts(a: argparse.Namespace) -> None:
    """Variational EM from both its starts beside the fast methods, against Gibbs2: mean and spread over models of other seeds."""
    names = ("bp", "vb-point", "vb-prior", "gibbs2.s", "gibbs3.s", "maxent", "hybrid")
    print("| corpus | method | cosine | KL | F1 at 0.8 | held-out perplexity |\n|---|---|---|---|---|---|")
    for corpus in a.corpora:
        store = a.work / f"{corpus}-7-3.zarr"
        if not store.exists():
            topicstream.ingest([a.data / corpus / "docword.txt.gz"], store, heldout="30%", progress=False)
        found: dict[str, list[list[float]]] = {}
        for seed in range(a.runs):
            model = a.work / f"{corpus}-starts-{seed}"
            if not (model / "classifier.json").exists():
                given = {"passes": a.passes, "tol": 0.0, "threads": 1, "force": True, "seed": seed, "progress": False}
                topicstream.train(store, model, algo="sparselda", topics=a.topics, **given)
                topicstream.train_classifier(model, store, threads=1, progress=False)
            result = topicstream.compare_methods(
                model, store, methods=",".join(names), documents=a.documents, burn=a.burn, sweeps=a.sweeps, seed=seed,
                progress=False,
            )  # fmt: skip
            for r in [*result["methods"], {**result["ceiling"], "name": "gibbs2, next seed"}]:
                found.setdefault(r["name"], []).append([r[k] for k in ("cosine", "divergence", "f1", "perplexity")])
        for name, rows in found.items():
            cells = [_spread(column, digits) for column, digits in zip(np.array(rows).T, (3, 3, 3, 0))]
            print(f"| {corpus} | {name} | {' | '.join(cells)} |", flush=True)


def drift(a: argparse.Namespace) -> None:
    """Words seen and quality by year."""
    old, new = a.work / "old.jsonl", a.work / "new.jsonl"
    if not new.exists():
        with gzip.open(a.data / "acl" / "docs.jsonl.gz", "rt") as f, open(old, "w") as before, open(new, "w") as after:
            for line in f:
                year = int(json.loads(line)["date"][:4])
                (before if year <= a.until else after).write(line)
    corpus, model = a.work / "old.zarr", a.work / "old"
    if not corpus.exists():
        topicstream.ingest([old], corpus, heldout="5%", meta={"date": "date"}, max_vocab=20_000)
    if not (model / "finished.json").exists():
        topicstream.train(corpus, model, algo="sparse-bp", topics=50, passes=20, threads=1)
    if not (model / "classifier.json").exists():
        topicstream.train_classifier(model, corpus, passes=60, threads=1)
    result = topicstream.drift(model, new, by="date", period="year", corpus=corpus, most=a.most, burn=30, sweeps=20)
    (a.work / "drift.json").write_text(json.dumps(result, indent=1))
    print("\n".join(drift_lines(result)))


YEARS = range(2016, 2023)


def dated(a: argparse.Namespace, name: str) -> list[dict[str, Any]]:
    """The documents of a corpus that have a date."""
    with gzip.open(a.data / name / "docs.jsonl.gz", "rt") as f:
        return [d for d in map(json.loads, f) if d.get("date")]


def answers(
    a: argparse.Namespace, name: str, docs: list[dict[str, Any]], asked: list[dict[str, Any]], period: str, **kept: Any
) -> list[dict[str, Any]]:
    """A model and its classifier of these documents, and how they answer others, period by period."""
    old, new, corpus, model = (a.work / f"{name}{end}" for end in ("-old.jsonl", "-new.jsonl", ".zarr", ""))
    for path, part in ((old, docs), (new, asked)):
        path.write_text("".join(json.dumps(d) + "\n" for d in part))
    topicstream.ingest([old], corpus, meta={"date": "date"}, force=True, progress=False, **kept)
    topicstream.train(
        corpus, model, algo="sparse-bp", topics=a.topics, passes=20, threads=1, force=True, progress=False
    )
    topicstream.train_classifier(model, corpus, passes=60, threads=1, progress=False)
    found = topicstream.drift(
        model, new, by="date", period=period, corpus=corpus, most=a.most, burn=30, sweeps=20, progress=False
    )
    rows: list[dict[str, Any]] = found["periods"]
    return rows


def row(name: str, trained: int, r: dict[str, Any]) -> str:
    """A line of the table of ``answers``."""
    numbers = f"{r['seen']:.1%} | {r['unknown_tokens']:.1%} | {r['cosine']:.3f} | {r['f1']:.3f} | {r['perplexity']:.0f}"
    return f"| {name} | {trained:,} | {numbers} |"


HEAD = "| {} | documents | distinct words seen | tokens unknown | cosine | F1 at 0.8 | perplexity |\n|---|---|---|---|---|---|---|"


def windows(a: argparse.Namespace) -> None:
    """Abstracts of 2023 under models of earlier years."""
    years: dict[int, list[dict[str, Any]]] = {}
    for d in dated(a, "acl"):
        years.setdefault(int(d["date"][:4]), []).append(d)
    some = {y: years[y][:: max(1, len(years[y]) // a.each)][: a.each] for y in (*YEARS, 2023)}
    print(HEAD.format("trained on"))
    for span in [[y] for y in YEARS] + [[*range(y, 2023)] for y in reversed(YEARS[:-1])]:
        docs = [d for y in span for d in some[y]]
        name = f"{span[0]}" + (f" to {span[-1]}" if len(span) > 1 else "")
        print(row(name, len(docs), answers(a, "window", docs, some[2023], "year", max_vocab=20_000)[0]), flush=True)


def months(a: argparse.Namespace) -> None:
    """News of the months after the model."""
    docs = dated(a, "reuters21578")
    for d in docs:
        day = re.search(r"(\d+)-([A-Z]{3})-(\d{4})", d["date"])
        d["date"] = time.strftime("%Y-%m-%d", time.strptime("-".join(day.groups()), "%d-%b-%Y")) if day else ""
    old = [d for d in docs if "" < d["date"] <= "1987-03-15"]
    print(HEAD.format("month"))
    for r in answers(a, "months", old, [d for d in docs if d["date"] > "1987-03-15"], "month", max_vocab=20_000):
        print(row(r["period"], r["documents"], r))


def share(a: argparse.Namespace) -> None:
    """`train --sample`: ever more of the training documents, the same ones asked (and the rest)."""
    corpus = a.work / "acl.zarr"
    if not corpus.exists():
        topicstream.ingest([d["text"] for d in dated(a, "acl")], corpus, heldout="30%", max_vocab=20_000, progress=False)
    names = ("maxent", "hybrid", "bp", "vb-point", "gibbs2.s")
    print("| share | documents | asked | " + " | ".join(f"{n}: cosine, KL, F1" for n in names) + " | held-out perplexity |\n|---" + "|---" * (len(names) + 3) + "|")
    for percent in (10, 20, 40, 70):
        model = a.work / f"share-{percent}"
        topicstream.train(corpus, model, algo="sparselda", topics=a.topics, passes=a.passes, tol=0.0, threads=1, sample=percent / 70,
                                 force=True, progress=False)  # fmt: skip
        topicstream.train_classifier(model, corpus, threads=1, progress=False)
        docs = TopicModel.open(model, memory_limit=-1).manifest.corpus.docs
        scored = topicstream.evaluate(model, corpus, heldout=True, threads=1, progress=False)["heldout"]
        for on in ("heldout", "rest") if percent < 70 else ("heldout",):
            found = topicstream.compare_methods(model, corpus, methods=",".join(names), on=on, documents=a.most, burn=60, sweeps=40, progress=False)
            rows = {r["name"]: r for r in [*found["methods"], {**found["ceiling"], "name": "ceiling"}]}
            cells = [f"{rows[n]['cosine']:.3f}, {rows[n]['divergence']:.2f}, {rows[n]['f1']:.3f}" for n in names]
            print(f"| {percent} % | {docs:,} | {on} | {' | '.join(cells)} | {scored['perplexity']:.0f} |", flush=True)


def features(a: argparse.Namespace) -> None:
    """Kinds of features of the classifier, each fitted by the same optimiser (L-BFGS, a Gaussian prior of variance 1)."""
    from scipy.optimize import minimize

    docs = dated(a, "acl")
    random.Random(0).shuffle(docs)
    texts = [d["text"] for d in docs[:8000]]
    stores = {}
    for n in (1, 2):
        out = a.work / f"features-{n}.zarr"
        topicstream.ingest(texts, out, ngrams=n, min_df=5, force=True, progress=False)
        stores[n] = _matrix(out)
    topicstream.train(a.work / "features-1.zarr", a.work / "features", algo="sparse-bp", topics=a.topics, passes=20, threads=1,
                      force=True, progress=False)  # fmt: skip
    answers = topicstream.infer(
        a.work / "features", a.work / "features-1.zarr", parts=("train",), top=a.topics, progress=False
    )
    theta = np.zeros((len(answers), a.topics))
    for each, names, shares in zip(theta, answers["topics"].to_pylist(), answers["shares"].to_pylist(), strict=True):
        each[names] = shares
    x = stores[1]
    often = np.asarray(x.sum(1)) / np.asarray(x.sum(1)).mean()
    kinds = {
        "counts": x,
        "frequencies": diags(1 / np.maximum(often.ravel(), 1e-9)) @ x,
        "counts and pairs of neighbours": stores[2],
    }
    print("| features | number | cosine | KL | F1 at 0.8 |\n|---|---|---|---|---|")
    cut = len(theta) * 3 // 4
    for name, kind in kinds.items():
        seen, y = kind[:cut].tocsr(), theta[:cut]
        shape = (kind.shape[1], y.shape[1])

        def loss(flat: np.ndarray, seen: Any = seen, shape: Any = shape, y: np.ndarray = y) -> tuple[float, np.ndarray]:
            w = flat.reshape(shape)
            z = seen @ w
            z -= z.max(1, keepdims=True)
            log = z - np.log(np.exp(z).sum(1, keepdims=True))
            return float(-(y * log).sum() + (w * w).sum() / 2), (seen.T @ (np.exp(log) - y) + w).ravel()

        best = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 60})
        z = kind[cut:] @ best.x.reshape(shape)
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        q = theta[cut:]
        print(
            f"| {name} | {shape[0]:,} | "
            + " | ".join(f"{m(q, p).mean():.3f}" for m in (cosine, divergence, f1))
            + " |",
            flush=True,
        )


def inputs(a: argparse.Namespace) -> None:
    """The classifier's two kinds of features, and the fast methods beside it."""
    print(
        "| corpus | documents, mean length | features | nats | temperature | maxent: cosine, KL, F1 | hybrid | gibbs2.s | bp |"
    )
    print("|---" * 9 + "|")
    for name in a.corpora:
        store, model = a.work / f"inputs-{name}.zarr", a.work / f"inputs-{name}"
        files = [a.data / name / f for f in ("docword.txt.gz", "docs.jsonl.gz")]
        if not (model / "finished.json").exists():
            topicstream.ingest(
                [next(f for f in files if f.exists())],
                store,
                heldout="20%",
                max_vocab=20_000,
                force=True,
                progress=False,
            )
            topicstream.train(store, model, algo="sparse-bp", topics=a.topics, passes=30, threads=1, progress=False)
        corpus = Corpus.open(store)
        for kind in ("counts", "frequency", "root"):
            learned = topicstream.train_classifier(
                model, corpus, features=kind, documents=20_000, threads=1, progress=False
            )
            found = topicstream.compare_methods(model, corpus, methods="maxent,hybrid,gibbs2.s,bp", documents=a.most, burn=a.burn,
                                                sweeps=a.sweeps, progress=False)  # fmt: skip
            rows = {r["name"]: f"{r['cosine']:.3f}, {r['divergence']:.3f}, {r['f1']:.3f}" for r in found["methods"]}
            print(f"| {name} | {corpus.n_docs:,}, {corpus.n_tokens / corpus.n_docs:.0f} | {kind} | {learned['divergence']:.3f} | "
                  f"{learned['temperature']:.2f} | {rows['maxent']} | {rows['hybrid']} | {rows['gibbs2.s']} | {rows['bp']} |", flush=True)  # fmt: skip


def topics(a: argparse.Namespace) -> None:
    """Every method's likeness to Gibbs2 by the number of topics."""
    found: dict[int, dict[str, Any]] = {}
    for k in a.by:
        model = a.work / f"nips{k}"
        result = topicstream.compare_methods(
            model,
            nips(a, model, k),
            methods=a.methods,
            documents=a.documents,
            burn=a.burn,
            sweeps=a.sweeps,
            progress=False,
        )
        found[k] = {r["name"]: r for r in [*result["methods"], {**result["ceiling"], "name": "gibbs2, next seed"}]}
    for what, digits in (("f1", 2), ("cosine", 2), ("seconds", 3)):
        print(f"\n| {what} | " + " | ".join(f"T = {k}" for k in a.by) + " |\n|---" + "|---" * len(a.by) + "|")
        for name in found[a.by[0]]:
            print(f"| {name} | " + " | ".join(f"{found[k][name][what]:.{digits}f}" for k in a.by) + " |", flush=True)


class Enough(Exception):
    """So many processor seconds are over."""


class Clock(Silent):
    """Processor seconds and held-out perplexity of every pass."""

    def __init__(self, most: float = np.inf) -> None:
        self.at, self.heldout, self.most = [time.process_time()], [], most

    def end_pass(self, record: Any, passes: int) -> None:
        self.at.append(time.process_time())
        self.heldout.append(record["heldout_perplexity"])
        if self.at[-1] - self.at[0] > self.most:
            raise Enough


def passes(a: argparse.Namespace) -> None:
    """Processor ms of single passes on one thread (median of those within a tenth), and the table's MB; mean and spread of
    the runs, each with its own seed."""
    marks, corpus = (2, 5, 10, 20, 50), a.work / "nips.zarr"
    if not corpus.exists():
        topicstream.ingest([a.data / "nips12" / "docword.txt.gz"], corpus, heldout="30%", progress=False)
    heads = " | ".join(f"pass {n}" for n in marks)
    print(f"| T | engine | {heads} | MB, pass 1 and last |\n|---|---{'|---' * len(marks)}|---|")
    for k in a.by:
        for algo, most in (("sparselda", 50), ("gs", 10)):
            near, size = [], []
            for seed in range(a.runs):
                model, clock = a.work / "passes", Clock()
                topicstream.train(corpus, model, algo=algo, topics=k, passes=most, tol=0.0, threads=1, force=True, progress=clock,
                                  start="random", seed=seed, options={"alpha": a.alpha or 5 / k, "beta": 0.01, "learn_priors": False})  # fmt: skip
                spent = np.diff(clock.at) * 1000
                rows = [r for r in map(json.loads, (model / "history.jsonl").read_text().splitlines()) if r["pass"] > 0]
                near.append([np.median(spent[int(0.9 * n) : int(1.1 * n) + 1]) for n in marks if n <= most])
                size.append([rows[i]["table_bytes"] / 2**20 for i in (0, -1)])
            cells = [_spread(column) for column in zip(*near)] + [""] * (len(marks) - len(near[0]))
            print(f"| {k} | {algo} | {' | '.join(cells)} | {' and '.join(f'{np.mean(m):.2f}' for m in zip(*size))} |", flush=True)  # fmt: skip


def _spread(values: Any, digits: int = 0) -> str:
    return f"{np.mean(values):.{digits}f}" + (f" ± {np.std(values):.{digits}f}" if len(values) > 1 else "")


def stream(a: argparse.Namespace) -> None:
    """Held-out perplexity against processor seconds, pass by pass, one thread, alpha = 2/K and beta = 0.01."""
    print("| engine | passes | processor s: held-out perplexity |\n|---|---|---|")
    for algo in a.only or ("atbp", "stbp", "ovb"):
        clock = Clock(a.seconds)
        with contextlib.suppress(Enough):
            topicstream.train(a.store, a.work / f"stream-{algo}", algo=algo, topics=a.topics, tol=0.0, threads=1, eval_every=1, passes=500,
                              force=True, progress=clock, options={"alpha": 2 / a.topics, "beta": 0.01})  # fmt: skip
        points = [f"{at - clock.at[0]:.0f}: {low:.0f}" for at, low in zip(clock.at[1:], clock.heldout) if low]
        print(f"| {algo} | {len(points)} | {', '.join(points)} |", flush=True)


def document(a: argparse.Namespace) -> None:
    """The five largest topics of one document, by name, as Gibbs1 has them, and what other methods give these."""
    model = a.work / f"nips{a.topics}"
    corpus = Corpus.open(nips(a, model, a.topics))
    ways: dict[str, dict[str, Any]] = {
        "Gibbs1": {"method": "gibbs1", "trained_on": corpus.path},
        "Gibbs2": {"method": "gibbs", "joint": True},
        "bp": {},
        "MaxEnt": {"method": "maxent"},
        "hybrid": {"method": "hybrid"},
    }
    most: list[int] = []
    for name, options in ways.items():
        if name.startswith("Gibbs"):
            options |= {"burn": a.burn, "sweeps": a.sweeps}
        theta = topicstream.infer(model, corpus, parts=("heldout",), progress=False, **options)["shares"][
            a.which
        ].as_py()
        if not most:
            most = np.argsort(theta)[::-1][:5].tolist()
            print("| method | " + " | ".join(f"topic {k}" for k in most) + " |\n|---|" + "---|" * 5)
        print(f"| {name} | " + " | ".join(f"{theta[k]:.4f}" for k in most) + " |", flush=True)


def _matrix(store: Path) -> Any:
    """Counts of the training documents [D, W]."""
    corpus = Corpus.open(store)
    parts = [(b.indptr, b.vocab[b.words], b.counts.astype(np.float64)) for b in corpus.blocks(prefetch=0)]
    return vstack([csr_matrix((c, w, p), (len(p) - 1, corpus.n_words)) for p, w, c in parts]).tocsr()


FOLDS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "bp": ("bp", 100, {}), "vb": ("vb", 100, {}), "vb point": ("vb", 100, {"phi": "point"}), "gs": ("gs", 300, {})
}  # fmt: skip


def folds(a: argparse.Namespace) -> None:
    """Held-out perplexity (document completion, 80/20, folded in by BP) by number of topics, mean and spread over folds."""
    whole = a.work / f"{a.corpus}-whole.zarr"
    topicstream.ingest([a.data / a.corpus / "docword.txt.gz"], whole, force=True, progress=False)
    x = _matrix(whole)
    fold = np.random.default_rng(0).permutation(x.shape[0]) % 10
    print("| engine | " + " | ".join(f"K = {k}" for k in a.by) + " | processor s |\n|---|" + "---|" * (len(a.by) + 1))
    found: dict[tuple[str, int], list[float]] = {}
    spent = dict.fromkeys(FOLDS, 0.0)
    words = [f"w{v}" for v in range(x.shape[1])]
    for n in range(a.folds):
        train, test, model = a.work / "fold.zarr", a.work / "fold-test.zarr", a.work / "fold-model"
        topicstream.ingest(x[fold != n], train, vocabulary=words, force=True, progress=False)
        topicstream.ingest(x[fold == n], test, vocabulary=words, force=True, progress=False)
        for name in a.only or FOLDS:
            algo, passes, options = FOLDS[name]
            for k in a.by:
                begin = time.process_time()
                given = {"alpha": 0.01, "beta": 0.01, **options} | (
                    {"learn_priors": False} if algo in ("bp", "gs") else {}
                )
                topicstream.train(train, model, algo=algo, topics=k, options=given, threads=1, tol=1.0 if algo != "gs" else 0.0,
                                  passes=passes, start=a.start, force=True, progress=False)  # fmt: skip
                spent[name] += time.process_time() - begin
                score = topicstream.evaluate(model, train, heldout=test, threads=1, progress=False)["heldout"][
                    "perplexity"
                ]
                found.setdefault((name, k), []).append(score)
    for name in a.only or FOLDS:
        cells = [f"{np.mean(found[name, k]):.0f} ± {np.std(found[name, k]):.0f}" for k in a.by]
        print(f"| {name} | {' | '.join(cells)} | {spent[name]:.0f} |", flush=True)


def intrusion(a: argparse.Namespace) -> None:
    """Word intrusion (Zeng, Cheung and Liu, after Chang et al. 2009): sheets of every engine, and how many questions a machine
    answers right, which takes the word whose mean NPMI with the other five is least (Lau, Newman and Baldwin 2014)."""
    corpus = a.work / f"{a.corpus}-whole.zarr"
    topicstream.ingest([a.data / a.corpus / "docword.txt.gz"], corpus, force=True, progress=False)
    x = _matrix(corpus)
    x.data[:] = 1
    ids = {w: i for i, w in enumerate(Corpus.open(corpus).words.to_pylist())}
    print("| engine | questions | right |\n|---|---|---|")
    for name, (algo, passes, options) in FOLDS.items():
        model = a.work / f"intrusion-{a.corpus}-{name.replace(' ', '-')}"
        given = {"alpha": 0.01, "beta": 0.01, **options} | ({"learn_priors": False} if algo in ("bp", "gs") else {})
        topicstream.train(corpus, model, algo=algo, topics=a.topics, options=given, threads=1, tol=1.0 if algo != "gs" else 0.0,
                          passes=passes, force=True, progress=False)  # fmt: skip
        right = []
        for seed in range(a.runs):
            sheet = word_intrusion(model, seed=seed)
            for row in sheet.to_pylist():
                own = x[:, [ids[row[f"word_{n}"]] for n in range(1, 7)]]
                both = np.maximum((own.T @ own).toarray() / x.shape[0], 1e-12)
                single = np.diagonal(both)
                npmi = np.log(both / np.outer(single, single)) / -np.log(both)
                np.fill_diagonal(npmi, 0)
                right.append(npmi.sum(1).argmin() + 1 == row["place"])
        print(f"| {name} | {len(right)} | {np.mean(right):.0%} |", flush=True)


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
        "algo": "sparse-bp", "message_bits": "32", "step": 1.0, "band": -1.0, "learn_priors": False,
    },
}  # fmt: skip


def engines(a: argparse.Namespace) -> None:
    """Held-out perplexity of halves, mean and spread over seeds."""
    corpus = a.work / f"{a.corpus}-halves.zarr"
    if not corpus.exists():
        files = [a.data / a.corpus / name for name in ("docword.txt.gz", "docs.jsonl.gz")]
        topicstream.ingest([next(file for file in files if file.exists())], corpus, heldout="50%", progress=False)
    print("| engine | passes | held-out perplexity, folded in by BP | by VB | processor s |\n|---|---|---|---|---|")
    for name in a.only or ENGINES:
        model = a.work / f"{a.corpus}-{name.replace(' ', '-')}"
        runs = np.array([_halves(a, corpus, model, ENGINES[name], seed) for seed in range(a.runs)])
        cells = [_spread(column) for column in runs[:, :3].T]
        print(f"| {name} | {' | '.join(cells)} | {runs[:, 3].mean():.1f} |", flush=True)


def _halves(a: argparse.Namespace, corpus: Path, model: Path, options: dict[str, Any], seed: int) -> list[float]:
    """Passes, perplexity folded in by BP and by VB, processor seconds of one training."""
    given = {k: v for k, v in options.items() if k != "algo"} | {"alpha": 2 / a.topics, "beta": 0.01}
    if options["algo"] == "sparse-bp" and "step" in options:
        given["sparsity"] = a.topics
    begin = time.process_time()
    done = topicstream.train(
        corpus, model, algo=options["algo"], topics=a.topics, options=given, threads=1, tol=1.0, passes=200,
        force=True, start=a.start, seed=seed, progress=False,
    )  # fmt: skip
    seconds = time.process_time() - begin
    scores = [
        topicstream.evaluate(model, corpus, heldout=True, fold_in=way, threads=1, progress=False)["heldout"]
        for way in ("bp", "vb")
    ]
    return [done.passes, *(s["perplexity"] for s in scores), seconds]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = (streaming, starts, drift, windows, months, share, features, inputs, topics, passes, document, stream, engines, folds, intrusion)
    made = {f.__name__: f for f in known}
    parser.add_argument("what", choices=tuple(made))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--methods", default="all")
    parser.add_argument("--topics", type=int)
    parser.add_argument("--passes", type=int, default=300)
    parser.add_argument("--burn", type=int, default=50)
    parser.add_argument("--sweeps", type=int, default=30)
    parser.add_argument("--documents", type=int, default=130)
    parser.add_argument("--until", type=int, default=2010)
    parser.add_argument("--most", type=int, default=60)
    parser.add_argument("--corpus", default="kos")
    parser.add_argument("--only", nargs="+", choices=tuple(dict.fromkeys((*ENGINES, *FOLDS, "ovb"))), help="of `engines`, `folds`, `stream`")
    parser.add_argument("--start", help="of `engines`, `folds`: one start for all, as documents [default: each engine's own]")
    parser.add_argument("--each", type=int, default=1800, help="documents of a window")
    parser.add_argument(
        "--corpora", nargs="+", default=["kos", "nips12", "reuters21578", "20news", "acl"], help="of `inputs`, `starts`"
    )
    parser.add_argument("--reference", default="gibbs2", help="of `streaming`")
    parser.add_argument("--alpha", type=float, help="of `passes`: a topic [default: 5/T]")
    parser.add_argument("--store", type=Path, help="of `stream`")
    parser.add_argument("--seconds", type=float, default=480, help="of `stream`: of a processor, for each engine")
    parser.add_argument("--runs", type=int, default=1, help="of `engines`, `passes`, `starts`, `intrusion`: seeds")
    parser.add_argument("--which", type=int, default=0, help="of `document`: the number of the document set aside")
    parser.add_argument("--folds", type=int, default=5, help="of ten")
    parser.add_argument(
        "--by", type=int, nargs="+", default=[10, 20, 30, 40, 50], metavar="K", help="of `folds`, `topics`, `passes`"
    )
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    given.topics = given.topics or (70 if given.what in ("streaming", "starts", "document") else 50)
    made[given.what](given)


if __name__ == "__main__":
    main()
