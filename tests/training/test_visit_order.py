"""Workers begin with the longest visits of a round, and the result does not show it."""

from __future__ import annotations

import numpy as np
import pytest
from checkpoint_bits import content_hash

from tests.planted import draw, store
from topicstream.base.progress import Shown as Progress
from topicstream.engines import find
from topicstream.engines.base import Shape
from topicstream.training.loop import train
from topicstream.training.threads import Threads

visited: list[int] = []


class Watched(Threads):
    """Threads that note the blocks as they visit them."""

    def compute(self, visit, out):
        if visit.key.pass_number:
            visited.append(visit.block.index)
        return super().compute(visit, out)


@pytest.mark.parametrize("name", ["sparse-bp", "gs", "mixture"])
def test_the_longest_visits_of_a_round_come_first(name, tmp_path, monkeypatch):
    _, indptr, words, counts = draw(docs=300, words=100, topics=5, length=60, seed=3)
    corpus = store(tmp_path / "corpus.zarr", indptr, words, counts, 100)
    given = {"algo": name, "topics": 5, "passes": 2, "block_cells": 400, "round_blocks": 4}
    given |= {"executor": Watched, "threads": 1, "progress": Progress(-1)}
    visited.clear()
    train(corpus, tmp_path / "even", **given)
    blocks = len(visited) // 2
    assert blocks > 8 and visited[:blocks] == list(range(blocks))

    def cost(self, number, pass_number):
        return float((number * 7 + pass_number) % 5)

    monkeypatch.setattr(find(name), "visit_cost", cost)
    visited.clear()
    train(corpus, tmp_path / "uneven", **given)
    for number in (1, 2):
        mine = visited[(number - 1) * blocks : number * blocks]
        for first in range(0, blocks, 4):
            some = mine[first : first + 4]
            assert sorted(some) == list(range(first, min(first + 4, blocks)))
            costs = [cost(None, block, number) for block in some]
            assert costs == sorted(costs, reverse=True)
    assert content_hash(tmp_path / "even") == content_hash(tmp_path / "uneven")


def test_sparse_bp_tells_which_of_its_blocks_look_at_inactive_topics():
    kind = find("sparse-bp")
    engine = kind(Shape(10_000, 5000, 10_000_000, 2e7, 200), kind.Options(reopen=4))
    block = type("Block", (), {"n_docs": 3, "first_doc": 0})()
    for pass_number in (1, 2, 5):
        for block.index in range(8):
            looks = bool(engine._looks(block, pass_number).all())
            looked = pass_number > 1 and bool(engine._looks(block, pass_number - 1).all())
            cost = engine.visit_cost(block.index, pass_number)
            assert (cost > 1) == (looks or (block.index + pass_number) % 4 == 1)
            assert not looked or cost > 1.5
    small = kind(Shape(100, 500, 10_000, 2e4, 200), kind.Options())
    assert {small.visit_cost(n, 1) for n in range(8)} == {1.0}
    assert np.isfinite(engine.visit_cost(3, 0))
