"""The plan of a run: its memory and disk, fitted to the limit before it starts.

The plan may choose threads, how far ahead blocks are decoded, and where tables and deltas live. It
may not choose block size, round width or start, which decide the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from topicstream.base.errors import DiskTooSmall, DoesNotFit
from topicstream.base.machine import PROCESS_BYTES, format_bytes
from topicstream.base.memory import Array, MemoryLimit, MemoryPlan, Stage, plan_memory, total_bytes
from topicstream.base.text import counted
from topicstream.corpus.format import CELLS, DOCS
from topicstream.corpus.grid import Grid
from topicstream.engines.base import BlockShape, Engine, Layout, Rule, padded, workspace_bytes
from topicstream.engines.covariates import prior_stats
from topicstream.model.topic_kinds import describe_topics
from topicstream.numeric.tables.layouts import LAYOUTS
from topicstream.numeric.tables.table import Footprint, Sizes

PREFETCH = 2
STORAGE_SHARED = 3  # workers that visit blocks of one storage block, about
CELLS_OF_A_SECOND = 1 << 20  # a pass of fewer takes no longer
ROUNDS_OF_A_PASS = 8  # fewer cost topics (docs/internals/decisions/rounds.md)
STORAGE_BLOCK = total_bytes([Array((CELLS,), np.int64), Array((DOCS,), np.int32)])
WORD_BYTES = 48  # a word of the vocabulary, which is written into the model
MODEL_FILE = 40 << 20  # what zarr and Arrow take to write the model
PLACES = {  # whether tables are on disk, and deltas of a round merge as blocks end
    "auto": ((False, False), (False, True), (True, True)),
    "memory": ((False, False), (False, True)),
    "disk": ((True, False), (True, True)),
}
SEED_RANGE = 3 << 20  # what a worker takes beside seed topics to make a range of them (make_rows)
LEAST_SUMS = 8 << 20
"""Bytes for the sums of deltas that merge as blocks end, at least."""
LEAST_SEEDS = 8 << 20
"""Bytes of seed topics that a worker holds at a time, where its engine takes them in parts."""
ADVICE = "raise --mem-limit, lower -K, or choose another engine (`topics engines`)"


class StartMemory(NamedTuple):
    """Bytes that a start holds beside the tables: in all, and for each thread."""

    fixed: int = 0
    worker: int = 0


NOTHING = StartMemory()


@dataclass(frozen=True)
class Work:
    """The parts of a run that take memory and disk.

    Attributes
    ----------
    engine, layout
        The algorithm, and how a pass is cut.
    block
        The largest of everything over the blocks.
    pass_state
        Bytes of the state of all blocks.
    start
        What the start takes; None: it is made as the blocks are visited.
    seeded
        Whether the start visits blocks with rows of a seed table.
    keeps_best
        Whether the checkpoint of the best pass is kept.
    members
        Processes of a cluster that share the blocks, of which this is one.
    """

    engine: Engine
    layout: Layout
    block: BlockShape
    pass_state: int = 0
    start: StartMemory = NOTHING
    seeded: bool = True
    keeps_best: bool = False
    members: int = 1


@dataclass(frozen=True)
class Allowance:
    """The resources that a run may use.

    Attributes
    ----------
    limit
        Memory.
    threads
        Threads, at most.
    tables
        Place of the tables: ``auto``, ``memory`` or ``disk``.
    disk_free
        Bytes free on the disk of ``folder``.
    process
        Bytes of the process without data.
    """

    limit: MemoryLimit
    threads: int
    tables: str = "auto"
    disk_free: int = 1 << 62
    folder: str = ""
    process: int = PROCESS_BYTES


MUCH_STATE = 1 << 30  # bytes of disk from which on a smaller state is offered


class Placement(NamedTuple):
    """Placement of tables and deltas, and storage blocks decoded ahead.

    tables_on_disk  whether tables are mapped files
    deltas_spill    whether the deltas of a round merge as blocks end, and spill to files where
                    memory has no room; those of a cluster's member wait in mapped files
    """

    tables_on_disk: bool
    deltas_spill: bool
    prefetch: int


class Sums(NamedTuple):
    """Bytes for the sums of deltas that merge as blocks end, in the start and in the passes.

    0: deltas wait for the end of their round.
    """

    start: int = 0
    passes: int = 0


NO_SUMS = Sums()


@dataclass(frozen=True)
class Plan:
    """Threads, placements, and bytes by purpose.

    Attributes
    ----------
    advice
        How to keep less, of a run that keeps much.
    spare
        Whether a file of block state is kept to be written over, which pays where the system keeps
        it in its cache.
    sums
        Bytes for the sums of deltas that merge as blocks end.
    seed_rows
        Rows of seed topics that a worker holds at a time.
    """

    memory: MemoryPlan
    place: Placement
    disk: Mapping[str, int]
    advice: str = ""
    spare: bool = True
    sums: Sums = NO_SUMS
    seed_rows: int = 0

    @property
    def threads(self) -> int:
        """Threads that visit blocks."""
        return self.memory.workers

    def lines(self) -> list[str]:
        """Format the plan for the terminal."""
        disk = ", ".join(f"{name} {format_bytes(size)}" for name, size in self.disk.items() if size)
        where = "tables on disk" if self.place.tables_on_disk else "tables in memory"
        apart = ", deltas on disk" if self.place.deltas_spill else ""
        if self.sums.passes:
            apart = ", deltas merged as blocks end"
        lines = [*self.memory.lines(), f"  {where}{apart}; on disk: {disk or 'checkpoints only'}"]
        return [*lines, f"  less block state: {self.advice}"] if self.advice else lines


class TableBytes:
    """The bytes of all tables of an engine (see ``Footprint``).

    ``rows`` and ``fixed`` count the successors of REPLACE tables, ``saved`` does not.
    """

    def __init__(self, engine: Engine, block: BlockShape) -> None:
        specs = engine.tables
        shape = engine.shape
        every = dict[str, Footprint]()
        for name, spec in specs.items():
            constants = shape.constants(name)
            sizes = Sizes(
                rows=spec.n_rows(shape.sizes),
                columns=spec.n_columns(shape.topics),
                changed=block.most_rows(spec.rows),
                seen=block.most_rows(spec.reads or spec.rows),
                entries=block.table_entries or int(shape.tokens),
                largest=block.heaviest or int(shape.tokens),
                constants=0 if constants is None else len(constants),
            )
            every[name] = LAYOUTS[spec.layout].footprint(spec, sizes)
        copies = {name: 2 if spec.rule is Rule.REPLACE else 1 for name, spec in specs.items()}
        self.rows = sum(size.rows * copies[name] for name, size in every.items())
        self.fixed = sum(size.fixed * copies[name] for name, size in every.items())
        self.saved = sum(size.rows for size in every.values())
        self.window = sum(size.window for size in every.values())
        self.gathered = sum(size.gathered for size in every.values())
        work = workspace_bytes(engine, block)
        self.scratch = work.visit
        dense = sum(size.delta for size in every.values())
        self.delta = dense + work.deltas  # of a block
        self.merged = dense + work.delta_parts  # of a visit whose deltas merge
        # of a block, what waits though deltas merge: those without a quantum
        merging = {name for name, spec in specs.items() if spec.quantum(float(shape.tokens))}
        self.waiting = sum(size.delta for name, size in every.items() if name not in merging)
        if any(specs[name].delta == "sparse" for name in specs.keys() - merging):
            self.waiting += work.deltas
            self.merged = dense
        self.ranges = max((every[name].merging.range for name in merging), default=0)
        self.buffers = sum(every[name].merging.fixed for name in merging)
        self.sums = sum(every[name].merging.sums for name in merging)
        self.slower_on_disk = max(
            (LAYOUTS[spec.layout].slower_on_disk for spec in specs.values()), default=1.0
        )


def state_bytes(engine: Engine, block: BlockShape) -> int:
    """Count the bytes of the state of one block."""
    return total_bytes(Array(spec.shape(block), spec.dtype) for spec in engine.state.values())


def state_bytes_of_pass(engine: Engine, grid: Grid) -> int:
    """Count the bytes of the state of all blocks, at most."""
    axes = dict(grid.axes)
    blocks = [
        BlockShape(int(docs), int(cells), int(tokens), min(grid.max_words, int(cells)), axes=axes)
        for docs, cells, tokens in zip(grid.docs, grid.cells, grid.tokens)
    ]
    corpus = BlockShape(int(grid.docs.sum()), int(grid.cells.sum()), 0, grid.max_words, axes=axes)
    return total_bytes(
        Array(shape, spec.dtype)
        for spec in engine.state.values()
        for shape in (
            [spec.shape(b) for b in blocks] if spec.total is None else [(int(spec.total(corpus)),)]
        )
    )


def wider_rounds(engine: Engine, width: int, threads: int, blocks: int) -> str:
    """Advise more blocks a round if threads would idle, else return "".

    A round is equally wide on every machine. Where a round is a step of the method, or a pass
    takes a second at most, there is no advice.
    """
    better = min(threads, blocks // ROUNDS_OF_A_PASS)
    if better <= width or engine.shape.cells < CELLS_OF_A_SECOND:
        return ""
    if any(spec.rule is Rule.BLEND for spec in engine.tables.values()):
        return ""
    return (
        f"note: a round has {counted(width, 'block')}, so {width} of {threads} threads visit at a "
        f"time; --round-blocks {better} lets "
        f"{better} work (other digits, topics as good: docs/internals/decisions/rounds.md)"
    )


def make_plan(work: Work, room: Allowance) -> Plan:
    """Choose the fastest placement that fits memory and disk.

    Within a placement, as many threads work as fit.

    Raises
    ------
    DoesNotFit
        Naming the smallest limit that would do.
    DiskTooSmall
        Naming what the run would write.
    """
    tables = TableBytes(work.engine, work.block)
    topics = work.engine.shape.topics
    background = topics - 1 if getattr(work.engine.options, "background", None) else None
    task = f"{work.engine.name} with {describe_topics(topics, background)}"
    planned = task + " and --tables memory" * (room.tables == "memory")
    fitting: list[tuple[float, Placement, MemoryPlan, Sums, int]] = []
    refused: list[DoesNotFit] = []
    aheads = sorted({0, PREFETCH, room.threads // STORAGE_SHARED}, reverse=True)
    for place in [Placement(*where, ahead) for where in PLACES[room.tables] for ahead in aheads]:
        try:
            stages = _stages(work, tables, place)
            (fixed, worker), *others = stages
            memory = plan_memory(
                planned, room.limit, room.threads, fixed, worker, ADVICE, others, room.process
            )
        except DoesNotFit as e:
            refused.append(e)
        else:
            sums = NO_SUMS
            slowness = tables.slower_on_disk if place.tables_on_disk else 1.0
            if place.deltas_spill:
                slowness *= 1.5
            if _merges(work, place):
                memory, sums, needed = _with_sums(work, tables, memory, stages)
                slowness *= (1.1 + max(0.0, 1 - sums.passes / needed)) / 1.5
            slowness *= 1 if place.prefetch else 1.1
            more = max(0, sums.start - min(tables.sums, LEAST_SUMS))
            memory, rows = _with_seeds(work, memory, stages[1], more)
            fitting.append((slowness / memory.workers, place, memory, sums, rows))
    if not fitting:
        raise min(refused, key=lambda e: e.least)
    _, place, memory, sums, seed_rows = min(fitting, key=lambda choice: choice[0])
    spare = work.pass_state <= room.limit.bytes // 8
    # block state: of the pass before, of this one and of a checkpoint's
    disk = {
        "block state": work.pass_state * (3 + spare + work.keeps_best),
        "checkpoints": tables.saved * (2 + work.keeps_best),
        "tables": tables.rows * place.tables_on_disk,
        "deltas": _spilled(work, tables, place, sums),
    }
    need = sum(disk.values())
    if need > room.disk_free:
        raise DiskTooSmall(
            f"{task} needs {format_bytes(need)} of disk "
            f"({', '.join(f'{k} {format_bytes(v)}' for k, v in disk.items() if v)}), "
            f"{format_bytes(room.disk_free)} are "
            f"free{f' where {room.folder} lies' if room.folder else ''}; "
            "free some, put --model on another disk, or choose an engine that keeps less "
            "(`topics engines`)"
        )
    return Plan(
        memory,
        place,
        disk,
        work.engine.smaller_state if disk["block state"] >= MUCH_STATE else "",
        spare,
        sums,
        seed_rows,
    )


def _merges(work: Work, place: Placement) -> bool:
    """Decide whether the deltas of a round merge as blocks end.

    A member of a cluster sends parts of them to others, so there they wait.
    """
    return place.deltas_spill and work.members == 1


def _with_sums(
    work: Work, tables: TableBytes, memory: MemoryPlan, stages: Sequence[Stage]
) -> tuple[MemoryPlan, Sums, int]:
    """Give what is left of the limit to the sums of a round, so that they need not be written.

    A start that holds a model may use a quarter of what is left itself (``Ground.free``). Returns
    the plan with them, the sums, and what is enough for all of a round, about.
    """
    least = min(tables.sums, LEAST_SUMS)
    most = min(tables.sums, 3 * tables.delta * work.layout.round_blocks)
    parts = list[Counter[str]]()
    bytes_of = list[int]()
    shares = (0.75 if work.start.fixed else 1.0, 1.0)
    for stage, share in zip(stages[1:3], shares, strict=True):
        plan = _stage_plan(memory, stage)
        more = max(0, min(most - least, int(plan.free * share)))
        parts.append(Counter(plan.parts) + Counter({"deltas": more}))
        bytes_of.append(least + more)
    every = [memory, *(replace(memory, parts=stage) for stage in parts)]
    return max(every, key=lambda plan: plan.total), Sums(*bytes_of), max(1, most * 2 // 3)


def _stage_plan(memory: MemoryPlan, stage: Stage) -> MemoryPlan:
    """Return the plan of one stage of a run that has been planned."""
    fixed, worker = stage
    each = Counter({name: size * memory.workers for name, size in worker.items()})
    parts = Counter({"process": memory.parts["process"]}) + Counter(fixed) + each
    return replace(memory, parts=parts)


def _seed_bytes(work: Work) -> tuple[int, int]:
    """Count the bytes of the seed topics of a block, and what a worker holds of them at least."""
    whole = Array((work.block.words, padded(work.engine.shape.topics)), np.float32).nbytes
    if not work.seeded:
        return 0, 0
    return whole, min(whole, LEAST_SEEDS) if work.engine.starts_by_words else whole


def _with_seeds(work: Work, memory: MemoryPlan, start: Stage, sums: int) -> tuple[MemoryPlan, int]:
    """Hold the seed topics of whole blocks, so that none is made twice, where memory has room.

    sums: bytes that the sums of deltas take beyond their least. Returns the plan, and the rows of
    seed topics that a worker holds at a time.
    """
    whole, least = _seed_bytes(work)
    row = Array((padded(work.engine.shape.topics),), np.float32).nbytes
    plan = _stage_plan(memory, start)
    more = Counter({"seed topics": (whole - least) * memory.workers, "deltas": sums})
    plan = replace(plan, parts=Counter(plan.parts) + more)
    if plan.total > memory.limit.bytes:
        return memory, max(1, least // row)
    return max(memory, plan, key=lambda one: one.total), work.block.words


def _spilled(work: Work, tables: TableBytes, place: Placement, sums: Sums) -> int:
    """Bytes of files for the deltas of a round, at most."""
    blocks = work.layout.round_blocks
    if not place.deltas_spill:
        return 0
    if not _merges(work, place):
        return tables.delta * blocks
    # every block's part may have been written, as float64
    written = 2 * (tables.delta - tables.waiting) if min(sums) < tables.sums else 0
    return (tables.waiting + written) * blocks


def _exchange(work: Work, tables: TableBytes, place: Placement) -> int:
    """Count the bytes of a member's messages, beyond the deltas of a whole round.

    After its visits a member holds the deltas of its own blocks, copies of those that others add
    up, and the deltas of others that it adds up, twice while they arrive. At the end of the round
    it holds all but the copies, and the changed rows of the tables, its own part of them twice.
    Where it sends sums of its blocks, these are two thirds of their deltas, and so are those of
    others.
    """
    members = work.members
    blocks = work.layout.round_blocks
    if members == 1:
        return 0
    deltas = tables.delta * blocks
    own = tables.delta * -(-blocks // members)
    sent = own * (members - 1) // members
    arriving = (deltas - own) // members
    changed = min(tables.saved, deltas)
    most = max(sent + 2 * arriving, arriving + changed + changed // members)
    if any(spec.delta == "sparse" for spec in work.engine.tables.values()):
        most = max(most, 2 * deltas // 3)
    return most if place.deltas_spill else max(0, own + most - deltas)


def _prior_bytes(engine: Engine, block: BlockShape) -> StartMemory:
    """Count the bytes of coefficients and their step, and of a block's covariates."""
    prior = engine.shape.covariates
    if prior is None:
        return NOTHING
    columns = 12 * prior.columns + (2 * prior.row_columns if prior.periods else 0)
    coefficients = Array((columns, engine.shape.topics), np.float64)
    rows = prior.most_rows(block.docs)
    coded = [Array((block.docs,), np.int32), Array((rows, 1 + prior.longest), np.int64)]
    return StartMemory(coefficients.nbytes, total_bytes(coded))


