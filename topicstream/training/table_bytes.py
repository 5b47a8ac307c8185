"""The bytes of an engine's tables and of the state that it keeps of blocks, for the plan."""

from __future__ import annotations

from topicstream.base.memory import Array, total_bytes
from topicstream.corpus.grid import Grid
from topicstream.engines.base import BlockShape, Engine, Rule, workspace_bytes
from topicstream.numeric.tables.layouts import LAYOUTS
from topicstream.numeric.tables.table import Footprint, Sizes


class TableBytes:
    """The bytes of all tables of an engine (see ``Footprint``).

    Parameters
    ----------
    engine
        The engine.
    block
        The largest of everything over the blocks.

    Attributes
    ----------
    rows, fixed
        Of the tables, with the successors of REPLACE tables.
    saved
        Of the rows in a checkpoint, without successors.
    window, gathered
        Of what a worker holds of tables on disk.
    scratch
        Of the engine's work space in a visit.
    delta
        Of the deltas of a block.
    merged
        Of the deltas that a visit holds at a time, where deltas merge as blocks end.
    waiting
        Of the deltas of a block that wait although others merge: those without a quantum.
    ranges, buffers, sums
        To merge the others: of a worker, of all, and of their complete sums.
    slower_on_disk
        Factor by which a pass takes longer with tables on disk.
    """

    def __init__(self, engine: Engine, block: BlockShape) -> None:
        specs = engine.tables
        shape = engine.shape
        sizes_of = dict[str, Footprint]()
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
            sizes_of[name] = LAYOUTS[spec.layout].footprint(spec, sizes)
        copies = {name: 2 if spec.rule is Rule.REPLACE else 1 for name, spec in specs.items()}
        self.rows = sum(size.rows * copies[name] for name, size in sizes_of.items())
        self.fixed = sum(size.fixed * copies[name] for name, size in sizes_of.items())
        self.saved = sum(size.rows for size in sizes_of.values())
        self.window = sum(size.window for size in sizes_of.values())
        self.gathered = sum(size.gathered for size in sizes_of.values())
        work = workspace_bytes(engine, block)
        self.scratch = work.visit
        dense = sum(size.delta for size in sizes_of.values())
        self.delta = dense + work.deltas
        self.merged = dense + work.delta_parts
        merging = {name for name, spec in specs.items() if spec.quantum(float(shape.tokens))}
        self.waiting = sum(size.delta for name, size in sizes_of.items() if name not in merging)
        if any(specs[name].delta == "sparse" for name in specs.keys() - merging):
            self.waiting += work.deltas
            self.merged = dense
        self.ranges = max((sizes_of[name].merging.range for name in merging), default=0)
        self.buffers = sum(sizes_of[name].merging.fixed for name in merging)
        self.sums = sum(sizes_of[name].merging.sums for name in merging)
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
    arrays = list[Array]()
    for spec in engine.state.values():
        if spec.total is None:
            arrays += [Array(spec.shape(block), spec.dtype) for block in blocks]
        else:
            arrays.append(Array((int(spec.total(corpus)),), spec.dtype))
    return total_bytes(arrays)
