"""Measure training: disk against memory, checkpoints, time to quality, quality, and bigger than
RAM.

    python scripts/benchmarks/bench_train.py [disk] [checkpoints] [quality-time] [quality] [pubmed]
        --data ../shared/data --peers PEERS/bin/python

Prints Markdown.  Every comparison is made in one run on one machine.  FULL=1 takes the full sizes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import Figures, full, heading, in_cgroup, table

from topicstream import ingest
from topicstream.base.progress import Shown as Progress
from topicstream.corpus.format import KINDS, chunk_path
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import (
    ScoredTopics,
    TopicTable,
    prepare_heldout,
    score_blocks,
)
from topicstream.model.topic_model import TopicModel
from topicstream.training.heldout import HeldOut
from topicstream.training.loop import train
from topicstream.training.state.checkpoint import Saver

HERE = Path(__file__).parent
TOOLS = HERE.parent / "tools"
QUIET = Progress(-1)
PEERS = ("gensim_online", "tomotopy_lda")


def enwiki(data: Path, work: Path, articles: int = 10_000) -> Path:
    """The corpus of the issue: the first articles, words of three letters and more, 50,000 of them,
    5 % held out.
    """
    out = work / "enwiki.zarr"
    if not out.exists():
        raw = work / "enwiki.jsonl"
        with (
            gzip.open(data / "enwiki" / "docs.jsonl.gz", "rb") as source,
            open(raw, "wb") as target,
        ):
            for _, line in zip(range(articles), source):
                target.write(line)
        ingest(
            raw,
            out=out,
            min_length=3,
            max_vocab=50_000,
            max_df=0.3,
            min_df=5,
            heldout="5%",
            mem_limit="2G",
        )
        raw.unlink()
    return out


def seconds_of(model: Path) -> list[float]:
    """Seconds of every pass, the start first."""
    return [
        json.loads(line)["seconds"] for line in (model / "history.jsonl").read_text().splitlines()
    ]


def disk(data: Path, work: Path) -> None:
    """A pass that reads its blocks from disk, page cache dropped, beside a pass over blocks held
    decoded in RAM.
    """
    stores = [enwiki(data, work), made(work, "50e6" if full() else "10e6")]
    rows = []
    for store in stores:
        for topics in (10, 100):
            rows.append([store.stem, topics, *disk_row(store, work, topics)])
    heading(
        "A pass from disk against a pass from memory",
        "aTBP on 10,000 enwiki articles (5 M cells: five storage blocks) and on a made corpus; "
        "disk: the store's page cache dropped before every pass",
    )
    table(["corpus", "K", "s a pass, memory", "s a pass, disk", "disk / memory", "spread"], rows)


def made(work: Path, cells: str) -> Path:
    """A corpus of make_corpus.py with ten planted topics, made once."""
    store = work / f"made-{cells}.zarr"
    if not store.exists():
        command = [
            sys.executable,
            str(TOOLS / "make_corpus.py"),
            "--cells",
            cells,
            "--topics",
            "10",
            "--out",
            str(store),
        ]
        subprocess.run(command, check=True)
    return store


class Forgetting(Progress):
    """Silent; drops a store's chunks from the page cache after every pass, its seconds taken
    already.
    """

    def __init__(self, store: Path) -> None:
        super().__init__(-1)
        corpus = Corpus.open(store)
        rows = [b.rows[0] for b in corpus.part().blocks]
        self._files = [chunk_path(store, "train", kind, row) for row in rows for kind in KINDS]

    def end_pass(self, record: Mapping[str, Any], passes: int) -> None:
        super().end_pass(record, passes)
        for path in self._files:
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def disk_row(store: Path, work: Path, topics: int) -> list[str]:
    """Seconds a pass from memory and from disk, their ratio and its spread."""
    read = Corpus.decode
    held: dict[tuple[int, bool], Any] = {}

    def from_memory(
        self: Corpus, storage: int, heldout: bool = False, axes: Sequence[str] = ()
    ) -> Any:
        if (storage, heldout) not in held:
            held[storage, heldout] = read(self, storage, heldout, axes)
        return held[storage, heldout]

    times: dict[str, list[float]] = {"memory": [], "disk": []}
    for repeat in range(5 if full() else 3):
        for name, decode, progress in (
            ("memory", from_memory, QUIET),
            ("disk", read, Forgetting(store)),
        ):
            Corpus.decode = decode  # type: ignore[method-assign]
            try:
                model = work / f"disk-{name}"
                passes = 12 if topics == 10 else 8
                train(
                    store,
                    model,
                    topics=topics,
                    algo="atbp",
                    start="documents",
                    passes=passes,
                    tol=0,
                    seed=repeat,
                    force=True,
                    progress=progress,
                )
                times[name].append(statistics.median(seconds_of(model)[3:]))
            finally:
                Corpus.decode = read  # type: ignore[method-assign]
    pairs = [d / m for d, m in zip(times["disk"], times["memory"])]
    return [
        f"{statistics.median(times['memory']):.3f}",
        f"{statistics.median(times['disk']):.3f}",
        f"{statistics.median(pairs):.2f}",
        f"{min(pairs):.2f}-{max(pairs):.2f}",
    ]


def checkpoints(data: Path, work: Path) -> None:
    """A pass with checkpoints, as they are made by default, beside a pass without any but
    the last.
    """
    end_pass = Saver.end_pass

    def last_only(self: Saver, state: Any, tables: Any, final: bool, pin: bool = False) -> None:
        if final:
            end_pass(self, state, tables, final, pin)

    rows = []
    for store in (enwiki(data, work), made(work, "50e6" if full() else "10e6")):
        for topics in (10, 100):
            times: dict[str, list[float]] = {"without": [], "with": []}
            for repeat in range(9):  # a run by itself swings by more than what is looked for
                both = [("without", last_only), ("with", end_pass)]
                for name, save in both if repeat % 2 else reversed(both):
                    Saver.end_pass = save  # type: ignore[method-assign]
                    try:
                        model = work / f"checkpoints-{name}"
                        train(
                            store,
                            model,
                            topics=topics,
                            algo="atbp",
                            start="documents",
                            passes=20,
                            tol=0,
                            seed=repeat,
                            force=True,
                            progress=QUIET,
                        )
                        # the mean: a checkpoint is not made in every pass
                        times[name].append(statistics.mean(seconds_of(model)[3:]))
                    finally:
                        Saver.end_pass = end_pass  # type: ignore[method-assign]
            pairs = [b / a for a, b in zip(times["without"], times["with"])]
            medians = [f"{statistics.median(times[name]):.3f}" for name in ("without", "with")]
            rows.append(
                [
                    store.stem,
                    topics,
                    *medians,
                    f"{statistics.median(pairs):.3f}",
                    f"{min(pairs):.2f}-{max(pairs):.2f}",
                ]
            )
    heading(
        "What checkpoints cost",
        "aTBP, mean seconds of passes 3 to 20; at most 5 % of the time",
    )
    table(["corpus", "K", "s a pass without", "with", "with / without", "spread"], rows)


def export(store: Path, work: Path) -> Path:
    """The corpus as NumPy files, for the peers."""
    out = work / (store.stem + "-npy")
    if not out.exists():
        subprocess.run(
            [sys.executable, TOOLS / "export_corpus.py", store, out],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return out


def peer(
    python: str,
    trainer: str,
    store: Path,
    work: Path,
    topics: int,
    passes: int,
    save_at: list[int],
    seed: int = 1,
    alpha: float = 0.1,
    beta: float = 0.01,
    carry: bool = False,
) -> list[tuple[int, float, float, float]]:
    """(pass, seconds until then, held-out perplexity by our judge, processor seconds until then) of
    another program.  carry: in pieces, each going on
    from the one before."""
    out = work / f"{trainer}-{store.stem}-{topics}-{seed}"
    args = [
        python,
        HERE / "peers" / "run.py",
        trainer,
        export(store, work),
        out,
        "-K",
        topics,
        "--alpha",
        alpha,
        "--beta",
        beta,
        "--passes",
        passes,
        "--save-at",
        ",".join(map(str, save_at)),
        "--seed",
        seed,
        *(["--carry"] if carry else []),
    ]
    subprocess.run(
        [str(a) for a in args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    seconds, processor = (
        np.cumsum(json.loads((out / "run.json").read_text())[n]) for n in ("seconds", "processor")
    )
    corpus = Corpus.open(store)
    found = []
    for p in sorted({*save_at, passes}):
        phi = np.load(out / f"phi-{p}.npy")
        table = TopicTable(
            phi, np.full(topics, alpha), beta, phi.sum(axis=0, dtype=np.float64), len(phi)
        )
        scored = ScoredTopics(table)
        score = score_blocks(scored, prepare_heldout(corpus, topics=topics), threads=2)
        found.append((p, float(seconds[p - 1]), score.perplexity, float(processor[p - 1])))
    return found


class Meter(Progress):
    """Silent; processor seconds of every pass, without those of scoring."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.passes: dict[int, float] = {}

    def step(
        self, what: str, done: int = 0, total: int | None = None, unit: str = "", documents: int = 0
    ) -> None:
        if done == 0:
            self._at = time.process_time()

    def end_pass(self, record: Mapping[str, Any], passes: int) -> None:
        super().end_pass(record, passes)
        self.passes[record["pass"]] = time.process_time() - self._at

    def judged(self, judge: Any, *given: Any) -> Any:
        """Score, and leave the processor seconds out."""
        began = time.process_time()
        score = judge(*given)
        self._at += time.process_time() - began
        return score


