"""The engine protocol: rows in, deltas out.

An engine is one algorithm, configured.  It opens no file, prints nothing, never loops over blocks and starts no thread.
The pass loop (training/) gives ``process`` a block, the rows of each table that the block touches, the block's own
memory of its last visit, and buffers; the engine fills the buffers.  ``process`` is called from several threads at once
on one engine object, so it keeps nothing on ``self``: scratch space comes from ``out.scratch``.

During a round (a fixed number of consecutive blocks of the pass) the tables do not change.  At its end the deltas enter
the tables in block order:

    ADD      table += delta                       (the change since this block was last seen)
    REPLACE  next += delta; table, next = next, 0  at the end of the pass (the block's whole contribution)
    BLEND    table = (1 - rho) table + rho * scale * sum of the round's deltas

Rows and totals are padded with zeros to ``padded(K)`` topics, a multiple of 16 floats (one cache line, one AVX-512
register); padding stays zero.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from topicstream.corpus.block import Block

LANES = 16


def padded(topics: int) -> int:
    """Columns of a dense row that holds ``topics`` topics: the next multiple of 16."""
    return -(-topics // LANES) * LANES


class Rule(enum.Enum):
    """How deltas enter the tables (see the module's head)."""

    ADD = "add"
    REPLACE = "replace"
    BLEND = "blend"


@dataclass(frozen=True)
class Shape:
    """The training problem: sizes of the training part, number of topics K, whether cells are real-valued."""

    docs: int
    words: int
    cells: int
    tokens: float
    topics: int
    weighted: bool = False


@dataclass(frozen=True)
class BlockShape:
    """The largest of each over the blocks of a grid: what buffers must hold.

    longest        cells of the longest document; 0: not known
    table_entries  most non-zero entries that a packed table of the whole corpus can have; 0: not known
    heaviest       tokens of the most frequent word; 0: not known
    """

    docs: int
    cells: int
    tokens: int
    words: int
    longest: int = 0
    table_entries: int = 0
    heaviest: int = 0

    @property
    def document(self) -> int:
        """Cells of the longest document there can be."""
        return self.longest or min(self.words, self.cells)


@dataclass(frozen=True)
class TableSpec:
    """A table with one row a vocabulary word.

    dtype     of the stored rows (``float32``, ``float64``, ``int32``)
    layout    ``dense``: [W, padded(K)], the engine sees ``Rows``; ``packed``: sparse integer rows (packed table)
    delta     ``dense``: the engine fills float32[U, padded(K)]; ``sparse``: a ``SparseDelta``
    row_mass  rows sum to the word's count n_w: scatter holds them to it exactly (float64) and logs the correction
    """

    dtype: str = "float32"
    layout: str = "dense"
    delta: str = "dense"
    row_mass: bool = False


@dataclass(frozen=True)
class ArraySpec:
    """Block memory: what the engine keeps of a block on disk between its visits.

    per     ``document`` [D, width], ``cell`` [nnz, width] or ``token`` [tokens, width] (width 1: one-dimensional); or
            ``block``: one-dimensional, of any length up to ``limit`` entries for a block of that shape.
    dtype   of an entry
    """

    per: str
    dtype: str
    width: int = 1
    limit: Any = None  # per "block": callable (BlockShape) -> most entries

    def shape(self, block: BlockShape) -> tuple[int, ...]:
        """Array shape for a block of that shape."""
        if self.per == "block":
            return (int(self.limit(block)),)
        n = {"document": block.docs, "cell": block.cells, "token": block.tokens}[self.per]
        return (n,) if self.width == 1 else (n, self.width)


class Rows(NamedTuple):
    """Rows of a dense table: local word u is ``scale * base[index[u]]``.

    base: [R, padded(K)] C-contiguous, read-only; index: int64[U].  In RAM base is the whole table, on disk a gathered
    copy with index 0..U-1: the same types, so the same compiled code.  scale is 1.0 but for BLEND tables.
    """

    base: np.ndarray
    index: np.ndarray  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    scale: float = 1.0


@dataclass(frozen=True)
class PackedRows:
    """Rows of a packed table, which the engine has copied to where it works on them: they are held nowhere else.

    length    int32[U], read-only: entries of local word u, each ``count << bits | topic``, descending in count
    largest   no count in the table is larger
    copy      copy(first, stop, start int64[stop - first], arena uint32|uint64[...]): rows first..stop-1 to where ``start``
              says; the arena's entries must hold ``largest``
    """

    length: np.ndarray
    bits: int
    largest: int
    copy: Callable[[int, int, np.ndarray, np.ndarray], None]


@dataclass
class SparseDelta:
    """Changes grouped by local word: word u changes table[u, topic[j]] by value[j] for j in ptr[u]..ptr[u+1]-1.

    ptr: int64[U+1]; topic: uint16 or int32[capacity]; value: float32 (int32 for integer tables)[capacity].  A topic may
    stand more than once in a row.  The engine sets all three (from ``out.scratch`` or its own new arrays); they must
    stay untouched until the round has ended, so use ``out.keep``.
    """

    ptr: np.ndarray
    topic: np.ndarray
    value: np.ndarray


class Scratch:
    """Named arrays that grow and are reused: nothing of row size is allocated a block."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        """An uninitialised C-contiguous array, aligned to 64 bytes, valid until asked for under this name again."""
        dims = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        dtype = np.dtype(dtype)
        need = int(np.prod(dims, dtype=np.int64)) * dtype.itemsize
        raw = self._arrays.get(name)
        if raw is None or raw.nbytes < need + 64:
            raw = None
            self._arrays.pop(name, None)  # given back before the larger one is taken
            raw = np.empty(need + 64, np.uint8)
            self._arrays[name] = raw
        skip = -raw.ctypes.data % 64
        return raw[skip : skip + need].view(dtype).reshape(dims)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(a.nbytes for a in self._arrays.values())


@dataclass
class Out:
    """Where ``start`` and ``process`` write.

    delta    name -> float32[U, padded(K)] (uninitialised: write all of it) for dense deltas; the engine assigns a
             SparseDelta (or the packed table's list of moves) for the others
    memory   name -> array of the spec's exact shape for this block, uninitialised; for per "block" specs an array of the
             limit: assign ``out.memory[name] = out.memory[name][:n]`` (or another array of the dtype) to say how much is
             kept
    stats    name -> float64 array, zeroed; summed over blocks in block order
    scratch  reused by this thread's next block
    keep     like scratch, but left alone until the round has ended (for deltas)
    """

    delta: dict[str, Any]
    memory: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    scratch: Scratch
    keep: Scratch


class Key(NamedTuple):
    """Random numbers: ``rng.stream(seed, pass_number, block.first_doc + row)``.  The start is pass 0."""

    seed: int
    pass_number: int


@dataclass(frozen=True)
class Layout:
    """How a pass is cut: a function of corpus shape, K and engine, recorded before pass 1 and kept on resume."""

    block_cells: int
    block_docs: int
    round_blocks: int


def option(default: Any, help: str, **limits: Any) -> Any:
    """A field of an Options dataclass: becomes ``--name-with-dashes`` with this help.

    limits: ``min``, ``max`` (inclusive), ``choices``, ``advanced`` (hidden from the short help), ``flag``, and
    ``run_time=True`` for what may change on resume; ``was``: what runs did that began before there was the option.
    """
    return field(default=default, metadata={"help": help, **limits})


@dataclass(frozen=True)
class Options:
    """Options every engine has.  None means the engine's own default, a function of K and the corpus."""

    alpha: float | None = option(None, "document-topic prior, per topic (default: the algorithm's paper's)", min=0.0)
    beta: float | None = option(None, "topic-word prior, per word (default: the algorithm's paper's)", min=0.0)
    learn_priors: bool | None = option(False, "learn asymmetric alpha and symmetric beta while training")


def learns_priors(alpha: float | None, beta: float | None, said: bool | None) -> bool:
    """Whether priors are learned: as ``said``, else where neither is given."""
    return alpha is None and beta is None if said is None else said


class Engine:
    """Base of all engines.  A subclass sets the class attributes and defines ``process`` (and what else it needs).

    name, cites    as ``topics engines`` lists them; cites names paper, authors and equation or figure
    Options        a frozen dataclass derived from ``Options``
    starts         starts it can make, the first is the default: ``random`` (a random topic a cell or token),
                   ``documents``, ``kmeans``, ``best``, ``warm``
    start_from     ``visit``: pass 0 calls ``start`` on every block with REPLACE;  ``table``: the seed table itself,
                   scaled to the corpus, is the first table and no pass 0 is made
    order          order of a pass: ``sequential`` or ``shuffled``
    default_passes, default_tol   stopping rule unless the user says otherwise: passes at most, and the change of training
                   perplexity below which it stops (0: never)
    """

    name: ClassVar[str] = ""
    cites: ClassVar[str] = ""
    Options: ClassVar[type[Options]] = Options
    starts: ClassVar[tuple[str, ...]] = ("documents", "random", "kmeans", "best", "warm")
    start_from: ClassVar[str] = "visit"
    order: str = "sequential"
    default_passes: ClassVar[int] = 50
    default_tol: ClassVar[float] = 1.0
    accepts_weights: ClassVar[bool] = True

    def __init__(self, shape: Shape, options: Any) -> None:
        self.shape, self.options = shape, options

    # -- what it keeps ---------------------------------------------------------------------------------------------
    @property
    def rule(self) -> Rule:
        """How deltas enter."""
        return Rule.ADD

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        """Big tables by name.  ``phi`` (unnormalised topic-word counts, without the prior) is what a model stores."""
        return {"phi": TableSpec(row_mass=True)}

    @property
    def memory(self) -> Mapping[str, ArraySpec]:
        """Block memory by name."""
        return {}

    @property
    def stats(self) -> Mapping[str, int]:
        """Statistics by name -> length.  ``loglik`` (sum over cells of x log p, nats) and ``tokens`` are expected:
        training perplexity is exp(-loglik / tokens)."""
        return {"loglik": 1, "tokens": 1}

    def initial_params(self) -> dict[str, np.ndarray]:
        """Small named arrays that ``process`` reads and only ``end_round`` / ``end_pass`` change; checkpointed.
        ``alpha`` float64[K] (per topic) and ``beta`` float64[1] (per word) are always there: the model's priors."""
        raise NotImplementedError(f"{type(self).__name__}.initial_params")

    def scratch_bytes(self, block: BlockShape) -> int:
        """Scratch a thread needs for a block of that shape, beside out's own arrays and what is kept for the round."""
        return 0

    def keep_bytes(self, block: BlockShape) -> int:
        """What ``out.keep`` holds of a block of that shape until its round has ended: the sparse deltas at their largest."""
        return 0

    # -- how it wants to be driven: functions of the problem alone, never of the machine ---------------------------
    def block_cells(self) -> int:
        """Cells an engine block aims at: 2^16 to 2^20, at least 64 blocks a pass where possible; no more than 2^26 / K, so
        that the rows of a block do not grow with K without bound (512 MB must do for a thousand topics)."""
        cells = min(max(self.shape.cells // 64, 1 << 16), 1 << 20)
        return int(max(min(cells, (1 << 26) // padded(self.shape.topics)), 1 << 12))

    def block_docs(self) -> int:
        """Most documents of an engine block."""
        return 1 << 16

    def round_blocks(self) -> int:
        """Blocks of a round: the width to which any number of threads gives the same bits."""
        return 8

    def layout(self) -> Layout:
        """The three together."""
        return Layout(self.block_cells(), self.block_docs(), self.round_blocks())

    # -- what it does ----------------------------------------------------------------------------------------------
    def start(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        """First visit of a block: write its contribution to ``out.delta`` and its memory.

        rows["phi"] are rows of the seed table (topics to start from, float32, unnormalised, positive where a topic may
        take a word), totals["phi"] its column sums; both empty mappings for the start ``random``.
        """
        raise NotImplementedError(f"{type(self).__name__}.start")

    def process(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        memory: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        """One visit of a block.  totals: name -> float64[padded(K)] column sums of each table."""
        raise NotImplementedError(f"{type(self).__name__}.process")

    def blend(self, params: Mapping[str, np.ndarray], docs: int) -> tuple[float, float]:
        """BLEND only: (rho, scale) of the round that has just ended, which saw ``docs`` documents."""
        raise NotImplementedError(f"{type(self).__name__}.blend")

    def end_round(self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray]) -> None:
        """After each round's scatter; stats are the round's sums.  May change params in place."""

    def end_pass(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], totals: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """After each pass; stats are the pass's sums.  May change params in place; what it returns goes into the
        history (plain numbers by name).  For each packed table, stats also has ``NAME.counts`` and ``NAME.times``, the
        histogram of its non-zero entries, and ``NAME.bytes``."""
        return {}

    def takes_sample(self, pass_number: int) -> bool:
        """Whether the packed tables after this pass are one of the samples whose mean the model stores."""
        return False

    def end_pass_rows(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], rows: Iterable[tuple[int, np.ndarray]]
    ) -> dict[str, float]:
        """After ``end_pass``, for what needs the whole table ``phi``: rows yields (first row, rows [n, P]) in order.

        Only called where an engine defines it; what it returns goes into the history too.
        """
        return {}


def option_fields(options: type[Options]) -> dict[str, Any]:
    """name -> dataclass field of every option of an engine, defaults first declared first."""
    return {f.name: f for f in options.__dataclass_fields__.values() if f.default is not MISSING}
