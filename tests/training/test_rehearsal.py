"""The expected time of a training, from a part of its start and of a pass."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.small_store import planted, store
from topicstream.training import rehearsal
from topicstream.training.loop import train
from topicstream.training.starts.documents import DocumentStart
from topicstream.training.threads import Threads

LEARNED = 100.0
ROUNDS = 10


@pytest.mark.quick("2.0-sparse-bp", "1000.0-gs")
@pytest.mark.parametrize("algo", ["sparse-bp", "atbp", "gs", "mixture"])
@pytest.mark.parametrize("seconds", [2.0, 1000.0])
def test_only_visits_grow_with_the_corpus(tmp_path, monkeypatch, algo, seconds):
    counts, _ = planted(1, 300, 200, 4)
    corpus = store(tmp_path / "c.zarr", counts, counts[:0], blocks=ROUNDS)
    now = [0.0]
    visit = Threads.visit
    seeds = DocumentStart.seeds

    def slow_visit(self, position, group, assignment):
        now[0] += 3.0 if assignment.key.pass_number == 0 else 1.0
        return visit(self, position, group, assignment)

    def slow_seeds(self, ground):
        now[0] += LEARNED
        return seeds(self, ground)

    monkeypatch.setattr(rehearsal, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(rehearsal, "SECONDS", seconds)
    monkeypatch.setattr(Threads, "visit", slow_visit)
    monkeypatch.setattr(DocumentStart, "seeds", slow_seeds)
    given = {
        "algo": algo,
        "topics": 4,
        "start": "documents",
        "passes": 7,
        "round_blocks": 1,
        "threads": 1,
        "progress": False,
    }
    last = train(corpus.path, tmp_path / "m", dry_run=True, **given).last
    rounds = len(corpus.part().blocks)
    assert (last["start_seconds"], last["pass_seconds"]) == (LEARNED + 3 * rounds, rounds)
    assert last["expected_seconds"] == LEARNED + 3 * rounds + 7 * rounds
    assert [path.name for path in tmp_path.iterdir()] == ["c.zarr"]
