"""Where do many workers lose time in a pass?  Measure the tasks of one, and replay them on more.

    python simulate_pass.py measure --corpus c.zarr --algo atbp --topics 10 > tasks.jsonl
    python simulate_pass.py replay tasks.jsonl --workers 1 2 16 64 --bandwidth 200

``measure`` trains in one thread and writes a line for each task: pass, round, worker, what it was
(decode, cut, visit, sum, main), processor seconds, and bytes that it moves at least. ``replay``
gives the tasks of the last pass to P workers as the pass loop does (a round's visits, a barrier,
its sums by ranges, a barrier, the main thread), or as ``--schedule`` says, and prints seconds, the
speed a worker, and what is lost. Tasks that ask for more bytes a second than the machine has
(``--bandwidth``, GB/s; 0: no limit) all slow down alike. ``triad`` measures it for 1, 2, ...
threads. ``measure --threads 2`` checks what replay says of 2 workers (its line ``pass``): on a
machine with other work compare with ``replay --clock wall`` of the same tasks, whose seconds hold
what other work took.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from topicstream.corpus.grid import Cutter
from topicstream.corpus.reader import Corpus
from topicstream.numeric.kernels.jit import kernel
from topicstream.training import loop
from topicstream.training.threads import Threads

SCHEDULES = ("barriers", "balanced", "ahead", "parts")
LEAST_SUM = 50e-6
"""Seconds of the smallest piece that a balanced sum is cut into."""


# -- measuring
# --------------------------------------------------------------------------------------------------
class TaskLog:
    """The lines of a run, printed once it has ended: printing takes as long as a small task."""

    def __init__(self) -> None:
        self.place = (0, 0)  # pass, round
        self._lines: list[dict[str, Any]] = []

    def write(self, task: str, seconds: float, wall: float, moved: int = 0) -> None:
        """Note one line."""
        line = {"pass": self.place[0], "round": self.place[1], "task": task, "seconds": seconds}
        line |= {"wall": wall, "bytes": moved, "worker": threading.current_thread().name}
        self._lines.append(line)

    def print_lines(self) -> None:
        """Print all lines."""
        for line in self._lines:
            print(json.dumps(line))

    @contextmanager
    def timed(self, task: str, moved: int = 0) -> Iterator[None]:
        """Note the processor seconds of what happens inside."""
        began = time.thread_time()
        at = time.monotonic()
        yield
        self.write(task, time.thread_time() - began, time.monotonic() - at, moved)


LOG = TaskLog()


class TimedThreads(Threads):
    """Threads that write the tasks of a pass."""

    def place(self, tables: Any) -> None:
        super().place(tables)
        for table in tables.roles.values():
            table.run_all = self._timed_ranges(table.run_all)

    def _timed_ranges(self, run_all: Any) -> Any:
        def run(work: Any, n: int) -> None:
            def one(i: int) -> None:
                with LOG.timed("sum"):
                    work(i)

            run_all(one, n)

        return run

    def visit(self, position: int, group: np.ndarray, assignment: Any) -> Any:
        if position:
            self._write_main()
        LOG.place = (assignment.key.pass_number, position // max(1, self.job.layout.round_blocks))
        reports = super().visit(position, group, assignment)
        self._main = (time.thread_time(), time.monotonic())
        return reports

    def finish_pass(self, phase: Any) -> Any:
        finished = super().finish_pass(phase)
        self._write_main()
        return finished

    def _write_main(self) -> None:
        """Write the processor seconds of the main thread since the visits of the round."""
        LOG.write("main", time.thread_time() - self._main[0], time.monotonic() - self._main[1])

    def _visit(self, number: int, block: Any, slot: int, assignment: Any) -> Any:
        with LOG.timed("visit", self._moved(block)):
            return super()._visit(number, block, slot, assignment)

    def _moved(self, block: Any) -> int:
        """Count the bytes that a visit moves at least: cells, rows read, state read and written."""
        from topicstream.engines.base import BlockShape, padded
        from topicstream.training.table_bytes import state_bytes

        row = 4 * padded(self.engine.shape.topics)
        state = 2 * state_bytes(self.engine, BlockShape.measure(block))
        return 8 * block.n_cells + 2 * row * block.n_words + state


def timed_method(method: Any, task: str) -> Any:
    """Make a method that also writes how long it takes."""

    def timed(self: Any, *given: Any, **more: Any) -> Any:
        with LOG.timed(task):
            return method(self, *given, **more)

    return timed


def measure(args: argparse.Namespace) -> None:
    """Train, and write the tasks."""
    for kind, task in ((Corpus, "decode"), (Cutter, "block")):
        setattr(kind, task, timed_method(getattr(kind, task), task.replace("block", "cut")))
    with tempfile.TemporaryDirectory(dir=args.work) as folder:
        given = {"topics": args.topics, "passes": args.passes, "tol": 0.0, "progress": False}
        given |= {"algo": args.algo, "threads": args.threads, "tables": "memory"}
        given |= {"round_blocks": args.round_blocks, "block_cells": args.block_cells}
        options = dict(option.split("=") for option in args.option)
        loop.train(args.corpus, Path(folder) / "m", executor=TimedThreads, options=options, **given)
        for line in (Path(folder) / "m" / "history.jsonl").read_text().splitlines():
            record = json.loads(line)
            LOG.place = (record["pass"], 0)
            LOG.write("pass", record["seconds"], record["seconds"])
    LOG.print_lines()


@kernel
def _triad(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    for i in range(len(a)):
        a[i] = b[i] + 3.0 * c[i]


def triad(threads: int, size: int = 1 << 25, turns: int = 5) -> float:
    """Measure the bandwidth of memory in GB/s, with so many threads: a = b + 3 c."""
    arrays = [[np.ones(size // threads) for _ in range(3)] for _ in range(threads)]
    _triad(*(one[:8] for one in arrays[0]))
    best = np.inf
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(turns):
            began = time.monotonic()
            list(pool.map(lambda some: _triad(*some), arrays))
            best = min(best, time.monotonic() - began)
    return 3 * 8 * (size // threads) * threads / best / 1e9


# -- replaying
# --------------------------------------------------------------------------------------------------
@dataclass
class Task:
    """Work of one worker: processor seconds, and bytes that it moves."""

    seconds: float
    moved: float = 0.0

    def split(self, parts: int) -> list[Task]:
        """Cut it into equal parts."""
        return [Task(self.seconds / parts, self.moved / parts)] * parts


@dataclass
class Round:
    """The tasks of a round."""

    cuts: list[Task]
    visits: list[Task]
    sums: list[Task]
    main: float


def run_tasks(tasks: list[Task], workers: int, bandwidth: float) -> tuple[float, float]:
    """Give tasks to workers, each to the first that is free.

    Returns
    -------
    tuple
        Seconds until the last has ended, and worker seconds lost to the bandwidth.
    """
    waiting = list(reversed(tasks))
    running: list[list[float]] = []  # seconds left, bytes a second
    now = lost = 0.0
    while waiting or running:
        while waiting and len(running) < workers:
            task = waiting.pop()
            if task.seconds > 0:
                running.append([task.seconds, task.moved / task.seconds])
        if not running:
            break
        asked = sum(rate for _, rate in running)
        speed = min(1.0, bandwidth / asked) if bandwidth and asked else 1.0
        step = min(left for left, _ in running)
        now += step / speed
        lost += len(running) * step * (1 / speed - 1)
        for one in running:
            one[0] -= step
        running = [one for one in running if one[0] > 1e-12]
    return now, lost


def replay(rounds: list[Round], workers: int, bandwidth: float, schedule: str) -> dict[str, float]:
    """Replay a pass, and return its seconds and the worker seconds lost, by cause.

    ``balanced``: sums in pieces of equal seconds. ``ahead``: so, and blocks of the next round are
    cut while workers have nothing else to do. ``parts``: so, and visits are split where there are
    more workers than blocks.
    """
    lost = defaultdict[str, float](float)
    total = 0.0
    done = 0.0  # seconds of the cuts of this round that were made in the last one
    for number, one in enumerate(rounds):
        cuts = sum(task.seconds for task in one.cuts)
        share = 1 - done / cuts if cuts else 0.0
        visits = [
            Task(cut.seconds * share + visit.seconds, visit.moved)
            for cut, visit in zip(one.cuts, one.visits, strict=True)
        ]
        sums = one.sums
        if schedule != "barriers":
            whole = Task(sum(t.seconds for t in sums), sum(t.moved for t in sums))
            pieces = max(1, min(4 * workers, int(whole.seconds / LEAST_SUM)))
            sums = whole.split(pieces)
        if schedule == "parts" and workers > len(visits):
            visits = [part for task in visits for part in task.split(-(-workers // len(visits)))]
        idle = 0.0
        for name, tasks in (("visits", visits), ("sums", sums)):
            seconds, slowed = run_tasks(tasks, workers, bandwidth)
            busy = sum(task.seconds for task in tasks)
            waited = workers * seconds - busy - slowed
            total += seconds
            lost[f"waiting, {name}"] += waited
            lost["bandwidth"] += slowed
            idle += waited
        total += one.main
        lost["main thread"] += (workers - 1) * one.main
        idle += (workers - 1) * one.main
        done = 0.0
        if schedule in ("ahead", "parts") and number + 1 < len(rounds):
            following = sum(task.seconds for task in rounds[number + 1].cuts)
            done = min(following, idle)
            lost["waiting, visits"] -= min(done, lost["waiting, visits"])
    return {"seconds": total, **lost}


def read_tasks(path: Path, clock: str) -> list[Round]:
    """Read the rounds of the last pass; what decoding and cutting took is dealt out evenly.

    clock: ``seconds`` (of the processor) or ``wall``.
    """
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
    last = max(line["pass"] for line in lines if line["task"] == "visit")
    tasks = [line for line in lines if line["pass"] == last and line["task"] != "pass"]
    prepared = sum(line["seconds"] for line in tasks if line["task"] in ("decode", "cut"))
    visits = sum(line["task"] == "visit" for line in tasks)
    rounds = []
    for number in sorted({line["round"] for line in tasks}):
        own = defaultdict[str, list[Task]](list)
        for line in tasks:
            if line["round"] == number:
                own[line["task"]].append(Task(line[clock], line["bytes"]))
        cuts = [Task(prepared / visits)] * len(own["visit"])
        summed = sum(task.seconds for task in own["sum"])
        main = sum(task.seconds for task in own["main"])
        threads = len({line["worker"] for line in tasks if line["task"] == "visit"})
        # the main thread makes the sums in a run of one thread, and else waits for them
        if threads == 1 or clock == "wall":
            main = max(0.0, main - summed / threads)
        rounds.append(Round(cuts, own["visit"], own["sum"], main))
    return rounds


def print_table(args: argparse.Namespace) -> None:
    """Print what replay says as a Markdown table."""
    rounds = read_tasks(args.tasks, args.clock)
    alone = replay(rounds, 1, 0.0, "barriers")["seconds"]
    moved = sum(task.moved for one in rounds for task in one.visits)
    print(f"one worker {alone:.3f} s, {moved / alone / 1e9:.1f} GB/s of {args.bandwidth:g}\n")
    names = ("waiting, visits", "waiting, sums", "main thread", "bandwidth")
    shares = " | ".join(f"lost: {name}" for name in names)
    print(f"| workers | schedule | s | a worker | beside processes | {shares} |")
    print("|" + "---|" * (5 + len(names)))
    for workers in args.workers:
        asked = workers * moved / alone / 1e9
        apart = min(1.0, args.bandwidth / asked) if args.bandwidth else 1.0
        for schedule in args.schedules:
            found = replay(rounds, workers, args.bandwidth * 1e9, schedule)
            speed = alone / found["seconds"] / workers
            parts = (found[name] / workers / found["seconds"] for name in names)
            row = [workers, schedule, f"{found['seconds']:.3f}", f"{speed:.2f}"]
            row += [f"{speed / apart:.2f}", *(f"{part:.1%}" for part in parts)]
            print("| " + " | ".join(map(str, row)) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("measure")
    one.add_argument("--corpus", required=True)
    one.add_argument("--algo", required=True)
    one.add_argument("--topics", type=int, required=True)
    one.add_argument("--passes", type=int, default=3)
    one.add_argument("--threads", type=int, default=1)
    one.add_argument("--round-blocks", type=int)
    one.add_argument("--block-cells", type=int)
    one.add_argument("--option", action="append", default=[], help="of the engine: NAME=VALUE")
    one.add_argument("--work", type=Path)
    one.set_defaults(run=measure)
    other = commands.add_parser("replay")
    other.add_argument("tasks", type=Path)
    other.add_argument("--workers", nargs="+", type=int, default=[1, 2, 8, 16, 64])
    other.add_argument("--bandwidth", type=float, default=0.0, help="GB/s (default: no limit)")
    other.add_argument("--clock", choices=("seconds", "wall"), default="seconds")
    other.add_argument("--schedules", nargs="+", choices=SCHEDULES, default=list(SCHEDULES))
    other.set_defaults(run=print_table)
    last = commands.add_parser("triad")
    last.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    last.set_defaults(run=lambda a: print(*(f"{n}: {triad(n):.1f} GB/s" for n in a.threads)))
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
