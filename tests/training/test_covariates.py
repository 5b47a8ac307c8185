"""``topics train --covariates``: the prior of each document depends on its metadata."""

from __future__ import annotations

import io
import json
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from checkpoint_bits import content_hash

import topicstream
from tests.model.test_design import design_of
from tests.training.covariate_runs import (
    check_held_out_perplexity,
    check_mean_alpha,
    ingest_documents,
    train_and_stop,
    train_quietly,
)
from topicstream.base.errors import InputError, TopicsError, UsageError
from topicstream.base.progress import Shown
from topicstream.cli.main import run as run_command
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import score_model
from topicstream.model.design import decode_design
from topicstream.model.topic_model import TopicModel
from topicstream.training.covariates import MOST_COEFFICIENTS, prior_shape
from topicstream.training.loop import train

PARTIES = ("blue", "green", "red")
ENGINES = ("bp", "cvb0", "sparse-bp", "sparselda")
FORMULA = "party + s(date, 4) + labels"
COLUMNS = ("party", "date", "labels")


def documents(number: int, seed: int = 0) -> list[dict]:
    """Short documents: each party has a topic of its own, a fourth one grows over the years."""
    rng = np.random.default_rng(seed)
    listed = []
    for d in range(number):
        party = d % 3
        year = int(rng.integers(1990, 2020))
        shares = np.full(4, 0.05)
        shares[party] = 0.7
        shares[3] = 0.02 + 0.03 * (year - 1990)
        topics = rng.choice(4, int(rng.integers(4, 12)), p=shares / shares.sum())
        words = [
            f"{'abcd'[k] * 3}{'efghijklmn'[i]}" for k, i in zip(topics, rng.integers(0, 10, 12))
        ]
        document = {
            "id": f"d{d}",
            "text": " ".join(words),
            "party": PARTIES[party],
            "date": f"{year}-05-01",
            "labels": ["odd"] if d % 7 == 0 else [],
        }
        if d % 11 == 0:
            del document["party"]
        listed.append(document)
    return listed


run = partial(train_quietly, passes=9, covariates=FORMULA)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("covariates") / "corpus.zarr"
    return ingest_documents(documents(900), path, COLUMNS)


