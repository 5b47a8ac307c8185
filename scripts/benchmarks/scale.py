"""Seconds and bytes of a pass on a network, beside what a model says that was measured without one.

    python scripts/tools/make_corpus.py --cells 3e6 --out three.zarr
    python scripts/benchmarks/scale.py three.zarr --members 2,3 --rates 1gbit,100mbit
    (root, Linux)

Bytes.  Members send each other D (N - 1)/N + U (N - 1) in a pass: D is what blocks change, U what
        comes out of rounds
(docs/internals/decisions/cluster.md).  D and U are found on the --members (two numbers at least);
the model
                              then speaks of --check, too.

Seconds.  A pass over links of a rate takes what it takes over links without a limit (every second
          or third pass of the same
training, so that what else the machine does meets both), and what the busiest link carries of these
bytes: all links carry at
once, in both directions, and members compute nothing meanwhile.  Of D the busiest carries more than
the mean one, because of the n
blocks of a round one member has ceil(n / N).  Of a link's rate FRAMES is left once Ethernet, IP and
TCP have theirs.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import numpy as np
from checkpoint_bits import content_hash
from namespaces import Namespaces

from topicstream.base.progress import Shown
from topicstream.training.loop import train

FRAMES = 1448 / 1514
ROUND = 8  # blocks
UNITS = {"gbit": 125e6, "mbit": 125e3}


class Passes(Shown):
    """Changes the rate after each pass, and keeps seconds by rate, bytes and blocks of those from
    the second on.
    """

    def __init__(self, there: Namespaces, rates: list[str | None]) -> None:
        super().__init__(-1)
        self.there = there
        self.rates = itertools.cycle(rates)
        self.rate = None
        self.made: dict[str | None, list[float]] = {rate: [] for rate in rates}

    def end_pass(self, record, passes):
        if record["pass"] > 1:
            self.made[self.rate].append(record["seconds"])
            self.sent = record["cluster"]["sent_bytes"]
            self.blocks = record["cluster"]["blocks"]
        self.rate = next(self.rates)
        self.there.slow(None if self.rate is None else bytes_a_second(self.rate))


class Measured(NamedTuple):
    """Of a number of members: seconds of passes by rate (None: no limit), bytes and blocks of a
    pass.
    """

    seconds: dict[str | None, list[float]]
    sent: float
    blocks: int


def bytes_a_second(rate: str) -> float:
    """What ``100mbit`` or the like carries."""
    return next(
        float(rate.removesuffix(unit)) * size for unit, size in UNITS.items() if rate.endswith(unit)
    )


def measure(given: argparse.Namespace, members: int, hashes: set[str]) -> Measured:
    rates = [None, *given.rates]
    with Namespaces(members) as there, tempfile.TemporaryDirectory() as folder:
        options = {
            "algo": "sparse-bp",
            "topics": given.topics,
            "passes": 1 + given.rounds * len(rates),
            "round_blocks": ROUND,
        }
        told = Passes(there, rates)
        model = Path(folder) / "m"
        options |= {
            "tol": 0,
            "threads": 1,
            "checkpoint_minutes": 1000,
            "scheduler": there.client,
            "progress": told,
        }
        train(given.corpus, model, **options)
        hashes.add(content_hash(model))
    for rate, seconds in told.made.items():
        print(f"{members} members, {rate or 'no limit'}: {seconds} s", flush=True)
    return Measured(told.made, told.sent, told.blocks)


def busiest(blocks: int, members: int) -> float:
    """Blocks of the member that has most, beside the mean: of each round, and then of the pass."""
    rounds = [min(ROUND, blocks - first) for first in range(0, blocks, ROUND)]
    return sum(math.ceil(n / members) * members for n in rounds) / blocks


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument(
        "--members", type=lambda text: [int(part) for part in text.split(",")], default=[2, 3]
    )
    parser.add_argument("--check", type=int, help="one more number of members")
    parser.add_argument("--rates", type=lambda text: text.split(","), default=["1gbit", "100mbit"])
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3, help="passes at each rate, in turn")
    given = parser.parse_args()
    hashes = set[str]()
    found = {
        n: measure(given, n, hashes)
        for n in [*given.members, *([given.check] if given.check else [])]
    }
    made = np.array([[(n - 1) / n, n - 1] for n in given.members])
    d, u = np.linalg.lstsq(made, np.array([found[n].sent for n in given.members]), rcond=None)[0]
    print(f"D {d / 1e6:.1f} MB, U {u / 1e6:.1f} MB")
    for n, (seconds, sent, blocks) in found.items():
        free = statistics.median(seconds[None])
        model = d * (n - 1) / n + u * (n - 1)
        print(
            f"{n} members: {sent / 1e6:.1f} MB, model {model / 1e6:.1f} "
            f"({sent / model - 1:+.1%}); {free:.2f} s a pass without a limit"
        )
        carried = (d * (n - 1) / n * busiest(blocks, n) + u * (n - 1)) / n
        for rate in given.rates:
            took = statistics.median(seconds[rate])
            said = free + carried / bytes_a_second(rate) / FRAMES
            print(
                f"{n} members, {rate}: {took:.2f} s a pass, model {said:.2f} "
                f"({took / said - 1:+.0%})"
            )
    print("models equal" if len(hashes) == 1 else f"{len(hashes)} DIFFERENT MODELS")


if __name__ == "__main__":
    main()
