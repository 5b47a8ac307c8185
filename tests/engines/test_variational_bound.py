"""The memoized bound: what a pass tracks against sums from scratch, and falls reported with their
size.
"""

import itertools
import json

import pytest

from tests.small_store import planted, store
from topicstream.base.progress import Shown as Progress
from topicstream.training.loop import train


class Heard(Progress):
    """Remembers what is said."""

    def __init__(self):
        super().__init__(verbose=-1)
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    matrix, _ = planted(3, 240, 150, 6)
    path = tmp_path_factory.mktemp("bound") / "corpus"
    store(path, matrix[:220], matrix[220:], blocks=2)
    return path


@pytest.mark.parametrize("most", [1, 4])
def test_the_bound_rises_and_its_falls_are_said(corpus, tmp_path, most):
    heard = Heard()
    options = {"sparsity": most, "restarts": 1}
    settings = {"topics": 12, "passes": 7, "tol": 0.0, "block_cells": 600, "threads": 1}
    train(corpus, tmp_path / "m", algo="mvi", options=options, progress=heard, **settings)
    records = [
        json.loads(line) for line in (tmp_path / "m" / "history.jsonl").read_text().splitlines()
    ][1:]
    assert len(records) == 7
    bounds = [r["bound"] for r in records]
    assert bounds[-1] > bounds[0]
    warned = [line for line in heard.lines if line.startswith("warning: the bound fell by")]
    falls = [(i + 2, a - b) for i, (a, b) in enumerate(itertools.pairwise(bounds)) if a > b]
    assert warned == [
        f"warning: the bound fell by {fall:.3g} in pass {number}" for number, fall in falls
    ]
    assert [r.get("bound_fall", 0.0) for r in records[1:]] == pytest.approx(
        [max(a - b, 0.0) for a, b in itertools.pairwise(bounds)]
    )
    assert all(fall < 0.01 * abs(bounds[0]) for _, fall in falls)
