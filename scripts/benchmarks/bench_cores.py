"""Speed-up of a pass by cores, beside what the machine gives programs that share nothing.

    python scripts/tools/make_corpus.py --cells 50e6 --out c50.zarr
    python scripts/benchmarks/bench_cores.py c50.zarr --algo sparse-bp -K 100

For n = 1, 2, 4, ... cores: one training with n threads on n cores, then n trainings of one thread, a core each.  The
second is the ceiling: what they lose, cores lose by sharing memory and caches, whatever is run.  Every training is pinned
to its cores, so that no thread that decodes or writes finds a core that was not counted.  The first passes, in which the
system finds the pages of the block state's files, are left out.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path


def begin(args: argparse.Namespace, folder: Path, cores: list[int]) -> subprocess.Popen[bytes]:
    """A training on these cores, begun."""
    command = [sys.executable, "-m", "topicstream", "train", "--corpus", args.corpus, "--model", str(folder), "-q"]
    command += ["--algo", args.algo, "-K", str(args.topics), "--passes", str(args.passes), "--tol", "0", *args.more]
    command += ["--threads", str(len(cores)), "--mem-limit", args.mem_limit]
    pinned = lambda: os.sched_setaffinity(0, cores)  # noqa: E731
    return subprocess.Popen(command, preexec_fn=pinned, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def passes_of(args: argparse.Namespace, work: Path, sets: list[list[int]]) -> list[float]:
    """Seconds of a pass (median of the later half) of each of these trainings, run at the same time."""
    folders = [work / f"m{i}" for i in range(len(sets))]
    running = [begin(args, folder, cores) for folder, cores in zip(folders, sets, strict=True)]
    if any([program.wait() for program in running]):
        raise SystemExit("a training failed: run its command by hand")
    found = []
    for folder in folders:
        history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
        seconds = [record["seconds"] for record in history if record["pass"]]
        found.append(statistics.median(seconds[len(seconds) // 2 :]))
        shutil.rmtree(folder)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--algo", default="sparse-bp")
    parser.add_argument("-K", "--topics", type=int, default=100)
    parser.add_argument("--passes", type=int, default=8)
    parser.add_argument("--mem-limit", default="4G", help="of each training")
    parser.add_argument("--rounds", type=int, default=3, help="measurements, one after the other; medians are printed")
    args, args.more = parser.parse_known_args()
    cores = sorted(os.sched_getaffinity(0))
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= len(cores)]
    print(f"{' '.join(sys.argv)}; {platform.processor() or platform.machine()}, {len(cores)} cores; {date.today()}\n")
    times: dict[int, list[tuple[float, float]]] = {n: [] for n in counts}
    with tempfile.TemporaryDirectory(dir=Path(args.corpus).resolve().parent) as folder:
        for _ in range(args.rounds):
            for n in counts:
                one = passes_of(args, Path(folder), [cores[:n]])[0]
                many = passes_of(args, Path(folder), [[core] for core in cores[:n]]) if n > 1 else [one]
                times[n].append((one, statistics.harmonic_mean(many)))
    alone = statistics.median(one for one, _ in times[1])
    print("| cores | a pass, s | speed-up | of as many programs | share |\n|---|---|---|---|---|")
    for n in counts:
        one, apart = (statistics.median(column) for column in zip(*times[n], strict=True))
        gain, ceiling = alone / one, n * alone / apart
        print(f"| {n} | {one:.2f} | {gain:.2f} | {ceiling:.2f} | {gain / ceiling:.2f} |")


if __name__ == "__main__":
    main()
