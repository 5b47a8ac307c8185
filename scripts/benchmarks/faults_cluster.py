"""Faults at random instants of a training on two Dask workers, each in a network namespace of its
own: every run must end in the
bits of an undisturbed one.  Needs root and Linux.

    python scripts/tools/make_corpus.py --cells 4e5 --words 20000 --out small.zarr
    python scripts/benchmarks/faults_cluster.py small.zarr --faults 30

Faults, in turn: a worker is killed; a worker is stopped for 15 seconds; the link of a worker is
down for 15 seconds; the command is killed; the disk of the model is full for some seconds (only
with --disk, an empty folder on a small file system of its own,
such as a tmpfs of 200 MB).  A command that ended is started again until it ends well, as cron
                             would.  Told are the seconds until
the command has noticed that a worker is lost, too.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from checkpoint_bits import content_hash
from namespaces import Namespaces


class Training:
    """A training that is started again until it ends well."""

    def __init__(self, corpus: Path, model: Path, passes: int) -> None:
        self.model = model
        self.tries = 0
        self.command = [
            sys.executable,
            "-m",
            "topicstream",
            "train",
            "--corpus",
            str(corpus),
            "--model",
            str(model),
        ]
        self.command += [
            "-K",
            "20",
            "--passes",
            str(passes),
            "--tol",
            "0",
            "--threads",
            "1",
            "--round-blocks",
            "4",
        ]

    def begin(self, *more: str) -> subprocess.Popen[str]:
        self.tries += 1
        return subprocess.Popen(
            [*self.command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    @property
    def passes(self) -> int:
        """Passes that the history tells of."""
        history = self.model / "history.jsonl"
        return history.read_bytes().count(b"\n") if history.exists() else 0

    def finish(self, process: subprocess.Popen[str], *more: str) -> tuple[float, list[str]]:
        """Seconds until it said that a worker is lost (nan: never), and the last lines of the tries
        that failed.
        """
        said = []
        began = time.monotonic()
        noticed = float("nan")
        while True:
            assert self.tries < 10, said
            lines = []
            for line in process.stderr:
                lines.append(line.strip())
                if "lost " in line and noticed != noticed:
                    noticed = time.monotonic() - began
            if process.wait() == 0:
                return noticed, said
            said.append(f"{process.returncode}: {lines[-1:]}")
            process = self.begin(*more)


def fill(folder: Path) -> Path:
    """Leave no room where the model is."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            return filler


def later(seconds: float, do: Callable[[], object]) -> None:
    """Do something after so many seconds, which are not waited for."""
    threading.Timer(seconds, do).start()


def disturb(
    fault: str,
    there: Namespaces,
    workers: list[int],
    command: subprocess.Popen[str],
    disk: Path | None,
) -> None:
    chosen = random.randrange(len(workers))
    if fault == "worker killed":
        os.kill(workers[chosen], signal.SIGKILL)
    elif fault == "worker stopped":
        os.kill(workers[chosen], signal.SIGSTOP)
        later(15, lambda: os.kill(workers[chosen], signal.SIGCONT))
    elif fault == "link down":
        there.link(chosen, False)
        later(15, lambda: there.link(chosen, True))
    elif fault == "command killed":
        command.kill()
    elif disk is not None:
        later(3, fill(disk).unlink)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--passes", type=int, default=25)
    parser.add_argument("--disk", type=Path)
    given = parser.parse_args()
    faults = [
        "worker killed",
        "worker stopped",
        "link down",
        "command killed",
        *(["disk full"] if given.disk else []),
    ]
    with tempfile.TemporaryDirectory() as folder, Namespaces(2, number=1) as there:
        scheduler = ["--scheduler", there.address]
        wrong = 0
        whole = Training(given.corpus, Path(folder) / "whole", given.passes)
        whole.finish(whole.begin(*scheduler), *scheduler)
        for number in range(given.faults):
            random.seed(number)
            model = (given.disk or Path(folder)) / f"m{number}"
            there.client.wait_for_workers(2, timeout=120)
            workers = list(there.client.run(os.getpid).values())
            run = Training(given.corpus, model, given.passes)
            fault = faults[number % len(faults)]
            command = run.begin(*scheduler)
            wanted = random.randrange(given.passes - 3)
            while command.poll() is None and run.passes <= wanted:
                time.sleep(0.01)
            time.sleep(random.uniform(0.0, 0.5))
            hit = command.poll() is None
            disturb(fault, there, workers, command, given.disk)
            noticed, said = run.finish(command, *scheduler)
            same = content_hash(model) == content_hash(whole.model)
            wrong += not same
            words = (
                f"{'' if hit else 'too late, '}lost worker noticed after {noticed:.1f} s, "
                f"{'same' if same else 'OTHER'} bits"
            )
            print(f"{number} {fault} after pass {wanted}: {words} {said}", flush=True)
            shutil.rmtree(model)
            time.sleep(max(0.0, 15 - noticed) if fault in ("worker stopped", "link down") else 0)
    print(f"{wrong} of {given.faults} wrong" if wrong else f"all {given.faults} the same bits")


if __name__ == "__main__":
    main()
