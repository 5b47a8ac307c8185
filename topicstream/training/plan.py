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
from topicstream.errors import DoesNotFit
from topicstream.kernels.packed import entry_bytes
from topicstream.machine import format_bytes
from topicstream.training.deltas import SPILL_WINDOW
from topicstream.training.packed_rows import PIECE

PREFETCH = 2
STORAGE_BYTES = CELLS * 8 + DOCS * 4
SLACK = 1.06  # fragmentation and what malloc keeps, of all but the interpreter (which is measured)
COME_BACK = 12 << 20  # pages of libraries that are needed again after they were let go
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
    before: int = 0
    behind: bool = False  # block memory is more than the system keeps in its cache

    @property
    def total(self) -> int:
        """Bytes of RAM: of the passes, or what loading the kernels took before, where that was more."""
        base = self.parts["interpreter"]
        return max(base + int((sum(self.parts.values()) - base) * SLACK), self.before)

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


def table_bytes(spec: TableSpec, engine: Engine, block: BlockShape, on_disk: bool) -> int:
    """Bytes of one copy of a table in RAM or on disk (a packed table: its densest case; in RAM half as much again, for a
    range that is being merged and what malloc keeps)."""
    if spec.layout == "packed":
        samples, dense = getattr(engine.options, "samples", 0), engine.shape.words * engine.shape.topics
        cells = min(block.table_entries or int(engine.shape.tokens), dense)
        cells += min(cells * samples, dense)  # the sum of the samples is a table of its own
        size = entry_bytes((block.heaviest or int(engine.shape.tokens)) * max(samples, 1), engine.shape.topics)
        return int(cells * (size if on_disk else 6) + engine.shape.words * 24 * (2 if samples else 1))
    return int(engine.shape.words * padded(engine.shape.topics) * np.dtype(spec.dtype).itemsize)


def packed_windows(engine: Engine, block: BlockShape, threads: int, round_blocks: int) -> int:
    """RAM that a packed table on disk takes: where its rows are and how long, a piece a thread as it was and as it will
    be, and what the round's deltas add to it."""
    copies = 2 if getattr(engine.options, "samples", 0) else 1
    piece = 3 * 8 * (PIECE + engine.shape.topics)
    return 24 * engine.shape.words * copies + piece * threads + 2 * engine.keep_bytes(block) * round_blocks


def memory_bytes(engine: Engine, block: BlockShape) -> int:
    """Bytes of block memory of one block."""
    return sum(
        int(np.prod(s.shape(block), dtype=np.int64)) * np.dtype(s.dtype).itemsize for s in engine.memory.values()
    )


def spilled_bytes(engine: Engine, block: BlockShape) -> int:
    """Scratch file bytes of one block's deltas."""
    dense = sum(1 for s in engine.tables.values() if s.layout == "dense" and s.delta == "dense")
    return dense * block.words * padded(engine.shape.topics) * 4 + engine.keep_bytes(block)


def _needs(
    engine: Engine,
    layout: Layout,
    block: BlockShape,
    base: int,
    threads: int,
    prefetch: int,
    tables_on_disk: bool,
    deltas_on_disk: bool,
    seeded: bool,
    start_bytes: Callable[[int], int] | None,
) -> dict[str, int]:
    width = padded(engine.shape.topics)
    copies = 2 if engine.rule is Rule.REPLACE else 1
    round_blocks = layout.round_blocks
    tables = gathered = dense_slot = packed = 0
    for spec in engine.tables.values():
        tables += table_bytes(spec, engine, block, on_disk=False) * copies
        if spec.layout == "packed":
            packed += packed_windows(engine, block, threads, round_blocks)
        else:
            gathered += block.words * width * np.dtype(spec.dtype).itemsize
        if spec.delta == "dense" and spec.layout == "dense":
            dense_slot += block.words * width * 4
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
        "tables": (packed or 16 << 20) if tables_on_disk else tables,
        "deltas": (0 if deltas_on_disk else (dense_slot + keep) * round_blocks)
        + block.words * (12 if deltas_on_disk else 4) * round_blocks
        + windows,
        "threads": max(per_thread * threads, start_bytes(threads) if start_bytes else 0),
        "prefetch": STORAGE_BYTES * (prefetch + threads + 1) + CELLS * 4 * threads,
        "vocabulary": engine.shape.words * 48,
    }
    parts["model file"] = max(0, MODEL_FILE - sum(parts[name] for name in ("deltas", "threads", "prefetch")))
    return parts


