"""The topics of a corpus' tokens as the chain of a finished run has them: what the Gibbs samplers keep of every block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import numpy as np

from topicstream.corpus.block import Block
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import learned_from
from topicstream.engines import find
from topicstream.engines.gibbs.chain import Chain
from topicstream.errors import InputError, StoreError
from topicstream.files.durable import read_json
from topicstream.training.state.checkpoint import checkpoints, read_checkpoint


def token_topics(folder: Path | None, corpus: Corpus, topics: int, what: str) -> Iterator[tuple[Block, np.ndarray]]:
    """(block, topics of its tokens uint[tokens], cell after cell) over the training documents of the run in ``folder``.

    InputError, beginning with ``what``, where there is no such run, its engine keeps no topic a token, the corpus is another
    or its state is gone; StoreError where it is damaged.
    """
    run = folder / "training.json" if folder is not None else None
    if folder is None or run is None or not run.is_file():
        raise InputError(f"{what}: needs the folder of a training run (training.json)")
    record = read_json(run)
    kind = find(str(record.get("engine")))
    if not issubclass(kind, Chain):
        raise InputError(f"{what}: {kind.name} gives no token a topic of its own; train with sparselda or gs")
    if record.get("corpus") != corpus.fingerprint:
        raise InputError(f"{corpus.path}: is not the corpus that {folder} was trained on, or has changed since")
    places = checkpoints(folder / "checkpoints")
    if not places:
        raise InputError(f"{folder}: its checkpoints are gone, and with them the topics of the tokens")
    return _blocks(folder, learned_from(corpus, record, run), topics, places[-1], record["layout"])


def _blocks(
    folder: Path, corpus: Corpus, topics: int, place: Path, layout: dict[str, int]
) -> Iterator[tuple[Block, np.ndarray]]:
    state = read_checkpoint(place)
    grid = corpus.grid(layout["block_cells"], layout["block_docs"])
    index, name = state.arrays.get("memory.old"), state.facts["memory"].get("old")
    if index is None or name is None or len(index) != len(grid):
        raise InputError(f"{folder}: stands within a pass; let `topics train` finish it first")
    dtype = np.dtype("uint8" if topics <= 1 << 8 else "uint16" if topics <= 1 << 16 else "uint32")
    with open(folder / "work" / Path(name).name, "rb") as memory:
        for block in corpus.blocks(grid=grid):
            offset, size, crc = (int(v) for v in index[block.index, 0])
            memory.seek(offset)
            data = memory.read(size) if offset >= 0 else b""
            z = np.frombuffer(data, dtype)
            if len(data) != size or google_crc32c.value(data) != crc or len(z) != int(block.counts.sum()):
                raise StoreError(f"{folder}/work/{name}: the memory of block {block.index} is damaged")
            if len(z) and int(z.max()) >= topics:
                raise StoreError(f"{folder}/work/{name}: a topic past {topics - 1} in block {block.index}")
            yield block, z
