"""Updating a model in place; drift and alignment figures on made shifts."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil

import numpy as np
import pytest
from checkpoint_bits import content_hash

import topicstream
from tests import few_quick
from tests.retrain_tools import made, write
from topicstream.base.errors import TopicsError
from topicstream.base.files import marker, ownership
from topicstream.base.progress import Shown as Progress
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import score_model
from topicstream.evaluation.matching import align
from topicstream.model.manifest import TopicIds, number_topics
from topicstream.model.topic_model import TopicModel
from topicstream.retraining.config import Limits
from topicstream.retraining.drift import ingest_apart, jensen_shannon, list_drift_reasons, measure
from topicstream.training.starts.sample import draw_documents

QUIET = Progress(-1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(folder with c.zarr and m): 400 documents, four topics."""
    place = tmp_path_factory.mktemp("trained")
    write(place / "a.jsonl", made(400, seed=1))
    topicstream.ingest(
        place / "a.jsonl", place / "c.zarr", stopwords="none", heldout="10%", min_df=2
    )
    topicstream.train(
        place / "c.zarr", place / "m", algo="atbp", topics=4, passes=15, tol=0.0, progress=QUIET
    )
    return place


@pytest.fixture
def home(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "home")
    return tmp_path / "home"


def append(home, documents, **options):
    write(home / "b.jsonl", documents)
    topicstream.ingest(home / "b.jsonl", home / "c.zarr", append=True, grow_vocab=True, **options)


def update(home, **options):
    return topicstream.update(home / "c.zarr", home / "m", progress=QUIET, **options)


@pytest.mark.quick("sparse-bp")
@pytest.mark.parametrize(
    "algo", few_quick(["atbp", "stbp", "vb", "sparse-bp", "mvi"], ["atbp", "sparse-bp"])
)
def test_every_block_starts_from_the_model(trained, tmp_path, algo):
    shutil.copytree(trained / "c.zarr", tmp_path / "c.zarr")
    topicstream.train(
        tmp_path / "c.zarr", tmp_path / "m", algo=algo, topics=4, passes=5, tol=0.0, progress=QUIET
    )
    append(tmp_path, made(100, seed=2, prefix="e"))
    done = update(tmp_path, out=tmp_path / "u", passes=3)
    assert (done.how, done.passes) == ("warm", 3)
    model = TopicModel.open(tmp_path / "u")
    corpus = Corpus.open(tmp_path / "c.zarr")
    assert model.manifest.corpus.fingerprint == corpus.fingerprint
    assert model.totals.sum() == pytest.approx(corpus.n_tokens, rel=1e-5)


@pytest.mark.product
def test_an_update_is_near_a_full_training_and_takes_the_old_ones_place(home, capsys):
    append(home, made(200, seed=2, prefix="e"))
    assert run(["update", "--corpus", str(home / "c.zarr"), "--model", str(home / "m"), "-q"]) == 0
    assert "warm" in capsys.readouterr().out
    assert not (home / "m.update").exists()
    corpus = Corpus.open(home / "c.zarr")
    topicstream.train(home / "c.zarr", home / "full", algo="atbp", topics=4, progress=QUIET)
    updated, full = (
        score_model(TopicModel.open(home / m), corpus).perplexity for m in ("m", "full")
    )
    assert updated < 1.01 * full
    again = update(home)
    assert again.how == "nothing"
    before = content_hash(home / "m")
    assert (
        run(["train", "--corpus", str(home / "c.zarr"), "--model", str(home / "m"), "-q"]) == 1
    )  # other settings
    assert content_hash(home / "m") == before


def test_an_update_of_sampled_topics_keeps_them(tmp_path):
    """A chain that began from a mixture with the corpus mean lost its topics in fifteen passes."""
    write(tmp_path / "a.jsonl", made(400, seed=1))
    corpus = tmp_path / "c.zarr"
    topicstream.ingest(tmp_path / "a.jsonl", corpus, stopwords="none", heldout="10%", min_df=2)
    same = {"algo": "sparselda", "topics": 4, "progress": QUIET}
    topicstream.train(corpus, tmp_path / "m", passes=100, options={"burn_in": 60}, **same)
    append(tmp_path, made(60, seed=2, prefix="e"))
    done = update(tmp_path, out=tmp_path / "u")
    assert (done.how, done.passes) == ("warm", 120)
    updated = TopicModel.open(tmp_path / "u")
    options = updated.manifest.options
    assert (options["burn_in"], options["sample_every"]) == (None, 6)
    topicstream.train(corpus, tmp_path / "full", passes=200, **same)
    full = TopicModel.open(tmp_path / "full")
    store = Corpus.open(corpus)
    assert score_model(updated, store).perplexity < 1.02 * score_model(full, store).perplexity
    short = update(tmp_path, out=tmp_path / "v", passes=10)
    assert short.passes == 10
    assert TopicModel.open(tmp_path / "v").totals.sum() == pytest.approx(store.n_tokens, rel=1e-5)