def _slowness(choice: tuple[int, bool, bool, bool | int], packed: bool) -> float:
    """Rough seconds of a pass, relative: what is gained by a thread against what disk and waiting cost.  packed: tables
    of packed rows, of which a visit reads a few bytes a token (measured 1.2 times a pass from memory)."""
    threads, tables_on_disk, spilled, ahead = choice
    disk = 1.2 if packed else 4
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
    before: int = 0,
    tables: str = "auto",
    disk_free: int,
    seeded: bool = True,
    start_bytes: Callable[[int], int] | None = None,
    folder: str = "",
) -> Plan:
    """Fit the run into ``limit`` bytes of RAM and ``disk_free`` of disk.

    base: resident bytes after imports and compiling; before: at their highest, until now; pass_memory: block memory of a
    whole pass in bytes; tables: ``auto``, ``memory`` or ``disk``; seeded: pass 0 visits the blocks with rows of a seed
    table; start_bytes: what the start itself takes, by threads; folder: whose disk that is.  Raises DoesNotFit naming the
    smallest limit (or what else would help).
    """
    tables_size = sum(table_bytes(s, engine, block, on_disk=True) for s in engine.tables.values())
    # block memory: of the pass before, of this one and of a checkpoint's; where it stays in the system's cache a spare, too
    behind = pass_memory > limit // 8
    disk = {"block memory": pass_memory * (3 if behind else 4), "checkpoints": tables_size * 2}
    placements = {
        "auto": [(False, False), (False, True), (True, True)],
        "memory": [(False, False), (False, True)],
        "disk": [(True, False), (True, True)],
    }[tables]
    choices = [(t, *where, ahead) for where in placements for t in range(threads, 0, -1) for ahead in (PREFETCH, 0)]
    smallest = 1 << 62
    where = f" where {folder} lies" if folder else ""
    packed = all(s.layout == "packed" for s in engine.tables.values())
    for t, on_disk, spilled, ahead in sorted(choices, key=partial(_slowness, packed=packed)):
        parts = _needs(engine, layout, block, base + COME_BACK, t, ahead, on_disk, spilled, seeded, start_bytes)
        on = dict(disk)
        if on_disk:
            on["tables"] = tables_size * (2 if engine.rule is Rule.REPLACE else 1)
        if spilled:
            on["deltas"] = spilled_bytes(engine, block) * layout.round_blocks
        plan = Plan(t, ahead, on_disk, spilled, parts, on, limit, before, behind)
        smallest = min(smallest, plan.total)
        if plan.total <= limit:
            need = sum(on.values())
            if need > disk_free:
                raise DoesNotFit(
                    f"{engine.name} with {engine.shape.topics} topics needs {format_bytes(need)} of disk "
                    f"({', '.join(f'{k} {format_bytes(v)}' for k, v in on.items() if v)}), {format_bytes(disk_free)} are free{where}; "
                    "free some, put --model on another disk, or choose an engine that keeps less (`topics engines`)"
                )
            return plan
    forced = " with --tables memory" if tables == "memory" else ""
    raise DoesNotFit(
        f"{engine.name} with {engine.shape.topics} topics does not fit {format_bytes(limit)}{forced}: the smallest limit that "
        f"would do is {-(-smallest // (1 << 20)) + 8}M; raise --mem-limit, lower -K, or choose another engine (`topics engines`)"
    )
