"""Going on from a finished run on a corpus that has grown at its end: tables and block memory are carried over.

The blocks of the earlier run keep their numbers, their memory and their part of the tables; only the new blocks are
started, from the topics of the earlier run.  That holds while the storage blocks of the earlier run are as they were,
the grid cuts them the same way and the words of the earlier run have the same ids; where it does not, ``check_carried`` says
why and the whole corpus is started from the model instead.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec.structs import replace

from topicstream.corpus.format import NAMED
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import Engine
from topicstream.errors import StoreError
from topicstream.files import owned
from topicstream.model.manifest import read_manifest
from topicstream.model.store import StoredTable
from topicstream.model.vocabulary import Vocabulary
from topicstream.records import Count, Record, read_record, write_record
from topicstream.tables.spec import WORDS
from topicstream.training.state.checkpoint import State, checkpoints, read_checkpoint, read_listing
from topicstream.training.state.record import RunRecord
from topicstream.training.tables import RunTables

CARRIED = "carried.json"


class Carried(Record, frozen=True):
    """``carried.json``: blocks of the grid that were taken over, of how many, from a run of so many passes."""

    blocks: Count
    of: Count
    passes: Count


GROWING = (WORDS, *NAMED)
"""Axes whose ids stay as they are when documents are appended: new rows follow behind."""


def storage_of(run: Path, corpus: Corpus) -> int | None:
    """Storage blocks at the head of ``corpus`` that are the corpus that ``run`` was trained on, unchanged; None when there
    is no such head (documents were removed or replaced, or it is another corpus)."""
    was = read_manifest(run).corpus
    docs = cells = 0
    tokens = 0.0
    for i, entry in enumerate(corpus.part().blocks):
        docs += entry.docs
        cells += entry.left.cells
        tokens += entry.left.tokens
        if docs >= (was.docs or 0):
            same = docs == was.docs and cells == was.cells and was.tokens is not None
            return i + 1 if same and abs(tokens - (was.tokens or 0.0)) <= 1e-9 * max(tokens, 1.0) else None
    return None


def check_carried(run: str | Path, corpus: Corpus, engine: Engine) -> str | None:
    """None when ``run`` can be carried over to ``corpus``, else why not, in words."""
    run = Path(run)
    if not (run / "finished.json").exists() or not checkpoints(run / "checkpoints"):
        return "the earlier run's checkpoint is not there"
    record = RunRecord.read(run)
    if record is None or record.engine != engine.name:
        return f"the earlier run's engine was {record.engine if record else 'not recorded'}"
    if engine.phases[0].start != "visit" or any(
        spec.layout != "dense" or spec.axis not in GROWING for spec in engine.tables.values()
    ):
        return f"{engine.name} cannot take over an earlier run's tables"
    if (was := read_manifest(run).topics) != engine.shape.topics:
        return f"the earlier run had {was:,} topics, there are {engine.shape.topics:,} now"
    state = read_listing(checkpoints(run / "checkpoints")[-1])
    if state.rounds or state.facts.needs_start:
        return "the earlier run stopped inside a pass"
    if any(not (run / "work" / name).exists() for name in state.facts.memory.values()):
        return "the earlier run's block memory is not there"
    if (read_manifest(run).corpus.generation or 1) < corpus.manifest.compacted:
        return "the corpus was compacted since the earlier run"
    if storage_of(run, corpus) is None:
        return "documents of the earlier run were removed or replaced"
    name = read_manifest(run).files.vocab.name
    before, now = (Vocabulary.read(p).words for p in (run / name, corpus.file("vocab")))
    if len(before) > len(now) or not now.slice(0, len(before)).equals(before):
        return "the words of the earlier run have other ids now"
    for table, spec in engine.tables.items():
        if spec.axis is not None and spec.axis != WORDS and not _same_rows(run, corpus, table, spec.axis):
            return f"the {spec.axis} of the earlier run have other ids now"
    return None


def _same_rows(run: Path, corpus: Corpus, table: str, axis: str) -> bool:
    """Whether the rows of a table of ``run`` are the first ids of an axis of the corpus."""
    try:
        was = StoredTable(run, read_manifest(run), table)
    except StoreError:
        return False
    return was.names is not None and corpus.axes[axis].names(0, was.n_rows).equals(was.names)


def forget_carried(folder: Path) -> None:
    """Forget what a run took over that begins again."""
    owned.remove_file(folder / CARRIED, missing_ok=True)


def first_new_block(folder: Path) -> int:
    """Blocks of the grid that a run took over from an earlier one; 0 when it took nothing over."""
    path = folder / CARRIED
    return read_record(path, Carried).blocks if path.exists() else 0


def carry_over(run: Path, folder: Path, engine: Engine, corpus: Corpus, grid: Grid, tables: RunTables) -> State:
    """Load the tables of ``run`` into ``tables`` (rows of new words stay empty), copy its block memory into
    ``folder/work/memory-000000.bin`` and note in ``folder`` how many blocks were taken over.

    Returns the state from which the start of the new blocks continues.  StoreError when something is damaged or does not
    fit; nothing was noted then.
    """
    place = checkpoints(Path(run) / "checkpoints")[-1]
    try:
        return _carried(Path(run), place, read_checkpoint(place), folder, engine, corpus, grid, tables)
    except (KeyError, TypeError, ValueError, IndexError) as e:
        raise StoreError(f"{place}: does not hold what a run of {engine.name} does ({e!r}); start without its memory") from None


def _carried(
    run: Path, place: Path, was: State, folder: Path, engine: Engine, corpus: Corpus, grid: Grid, tables: RunTables
) -> State:
    storage = storage_of(run, corpus)
    if storage is None:
        raise StoreError(f"{run}: the corpus has changed since; start without its memory")
    blocks = int((grid.storage < storage).sum())
    manifest = read_manifest(run)
    words, specs = manifest.words, engine.tables
    rows = {name: words if specs[name].axis == WORDS else StoredTable(run, manifest, name).n_rows for name in specs}
    tables.load(place, was, rows)
    arrays = {name: value for name, value in was.arrays.items() if name.startswith("param.")} | tables.arrays
    memory: dict[str, str] = {}
    if engine.state:
        index = was.arrays["memory.old"]
        if len(index) != blocks:
            raise StoreError(f"{place}: holds the memory of {len(index)} blocks where the grid has {blocks}")
        grown = np.full((len(grid), *index.shape[1:]), -1, np.int64)
        grown[:blocks] = index
        memory = {"new": "memory-000000.bin"}
        source = run / "work" / was.facts.memory["old"]
        owned.copy_file(source, folder / "work" / memory["new"])
        arrays["memory.new"] = grown
    write_record(folder / CARRIED, Carried(blocks=blocks, of=len(grid), passes=was.passes))
    facts = replace(was.facts, needs_start=True, memory=memory, perplexities=[], pass_seconds=0.0)
    return State(0, 0, arrays, facts)
