"""Measure the message-passing engines.

    python scripts/benchmarks/bench_message.py [memory] [curves] [schedules] [quality] [time]
    --corpus kos.zarr enwiki.zarr
        [--peers PEERS/bin/python] [--work FOLDER] [-K 100 500] [--seeds 3] [--passes 20] [--only bp
        gs] [--plot FOLDER]

Corpora are stores of ``topics ingest`` with a held-out part.  Prints Markdown.  Quick sizes by
default (K = 50, one seed,
few passes); FULL=1 takes the issue's.  Every figure is appended to FOLDER/message.jsonl as soon as
                                        it is there and not made
again: a long table may be stopped and carried on, or be made in pieces (--only takes some of the
engines) and printed at
the end.  CPU seconds compare where the machine has other load; seconds by the clock do not.

    memory     block memory planned and written, and peak resident memory (Zeng, Liu & Cao 2012,
               Table 2)
    curves     held-out perplexity and time a pass of each algorithm (Zeng, Liu & Cao 2012, Fig.
               4-6)
    schedules  six schedules against their mean (Zeng, Cheung & Liu 2013, Fig. 12)
    quality    sparse-L against dense belief propagation, by prior
    time       seconds to another program's perplexity (needs --peers)
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import Figures, full, heading, table
from train_quality import curve, peer

from topicstream.corpus.reader import Corpus
from topicstream.engines import find
from topicstream.engines.base import BlockShape, Shape

SCHEDULES = [(a, s) for a in ("bp", "sibp", "cvb0") for s in ("sync", "async")]
ALGORITHMS = ("vb", "gs", "bp", "sparse-bp", "atbp", "stbp")
PASSES = {"vb": 30, "gs": 200}
"""Passes of a full run where they are not 50: a Gibbs chain needs many, a pass of vb is long and is
near its end at 30.
"""
DENSE = ("bp", "sibp", "cvb0")


@dataclass(frozen=True)
class Work:
    """What the sections are given: corpora, a folder, sizes."""

    corpora: list[Path]
    folder: Path
    figures: Figures
    ks: list[int]
    seeds: int
    passes: int | None
    most: float
    only: list[str]

    def count(self, algo: str, usual: int) -> int:
        """Passes of an engine."""
        return self.passes or (PASSES.get(algo, usual) if full() else 10)

    def allows(self, path: Path, algo: str, topics: int) -> bool:
        """Whether an engine is asked for and its messages are not larger than what they may be."""
        if self.only and algo not in self.only:
            return False
        return algo not in DENSE or 4e-9 * topics * Corpus.open(path).n_cells <= self.most

    def runs(
        self, section: str, path: Path, algo: str, topics: int, passes: int, **options: Any
    ) -> list[dict[str, Any]]:
        """A record a seed: perplexity at the end, seconds and CPU seconds a pass, and what was
        scored on the way.
        """
        if not self.allows(path, algo, topics):  # what is there is shown
            key = {
                "section": section,
                "corpus": path.stem,
                "K": topics,
                "algo": algo,
                "passes": passes,
                "options": options,
            }
            return [
                r
                for r in self.figures.kept
                if all(r.get(n) == v for n, v in key.items()) and r["seed"] < self.seeds
            ]
        return [
            self._run(section, path, algo, topics, passes, seed, options)
            for seed in range(self.seeds)
        ]

    def _run(
        self,
        section: str,
        path: Path,
        algo: str,
        topics: int,
        passes: int,
        seed: int,
        options: dict[str, Any],
    ) -> dict[str, Any]:
        def make() -> dict[str, Any]:
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                points = curve(
                    path,
                    Path(folder) / "model",
                    algo,
                    topics,
                    passes,
                    max(1, passes // 5),
                    seed,
                    **options,
                )
                seconds = [r["seconds"] for r in history(Path(folder) / "model") if r["pass"]]
            first = points[0] if len(points) > 1 else (0, 0.0, 0.0, 0.0)
            last = points[-1]
            return {
                "perplexity": last[2],
                "seconds": float(np.median(seconds[1:] or seconds)),
                "processor": (last[3] - first[3]) / (last[0] - first[0]),
                "points": points,
            }

        key = {
            "section": section,
            "corpus": path.stem,
            "K": topics,
            "algo": algo,
            "seed": seed,
            "passes": passes,
        }
        return self.figures.get({**key, "options": options}, make)


def history(folder: Path) -> list[dict[str, Any]]:
    """Records of a run, the start first."""
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def mean(
    records: list[dict[str, Any]], name: str = "perplexity", digits: int = 0, spread: bool = False
) -> str:
    """Mean, and standard deviation, over the seeds; - where there is no run."""
    found = [r[name] for r in records]
    if not found:
        return "-"
    return f"{np.mean(found):,.{digits}f}" + (
        f" ± {np.std(found):,.{digits}f}" if spread and len(found) > 1 else ""
    )


def memory(work: Work) -> None:
    heading(
        "Block memory",
        "What an engine keeps of the corpus between visits: planned (bytes a cell), written "
        "(MB), peak RSS of a process.",
    )
    rows = []
    for path in work.corpora:
        store = Corpus.open(path)
        for k in work.ks:
            for algo in ("vb", "gs", "sparselda", "bp", "sparse-bp", "atbp", "stbp"):
                kind = find(algo)
                shape = Shape(
                    store.n_docs,
                    store.n_words,
                    store.n_cells,
                    float(store.n_tokens),
                    k,
                    store.weighted,
                )
                engine = kind(shape, kind.Options())
                whole = BlockShape(store.n_docs, store.n_cells, int(store.n_tokens), store.n_words)
                planned = sum(
                    int(np.prod(s.shape(whole))) * np.dtype(s.dtype).itemsize
                    for s in engine.state.values()
                )
                key = {"section": "memory", "corpus": path.stem, "K": k, "algo": algo}
                if work.allows(path, algo, k):
                    work.figures.get(key, lambda p=path, a=algo, n=k: kept(work.folder, p, a, n))  # type: ignore[misc]
                found = work.figures.find(key)
                row = [
                    path.stem,
                    k,
                    algo,
                    f"{planned / store.n_cells:.1f}",
                    f"{planned / 1e6:,.1f}",
                ]
                rows.append([*row, mean(found, "written_mb", 1), mean(found, "peak_mib")])
    table(
        [
            "corpus",
            "K",
            "engine",
            "planned bytes a cell",
            "planned MB",
            "written MB",
            "peak RSS MiB",
        ],
        rows,
    )


def kept(work: Path, path: Path, algo: str, topics: int) -> dict[str, Any]:
    """MB of block memory on disk, and most resident MiB of a process that makes a pass."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        model = Path(folder) / "model"
        code = (
            "import sys; from topicstream.training.loop import train; "
            "train(sys.argv[1], sys.argv[2], algo=sys.argv[3], topics=int(sys.argv[4]), "
            "passes=1, tol=0, threads=2, progress=False)"
        )
        subprocess.run(
            [sys.executable, "-c", code, str(path), str(model), algo, str(topics)], check=True
        )
        written = sum(f.stat().st_size for f in (model / "work").glob("memory-*.bin"))
        return {
            "written_mb": written / 1e6,
            "peak_mib": max(r["rss_peak_bytes"] for r in history(model)) / 2**20,
        }


