"""``topics train --covariates 'regimes(date, 3)'``: learned bounds, bits, new dates."""

from __future__ import annotations

import io
from functools import partial

import numpy as np
import pytest
from checkpoint_bits import content_hash

import topicstream
from tests.training.covariate_runs import (
    check_held_out_perplexity,
    check_mean_alpha,
    ingest_documents,
    train_and_stop,
    train_quietly,
)
from topicstream.base.errors import InputError
from topicstream.base.progress import Shown
from topicstream.cli.main import run as run_command
from topicstream.model.design import decode_design
from topicstream.model.topic_model import TopicModel

FORMULA = "regimes(date, 3) + party"
COLUMNS = ("party", "date")
PLANTED = ["1990 to 1993", "1994 to 2002", "2003 to 2009"]
STATES = np.searchsorted([1994, 2003], np.arange(1990, 2010), side="right")
SHARES = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.2, 0.6, 0.1], [0.1, 0.2, 0.1, 0.6]])


def documents(number, seed=0):
    """Short documents of twenty years, of which topics change in 1994 and 2003."""
    rng = np.random.default_rng(seed)
    listed = []
    for d in range(number):
        year = int(rng.integers(1990, 2010))
        shares = rng.dirichlet(2.0 * SHARES[STATES[year - 1990]])
        words = rng.multinomial(8, shares).repeat(1)
        text = [
            f"{'abcd'[k] * 3}{'efghijklmn'[i]}"
            for k, times in enumerate(words.tolist())
            for i in rng.integers(0, 10, times).tolist()
        ]
        document = {"id": f"d{d}", "text": " ".join(text), "party": ("red", "blue")[d % 2]}
        listed.append(document | ({"date": f"{year}-05-01"} if d % 9 else {}))
    return listed


run = partial(train_quietly, passes=14, covariates=FORMULA)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("regimes") / "corpus.zarr"
    return ingest_documents(documents(900), path, COLUMNS)


@pytest.fixture(scope="module")
def model(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    run(corpus, folder, passes=30, block_cells=None, round_blocks=None)
    return folder


@pytest.mark.quick("sparse-bp")
@pytest.mark.parametrize("algo", ["bp", "cvb0", "sparse-bp", "sparselda"])
def test_planted_regimes_are_found(corpus, tmp_path, algo):
    run(corpus, tmp_path / "model", algo, passes=20)
    opened = TopicModel.open(tmp_path / "model")
    dates = decode_design(opened.manifest.covariates).regimes
    assert dates.levels == PLANTED
    assert [max(weights, key=weights.get) for weights in dates.weights] == ["1994", "2003"]
    names = [f"date={PLANTED[1]}", f"date={PLANTED[2]}", "date=(missing)"]
    assert opened.table("lambda").names.to_pylist()[1:4] == names
    alpha = np.exp(opened.coefficients[0] + np.vstack((np.zeros(4), opened.coefficients[1:3])))
    assert len(set(alpha.argmax(1).tolist())) == 3  # each regime has a topic of its own


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """Bits of a run that was not stopped, on one thread."""
    folder = tmp_path_factory.mktemp("whole") / "model"
    run(corpus, folder)
    return content_hash(folder)


def test_threads_leave_no_trace(corpus, whole, tmp_path):
    run(corpus, tmp_path / "model", threads=2)
    assert content_hash(tmp_path / "model") == whole


@pytest.mark.quick("11")
@pytest.mark.parametrize("stopped", [11, 23])
def test_a_run_that_was_stopped_ends_in_the_same_bits(
    corpus, whole, tmp_path, stopped, monkeypatch
):
    """While regimes are looked for, and after they have a say."""
    folder = tmp_path / "model"
    options = {"passes": 14, "covariates": FORMULA}
    train_and_stop(monkeypatch, stopped, corpus, folder, **options)
    run(corpus, folder, threads=2)
    assert content_hash(folder) == whole


def test_alpha_of_a_model_is_the_mean_of_its_documents(corpus, model):
    check_mean_alpha(corpus, model, COLUMNS)


def test_held_out_documents_are_judged_by_their_regime_in_training(corpus, tmp_path):
    check_held_out_perplexity(corpus, tmp_path / "model", covariates=FORMULA)


def test_regimes_predict_held_out_documents(corpus, model):
    unread = topicstream.evaluate(model, corpus, heldout=True, split="0/100", progress=False)
    own, mean = unread["heldout"], unread["heldout_mean_prior"]
    assert own["perplexity"] < 0.97 * mean["perplexity"]


def test_new_dates_take_their_regime(model, capsys):
    dates = ["1900", "1991-02-02", "1994-01-01", "2002-12-31", "2050", "unknown"]
    new = [{"text": "aaae ccce ddde", "date": date} for date in dates]
    answers = topicstream.infer(model, new, top=1, progress=Shown(0))
    topics = answers["topics"].to_pylist()
    assert topics[0] == topics[1] and topics[2] == topics[3]
    assert len({topics[1][0], topics[2][0], topics[4][0]}) == 3
    told = capsys.readouterr().err
    assert (
        "date: 2 documents lie outside of 1990 to 2009, the range that the model learned from; the "
        "first or the last regime is taken"
    ) in told
    assert "date: 1 document has a value that is no date ('unknown')" in told


def test_an_update_keeps_the_regimes(tmp_path, capsys):
    store = tmp_path / "corpus.zarr"
    meta = {"party": "party", "date": "date"}
    topicstream.ingest(documents(300), out=store, meta=meta, min_df=1, progress=False)
    run(store, tmp_path / "model", passes=12)
    before = TopicModel.open(tmp_path / "model")
    began = before.coefficients
    new = [{**d, "id": "new" + d["id"], "date": "2012-01-01"} for d in documents(30, seed=5)]
    topicstream.ingest(new, out=store, append=True, meta=meta, progress=False)
    topicstream.update(store, tmp_path / "model", passes=3, progress=Shown(0))
    after = TopicModel.open(tmp_path / "model")
    assert after.manifest.covariates.columns == before.manifest.covariates.columns
    told = capsys.readouterr().err
    assert "documents lie outside of 1990 to 2009" in told
    assert 0 < np.abs(after.coefficients - began).max() < 1.5


def test_training_says_which_periods_it_divides(corpus, tmp_path):
    said = io.StringIO()
    run(corpus, tmp_path / "model", passes=1, progress=Shown(1, stream=said))
    told = said.getvalue()
    assert "regimes(date, 3, year): of 20 years with documents, 1990 to 2009" in told
    assert "4 coefficients a topic" in told  # two regimes, no date, a party
    assert "regimes need 11 passes" in told


def test_regimes_that_cannot_be_are_refused(corpus, tmp_path):
    with pytest.raises(InputError, match="neither a date nor a whole number"):
        run(corpus, tmp_path / "model", covariates="regimes(party, 2)")
    with pytest.raises(InputError, match="use at most 50,000 topics"):
        run(corpus, tmp_path / "model", algo="bp", topics=60_000)
    assert not (tmp_path / "model").exists()


def test_info_names_the_regimes(model, capsys):
    assert not run_command(["info", str(model)])
    told = capsys.readouterr().out
    assert f"regimes      of date: {', '.join(PLANTED)}" in told
