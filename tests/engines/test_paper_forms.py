"""The papers' own forms and what is said of ours: default priors in the help, bounds of learned
priors, names of figures.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests import few_quick
from tests.small_store import planted, store
from topicstream.base.errors import UsageError
from topicstream.cli.main import run
from topicstream.engines import engines
from topicstream.engines.base import Shape
from topicstream.model.store import read_history
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train


@pytest.mark.parametrize("name", sorted(engines()))
@pytest.mark.parametrize("topics", [7, 40])
def test_the_help_prints_the_engines_own_default_priors(name, topics):
    kind = engines()[name]
    axes = {axis: 50 for axis in kind.about.axes}
    shape = Shape(
        docs=100, words=500, cells=10_000, tokens=20_000.0, topics=topics, axes=axes, rows=100
    )
    params = kind(shape, kind.Options()).initial_params()
    for said, value in zip(kind.about.priors.texts, (params["alpha"], params["beta"]), strict=True):
        number, _, over = said.partition("/")
        assert np.allclose(value, float(number) / (topics if over == "K" else 1))


def test_the_help_of_an_engine(capsys):
    assert run(["train", "--algo", "mvi", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "per topic (default: 0.5/K)" in text and "per word (default: 0.1)" in text
    assert "Running perplexity" in text


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    matrix, _ = planted(3, 120, 60, 5)
    return store(tmp_path_factory.mktemp("forms") / "c.zarr", matrix, matrix[:10])


@pytest.mark.parametrize("algo", ["bp", "atbp", "sparse-bp"])
def test_learned_priors_at_a_bound_are_told_once_and_the_bound_is_an_option(corpus, tmp_path, algo):
    lines: list[str] = []

    class Tell:
        def say(self, line):
            lines.append(line)

        def step(self, *_, **__): ...
        def end_pass(self, *_): ...
        def close(self): ...

    options = {"learn_priors": True, "prior_reach": 1.01}
    done = train(
        corpus.path,
        tmp_path / "m",
        algo=algo,
        topics=5,
        passes=4,
        tol=0,
        options=options,
        progress=Tell(),
    )
    found = [line for line in lines if "--prior-reach" in line]
    assert len(found) == 1 and "at a bound" in found[0] and "1.01 times" in found[0]
    assert done.last["priors_held"] > 0
    alpha = json.loads((tmp_path / "m" / "manifest.json").read_text())["alpha"]
    began = {"bp": 0.01, "atbp": 2 / 5, "sparse-bp": 0.1}[algo]
    values = np.atleast_1d(alpha)
    assert (values >= began / 1.01 * (1 - 1e-6)).all() and (
        values <= began * 1.01 * (1 + 1e-6)
    ).all()
    wide = {"learn_priors": True, "prior_reach": 1e6}
    far = train(corpus.path, tmp_path / "wide", algo=algo, topics=5, passes=4, tol=0, options=wide)
    assert far.last["priors_held"] == 0


def test_the_samplers_bounds_are_options(corpus, tmp_path):
    own = {"learn_after": 1, "learn_every": 1, "prior_low": 0.9, "prior_high": 1.1}
    done = train(
        corpus.path, tmp_path / "m", algo="gs", topics=5, passes=4, options=own, progress=False
    )
    alpha = np.array(json.loads((tmp_path / "m" / "manifest.json").read_text())["alpha"])
    assert ((alpha >= 0.9) & (alpha <= 1.1)).all() and done.last["priors_held"] > 0
    with pytest.raises(UsageError, match="--prior-low 2: is above"):
        train(
            corpus.path,
            tmp_path / "x",
            algo="gs",
            topics=5,
            options={"prior_low": 2.0, "prior_high": 1.0},
        )


def test_random_topics_split_each_words_tokens_and_hang_on_seed_and_word_alone():
    from topicstream.training.starts.random import RandomSeeds

    n_w = np.arange(1.0, 41.0)
    made = RandomSeeds(n_w, 5, 3)
    table = made.rows(np.arange(40))
    assert (
        np.allclose(table[:, :5].sum(axis=1), n_w, rtol=1e-5)
        and (table[:, :5] > 0).all()
        and (table[:, 5:] == 0).all()
    )
    assert np.allclose(made.totals, table.sum(axis=0), rtol=1e-6)
    assert (made.rows(np.array([7, 2])) == table[[7, 2]]).all()
    assert (RandomSeeds(n_w, 5, 4).rows(np.array([7])) != table[7]).any()


@pytest.mark.parametrize(
    "algo", few_quick(["vb", "ovb", "mvi", "svi", "sparse-bp"], ["ovb", "sparse-bp"])
)
def test_engines_that_need_topics_start_from_random_ones(corpus, tmp_path, algo):
    from checkpoint_bits import content_hash

    hashes = set()
    for threads, name in ((1, "a"), (2, "b")):
        done = train(
            corpus.path,
            tmp_path / name,
            algo=algo,
            topics=5,
            passes=8,
            tol=0,
            start="random",
            threads=threads,
        )
        hashes.add(content_hash(tmp_path / name))
        assert done.last["running_perplexity"] < 45  # 60 words; the planted topics give about 20
    assert len(hashes) == 1


def moved_of(folder):
    return {r["pass"]: r["topics_moved"] for r in read_history(folder)}


@pytest.mark.parametrize("algo", few_quick(["bp", "mvi", "sparselda"], ["mvi"]))
def test_a_run_stops_when_its_topics_move_no_more(corpus, tmp_path, algo):
    given = {"algo": algo, "topics": 3, "threads": 1, "block_cells": 500, "progress": False}
    tolerance = 1e-5 if algo == "sparselda" else 2e-3  # a sampler always moves some token
    done = train(corpus.path, tmp_path / "m", passes=60, tol_params=tolerance, **given)
    moved = moved_of(tmp_path / "m")
    if algo == "sparselda":
        assert done.passes == 60 and min(v for v in moved.values() if v is not None) > tolerance
        return
    assert (
        5 <= done.passes < 60 and "no probability of a word moved by more than 0.002" in done.reason
    )
    assert moved[0] is None and moved[done.passes] <= 2e-3
    assert all(moved[n] > 2e-3 for n in range(5, done.passes))
    assert not list((tmp_path / "m" / "work").glob("topics-*"))
    two = []  # the change itself, of models that are stopped a pass apart
    for passes in (6, 7):
        train(corpus.path, tmp_path / str(passes), passes=passes, tol=0, **given)
        model = TopicModel.open(tmp_path / str(passes))
        two.append(model.probabilities(np.arange(model.n_words)))
    if done.passes >= 7:
        assert moved[7] == pytest.approx(np.abs(two[1] - two[0]).max(), rel=1e-3)
    assert (
        train(corpus.path, tmp_path / "m", passes=60, tol_params=2e-3, **given).passes
        == done.passes
    )


@pytest.mark.parametrize(("stops",), few_quick([((3,),), ((2, 4, 6),)], [((2, 4, 6),)]))
def test_a_run_that_was_stopped_and_goes_on_stops_where_it_would_have(corpus, tmp_path, stops):
    class Falls:
        def __init__(self, at):
            self.at = at

        def say(self, line): ...
        def step(self, *_, **__): ...
        def close(self): ...
        def end_pass(self, record, passes):
            if record["pass"] == self.at:
                raise RuntimeError("fallen")

    given = {
        "algo": "bp",
        "topics": 3,
        "threads": 1,
        "block_cells": 500,
        "passes": 60,
        "tol_params": 2e-3,
    }
    whole = train(corpus.path, tmp_path / "whole", progress=False, **given)
    for at in stops:
        with pytest.raises(RuntimeError, match="fallen"):
            train(corpus.path, tmp_path / "m", progress=Falls(at), checkpoint_minutes=0, **given)
    assert train(corpus.path, tmp_path / "m", progress=False, **given).passes == whole.passes
    assert moved_of(tmp_path / "m") == moved_of(tmp_path / "whole")


def test_topics_that_do_not_move_from_pass_to_pass_refuse_it(corpus, tmp_path):
    with pytest.raises(UsageError, match="--tol-params: anchors"):
        train(
            corpus.path, tmp_path / "m", algo="anchors", topics=3, tol_params=1e-5, progress=False
        )
