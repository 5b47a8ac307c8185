"""A visit in a process that shares nothing with this one: it is sent the job, and opens the corpus
from its path.
"""

from __future__ import annotations

import multiprocessing

import pytest
from checkpoint_bits import content_hash

from tests import few_quick
from tests.planted import draw, store
from topicstream.base.progress import Shown
from topicstream.engines.base import Visit
from topicstream.training.executor import new_out, run_visit
from topicstream.training.loop import train
from topicstream.training.threads import Threads

_open = {}


def begin(job):
    _open["job"] = job


def visit_there(number, rows, totals, state, params, key):
    job = _open["job"]
    (block,) = job.corpus.blocks([number], grid=job.grid)
    out = run_visit(
        job.engine, Visit(block, rows, totals, state, params, key), new_out(job.engine, block)
    )
    return out.delta, out.state, out.stats


class Elsewhere(Threads):
    """One process, started afresh, that is sent plain values."""

    def __init__(self, job):
        super().__init__(job)
        context = multiprocessing.get_context("spawn")
        self.pool = context.Pool(1, initializer=begin, initargs=(job,))

    def compute(self, visit, out):
        rows = {name: found.portable() for name, found in visit.rows.items()}
        given = (visit.block.index, rows, visit.totals, visit.state, visit.params, visit.key)
        deltas, out.state, out.stats = self.pool.apply(visit_there, given)
        for name, delta in deltas.items():
            if name in out.delta:
                out.delta[name][:] = delta
            else:
                out.delta[name] = delta
        return out

    def release(self):
        super().release()
        self.pool.terminate()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    _, indptr, words, counts = draw(docs=200, words=120, topics=4, length=50, seed=5)
    return store(tmp_path_factory.mktemp("elsewhere") / "c.zarr", indptr, words, counts, 120)


GIVEN = {
    "atbp": {},
    "sparse-bp": {"options": {"learn_priors": True}},
    "gs": {"seed_words": {"x": {"words": ["word3", "word7", "word11"], "strength": 30}}},
    "ovb": {"sample": 0.5},
    "bp": {"weighting": "tf"},
}


@pytest.mark.parametrize("algo", few_quick(GIVEN, ("sparse-bp",)))
def test_visits_elsewhere_give_the_same_bits(corpus, tmp_path, algo):
    given = {
        "algo": algo,
        "topics": 4,
        "passes": 2,
        "tol": 0.0,
        "block_cells": 2000,
        "threads": 2,
        **GIVEN[algo],
    }
    train(corpus, tmp_path / "here", **given, progress=Shown(-1))
    train(corpus, tmp_path / "there", **given, executor=Elsewhere, progress=Shown(-1))
    assert content_hash(tmp_path / "here") == content_hash(tmp_path / "there")
