"""Seconds and bytes of a pass on a network, beside what a model says that was measured without one.

    python scripts/tools/make_corpus.py --cells 3e6 --out three.zarr
    python scripts/benchmarks/scale.py three.zarr --members 2,3 --rates 1gbit,100mbit          (root, Linux)

Bytes.  Members send each other D (N - 1)/N + U (N - 1) in a pass: D is what blocks change, U what comes out of rounds
(docs/decisions/cluster.md).  D and U are found on two and three members; the model then speaks of the numbers of members in --check.

Seconds.  A pass over links of a rate takes what it takes over links without a limit (measured in turn with the others, on the same
workers, so that what else the machine does meets both), and bytes / (N x rate): all links carry at once, in both directions,
and members compute nothing meanwhile.  Of a link's rate FRAMES is left once Ethernet, IP and TCP have theirs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
from namespaces import Namespaces

from topicstream.progress import Shown
from topicstream.training.loop import train
from topicstream.training.state.checkpoint import content_hash

FRAMES = 1448 / 1514
UNITS = {"gbit": 125e6, "mbit": 125e3}


class Passes(Shown):
    """Keeps seconds and bytes of each pass."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.made: list[tuple[float, int]] = []

    def end_pass(self, record, passes):
        self.made.append((record["seconds"], record["cluster"]["sent_bytes"]))


def bytes_a_second(rate: str) -> float:
    """What ``100mbit`` or the like carries."""
    return next(float(rate.removesuffix(unit)) * size for unit, size in UNITS.items() if rate.endswith(unit))


def measure(given: argparse.Namespace, members: int, hashes: set[str]) -> dict[str | None, tuple[list[float], float]]:
    """By rate (None: no limit) the seconds of passes, and bytes of a pass."""
    taken: dict[str | None, tuple[list[float], float]] = {}
    with Namespaces(members) as there:
        for _ in range(given.rounds):
            for rate in (None, *given.rates):
                there.slow(None if rate is None else bytes_a_second(rate))
                with tempfile.TemporaryDirectory() as folder:
                    told, options = Passes(), {"topics": given.topics, "passes": given.passes, "tol": 0, "threads": 1}
                    train(
                        given.corpus, Path(folder) / "m", algo="sparse-bp", **options, scheduler=there.client, progress=told,
                        checkpoint_minutes=1000,
                    )  # fmt: skip
                    hashes.add(content_hash(Path(folder) / "m"))
                seconds, sent = zip(*told.made[2:])
                taken.setdefault(rate, ([], statistics.median(sent)))[0].extend(seconds)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--members", type=lambda text: [int(part) for part in text.split(",")], default=[2, 3])
    parser.add_argument("--check", type=int, help="a number of members whose bytes are predicted from the others")
    parser.add_argument("--rates", type=lambda text: text.split(","), default=["1gbit", "100mbit"])
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2, help="times that every training is made, in turn")
    given = parser.parse_args()
    hashes, sent = set[str](), dict[int, float]()
    for members in [*given.members, *([given.check] if given.check else [])]:
        taken = measure(given, members, hashes)
        free, sent[members] = statistics.median(taken[None][0]), taken[None][1]
        print(f"{members} members, no limit: {free:.2f} s a pass, {sent[members] / 1e6:.0f} MB", flush=True)
        for rate in given.rates:
            seconds, model = (
                statistics.median(taken[rate][0]),
                free + sent[members] / members / bytes_a_second(rate) / FRAMES,
            )
            print(
                f"{members} members, {rate}: {seconds:.2f} s a pass, model {model:.2f} ({seconds / model - 1:+.0%})",
                flush=True,
            )
    if given.check:
        made = [[(n - 1) / n, n - 1] for n in given.members]
        d, u = np.linalg.lstsq(np.array(made), np.array([sent[n] for n in given.members]), rcond=None)[0]
        model = d * (given.check - 1) / given.check + u * (given.check - 1)
        print(
            f"D {d / 1e6:.0f} MB, U {u / 1e6:.0f} MB; {given.check} members: {sent[given.check] / model - 1:+.1%} beside the model"
        )
    print("models equal" if len(hashes) == 1 else f"{len(hashes)} DIFFERENT MODELS")


if __name__ == "__main__":
    main()
