"""Ids: the hash that the held-out split rests on, and duplicates found in sorted runs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topicstream.corpus import runs
from topicstream.corpus.id_hash import hash_ids
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.pipeline import ingest
from topicstream.ingestion.storing import identity
from topicstream.ingestion.storing.identity import DELETED, DUPLICATE, EVENT, REPLACED, Events, deletion_orders


def test_the_hash_never_changes():
    high, low = hash_ids(pa.array(["", "1", "12345678", "a longer identifier é"], pa.large_string()))
    assert [f"{int(h):016x}{int(l):016x}" for h, l in zip(high, low)] == KNOWN


KNOWN = [
    "3f47c14e123a119d294b9a2c8fe1c296",
    "cfde7b86feaa3674f8929918c1b895fa",
    "8be3baa94be6f974516b3b034786be3b",
    "8f7da2d6dd283f9ab57ea5eed8772d01",
]


def test_the_hash_spreads():
    ids = pa.array([str(i) for i in range(200_000)], pa.large_string())
    high, low = hash_ids(ids)
    assert len(np.unique(high)) == len(np.unique(low)) == len(ids)
    for values in (high, low):
        counts = np.bincount((values >> np.uint64(56)).astype(np.int64), minlength=256)
        assert abs(counts - 200_000 / 256).max() < 6 * np.sqrt(200_000 / 256)


def plainly(events, rule):
    """The rule, one event after the other: id -> document alive; reasons."""
    alive, reason = {}, {}
    for name, document in events:
        if document is None:
            if name in alive:
                reason[alive.pop(name)] = DELETED
        elif name not in alive:
            alive[name] = document
        elif rule == "skip":
            reason[document] = DUPLICATE
        else:
            reason[alive[name]] = REPLACED
            alive[name] = document
    return reason


@settings(max_examples=60, deadline=None)
@given(
    listed=st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=80),
    rule=st.sampled_from(["skip", "replace"]),
    most=st.integers(1, 40),
    smallest=st.integers(0, 10),
)
def test_duplicates_as_one_by_one_in_any_runs(tmp_path_factory, listed, rule, most, smallest):
    folder = tmp_path_factory.mktemp("runs")
    events = Events(folder, most)
    events._most = most  # the least a run may hold is for speed, not for the result
    plain, documents = [], 0
    names = [f"id{n}" for n, _ in listed]
    high, low = hash_ids(pa.array(names, pa.large_string()))
    for i, (name, gone) in enumerate(zip(names, (g for _, g in listed))):
        one = slice(i, i + 1)
        if gone:
            events.add(high[one], low[one], deletion_orders(documents, 1))
            plain.append((name, None))
        else:
            events.add(high[one], low[one], np.array([documents]))
            plain.append((name, documents))
            documents += 1
    verdict = events.resolve(rule, smallest)
    expected = plainly(plain, rule)
    assert {d: int(r) for d, r in enumerate(verdict.reason) if r} == expected
    of = {d: high[i] for i, (_, d) in enumerate(plain) if d is not None}
    alive = sorted(int(of[d]) for d in range(documents) if d not in expected)
    assert verdict.kept == len(alive)
    assert verdict.smallest.tolist() == alive[:smallest]
    events.close()
    assert not list(folder.iterdir())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=40), min_size=1, max_size=4), st.integers(0, 32), st.data())
def test_places_in_runs_on_disk(tmp_path_factory, listed, edge, data):
    """As searchsorted in the run, within any bounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "SAMPLE", 3)
        file = runs.RunFile(tmp_path_factory.mktemp("runs") / "some.runs", EVENT, "high")
        for values in listed:
            records = np.zeros(len(values), EVENT)
            records["high"] = records["low"] = np.sort(values)
            file.append(records)
        for run, values in enumerate(listed):
            a = data.draw(st.integers(0, len(values)))
            b = data.draw(st.integers(a, len(values)))
            expected = a + int(np.searchsorted(np.sort(values)[a:b], edge))
            assert file.place(run, edge, a, b) == file.place(run, edge, a, b, "low") == expected
            assert file.read(run, a, b)["high"].tolist() == sorted(values)[a:b]
        file.close()


def test_more_documents_than_have_their_reasons_in_memory(tmp_path, monkeypatch):
    """Their reasons lie in a file, which is ours like the rest of the working folder."""
    (tmp_path / "in.txt").write_text("".join(f"word{i % 7} other{i % 5}\n" for i in range(300)))
    plain = ingest(tmp_path / "in.txt", tmp_path / "plain.zarr", progress=False)
    monkeypatch.setattr(identity, "MOST_IN_MEMORY", 10)
    assert ingest(tmp_path / "in.txt", tmp_path / "many.zarr", progress=False)["cells"] == plain["cells"]
    assert not (tmp_path / "many.zarr.wip").exists()
    assert Corpus.open(tmp_path / "many.zarr").fingerprint == Corpus.open(tmp_path / "plain.zarr").fingerprint


@pytest.mark.parametrize("rule", ["skip", "replace"])
def test_one_id_of_many_documents_is_resolved_in_small_ranges(tmp_path, rule):
    """No range is larger than what may be sorted at a time, however often an id comes."""
    events = Events(tmp_path, 1)
    events._most = most = 1000
    high, low = hash_ids(pa.array(["a", "b"], pa.large_string()))
    for at in range(0, 20_000, 500):
        which = np.arange(at, at + 500) % 5 == 0  # an id in four fifths, another in one
        events.add(high[which.astype(int)], low[which.astype(int)], np.arange(at, at + 500))
    sizes = []
    ranges = events._ranges
    events._ranges = lambda: (sizes.append(len(r[0])) or (more, r) for more, r in ranges())
    verdict = events.resolve(rule, 5)
    assert max(sizes) <= most and sum(sizes) == 20_000
    kept = np.flatnonzero(verdict.reason == 0).tolist()
    assert kept == ([0, 1] if rule == "skip" else [19_995, 19_999]) and verdict.kept == 2
    assert verdict.smallest.tolist() == sorted(high.tolist())
