"""Rows of seed tables are made by ranges: the bits of the plain formula, and no array of a block's
size beside them.
"""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from checkpoint_bits import content_hash

from tests.planted import draw, store
from topicstream.base.progress import Shown as Progress
from topicstream.engines.base import padded
from topicstream.numeric.kernels.constants import Constants
from topicstream.numeric.tables.spec import Rows, Scratch
from topicstream.training import plan as planning
from topicstream.training.loop import train
from topicstream.training.starts import seeds as making
from topicstream.training.starts.best import LearnedSeeds
from topicstream.training.starts.random import RandomSeeds
from topicstream.training.starts.sample import DRAW, uniform_draws
from topicstream.training.starts.seeded import SeededSeeds
from topicstream.training.starts.seeds import SeedRows
from topicstream.training.threads import Threads

WORDS = 20_000
N_W = np.random.default_rng(0).integers(1, 1000, WORDS).astype(np.float64)


def plain_random_rows(ids, topics, seed):
    """The formula of the class, over all words at once."""
    draws = np.empty(len(ids) * topics)
    numbers = (ids.astype(np.int64)[:, None] * topics + np.arange(topics)).ravel()
    uniform_draws(seed, DRAW - 1, numbers, draws)
    split = 1e-6 - np.log1p(-draws.reshape(len(ids), topics))
    split *= (N_W[ids] / split.sum(axis=1))[:, None]
    out = np.zeros((len(ids), padded(topics)), np.float32)
    out[:, :topics] = split
    return out


@pytest.mark.parametrize("topics", [3, 20, 130])
def test_random_rows_and_their_sums_have_the_bits_of_the_formula(topics):
    seeds = RandomSeeds(N_W, topics, 7)
    ids = np.sort(np.random.default_rng(1).choice(WORDS, 9001, replace=False)).astype(np.int32)
    np.testing.assert_array_equal(seeds.rows(ids, Scratch()), plain_random_rows(ids, topics, 7))
    totals = np.zeros(padded(topics))
    for at in range(0, WORDS, 8192):
        some = np.arange(at, min(at + 8192, WORDS))
        totals += plain_random_rows(some, topics, 7).sum(axis=0, dtype=np.float64)
    np.testing.assert_array_equal(seeds.totals, totals)


def seed_table(name, topics):
    random = RandomSeeds(N_W, topics, 1)
    if name == "random":
        return random
    if name == "best":
        words = np.arange(0, WORDS, 3, dtype=np.int32)
        phi = np.ones((len(words), padded(topics)), np.float32)
        return LearnedSeeds(words, phi, np.ones(padded(topics)), N_W)
    constants = Constants(np.array([5, 70]), np.array([1, 3]), np.array([2.0, 4.0]), topics)
    return SeededSeeds(random, constants, N_W, learned=name == "seed words, learned")


@pytest.mark.parametrize("name", ["best", "seed words", "seed words, learned"])
def test_rows_do_not_depend_on_the_ranges_that_they_are_made_by(name, monkeypatch):
    table = seed_table(name, 20)
    ids = np.sort(np.random.default_rng(1).choice(WORDS, 9001, replace=False)).astype(np.int32)
    by_ranges = table.rows(ids)
    monkeypatch.setattr(making, "NUMBERS_AT_A_TIME", 1 << 40)
    np.testing.assert_array_equal(table.rows(ids), by_ranges)


@pytest.mark.parametrize("name", ["random", "best", "seed words", "seed words, learned"])
def test_making_rows_takes_little_beside_them(name):
    topics = 200
    ids = np.arange(WORDS, dtype=np.int32)
    table = seed_table(name, topics)
    scratch = Scratch()
    out = table.rows(ids, scratch)
    tracemalloc.start()
    again = table.rows(ids, scratch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.shares_memory(again, out)
    assert peak < 8 << 20 < out.nbytes


class FewSeeds(Threads):
    """Workers that hold a few rows of seed topics at a time."""

    def __init__(self, job):
        super().__init__(replace(job, seed_rows=7))


class PlainSeeds(Threads):
    """Workers that hold the seed topics of whole blocks, as ``Rows``."""

    def _seen(self, block, number, assignment, buffers, shape):
        visit = super()._seen(block, number, assignment, buffers, shape)
        if assignment.key.pass_number:
            return visit
        rows = Rows(assignment.seeds.rows(block.vocab), np.arange(len(block.vocab)))
        return visit._replace(rows={"phi": rows})


@pytest.mark.quick("False-documents")
@pytest.mark.parametrize("start", ["documents", "random"])
@pytest.mark.parametrize("merges", [False, True])
def test_a_start_by_parts_has_the_bits_of_a_whole_one(start, merges, tmp_path, monkeypatch):
    _, indptr, words, counts = draw(docs=300, words=100, topics=5, length=60, seed=3)
    corpus = store(tmp_path / "corpus.zarr", indptr, words, counts, 100)
    monkeypatch.setattr(planning, "PLACES", {"auto": ((False, merges),)})
    hashes = set()
    for executor in (PlainSeeds, FewSeeds, Threads):
        given = {"topics": 5, "passes": 2, "start": start, "block_cells": 1500, "threads": 2}
        model = tmp_path / executor.__name__
        train(corpus, model, algo="sparse-bp", executor=executor, progress=Progress(-1), **given)
        hashes.add(content_hash(model))
    assert len(hashes) == 1


def test_parts_of_seed_rows_are_made_once_while_they_are_held():
    asked = []

    class Counted(RandomSeeds):
        def rows(self, ids, scratch=None):
            asked.append(ids.tolist())
            return super().rows(ids, scratch)

    table = Counted(N_W, 20, 1)
    ids = np.arange(3, 13, dtype=np.int32)
    rows = SeedRows(table, ids, Scratch(), 4)
    for first, stop in ((0, 4), (1, 3), (4, 5), (5, 8), (8, 10), (0, 2)):
        part = rows.part(first, stop)
        there = part.base[part.index]
        np.testing.assert_array_equal(there, RandomSeeds(N_W, 20, 1).rows(ids[first:stop]))
    assert asked == [[3, 4, 5, 6], [7, 8, 9, 10], [11, 12], [3, 4, 5, 6]]
