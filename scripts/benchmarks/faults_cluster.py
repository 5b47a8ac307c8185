"""Faults at random instants of a training on a local Dask cluster: every run must end in the bits of an undisturbed one.

    python scripts/tools/make_corpus.py --cells 4e5 --words 20000 --out small.zarr
    python scripts/benchmarks/faults_cluster.py small.zarr --faults 30

Faults, in turn: a worker is killed; a worker is stopped for 15 seconds; the command is killed; the disk of the model is full for some
seconds (only with --disk, an empty folder on a small file system of its own, such as a tmpfs of 100 MB).  A command that ended
is started again until it ends well, as cron would.
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
import time
from pathlib import Path

from distributed import Client, LocalCluster

from topicstream.training.state.checkpoint import content_hash


class Training:
    """A training that is started again until it ends well."""

    def __init__(self, corpus: Path, model: Path, passes: int) -> None:
        self.model, self.tries = model, 0
        self.command = [sys.executable, "-m", "topicstream", "train", "--corpus", str(corpus), "--model", str(model)]
        self.command += ["-K", "20", "--passes", str(passes), "--tol", "0", "--threads", "1", "--round-blocks", "4", "-q"]

    def begin(self, *more: str) -> subprocess.Popen[str]:
        self.tries += 1
        return subprocess.Popen([*self.command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, process: subprocess.Popen[str], *more: str) -> list[str]:
        """The last lines of the tries that failed."""
        said = []
        while process.wait() != 0:
            assert self.tries < 10, said
            said.append(f"{process.returncode}: {process.communicate()[1].strip().splitlines()[-1:]}")
            process = self.begin(*more)
        return said


def fill(folder: Path) -> Path:
    """Leave no room where the model is."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            return filler


def disturb(fault: str, workers: list[int], command: subprocess.Popen[str], disk: Path | None) -> None:
    if fault == "worker killed":
        os.kill(random.choice(workers), signal.SIGKILL)
    elif fault == "worker stopped":
        stopped = random.choice(workers)
        os.kill(stopped, signal.SIGSTOP)
        time.sleep(15)
        os.kill(stopped, signal.SIGCONT)
    elif fault == "command killed":
        command.kill()
    elif disk is not None:
        filler = fill(disk)
        time.sleep(3)
        filler.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--passes", type=int, default=25)
    parser.add_argument("--disk", type=Path)
    given = parser.parse_args()
    faults = ["worker killed", "worker stopped", "command killed", *(["disk full"] if given.disk else [])]
    with tempfile.TemporaryDirectory() as folder:
        options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}
        with LocalCluster(**options) as made, Client(made) as client:
            there = ["--scheduler", made.scheduler_address]
            whole = Training(given.corpus, Path(folder) / "whole", given.passes)
            whole.finish(whole.begin(*there), *there)
            began = time.monotonic()
            again = Training(given.corpus, Path(folder) / "again", given.passes)
            again.finish(again.begin(*there), *there)
            seconds, wrong = time.monotonic() - began, 0
            for number in range(given.faults):
                random.seed(number)
                model = (given.disk or Path(folder)) / f"m{number}"
                client.wait_for_workers(2)
                run, fault = Training(given.corpus, model, given.passes), faults[number % len(faults)]
                command, instant = run.begin(*there), random.uniform(0.1, 1.0) * seconds
                time.sleep(instant)
                hit = command.poll() is None
                disturb(fault, list(client.run(os.getpid).values()), command, given.disk)
                said = run.finish(command, *there)
                same = content_hash(model) == content_hash(whole.model)
                wrong += not same
                print(f"{number} {fault} after {instant:.1f} s, {'' if hit else 'too late, '}{'same' if same else 'OTHER'} bits {said}", flush=True)
                shutil.rmtree(model)
    print(f"{wrong} of {given.faults} wrong" if wrong else f"all {given.faults} the same bits")


if __name__ == "__main__":
    main()
