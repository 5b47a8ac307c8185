"""Drift is decided by tokens and likelihood: a second night of the same sources is none."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial import distance

import topicstream
from tests.small_store import planted, store
from topicstream.base.errors import NothingKept
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary, as_words
from topicstream.evaluation.completion import score_model
from topicstream.evaluation.visiting import document_shares
from topicstream.model.topic_model import TopicModel
from topicstream.retraining import drift
from topicstream.retraining.config import Limits
from topicstream.retraining.drift import (
    DocumentGroups,
    Drift,
    ingest_apart,
    jensen_shannon,
    list_drift_reasons,
    mean_shares,
    measure,
    measure_groups,
)
from topicstream.retraining.raw_files import MEASURED


def night(seed: int, source: str, n: int) -> list[dict[str, str]]:
    """Texts of a source: words that all of its texts share, and many that few have."""
    draw = random.Random(f"{seed}{source}")
    texts = []
    for number in range(n):
        subject = draw.choice("abcd")
        common = [f"{source}{subject}w{min(30, int(draw.expovariate(0.1)))}" for _ in range(30)]
        rare = [f"{source}r{int(draw.paretovariate(0.6))}" for _ in range(10)]
        text = " ".join(common + rare).translate(str.maketrans("0123456789", "ghijklmnop"))
        texts.append({"id": f"{source}{seed}-{number}", "text": text})
    return texts


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home: Path = tmp_path_factory.mktemp("drift")
    first = [*night(1, "x", 300), *night(1, "y", 300)]
    topicstream.ingest(first, home / "c.zarr", heldout="20%")
    topicstream.train(home / "c.zarr", home / "m", topics=8, passes=30)
    return home


def figures_of(home: Path, texts: list[dict[str, str]], place: Path) -> Drift:
    corpus = Corpus.open(home / "c.zarr")
    new = ingest_apart(texts, place / "new.zarr", corpus, {"drop_top": 2, "phrase_threshold": 0.5})
    return measure(TopicModel.open(home / "m"), corpus, new, 1)


@pytest.mark.quick("300-x")
@pytest.mark.parametrize("sources", ["xy", "x", "y"])
@pytest.mark.parametrize("n", [300, 40])
@pytest.mark.product
def test_a_second_night_of_the_same_sources_is_no_drift(trained, tmp_path, sources, n):
    texts = [text for source in sources for text in night(2, source, n)]
    figures = figures_of(trained, texts, tmp_path)
    assert list_drift_reasons(figures, Limits()) == []


def test_their_distinct_words_would_have_been_called_new(trained, tmp_path):
    figures = figures_of(trained, [*night(2, "x", 300), *night(2, "y", 300)], tmp_path)
    assert figures.seen_words < 0.70
    assert figures.unknown_tokens < 0.20
    [why] = list_drift_reasons(figures, Limits(seen_words=0.70))
    assert "words were seen in training" in why


@pytest.mark.parametrize("texts", [night(1, "z", 200), night(1, "z", 200) + night(2, "x", 100)])
def test_another_source_is_drift(trained, tmp_path, texts):
    assert list_drift_reasons(figures_of(trained, texts, tmp_path), Limits())


def test_the_subjects_of_old_words_in_another_mix_are_drift_by_likelihood(trained, tmp_path):
    words = sorted({word for text in night(1, "x", 300) for word in text["text"].split()})
    draw = random.Random(3)
    texts = [
        {"id": f"m{i}", "text": " ".join(draw.choice(words) for _ in range(40))} for i in range(200)
    ]
    figures = figures_of(trained, texts, tmp_path)
    assert figures.unknown_tokens < 0.20
    assert any("perplexity" in why for why in list_drift_reasons(figures, Limits()))


def test_a_figure_that_equals_its_limit_is_no_drift():
    limits = Limits(unknown_tokens=0.25, perplexity=1.5, usage=0.5, seen_words=0.75)
    at = Drift(5, 9, seen_words=0.75, unknown_tokens=0.25, perplexity=1.5, usage=0.5)
    assert list_drift_reasons(at, limits) == []
    beyond = {"seen_words": 0.749, "unknown_tokens": 0.251, "perplexity": 1.51, "usage": 0.51}
    said = {"seen_words": "74.9 %", "unknown_tokens": "25.1 %", "perplexity": "1.51 times"}
    said["usage"] = "by 0.51"
    for name, value in beyond.items():
        [why] = list_drift_reasons(Drift(5, 9, **{name: value}), limits)
        assert said[name] in why
    assert len(list_drift_reasons(Drift(5, 9, **beyond), limits)) == 4
    assert list_drift_reasons(Drift(5, 9), limits) == []


def test_the_distance_of_usage_is_scipys():
    p = np.array([4.0, 1.0, 0.0, 5.0])
    q = np.array([1.0, 1.0, 3.0, 0.0])
    assert jensen_shannon(p, q) == pytest.approx(distance.jensenshannon(p, q, base=2))
    assert jensen_shannon(p, 3 * p) == pytest.approx(0.0, abs=1e-8)
    assert jensen_shannon(np.array([1.0, 0.0]), np.array([0.0, 2.0])) == pytest.approx(1.0)
    for times in range(2, 50):  # the sums of some multiples differ by a bit, below 0
        shares = np.array([3.0, 7.0, 11.0, 2.0]) / 23
        assert jensen_shannon(shares, times * shares) == pytest.approx(0.0, abs=1e-7)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A corpus of words 0 to 39, a model of words 0 to 34, and new documents of words 5 to 49."""
    home: Path = tmp_path_factory.mktemp("small")
    counts, phi = planted(5, 160, 50, 3)
    old = counts.copy()
    old[:, 40:] = 0
    names = [f"word{w}" for w in range(40)]
    corpus = store(home / "c.zarr", old[:90, :40], old[90:120, :40], names)
    model = TopicModel.from_arrays((phi * 500)[:35], names[:35], 0.1, 0.01)
    some = counts[120:, 5:].copy()
    some[3] = 0
    some[3, 44] = 7  # a document of a new word alone
    new = store(home / "n.zarr", some, some[:0], [f"word{w}" for w in range(5, 50)])
    groups = np.array([0, 1, -1, 2, -1, -1] + [0, 1] * 17, np.int32)
    return corpus, model, new, some, groups