def curve(
    store: Path,
    model: Path,
    algo: str,
    topics: int,
    passes: int,
    every: int,
    seed: int = 0,
    *,
    then: tuple[int, int] = (0, 0),
    max_time: float | None = None,
    **options: Any,
) -> list[tuple[int, float, float, float]]:
    """(pass, seconds of start and passes until then, held-out perplexity, processor seconds until
    then) of one of ours;
    scoring is not counted.  ``then``: go on to so many passes, scored every so many; ``max_time``
                             (scoring included) is for
    each part."""
    meter = Meter()
    judge = HeldOut.perplexity
    HeldOut.perplexity = lambda *given: meter.judged(judge, *given)  # type: ignore[method-assign]
    try:
        for last, each in ((passes, every), then):
            if last:
                train(
                    store,
                    model,
                    algo=algo,
                    topics=topics,
                    passes=last,
                    tol=0,
                    seed=seed,
                    threads=2,
                    force=last == passes,
                    eval_every=each,
                    max_time=max_time,
                    options={"alpha": 0.1, "beta": 0.01, **options},
                    progress=meter,
                )
    finally:
        HeldOut.perplexity = judge  # type: ignore[method-assign]
    found = []
    total = 0.0
    processor = 0.0
    for line in (model / "history.jsonl").read_text().splitlines():
        record = json.loads(line)
        total += record["seconds"]
        processor += meter.passes[record["pass"]]
        if record["heldout_perplexity"] is not None:
            found.append((record["pass"], total, record["heldout_perplexity"], processor))
    return found


