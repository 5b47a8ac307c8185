"""Measure training: disk against memory, checkpoints, time to quality, quality, and bigger than
RAM.

    python scripts/benchmarks/bench_train.py [disk] [checkpoints] [quality-time] [quality] [pubmed]
        --data ../shared/data --peers PEERS/bin/python

Prints Markdown.  Every comparison is made in one run on one machine.  FULL=1 takes the full sizes.
"""

from __future__ import annotations

import argparse
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
from measure import full, heading, in_cgroup, table
from train_quality import QUIET, TOOLS, enwiki, quality, time_to_quality

from topicstream.base.progress import Shown as Progress
from topicstream.corpus.format import KINDS, chunk_path
from topicstream.corpus.reader import Corpus
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train
from topicstream.training.state.checkpoint import Saver


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