def _stages(work: Work, tables: TableBytes, place: Placement) -> list[Stage]:
    """List the memory of the start, the passes and the end of a run."""
    engine = work.engine
    block = work.block
    blocks = work.layout.round_blocks
    merges = _merges(work, place)
    waits = place.deltas_spill and not merges
    window = tables.window * (place.tables_on_disk or waits)
    state = state_bytes(engine, block)
    always = {
        "tables": tables.fixed + tables.rows * (not place.tables_on_disk),
        "vocabulary": WORD_BYTES * engine.shape.words,
    }
    numbers = Array((blocks, block.words), np.int32).nbytes
    prior = _prior_bytes(engine, block)
    figures = total_bytes(
        [Array((size,), np.float64) for size in prior_stats(engine.shape).values()]
    )
    fixed = always | {
        "covariates": figures * (blocks + 2) + prior.fixed,
        "deltas": tables.buffers + min(tables.sums, LEAST_SUMS) + numbers * (tables.waiting > 0)
        if merges
        else tables.delta * blocks * (not place.deltas_spill) + numbers,
        "prefetch": STORAGE_BLOCK * (place.prefetch + 1),
        "exchange": _exchange(work, tables, place),
    }
    cells = [
        Array((2, block.cells), np.int32),
        Array((block.docs,), np.int64),
        Array((3, block.words), np.int32),
    ]
    cutting = [Array((5, engine.shape.words), np.int8), Array((block.cells,), np.int32)]
    worker = {
        "covariates": figures + prior.worker,
        "blocks": total_bytes([*cells, *cutting]),
        "visits": tables.scratch
        + tables.delta * waits
        + window
        + (tables.merged + tables.ranges) * merges,
        "prefetch": STORAGE_BLOCK,
        "exchange": 3
        * tables.window
        * (work.members > 1),  # a range before it was changed, and what changed in it
    }
    _, seeds = _seed_bytes(work)
    seeds += SEED_RANGE * work.seeded
    start = Counter(fixed) + Counter({"start": work.start.fixed})
    passes = {"state": 2 * state, "gathered rows": tables.gathered * place.tables_on_disk}
    return [
        (start, {"start": work.start.worker, "prefetch": STORAGE_BLOCK}),
        (start, Counter(worker) + Counter({"seed topics": seeds, "state": state})),
        (fixed, Counter(worker) + Counter(passes)),
        (always | {"model file": MODEL_FILE}, {}),
    ]
