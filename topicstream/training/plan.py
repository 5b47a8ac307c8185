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
from topicstream.engines.base import BlockShape, Engine, Layout, Rule, padded
from topicstream.engines.covariates import prior_stats
from topicstream.model.topic_kinds import describe_topics
from topicstream.training.table_bytes import TableBytes, state_bytes

PREFETCH = 2
"""Storage blocks that are decoded ahead, where memory has room and threads are few."""
STORAGE_SHARED = 3
"""Workers that visit blocks of one storage block, about."""
CELLS_OF_A_SECOND = 1 << 20
"""Cells that a pass visits in a second, at least."""
ROUNDS_OF_A_PASS = 8
"""Least rounds a pass: fewer cost topics (docs/internals/decisions/rounds.md)."""
STORAGE_BLOCK = total_bytes([Array((CELLS,), np.int64), Array((DOCS,), np.int32)])
WORD_BYTES = 48
"""Bytes of a word of the vocabulary, which is written into the model."""
MODEL_FILE = 40 << 20
"""Bytes that zarr and Arrow take to write the model."""
PLACES = {  # tables_on_disk and deltas_spill of Placement, by --tables
    "auto": ((False, False), (False, True), (True, True)),
    "memory": ((False, False), (False, True)),
    "disk": ((True, False), (True, True)),
}
SEED_RANGE = 3 << 20
"""Bytes that a worker takes beside seed topics to make a range of them (``make_rows``)."""
LEAST_SUMS = 8 << 20
"""Bytes for the sums of deltas that merge as blocks end, at least."""
LEAST_SEEDS = 8 << 20
"""Bytes of seed topics that a worker holds at a time, where its engine takes them in parts."""
ADVICE = "raise --mem-limit, lower -K, or choose another engine (`topics engines`)"


class StartMemory(NamedTuple):
    """Bytes that a start holds beside the tables.

    Attributes
    ----------
    fixed
        In all.
    worker
        For each thread.
    """

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
    folder
        Where the run writes, for the message; "" leaves it out.
    process
        Bytes of the process without data.
    """

    limit: MemoryLimit
    threads: int
    tables: str = "auto"
    disk_free: int = 1 << 62
    folder: str = ""
    process: int = PROCESS_BYTES


MUCH_STATE = 1 << 30
"""Bytes of block state on disk from which on a smaller state is offered."""


class Placement(NamedTuple):
    """Placement of tables and deltas, and how far ahead blocks are decoded.

    Attributes
    ----------
    tables_on_disk
        Whether tables are mapped files.
    deltas_spill
        Whether the deltas of a round merge as blocks end, and spill to files where memory has no
        room. Those of a cluster's member wait in mapped files.
    prefetch
        Storage blocks decoded ahead.
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
    memory
        Bytes of memory by purpose, and the threads that they allow.
    place
        Where tables and deltas live.
    disk
        Bytes of disk by purpose.
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
        """Return the number of threads that visit blocks."""
        return self.memory.workers

    def lines(self) -> list[str]:
        """Format the plan for the terminal."""
        disk = ", ".join(f"{name} {format_bytes(size)}" for name, size in self.disk.items() if size)
        tables = "tables on disk" if self.place.tables_on_disk else "tables in memory"
        deltas = ", deltas on disk" if self.place.deltas_spill else ""
        if self.sums.passes:
            deltas = ", deltas merged as blocks end"
        lines = self.memory.lines()
        lines.append(f"  {tables}{deltas}; on disk: {disk or 'checkpoints only'}")
        if self.advice:
            lines.append(f"  less block state: {self.advice}")
        return lines


