"""Processor time of two checkouts in alternating pairs: is a commit as fast as another?

    python scripts/tools/pairs.py OLD NEW --corpus c.zarr --raw docs.jsonl [--pairs 9] [--only NAME]

OLD and NEW are checkouts (git worktrees) that share this Python's packages.  Each case is a whole
command, start included; its
figure is user and system time of the process, which other work on the machine disturbs less than
the clock.  One run of
each goes before, uncounted (it compiles).  Markdown on stdout.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def cases(corpus: str, raw: str, work: Path) -> dict[str, list[str]]:
    """Name -> arguments of ``topics``."""

    def train(algo: str, topics: int, passes: int, *more: str) -> list[str]:
        given = [
            "train",
            "--algo",
            algo,
            "-K",
            str(topics),
            "--passes",
            str(passes),
            *more,
            "--corpus",
            corpus,
        ]
        return [
            *given,
            "--model",
            str(work / "m"),
            "--tol",
            "0",
            "--threads",
            "2",
            "--mem-limit",
            "8G",
            "--force",
            "-q",
        ]

    return {
        "atbp K = 10, tables on disk": train("atbp", 10, 4, "--tables", "disk"),
        "atbp K = 100": train("atbp", 100, 3),
        "sparse-bp K = 100": train("sparse-bp", 100, 4),
        "sparse-bp K = 500": train("sparse-bp", 500, 3),
        "sparselda K = 100": train("sparselda", 100, 2),
        "ovb K = 50": train("ovb", 50, 1),
        "infer from the store": [
            "infer",
            corpus,
            "--model",
            str(work / "fixed"),
            "-o",
            str(work / "t.parquet"),
            "--force",
            "-q",
        ],
        "ingest": ["ingest", raw, "--out", str(work / "c.zarr"), "--force", "-q"],
    }


def seconds(checkout: str, args: list[str], work: Path) -> float:
    """Processor seconds of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {**os.environ, "PYTHONPATH": str(Path(checkout).resolve())}
    command = [sys.executable, "-m", "topicstream.cli.main", *args]
    done = subprocess.run(command, env=env, cwd=work, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{checkout}: topics {' '.join(args)}\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--raw", required=True)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    print("| command | old, s | new, s | new / old |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        every = cases(str(Path(given.corpus).resolve()), str(Path(given.raw).resolve()), work)
        fixed = [
            str(work / "fixed") if a == str(work / "m") else a for a in every["sparse-bp K = 100"]
        ]
        seconds(given.old, fixed, work)
        for name, args in every.items():
            if given.only not in name:
                continue
            both = (given.old, given.new)
            found: dict[str, list[float]] = {c: [] for c in both}
            for pair in range(-1, given.pairs):
                for checkout in both if pair % 2 else both[::-1]:
                    took = seconds(checkout, args, work)
                    if pair >= 0:
                        found[checkout].append(took)
            old, new = (statistics.median(found[c]) for c in both)
            print(f"| {name} | {old:.2f} | {new:.2f} | {new / old:.3f} |", flush=True)


if __name__ == "__main__":
    main()
