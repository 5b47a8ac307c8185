"""Every engine, every number of topics, every limit: one pass inside a memory cgroup of exactly the
limit.

    python scripts/campaigns/memory_campaign.py [--cells 50e6 | --corpus big.zarr]
        [--named | --vectors 64] [--only atbp gs ...] [--starts documents warm ...]
        [--topics 10 100 1000]
        [--limits 512M 2G least] [--tables disk] [--max-seconds 600] [--work FOLDER]

A run must finish its pass, or refuse before it starts (code 5); the kernel must never kill it. One
that takes longer than --max-seconds is stopped (SIGINT), writes its checkpoint and counts as "ran N
s within the limit". The limit ``least`` is 512M, or what the refusal of 512M names. Engines that
need authors, labels or links are left out where the corpus has none. Prints a Markdown table; exit
1 when a run was killed, failed, or refused what it has to do: 10 and 100 topics at 512M for every
engine that does not store dense messages, and at 2G everything whose block memory the disk holds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import MemoryGroup, heading, table

from topicstream.base import machine
from topicstream.engines import engines
from topicstream.engines.base import Engine

TOPICS = [sys.executable, "-m", "topicstream.cli.main"]
GRACE = 180  # seconds for the checkpoint after a SIGINT
NAMES = ("authors", "labels", "links")


@dataclass(frozen=True)
class Result:
    """How a run ended: ``finished``, ``stopped``, ``refused``, ``killed`` or ``failed``."""

    how: str
    seconds: float
    group_peak: int
    process_peak: int
    said: str
    plan: str


def run(command: list[str], model: Path, limit: str, max_seconds: float) -> Result:
    """One training inside a group of that limit."""
    began = time.monotonic()
    stopped = False
    overran = False
    with MemoryGroup(limit) as group, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(group.command(command), stdout=subprocess.DEVNULL, stderr=err)
        try:
            process.wait(max_seconds)
        except subprocess.TimeoutExpired:
            stopped = True
            process.send_signal(signal.SIGINT)
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                overran = True
                process.kill()
                process.wait()
        seconds = time.monotonic() - began
        peak = group.peak()
        err.seek(0)
        text = err.read()
    code = process.returncode
    if code == 0:
        how = "finished"
    elif overran or (stopped and code == 130):
        how = "stopped"
    elif code == 5:
        how = "refused"
    else:
        how = "killed" if code in (-signal.SIGKILL, 137) else "failed"
    return Result(how, seconds, peak, process_peak(model), text, plan_of(text))


def process_peak(model: Path) -> int:
    """The highest resident memory that the run recorded."""
    history = model / "history.jsonl"
    lines = history.read_text().splitlines() if history.exists() else []
    return max((int(json.loads(line)["rss_peak_bytes"]) for line in lines), default=0)


def plan_of(text: str) -> str:
    """Threads and placements that the plan chose."""
    pattern = r"memory plan: (\S+ \S+) of .*, (\d+ threads?)\n.*\n  (tables [^;\n]*)"
    found = re.search(pattern, text)
    return f"{found[1]}, {found[2]}, {found[3]}" if found else ""


def keeps_dense_messages(name: str) -> bool:
    """K numbers a cell on disk."""
    from topicstream.engines import find
    from topicstream.engines.base import Shape
    from topicstream.training.setup import make_options

    kind = find(name)
    engine = kind(Shape(1000, 1000, 50_000, 6e4, 1000), make_options(kind, {}))
    return any(spec.per == "cell" and spec.width >= 1000 for spec in engine.state.values())


def has_to(name: str, topics: int, limit: str) -> bool:
    """Whether this combination may not be refused for memory."""
    size = machine.parse_bytes(limit)
    if size >= 2 << 30:
        return topics <= 1000
    if keeps_dense_messages(name):
        return False
    return topics <= 100


def suits(kind: type[Engine], corpus: Path) -> bool:
    """Tell whether an engine can train on the corpus, which has words, names or vectors."""
    from topicstream import Corpus

    store = Corpus.open(corpus, dense=True)
    return kind.about.dense == bool(store.width) and set(kind.about.axes) <= store.axes.keys()


def make_corpus(args: argparse.Namespace, folder: Path, topics: int) -> Path:
    """Make a corpus of about so many cells: of words alone, with names, or of vectors."""
    tool = str(Path(__file__).parents[1] / "tools" / "make_corpus.py")
    store = folder / f"corpus-{topics}.zarr"
    make = [sys.executable, tool, "--cells", str(args.cells)]
    if args.vectors:
        raw = folder / "vectors.npy"
        rows = int(args.cells) // args.vectors
        np.save(raw, np.random.Generator(np.random.Philox(1)).normal(size=(rows, args.vectors)))
        more = []
    elif args.named:
        raw = folder / "named.jsonl"
        subprocess.run([*make, "--named", str(raw), "--names", str(topics)], check=True)
        more = [option for name in NAMES for option in ("--meta", f"{name}={name}")]
        more += ["--min-df", "1"]  # many words, whose tables are large
    else:
        subprocess.run([*make, "--out", str(store)], check=True)
        return store
    subprocess.run([*TOPICS, "ingest", str(raw), "--out", str(store), "-q", *more], check=True)
    raw.unlink()
    return store


def training(
    args: argparse.Namespace, corpus: Path, name: str, topics: int, start: str
) -> list[str]:
    """The command line of one training, without model and limit."""
    command = [*TOPICS, "train", "--corpus", str(corpus), "--algo", name]
    command += ["--passes", "1", "--tol", "0", "--tables", args.tables]
    if not engines()[name].about.topics_axis:  # else there is a topic for each name
        command += ["-K", str(topics)]
    if start == "warm":
        return [*command, "--warm", str(args.warm)]
    return [*command, "--start", start] if start else command


def said(result: Result, limit: str) -> str:
    """The outcome in words."""
    if result.how == "finished":
        return f"finished in {result.seconds:.0f} s"
    if result.how == "stopped":
        return f"ran {result.seconds:.0f} s within the limit, then told to stop"
    last = result.said.strip().splitlines()[-1] if result.said.strip() else ""
    if result.how == "refused":
        smallest = re.search(r"smallest limit that would do is (\S+?);", last)
        disk = re.search(r"needs (.*?) of disk", last)
        return (
            f"refused: {smallest[1]} would do"
            if smallest
            else f"refused: {disk[1]} of disk"
            if disk
            else f"refused: {last}"
        )
    return f"**{result.how.upper()}** ({last[:160]})"


def try_limit(
    args: argparse.Namespace,
    command: list[str],
    combination: tuple[str, int, str],
    limit: str,
    work: Path,
) -> tuple[list[object], bool]:
    """Run one combination within a limit: the row of the table, and whether it went wrong."""
    name, topics, _ = combination
    model = work / "model"
    shutil.rmtree(model, ignore_errors=True)
    least = limit == "least"
    limit = "512M" if least else limit
    given = [*command, "--model", str(model), "--mem-limit"]
    result = run([*given, limit], model, limit, args.max_seconds)
    named = re.search(r"smallest limit that would do is (\S+?);", result.said)
    if least and named:
        limit = named[1]
        result = run([*given, limit], model, limit, args.max_seconds)
    refused_for_memory = result.how == "refused" and "of disk" not in result.said
    wrong = result.how in ("killed", "failed") or (
        refused_for_memory and has_to(name, topics, limit)
    )
    peak = f"{result.process_peak / 2**20:.0f}" if result.process_peak else ""
    outcome = said(result, limit) + (" **(has to do)**" if wrong else "")
    group_peak = f"{result.group_peak / 2**20:.0f}"
    shutil.rmtree(model, ignore_errors=True)
    return [*combination, limit, outcome, peak, group_peak, result.plan], wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cells", type=float, default=50e6, help="size of the corpus that is made (default 50e6)"
    )
    parser.add_argument("--corpus", type=Path, help="a store instead")
    parser.add_argument("--named", action="store_true", help="with authors, labels and links")
    parser.add_argument("--vectors", type=int, help="of so many numbers, instead of words")
    parser.add_argument("--only", nargs="*", default=[], help="engines")
    parser.add_argument("--topics", nargs="*", type=int, default=[10, 100, 1000])
    parser.add_argument("--starts", nargs="*", default=[""], help="starts (default: the engine's)")
    parser.add_argument("--warm", type=Path, help="model of the start `warm`")
    parser.add_argument("--limits", nargs="*", default=["512M", "2G"])
    parser.add_argument(
        "--tables", default="auto", help="where the tables are to be (default: as the plan chooses)"
    )
    parser.add_argument("--max-seconds", type=float, default=600.0)
    parser.add_argument(
        "--work",
        type=Path,
        help="where models and the corpus are put (default: a temporary folder)",
    )
    parser.add_argument(
        "--rows", action="store_true", help="print rows without a heading (to add to a table)"
    )
    args = parser.parse_args()
    if args.work is not None:
        args.work.mkdir(parents=True, exist_ok=True)
    bad = 0
    rows = []
    with tempfile.TemporaryDirectory(dir=args.work) as temporary:
        work = Path(temporary)
        corpus = args.corpus
        for topics in sorted(args.topics):
            if corpus is None or (args.named and args.corpus is None):
                corpus = make_corpus(args, work, topics)
            names = args.only or [n for n, kind in engines().items() if suits(kind, corpus)]
            names.sort(key=keeps_dense_messages)
            for name, start in itertools.product(names, args.starts):
                command = training(args, corpus, name, topics, start)
                # the kernels are compiled once outside the group: what the compiler takes is not
                # what is measured
                refused = ["--model", str(work / "refused"), "--mem-limit", "1M"]
                subprocess.run([*command, *refused], capture_output=True, check=False)
                for limit in args.limits:
                    row, wrong = try_limit(args, command, (name, topics, start), limit, work)
                    rows.append(row)
                    bad += wrong
                    print("| " + " | ".join(map(str, row)) + " |", file=sys.stderr, flush=True)
        columns = [
            "engine",
            "K",
            "start",
            "limit",
            "one pass",
            "process peak MB",
            "cgroup peak MB (page cache too)",
            "plan",
        ]
        if args.rows:
            for row in rows:
                print("| " + " | ".join(map(str, row)) + " |")
        else:
            from topicstream import Corpus

            store = Corpus.open(corpus, dense=True)
            heading(
                "Memory campaign",
                f"One pass (and the start) of every engine inside a memory cgroup of exactly "
                f"the limit, on a made corpus of "
                f"{store.n_cells:,} cells, {store.n_docs:,} documents, {store.n_words:,} words; "
                f"told to stop after "
                f"{args.max_seconds:.0f} s.",
            )
            table(columns, rows)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
