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
        There is no run, its engine stores no topic a token, the corpus is another, or the
        checkpoints are missing.
    StoreError
        Its files are damaged.
    """
    path = folder / "training.json" if folder is not None else None
    if folder is None or path is None or not path.is_file():
        raise InputError(f"{asker}: needs the folder of a training run (training.json)")
    run = read_record(path, _Run)
    if run.corpus != corpus.fingerprint:
        raise InputError(
            f"{corpus.path}: is not the corpus that {folder} was trained on, or has changed since"
        )
    folders = (folder / "checkpoints").glob("[0-9]*-[0-9]*")
    checkpoints = sorted(path for path in folders if path.is_dir())
    if not checkpoints:
        raise InputError(
            f"{folder}: has no checkpoint, which holds the topics of the tokens; train again"
        )
    checkpoint = checkpoints[-1]
    state = read_record(checkpoint / "state.json", _State)
    learned = select_learned(corpus, run.sample)
    grid = learned.grid(run.layout["block_cells"], run.layout["block_docs"])
    index = _read_index(checkpoint, state)
    memory = state.facts.memory.get("old", "")
    if state.rounds or (index is not None and len(index) != len(grid)):
        raise InputError(f"{folder}: stopped within a pass; let `topics train` finish it first")
    kind = np.min_scalar_type(topics - 1)
    if index is None or int(index[:, 0, 1].sum()) != int(learned.n_tokens) * kind.itemsize:
        raise InputError(
            f"{asker}: {run.engine} does not assign topics to tokens; train with sparselda or gs"
        )
    path = folder / "work" / Path(memory).name
    return _read_blocks(learned.blocks(grid=grid), path, index[:, 0], kind, topics)


def _read_index(checkpoint: Path, state: _State) -> np.ndarray | None:
    """Read where the state of each block lies in its file, int64[blocks, arrays, 3].

    None if the engine stores no state.
    """
    size, crc = state.files["arrays.npz"]
    problem = file_problem(checkpoint / "arrays.npz", size, crc, "train again")
    if problem is not None:
        raise StoreError(problem)
    return load_arrays(checkpoint / "arrays.npz").get("memory.old")


def _read_blocks(
    blocks: Iterator[Block], path: Path, index: np.ndarray, kind: np.dtype[Any], topics: int
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yield each block with the topics of its tokens, once these are found to be sound."""
    with open(path, "rb") as memory:
        for block in blocks:
            offset, size, crc = (int(v) for v in index[block.index])
            memory.seek(offset)
            data = memory.read(size) if offset >= 0 else b""
            z = np.frombuffer(data, kind)
            is_sound = (
                len(data) == size
                and int(checksum(np.frombuffer(data, np.uint8))) == crc
                and len(z) == int(block.counts.sum())
            )
            if not is_sound:
                raise StoreError(
                    f"{path}: the memory of block {block.index} is damaged; train again"
                )
            if len(z) and int(z.max()) >= topics:
                raise StoreError(
                    f"{path}: a topic past {topics - 1} in block {block.index}; train again"
                )
            yield block, z
