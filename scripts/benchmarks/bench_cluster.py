"""A training on the workers of a Dask cluster beside the same one on threads of this process, on one machine.

    python scripts/tools/make_corpus.py --cells 50e6 --out fifty.zarr
    python scripts/benchmarks/bench_cluster.py fifty.zarr --topics 100 --passes 6

Runs: two threads; two members of one thread each, over TCP on loopback; one thread; one member of one thread.  Tells the
median seconds of a pass from the second on, what was sent, and whether the models are equal.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from distributed import Client, LocalCluster

from topicstream.training.loop import train
from topicstream.training.state.checkpoint import content_hash


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--passes", type=int, default=6)
    parser.add_argument("--algo", default="sparse-bp")
    parser.add_argument("--rounds", type=int, default=2, help="times that every run is made, in turn")
    given = parser.parse_args()
    seconds: dict[str, list[float]] = {}
    hashes, about = set(), dict[str, object]()
    for _ in range(given.rounds):
        for members, threads in ((0, 2), (2, 1), (0, 1), (1, 1)):
            name = f"{members} members of {threads} thread" if members else f"{threads} threads"
            with tempfile.TemporaryDirectory() as folder:
                model = Path(folder) / "model"
                options = {"algo": given.algo, "topics": given.topics, "passes": given.passes, "tol": 0, "threads": threads}
                if members:
                    with (
                        LocalCluster(n_workers=members, threads_per_worker=1, memory_limit=0, dashboard_address=":0") as made,
                        Client(made) as client,
                    ):
                        train(given.corpus, model, **options, scheduler=client, progress=False)
                else:
                    train(given.corpus, model, **options, progress=False)
                hashes.add(content_hash(model))
                records = [json.loads(line) for line in (model / "history.jsonl").read_text().splitlines()]
                seconds.setdefault(name, []).extend(record["seconds"] for record in records[2:])
                about[name] = records[-1].get("cluster", {})
    for name, each in seconds.items():
        print(f"{name}: {statistics.median(each):.3f} s a pass ({min(each):.3f} to {max(each):.3f}) {about[name]}")
    print("models equal" if len(hashes) == 1 else f"{len(hashes)} DIFFERENT MODELS")


if __name__ == "__main__":
    main()
