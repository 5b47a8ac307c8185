"""Mutated inputs for every reader and every opener: they answer or raise an error of topicstream, nothing else.

    python scripts/campaigns/fuzz_campaign.py [--inputs 2000] [--seconds 0] [--only jsonl docword ...] [--seed 0] [--first 0]
                                    [--save FOLDER]

Each target begins from valid seeds; an input is a seed with a few changes: flipped bits, bytes and numbers that mean
trouble, pieces cut out, repeated, spliced in from other seeds, words of the format's own dictionary.  Input i of a seed
is the same in every run (--first goes on behind an earlier one).  A target runs in a child process: an exception that is
no TopicsError, a death by signal, more than 5 s of CPU (or a minute) for one input, or more than 1 GB is a failure; its
input is saved.
Prints a Markdown table; exit 1 when there was a failure.  1,000,000 inputs a target for the record; where the folder for
temporary files is memory (TMPDIR=/dev/shm) two to five times as many a second.  NUMBA_BOUNDSCHECK=1 with a
NUMBA_CACHE_DIR of its own: a kernel that reads or writes beside its arrays is a failure too, not only what breaks of it.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_inputs import Target

from topicstream.corpus import format

if "--small-chunks" in sys.argv:  # before anything takes the widths from there
    format.CELLS, format.DOCS = 1 << 12, 1 << 10
from fuzz_targets import checked, openers, readers
from measure import heading, table
from numcodecs import blosc

from topicstream import machine
from topicstream.errors import StoreError, TopicsError

HANG = 5.0  # seconds of CPU, --hang
MOST_MEMORY = 1 << 30  # bytes beyond what the process had before
A_CHILD = 10_000  # inputs; Arrow's zstd stream loses 5 to 20 kB at each damaged file, which a real run meets once


class Hang(Exception):
    """An input took too long."""


# -- running ----------------------------------------------------------------------------------------------------------
@dataclass
class Outcome:
    """A line of the table."""

    inputs: int = 0
    accepted: int = 0
    rejected: int = 0
    slowest: float = 0.0
    peak: int = 0
    seconds: float = 0.0
    failures: list[str] | None = None


def child(target: Target, seed: int, first: int, count: int, seconds: float, told: np.ndarray, said: Any) -> None:
    """Run inputs; what happened is told through ``told`` (float64: input, accepted, rejected, slowest, memory, when) and
    ``said`` (a line a failure)."""

    def late(*_: object) -> None:
        raise Hang(f"more than {HANG:g} s")

    signal.signal(signal.SIGPROF, late)
    base = machine.resident_bytes()
    resource.setrlimit(resource.RLIMIT_AS, (_virtual() + MOST_MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    accepted = rejected = 0
    slowest, began = 0.0, time.monotonic()
    for i in range(first, first + count):
        told[:5] = i, accepted, rejected, slowest, machine.peak_bytes() - base if i % 256 == 0 else told[4]
        told[5] = time.monotonic()
        data, rng = target.input(seed, i)
        signal.setitimer(signal.ITIMER_PROF, HANG)
        at = time.perf_counter()
        try:
            target.run(data, rng)
            accepted += 1
        except TopicsError as e:
            rejected += 1
            try:
                checked(e)
            except AssertionError as a:
                said.write(f"{i}\t{a}\n")
        except BaseException as e:
            where = traceback.extract_tb(e.__traceback__)[-1]
            said.write(f"{i}\t{type(e).__name__}: {str(e)[:160]!r} at {Path(where.filename).name}:{where.lineno}\n")
            said.flush()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(slowest, time.perf_counter() - at)
        if seconds and time.monotonic() - began > seconds:
            break
    told[:6] = i + 1, accepted, rejected, slowest, machine.peak_bytes() - base, time.monotonic()


def _virtual() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[0]) * resource.getpagesize()


def campaign(target: Target, seed: int, first: int, inputs: int, seconds: float) -> Outcome:
    """All inputs of a target, in children; one that dies is followed by another behind the input that killed it."""
    outcome, began, at = Outcome(failures=[]), time.monotonic(), first
    assert outcome.failures is not None
    while at < first + inputs and (not seconds or time.monotonic() - began < seconds) and len(outcome.failures) < 100:
        left = seconds - (time.monotonic() - began) if seconds else 0.0
        told = np.frombuffer(mmap.mmap(-1, 4096), np.float64)  # shared with the child
        told[:6] = at, 0, 0, 0.0, 0, time.monotonic()
        with tempfile.TemporaryFile("w+") as said:
            sys.stdout.flush()
            process = os.fork()
            if process == 0:
                code = 1
                try:
                    null = os.open(os.devnull, os.O_RDWR)
                    os.dup2(null, 2)
                    child(target, seed, at, min(A_CHILD, first + inputs - at), left, told, said)
                    said.flush()
                    code = 0
                finally:
                    os._exit(code)
            dead = False
            while True:
                done, status = os.waitpid(process, os.WNOHANG)
                if done:
                    break
                if time.monotonic() - told[5] > 12 * HANG:  # a loop that no signal interrupts, or a wait without end
                    os.kill(process, signal.SIGKILL)
                time.sleep(0.02)
            number, accepted, rejected, slowest, peak = (
                int(told[0]),
                int(told[1]),
                int(told[2]),
                float(told[3]),
                int(told[4]),
            )
            dead = os.waitstatus_to_exitcode(status) != 0
            if outcome.accepted > 100 and not accepted and number - at > 5000:
                outcome.failures.append(f"{at}\tnothing is accepted any more: the target itself is spoilt")
            outcome.inputs += number - at + dead
            outcome.accepted, outcome.rejected = outcome.accepted + accepted, outcome.rejected + rejected
            outcome.slowest, outcome.peak = max(outcome.slowest, slowest), max(outcome.peak, peak)
            said.seek(0)
            outcome.failures += said.read().splitlines()
            if dead:
                outcome.failures.append(f"{number}\tended by {os.waitstatus_to_exitcode(status)} (signal, or hung)")
            at = number + dead
    outcome.seconds = time.monotonic() - began
    return outcome


def main() -> int:
    global HANG
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=2000, help="a target (default 2000)")
    parser.add_argument("--seconds", type=float, default=0.0, help="at most, a target (default: no limit)")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", nargs="*", default=[], help="targets whose name begins so")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hang", type=float, default=HANG, help="seconds of CPU that an input may take (default 5)")
    parser.add_argument("--small-chunks", action="store_true", help="stores of chunks of 4,096 cells and 1,024 documents, "
                        "not 2^20 and 2^16: two to three times as many inputs a second")  # fmt: skip
    parser.add_argument("--save", type=Path, help="where the inputs that failed are put")
    args = parser.parse_args()
    HANG = args.hang
    pa.set_cpu_count(1)  # an input is small: handing it to threads costs more than reading it
    for name in ("read", "iter_batches"):
        setattr(pq.ParquetFile, name, partialmethod(getattr(pq.ParquetFile, name), use_threads=False))
    blosc.set_nthreads(1)
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    rows, failed = [], []
    with tempfile.TemporaryDirectory(dir=shm) as temporary:
        folder = Path(temporary)
        targets = readers(folder) + openers(folder)
        for target in targets:
            if args.only and not any(target.name.startswith(name) for name in args.only):
                continue
            for data in target.seeds:  # compiles the kernels, and shows that the seeds are valid
                try:
                    target.run(data, random.Random(1))
                except StoreError as e:
                    if target.name.startswith("values:"):  # what they change is drawn from the seed
                        continue
                    raise SystemExit(f"{target.name}: the seed itself is refused: {e}") from None
                except TopicsError:
                    pass  # of options drawn at random
            found = campaign(target, args.seed, args.first, args.inputs, args.seconds)
            assert found.failures is not None
            rows.append([target.name, f"{found.inputs:,}", f"{found.accepted:,}", f"{found.rejected:,}", len(found.failures),
                         f"{1000 * found.slowest:.0f}", f"{found.peak / 2**20:.0f}", f"{found.inputs / max(found.seconds, 1e-9):,.0f}"])  # fmt: skip
            print("| " + " | ".join(map(str, rows[-1])) + " |", file=sys.stderr, flush=True)
            for line in found.failures:
                number, what = line.split("\t", 1)
                failed.append(f"{target.name}, input {number}: {what}")
                if args.save is not None:
                    args.save.mkdir(parents=True, exist_ok=True)
                    name = re.sub(r"\W+", "-", target.name)
                    (args.save / f"{name}-{number}").write_bytes(target.input(args.seed, int(number))[0])
    heading(
        "Fuzz campaign",
        f"Mutated inputs from number {args.first:,} on, seed {args.seed}.  accepted: read; rejected: an error of topicstream, one "
        f"line; failed: anything else, a hang of more than {HANG:g} s, or more than 1 GB.",
    )
    table(["target", "inputs", "accepted", "rejected", "failed", "slowest ms", "peak MB more", "inputs/s"], rows)
    alike: dict[str, list[str]] = {}
    for line in failed:
        alike.setdefault(re.sub(r"input \d+|\d+", "#", line), []).append(line)
    for same in alike.values():
        print(f"- {same[0]}" + (f" (and {len(same) - 1} alike)" if len(same) > 1 else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
