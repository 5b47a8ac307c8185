"""Seconds a pass, memory and disk of corpora that nobody has here, from constants measured on this machine.

    python scripts/benchmarks/scale.py [--work FOLDER] [--check STORE.zarr] [--engines atbp:10 sparselda:100 ...]

A corpus of 60 million cells like PubMed's (scripts/tools/make_corpus.py; 2 million by default, 60 with FULL=1) is trained a few
passes by each engine, cut into blocks as PubMed's size would be cut, inside a memory cgroup that leaves next to nothing to
the page cache, so that block memory really goes to disk and comes back.  What a cell takes there is what a cell is
predicted to take anywhere.  The start is the one that PubMed's size would get.  It does some work of its own at any size
(the tries of ``best``): it is taken on a third of the cells, too, and predicted as a constant and so much a cell.  Memory
and disk are asked of the memory plan itself (training/plan.py).  --check STORE trains on a store of full size under the
same limit and prints what was predicted beside what was measured.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import full, heading, in_cgroup, table

from topicstream import machine
from topicstream.corpus.reader import Corpus
from topicstream.engines import find
from topicstream.engines.base import BlockShape, Engine, Shape
from topicstream.errors import DoesNotFit
from topicstream.machine import format_bytes
from topicstream.training.plan import Plan, make_plan, memory_bytes
from topicstream.training.setup import default_start

TOOLS = Path(__file__).parents[1] / "tools"
ENGINES = ("atbp:10", "atbp:100", "sparse-bp:100", "sparse-bp:500", "sparselda:100", "sparselda:500")
CHECKS = ("atbp:10", "atbp:100", "sparselda:100")
THREADS = 2
LEEWAY = 32 << 20  # beside what is planned, and again beside that for the cgroup
PASSES = 50


@dataclass(frozen=True)
class Target:
    """A corpus on paper."""

    name: str
    docs: int
    cells: int
    tokens: int
    words: int
    what: str

    def shape(self, topics: int) -> Shape:
        return Shape(self.docs, self.words, self.cells, float(self.tokens), topics)


TARGETS = (
    Target("PubMed", 8_200_000, 483_450_157, 737_869_083, 141_043, "UCI bag of words"),
    Target("English Wikipedia", 7_000_000, 1_400_000_000, 2_400_000_000, 200_000, "about 200 words of 340 tokens each"),
    Target("1 billion documents", 10**9, 59 * 10**9, 90 * 10**9, 500_000, "of an abstract's length: 59 words of 90 tokens"),
)  # fmt: skip


@dataclass(frozen=True)
class Constants:
    """What was measured of an engine at K topics: nanoseconds a cell (a token where work_of says so) of a pass and of the
    start (wall, all threads), seconds of the start at any size, and most words of a block."""

    pass_ns: float
    start_ns: float
    start_s: float
    block_words: int
    spread: str


def engine_for(spec: str, target: Target) -> Engine:
    """``NAME:K`` for a corpus of that shape."""
    name, topics = spec.split(":")
    kind = find(name)
    return kind(target.shape(int(topics)), kind.Options())


def block_of(engine: Engine, target: Target, constants: Constants, sample: Corpus) -> BlockShape:
    """The largest block, about: cells and documents by layout; words, the longest document and the counts of the words as
    in the sample, in proportion to vocabulary and tokens."""
    layout = engine.layout()
    cells = min(layout.block_cells, target.cells)
    docs = min(layout.block_docs, int(cells * target.docs / target.cells) + 1)
    wider, counts = target.words / sample.n_words, sample.word_counts() * (target.tokens / sample.n_tokens)
    return BlockShape(
        docs,
        cells,
        int(cells * target.tokens / target.cells) + 1,
        int(min(target.words, cells, constants.block_words * wider)),
        longest=int(10 * target.cells / target.docs),
        table_entries=int(np.minimum(counts, engine.shape.topics).sum() * wider),
        heaviest=int(counts.max()),
    )


def plan_for(engine: Engine, target: Target, block: BlockShape, base: int, limit: int, tables: str = "auto") -> Plan:
    """The memory plan as training would make it, with all the disk of the world."""
    whole = memory_bytes(engine, BlockShape(target.docs, target.cells, target.tokens, target.words))
    return make_plan(
        engine,
        engine.layout(),
        block,
        whole,
        base=base,
        limit=limit,
        threads=THREADS,
        tables=tables,
        disk_free=1 << 62,
    )


def smallest(engine: Engine, target: Target, block: BlockShape, base: int, tables: str = "auto") -> int:
    """The smallest limit in bytes that the plan accepts, to the next 4 MiB."""
    low, high = 0, 1 << 20  # in units of 4 MiB
    while high - low > 1:
        middle = (low + high) // 2
        try:
            plan_for(engine, target, block, base, middle << 22, tables)
            high = middle
        except DoesNotFit:
            low = middle
    return high << 22


def command(store: Path, model: Path, spec: str, passes: int, limit: int, block_cells: int) -> list[str]:
    """The command line of a training run, tables in memory, started as PubMed would be."""
    name, topics = spec.split(":")
    start = default_start(engine_for(spec, TARGETS[0]), TARGETS[0].shape(int(topics)))
    words = [sys.executable, "-m", "topicstream.cli.main", "train", "--corpus", store, "--model", model, "--algo", name,
             "-K", topics, "--passes", passes, "--tol", 0, "--force", "--threads", THREADS, "--tables", "memory",
             "--mem-limit", limit, "--block-cells", block_cells, "--start", start]  # fmt: skip
    return [str(w) for w in words]


def planned(store: Path, model: Path, spec: str, block_cells: int) -> int:
    """Bytes of the memory plan that a run with all the memory of the machine makes; the run is ended there."""
    said = []
    with subprocess.Popen(
        command(store, model, spec, 1, 1 << 40, block_cells), stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            said.append(line.strip())
            if found := re.match(r"memory plan: (\S+ \S+) of ", line):
                run.kill()
                return machine.parse_bytes(found[1].replace(" ", "").removesuffix("B"))
    raise SystemExit(f"{spec} on {store}: {said[-1:]}")


def train_seconds(
    store: Path, spec: str, work: Path, block_cells: int, passes: int = 4
) -> tuple[int, float, list[float]]:
    """The limit, the seconds of the start, and those of the passes from the second on (the first finds nothing in its
    caches, and a sampler is slowest in it) inside a memory cgroup of little more than the run has planned: so the page
    cache holds next to nothing of what is read and written, and the plan is the same at any size."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        model = Path(folder) / "model"
        limit = planned(store, model, spec, block_cells) + LEEWAY
        done = in_cgroup(command(store, model, spec, passes, limit, block_cells), str(limit + LEEWAY))
        if done.returncode:
            raise SystemExit(f"{spec} on {store}: {done.stderr.strip().splitlines()[-1]}")
        start, _, *later = (json.loads(line)["seconds"] for line in (model / "history.jsonl").read_text().splitlines())
        return limit, start, later


