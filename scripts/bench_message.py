"""Measure the message-passing engines.

    python scripts/bench_message.py [memory] [curves] [schedules] [sweep] [quality] [time] --corpus kos.zarr enwiki.zarr
        [--peers PEERS/bin/python] [--work FOLDER] [-K 100 500] [--seeds 3] [--passes 20] [--plot FOLDER]

Corpora are stores of ``topics ingest`` with a held-out part.  Prints Markdown; everything is made in one run on one
machine.  Quick sizes by default (K = 50, one seed, few passes); FULL=1 takes the issue's.

    memory     block memory planned and written, and peak resident memory (paper 000, Table 2)
    curves     held-out perplexity and time a pass of each algorithm (paper 000, Fig. 4-6)
    schedules  six schedules against their mean (paper 001, Fig. 12)
    sweep      the sparse-L kernel by itself: CPU nanoseconds a cell, with and without AVX-512
    quality    sparse-L against dense belief propagation, by prior
    time       seconds to another program's perplexity (needs --peers)
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

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from measure import full, heading, table

from topicstream.corpus.reader import Corpus
from topicstream.engines import find
from topicstream.engines.base import BlockShape, Shape
from topicstream.training.loop import train
from topicstream.training.progress import Progress

HERE = Path(__file__).parent
QUIET = Progress(-1)
SCHEDULES = [(a, s) for a in ("bp", "sibp", "cvb0") for s in ("sync", "async")]


def history(folder: Path) -> list[dict[str, Any]]:
    """Records of a run, the start first."""
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def trained(corpus: Path, work: Path, algo: str, topics: int, passes: int, every: int = 0, seed: int = 0, **options: Any) -> list[dict[str, Any]]:  # fmt: skip
    """Train from the beginning; the history."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        train(
            corpus,
            Path(folder) / "model",
            algo=algo,
            topics=topics,
            passes=passes,
            tol=0,
            seed=seed,
            threads=2,
            eval_every=every or passes,
            options=options,
            progress=QUIET,
        )
        return history(Path(folder) / "model")


def per_pass(records: list[dict[str, Any]]) -> float:
    """Median seconds of a pass, the start and the first left out."""
    passes = [r["seconds"] for r in records if r["pass"]]
    return float(np.median(passes[1:] or passes))


def memory(corpora: list[Path], work: Path, ks: list[int]) -> None:
    heading(
        "Block memory",
        "What an engine keeps of the corpus between visits: planned (bytes a cell), written (MB), peak RSS of a process.",
    )
    rows = []
    for path in corpora:
        store = Corpus.open(path)
        for k in ks:
            for algo in ("vb", "gs", "sparselda", "bp", "sparse-bp", "atbp", "stbp"):
                kind = find(algo)
                shape = Shape(store.n_docs, store.n_words, store.n_cells, float(store.n_tokens), k, store.weighted)
                engine = kind(shape, kind.Options())
                whole = BlockShape(store.n_docs, store.n_cells, int(store.n_tokens), store.n_words)
                planned = sum(int(np.prod(s.shape(whole))) * np.dtype(s.dtype).itemsize for s in engine.memory.values())
                with tempfile.TemporaryDirectory(dir=work) as folder:
                    model = Path(folder) / "model"
                    code = (
                        "import sys; from topicstream.training.loop import train; from topicstream.training.progress "
                        "import Progress; train(sys.argv[1], sys.argv[2], algo=sys.argv[3], topics=int(sys.argv[4]), "
                        "passes=1, tol=0, threads=2, progress=Progress(-1))"
                    )
                    subprocess.run([sys.executable, "-c", code, str(path), str(model), algo, str(k)], check=True)
                    written = sum(f.stat().st_size for f in (model / "work").glob("memory-*.bin"))
                    peak = max(r["rss_peak_bytes"] for r in history(model))
                rows.append(
                    [
                        path.stem,
                        k,
                        algo,
                        f"{planned / store.n_cells:.1f}",
                        f"{planned / 1e6:.1f}",
                        f"{written / 1e6:.1f}",
                        f"{peak / 2**20:.0f}",
                    ]
                )
    table(["corpus", "K", "engine", "planned bytes a cell", "planned MB", "written MB", "peak RSS MiB"], rows)


