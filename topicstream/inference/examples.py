"""Documents with the shares that a classifier is to learn: written once to a scratch file, read again every pass."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from topicstream.files import owned
from topicstream.files.whole import read_all, write_all
from topicstream.inference.documents import Documents
from topicstream.inference.vectors import Vector, inner
from topicstream.kernels.linear import products, spread
from topicstream.parallel.order import in_order

LANES = 16  # columns of a gradient that one thread adds to
GROUP = 16  # blocks whose residuals are held at once


class ExamplePiece(NamedTuple):
    """One block: indptr int64[D+1], words int64[nnz], counts float32[nnz], theta float32[D, K]."""

    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    theta: np.ndarray


@dataclass(frozen=True)
class _Place:
    offset: int
    docs: int
    cells: int
    first: int  # documents before


class Examples:
    """A scratch file of blocks.  topics: K; docs, cells: so far."""

    def __init__(self, path: Path, topics: int) -> None:
        self.path, self.topics, self.docs, self.cells = path, topics, 0, 0
        self._places: list[_Place] = []
        self._end = 0
        self._fd = owned.create_fd(path)

    def add(self, docs: Documents, theta: np.ndarray) -> None:
        """A block behind the others."""
        self._places.append(_Place(self._end, len(docs), len(docs.words), self.docs))
        for array in (docs.indptr.astype(np.int64), docs.words.astype(np.int32), docs.counts, theta):
            write_all(self._fd, np.ascontiguousarray(array), self._end)
            self._end += array.nbytes
        self.docs, self.cells = self.docs + len(docs), self.cells + len(docs.words)

    def __len__(self) -> int:
        return len(self._places)

    def place(self, block: int) -> _Place:
        return self._places[block]

    def read(self, block: int) -> ExamplePiece:
        """A block, as it was added."""
        p = self._places[block]
        arrays = (
            np.empty(p.docs + 1, np.int64),
            np.empty(p.cells, np.int32),
            np.empty(p.cells, np.float32),
            np.empty((p.docs, self.topics), np.float32),
        )
        at = p.offset
        for array in arrays:
            read_all(self._fd, array, at, str(self.path))
            at += array.nbytes
        return ExamplePiece(arrays[0], arrays[1].astype(np.int64), *arrays[2:])

    # -- residuals of a pass over sliced weights, behind the blocks -----------------------------------------------------
    def _beside(self, block: int, first: int) -> int:
        p = self._places[block]
        return self._end + 4 * (p.first * self.topics + p.docs * first)

    def put(self, block: int, first: int, values: np.ndarray) -> None:
        """float32[D, n] of a block, from column ``first`` on."""
        write_all(self._fd, np.ascontiguousarray(values), self._beside(block, first))

    def get(self, block: int, first: int, last: int) -> np.ndarray:
        """What ``put`` put there."""
        out = np.empty((self._places[block].docs, last - first), np.float32)
        read_all(self._fd, out, self._beside(block, first), str(self.path))
        return out

    def close(self) -> None:
        """Remove the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            owned.discard(self.path)


