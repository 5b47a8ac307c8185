"""What a round costs the driver of a training on a cluster, and how evenly blocks are dealt, for
numbers of members that no machine here can hold: the driver's own code asks servers that answer as
members do, at once, in another process.

    python scripts/benchmarks/bench_driver.py corpus.zarr --members 16,64

Tells the processor time of the driver for a round, and the cells of the busiest member beside the
mean, by rounds and over a pass, for blocks of the corpus that are so small that there are nearly
four rounds."""

from __future__ import annotations

import argparse
import asyncio
import logging
import multiprocessing
import time
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster
from distributed.core import Server
from distributed.protocol.pickle import dumps

from topicstream.addons.cluster.executor import DaskWorkers, assign_blocks
from topicstream.addons.cluster.member import Answer
from topicstream.corpus.reader import Corpus
from topicstream.training.executor import Report

RUN = "topics-driver"
TOPICS = 1000
ROUNDS = 200


def serve(members: int, blocks: int, pipe) -> None:
    """Members that have done their work before they are asked."""

    async def run() -> None:
        servers = []
        for number in range(members):

            def ask(question, given, changes, number=number):
                mine = range(number, blocks, members)
                stats = {"tokens": np.zeros(1), "alpha": np.zeros(TOPICS)}
                reports = [
                    (place, Report(100, stats), np.zeros((2, 3), np.int64)) for place in mine
                ]
                return {"answer": dumps(Answer(reports, 0.1, 1 << 20))}

            server = Server({f"{RUN}-ask": ask, f"{RUN}-ping": lambda: True})
            await server.listen("tcp://127.0.0.1")
            servers.append(server)
        pipe.send([server.address for server in servers])
        await asyncio.sleep(3600)

    asyncio.run(run())


class Driver(DaskWorkers):
    """Of members that are there already."""

    def __init__(self, client: Client, addresses: list[str]) -> None:
        self.client = client
        self.run = RUN
        self.changes = []
        self.visited = 0
        self.began = 0.0
        self.roster = tuple(addresses)
        self.watch = client.sync(self._start_watch)

    def round(self, group: np.ndarray, params: dict[str, np.ndarray]) -> None:
        answers = self._ask_all("visit", group, params)
        reports = {place: report for answer in answers for place, report, _ in answer.value}
        assert sorted(reports) == list(range(len(group)))
        self.about = self._effort(answers)
        self.changes = [("phi", None, True)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument(
        "--members", type=lambda text: [int(part) for part in text.split(",")], default=[1, 16, 64]
    )
    given = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    corpus = Corpus.open(given.corpus)
    params = {"alpha": np.ones(TOPICS), "beta": np.ones(1)}
    with (
        LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=logging.ERROR) as made,
        Client(made) as client,
    ):
        for members in given.members:
            width = max(8, members)
            here, there = multiprocessing.Pipe()
            process = multiprocessing.get_context("spawn").Process(
                target=serve, args=(members, width, there), daemon=True
            )
            process.start()
            driver = Driver(client, here.recv())
            group = np.arange(width)
            for _ in range(10):
                driver.round(group, params)
            began = time.perf_counter()
            before = time.process_time()
            for _ in range(ROUNDS):
                driver.round(group, params)
            spent = time.process_time() - before
            wall = time.perf_counter() - began
            driver.watch.cancel()
            process.kill()
            grid = corpus.grid(max(1, int(corpus.n_cells / (3.8 * width))), 1 << 30)
            owners = assign_blocks(grid.cells, width, members)
            uneven = []
            weights = []
            for first in range(0, len(grid), width):
                load = np.bincount(
                    owners[first : first + width],
                    grid.cells[first : first + width],
                    minlength=members,
                )
                uneven.append(load.max() / load.mean())
                weights.append(load.sum())
            print(
                f"{members} members: {1e3 * spent / ROUNDS:.1f} ms of processors a round "
                f"({1e3 * wall / ROUNDS:.1f} ms by the clock); "
                f"{len(grid)} blocks in rounds of {width}, busiest beside the mean "
                f"{np.round(uneven, 2).tolist()}, "
                f"over the pass {np.average(uneven, weights=weights):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