def measure(spec: str, store: Path, third: Path, work: Path) -> Constants:
    """Constants of one engine on the made corpus, in blocks as PubMed's."""
    layout = engine_for(spec, TARGETS[0]).layout()
    corpus = Corpus.open(store)
    _, small, _ = train_seconds(third, spec, work, layout.block_cells, passes=1)
    _, start, passes = train_seconds(store, spec, work, layout.block_cells)
    few, many = (work_of(spec, target_of(s)) for s in (third, store))
    slope = min(max(0.0, (start - small) / (many - few)), start / many)
    per = [1e9 * s / many for s in passes]
    words = corpus.grid(layout.block_cells, layout.block_docs).max_words
    spread = f"{min(per):.0f} to {max(per):.0f}"
    return Constants(statistics.median(per), 1e9 * slope, start - slope * many, words, spread)


def predicted(spec: str, constants: Constants, target: Target) -> tuple[float, float]:
    """Seconds of the start and of a pass."""
    amount = 1e-9 * work_of(spec, target)
    return constants.start_s + constants.start_ns * amount, constants.pass_ns * amount


def clock(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86400:.1f} days"


def report_constants(found: dict[str, Constants], store: Path) -> float:
    """The table of constants; bytes a cell of the store."""
    corpus = Corpus.open(store)
    size = sum(f.stat().st_size for f in store.rglob("*") if f.is_file()) / corpus.n_cells
    heading(
        "Scale: constants",
        f"{corpus.n_docs:,} documents, {corpus.n_cells:,} cells, W = {corpus.n_words:,}, {size:.2f} bytes a cell in the store; "
        f"{THREADS} threads, blocks of PubMed's size, wall time, the page cache of no help; median of passes 2 to 4; by the token where the engine samples tokens",
    )
    rows = []
    for spec, c in found.items():
        engine = engine_for(spec, TARGETS[0])
        kept = memory_bytes(engine, BlockShape(corpus.n_docs, corpus.n_cells, int(corpus.n_tokens), corpus.n_words))
        name, topics = spec.split(":")
        rows.append(
            [
                name,
                topics,
                f"{c.pass_ns:.1f} ({c.spread})",
                f"{c.start_s:.1f} s + {c.start_ns:.1f}",
                f"{kept / corpus.n_cells:.1f}",
            ]
        )
    table(
        ["engine", "K", "ns a cell or token, a pass (spread)", "start: seconds + ns", "bytes a cell, block memory"],
        rows,
    )
    return size