@pytest.fixture(scope="module")
def model(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    run(corpus, folder, passes=40, block_cells=None, round_blocks=None)
    return folder


@pytest.mark.quick("sparse-bp")
@pytest.mark.parametrize("algo", ENGINES)
def test_documents_are_predicted_from_their_covariates(corpus, tmp_path, algo):
    run(corpus, tmp_path / "own", algo, passes=30)
    run(corpus, tmp_path / "shared", algo, passes=30, covariates=None)
    store = Corpus.open(corpus)
    scores = {}
    for name in ("own", "shared"):
        scores[name] = score_model(TopicModel.open(tmp_path / name), store, split=0.2).perplexity
    assert scores["own"] < 0.93 * scores["shared"]


def test_a_model_names_its_coefficients(model):
    opened = TopicModel.open(model)
    entry = opened.manifest.covariates
    assert entry.formula == FORMULA and entry.intercept_sd == 10.0
    of_parties, of_date, of_labels = entry.learned_sd
    assert min(of_parties, of_date) > 0.3 > of_labels  # labels say nothing of the words
    names = opened.table("lambda").names.to_pylist()
    assert names == decode_design(entry).names
    parties = [f"party={level}" for level in entry.columns[0].levels[1:]]
    assert names[:5] == ["(intercept)", *parties, "party=(missing)", "s(date).1"]
    assert names[-1] == "labels=odd"
    coefficients = opened.coefficients
    shares = np.exp(coefficients[0] + coefficients[1:4])
    # green, red and, as the reference, blue have the largest alpha in different topics
    assert len({int(np.exp(coefficients[0]).argmax()), *shares[:2].argmax(1).tolist()}) == 3
    assert opened.alpha == pytest.approx(opened.alpha.clip(1e-4, 10))


def test_alpha_of_a_model_is_the_mean_of_its_documents(corpus, model):
    check_mean_alpha(corpus, model, COLUMNS)


@pytest.mark.quick("sparse-bp")
@pytest.mark.parametrize("algo", ["sparse-bp", "sparselda"])
def test_threads_leave_no_trace(corpus, tmp_path, algo):
    hashes = set()
    for threads in (1, 2, 4):
        folder = tmp_path / f"{threads}"
        run(corpus, folder, algo, threads=threads)
        hashes.add(content_hash(folder))
    assert len(hashes) == 1


@pytest.mark.quick("bp")
@pytest.mark.parametrize("algo", ["sparse-bp", "bp"])
def test_a_run_that_was_stopped_ends_in_the_same_bits(corpus, tmp_path, algo, monkeypatch):
    run(corpus, tmp_path / "whole", algo)
    options = {"algo": algo, "passes": 9, "covariates": FORMULA}
    # within pass 6, whose documents are counted
    train_and_stop(monkeypatch, 11, corpus, tmp_path / "model", **options)
    run(corpus, tmp_path / "model", algo, threads=2)
    assert content_hash(tmp_path / "model") == content_hash(tmp_path / "whole")


def test_a_run_with_another_formula_is_not_continued(corpus, tmp_path):
    run(corpus, tmp_path / "model", passes=3)
    with pytest.raises(TopicsError, match=r"--covariates .* -> party"):
        run(corpus, tmp_path / "model", passes=5, covariates="party")
    run(corpus, tmp_path / "model", passes=5)


@pytest.mark.parametrize("algo", ["sparse-bp", "sparselda"])
def test_a_run_too_short_to_learn_from_covariates_warns(corpus, tmp_path, algo):
    """Priors of a run that ends before the engine learns them are those it began with."""
    for passes, warns in ((3, True), (4, False)):
        said = io.StringIO()
        train(
            corpus,
            tmp_path / f"m{passes}",
            algo=algo,
            topics=4,
            passes=passes,
            covariates="party",
            options={"learn_after": 3},
            progress=Shown(1, stream=said),
        )
        assert ("--covariates will change nothing" in said.getvalue()) is warns


def test_an_intercept_alone_changes_nothing_before_it_is_learned(corpus, tmp_path):
    """Until its first step a run is that without covariates."""
    given = {"passes": 2, "learn_priors": False}
    run(corpus, tmp_path / "with", **given)
    run(corpus, tmp_path / "without", covariates=None, **given)
    own, shared = (TopicModel.open(tmp_path / name) for name in ("with", "without"))
    words = np.arange(own.n_words)
    np.testing.assert_allclose(own.rows(words), shared.rows(words), rtol=1e-4, atol=1e-4)
    assert own.alpha == pytest.approx(shared.alpha)


@pytest.mark.product
def test_permuted_covariates_do_no_harm(tmp_path):
    listed = documents(900, seed=3)
    order = np.random.default_rng(1).permutation(len(listed)).tolist()
    for document, other in zip(listed, order):
        document["other"] = PARTIES[other % 3]
    store = tmp_path / "corpus.zarr"
    meta = {"other": "other"}
    topicstream.ingest(listed, out=store, meta=meta, heldout=0.2, min_df=1, progress=False)
    scores = []
    for number, deviation in enumerate((None, 1e-3)):  # the second has intercepts alone
        folder = tmp_path / str(number)
        given = {"covariates": "other", "covariate_sd": deviation, "tol": 0}
        train(store, folder, topics=4, passes=40, progress=False, **given)
        scores.append(score_model(TopicModel.open(folder), Corpus.open(store)).perplexity)
    assert scores[0] < 1.003 * scores[1]
    (learned,) = TopicModel.open(tmp_path / "0").manifest.covariates.learned_sd
    assert learned < 0.05


@pytest.mark.parametrize("algo", ["atbp", "gs", "vb", "sibp"])
def test_other_engines_refuse_in_one_line(corpus, tmp_path, algo):
    with pytest.raises(UsageError, match=f"{algo} has .*choose bp, cvb0, sparse-bp, sparselda"):
        run(corpus, tmp_path / "model", algo)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("covariates", "error", "told"),
    [
        ("partei", InputError, "no such column"),
        ("party +", UsageError, "expected a column"),
        ("s(party)", InputError, "neither a number nor a date"),
        ("s(labels)", InputError, "several values"),
    ],
)
def test_a_formula_that_cannot_be_is_refused(corpus, tmp_path, covariates, error, told):
    with pytest.raises(error, match=told):
        run(corpus, tmp_path / "model", covariates=covariates)


def test_too_many_coefficients_are_refused_with_the_number_that_would_do(corpus, tmp_path):
    with pytest.raises(InputError, match="use at most 250,000 topics") as refused:
        run(corpus, tmp_path / "model", topics=300_000, algo="bp", covariates="party")
    assert f"{MOST_COEFFICIENTS:,}" in str(refused.value)


def test_a_formula_that_costs_too_much_is_refused_with_the_number_that_would_do(corpus, tmp_path):
    """Six numbers a document: 20,000 products leave 3,333 topics, or four numbers for 5,000."""
    given = {"algo": "bp", "covariates": "party + s(date, 4)"}
    with pytest.raises(InputError, match=r"3,333 topics \(-K\) or 4 numbers"):
        run(corpus, tmp_path / "model", topics=5_000, **given)
    config = SimpleNamespace(
        warm=None, covariates="", covariate_sd=1.0, intercept_sd=5.0, covariate_means=0.5
    )
    assert prior_shape(design_of("party + s(year, 4)"), config, 3_333).longest == 6
    squared = " + ".join(f"s(year, {df})" for df in range(4, 40))
    with pytest.raises(InputError, match="use at most 141 numbers"):
        prior_shape(design_of(squared), config, 100)


def test_a_sample_has_its_own_covariates(corpus, tmp_path):
    run(corpus, tmp_path / "model", sample=0.5)
    entry = TopicModel.open(tmp_path / "model").manifest.covariates
    party = entry.columns[0]
    assert sum(party.documents) + party.absent < 0.6 * Corpus.open(corpus).n_docs


