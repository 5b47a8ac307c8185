"""Ids: the hash that the held-out split rests on, and which of several documents of one id
counts.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topicstream.base.errors import InputError
from topicstream.base.relations import Relations
from topicstream.corpus.documents import hash_ids
from topicstream.ingestion.parts.part_files import PieceRows
from topicstream.ingestion.settings import Heldout
from topicstream.ingestion.store.decide import (
    DELETED,
    DROPPED,
    DUPLICATE,
    HELDOUT,
    REPLACED,
    decide,
)


def test_the_hash_never_changes():
    high, low = hash_ids(
        pa.array(["", "1", "12345678", "a longer identifier é"], pa.large_string())
    )
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
    alive = {}
    reason = {}
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


def piece_of(names: list[str], gone: list[str] = ()) -> PieceRows:
    """A piece of documents with these ids, and of withdrawn ids."""
    documents, withdrawn = (
        pa.record_batch({"id": pa.array(ids, pa.large_string()), "source": ["y"] * len(ids)})
        for ids in (names, gone)
    )
    return PieceRows(documents, withdrawn)


def folder_of(pieces: list[PieceRows], folder: Path) -> SimpleNamespace:
    """The pieces as ``decide`` reads them from a working folder."""
    return SimpleNamespace(pieces=lambda *columns: iter(pieces), folder=folder)


def decided(working, rule, heldout=0, memory=1 << 20):
    with Relations(working.folder, 1 << 20) as relations:
        relations.memory = memory
        return decide(working, None, rule, Heldout.parse(heldout), relations, np.zeros(0, np.int64))


@pytest.mark.product
@settings(max_examples=60, deadline=None)
@given(
    listed=st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=80),
    rule=st.sampled_from(["skip", "replace"]),
    pieces=st.integers(1, 5),
    wanted=st.integers(0, 10),
    memory=st.sampled_from([16, 1 << 20]),
)
def test_duplicates_as_one_by_one(tmp_path_factory, listed, rule, pieces, wanted, memory):
    plain = []
    docs = []
    documents = []
    for part in np.array_split(
        np.arange(len(listed)), pieces
    ):  # withdrawals of a piece come behind its documents
        names, gone = (
            [f"id{listed[i][0]}" for i in part if listed[i][1] == withdrawn]
            for withdrawn in (False, True)
        )
        plain += [(name, len(documents) + i) for i, name in enumerate(names)] + [
            (name, None) for name in gone
        ]
        documents += names
        docs.append(piece_of(names, gone))
    working = folder_of(docs, tmp_path_factory.mktemp("ids"))
    decision = decided(working, rule, wanted, memory)  # ids are sorted, or all related
    expected = plainly(plain, rule)
    assert {d: int(r) for d, r in enumerate(decision.reason) if r} == expected
    alive = sorted(int(h) for d, h in enumerate(piece_of(documents).hashes[0]) if d not in expected)
    held = alive[: min(wanted, len(alive))]
    kinds = np.concatenate(decision.classes)
    assert (kinds == DROPPED).sum() == len(expected) and set(
        np.flatnonzero(kinds == DROPPED)
    ) == set(expected)
    assert sorted(piece_of(documents).hashes[0][kinds == HELDOUT].tolist()) == held
    assert not list(working.folder.iterdir())


@pytest.mark.parametrize("rule", ["skip", "replace"])
def test_one_id_of_many_documents(tmp_path, rule):
    docs = [
        piece_of(["b" if n % 5 == 0 else "a" for n in range(start, start + 20_000)])
        for start in range(0, 200_000, 20_000)
    ]
    working = folder_of(docs, tmp_path)
    decision = decided(working, rule, memory=1 << 26)
    kept = np.flatnonzero(decision.reason == 0).tolist()
    assert kept == ([0, 1] if rule == "skip" else [199_995, 199_999])
    with pytest.raises(InputError, match="y: document 'a': the same id as y: document 'a'"):
        decided(working, "fail", memory=1 << 26)