class Likelihood:
    """The penalised loss of soft labels under a softmax, and its gradient (Yao, Mimno and McCallum 2009, eq. 13 and 17):

        loss(weights) = - sum_d sum_k theta_dk log p(k|d)  +  sum of weights^2 / (2 variance)
        p(k|d)        ~ exp(sum_w weights[w, k] x_wd + weights[W, k])

    The last row (the bias) is not penalised.  Called with (weights, gradient to be filled) -> loss, in nats.
    """

    def __init__(self, examples: Examples, variance: float, threads: int = 1) -> None:
        self.examples, self.variance, self.threads = examples, float(variance), threads

    def inverse(self, rows: int) -> np.ndarray:
        """float32[rows]: about the inverse of the Hessian's diagonal at the end, where p is theta, a number a word: counts differ by
        orders of magnitude, and the steps with them."""
        squares, spread_, docs = np.zeros(rows), 0.0, 0
        for block in range(len(self.examples)):
            piece = self.examples.read(block)
            squares += np.bincount(piece.words, np.square(piece.counts, dtype=np.float64), rows)
            spread_ += float((piece.theta * (1.0 - piece.theta)).sum(dtype=np.float64))
            docs += len(piece.theta)
        squares[-1] = docs
        penalty = np.full(rows, 1.0 / self.variance)
        penalty[-1] = 0.0
        return np.asarray((1.0 / (squares * spread_ / (docs * self.examples.topics) + penalty + 1e-9)).astype(np.float32))

    def __call__(self, weights: Vector, gradient: Vector) -> float:
        if len(weights.space.slices) == 1:
            return self._whole(weights, gradient)
        return self._sliced(weights, gradient)

    def _whole(self, weights: Vector, gradient: Vector) -> float:
        table, ex = weights.read(0), self.examples
        sums, loss = np.zeros(table.shape), 0.0

        def work(block: int) -> tuple[ExamplePiece, np.ndarray, float]:
            piece = ex.read(block)
            z = np.empty(piece.theta.shape, np.float32)
            products(piece.indptr, piece.words, piece.counts, table, table[-1], z)
            return piece, *_residual(z, piece.theta)

        held: list[tuple[ExamplePiece, np.ndarray]] = []
        with ThreadPoolExecutor(max(1, self.threads), thread_name_prefix="gradient") as pool:
            for piece, residual, nats in in_order(work, range(len(ex)), self.threads):
                loss += nats
                held.append((piece, residual))
                if len(held) == GROUP:
                    self._add(pool, held, sums)
                    held = []
            self._add(pool, held, sums)
        return loss + self._penalty(table, sums, gradient, 0)

    def _add(self, pool: ThreadPoolExecutor, held: list[tuple[ExamplePiece, np.ndarray]], sums: np.ndarray) -> None:
        """Every thread adds to columns of its own, all blocks in order: the same bits for any number of threads."""
        width = sums.shape[1]

        def add(first: int, last: int) -> None:
            for piece, residual in held:
                spread(piece.indptr, piece.words, piece.counts, residual, first, last, sums)

        if self.threads <= 1:
            add(0, width)
        else:
            list(pool.map(lambda first: add(first, min(first + LANES, width)), range(0, width, LANES)))

    def _sliced(self, weights: Vector, gradient: Vector) -> float:
        """The same, a slice of the weights at a time: the documents are read twice a slice, and their residuals lie in
        the scratch file between."""
        ex, slices = self.examples, weights.space.slices
        for s, (first, _) in enumerate(slices):
            table = weights.read(s)
            for block in range(len(ex)):
                piece = ex.read(block)
                z = np.empty((len(piece.theta), table.shape[1]), np.float32)
                products(piece.indptr, piece.words, piece.counts, table, table[-1], z)
                ex.put(block, first, z)
        loss = 0.0
        for block in range(len(ex)):
            z = np.concatenate([ex.get(block, first, last) for first, last in slices], axis=1)
            residual, nats = _residual(z, ex.read(block).theta)
            loss += nats
            for first, last in slices:
                ex.put(block, first, residual[:, first:last])
        for s, (first, last) in enumerate(slices):
            sums = np.zeros((weights.space.rows, last - first))
            for block in range(len(ex)):
                piece = ex.read(block)
                spread(
                    piece.indptr, piece.words, piece.counts, ex.get(block, first, last), 0, last - first, sums
                )  # fmt: skip
            loss += self._penalty(weights.read(s), sums, gradient, s)
        return loss

    def _penalty(self, table: np.ndarray, sums: np.ndarray, gradient: Vector, s: int) -> float:
        for at in range(0, len(table) - 1, 1 << 12):
            end = min(at + (1 << 12), len(table) - 1)
            sums[at:end] += table[at:end] / self.variance
        gradient.write(s, sums.astype(np.float32))
        return inner(table[:-1], table[:-1]) / (2 * self.variance)


def _residual(z: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, float]:
    """(p - theta float32[D, K], - sum of theta log p) of logits, which are used up."""
    z -= z.max(axis=1, keepdims=True)
    score = float(np.einsum("dk,dk->", theta, z, dtype=np.float64))
    np.exp(z, out=z)
    total = z.sum(axis=1, keepdims=True)
    mass = theta.sum(axis=1, dtype=np.float64)
    z /= total
    z -= theta
    return z, float((mass * np.log(total[:, 0].astype(np.float64))).sum()) - score


def temperature(logits: np.ndarray, theta: np.ndarray, least: float = 0.2, most: float = 5.0) -> float:
    """The temperature at which KL(theta || softmax(logits / temperature)) is least over the documents, by golden section
    (the divergence has one valley in 1 / temperature); logits, theta: float[D, K]."""

    def kl(log_t: float) -> float:
        z = logits.astype(np.float64) / np.exp(log_t)
        z -= z.max(axis=1, keepdims=True)
        return float((np.log(np.exp(z).sum(axis=1)) - (theta * z).sum(axis=1)).sum())

    return float(np.exp(golden(kl, np.log(least), np.log(most))))


def golden(function: Callable[[float], float], a: float, b: float, steps: int = 40) -> float:
    """Where a function with one valley is least in a..b."""
    ratio = (np.sqrt(5.0) - 1.0) / 2.0
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    fc, fd = function(c), function(d)
    for _ in range(steps):
        if fc < fd:
            b, d, fd = d, c, fc
            c = b - ratio * (b - a)
            fc = function(c)
        else:
            a, c, fc = c, d, fd
            d = a + ratio * (b - a)
            fd = function(d)
    return float((a + b) / 2)
