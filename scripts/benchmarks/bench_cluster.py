"""A training on the workers of a Dask cluster beside the same one on threads of this process, on one machine.

    python scripts/tools/make_corpus.py --cells 50e6 --out fifty.zarr
    python scripts/benchmarks/bench_cluster.py fifty.zarr --topics 100 --passes 6

Runs in turn: two threads; two members of one thread each, over TCP on loopback; one thread; one member of one thread.  Tells
the medians of wall and processor seconds (of all processes) of a pass from the third on, what was sent, and whether the models
are equal.  On a machine that others use, only processor seconds can be compared.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import psutil

from topicstream.progress import Shown
from topicstream.training.loop import train
from topicstream.training.state.checkpoint import content_hash


class Passes(Shown):
    """Keeps what each pass took: wall seconds, processor seconds so far, and what the cluster did."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.made: list[tuple[float, float, dict[str, object]]] = []

    def end_pass(self, record, passes):
        this = psutil.Process()
        spent = [process.cpu_times() for process in (this, *this.children(recursive=True))]
        self.made.append((record["seconds"], sum(t.user + t.system for t in spent), record.get("cluster", {})))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--passes", type=int, default=6)
    parser.add_argument("--algo", default="sparse-bp")
    parser.add_argument("--rounds", type=int, default=2, help="times that every run is made, in turn")
    given = parser.parse_args()
    taken: dict[str, list[tuple[float, float]]] = {}
    hashes, about = set(), dict[str, object]()
    for _ in range(given.rounds):
        for members, threads in ((0, 2), (2, 1), (0, 1), (1, 1)):
            name = f"{members} members of {threads} thread" if members else f"{threads} threads"
            with tempfile.TemporaryDirectory() as folder:
                options = {"algo": given.algo, "topics": given.topics, "passes": given.passes, "tol": 0, "threads": threads}
                scheduler, told = f"local:{members}" if members else None, Passes()
                train(given.corpus, Path(folder) / "model", **options, scheduler=scheduler, progress=told)
                hashes.add(content_hash(Path(folder) / "model"))
            for (_, before, _), (seconds, after, about[name]) in zip(told.made[2:], told.made[3:]):
                taken.setdefault(name, []).append((seconds, after - before))
    for name, each in taken.items():
        wall, processor = zip(*each)
        print(
            f"{name}: {statistics.median(wall):.3f} s a pass, {statistics.median(processor):.3f} s of processors "
            f"({min(processor):.3f} to {max(processor):.3f}) {about[name]}"
        )
    print("models equal" if len(hashes) == 1 else f"{len(hashes)} DIFFERENT MODELS")


if __name__ == "__main__":
    main()
