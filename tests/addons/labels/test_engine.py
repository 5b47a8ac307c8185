"""Labeled LDA: equal to its dense twin cell by cell, class counts where each document has one
label, planted labels.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests import few_quick
from tests.listening import Listening
from tests.message_driver import Driver, dense_block, planted, shape_of
from tests.planted import store
from tests.reference import labeled as twin
from topicstream import TopicModel
from topicstream.base.errors import InputError, StoreError, UsageError
from topicstream.base.progress import Shown as Progress
from topicstream.corpus.block import AxisRows
from topicstream.corpus.reader import Corpus
from topicstream.engines import find, parts
from topicstream.engines.base import SparseDelta
from topicstream.model.edits import edit, view_of
from topicstream.training.loop import train
from topicstream.training.setup import make_engine
from topicstream.training.table_bytes import state_bytes_of_pass

Engine = find("llda")


def labelled_block(x, labels, index=0, first_doc=0):
    """labels: a list of ids for each document."""
    ids = np.unique(np.concatenate([np.zeros(0, np.int64), *map(np.asarray, labels)])).astype(
        np.int32
    )
    indptr = np.cumsum([0, *map(len, labels)]).astype(np.int64)
    local = np.searchsorted(ids, [k for own in labels for k in sorted(own)]).astype(np.int32)
    return replace(dense_block(x, index, first_doc), axes={"labels": AxisRows(ids, indptr, local)})


def driver_of(x, labels, n_labels, cuts=(), **options):
    edges = [0, *cuts, len(x)]
    blocks = [
        labelled_block(x[a:b], labels[a:b], i, a)
        for i, (a, b) in enumerate(itertools.pairwise(edges))
    ]
    made = Engine.Options(**{"alpha": 0.2, "beta": 0.05, **options})
    shape = shape_of(blocks, x.shape[1], made.free + n_labels)
    return Driver(Engine(replace(shape, axes={"labels": n_labels}), made), blocks)


def dense_messages(driver, x):
    """[D, W, K] out of the stored integers."""
    engine = driver.engine
    topics = driver.engine.shape.topics
    mu = np.zeros((*x.shape, topics))
    for block, memory in zip(driver.blocks, driver.memory, strict=True):
        lists, own, _ = engine.list_topics(block)
        docs = np.repeat(np.arange(block.n_docs), np.diff(block.indptr))
        at = 0
        for i in np.lexsort((docs, block.words)):
            d = docs[i]
            w = block.vocab[block.words[i]]
            mine = own[lists[d] : lists[d + 1]]
            if len(mine) == 1:
                mu[block.first_doc + d, w, mine] = 1.0
            elif len(mine):
                q = memory["messages"][at : at + len(mine)].astype(float)
                mu[block.first_doc + d, w, mine] = q / max(q.sum(), 1.0)
                at += len(mine)
        assert at == len(memory["messages"])
    return mu


def open_to(driver, x):
    allowed = np.zeros((len(x), driver.engine.shape.topics), bool)
    for block in driver.blocks:
        lists, own, _ = driver.engine.list_topics(block)
        allowed[np.repeat(block.first_doc + np.arange(block.n_docs), np.diff(lists)), own] = True
    return allowed


LABELS = [[0], [1, 3], [], [0, 1, 2, 3], [2], [1, 2], [], [3]]


@pytest.mark.parametrize(("free", "no_label"), [(0, "all"), (0, "skip"), (2, "all"), (1, "skip")])
@pytest.mark.parametrize("cuts", [(), (3,)])
def test_cell_by_cell_as_the_dense_twin(free, no_label, cuts):
    rng = np.random.default_rng(4)
    x = rng.poisson(0.9, (8, 20))
    x[:, 3] += 1
    driver = driver_of(x, LABELS, 4, cuts, free=free, no_label=no_label, label_alpha=0.7).start(
        seed=5
    )
    alpha = np.full((8, free + 4), 0.2)
    for d, own in enumerate(LABELS):
        alpha[d, free + np.array(own, int)] = 0.7
    mu = dense_messages(driver, x)
    allowed = open_to(driver, x)
    unlabelled = [not own for own in LABELS]
    assert not mu[unlabelled].any()  # they wait, or are left out
    assert allowed[unlabelled].all() if no_label == "all" else not allowed[unlabelled].any()
    assert (mu[~allowed[:, None, :].repeat(x.shape[1], 1)] == 0).all()
    for _ in range(3):
        phi = (x[:, :, None] * mu).sum(0)
        loglik = 0.0
        edges = [0, *cuts, len(x)]
        for a, b in itertools.pairwise(edges):  # the driver has one round a block
            likely = twin.visit(x[a:b], mu[a:b], phi, phi.sum(0), allowed[a:b], alpha[a:b], 0.05)
            loglik += np.nansum(x[a:b] * np.log(likely))
        perplexity = driver.sweep()
        np.testing.assert_allclose(dense_messages(driver, x), mu, atol=2e-4)
        np.testing.assert_allclose(driver.phi[:, : phi.shape[1]], phi, atol=2e-3)
        taken = allowed.any(1)
        assert perplexity == pytest.approx(np.exp(-loglik / x[taken].sum()), rel=1e-4)


def test_one_label_a_document_is_class_counts_after_one_pass():
    rng = np.random.default_rng(1)
    x = rng.poisson(1.0, (30, 12))
    label = rng.integers(4, size=30)
    x[:, 0] += 1
    driver = driver_of(x, [[k] for k in label], 4, (11,)).start(seed=0)
    counts = np.stack([x[label == k].sum(0) for k in range(4)], 1)
    np.testing.assert_array_equal(driver.phi[:, :4], counts)
    driver.sweep()
    np.testing.assert_array_equal(driver.phi[:, :4], counts)
    assert not any(len(m["messages"]) for m in driver.memory)  # nothing is stored


def test_labels_that_do_not_fit_the_stored_messages_are_refused():
    x = np.ones((2, 5), np.int64)
    driver = driver_of(x, [[0, 1], [1]], 2).start()
    driver.memory[0]["messages"] = driver.memory[0]["messages"][:-1].copy()
    with pytest.raises(StoreError, match="belong to other labels"):
        driver.sweep()


def corpus(path, x, labels, heldout=0):
    docs, words = np.nonzero(x)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(docs, minlength=len(x)))))
    return store(
        path,
        indptr,
        words.astype(np.int32),
        x[docs, words],
        x.shape[1],
        heldout,
        lists={"labels": labels},
    )


@pytest.fixture(scope="module")
def two_a_document(tmp_path_factory):
    """Documents of two planted topics each, labelled so; no document shows a label alone, a tenth
    has no label.
    """
    rng = np.random.default_rng(0)
    _, phi = planted(1, 160, 8, 1, 3)
    pairs = np.stack([rng.choice(8, 2, replace=False) for _ in range(400)])
    x = np.stack([rng.multinomial(60, phi[p].mean(0)) for p in pairs])
    labels = [[f"name {k}" for k in p] if d % 10 else [] for d, p in enumerate(pairs)]
    return corpus(tmp_path_factory.mktemp("two") / "c.zarr", x, labels), phi, pairs


def run(path, folder, **given):
    settings = {"algo": "llda", "passes": 25, "tol": 0.0, "threads": 1, "progress": Progress(-1)}
    return train(path, folder, **{**settings, **given})


@pytest.mark.parametrize("seed", few_quick(range(4), [0]))
@pytest.mark.parametrize("no_label", ["all", "skip"])
def test_planted_labels_are_found(two_a_document, tmp_path, seed, no_label):
    path, phi, _ = two_a_document
    done = run(path, tmp_path / "m", seed=seed, options={"no_label": no_label})
    model = TopicModel.open(tmp_path / "m")
    assert done.topics == model.n_topics == 8
    names = [model.labels[k] for k in range(8)]
    assert sorted(names) == [f"name {k}" for k in range(8)]
    p = model.probabilities(np.arange(160))
    for k, name in enumerate(names):  # by name: no matching of topics
        assert np.abs(p[:, k] - phi[int(name.split()[1])]).sum() < 0.25
    labelled = 60 * (400 if no_label == "all" else 360)
    assert model.totals.sum() == pytest.approx(labelled, rel=1e-5)


def test_block_memory_is_planned_for_the_labels_there_are(two_a_document, tmp_path):
    _, phi, pairs = two_a_document
    x = np.stack(
        [np.random.default_rng(d).multinomial(60, phi[p].mean(0)) for d, p in enumerate(pairs)]
    )
    for bare in (0, 1):
        labels = [[f"name {k}" for k in p] if d >= bare else [] for d, p in enumerate(pairs)]
        path = corpus(tmp_path / f"{bare}.zarr", x, labels)
        store = Corpus.open(path)
        kind = Engine
        engine = make_engine(kind, store, kind.Options(), None)
        cells = int((x[:bare] > 0).sum())
        assert engine.shape.bare == {"labels": cells}
        grid = store.grid(
            engine.layout.block_cells, engine.layout.block_docs, axes=engine.about.axes
        )
        assert state_bytes_of_pass(engine, grid) == 2 * (2 * (store.n_cells - cells) + 8 * cells)
        run(path, tmp_path / f"m{bare}", passes=2)


def test_free_topics_come_first_and_have_no_name(two_a_document, tmp_path):
    run(two_a_document[0], tmp_path / "m", options={"free": 2}, passes=3)
    model = TopicModel.open(tmp_path / "m")
    assert model.n_topics == 10
    assert sorted(model.labels) == list(range(2, 10))


def test_a_name_shows_on_one_line_and_edits_go_over_it(tmp_path):
    x = np.random.default_rng(0).poisson(1.0, (20, 10)) + 1
    path = corpus(tmp_path / "c.zarr", x, [["a\nb\x1b[31m"] if d % 2 else ["b"] for d in range(20)])
    run(path, tmp_path / "m", passes=2)
    assert sorted(view_of(TopicModel.open(tmp_path / "m")).labels.values()) == ["a b[31m", "b"]
    view = edit(tmp_path / "m", [{"edit": "label", "topic": 0, "label": "mine"}])
    assert view.labels == TopicModel.open(tmp_path / "m").labels
    assert view.labels[0] == "mine"


def test_what_is_left_out_is_counted_and_what_cannot_be_is_refused(two_a_document, tmp_path):
    told = Listening()
    run(two_a_document[0], tmp_path / "m", passes=2, options={"no_label": "skip"}, progress=told)
    assert any("40 documents without labels left out" in line for line in told.said)
    with pytest.raises(
        UsageError, match="-K 7: llda has a topic for each of the 8 labels; leave --topics out"
    ):
        run(two_a_document[0], tmp_path / "m2", topics=7)
    with pytest.raises(UsageError, match="does not learn its priors"):
        run(two_a_document[0], tmp_path / "m2", options={"learn_priors": True})
    none = corpus(tmp_path / "none.zarr", np.ones((3, 4), np.int64), [[], [], []])
    with pytest.raises(InputError, match="no document has a label"):
        run(none, tmp_path / "m2")
    plain = store(
        tmp_path / "plain.zarr", np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, np.int64), 1
    )
    with pytest.raises(StoreError, match="no axis 'labels'"):
        run(plain, tmp_path / "m2")


class InParts(Driver):
    """Takes the delta of a block in parts, as ``Out.merge`` does."""

    most = 0  # words of a part

    def _out(self, block):
        out = super()._out(block)
        pieces = out.delta["phi"] = []

        def merge(table, first, delta):
            copies = (delta.ptr.copy(), delta.topic.copy(), delta.value.copy())
            pieces.append((first, SparseDelta(*copies)))

        out.merge = merge
        return out

    def _apply(self, target, block, pieces):
        for first, delta in pieces:
            self.most = max(self.most, len(delta.ptr) - 1)
            words = block.vocab[first : first + len(delta.ptr) - 1]
            for u, w in enumerate(words):
                cut = slice(delta.ptr[u], delta.ptr[u + 1])
                np.add.at(target[w], delta.topic[cut], delta.value[cut])


@pytest.mark.parametrize("seeded", [False, True])
def test_a_delta_in_parts_is_the_whole_one(seeded, monkeypatch):
    monkeypatch.setattr(parts, "PART", 12)
    x, _ = planted(40, 30, 3, 25, seed=2)
    labels = [[d % 5] if d % 3 else [d % 4, 4] for d in range(len(x))]
    seeds = np.random.default_rng(0).random((30, 6)) if seeded else None
    whole = driver_of(x, labels, 5, cuts=(23,), free=1)
    taken = InParts(whole.engine, whole.blocks)
    for driver in (whole, taken):
        driver.start(seeds)
        driver.sweep(2)
    assert taken.most < 15  # of thirty
    np.testing.assert_array_equal(taken.phi, whole.phi)
    for one, other in zip(taken.memory, whole.memory, strict=True):
        np.testing.assert_array_equal(one["messages"], other["messages"])