def curves(corpora: list[Path], work: Path, ks: list[int], seeds: int, passes: int, plots: Path | None) -> None:
    heading(
        "Predictive perplexity and time a pass",
        f"After {passes} passes, alpha 0.1, beta 0.01 for all, documents start, mean of {seeds} seed(s); 2 threads.",
    )
    algos = ("vb", "gs", "bp", "sparse-bp", "atbp", "stbp")
    for path in corpora:
        rows = []
        drawn: dict[str, list[tuple[int, float]]] = {}
        for k in ks:
            for algo in algos:
                runs = [trained(path, work, algo, k, passes, seed=s, alpha=0.1, beta=0.01) for s in range(seeds)]
                score = [r[-1]["heldout_perplexity"] for r in runs]
                seconds = np.mean([per_pass(r) for r in runs])
                drawn.setdefault(algo, []).append((k, float(np.mean(score))))
                rows.append([path.stem, k, algo, f"{np.mean(score):.0f} ± {np.std(score):.0f}", f"{seconds:.3f}"])
        table(["corpus", "K", "engine", "held-out perplexity", "seconds a pass"], rows)
        if plots is not None:
            import matplotlib

            matplotlib.use("Agg")
            from matplotlib import pyplot

            figure, axes = pyplot.subplots()
            for algo, points in drawn.items():
                axes.plot(*zip(*points, strict=True), marker="o", label=algo)
            axes.set(xlabel="K", ylabel="held-out perplexity", title=path.stem)
            axes.legend()
            figure.savefig(plots / f"perplexity-{path.stem}.png", dpi=120)


def schedules(corpora: list[Path], work: Path, ks: list[int], seeds: int, passes: int) -> None:
    heading(
        "Six schedules against their mean (paper 001, Fig. 12)",
        f"Held-out perplexity after {passes} passes less the mean of the six; alpha = beta = 0.01.",
    )
    rows = []
    for path in corpora:
        for k in ks:
            score = {
                (a, s): np.mean(
                    [
                        trained(path, work, a, k, passes, seed=i, schedule=s)[-1]["heldout_perplexity"]
                        for i in range(seeds)
                    ]
                )
                for a, s in SCHEDULES
            }
            mean = np.mean(list(score.values()))
            rows.append([path.stem, k, f"{mean:.0f}", *(f"{score[key] - mean:+.0f}" for key in SCHEDULES)])
    table(["corpus", "K", "mean", *(f"{s[0]}-{a}" for a, s in SCHEDULES)], rows)


def sweep_once(topics: int, width: int) -> None:
    """One line: CPU ns a cell of the sweep on Zipf cells (262,144 of 470 documents), least of several."""
    from topicstream.engines.base import padded
    from topicstream.kernels import sparse_messages as kernels

    rng, f = np.random.default_rng(0), np.float32
    words, n, docs, columns = 20_000, 1 << 18, 470, padded(topics)
    share = 1.0 / np.arange(1, words + 1)
    drawn = np.sort(rng.choice(words, n, p=share / share.sum()))
    ptr = np.concatenate(([0], np.cumsum(np.bincount(drawn, minlength=words)))).astype(np.int64)
    doc, x = rng.integers(0, docs, n).astype(np.int32), np.ones(n, f)
    base = np.zeros((words, columns), f)
    base[:, :topics] = rng.random((words, topics), f) ** 8 * 5
    active = np.array([rng.choice(topics, width, replace=False) for _ in range(docs)]).astype(np.uint16)
    lam = (base.sum(0, dtype=np.float64) + 500).astype(f)
    old = (rng.random((n, width)) ** 6 * 255).astype(np.uint8)
    new, likely = np.empty_like(old), np.empty(n)
    theta, kept = rng.random((docs, width), f) * 20 + f(0.1), np.ones(docs, np.uint8)
    mass, nobody, none = theta.sum(1) + f(10), np.full(docs, -1, np.int32), np.zeros(0, f)
    room = kernels.most_entries(ptr, width, columns) + 16
    out = np.empty(words + 1, np.int64), np.empty(room, np.uint16), np.empty(room, f)
    best = np.inf
    for _ in range(8):
        swept = theta.copy()
        began = time.thread_time()
        kernels.sweep(
            ptr, doc, x, base, np.arange(words), active, active, kept, swept, lam[active], mass, old, new, f(0.1), f(0.01),
            f(255), f(-1), False, nobody < -1, none, nobody, np.zeros((0, columns), f), 1 / lam, f(0), likely, *out,
        )  # fmt: skip
        best = min(best, (time.thread_time() - began) / n * 1e9)
    print(f"{best:.1f}")