def report_targets(found: dict[str, Constants], store: Path, bytes_a_cell: float) -> None:
    """The page: what every corpus would take."""
    heading(
        "Scale: predictions",
        "Seconds from the constants above, memory and disk from the memory plan. "
        + "; ".join(f"{t.name}: {t.docs:,} documents, {t.cells:,} cells, W = {t.words:,} ({t.what})" for t in TARGETS),
    )
    rows, sample = [], Corpus.open(store)
    base = machine.PROCESS_BYTES
    for target in TARGETS:
        for spec, constants in found.items():
            engine = engine_for(spec, target)
            block = block_of(engine, target, constants, sample)
            plan = plan_for(engine, target, block, base, 1 << 50)
            start, a_pass = predicted(spec, constants, target)
            disk = target.cells * bytes_a_cell + sum(plan.disk.values())
            name, topics = spec.split(":")
            rows.append(
                [target.name, name, topics, clock(start), clock(a_pass), clock(start + PASSES * a_pass), format_bytes(plan.total),
                 format_bytes(smallest(engine, target, block, base)), format_bytes(disk)]
            )  # fmt: skip
    table(
        ["corpus", "engine", "K", "start", "a pass", f"{PASSES} passes", "RAM, tables in memory", "least --mem-limit",
         "disk, store included"],
        rows,
    )  # fmt: skip


def work_of(spec: str, target: Target) -> int:
    """What time goes with: tokens where the engine keeps a topic a token (Gibbs sampling), cells elsewhere."""
    kept = engine_for(spec, target).memory.values()
    return target.tokens if any(s.per == "token" for s in kept) else target.cells


def target_of(store: Path) -> Target:
    """A corpus that is there."""
    corpus = Corpus.open(store)
    return Target(store.stem, corpus.n_docs, corpus.n_cells, int(corpus.n_tokens), corpus.n_words, "")


def check(store: Path, specs: Sequence[str], found: dict[str, Constants], work: Path) -> None:
    """Predicted beside measured on a store of full size."""
    target, rows = target_of(store), []
    for spec in specs:
        limit, start, passes = train_seconds(store, spec, work, engine_for(spec, target).layout().block_cells)
        name, topics = spec.split(":")
        says = predicted(spec, found[spec], target)
        measured = [start, statistics.median(passes)]
        off = [f"{100 * (p / m - 1):+.0f} %" for p, m in zip(says, measured)]
        rows.append([name, topics, format_bytes(limit), f"{says[0]:.1f}", f"{measured[0]:.1f}", off[0], f"{says[1]:.1f}",
                     ", ".join(f"{s:.1f}" for s in passes), off[1]])  # fmt: skip
    heading(
        "Scale: predictions against full size",
        f"{target.docs:,} documents, {target.cells:,} cells, {target.tokens:,} tokens, W = {target.words:,}; seconds, passes 2 to 4",
    )
    table(
        ["engine", "K", "limit", "start, predicted", "measured", "off by", "a pass, predicted", "measured", "off by"],
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="where corpus and constants are kept (default: a temporary folder)")
    parser.add_argument("--engines", nargs="*", default=ENGINES if full() else ENGINES[:2], help="NAME:K ...")
    parser.add_argument("--check", type=Path, help="a corpus store of full size")
    parser.add_argument("--checks", nargs="*", default=CHECKS, help="NAME:K ... to check")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        cells = 60 if full() else 2  # millions
        store, third = (work / f"scale-{size:.0f}e6.zarr" for size in (cells, cells / 3))
        for path, size in ((store, cells), (third, cells / 3)):
            if not path.exists():
                making = [sys.executable, TOOLS / "make_corpus.py", "--cells", f"{size * 1e6:.0f}", "--out", path]
                subprocess.run(making, check=True)
        found = {spec: measure(spec, store, third, work) for spec in args.engines}
        report_targets(found, store, report_constants(found, store))
        if args.check:
            check(args.check, [s for s in args.checks if s in found], found, work)


if __name__ == "__main__":
    main()