def test_figures_of_groups_by_hand(small):
    """Words 5 to 39 were seen, those past 35 by the corpus alone; group 2 has one new word."""
    corpus, model, new, counts, groups = small
    sizes = np.bincount(groups[groups >= 0]).tolist()
    given = DocumentGroups(new, {"train": groups}, sizes)
    found = measure_groups(model, corpus, given, 1)
    old = score_model(model, corpus).perplexity
    shares = np.concatenate([block.shares for block in document_shares(model, new)])
    old_shares = np.concatenate([block.shares for block in document_shares(model, corpus)])
    pieces = []
    score_model(model, new, parts=("train",), on_block=lambda *piece: pieces.append(piece))
    loglik, tokens = (np.concatenate(some) for some in zip(*pieces, strict=True))
    for group in (0, 1):
        mine = groups == group
        there = counts[mine].sum(axis=0) > 0
        assert found[group].documents == mine.sum() and found[group].words == there.sum()
        assert found[group].seen_words == pytest.approx(there[:35].sum() / there.sum())
        unknown = counts[mine][:, 35:].sum() / counts[mine].sum()
        assert found[group].unknown_tokens == pytest.approx(unknown)
        perplexity = np.exp(-loglik[mine].sum() / tokens[mine].sum())
        assert found[group].perplexity_new == pytest.approx(perplexity)
        assert found[group].perplexity_old == old
        assert found[group].perplexity == pytest.approx(perplexity / old)
        usage = distance.jensenshannon(shares[mine].mean(axis=0), old_shares.mean(axis=0), base=2)
        assert found[group].usage == pytest.approx(usage, rel=1e-4)
    assert found[2] == Drift(1, 1, seen_words=0.0, unknown_tokens=1.0)
    strange = TopicModel.from_arrays(np.ones((2, 3)), ["x", "y"], 0.1, 0.01)
    unscored = measure_groups(strange, None, given, 1)
    assert [figures.perplexity_new for figures in unscored] == [None, None, None]
    [alone] = measure_groups(model, None, DocumentGroups.of_training(new), 1)
    there = counts.sum(axis=0) > 0
    assert alone.seen_words == pytest.approx(there[:30].sum() / there.sum())
    assert alone.perplexity_old is None and alone.perplexity is None and alone.usage is None
    assert alone.perplexity_new == pytest.approx(np.exp(-loglik.sum() / tokens.sum()))


def test_words_of_a_sample_are_those_that_its_documents_have():
    """The vocabulary of ``train --sample`` is that of all documents; word 0 is a word, too."""
    vocabulary = Vocabulary(as_words(["a", "b", "c"]), np.array([0, 1, 5]), np.array([0, 1, 2]))
    new = Vocabulary(as_words(["c", "b", "x", "a"]), np.ones(4), np.ones(4))
    for sample, expected in ({"share": 0.5}, [1, 1, 0, 0]), (None, [1, 1, 0, 1]):
        model = SimpleNamespace(vocabulary=vocabulary, manifest=SimpleNamespace(sample=sample))
        assert drift._mark_seen_words(new, model, None).tolist() == expected