def curves(work: Work, plots: Path | None) -> None:
    passes = {a: work.count(a, 50) for a in ALGORITHMS}
    heading(
        "Predictive perplexity and time a pass",
        f"alpha 0.1, beta 0.01 for all, mean and standard deviation of {work.seeds} seed(s), 2 "
        f"threads; passes: " + ", ".join(f"{a} {n}" for a, n in passes.items()),
    )
    for path in work.corpora:
        rows = []
        drawn: dict[str, list[tuple[int, float, float]]] = {}
        for k in work.ks:
            for algo in ALGORITHMS:
                runs = work.runs("curves", path, algo, k, passes[algo], alpha=0.1, beta=0.01)
                if runs:
                    each = [
                        float(np.mean([r[n] for r in runs])) for n in ("perplexity", "processor")
                    ]
                    drawn.setdefault(algo, []).append((k, each[0], each[1]))
                rows.append(
                    [
                        path.stem,
                        k,
                        algo,
                        passes[algo],
                        mean(runs, spread=True),
                        mean(runs, "seconds", 2),
                        mean(runs, "processor", 2),
                    ]
                )
        table(
            [
                "corpus",
                "K",
                "engine",
                "passes",
                "held-out perplexity",
                "seconds a pass",
                "CPU seconds a pass",
            ],
            rows,
        )
        if plots is not None and drawn:
            plots.mkdir(parents=True, exist_ok=True)
            plot(path.stem, drawn, plots / f"message-{path.stem}.svg")


