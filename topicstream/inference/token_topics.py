"""The topics of a corpus' tokens in the last checkpoint of a run.

Gibbs samplers keep them as the state of every block.

A run's folder holds ``training.json``, ``checkpoints/PASSES-ROUNDS/`` (``state.json``,
``arrays.npz``) and in ``work`` the file of the blocks' state, which ``memory.old`` of the arrays
indexes: offset, bytes and checksum of each block.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.base.errors import InputError, StoreError
from topicstream.base.files.durable import file_problem
from topicstream.base.files.plain import load_arrays
from topicstream.base.records import Record, Share, read_record
from topicstream.corpus.block import Block
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import select_learned
from topicstream.numeric.kernels.arrays import checksum


class _Run(Record, frozen=True):
    """The members of ``training.json`` that are read here."""

    engine: str
    corpus: str
    layout: dict[str, int]
    sample: Share | None = None


class _Facts(Record, frozen=True):
    """The facts of a checkpoint: the files of block state, by name."""

    memory: dict[str, str]


class _State(Record, frozen=True):
    """The members of a checkpoint's ``state.json`` that are read here.

    ``rounds`` counts rounds done of the next pass.
    """

    rounds: int
    files: dict[str, tuple[int, int]]
    facts: _Facts


def token_topics(
    folder: Path | None, corpus: Corpus, topics: int, asker: str
) -> Iterator[tuple[Block, np.ndarray]]:
    """Iterate over the training documents of a run with the topics of their tokens.

    Parameters
    ----------
    folder
        The model's folder, which holds the run. None for a model in memory.
    topics
        Number of topics of the model.
    asker
        The option that needs the topics, with which messages begin (``--method gibbs1``).

    Returns
    -------
    Iterator of (block, topics of its tokens uint[tokens], cell after cell).

    Raises
    ------
    InputError
        If there is no run, its engine stores no topic a token, the corpus is another or the
        checkpoints are missing.
    StoreError
        If its files are damaged.
    """
    path = folder / "training.json" if folder is not None else None
    if folder is None or path is None or not path.is_file():
        raise InputError(f"{asker}: needs the folder of a training run (training.json)")
    run = read_record(path, _Run)
    if run.corpus != corpus.fingerprint:
        raise InputError(
            f"{corpus.path}: is not the corpus that {folder} was trained on, or has changed since"
        )
    places = sorted(p for p in (folder / "checkpoints").glob("[0-9]*-[0-9]*") if p.is_dir())
    if not places:
        raise InputError(f"{folder}: has no checkpoint, which holds the topics of the tokens")
    state = read_record(places[-1] / "state.json", _State)
    learned = select_learned(corpus, run.sample)
    grid = learned.grid(run.layout["block_cells"], run.layout["block_docs"])
    index = _index(places[-1], state)
    memory = state.facts.memory.get("old", "")
    if state.rounds or (index is not None and len(index) != len(grid)):
        raise InputError(f"{folder}: stopped within a pass; let `topics train` finish it first")
    kind = np.dtype("uint8" if topics <= 1 << 8 else "uint16" if topics <= 1 << 16 else "uint32")
    if index is None or int(index[:, 0, 1].sum()) != int(learned.n_tokens) * kind.itemsize:
        raise InputError(
            f"{asker}: {run.engine} does not assign topics to tokens; train with sparselda or gs"
        )
    return _blocks(
        learned.blocks(grid=grid), folder / "work" / Path(memory).name, index[:, 0], kind, topics
    )


def _index(checkpoint: Path, state: _State) -> np.ndarray | None:
    """Read where the state of each block lies in its file, int64[blocks, arrays, 3].

    None if the engine keeps no state.
    """
    size, crc = state.files["arrays.npz"]
    problem = file_problem(checkpoint / "arrays.npz", size, crc, "train again")
    if problem is not None:
        raise StoreError(problem)
    return load_arrays(checkpoint / "arrays.npz").get("memory.old")


def _blocks(
    blocks: Iterator[Block], path: Path, index: np.ndarray, kind: np.dtype[Any], topics: int
) -> Iterator[tuple[Block, np.ndarray]]:
    with open(path, "rb") as memory:
        for block in blocks:
            offset, size, crc = (int(v) for v in index[block.index])
            memory.seek(offset)
            data = memory.read(size) if offset >= 0 else b""
            z = np.frombuffer(data, kind)
            if (
                len(data) != size
                or int(checksum(np.frombuffer(data, np.uint8))) != crc
                or len(z) != int(block.counts.sum())
            ):
                raise StoreError(
                    f"{path}: the memory of block {block.index} is damaged; train again"
                )
            if len(z) and int(z.max()) >= topics:
                raise StoreError(f"{path}: a topic past {topics - 1} in block {block.index}")
            yield block, z