def advise_wider_rounds(engine: Engine, width: int, threads: int, blocks: int) -> str:
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
        f"time; --round-blocks {better} lets {better} work (other digits, topics as good: "
        f"docs/internals/decisions/rounds.md)"
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
    planned = f"{task} and --tables memory" if room.tables == "memory" else task
    fitting: list[_Candidate] = []
    refused: list[DoesNotFit] = []
    prefetches = sorted({0, PREFETCH, room.threads // STORAGE_SHARED}, reverse=True)
    for tables_on_disk, deltas_spill in PLACES[room.tables]:
        for prefetch in prefetches:
            place = Placement(tables_on_disk, deltas_spill, prefetch)
            try:
                fitting.append(_try_place(work, tables, room, place, planned))
            except DoesNotFit as e:
                refused.append(e)
    if not fitting:
        raise min(refused, key=lambda e: e.least)
    best = min(fitting, key=lambda candidate: candidate.slowness)
    spare = work.pass_state <= room.limit.bytes // 8
    # block state: of the pass before, of this one and of a checkpoint's
    disk = {
        "block state": work.pass_state * (3 + spare + work.keeps_best),
        "checkpoints": tables.saved * (2 + work.keeps_best),
        "tables": tables.rows if best.place.tables_on_disk else 0,
        "deltas": _count_spilled_bytes(work, tables, best.place, best.sums),
    }
    _check_disk(task, disk, room)
    advice = work.engine.smaller_state if disk["block state"] >= MUCH_STATE else ""
    return Plan(best.memory, best.place, disk, advice, spare, best.sums, best.seed_rows)


class _Candidate(NamedTuple):
    """A placement that fits memory.

    Attributes
    ----------
    slowness
        Estimated time of a pass; only ratios count.
    """

    slowness: float
    place: Placement
    memory: MemoryPlan
    sums: Sums
    seed_rows: int


def _try_place(
    work: Work, tables: TableBytes, room: Allowance, place: Placement, task: str
) -> _Candidate:
    """Plan the memory of one placement (``task`` names the run in the message).

    Raises
    ------
    DoesNotFit
        If one thread does not fit.
    """
    stages = _stages(work, tables, place)
    (fixed, worker), *others = stages
    memory = plan_memory(
        task, room.limit, room.threads, fixed, worker, ADVICE, others, room.process
    )
    sums = NO_SUMS
    slowness = tables.slower_on_disk if place.tables_on_disk else 1.0
    if place.deltas_spill:
        slowness *= 1.5
    if _merges(work, place):
        memory, sums, enough = _add_sums(work, tables, memory, stages)
        slowness *= (1.1 + max(0.0, 1 - sums.passes / enough)) / 1.5
    if not place.prefetch:
        slowness *= 1.1
    beyond_least = max(0, sums.start - min(tables.sums, LEAST_SUMS))
    memory, rows = _add_seed_rows(work, memory, stages[1], beyond_least)
    return _Candidate(slowness / memory.workers, place, memory, sums, rows)


def _check_disk(task: str, disk: Mapping[str, int], room: Allowance) -> None:
    """Refuse a plan that needs more disk than is free.

    Raises
    ------
    DiskTooSmall
        Naming what the run would write.
    """
    need = sum(disk.values())
    if need <= room.disk_free:
        return
    parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in disk.items() if size)
    where = f" where {room.folder} lies" if room.folder else ""
    raise DiskTooSmall(
        f"{task} needs {format_bytes(need)} of disk ({parts}), {format_bytes(room.disk_free)} are "
        f"free{where}; free some, put --model on another disk, or choose an engine that keeps less "
        f"(`topics engines`)"
    )


def _merges(work: Work, place: Placement) -> bool:
    """Decide whether the deltas of a round merge as blocks end.

    A member of a cluster sends parts of them to others, so there they wait.
    """
    return place.deltas_spill and work.members == 1


def _add_sums(
    work: Work, tables: TableBytes, memory: MemoryPlan, stages: Sequence[Stage]
) -> tuple[MemoryPlan, Sums, int]:
    """Give what is left of the limit to the sums of a round, so that they need not be written.

    A start that holds a model may use a quarter of what is left itself (``Ground.free``). Returns
    the plan with them, the sums, and what is enough for all of a round, about.
    """
    least = min(tables.sums, LEAST_SUMS)
    most = min(tables.sums, 3 * tables.delta * work.layout.round_blocks)
    plans = [memory]
    sums = list[int]()
    shares = (0.75 if work.start.fixed else 1.0, 1.0)
    for stage, share in zip(stages[1:3], shares, strict=True):
        plan = _stage_plan(memory, stage)
        more = max(0, min(most - least, int(plan.free * share)))
        plans.append(replace(memory, parts=Counter(plan.parts) + Counter({"deltas": more})))
        sums.append(least + more)
    return max(plans, key=lambda plan: plan.total), Sums(*sums), max(1, most * 2 // 3)


def _stage_plan(memory: MemoryPlan, stage: Stage) -> MemoryPlan:
    """Return the plan of one stage of a run that has been planned."""
    fixed, worker = stage
    workers = Counter({name: size * memory.workers for name, size in worker.items()})
    parts = Counter({"process": memory.parts["process"]}) + Counter(fixed) + workers
    return replace(memory, parts=parts)


def _seed_bytes(work: Work) -> tuple[int, int]:
    """Count the bytes of the seed topics of a block, and what a worker holds of them at least."""
    if not work.seeded:
        return 0, 0
    block = Array((work.block.words, padded(work.engine.shape.topics)), np.float32).nbytes
    least = min(block, LEAST_SEEDS) if work.engine.starts_by_words else block
    return block, least


def _add_seed_rows(
    work: Work, memory: MemoryPlan, start: Stage, sums: int
) -> tuple[MemoryPlan, int]:
    """Hold the seed topics of whole blocks, so that none is made twice, where memory has room.

    ``sums`` are the bytes that the sums of deltas take beyond their least. Returns the plan, and
    the rows of seed topics that a worker holds at a time.
    """
    block, least = _seed_bytes(work)
    row = Array((padded(work.engine.shape.topics),), np.float32).nbytes
    plan = _stage_plan(memory, start)
    more = Counter({"seed topics": (block - least) * memory.workers, "deltas": sums})
    plan = replace(plan, parts=Counter(plan.parts) + more)
    if plan.total > memory.limit.bytes:
        return memory, max(1, least // row)
    return max(memory, plan, key=lambda plan: plan.total), work.block.words


def _count_spilled_bytes(work: Work, tables: TableBytes, place: Placement, sums: Sums) -> int:
    """Count the bytes of files for the deltas of a round, at most."""
    blocks = work.layout.round_blocks
    if not place.deltas_spill:
        return 0
    if not _merges(work, place):
        return tables.delta * blocks
    # every block's part may have been written, as float64
    written = 2 * (tables.delta - tables.waiting) if min(sums) < tables.sums else 0
    return (tables.waiting + written) * blocks


def _count_exchanged_bytes(work: Work, tables: TableBytes, place: Placement) -> int:
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
    held = tables.delta * -(-blocks // members)
    sent = held * (members - 1) // members
    arriving = (deltas - held) // members
    changed = min(tables.saved, deltas)
    most = max(sent + 2 * arriving, arriving + changed + changed // members)
    if any(spec.delta == "sparse" for spec in work.engine.tables.values()):
        most = max(most, 2 * deltas // 3)
    return most if place.deltas_spill else max(0, held + most - deltas)


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
    """List the memory of the start, of pass 0, of the passes and of the end of a run.

    A stage is what it holds in all, and what it holds for each worker.
    """
    engine = work.engine
    always = {
        "tables": tables.fixed + (0 if place.tables_on_disk else tables.rows),
        "vocabulary": WORD_BYTES * engine.shape.words,
    }
    prior = _prior_bytes(engine, work.block)
    figures = total_bytes(
        [Array((size,), np.float64) for size in prior_stats(engine.shape).values()]
    )
    fixed = always | {
        "covariates": figures * (work.layout.round_blocks + 2) + prior.fixed,
        "deltas": _count_delta_bytes(work, tables, place),
        "prefetch": STORAGE_BLOCK * (place.prefetch + 1),
        "exchange": _count_exchanged_bytes(work, tables, place),
    }
    worker = Counter(
        {
            "covariates": figures + prior.worker,
            "blocks": _count_block_bytes(work),
            "visits": _count_visit_bytes(work, tables, place),
            "prefetch": STORAGE_BLOCK,
            # a range of a table before it was changed, and what changed in it
            "exchange": 3 * tables.window if work.members > 1 else 0,
        }
    )
    state = state_bytes(engine, work.block)
    _, seeds = _seed_bytes(work)
    if work.seeded:
        seeds += SEED_RANGE
    gathered = tables.gathered if place.tables_on_disk else 0
    start = Counter(fixed) + Counter({"start": work.start.fixed})
    return [
        (start, {"start": work.start.worker, "prefetch": STORAGE_BLOCK}),
        (start, worker + Counter({"seed topics": seeds, "state": state})),
        (fixed, worker + Counter({"state": 2 * state, "gathered rows": gathered})),
        (always | {"model file": MODEL_FILE}, {}),
    ]


def _count_delta_bytes(work: Work, tables: TableBytes, place: Placement) -> int:
    """Count the bytes of the deltas of a round that are held in memory."""
    blocks = work.layout.round_blocks
    numbers = Array((blocks, work.block.words), np.int32).nbytes
    if _merges(work, place):
        least = tables.buffers + min(tables.sums, LEAST_SUMS)
        return least + numbers if tables.waiting > 0 else least
    return numbers if place.deltas_spill else tables.delta * blocks + numbers


def _count_block_bytes(work: Work) -> int:
    """Count the bytes of a block that a worker visits, and of cutting it from storage."""
    block = work.block
    return total_bytes(
        [
            Array((2, block.cells), np.int32),
            Array((block.docs,), np.int64),
            Array((3, block.words), np.int32),
            Array((5, work.engine.shape.words), np.int8),
            Array((block.cells,), np.int32),
        ]
    )


def _count_visit_bytes(work: Work, tables: TableBytes, place: Placement) -> int:
    """Count the bytes that a worker needs to visit a block and to hand over its deltas."""
    merges = _merges(work, place)
    waits = place.deltas_spill and not merges
    size = tables.scratch
    if place.tables_on_disk or waits:
        size += tables.window
    if waits:
        size += tables.delta
    if merges:
        size += tables.merged + tables.ranges
    return size
