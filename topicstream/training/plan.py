"""The memory plan: what a training run will hold, fitted to the limit before it starts.

The plan may choose threads, how far ahead blocks are decoded, and where tables and deltas live; it may not choose block
size, round width or start, which decide the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from topicstream.corpus.format import CELLS, DOCS
from topicstream.engines.base import BlockShape, Engine, Layout, Rule, TableSpec, padded
from topicstream.errors import DiskTooSmall, DoesNotFit
from topicstream.machine import format_bytes
from topicstream.tables.layouts import layout_of
from topicstream.tables.rounds import SPILL_WINDOW
from topicstream.tables.table import Sizes

PREFETCH = 2
ROUNDS_OF_A_PASS = 8  # fewer cost topics (docs/decisions/rounds.md)
STORAGE_BYTES = CELLS * 8 + DOCS * 4
SLACK = 1.06  # fragmentation and what malloc keeps, of all but the interpreter (which is measured)
MODEL_FILE = 40 << 20  # what zarr and Arrow take to write the model, once the buffers of the passes are gone


@dataclass(frozen=True)
class Plan:
    """Threads, storage blocks decoded ahead, placements, and bytes by purpose (RAM unless named disk)."""

    threads: int
    prefetch: int
    tables_on_disk: bool
    deltas_on_disk: bool
    parts: Mapping[str, int]
    disk: Mapping[str, int]
    limit: int
    behind: bool = False  # block memory is more than the system keeps in its cache

    @property
    def total(self) -> int:
        """Bytes of RAM."""
        base = self.parts["interpreter"]
        return base + int((sum(self.parts.values()) - base) * SLACK)

    def lines(self) -> list[str]:
        """The plan in words, a line each."""
        where = "on disk" if self.tables_on_disk else "in memory"
        parts = ", ".join(f"{k} {format_bytes(v)}" for k, v in self.parts.items() if v >= 1 << 20)
        disk = ", ".join(f"{k} {format_bytes(v)}" for k, v in self.disk.items() if v)
        spilled = ", deltas spilled to disk" if self.deltas_on_disk else ""
        return [
            f"memory plan: {format_bytes(self.total)} of {format_bytes(self.limit)}, {self.threads} thread"
            f"{'s' if self.threads != 1 else ''}, tables {where}{spilled}",
            f"  {parts}",
            f"  on disk: {disk or 'checkpoints only'}",
        ]


def sizes_of(name: str, spec: TableSpec, engine: Engine, block: BlockShape) -> Sizes:
    """What decides the bytes of a table of a run."""
    shape, constants = engine.shape, engine.constants(name)
    return Sizes(
        rows=spec.n_rows(shape.sizes),
        columns=spec.n_columns(shape.topics),
        changed=block.most_rows(spec.rows),
        seen=block.most_rows(spec.reads or spec.rows),
        entries=block.table_entries or int(shape.tokens),
        largest=block.heaviest or int(shape.tokens),
        constants=len(constants) if constants is not None else 0,
    )


class Tables:
    """The tables of a run, in bytes: sums over all of them."""

    def __init__(self, engine: Engine, block: BlockShape) -> None:
        specs = engine.tables.items()
        self._all = [(layout_of(spec), spec, sizes_of(name, spec, engine, block)) for name, spec in specs]
        self._kept = engine.keep_bytes(block)
        self.slower_on_disk = max((kind.slower_on_disk for kind, _, _ in self._all), default=1.0)

    def held(self, on_disk: bool) -> int:
        """All copies: REPLACE builds the next table beside the present one."""
        return sum(
            kind.bytes_needed(spec, sizes, on_disk) * (2 if spec.rule is Rule.REPLACE else 1)
            for kind, spec, sizes in self._all
        )

    def saved(self) -> int:
        """One copy of each in a file."""
        return sum(kind.bytes_needed(spec, sizes, True) for kind, spec, sizes in self._all)

    def windows(self, threads: int, round_blocks: int) -> int:
        """RAM that they take when they are on disk (0: the windows that dense tables share)."""
        kept = self._kept * round_blocks
        return sum(kind.window_bytes(spec, sizes, threads, kept) for kind, spec, sizes in self._all)

    def gathered(self) -> int:
        """Rows that a visit has copied from tables on disk."""
        return sum(kind.gathered_bytes(spec, sizes) for kind, spec, sizes in self._all)

    def delta(self) -> int:
        """Deltas of one block that are dense rows."""
        return sum(kind.delta_bytes(spec, sizes) for kind, spec, sizes in self._all)

    def deltas(self, threads: int, round_blocks: int, waiting: bool) -> int:
        """RAM for the deltas of a round.  Sparse ones are all held; dense ones, too, where they are ``waiting`` for tables
        on disk; else a thread holds one, and there is their sum."""
        total = self._kept * round_blocks
        for kind, spec, sizes in self._all:
            summed = 0 if waiting else kind.sum_bytes(spec, sizes, round_blocks)
            total += summed + kind.delta_bytes(spec, sizes) * (threads if summed else round_blocks)
        return total


def wider_rounds(engine: Engine, width: int, threads: int, blocks: int) -> str:
    """What to say where a round, which is as wide on every machine, has fewer blocks than there are threads; "" elsewhere
    (and where a round is a step of the method)."""
    better = min(threads, blocks // ROUNDS_OF_A_PASS)
    if better <= width or any(spec.rule is Rule.BLEND for spec in engine.tables.values()):
        return ""
    return (
        f"note: a round has {width} blocks, so {width} of {threads} threads visit at a time; --round-blocks {better} lets "
        f"{better} work (other digits, topics as good: docs/decisions/rounds.md)"
    )


def memory_bytes(engine: Engine, block: BlockShape) -> int:
    """Bytes of block memory of one block."""
    return sum(
        int(np.prod(s.shape(block), dtype=np.int64)) * np.dtype(s.dtype).itemsize for s in engine.memory.values()
    )


def _needs(
    engine: Engine,
    every: Tables,
    layout: Layout,
    block: BlockShape,
    base: int,
    threads: int,
    prefetch: int,
    tables_on_disk: bool,
    deltas_on_disk: bool,
    seeded: bool,
    start_bytes: Callable[[int], int] | None,
    beside: int,
) -> dict[str, int]:
    width, round_blocks = padded(engine.shape.topics), layout.round_blocks
    gathered, dense_slot = every.gathered(), every.delta()
    kept = memory_bytes(engine, block)
    keep = engine.keep_bytes(block)
    visit = 2 * kept + (gathered + (8 << 20) if tables_on_disk else 0)
    start = kept + block.words * width * 4 if seeded else 0  # the rows of the seed table; no memory to read yet
    per_thread = (
        max(visit, start)
        + block.cells * 8
        + block.docs * 8
        + block.words * 12
        + engine.shape.words * 5
        + engine.scratch_bytes(block)
        + (dense_slot + keep if deltas_on_disk else 0)
    )
    windows = 0  # of spilled deltas that are read back: one on disk (ranges in order), else one a thread
    if deltas_on_disk and dense_slot:
        windows = SPILL_WINDOW * (1 if tables_on_disk else threads)
    parts = {
        "interpreter": base,
        "tables": (every.windows(threads, round_blocks) or 16 << 20) if tables_on_disk else every.held(False),
        "deltas": (
            0
            if deltas_on_disk
            else every.deltas(threads, round_blocks, waiting=tables_on_disk)
        )
        + block.words * (12 if deltas_on_disk else 4) * round_blocks
        + windows,
        "threads": max(per_thread * threads, start_bytes(threads) if start_bytes else 0),
        "prefetch": STORAGE_BYTES * (prefetch + threads + 1) + CELLS * 4 * threads,
        "vocabulary": engine.shape.words * 48,
        "model to start from": beside,
    }
    parts["model file"] = max(0, MODEL_FILE - sum(parts[name] for name in ("deltas", "threads", "prefetch")))
    return parts


def _slowness(choice: tuple[int, bool, bool, bool | int], disk: float) -> float:
    """Rough seconds of a pass, relative: what is gained by a thread against what disk and waiting cost.  disk: how much
    slower a pass is with tables on disk."""
    threads, tables_on_disk, spilled, ahead = choice
    return (1 + 0.5 * spilled) * (disk if tables_on_disk else 1) * (1 if ahead else 1.1) / threads


def make_plan(
    engine: Engine,
    layout: Layout,
    block: BlockShape,
    pass_memory: int,
    *,
    base: int,
    limit: int,
    threads: int,
    tables: str = "auto",
    disk_free: int,
    seeded: bool = True,
    start_bytes: Callable[[int], int] | None = None,
    beside: int = 0,
    folder: str = "",
    keeps_best: bool = False,
) -> Plan:
    """Fit the run into ``limit`` bytes of RAM and ``disk_free`` of disk.

    base: bytes of the interpreter, the libraries and the kernels; pass_memory: block memory of a
    whole pass in bytes; tables: ``auto``, ``memory`` or ``disk``; seeded: pass 0 visits the blocks with rows of a seed
    table; start_bytes: what the start itself takes, by threads; beside: what is held beside those visits; folder: whose
    disk that is; keeps_best: a checkpoint more, that of the best pass.  Raises DoesNotFit naming the
    smallest limit (or what else would help).
    """
    every = Tables(engine, block)
    # block memory: of the pass before, of this one and of a checkpoint's; where it stays in the system's cache a spare, too
    behind = pass_memory > limit // 8
    disk = {
        "block memory": pass_memory * ((3 if behind else 4) + keeps_best),
        "checkpoints": every.saved() * (2 + keeps_best),
    }
    placements = {
        "auto": [(False, False), (False, True), (True, True)],
        "memory": [(False, False), (False, True)],
        "disk": [(True, False), (True, True)],
    }[tables]
    choices = [(t, *where, ahead) for where in placements for t in range(threads, 0, -1) for ahead in (PREFETCH, 0)]
    smallest = 1 << 62
    where = f" where {folder} lies" if folder else ""
    for t, on_disk, spilled, ahead in sorted(choices, key=partial(_slowness, disk=every.slower_on_disk)):
        parts = _needs(engine, every, layout, block, base, t, ahead, on_disk, spilled, seeded, start_bytes, beside)
        on = dict(disk)
        if on_disk:
            on["tables"] = every.held(True)
        if spilled:
            on["deltas"] = (every.delta() + engine.keep_bytes(block)) * layout.round_blocks
        plan = Plan(t, ahead, on_disk, spilled, parts, on, limit, behind)
        smallest = min(smallest, plan.total)
        if plan.total <= limit:
            need = sum(on.values())
            if need > disk_free:
                raise DiskTooSmall(
                    f"{engine.name} with {engine.shape.topics} topics needs {format_bytes(need)} of disk "
                    f"({', '.join(f'{k} {format_bytes(v)}' for k, v in on.items() if v)}), {format_bytes(disk_free)} are free{where}; "
                    "free some, put --model on another disk, or choose an engine that keeps less (`topics engines`)"
                )
            return plan
    forced = " with --tables memory" if tables == "memory" else ""
    least = -(-smallest // (1 << 20)) + 8
    raise DoesNotFit(
        f"{engine.name} with {engine.shape.topics} topics does not fit {format_bytes(limit)}{forced}: the smallest limit that "
        f"would do is {least}M; raise --mem-limit, lower -K, or choose another engine (`topics engines`)",
        least=least,
    )
