"""Memory of the workers of a Dask cluster, each in a cgroup of its own that is as large as
``--mem-limit``: ingest, train, infer and eval one
after the other.  Needs root and Linux.

    python scripts/tools/make_corpus.py --cells 3e6 --words 141000 --out three.zarr
    python scripts/tools/make_corpus.py --cells 3e6 --words 141000 --docword three.txt
    python scripts/benchmarks/memory_cluster.py three.zarr --limit 700M --topics 300 --raw three.txt

Tells, for each command and worker, the peak of what its processes hold themselves (anonymous
memory, read fifty times a second), the peak
with page cache, and how often the kernel killed one of them.  The nanny of a worker counts, too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from distributed import Client, LocalCluster

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
from measure import MemoryGroup, table


class Watched(MemoryGroup):
    """A cgroup whose peaks are told."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        assert self.folder is not None, "no memory cgroup can be made here"
        self.held = 0
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def stat(self, file: str, name: str) -> int:
        lines = (self.folder / file).read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)

    def _watch(self) -> None:
        while not self._over.wait(0.02) and self.folder.exists():
            self.held = max(self.held, self.stat("memory.stat", "rss"))

    def begin(self) -> None:
        """Forget the peaks so far."""
        (self.folder / "memory.max_usage_in_bytes").write_text("0")
        self.held = 0

    def told(self) -> list[str]:
        """Anonymous memory and all memory at most, in MB, and processes killed so far."""
        peak = int((self.folder / "memory.max_usage_in_bytes").read_text())
        return [
            f"{self.held / 2**20:.0f}",
            f"{peak / 2**20:.0f}",
            str(self.stat("memory.oom_control", "oom_kill")),
        ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument(
        "--raw", type=Path, action="append", help="a file to ingest; repeat for several"
    )
    parser.add_argument("--limit", default="700M")
    parser.add_argument("--topics", type=int, default=300)
    parser.add_argument("--algo", default="sparse-bp")
    parser.add_argument("--passes", type=int, default=4)
    given = parser.parse_args()
    rows = []
    with (
        tempfile.TemporaryDirectory() as name,
        LocalCluster(n_workers=0, dashboard_address=":0") as made,
        Client(made) as client,
        Watched(given.limit) as first,
        Watched(given.limit) as second,
    ):
        folder = Path(name)
        command = [sys.executable, "-m", "dask", "worker", made.scheduler_address]
        command += [
            "--nthreads",
            "1",
            "--memory-limit",
            "0",
            "--no-dashboard",
            "--local-directory",
            name,
        ]
        workers = [
            subprocess.Popen(group.command(command), stderr=(folder / "log").open("a"))
            for group in (first, second)
        ]
        client.wait_for_workers(2, timeout=120)
        model = ["--model", str(folder / "model")]
        train = [
            "train",
            "--corpus",
            str(given.corpus),
            *model,
            "-K",
            str(given.topics),
            "--algo",
            given.algo,
            "--tol",
            "0",
        ]
        verbs = (
            [["ingest", *map(str, given.raw), "--out", str(folder / "c.zarr"), "--min-df", "1"]]
            if given.raw
            else []
        )
        verbs += [
            [*train, "--passes", str(given.passes)],
            ["infer", str(given.corpus), *model, "--out", str(folder / "shares.parquet")],
            ["eval", *model, "--training", str(given.corpus)],
        ]
        for verb in verbs:
            first.begin(), second.begin()
            more = ["--mem-limit", given.limit, "--scheduler", made.scheduler_address]
            done = subprocess.run(
                [sys.executable, "-m", "topicstream", *verb, *more], text=True, capture_output=True
            )
            print(
                "\n".join(
                    line for line in done.stderr.splitlines() if "plan" in line or "  " in line
                ),
                flush=True,
            )
            if done.returncode:
                print(done.stderr[-2000:], flush=True)
            rows.append([verb[0], done.returncode, *first.told(), *second.told()])
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()
    each = ["MB held", "with cache", "killed"]
    table(["command", "exit code", *(f"worker {i}: {what}" for i in (1, 2) for what in each)], rows)


if __name__ == "__main__":
    main()
