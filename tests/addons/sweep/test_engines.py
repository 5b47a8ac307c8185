"""All trainings of a sweep by ``auto`` have one engine, whatever it takes for one of them alone."""

from __future__ import annotations

import numpy as np
import pytest

import topicstream
from topicstream.addons.sweep.config import SweepConfig
from topicstream.addons.sweep.engines import EngineChooser, settle_engine
from topicstream.addons.sweep.judging import Run
from topicstream.addons.sweep.sweep import sweep
from topicstream.corpus.reader import Corpus

FEW = 56  # documents to learn from: sampled for 16 topics and more


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Few long documents of rare words, dated."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(9_000)])
    documents = [
        {
            "text": " ".join(rng.choice(words[d % 3 * 2_000 :][:5_000], 1_000)),
            "year": 2000 + d % 4,
        }
        for d in range(FEW + 8)
    ]
    path = tmp_path_factory.mktemp("engines") / "c.zarr"
    topicstream.ingest(
        documents, path, heldout=8, min_df=1, max_df=1.0, meta=["year"], progress=False
    )
    return path


def settle(store, *, topics, options=(), **given):
    """Settle trainings of these numbers of topics and options."""
    runs = [Run(k, 0, "auto", o) for k in topics for o in options or [()]]
    config = SweepConfig(store, topics=topics, **given)
    return settle_engine(runs, Corpus.open(store), None, config)


@pytest.mark.parametrize(
    ("topics", "engines"),
    [
        ([4, 8, 15], ["", "", ""]),
        ([16, 20], ["", ""]),
        ([8, 16, 20], ["sparselda", "", ""]),
        ([8, 16], ["sparselda", ""]),
        ([4, 8, 20], ["", "", "sparse-bp"]),
        ([20, 8, 4], ["sparse-bp", "", ""]),
    ],
)
def test_the_middle_number_of_topics_decides(store, topics, engines):
    runs, reason = settle(store, topics=topics)
    assert [run.engine for run in runs] == engines
    assert bool(reason) == any(engines)


def test_it_says_which_numbers_train_otherwise(store):
    _, reason = settle(store, topics=[8, 10, 16, 20, 30])
    assert "sparselda trained all, as auto takes it for 16 topics" in reason
    assert "`topics train` takes sparse-bp for 8, 10" in reason


def test_formulas_are_compared_by_the_engine_that_takes_them(store):
    """Without covariates auto would sample, and predict better for that alone."""
    formulas = [(("covariates", "none"),), (("covariates", "year"),)]
    runs, reason = settle(store, topics=[20], options=formulas)
    assert [run.engine for run in runs] == ["sparse-bp", ""]
    assert "sparse-bp trained all, for it takes covariates" in reason


def test_a_named_engine_and_seed_words_stay_alone(store):
    runs = [Run(k, 0, "sparse-bp") for k in (8, 16)]
    config = SweepConfig(store, topics=[8, 16])
    assert settle_engine(runs, Corpus.open(store), None, config) == (runs, "")
    runs, reason = settle(store, topics=[8, 16], seed_words="seeds.toml")
    assert not reason and not any(run.engine for run in runs)


def test_a_settled_training_has_what_auto_takes_beside_the_engine(store):
    config = SweepConfig(store, topics=[8, 16], passes=60)
    chooser = EngineChooser.for_sample(Corpus.open(store), None, config)
    assert chooser.choose(Run(8, 0, "auto")).algo == "sparse-bp"
    own = chooser.choose(Run(16, 0, "auto"))
    settled = chooser.keywords(Run(8, 0, "auto", engine="sparselda"))
    assert settled == {
        "algo": "sparselda",
        "options": own.options,
        "start": own.start,
        "passes": 60,
    }
    assert settled["options"]["samples"] == 12
    other = chooser.keywords(Run(16, 0, "auto", engine="sparse-bp"))
    assert other["algo"] == "sparse-bp" and other["options"]["learn_priors"]


@pytest.mark.slow
def test_a_sweep_trains_all_by_it_and_says_so(store, tmp_path):
    given = dict(seeds=1, passes=3, progress=False)
    result = sweep(store, tmp_path / "s", topics=[8, 16], **given)
    assert {row["engine"] for row in result["runs"]} == {"sparselda"}
    assert "sparselda trained all" in result["why"]
    names = {path.name for path in (tmp_path / "s" / "runs").iterdir()}
    assert names == {"auto-sparselda-k8-s0", "auto-k16-s0"}
    # a smaller middle number, in the same folder: eight topics as auto takes them alone
    result = sweep(store, tmp_path / "s", topics=[4, 8, 16], **given)
    assert {row["engine"] for row in result["runs"]} == {"sparse-bp"}
    assert "`topics train` takes sparselda for 16" in result["why"]