def plot(name: str, drawn: dict[str, list[tuple[int, float, float]]], file: Path) -> None:
    """Perplexity and CPU seconds a pass over K, a line an engine; reads on a light page and on a
    dark one.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    grey = "#7d8590"
    settings: Any = {
        n: grey
        for n in ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    }
    with pyplot.rc_context(settings | {"svg.fonttype": "none", "svg.hashsalt": "topicstream"}):
        figure, axes = pyplot.subplots(1, 2, figsize=(10, 4))
        for algo, points in drawn.items():
            ks, score, processor = zip(*points, strict=True)
            axes[0].plot(ks, score, marker="o", label=algo)
            axes[1].plot(ks, processor, marker="o", label=algo)
        axes[0].set(xlabel="K", ylabel="held-out perplexity", title=name)
        axes[1].set(xlabel="K", ylabel="CPU seconds a pass", yscale="log", title=name)
        lines, names = axes[0].get_legend_handles_labels()
        figure.legend(
            lines, names, loc="lower center", ncol=len(names), frameon=False, labelcolor=grey
        )
        figure.tight_layout(rect=(0, 0.07, 1, 1))
        figure.savefig(file, transparent=True, metadata={"Date": None})
        pyplot.close(figure)


def schedules(work: Work) -> None:
    passes = work.count("", 30)
    heading(
        "Six schedules against their mean (Zeng, Cheung & Liu 2013, Fig. 12)",
        f"Held-out perplexity after {passes} passes less the mean of the six; alpha = beta = "
        f"0.01; mean of {work.seeds} seed(s).",
    )
    rows = []
    for path in work.corpora:
        for k in work.ks:
            score = {}
            for a, s in SCHEDULES:
                runs = work.runs("schedules", path, a, k, passes, alpha=0.01, beta=0.01, schedule=s)
                score[a, s] = float(np.mean([r["perplexity"] for r in runs])) if runs else np.nan
            middle = np.mean(list(score.values()))
            if np.isfinite(middle):
                rows.append(
                    [
                        path.stem,
                        k,
                        f"{middle:,.0f}",
                        *(f"{score[key] - middle:+.0f}" for key in SCHEDULES),
                    ]
                )
    table(["corpus", "K", "mean", *(f"{s[0]}-{a}" for a, s in SCHEDULES)], rows)


def quality(work: Work) -> None:
    passes = work.count("", 50)
    heading(
        "Sparse-L against dense belief propagation",
        f"Held-out perplexity after {passes} passes, mean of {work.seeds} seed(s), beta 0.01 "
        f"(learned: both begin at 0.1 and "
        "0.01). L = K: sparse-bp with all topics active, its step and its 8 bits a message. In "
        "brackets: against L = K under "
        "the same prior, so what sparsity alone does; where it was not run, *against bp*.",
    )
    rows = []
    for path in work.corpora:
        for k in work.ks:
            priors = {
                "0.1": {"alpha": 0.1},
                "2/K": {"alpha": 2 / k},
                "learned": {"alpha": 0.1, "learn_priors": True},
            }
            for name, prior in priors.items():
                dense = work.runs("quality", path, "bp", k, passes, beta=0.01, **prior)
                runs = {
                    width: work.runs(
                        "quality", path, "sparse-bp", k, passes, beta=0.01, sparsity=width, **prior
                    )
                    for width in (16, 32, 64, k)
                }
                cells = []
                for width in (16, 32, 64):
                    cells.append(mean(runs[width]))
                    against = runs[k] or dense
                    if against and runs[width]:
                        scores = [
                            float(np.mean([r["perplexity"] for r in part]))
                            for part in (runs[width], against)
                        ]
                        ratio = f"{100 * (scores[0] / scores[1] - 1):+.1f} %"
                        cells[-1] += f" ({ratio})" if runs[k] else f" (*{ratio}*)"
                rows.append([path.stem, k, name, mean(dense), mean(runs[k]), *cells])
    table(["corpus", "K", "alpha", "bp", "L = K", "L = 16", "L = 32", "L = 64"], rows)


def time_to(work: Work, peers: Path) -> None:
    at = [20, 100, 500] if full() else [20, 100]
    passes = work.count("sparse-bp", 100)
    heading(
        "Time to tomotopy's perplexity",
        "2 threads each, alpha 0.1, beta 0.01, one judge; ours includes the start, neither "
        "includes scoring or compiling.",
    )
    rows = []
    for path in work.corpora:
        for k in work.ks:
            for seed in range(work.seeds):

                def theirs(path: Path = path, k: int = k, seed: int = seed) -> dict[str, Any]:
                    return {
                        "points": peer(
                            str(peers), "tomotopy_lda", path, work.folder, k, at[-1], at, seed + 1
                        )
                    }

                def ours(
                    path: Path = path, k: int = k, seed: int = seed, passes: int = passes
                ) -> dict[str, Any]:
                    with tempfile.TemporaryDirectory(dir=work.folder) as folder:
                        return {
                            "points": curve(
                                path, Path(folder) / "model", "sparse-bp", k, passes, 1, seed
                            )
                        }

                key = {"section": "time", "corpus": path.stem, "K": k, "seed": seed}
                goals = work.figures.get({**key, "algo": "tomotopy", "passes": at[-1]}, theirs)[
                    "points"
                ]
                points = work.figures.get({**key, "algo": "sparse-bp", "passes": passes}, ours)[
                    "points"
                ]
                for n, seconds, perplexity, _ in goals:
                    reached = next((p for p in points if p[2] <= perplexity), None)
                    us = f"{reached[1]:.1f} s, {reached[0]} passes" if reached else "not reached"
                    ratio = f"{seconds / reached[1]:.1f}" if reached else "-"
                    rows.append(
                        [path.stem, k, seed, n, f"{perplexity:.0f}", f"{seconds:.1f}", us, ratio]
                    )
                rows.append(
                    [
                        path.stem,
                        k,
                        seed,
                        "ours, all",
                        f"{points[-1][2]:.0f}",
                        "",
                        f"{points[-1][1]:.1f} s",
                        "",
                    ]
                )
    table(
        [
            "corpus",
            "K",
            "seed",
            "tomotopy's passes",
            "perplexity",
            "its seconds",
            "sparse-bp",
            "ratio",
        ],
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", default=[])
    parser.add_argument("--corpus", type=Path, nargs="+", default=[])
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument(
        "-K", "--topics", type=int, nargs="+", default=[50, 100, 300, 500] if full() else [50]
    )
    parser.add_argument("--seeds", type=int, default=3 if full() else 1)
    parser.add_argument(
        "--passes", type=int, help="of every engine, instead of each one's own number"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        help="engines to run now; of the others what is there is shown",
    )
    parser.add_argument(
        "--most-messages",
        type=float,
        default=4.5,
        help="GB of messages up to which dense engines are run",
    )
    args = parser.parse_args()
    sections = {"memory": memory, "curves": lambda w: curves(w, args.plot), "schedules": schedules}
    sections |= {"quality": quality} | (
        {"time": lambda w: time_to(w, args.peers)} if args.peers else {}
    )
    for name in args.sections:
        if name not in sections:
            parser.error(f"no section {name!r}; there are {', '.join(sections)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        figures = Figures(folder / "message.jsonl")
        work = Work(
            args.corpus,
            folder,
            figures,
            args.topics,
            args.seeds,
            args.passes,
            args.most_messages,
            args.only,
        )
        for name in args.sections or sections:
            sections[name](work)


if __name__ == "__main__":
    main()
