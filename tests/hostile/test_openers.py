"""Openers of stores, axes, models and edits: whatever a file says, it is opened or refused by a
StoreError that names it.
"""

from __future__ import annotations

import contextlib
import copy
import json

import google_crc32c
import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import topicstream
from tests.hostile.resealing import chunks_of, reseal_block, reseal_model, write_sealed
from tests.ingest_tools import documents, write_jsonl
from topicstream.base.errors import StoreError, TopicsError
from topicstream.base.files.durable import log_text, read_json
from topicstream.corpus.manifest import StoreManifest
from topicstream.corpus.reader import Corpus
from topicstream.model.edits import LOG, view_of
from topicstream.model.topic_model import TopicModel

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 1 << 65),
    st.sampled_from(
        [
            0,
            1,
            1 << 31,
            1 << 62,
            -1,
            1.5,
            float("nan"),
            float("inf"),
            "",
            "x",
            "../x",
            "/etc/passwd",
        ]
    ),
    st.lists(st.integers(-1, 1 << 40), max_size=3),
    st.dictionaries(
        st.sampled_from(["a", "words", "train", "rows"]), st.integers(-1, 5), max_size=2
    ),
)
MANY = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with authors and links, and documents that were replaced."""
    place = tmp_path_factory.mktemp("openers")
    given = [
        {**d, "who": [f"a{i % 5}", f"b{i % 3}"], "to": [f"{i // 2}"]}
        for i, d in enumerate(documents(80))
    ]
    write_jsonl(place / "a.jsonl", given)
    write_jsonl(place / "b.jsonl", given[:20])
    meta = {"authors": "who", "links": "to"}
    topicstream.ingest(
        place / "a.jsonl", place / "c.zarr", min_df=1, max_df=1.0, meta=meta, heldout="10%"
    )
    topicstream.ingest(
        place / "b.jsonl", place / "c.zarr", append=True, on_duplicate="replace", meta=meta
    )
    return place / "c.zarr"


def changed(data, value):
    """The JSON value with one member or entry exchanged or left out."""
    value = copy.deepcopy(value)
    place = value
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(list(keys)))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or data.draw(st.integers(0, 3)) == 0:
            break
        place = inner
    if data.draw(st.booleans()):
        place[key] = data.draw(VALUES)
    else:
        del place[key]
    return value


@contextlib.contextmanager
def kept(path):
    """Put the file back at the end."""
    before = path.read_bytes() if path.exists() else None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_bytes(before)


def read_all(store):
    """Decode every block with its axes, and the names."""
    corpus = Corpus.open(store)
    for heldout in (False, True):
        for number in range(len(corpus.part(heldout).blocks)):
            raw = corpus.decode(number, heldout, [a for a in corpus.axes if a != "words"])
            assert raw.words.min(initial=0) >= 0 and raw.words.max(initial=0) < corpus.n_words
            assert len(raw.words) == len(raw.counts) == raw.indptr[-1]
            for name, (indptr, entries) in raw.axes.items():
                assert indptr[-1] == len(entries)
                assert entries.max(initial=-1) < corpus.axes[name].size
    for axis in corpus.axes.values():
        axis.names(0, 3)
    list(corpus.documents())


@MANY
@given(data=st.data())
def test_a_manifest_of_a_store(store, data):
    path = store / "manifest.json"
    value = read_json(path)
    part = data.draw(st.sampled_from(["all", "axes", "parts"]))
    value = changed(data, value) if part == "all" else {**value, part: changed(data, value[part])}
    with kept(path):
        write_sealed(path, value)
        with contextlib.suppress(StoreError, TopicsError):
            StoreManifest.read(store)
            read_all(store)


@MANY
@given(data=st.data())
def test_chunks_of_a_store(store, data):
    arrays = chunks_of(store, "train", 0)
    kind = data.draw(st.sampled_from(sorted(arrays)))
    index = data.draw(st.integers(0, len(arrays[kind]) - 1))
    spoilt = {**arrays, kind: arrays[kind].copy()}
    spoilt[kind][index] = data.draw(st.sampled_from([0, 1, 2, 1 << 20, 1 << 31, (1 << 32) - 1]))
    try:
        with (
            kept(store / "manifest.json"),
            contextlib.suppress(StoreError, msgspec.ValidationError),
        ):
            reseal_block(store, "train", 0, spoilt, totals=data.draw(st.booleans()))
            read_all(store)
    finally:
        reseal_block(store, "train", 0, arrays, totals=False)


@MANY
@given(data=st.data())
def test_a_manifest_of_a_model(made, data):
    path = made / "m" / "manifest.json"
    with kept(path):
        write_sealed(path, changed(data, read_json(path)))
        with contextlib.suppress(StoreError, TopicsError):
            model = TopicModel.open(made / "m")
            assert np.isfinite(model.probabilities(np.arange(3))).all()
            view_of(model)


@MANY
@given(data=st.data())
def test_metadata_of_topics(made, data):
    path = made / "m" / "topics" / "zarr.json"
    with kept(path), kept(made / "m" / "manifest.json"):
        text = json.dumps(changed(data, json.loads(path.read_text()))).encode()
        path.write_bytes(text)
        manifest = read_json(made / "m" / "manifest.json")
        manifest["files"]["topics"]["crc32c"] = int(google_crc32c.value(text))
        write_sealed(made / "m" / "manifest.json", manifest)
        with contextlib.suppress(StoreError):
            model = TopicModel.open(made / "m")
            assert np.isfinite(model.probabilities(np.arange(3))).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_counts_of_topics_are_finite_and_not_negative(model, value):
    meta = json.loads((model / "topics" / "zarr.json").read_text())
    rows = np.ones(meta["chunk_grid"]["configuration"]["chunk_shape"], np.float32)
    rows[1, 1] = value
    reseal_model(model, {}, rows)
    with pytest.raises(StoreError, match="negative, infinite or no number"):
        TopicModel.open(model)


EDIT = st.dictionaries(
    st.sampled_from(["edit", "topic", "topics", "label", "steps", "at", "by"]),
    st.one_of(
        VALUES,
        st.sampled_from(["label", "merge", "drop", "order", "undo"]),
        st.lists(st.integers(0, 3), max_size=3),
    ),
)


@MANY
@given(edits=st.lists(EDIT, max_size=4))
def test_a_log_of_edits(made, edits):
    with kept(made / "m" / LOG):
        (made / "m" / LOG).write_text(log_text(edits))
        with contextlib.suppress(StoreError):
            view = view_of(TopicModel.open(made / "m"))
            assert len(view) >= 1
            assert sorted([*view.dropped, *(k for m in view.members for k in m)]) == [0, 1, 2]
