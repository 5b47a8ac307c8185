"""Going on from a finished run on a corpus that has grown at its end: tables and block memory are carried over.

The blocks of the earlier run keep their numbers, their memory and their part of the tables; only the new blocks are
started, from the topics of the earlier run.  That holds while the storage blocks of the earlier run are as they were,
the grid cuts them the same way and the words of the earlier run have the same ids; where it does not, ``check_carried`` says
why and the whole corpus is started from the model instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import Engine, padded
from topicstream.errors import StoreError
from topicstream.files import owned
from topicstream.files.durable import read_json, write_json
from topicstream.model.store import StoredTable, read_manifest
from topicstream.model.vocabulary import Vocabulary
from topicstream.tables.spec import WORDS
from topicstream.training.state.checkpoint import State, checkpoints, read_checkpoint, read_state
from topicstream.training.state.memory import check_memory

CARRIED = "carried.json"
GROWING = (WORDS, "authors", "labels")
"""Axes whose ids stay as they are when documents are appended: new rows follow behind."""


def storage_of(run: Path, corpus: Corpus) -> int | None:
    """Storage blocks at the head of ``corpus`` that are the corpus that ``run`` was trained on, unchanged; None when there
    is no such head (documents were removed or replaced, or it is another corpus)."""
    said = read_manifest(run).get("corpus")
    was = {k: v for k, v in said.items() if v is not None} if isinstance(said, dict) else {}
    docs = cells = 0
    tokens = 0.0
    for i, entry in enumerate(corpus.part()["blocks"]):
        removed = entry.get("removed", {})
        docs += entry["docs"]
        cells += entry["cells"] - removed.get("cells", 0)
        tokens += entry["tokens"] - removed.get("tokens", 0)
        if docs >= was.get("docs", 0):
            same = docs == was.get("docs") and cells == was.get("cells")
            return i + 1 if same and abs(tokens - was.get("tokens", -1.0)) <= 1e-9 * max(tokens, 1.0) else None
    return None


def check_carried(run: str | Path, corpus: Corpus, engine: Engine) -> str | None:
    """None when ``run`` can be carried over to ``corpus``, else why not, in words."""
    run = Path(run)
    if not (run / "finished.json").exists() or not checkpoints(run / "checkpoints"):
        return "the earlier run's checkpoint is not there"
    record = read_json(run / "training.json")
    if not isinstance(record, dict) or not isinstance(record.get("engine"), str):
        raise StoreError(f"{run}/training.json: incomplete (no engine); the file is damaged, restore it or train again")
    if record["engine"] != engine.name:
        return f"the earlier run's engine was {record['engine']}"
    if engine.start_from != "visit" or any(
        spec.layout != "dense" or spec.axis not in GROWING for spec in engine.tables.values()
    ):
        return f"{engine.name} cannot take over an earlier run's tables"
    if (was := int(read_manifest(run)["topics"])) != engine.shape.topics:
        return f"the earlier run had {was:,} topics, there are {engine.shape.topics:,} now"
    state = read_state(checkpoints(run / "checkpoints")[-1])
    if state["rounds"] or state["facts"]["needs_start"]:
        return "the earlier run stopped inside a pass"
    if any(not (run / "work" / name).exists() for name in state["facts"]["memory"].values()):
        return "the earlier run's block memory is not there"
    if (read_manifest(run).get("corpus") or {}).get("generation", 1) < corpus.manifest.get("compacted", 0):
        return "the corpus was compacted since the earlier run"
    if storage_of(run, corpus) is None:
        return "documents of the earlier run were removed or replaced"
    name = read_manifest(run)["files"]["vocab"]["name"]
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


def first_new_block(folder: Path) -> int:
    """Blocks of the grid that a run took over from an earlier one; 0 when it took nothing over."""
    path = folder / CARRIED
    if not path.exists():
        return 0
    found = read_json(path)
    blocks = found.get("blocks") if isinstance(found, dict) else None
    if not isinstance(blocks, int) or blocks < 0:
        raise StoreError(f"{path}: does not say how many blocks were taken over; the file is damaged, restore it")
    return blocks


def carry_over(run: Path, folder: Path, engine: Engine, corpus: Corpus, grid: Grid, tables: dict[str, Any]) -> State:
    """Load the tables of ``run`` into ``tables`` (rows of new words stay empty), copy its block memory into
    ``folder/work/memory-000000.bin`` and note in ``folder`` how many blocks were taken over.

    Returns the state from which the start of the new blocks goes on.  StoreError when something is damaged or does not
    fit; nothing was noted then.
    """
    place = checkpoints(Path(run) / "checkpoints")[-1]
    try:
        return _carried(Path(run), place, read_checkpoint(place), folder, engine, corpus, grid, tables)
    except (KeyError, TypeError, ValueError, IndexError) as e:
        raise StoreError(f"{place}: does not hold what a run of {engine.name} does ({e!r}); start without its memory") from None


def _carried(
    run: Path, place: Path, was: State, folder: Path, engine: Engine, corpus: Corpus, grid: Grid, tables: dict[str, Any]
) -> State:
    storage = storage_of(run, corpus)
    if storage is None:
        raise StoreError(f"{run}: the corpus has changed under it; start without its memory")
    blocks = int((grid.storage < storage).sum())
    manifest = read_manifest(run)
    words = int(manifest["words"])
    arrays = {k: v for k, v in was.arrays.items() if k.startswith("param.")}
    for name, table in tables.items():
        axis = engine.tables[name].axis
        table.load_head(place / f"{name}.rows", words if axis == WORDS else StoredTable(run, manifest, name).n_rows)
        table.totals[:] = was.arrays[f"totals.{name}"]
        table.scale = float(was.facts["scales"].get(name, 1.0))
        arrays[f"totals.{name}"] = table.totals.copy()
        if table.width != padded(engine.shape.topics):
            raise StoreError(f"{place}: table {name} is of another width; start without its memory")
    memory: dict[str, str] = {}
    if engine.memory:
        index = was.arrays["memory.old"]
        if len(index) != blocks:
            raise StoreError(f"{place}: holds the memory of {len(index)} blocks where the grid has {blocks}")
        grown = np.full((len(grid), *index.shape[1:]), -1, np.int64)
        grown[:blocks] = index
        memory = {"new": "memory-000000.bin"}
        source = run / "work" / was.facts["memory"]["old"]
        check_memory(source, index)
        owned.copy_file(source, folder / "work" / memory["new"])
        arrays["memory.new"] = grown
    write_json(folder / CARRIED, {"blocks": blocks, "of": len(grid), "passes": was.passes})
    facts = {**was.facts, "needs_start": True, "memory": memory, "perplexities": [], "pass_seconds": 0.0}
    return State(0, 0, arrays, facts)