def bytes_of(folder):
    """Path -> content of all files but locks and markers."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (".lock", marker.MARK)
    }


@pytest.mark.quick("manifest")
@pytest.mark.parametrize("broken", ["manifest", "vocabulary", "memory"])
def test_an_update_that_is_refused_has_removed_nothing(home, broken):
    """Of the folder that ``out`` and ``force`` name, and of an unfinished update."""
    append(home, made(30, seed=2, prefix="e"))
    update(home, out=home / "other", passes=1)
    mark = ownership.claim(home / "m", "model").id
    ownership.claim(home / "m.update", "model", owner=mark)
    update(home, out=home / "m.update", passes=1)
    before = bytes_of(home / "other"), bytes_of(home / "m.update"), bytes_of(home / "m")
    limits = {}
    if broken == "manifest":
        (home / "c.zarr" / "manifest.json").write_text("{")
    elif broken == "vocabulary":
        (home / "c.zarr" / Corpus.open(home / "c.zarr").manifest.files["vocab"].file).unlink()
    else:
        limits = {"mem_limit": "64M"}
    for options in ({"out": home / "other"}, {}):
        with pytest.raises(TopicsError):
            update(home, force=True, passes=1, **options, **limits)
    after = bytes_of(home / "other"), bytes_of(home / "m.update"), bytes_of(home / "m")
    assert after == before


def killed_in_removal(call, instant):
    """``call``, which raises from its n-th use on within a folder that is being removed."""
    count = itertools.count()

    def wrapper(path, *args, **named):
        if ".removed" in str(path) and next(count) >= instant:
            raise KeyboardInterrupt
        return call(path, *args, **named)

    return wrapper


@pytest.mark.product
@pytest.mark.parametrize("call", ["unlink", "rmdir"])
def test_an_update_killed_while_it_removes_the_old_model_blocks_nothing(home, monkeypatch, call):
    append(home, made(30, seed=2, prefix="e"))
    ready = shutil.copytree(home, home.parent / "ready")
    for instant in (1, 2, 5, 20, 40):
        shutil.rmtree(home)
        shutil.copytree(ready, home)
        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            patch.setattr(os, call, killed_in_removal(getattr(os, call), instant))
            update(home, passes=1)
        assert update(home).how == "nothing"
        append(home, made(20, seed=instant, prefix=f"f{instant}-"))
        assert update(home, passes=1, force=True).how == "warm"
        assert sorted(p.name for p in home.iterdir()) == ["a.jsonl", "b.jsonl", "c.zarr", "m"]


def test_an_unfinished_update_of_another_corpus_is_forgotten(home):
    append(home, made(30, seed=2, prefix="e"))
    ownership.claim(home / "m.update", "model", owner=ownership.claim(home / "m", "model").id)
    update(home, out=home / "m.update", passes=1)
    append(home, made(30, seed=3, prefix="f"))
    done = update(home, passes=2)
    assert done.how == "warm"
    assert (
        TopicModel.open(home / "m").manifest.corpus.fingerprint
        == Corpus.open(home / "c.zarr").fingerprint
    )


def test_an_update_from_another_corpus_says_so(home, tmp_path, capsys):
    append(home, made(30, seed=2, prefix="e"))
    others = [{**d, "text": f"{d['text']} cat dog cow"} for d in made(100, seed=5)]
    topicstream.ingest(others, tmp_path / "other.zarr", stopwords="none", min_df=2, progress=False)
    for corpus, warned in ((home / "c.zarr", False), (tmp_path / "other.zarr", True)):
        given = [
            "update",
            "--corpus",
            str(corpus),
            "--model",
            str(home / "m"),
            "--passes",
            "1",
            "--out",
            str(tmp_path / f"u{warned}"),
        ]
        assert run(given) == 0
        assert ("was trained on another corpus than" in capsys.readouterr().err) is warned
    strange = [{"text": " ".join(f"w{d * i % 40}" for i in range(20))} for d in range(60)]
    topicstream.ingest(strange, tmp_path / "strange.zarr", min_df=1, progress=False)
    assert (
        run(["update", "--corpus", str(tmp_path / "strange.zarr"), "--model", str(home / "m")]) == 2
    )
    assert "do not match" in capsys.readouterr().err


def test_no_seed_is_drawn_from_a_removed_document(home):
    docs = made(400, seed=1)
    append(home, [{**d, "text": d["text"] + " axko"} for d in docs[:350]], on_duplicate="replace")
    corpus = Corpus.open(home / "c.zarr")
    gone = {int(row) for _, part, block, row in corpus.removed() if part == 0 and block == 0}
    drawn = draw_documents(corpus, corpus.n_docs, 0).tolist()
    assert gone and not gone & set(drawn)


def test_drift_figures_on_a_made_shift(home):
    model = TopicModel.open(home / "m")
    corpus = Corpus.open(home / "c.zarr")

    def figures(documents):
        write(home / "new.jsonl", documents)
        staged = ingest_apart(
            [home / "new.jsonl"], home / "new.zarr", corpus, {"min_df": 2, "grow_vocab": True}
        )
        return measure(model, corpus, staged, 1)

    same = figures(made(150, seed=9, prefix="s"))
    assert same.seen_words > 0.95 and same.unknown_tokens < 0.01
    assert same.perplexity < 1.2 and same.usage < 0.2 and list_drift_reasons(same, Limits()) == []
    one = figures(made(150, seed=9, prefix="o", kinds=[2]))
    assert one.usage > 0.4 and one.seen_words > 0.95
    assert [w for w in list_drift_reasons(one, Limits(usage=0.4)) if "usage" in w]
    # three of four distinct words and of tokens were never seen
    odd = figures([{"id": "x", "text": "axko newa newb newc"}])
    assert odd.seen_words == 0.25 and odd.unknown_tokens == 0.75
    assert len(list_drift_reasons(odd, Limits(seen_words=0.7))) >= 2
    other = figures(made(50, seed=9, prefix="q", language="q"))
    assert other.seen_words == 0.0 and other.perplexity is None and other.usage is None


def test_words_that_were_pruned_count_as_seen(tmp_path):
    write(tmp_path / "a.jsonl", [*made(100, seed=1), {"id": "rare", "text": "axko onlyhere"}])
    topicstream.ingest(
        tmp_path / "a.jsonl", tmp_path / "c.zarr", stopwords="none", heldout="0", min_df=2
    )
    topicstream.train(
        tmp_path / "c.zarr", tmp_path / "m", algo="atbp", topics=2, passes=2, progress=QUIET
    )
    model = TopicModel.open(tmp_path / "m")
    corpus = Corpus.open(tmp_path / "c.zarr")
    assert "onlyhere" not in model.words
    write(tmp_path / "n.jsonl", [{"id": "n", "text": "onlyhere never axko aylo"}])
    staged = ingest_apart([tmp_path / "n.jsonl"], tmp_path / "n.zarr", corpus, {})
    assert measure(model, corpus, staged, 1).seen_words == 0.75


def test_jensen_shannon():
    p = np.array([0.5, 0.5, 0.0])
    q = np.array([0.0, 0.0, 1.0])
    assert jensen_shannon(p, p) == 0.0 and jensen_shannon(p, q) == pytest.approx(1.0)
    half = np.array([0.25, 0.25, 0.5])
    m = (p + half) / 2
    by_hand = (
        sum(x * np.log2(x / y) for x, y in zip(p, m) if x)
        + sum(x * np.log2(x / y) for x, y in zip(half, m))
    ) / 2
    assert jensen_shannon(p, half) == pytest.approx(np.sqrt(by_hand))


def test_ids_follow_their_topics():
    words = [f"w{i}" for i in range(40)]

    def model(*topics):
        phi = np.zeros((40, len(topics)), np.float32)
        for k, (first, last) in enumerate(topics):
            phi[first:last, k] = 10
        return TopicModel.from_arrays(phi, words, 0.1, 0.001)

    old = model((0, 10), (10, 20), (20, 30))
    moved = align(old, model((20, 30), (0, 10), (10, 20)), TopicIds(ids=[5, 7, 8], next=9), 1.0)
    assert moved.ids == [8, 5, 7] and moved.kept == [5, 7, 8] and not moved.born and not moved.died
    fresh = align(old, model((0, 10), (10, 20), (30, 40)), number_topics(3), 1.0)
    assert fresh.ids == [0, 1, 3] and fresh.born == [3] and fresh.died == [2]
    assert fresh.split == [] and fresh.merged == [] and fresh.next == 4
    near = align(model((10, 20), (21, 31)), model((15, 25), (4, 14)), number_topics(2), 1.1)
    assert (
        near.kept == [0] and near.ids[0] == 0
    )  # 1.0 away; the two far pairs are nearer than a near and a farther one together
    split = align(old, model((0, 6), (10, 20), (20, 30), (4, 10)), number_topics(3), 1.2)
    assert split.born == [3] and split.split == [(0, 3)]
    merged = align(
        model((0, 10), (2, 12), (20, 30)), model((1, 11), (20, 30)), number_topics(3), 1.0
    )
    assert merged.died in ([0], [1]) and merged.merged == [(merged.died[0], merged.ids[0])]
