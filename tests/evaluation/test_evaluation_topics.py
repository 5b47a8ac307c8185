"""Coherence, diversity, co-occurrence and matching against plain definitions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.small_store import planted, store
from topicstream.base.errors import DoesNotFit, InputError, UsageError
from topicstream.evaluation.coherence import (
    c_v,
    coherence,
    cooccurrence,
    diversity,
    exclusivity,
    mean_of_topics,
    npmi,
    umass,
)
from topicstream.evaluation.evaluate import evaluate, parse_split
from topicstream.evaluation.keys import describe_mismatch
from topicstream.evaluation.matching import compare, l1_distances
from topicstream.model.top import top_words
from topicstream.model.topic_model import TopicModel

W = 70
K = 4


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    counts, phi = planted(5, 300, W, K, length=25)
    counts[11] = 0
    corpus = store(tmp_path_factory.mktemp("c") / "corpus.zarr", counts, counts[:40], blocks=4)
    model = TopicModel.from_arrays(phi * 500, [f"word{i}" for i in range(W)], 0.2, 0.01)
    return counts, corpus, model


def test_cooccurrence_counts_documents(made):
    counts, corpus, _ = made
    there = counts > 0
    tops = np.array([[3, 1, 69, -1], [0, 3, 5, 7]])
    for threads in (1, 3):
        pairs, docs = cooccurrence(corpus, tops, threads)
        assert docs == 299
        for k, i, j in itertools.product(range(2), range(4), range(4)):
            known = min(tops[k, i], tops[k, j]) >= 0
            assert pairs[k, i, j] == (
                (there[:, tops[k, i]] & there[:, tops[k, j]]).sum() if known else 0
            )


def test_cooccurrence_over_many_blocks(tmp_path):
    there = np.random.default_rng(9).random((9001, 3)) < 0.3
    corpus = store(tmp_path / "long.zarr", there.astype(np.int64), there[:5].astype(np.int64))
    pairs, docs = cooccurrence(corpus, np.array([[0, 1, 2]]))
    assert docs == there.any(axis=1).sum()
    assert (pairs[0] == there.T.astype(int) @ there.astype(int)).all()


def test_coherence_by_its_definition(made):
    counts, corpus, model = made
    there = counts > 0
    found = coherence(model, corpus, top=6, threads=2)
    ids, _ = top_words(model, 6)
    for k in range(K):
        sums = []
        points = []
        for m, l in itertools.combinations(range(6), 2):  # m before l in the list
            v = ids[m, k]
            u = ids[l, k]
            both = (there[:, u] & there[:, v]).sum()
            cu = there[:, u].sum()
            cv = there[:, v].sum()
            if cv:
                sums.append(math.log((both + 1) / cv))
            if cu and cv:
                p = both / 299
                points.append(-1.0 if not both else math.log(p / (cu * cv / 299**2)) / -math.log(p))
        assert found.by_topic("umass")[k] == pytest.approx(np.mean(sums))
        assert found.by_topic("npmi")[k] == pytest.approx(np.mean(points))
    assert found.mean("umass") == pytest.approx(np.mean(found.by_topic("umass")))
    assert found.unknown == 0


def test_npmi_at_its_ends():
    never = np.array([[[5, 0], [0, 5]]])
    always = np.array([[[10, 0], [10, 10]]])
    absent = np.array([[[10, 0], [0, 0]]])
    assert npmi(never, 10)[0] == -1 and npmi(always, 10)[0] == 1 and np.isnan(npmi(absent, 10)[0])
    assert umass(always)[0] == pytest.approx(math.log(11 / 10))


def test_one_measure_of_words_may_be_asked_for(made):
    _, corpus, model = made
    every = evaluate(model, corpus, coherent=True)["coherence"]
    assert every["top"] == 10 and every["docs"] == 299
    found = coherence(model, corpus)
    for name in ("umass", "npmi", "c_v"):
        one = evaluate(model, corpus, coherent=name)["coherence"]
        assert one[name] == every[name] == pytest.approx(found.mean(name))
        assert [other for other in ("umass", "npmi", "c_v") if other in one] == [name]
        assert one[f"{name}_mean_topic"] == pytest.approx(found.values[name][-1])
        assert one[f"{name}_by_topic"] == found.by_topic(name)
    assert evaluate(model, corpus, coherent=True, top=2)["coherence"]["top"] == 2
    with pytest.raises(InputError):
        evaluate(model, corpus, coherent=True, top=1)
    assert evaluate(model, corpus, diverse=True)["diversity"]["top"] == 25


def test_words_unknown_to_the_corpus_are_counted(made):
    _, corpus, model = made
    other = TopicModel.from_arrays(
        model.phi, [f"none{i}" if i % 2 else f"word{i}" for i in range(W)], 0.2, 0.01
    )
    found = coherence(other, corpus, top=6)
    ids, _ = top_words(model, 6)
    assert found.unknown == (ids % 2 == 1).sum() > 0
    strange = TopicModel.from_arrays(model.phi, [f"none{i}" for i in range(W)], 0.2, 0.01)
    result = evaluate(strange, corpus, coherent=True)
    assert (
        result["coherence"]["npmi"] is None and result["coherence"]["npmi_by_topic"] == [None] * K
    )


def test_pairs_by_hand():
    """Documents of words 0, 1, 2: 4, 2, 3; 0 and 1 together in 2, 0 and 2 in 1, 1 and 2 in none."""
    pairs = np.array([[[4, 2, 1], [2, 2, 0], [1, 0, 3]]])
    expected = [math.log(3 / 4), math.log(2 / 4), math.log(1 / 2)]
    assert umass(pairs)[0] == pytest.approx(np.mean(expected))
    both, once = 2 / 8, 1 / 8
    points = [
        math.log(both / (4 / 8 * 2 / 8)) / -math.log(both),
        math.log(once / (4 / 8 * 3 / 8)) / -math.log(once),
        -1.0,
    ]
    assert npmi(pairs, 8)[0] == pytest.approx(np.mean(points))
    lacking = pairs.copy()
    lacking[0, 1] = lacking[0, :, 1] = 0  # no document has the second word
    assert umass(lacking)[0] == pytest.approx(np.mean([math.log(1 / 4), math.log(2 / 4)]))
    assert npmi(lacking, 8)[0] == pytest.approx(points[1])
    assert umass(np.array([[[1, 1], [1, 5]]]))[0] == pytest.approx(math.log(2 / 1))
    assert npmi(np.ones((1, 2, 2), int), 1)[0] == 1  # of one document
    assert np.isnan(npmi(np.zeros((1, 2, 2), int), 0)).all()
    assert np.isnan(umass(np.zeros((1, 2, 2), int))).all()


def test_the_words_found_in_most_documents_are_the_baseline(made):
    counts, corpus, model = made
    found = coherence(model, corpus, top=5)
    df = (counts > 0).sum(axis=0)
    common = np.argsort(-df, kind="stable")[:5]
    pairs, docs = cooccurrence(corpus, common[None])
    for name, value in (("umass", umass(pairs)), ("npmi", npmi(pairs, docs))):
        assert found.values[name][-1] == pytest.approx(value[0])
    assert len(found.by_topic("npmi")) == K and found.top == 5 and found.docs == 299


def test_the_baseline_of_a_corpus_of_few_words_has_these_alone(tmp_path):
    counts = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 1], [0, 1, 0]])
    corpus = store(tmp_path / "few.zarr", counts, counts[:1])
    model = TopicModel.from_arrays(np.eye(5), [f"word{i}" for i in range(5)], 0.1, 0.01)
    found = coherence(model, corpus, top=5)
    pairs, docs = cooccurrence(corpus, np.array([[0, 1, 2]]))
    assert found.values["npmi"][-1] == pytest.approx(npmi(pairs, docs)[0])
    assert found.unknown == 2 * 5  # two words in each of five topics


def test_means_leave_out_what_is_unknown_or_not_live():
    kinds = ["live", "dead", "live", "background", "live"]
    assert mean_of_topics([0.1, 0.9, None, 0.8, 0.4], kinds) == pytest.approx(0.25)
    assert mean_of_topics([None, 0.9], ["live", "dead"]) is None


def test_exclusivity_by_hand():
    phi = np.array([[6.0, 0], [3, 1], [1, 9], [0, 0]])
    model = TopicModel.from_arrays(phi, ["a", "b", "c", "d"], 0.1, 0.0)
    assert exclusivity(model, 2) == pytest.approx([(1 + 0.75) / 2, (0.9 + 0.25) / 2])
    assert exclusivity(model, 1) == pytest.approx([1.0, 0.9])


def test_diversity_counts_live_topics_alone():
    """Of three topics the last is dead; two share one of their two words."""
    phi = np.array([[9.0, 0, 0], [8, 9, 0], [0, 8, 0], [0, 0, 0.2], [0, 0, 0.1]])
    model = TopicModel.from_arrays(phi * 100, list("abcde"), 0.1, 0.0, corpus={"docs": 20})
    assert model.kinds == ["live", "live", "dead"]
    assert diversity(model, 2) == 0.75


def test_diversity():
    apart = np.eye(4).repeat(3, axis=0)
    same = np.tile(np.arange(12.0, 0, -1)[:, None], (1, 4))
    names = [f"w{i}" for i in range(12)]
    assert diversity(TopicModel.from_arrays(apart, names, 0.1, 0.0), 3) == 1.0
    assert diversity(TopicModel.from_arrays(same, names, 0.1, 0.0), 3) == 0.25


def test_distances_over_two_vocabularies(made):
    _, _, model = made
    rng = np.random.default_rng(2)
    names = [f"word{i}" for i in range(20, 90)]
    other = TopicModel.from_arrays(rng.gamma(0.2, size=(70, 6)) * 90, names, 0.1, 0.05)
    dense = np.zeros((90, K)), np.zeros((90, 6))
    dense[0][:70] = model.probabilities(np.arange(W))
    dense[1][20:] = other.probabilities(np.arange(70))
    expected = np.abs(dense[0][:, :, None] - dense[1][:, None, :]).sum(axis=0)
    assert np.allclose(l1_distances(model, other), expected, atol=1e-5)
    assert np.allclose(l1_distances(other, model), expected.T, atol=1e-5)


def test_compare_finds_a_permutation_and_what_changed(made, tmp_path, monkeypatch):
    _, _, model = made
    order = [2, 0, 3]
    phi = model.phi[:, order].copy()
    first = int(np.argmax(model.phi[:, 2]))
    phi[first, 0] = 0  # the first word of topic 2 is lost in the other model
    other = TopicModel.from_arrays(phi, model.vocabulary, 0.2, 0.01)
    other.save(tmp_path / "b")
    model.save(tmp_path / "a")
    told = []
    result = compare(
        tmp_path / "a", tmp_path / "b", words=5, progress=lambda *done: told.append(done)
    )
    assert told[-1][1:] == (model.n_words, model.n_words)
    monkeypatch.setattr("topicstream.base.memory.PROCESS_BYTES", 500 << 20)
    with pytest.raises(DoesNotFit, match=r"scoring .*a beside .*b does not fit 512 MB"):
        compare(tmp_path / "a", tmp_path / "b", mem_limit="512M")
    monkeypatch.undo()
    assert {(m["a"], m["b"]) for m in result["matched"]} == {(2, 0), (0, 1), (3, 2)}
    by = {m["a"]: m for m in result["matched"]}
    assert by[2]["lost"] == [f"word{first}"] and len(by[2]["gained"]) == 1
    assert by[0]["lost"] == by[0]["gained"] == [] and by[0]["distance"] == pytest.approx(
        0, abs=1e-6
    )
    assert [t["topic"] for t in result["unmatched_a"]] == [1] and result["unmatched_b"] == []
    assert result["vocabulary"] == {"a": W, "b": W, "common": W}
    nothing = compare(tmp_path / "a", tmp_path / "b", far=0.0)
    assert all(m["distance"] == 0 for m in nothing["matched"])
    assert len(nothing["unmatched_a"]) + len(nothing["matched"]) == K


def test_evaluate_measures_what_is_asked(made, tmp_path):
    _, corpus, model = made
    everything = evaluate(model, corpus)
    assert {"heldout", "coherence", "diversity"} <= set(everything) and "training" not in everything
    only = evaluate(model, corpus, training=True)
    assert set(only) == {"model", "topics", "words", "corpus", "training"}
    other = evaluate(model, "nowhere.zarr", heldout=corpus.path)
    assert other["heldout"]["docs"] > everything["heldout"]["docs"]
    none = store(tmp_path / "none.zarr", made[0], made[0][:0])
    assert "heldout" not in evaluate(model, none) and "set aside" in evaluate(model, none)["note"]
    with pytest.raises(InputError, match="set aside"):
        evaluate(model, none, heldout=True)
    with pytest.raises(InputError, match="no such file"):
        evaluate(model, none, heldout=tmp_path / "missing")


def test_splits():
    assert parse_split("80/20") == parse_split(0.8) == parse_split("0.8") == 0.8
    assert parse_split("90/10") == 0.9
    assert parse_split("0/100") == parse_split(0) == 0.0
    for wrong in ("x", "100/0", "-1/2", "80/", "1.5", "0/0"):
        with pytest.raises(InputError, match="--split"):
            parse_split(wrong)


def test_a_document_of_which_nothing_is_read_has_the_topics_of_the_prior(made):
    counts, corpus, model = made
    found = evaluate(model, corpus, heldout=True, split="0/100")["heldout"]
    rows = model.rows(np.arange(W))[:, :K] + model.beta
    p = (rows / rows.sum(axis=0)) @ (model.alpha / model.alpha.sum())
    aside = counts[:40].sum(axis=0)
    assert found["perplexity"] == pytest.approx(np.exp(-(aside @ np.log(p)) / aside.sum()), 1e-5)
    assert "none of them is read" in found["measured"] and found["skipped"] == 1


def test_c_v_by_its_definition(made):
    """As gensim 4 computes it (on 4,000 abstracts the same to 2e-16), word by word."""
    counts, corpus, model = made
    found = coherence(model, corpus, top=6)
    there = counts > 0
    docs = int((counts.sum(axis=1) > 0).sum())
    ids, _ = top_words(model, 6)

    def npmi_of(u: int, v: int) -> float:
        both = (there[:, u] & there[:, v]).sum() / docs + 1e-12
        return math.log(both / (there[:, u].sum() * there[:, v].sum() / docs**2)) / -math.log(both)

    for k in range(K):
        words = ids[:, k]
        vectors = {u: np.array([npmi_of(u, v) for v in words]) for u in words}
        whole = sum(vectors.values())
        cosines = [v @ whole / np.linalg.norm(v) / np.linalg.norm(whole) for v in vectors.values()]
        assert found.by_topic("c_v")[k] == pytest.approx(np.mean(cosines), abs=1e-9)
    assert found.mean("c_v") == pytest.approx(np.mean(found.by_topic("c_v")))


def test_c_v_of_words_that_never_meet():
    """Of 10 documents 4 have the first word, 5 the second, none both: 1e-12 stands for none."""
    point = math.log(1e-12 / (0.4 * 0.5)) / -math.log(1e-12)
    # a word in 4 of 10 documents shares all of them with itself
    first = np.array([math.log(0.4 / 0.16) / -math.log(0.4), point])
    second = np.array([point, math.log(0.5 / 0.25) / -math.log(0.5)])
    whole = first + second
    cosines = [v @ whole / np.linalg.norm(v) / np.linalg.norm(whole) for v in (first, second)]
    assert c_v(np.array([[[4, 0], [0, 5]]]), 10)[0] == pytest.approx(np.mean(cosines), abs=1e-9)


def test_c_v_of_another_corpus_leaves_out_what_it_lacks(tmp_path):
    pairs = np.array([[[4, 2, 0], [2, 4, 0], [0, 0, 0]], [[0, 0, 0]] * 3])
    found = c_v(pairs, 10)
    assert found[0] == pytest.approx(c_v(pairs[:1, :2, :2], 10)[0]) and np.isnan(found[1])


def test_a_model_that_knows_a_tenth_of_the_tokens_is_told_of_and_of_less_refused(tmp_path):
    words = [f"word{i}" for i in range(10)]
    for first, refused in ((10, False), (9, True)):
        counts = np.array([[first, *[10] * 8, 20 - first]])
        assert counts.sum() == 100
        corpus = store(tmp_path / f"{first}.zarr", counts, counts, words)
        model = TopicModel.from_arrays(
            np.ones((2, 2)), ["word0", "other"], 0.1, 0.01, corpus={"fingerprint": "another"}
        )
        if refused:
            with pytest.raises(UsageError, match=r"knows 9.0 % of this one's tokens"):
                describe_mismatch(model, corpus)
        else:
            assert "it knows 10 % of its tokens" in describe_mismatch(model, corpus)