def test_usage_is_compared_with_held_out_documents_if_they_are_enough(small, monkeypatch):
    corpus, model, new, _, _ = small
    heldout = [block.shares for block in document_shares(model, corpus, heldout=True)]
    training = [block.shares for block in document_shares(model, corpus)]
    mine = [block.shares[block.counted] for block in document_shares(model, new)]
    mean = np.concatenate(mine).mean(axis=0, dtype=float)
    assert drift.ENOUGH == 200
    for enough, old in ((30, heldout), (31, training)):
        monkeypatch.setattr(drift, "ENOUGH", enough)
        expected = distance.jensenshannon(mean, np.concatenate(old).mean(axis=0), base=2)
        assert measure(model, corpus, new, 1).usage == pytest.approx(expected, rel=1e-3)


def test_shares_are_averaged_over_documents_with_a_known_word(small, monkeypatch):
    _, model, new, counts, groups = small
    shares = np.concatenate([block.shares for block in document_shares(model, new)])
    known = counts[:, :30].sum(axis=1) > 0
    given = DocumentGroups(new, {"train": groups}, np.bincount(groups[groups >= 0]).tolist())
    for group, mean in enumerate(mean_shares(model, given, 1)):
        mine = shares[(groups == group) & known]
        expected = mine.mean(axis=0) if len(mine) else np.zeros(3)
        assert mean == pytest.approx(expected, rel=1e-5)
    assert drift.AT_MOST == 20_000


def test_groups_of_new_files_are_staged_one_after_the_other(monkeypatch, tmp_path):
    """The first has no document with a word, so the second makes the store and the third adds."""
    staged = []
    said = []
    removed = []

    def ingest_apart(paths, place, corpus, options):
        staged.append((paths[0].name, options["append"], options["workers"]))
        assert place == tmp_path / "incoming" / MEASURED
        if paths[0].name == "a":
            raise NothingKept("nothing")
        return paths[0].name

    figures = Drift(5, 900, 1.9994, 0.5, 1234.6, None, 2.0, None)
    monkeypatch.setattr(drift, "ingest_apart", ingest_apart)
    monkeypatch.setattr(drift.Corpus, "open", lambda path: "old")
    monkeypatch.setattr(drift, "measure", lambda model, corpus, new, threads: figures)
    monkeypatch.setattr(drift.owned, "remove", lambda place, kind: removed.append(place))
    config = SimpleNamespace(
        folder=tmp_path,
        corpus=tmp_path / "c.zarr",
        train=SimpleNamespace(mem_limit=None, threads=3),
        ingest_options=lambda name: {},
    )
    log = SimpleNamespace(say=said.append)
    scan = SimpleNamespace(groups=lambda config: ["a", "b", "c"])
    assert drift.measure_raw_files(config, None, scan, 1, log) is figures
    assert staged == [("a", False, 3), ("b", False, 3), ("c", True, 3)]
    assert said == [
        "drift: documents 5, words 900, seen_words 1.999, unknown_tokens 0.500, "
        "perplexity_new 1,235, perplexity 2"
    ]
    assert removed == [tmp_path / "incoming" / MEASURED]
    nothing = SimpleNamespace(groups=lambda config: ["a"])
    assert drift.measure_raw_files(config, None, nothing, 1, log) is None and len(said) == 1


@pytest.mark.parametrize("append", [False, True])
def test_staged_documents_keep_every_word_and_are_all_training(append, monkeypatch, tmp_path):
    """Options that choose words or held-out documents are left out."""
    asked = {}
    monkeypatch.setattr(drift, "ingest", lambda paths, place, **given: asked.update(given))
    monkeypatch.setattr(drift.Corpus, "open", lambda place: place)
    recalled = []

    def recall(read, reading, *groups):
        recalled.append((reading, groups))
        return read

    monkeypatch.setattr(drift.ReadOptions, "recall", recall)
    corpus = SimpleNamespace(manifest=SimpleNamespace(reading="as read", tokenizer=None))
    options = {"append": append, "min_df": 9, "heldout": "5%", "drop_top": 3, "workers": 2}
    options |= {"text_field": "body"}
    assert ingest_apart(["f"], tmp_path, corpus, options) == tmp_path
    assert (asked["min_df"], asked["max_df"], asked["heldout"]) == (1, 1.0, 0)
    assert (asked["force"], asked["grow_vocab"]) == (not append, append)
    assert asked["recipe"] is None and asked["workers"] == 2 and asked["text_field"] == "body"
    assert asked["keep_text"] is False  # the texts of a store that is removed at once
    assert "drop_top" not in asked and len(recalled) == 1
    ingest_apart(["f"], tmp_path, corpus, {**options, "as_store": False})
    assert len(recalled) == 1
