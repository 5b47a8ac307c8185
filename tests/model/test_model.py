"""The model on disk: round trips, lazy rows, replacement, damage named, nothing seen
half-written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from topicstream.base.errors import StoreError
from topicstream.base.files import durable
from topicstream.base.files.durable import read_json, write_json
from topicstream.base.files.plain import batches, open_table
from topicstream.corpus.vocabulary import Vocabulary, string_buffers
from topicstream.model import arrays as model_arrays
from topicstream.model import manifest as model_manifest
from topicstream.model.manifest import Origin
from topicstream.model.store import ModelWriter
from topicstream.model.top import Best, top_words
from topicstream.model.topic_model import TopicModel

W = 700
K = 12
NAMES = [f"wörd{i}" for i in range(W)]


@pytest.fixture
def phi():
    return np.random.default_rng(3).gamma(0.1, size=(W, K)).astype(np.float32) * 40


@pytest.fixture
def small_chunks(monkeypatch):
    """Many chunks in a small table."""
    monkeypatch.setattr(model_arrays, "CHUNK_BYTES", 50 * 4 * K)


@pytest.fixture
def saved(tmp_path, phi, small_chunks):
    model = TopicModel.from_arrays(
        phi, NAMES, np.linspace(0.1, 0.5, K), 0.02, engine="atbp", options={"tol": 1.0}
    )
    model.save(tmp_path / "model", seed=4)
    return tmp_path / "model"


def test_round_trip(saved, phi):
    model = TopicModel.open(saved)
    assert (model.phi == phi).all()
    assert model.words == NAMES
    assert (model.alpha == np.linspace(0.1, 0.5, K)).all() and model.beta == 0.02
    assert (model.totals == phi.sum(axis=0, dtype=np.float64)).all() or np.allclose(
        model.totals, phi.sum(axis=0, dtype=np.float64), rtol=1e-14
    )
    assert model.manifest.engine == "atbp" and model.manifest.seed == 4
    assert model.manifest.alpha_sum == pytest.approx(model.alpha.sum())
    assert model.manifest.versions["numpy"] == np.__version__
    p = model.probabilities(np.arange(W))
    assert np.allclose(p.sum(axis=0), 1)


def test_stock_zarr_and_parquet_open_it(saved, phi):
    array = zarr.open_array(str(saved / "topics"), mode="r")
    assert array.shape == (W, K) and len(list((saved / "topics" / "c").iterdir())) == 14
    assert (array[:] == phi).all()
    assert array.attrs["beta"] == 0.02
    assert pq.read_table(saved / "vocab.parquet")["word"].to_pylist() == NAMES


def test_rows_from_disk_equal_rows_in_memory(saved, phi):
    model = TopicModel.open(saved, memory_limit=0)
    assert model.phi is None
    ids = np.random.default_rng(0).integers(0, W, 333)
    assert (model.rows(ids) == phi[ids]).all()
    out = np.full((3, 16), 7, np.float32)
    model.rows([699, 0, 699], out)
    assert (out[:, :K] == phi[[699, 0, 699]]).all() and (out[:, K:] == 7).all()
    assert model.rows([]).shape == (0, K)
    assert model.content_hash() == TopicModel.open(saved).content_hash()
    with pytest.raises(ValueError, match="word ids"):
        model.rows([W])


def test_a_fresh_process_opens_it(saved):
    code = (
        "import sys; from topicstream import TopicModel; m = TopicModel.open(sys.argv[1]); "
        "print(m.content_hash()); assert 'pickle' not in open(sys.argv[1] + "
        "'/manifest.json').read()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(saved)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == TopicModel.open(saved).content_hash()


def test_arrow_reads_by_itself(saved, monkeypatch):
    """A Python file's buffers go back under Python's lock: a process that ended just then was
    aborted, one in twelve.
    """
    sources = []

    class Watched(pq.ParquetFile):
        def __init__(self, source, *args, **more):
            sources.append(source)
            super().__init__(source, *args, **more)

    monkeypatch.setattr(pq, "ParquetFile", Watched)
    TopicModel.open(saved).content_hash()
    with open_table(saved / "vocab.parquet") as file:
        assert list(batches(file, None, 10))
    assert len(sources) > 1 and all(isinstance(s, pa.OSFile) for s in sources), sources


def test_the_hash_is_of_content_only(tmp_path, saved, phi):
    again = TopicModel.from_arrays(
        phi, NAMES, np.linspace(0.1, 0.5, K), 0.02, engine="other", created="then"
    )
    assert again.content_hash() == TopicModel.open(saved).content_hash()
    hashes = {again.content_hash()}
    changed = phi.copy()
    changed[5, 5] = np.nextafter(changed[5, 5], np.float32(9))
    alpha = again.alpha
    for other in (
        TopicModel.from_arrays(changed, NAMES, alpha, 0.02),
        TopicModel.from_arrays(phi, [*NAMES[:-1], "x"], alpha, 0.02),
        TopicModel.from_arrays(phi, NAMES, alpha, 0.03),
        TopicModel.from_arrays(phi, NAMES, alpha[::-1].copy(), 0.02),
    ):
        hashes.add(other.content_hash())
    assert len(hashes) == 5
    for wrong in (-1.0, np.nan, np.inf):
        changed[5, 5] = wrong
        with pytest.raises(ValueError, match="negative or not finite"):
            TopicModel.from_arrays(changed, NAMES, alpha, 0.02)


def test_a_save_over_a_model_replaces_it(saved, phi):
    for i in range(3):
        TopicModel.from_arrays(phi * (i + 2), NAMES, 0.1, 0.01).save(saved)
        assert (TopicModel.open(saved).phi == phi * (i + 2)).all()
        assert len([n for n in os.listdir(saved) if n.startswith("topics")]) == 1
    lazy = TopicModel.open(saved, memory_limit=0)
    lazy.save(saved)
    assert (lazy.rows([3, 4]) == phi[[3, 4]] * 4).all()


def test_the_old_model_stays_until_the_manifest(saved, phi):
    before = TopicModel.open(saved).content_hash()
    with ModelWriter(saved, W, K) as writer:
        writer.write_rows(0, phi * 2)
        assert TopicModel.open(saved).content_hash() == before  # a kill here leaves the old one
    assert TopicModel.open(saved).content_hash() == before
    assert not (saved / "topics-2").exists()


def test_a_full_disk_leaves_the_old_model(saved, phi, monkeypatch):
    before = TopicModel.open(saved).content_hash()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    for module, name in ((model_manifest, "write_json"), (durable, "sync"), (model_arrays, "sync")):
        with monkeypatch.context() as m:
            m.setattr(module, name, full)
            with pytest.raises(OSError, match="No space"):
                TopicModel.from_arrays(phi * 3, [f"v{i}" for i in range(W)], 0.1, 0.01).save(saved)
        assert TopicModel.open(saved).content_hash() == before


@pytest.mark.slow
def test_killed_while_saving_it_is_one_of_the_two(saved, phi, tmp_path):
    other = TopicModel.from_arrays(phi * 2, [f"v{i}" for i in range(W)], 0.1, 0.01)
    other.save(tmp_path / "other")
    code = (
        "import sys, itertools; from topicstream import TopicModel\n"
        "models = [TopicModel.open(p) for p in sys.argv[2:]]\n"
        "for m in itertools.cycle(models):\n    m.save(sys.argv[1])\n    print('saved', flush=True)"
    )
    shutil.copytree(saved, tmp_path / "one")
    allowed = {TopicModel.open(saved).content_hash(), other.content_hash()}
    rng = np.random.default_rng(0)
    for _ in range(4):
        args = [
            sys.executable,
            "-c",
            code,
            str(saved),
            str(tmp_path / "one"),
            str(tmp_path / "other"),
        ]
        process = subprocess.Popen(args, stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.15))
        process.kill()
        process.communicate()
        assert TopicModel.open(saved).content_hash() in allowed
    other.save(saved)
    assert sorted(os.listdir(saved))[:2] == [
        ".topicstream",
        "manifest.json",
    ]  # no stray file, hidden ones come first
    assert TopicModel.open(saved).content_hash() == other.content_hash()


def test_rows_come_in_any_pieces_and_padded(tmp_path, phi, small_chunks):
    padded = np.zeros((W, 16), np.float32)
    padded[:, :K] = phi
    with ModelWriter(tmp_path / "m", W, K) as writer:
        for start, stop in ((0, 1), (1, 49), (49, 333), (333, W)):
            writer.write_rows(start, padded[start:stop])
        with pytest.raises(ValueError, match="rows"):
            writer.write_rows(3, padded[:1])
        writer.commit(Origin(), Vocabulary.from_words(NAMES), 0.1, 0.01)
    assert (TopicModel.open(tmp_path / "m").phi == phi).all()


def test_incomplete_or_broken_numbers_are_not_committed(tmp_path, phi):
    with ModelWriter(tmp_path / "m", W, K) as writer:
        writer.write_rows(0, phi[:5])
        with pytest.raises(ValueError, match="5 rows"):
            writer.commit(Origin(), Vocabulary.from_words(NAMES), 0.1, 0.01)
    model = TopicModel.from_arrays(phi, NAMES, 0.1, 0.01)
    model.phi[3, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m" / "manifest.json").exists()


def damage(path, at=None):
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize(
    "file", ["topics/c/3/0", "topics/zarr.json", "vocab.parquet", "manifest.json"]
)
@pytest.mark.parametrize("how", ["flip", "cut", "remove"])
def test_damage_is_named(saved, file, how):
    path = saved / file
    if how == "flip":
        damage(path, 1 if file == "manifest.json" else None)
        if file == "manifest.json":
            path.write_text("{" + path.read_text(errors="replace"))
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    else:
        path.unlink()
    with pytest.raises(StoreError) as e:
        TopicModel.open(saved)
    assert str(saved) in str(e.value) and "\n" not in str(e.value)
    assert file in str(e.value) or (file == "manifest.json" and how == "remove")


def test_other_schema_and_other_kinds_are_refused(saved):
    manifest = read_json(saved / "manifest.json")
    for change, words in (
        ({"schema": 99}, "schema 99"),
        ({"kind": "corpus"}, "not the manifest"),
        ({"files": {}}, "missing required field"),
    ):
        write_json(saved / "manifest.json", {**manifest, **change})
        with pytest.raises(StoreError, match=words):
            TopicModel.open(saved)
    with pytest.raises(StoreError, match="no model here"):
        TopicModel.open(saved / "nowhere")


def test_checkpoints_and_history_beside_are_left_alone(saved, phi):
    (saved / "checkpoints").mkdir()
    (saved / "history.jsonl").write_text('{"pass": 1, "seconds": 2.0}\n{"pass": 2, "sec')
    TopicModel.from_arrays(phi, NAMES, 0.1, 0.01).save(saved)
    assert (saved / "checkpoints").is_dir()
    assert TopicModel.open(saved).history == [{"pass": 1, "seconds": 2.0}]


def test_a_moved_model_opens(saved, tmp_path):
    shutil.move(saved, tmp_path / "elsewhere")
    assert TopicModel.open(tmp_path / "elsewhere").n_topics == K


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(), unique=True, min_size=1, max_size=20))
def test_vocabulary_of_any_text(words):
    words = [w.encode("utf-8", "ignore").decode() for w in words]
    vocabulary = Vocabulary.from_words(words)
    offsets, text = string_buffers(pa.array(["skip", *words], pa.string()).slice(1))
    assert bytes(text).decode() == "".join(words) and offsets[-1] == len("".join(words).encode())
    assert vocabulary.texts(range(len(words))) == words
    first = {w: i for i, w in reversed(list(enumerate(words)))}
    assert vocabulary.find([*words, "not\x00there"]).tolist() == [first[w] for w in words] + [-1]
    assert (
        vocabulary.sha256
        == Vocabulary.from_words(pa.chunked_array([words[:1], words[1:]], pa.large_string())).sha256
    )


def test_vocabulary_hash_sees_the_borders():
    assert Vocabulary.from_words(["ab", "c"]).sha256 != Vocabulary.from_words(["a", "bc"]).sha256


def test_top_words_against_a_full_sort(saved, phi):
    for limit in (None, 0):
        model = TopicModel.open(saved, memory_limit=limit)
        ids, scores = top_words(model, 9)
        p = model.probabilities(np.arange(W))
        expected = np.argsort(-p, axis=0, kind="stable")[:9]
        assert (ids == expected).all()
        assert np.allclose(scores, np.log(np.take_along_axis(p, expected, axis=0)))
        share = (phi.sum(axis=1) + K * 0.02) / (phi.sum() + W * K * 0.02)
        relevance = 0.4 * np.log(p) + 0.6 * np.log(p / share[:, None])
        ids, scores = top_words(model, 9, 0.4)
        assert np.allclose(scores, -np.sort(-relevance, axis=0)[:9], rtol=1e-4, atol=1e-4)
    ids, _ = top_words(TopicModel.from_arrays(np.zeros((4, 2)), list("abcd"), 0.1, 0.0), 9)
    assert ids.tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]  # nothing known: all words, in order


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 5),
    st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=30),
    st.integers(1, 7),
)
def test_best_equals_a_stable_sort(n, table, step):
    values = np.array(table, float)
    best = Best(n, 3)
    for first in range(0, len(values), step):
        best.add(first, values[first : first + step])
    expected = np.argsort(-values, axis=0, kind="stable")[:n]
    assert (best.ids[: len(expected)] == expected).all()
    assert (best.scores[: len(expected)] == np.take_along_axis(values, expected, axis=0)).all()