def time_to_quality(data: Path, work: Path, python: str) -> None:
    """Seconds until aTBP is as good as tomotopy after 100 passes, against tomotopy's seconds."""
    store = enwiki(data, work)
    rows = []
    for seed in range(3 if full() else 1):
        target = peer(python, "tomotopy_lda", store, work, 100, 100, [20], seed + 1)[-1]
        ours = curve(store, work / "ttq", "atbp", 100, 40, 1, seed)
        reached = next((c for c in ours if c[2] <= target[2]), None)
        rows.append(
            [
                seed,
                f"{target[1]:.1f}",
                f"{target[2]:.0f}",
                f"{reached[1]:.2f} (pass {reached[0]})" if reached else "not reached",
                f"1/{target[1] / reached[1]:.1f}" if reached else "-",
                f"{ours[-1][2]:.0f}",
            ]
        )
    heading(
        "Time to tomotopy's 100th pass",
        "10,000 enwiki articles, K = 100, alpha 0.1, beta 0.01, 2 threads; aTBP with its start, "
        "checkpoints included",
    )
    table(["seed", "tomotopy s", "its perplexity", "aTBP s", "ratio", "aTBP after 40 passes"], rows)


def quality(data: Path, work: Path, python: str, names: list[str] | None, peer_seeds: int) -> None:
    """Predictive perplexity beside gensim's online VB and tomotopy at 500 passes, mean of three
    seeds.  Each figure is kept
    in ``quality.jsonl`` of the work folder as soon as it is there, and not made again; the table
    has all that are there. peer_seeds: seeds of the other programs."""
    names = names or (["kos", "20news", "nips12", "enwiki"] if full() else ["kos"])
    seeds = range(3 if full() else 1)
    figures = Figures(work / "quality.jsonl")

    def figure(store: Path, topics: int, algo: str, seed: int) -> None:
        def make() -> dict[str, float]:
            if algo in PEERS:
                passes = 500 if algo == "tomotopy_lda" else 5
                return {
                    "perplexity": peer(python, algo, store, work, topics, passes, [], seed + 1)[-1][
                        2
                    ]
                }
            return {"perplexity": curve(store, work / "q", algo, topics, 100, 100, seed)[-1][2]}

        figures.get({"corpus": store.stem, "K": topics, "algo": algo, "seed": seed}, make)

    algorithms = ("atbp", "stbp", "sparse-bp", *PEERS)
    for name in names:
        if name == "enwiki":
            store = enwiki(data, work)
        else:
            store = work / f"{name}.zarr"
            if not store.exists():
                source = data / name / ("docs.jsonl.gz" if name == "20news" else "docword.txt.gz")
                ingest(source, out=store, heldout="10%", mem_limit="2G")
        for topics in (50, 100):
            for algo in algorithms:
                for seed in seeds if algo not in PEERS else range(min(len(seeds), peer_seeds)):
                    figure(store, topics, algo, seed)
    rows = []
    for name, topics in sorted({(r["corpus"], r["K"]) for r in figures.kept}):
        records = (figures.find({"corpus": name, "K": topics, "algo": algo}) for algo in algorithms)
        found = [[r["perplexity"] for r in few] for few in records]
        rows.append(
            [
                name,
                topics,
                *(
                    f"{np.mean(v):.0f} ({min(v):.0f}-{max(v):.0f}; {len(v)})" if v else "-"
                    for v in found
                ),
            ]
        )
    heading(
        "Predictive perplexity",
        "alpha 0.1, beta 0.01, mean (range; seeds); ours after 100 passes, gensim 5, tomotopy 500",
    )
    table(["corpus", "K", "aTBP", "sTBP", "sparse-bp", "gensim online VB", "tomotopy Gibbs"], rows)