def sweep() -> None:
    heading(
        "The sparse-L sweep by itself",
        "CPU ns a cell, every message moving (band -1). Without: numba told the processor has no AVX-512, gathers and "
        "scatters become single loads and stores.",
    )
    rows = []
    for k in (100, 500, 2000):
        for width in (16, 32, 64):
            cells = []
            for features in (None, "-avx512f,-avx512vl,-avx512bw,-avx512dq,-avx512cd"):
                with tempfile.TemporaryDirectory() as cache:
                    env = {**os.environ, "NUMBA_CACHE_DIR": cache}
                    if features:
                        env |= {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": features}
                    command = [sys.executable, __file__, "--sweep-once", str(k), str(width)]
                    cells.append(
                        subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()
                    )
            rows.append([k, width, *cells])
    table(["K", "L", "ns a cell", "without AVX-512"], rows)


def quality(corpora: list[Path], work: Path, ks: list[int], seeds: int, passes: int) -> None:
    heading(
        "Sparse-L against dense belief propagation",
        f"Held-out perplexity after {passes} passes, mean of {seeds} seed(s), beta 0.01.",
    )
    priors: list[tuple[str, Any]] = [("0.1", lambda k: {"alpha": 0.1}), ("2/K", lambda k: {"alpha": 2 / k})]
    rows = []
    for path in corpora:
        for k in ks:
            for name, prior in [*priors, ("learned", lambda k: {"alpha": 0.1, "learn_priors": True})]:
                cells = []
                runs: list[tuple[str, dict[str, Any]]] = [("sparse-bp", {"sparsity": w}) for w in (16, 32, 64)]
                if name != "learned":
                    runs = [("bp", {}), *runs]
                for algo, options in runs:
                    last = [
                        trained(path, work, algo, k, passes, seed=s, beta=0.01, **prior(k), **options)[-1]
                        for s in range(seeds)
                    ]
                    cells.append(f"{np.mean([r['heldout_perplexity'] for r in last]):.0f}")
                rows.append([path.stem, k, name, *(["-"] if name == "learned" else []), *cells])
    table(["corpus", "K", "alpha", "bp", "L = 16", "L = 32", "L = 64"], rows)


def time_to(corpora: list[Path], work: Path, ks: list[int], seeds: int, peers: Path, passes: int) -> None:
    at = [20, 100, 500] if full() else [20, 100]
    heading(
        "Time to tomotopy's perplexity",
        "2 threads each, alpha 0.1, beta 0.01, one judge; ours includes the start, neither includes scoring or compiling.",
    )
    rows = []
    for path in corpora:
        exported = work / f"{path.stem}-export"
        subprocess.run([sys.executable, str(HERE / "export_corpus.py"), str(path), str(exported)], check=True)
        for k in ks:
            for seed in range(seeds):
                out = work / f"tomotopy-{path.stem}-{k}-{seed}"
                run = [
                    str(peers),
                    str(HERE / "peers" / "run.py"),
                    "tomotopy_lda",
                    str(exported),
                    str(out),
                    "-K",
                    str(k),
                ]
                run += ["--passes", str(at[-1]), "--save-at", ",".join(map(str, at)), "--seed", str(seed + 1)]
                subprocess.run([*run, "--workers", "2"], check=True, capture_output=True)
                score = subprocess.run(
                    [sys.executable, str(HERE / "score_phi.py"), str(out), str(path)],
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
                theirs = [json.loads(line) for line in score.splitlines() if line.startswith("{")]
                seconds = np.cumsum(json.loads((out / "run.json").read_text())["seconds"])
                ours = trained(path, work, "sparse-bp", k, passes, every=1, seed=seed, alpha=0.1, beta=0.01)
                spent = np.cumsum([r["seconds"] for r in ours])
                for n, line in zip(at, theirs, strict=True):
                    reached = [
                        i for i, r in enumerate(ours) if (r["heldout_perplexity"] or np.inf) <= line["perplexity"]
                    ]
                    us = f"{spent[reached[0]]:.1f} s, {ours[reached[0]]['pass']} passes" if reached else "not reached"
                    ratio = f"{seconds[n - 1] / spent[reached[0]]:.1f}" if reached else "-"
                    rows.append(
                        [path.stem, k, seed, n, f"{line['perplexity']:.0f}", f"{seconds[n - 1]:.1f}", us, ratio]
                    )
                last = ours[-1]["heldout_perplexity"]
                rows.append([path.stem, k, seed, "ours, all", f"{last:.0f}", "", f"{spent[-1]:.1f} s", ""])
    table(["corpus", "K", "seed", "tomotopy's passes", "perplexity", "its seconds", "sparse-bp", "ratio"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", default=[])
    parser.add_argument("--corpus", type=Path, nargs="+", default=[])
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("-K", "--topics", type=int, nargs="+", default=[50, 100, 300, 500] if full() else [50])
    parser.add_argument("--seeds", type=int, default=3 if full() else 1)
    parser.add_argument("--passes", type=int, default=100 if full() else 10)
    parser.add_argument("--sweep-once", type=int, nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.sweep_once:
        sweep_once(*args.sweep_once)
        return
    every = ["memory", "curves", "schedules", "sweep", "quality"] + (["time"] if args.peers else [])
    chosen = args.sections or every
    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        few = (work, args.topics, args.seeds, args.passes)
        for section in chosen:
            if section == "memory":
                memory(args.corpus, work, args.topics)
            elif section == "curves":
                curves(args.corpus, *few, args.plot)
            elif section == "schedules":
                schedules(args.corpus, *few)
            elif section == "sweep":
                sweep()
            elif section == "quality":
                quality(args.corpus, *few)
            elif section == "time":
                time_to(args.corpus, work, args.topics, args.seeds, args.peers, args.passes)
            else:
                parser.error(f"no section {section!r}; there are {', '.join(every)}")


if __name__ == "__main__":
    main()
