"""When a run should stop: 200 passes recorded once, and rules tried on the records.

    python scripts/benchmarks/bench_stopping.py record --work FOLDER CORPUS.zarr ... [--topics 20,100] [--seeds 0,1,2] [--folds 0,1]
    python scripts/benchmarks/bench_stopping.py rules FOLDER/histories.jsonl
    python scripts/benchmarks/bench_stopping.py table FOLDER/histories.jsonl

``record`` keeps a row a run: running and held-out perplexity after each of 200 passes, and the figures of bench_defaults.py
where the default ends (``new``), after 200 (``200``) and of fixed priors (``fixed``).  ``rules``: what each rule costs in passes,
seconds and held-out perplexity against 200 passes, and which one all other corpora choose for each: of those that take no more
than a quarter longer than the first the one that is least often 1 % above.  ``table``: means over seeds and folds.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bench_defaults import VARIANTS, figures, fold_of

from topicstream.corpus.reader import Corpus
from topicstream.training import loop
from topicstream.training.course import Course
from topicstream.training.stopping import converged

PASSES, EVERY = 200, 2


def measured(own: Any) -> Any:
    """``stopping_of`` with held-out perplexity measured, but not asked when to stop."""
    return lambda config, engine, progress: replace(own(config, engine, progress), eval_every=EVERY)


def record(corpus: Path, model: Path, topics: int, seed: int) -> dict[str, Any]:
    """The default to its end and on to 200 passes; then fixed priors."""
    given: dict[str, Any] = {"topics": topics, "seed": seed, "threads": 1, "progress": False}
    done = loop.train(corpus, model, force=True, **given)
    row: dict[str, Any] = {"stop": done.passes, "new": figures(model, corpus, topics)}
    loop.train(corpus, model, passes=PASSES, tol=0.0, **given)
    rows = [json.loads(line) for line in (model / "history.jsonl").read_text().splitlines()]
    rows = [r for r in rows if r["pass"]]
    row |= {"200": figures(model, corpus, topics), "cells": Corpus.open(corpus).n_cells}
    row |= {"running": [round(r["running_perplexity"], 3) for r in rows], "seconds": [round(r["seconds"], 4) for r in rows]}
    row["heldout"] = [r["heldout_perplexity"] and round(r["heldout_perplexity"], 2) for r in rows]
    loop.train(corpus, model, force=True, **given, **VARIANTS["fixed"])
    return row | {"fixed": figures(model, corpus, topics)}


Rule = Callable[[list[float], int], int]


def settled(tol: float, patience: int = 1, cells: float = 0.0, least: int = 40, span: int = 10) -> Rule:
    """Passes until ``span`` of them change perplexity by less than ``tol``, ``patience`` times running, and so many ``cells``
    (in 100 passes at most) and ``least`` passes are behind."""

    def rule(p: list[float], size: int) -> int:
        first, met = max(least, min(100, int(cells / size))), 0
        for n in range(span + 1, PASSES + 1):
            met = met + 1 if abs(p[n - 1] - p[n - 1 - span]) < tol * p[n - 1] else 0
            if met >= patience and n >= first:
                return n
        return PASSES

    return rule


def projected(tol: float, span: int = 10) -> Rule:
    """Passes until the means of three windows, taken for a geometric fall, promise less than ``tol`` more."""

    def rule(p: list[float], size: int) -> int:
        for n in range(2 * span + 20, PASSES + 1):
            a, b, c = (float(np.mean(p[n - i * span : n - (i - 1) * span])) for i in (3, 2, 1))
            pace = min(max((b - c) / (a - b), 0.0), 0.95) if a > b else 0.95
            if (b - c) * pace / (1 - pace) < tol * c:
                return n
        return PASSES

    return rule


def spread(tol: float, span: int) -> Rule:
    """Passes until the last ``span`` lie within ``tol`` of each other."""

    def rule(p: list[float], size: int) -> int:
        windows = ((n, p[n - 1 - span : n]) for n in range(40, PASSES + 1))
        return next((n for n, w in windows if max(w) - min(w) < tol * w[-1]), PASSES)

    return rule


RULES: dict[str, Rule] = {
    "0.1 % over 10": settled(0.001),
    "0.05 % over 10": settled(0.0005),
    "0.05 % over 20": settled(0.0005, span=20),
    "0.1 % over 30": settled(0.001, span=30),
    "0.1 % over 10, 5 times": settled(0.001, 5),
    "0.05 % over 10, 10 times": settled(0.0005, 10),
    "within 0.2 % for 20": spread(0.002, 20),
    "0.2 % more promised": projected(0.002),
    "0.1 % more promised": projected(0.001),
    "0.1 % over 10, 80 passes": settled(0.001, least=80),
    "0.1 % over 10, 10 M cells": settled(0.001, cells=1e7),
    "0.1 % over 10, 20 M cells": settled(0.001, cells=2e7),
    "0.1 % over 10, 40 M cells": settled(0.001, cells=4e7),
}


def rules(rows: list[dict[str, Any]]) -> None:
    """See the head."""
    print("| rule | passes | seconds | over 1 % | worst |\n|---|---|---|---|---|")
    cost: dict[str, dict[str, np.ndarray]] = defaultdict(dict)
    for name, rule in RULES.items():
        found = []
        for r in rows:
            n = rule(r["running"], r["cells"])
            over = 100 * (r["heldout"][n // EVERY * EVERY - 1] / r["heldout"][-1] - 1)
            found.append((over, n, sum(r["seconds"][:n]), r))
        over, passes, seconds = (np.array([f[i] for f in found]) for i in range(3))
        worst = sorted(found, key=lambda f: -f[0])[:3]
        told = ", ".join(f"{r['corpus']} {r['topics']} {o:+.1f} % ({n})" for o, n, _, r in worst)
        print(f"| {name} | {passes.mean():.0f} | {seconds.sum():.0f} | {(over > 1).sum()} of {len(rows)} | {told} |")
        for corpus in {r["corpus"] for r in rows}:
            own = np.array([r["corpus"] == corpus for r in rows])
            cost[corpus][name] = np.array([(over[~own] > 1).sum(), seconds[~own].sum(), over[own].max()])
    for corpus, by in sorted(cost.items()):
        cheap = [name for name in by if by[name][1] <= 1.25 * next(iter(by.values()))[1]]
        best = min(cheap, key=lambda name: (by[name][0], by[name][1]))
        print(f"{corpus}: the others choose {best}; worst of its own {by[best][2]:+.1f} %")


def table(rows: list[dict[str, Any]]) -> None:
    """See the head."""
    print("| K | corpus | runs | passes | default against 200 passes: mean, worst | 200 against 100: mean, worst | NPMI: default, fixed | diversity | dead |")
    print("|---" * 9 + "|")
    groups: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for r in rows:
        groups[r["topics"], r["corpus"]].append(r)
    for (k, corpus), of in sorted(groups.items()):
        over = np.array([100 * (r["new"]["perplexity"] / r["200"]["perplexity"] - 1) for r in of])
        late = np.array([100 * (r["heldout"][-1] / r["heldout"][99] - 1) for r in of])
        npmi, fixed = (np.mean([r[v]["npmi"] for r in of]) for v in ("new", "fixed"))
        print(
            f"| {k} | {corpus} | {len(of)} | {np.mean([r['stop'] for r in of]):.0f} | {over.mean():+.1f} %, {over.max():+.1f} % "
            f"| {late.mean():+.1f} %, {late.max():+.1f} % | {npmi:.3f}, {fixed:.3f} | {np.mean([r['new']['diversity'] for r in of]):.3f} "
            f"| {sum(r['new']['dead'] for r in of)} |"
        )


def main() -> None:
    """See the head."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    for name in ("rules", "table"):
        actions.add_parser(name).add_argument("files", nargs="+", type=Path)
    one = actions.add_parser("record")
    one.add_argument("corpora", nargs="+", type=Path)
    one.add_argument("--work", type=Path, required=True)
    for name, default in (("topics", "20,100"), ("seeds", "0"), ("folds", "0")):
        one.add_argument(f"--{name}", default=default)
    args = parser.parse_args()
    if args.action != "record":
        rows = [json.loads(line) for file in args.files for line in file.read_text().splitlines()]
        return rules(rows) if args.action == "rules" else table(rows)
    args.work.mkdir(parents=True, exist_ok=True)
    file = args.work / "histories.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    there = {(r["corpus"], r["fold"], r["topics"], r["seed"]) for r in rows}
    Course.best = property(lambda self: 0)  # type: ignore[assignment, method-assign]  # the whole history stays
    Course.converged = lambda self, tol, passes: converged(self.running, tol, passes, self.least)  # type: ignore[method-assign]
    loop.stopping_of = measured(loop.stopping_of)  # type: ignore[attr-defined]
    keys = [
        (corpus, int(fold), int(k), int(seed))
        for k in args.topics.split(",")
        for fold in args.folds.split(",")
        for seed in args.seeds.split(",")
        for corpus in args.corpora
    ]
    for corpus, fold, k, seed in keys:
        if (corpus.stem, fold, k, seed) in there:
            continue
        row = record(fold_of(corpus, fold, args.work), args.work / "model", k, seed)
        shutil.rmtree(args.work / "model")
        with open(file, "a") as f:
            f.write(json.dumps({"corpus": corpus.stem, "fold": fold, "topics": k, "seed": seed} | row) + "\n")


if __name__ == "__main__":
    main()