def pubmed(work: Path) -> None:
    """Train on a corpus of PubMed's size inside a memory cgroup; time passes, then match the
    planted topics.
    """
    cells = "480e6" if full() else "6e6"
    store = made(work, cells)
    rows = []
    for topics, limit, passes in ((10, "512M", 5), (100, "2G", 5)):
        model = work / f"pubmed-{topics}"
        command = [
            sys.executable,
            "-m",
            "topicstream.cli.main",
            "train",
            "--corpus",
            str(store),
            "--model",
            str(model),
            "--algo",
            "atbp",
            "-K",
            str(topics),
            "--mem-limit",
            limit,
            "--passes",
            str(passes),
            "--tol",
            "0",
            "--force",
        ]
        began = time.monotonic()
        done = in_cgroup(command, limit)
        if done.returncode:
            rows.append(
                [topics, limit, "failed: " + done.stderr.strip().splitlines()[-1], "", "", ""]
            )
            continue
        seconds = seconds_of(model)
        record = json.loads((model / "history.jsonl").read_text().splitlines()[-1])
        rows.append(
            [
                topics,
                limit,
                f"{seconds[0]:.1f}",
                f"{statistics.median(seconds[1:]):.1f}",
                f"{record['rss_peak_bytes'] / 2**20:.0f} MB",
                f"{time.monotonic() - began:.0f}",
            ]
        )
    corpus = Corpus.open(store)
    heading(
        "Bigger than RAM",
        f"{corpus.n_docs:,} documents, {corpus.n_cells:,} cells, W = {corpus.n_words:,}, aTBP "
        f"inside a memory cgroup of the limit",
    )
    table(["K", "limit", "start s", "s a pass", "peak resident", "whole command s"], rows)
    recovered(work, store, "512M")


def recovered(work: Path, store: Path, limit: str) -> None:
    """Run K = 10 to convergence and match the planted topics."""
    from scipy.optimize import linear_sum_assignment

    planted = np.load(
        store.with_name(store.name + ".phi.npy")
        if store.with_name(store.name + ".phi.npy").exists()
        else store.with_suffix(".phi.npy")
    )
    topics = len(planted)
    model = work / "pubmed-converged"
    command = [
        sys.executable,
        "-m",
        "topicstream.cli.main",
        "train",
        "--corpus",
        str(store),
        "--model",
        str(model),
        "--algo",
        "atbp",
        "-K",
        str(topics),
        "--mem-limit",
        limit,
        "--passes",
        "40",
        "--force",
    ]
    done = in_cgroup(command, limit)
    if done.returncode:
        print(done.stderr)
        return
    found = TopicModel.open(model).probabilities(np.arange(planted.shape[1])).T
    cost = np.array([np.abs(found - p).sum(axis=1) for p in planted])
    matched = cost[linear_sum_assignment(cost)]
    print(
        f"\nConverged after {len(seconds_of(model)) - 1} passes, {sum(seconds_of(model)):.0f} "
        f"s: l1 distance of the {topics} matched topics: "
        f"mean {matched.mean():.3f}, worst {matched.max():.3f}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", nargs="*", default=["disk", "checkpoints", "quality-time", "quality", "pubmed"]
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--work", type=Path)
    parser.add_argument(
        "--corpora",
        nargs="+",
        choices=["kos", "20news", "nips12", "enwiki"],
        help="quality: only these",
    )
    parser.add_argument(
        "--peer-seeds", type=int, default=3, help="quality: seeds of the other programs"
    )
    parser.add_argument("--peers", default=sys.executable)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        for what in args.what:
            if what == "disk":
                disk(args.data, work)
            elif what == "checkpoints":
                checkpoints(args.data, work)
            elif what == "quality-time":
                time_to_quality(args.data, work, args.peers)
            elif what == "quality":
                quality(args.data, work, args.peers, args.corpora, args.peer_seeds)
            elif what == "pubmed":
                pubmed(work)
            else:
                parser.error(f"unknown measurement {what}")


if __name__ == "__main__":
    main()