def test_evaluation_prints_both_figures(corpus, model):
    scores = topicstream.evaluate(model, corpus, heldout=True, split=0.2, progress=False)
    own, mean = scores["heldout"], scores["heldout_mean_prior"]
    assert own["perplexity"] < 0.95 * mean["perplexity"]
    assert own["measured"].endswith(f"each with the prior of its covariates, {FORMULA}")
    assert mean["measured"].endswith("the mean prior of all documents")
    unread = topicstream.evaluate(model, corpus, heldout=True, split="0/100", progress=False)
    own, mean = unread["heldout"], unread["heldout_mean_prior"]
    assert own["perplexity"] < 0.9 * mean["perplexity"]


def test_held_out_documents_are_judged_by_their_own_prior_in_training(corpus, tmp_path):
    check_held_out_perplexity(corpus, tmp_path / "model", covariates=FORMULA)


def test_new_documents_bring_their_covariates(model, tmp_path):
    given = {"top": 1, "progress": False}
    text = "aaae bbbf"  # as much of blue as of green
    new = [{"text": text, "party": p, "date": "1991-01-01"} for p in ("blue", "green", "yellow")]
    answers = topicstream.infer(model, [*new, {"text": text}], **given)
    blue, green, _, nothing = answers["topics"].to_pylist()
    assert blue != green
    plain = topicstream.infer(model, [text], **given)
    assert plain["shares"].to_pylist()[0] == answers["shares"].to_pylist()[3]
    assert plain["topics"].to_pylist()[0] == nothing
    assert set(answers.column_names) == set(plain.column_names)
    without = topicstream.infer(model, new, covariates=False, **given)
    assert without["shares"].to_pylist() == plain["shares"].to_pylist() * 3


def test_what_the_model_has_not_met_is_said(model, capsys):
    new = [{"text": "aaae", "party": "yellow", "date": "2050-01-01"}, {"text": "aaae"}]
    new.append({"text": "aaae", "party": "blue", "date": "1991-01-01"})
    topicstream.infer(model, new, progress=Shown(0))
    told = capsys.readouterr().err
    assert "party: 1 document has a value that the model has not met ('yellow')" in told
    assert "date: 1 document lies outside of 1990.33 to 2019.33" in told
    assert "1 document without party, date, labels has the mean prior" in told


def test_following_says_first_which_prior_documents_have(model, monkeypatch, capsys):
    line = json.dumps({"text": "aaae", "party": "blue"}).encode() + b"\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(line))))
    assert not run_command(["infer", "-", "--follow", "--model", str(model)])
    told = capsys.readouterr()
    assert "covariates: each document has the prior of its party, date, labels" in told.err
    assert json.loads(told.out)["tokens"] == 1.0


def test_info_names_the_formula(model, capsys):
    assert not run_command(["info", str(model)])
    told = capsys.readouterr().out
    assert f"covariates   {FORMULA}; alpha is its mean" in told
    assert "deviations learned: party " in told


def test_an_update_keeps_the_design(corpus, tmp_path, capsys):
    store = tmp_path / "corpus.zarr"
    meta = {name: name for name in ("party", "date", "labels")}
    topicstream.ingest(documents(300), out=store, meta=meta, min_df=1, progress=False)
    run(store, tmp_path / "model")
    before = TopicModel.open(tmp_path / "model")
    began = before.coefficients
    new = [{**d, "id": "new" + d["id"], "party": "yellow"} for d in documents(30, seed=5)]
    topicstream.ingest(new, out=store, append=True, meta=meta, progress=False)
    topicstream.update(store, tmp_path / "model", passes=4, progress=Shown(0))
    after = TopicModel.open(tmp_path / "model")
    assert after.manifest.covariates.columns == before.manifest.covariates.columns
    told = capsys.readouterr().err
    assert "documents have a value that the model has not met ('yellow')" in told
    moved = np.abs(after.coefficients - began).max()
    assert 0 < moved < 1.5  # it began where the model had ended


def test_the_engine_is_told_the_terms_of_the_columns_and_their_norms():
    """Years 1990 to 2020 of mean 2001 6/7: the last one lies furthest from it."""
    design = design_of("party + year + labels", keeps_absent=False)
    config = SimpleNamespace(
        warm=None, covariates="", covariate_sd=2.0, intercept_sd=5.0, covariate_means=0.5
    )
    shape = prior_shape(design, config, 3)
    assert len(shape.names) == 7
    assert list(shape.term_of) == [0, 1, 1, 2, 3, 3, 3]
    years = np.array([1990, 1995, 2000, 2010, 2004, 1992, 2020])
    furthest = (2020 - years.mean()) / years.std()
    np.testing.assert_allclose(shape.norms, [1.0, 1.0, furthest, 2.0], rtol=1e-9)
    assert (shape.slope_sd, shape.intercept_sd) == (2.0, 5.0)
    assert not shape.learns_sd and shape.mean_weight == 0.5
    assert prior_shape(None, config, 3) is None
