"""`--algo auto`: what it chooses, that a run goes on with what was chosen for it, and what it falls
back to.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.planted import draw, store
from topicstream.base.errors import DoesNotFit, TopicsError, UsageError
from topicstream.base.progress import Shown as Progress
from topicstream.cli.main import run
from topicstream.engines import find
from topicstream.engines.base import Shape
from topicstream.model.topic_model import TopicModel
from topicstream.training import setup
from topicstream.training.auto import choose, choose_smallest
from topicstream.training.loop import train
from topicstream.training.setup import default_start

SHORT = Shape(docs=1_000_000, words=50_000, cells=60_000_000, tokens=9e7, topics=100)
LONG = Shape(docs=10_000, words=50_000, cells=5_000_000, tokens=9e6, topics=100)
QUIET = Progress(-1)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    _, indptr, words, counts = draw(docs=120, words=90, topics=3, length=60, seed=2)
    return store(tmp_path_factory.mktemp("auto") / "corpus.zarr", indptr, words, counts, 90)


def run_of(folder):
    return json.loads((folder / "training.json").read_text())


def test_short_documents_get_fewer_active_topics_and_priors_are_learned():
    short = choose(SHORT, {})
    assert "16 active topics" in short.reason and "learning its priors" in short.reason
    assert choose(SHORT, {"sparsity": 64}).options["sparsity"] == 64


# docs, words, cells, tokens, K; what is chosen: engine, active topics, start
@pytest.mark.parametrize(
    ("what", "numbers", "chosen"),
    [
        ("few documents", (350, 2_100, 15_000, 2.1e4, 100), ("sparse-bp", 32, "documents")),
        ("planted", (400, 300, 20_000, 2.4e4, 20), ("sparse-bp", 32, "documents")),
        ("short, many", (70_000, 8_000, 560_000, 6e5, 100), ("sparse-bp", 32, "documents")),
        (
            "very short, many",
            (10_000_000, 80_000, 80_000_000, 8.5e7, 500),
            ("sparse-bp", 16, "documents"),
        ),
        (
            "very short, many, few topics",
            (4_000_000, 2_000, 32_000_000, 3.5e7, 16),
            ("sparse-bp", 16, "best"),
        ),
        ("very long", (500, 60_000, 2_500_000, 1e7, 100), ("sparse-bp", 32, "documents")),
        (
            "long, many",
            (1_000_000, 100_000, 200_000_000, 5e8, 1000),
            ("sparse-bp", 32, "documents"),
        ),
    ],
)
def test_what_is_chosen_for_a_shape(what, numbers, chosen):
    docs, words, cells, tokens, topics = numbers
    shape = Shape(docs, words, cells, tokens, topics)
    choice = choose(shape, {})
    engine = find(choice.algo)(shape, setup.make_options(find(choice.algo), choice.options))
    assert (choice.algo, choice.options["sparsity"], default_start(engine)) == chosen, what
    assert (
        choice.options["learn_priors"]
        and choice.options["learn_after"] == 20
        and choice.options["prior_pull"] == 3
    )


def options_of(docs, cells, tokens, topics=20, **given):
    """What ``auto`` chooses for documents that are not short."""
    return choose(Shape(docs, 10_000, cells, tokens, topics), {}, **given).options


def test_limits_of_a_choice_are_where_they_are_said():
    """16 active topics below 128 different words and from five million cells on, 32 else."""
    for docs, cells, active in (
        (50_000, 50_000 * 127, 16),
        (50_000, 50_000 * 128, 32),
        (40_000, 5_000_000, 16),
        (40_000, 4_999_999, 32),
    ):
        assert options_of(docs, cells, 2.0 * cells)["sparsity"] == active
    # the pull of documents hardly more than topics
    for docs, pull in ((199, 100.0), (200, 3.0)):
        assert options_of(docs, 100 * docs, 200.0 * docs, topics=100)["prior_pull"] == pull
    own = options_of(1000, 100_000, 150_000.0, covariates=True)
    assert own["prior_pull"] == 0.0 and own["learn_after"] == 20
    reading = options_of(1000, 100_000, 150_000.0, aim="reading")
    assert reading["background"] == 0.05 * 150 and reading["sparsity"] == 48


NEWS = Shape(docs=5_000, words=5_000, cells=319_999, tokens=5e5, topics=50)


# what differs from NEWS; the active topics of a document
@pytest.mark.parametrize(
    ("given", "active"),
    [
        ({}, 16),
        ({"cells": 320_000}, 32),  # 64 different words a document
        ({"docs": 4_999, "cells": 250_000}, 32),  # 100 documents a topic
        ({"topics": 33}, 16),
        ({"topics": 32}, 32),
        ({"tokens": 250_000.0}, 16),
        ({"tokens": 249_999.0}, "sparselda"),
        ({"docs": 20_000, "cells": 600_000, "tokens": 6e5}, 16),  # too many to sample
        ({"docs": 25_000, "cells": 500_000, "tokens": 6e5}, 32),  # titles
        ({"weighted": True}, 32),
    ],
)
def test_documents_of_few_different_words_get_fewer_active_topics(given, active):
    shape = replace(NEWS, **given)
    choice = choose(shape, {})
    assert choice.options.get("sparsity", choice.algo) == active
    if active == 16:
        assert "16 active topics a document" in choice.reason
        for known in ("seeded", "covariates"):
            assert choose(shape, {}, **{known: True}).options["sparsity"] == 32
        assert choose(shape, {}, "reading").options["sparsity"] == 48
        assert choose(shape, {"sparsity": 32}).options["sparsity"] == 32


def test_limits_of_sampling_are_where_they_are_said():
    """Short is below 50 tokens a document; 500,000 tokens are few."""
    for docs, tokens, algo in (
        (10_000, 500_000.0, "sparse-bp"),
        (10_001, 500_000.0, "sparselda"),
        (40_000, 500_001.0, "sparse-bp"),
    ):
        assert choose(Shape(docs, 8_000, 100_000, tokens, 20), {}).algo == algo
    titles = Shape(20_000, 8_000, 100_000, 100_000.0, 128)
    assert choose(titles, {}).start == "best"
    assert choose(replace(titles, topics=129), {}).start == "documents"
    assert choose(titles, {}, passes=39).options["sample_every"] == 1
    assert choose(titles, {}, passes=40).options["sample_every"] == 2
    for tokens, passes in ((250_000.0, 400), (300_000.0, 333), (500_000.0, 200)):
        assert choose(replace(titles, docs=60_000, tokens=tokens), {}).passes == passes


def test_snippets_get_more_passes_than_titles():
    """Ten words a document make a snippet; 130 million tokens are drawn, 200 to 800 passes."""
    for docs, tokens, passes in (
        (15_001, 150_000.0, 400),
        (15_000, 150_000.0, 800),
        (20_000, 200_000.0, 650),
        (40_000, 500_000.0, 260),
        (5_000, 240_000.0, 541),
    ):
        choice = choose(Shape(docs, 8_000, 100_000, tokens, 20), {})
        states = (choice.options["samples"], choice.options["sample_every"])
        assert (choice.passes, *states) == (passes, 12, passes // 20)


ARTICLES = Shape(docs=60, words=16_000, cells=36_000, tokens=72_000.0, topics=20)


SAMPLED = ("sparselda", "best", 400)
MESSAGES = ("sparse-bp", None, None)


# what differs from ARTICLES; engine, start and passes for prediction, and the start for reading
@pytest.mark.parametrize(
    ("given", "chosen", "reading"),
    [
        ({}, SAMPLED, "best"),
        ({"docs": 70}, SAMPLED, "best"),
        ({"docs": 71}, MESSAGES, "best"),  # 3.5 documents a topic
        ({"topics": 18}, SAMPLED, "best"),
        ({"topics": 17}, MESSAGES, "best"),
        ({"topics": 129}, ("sparselda", "documents", 400), "documents"),
        ({"tokens": 48_000.0}, SAMPLED, "best"),
        ({"tokens": 47_999.0}, MESSAGES, "best"),  # 800 words a document
        ({"words": 6_000}, SAMPLED, "best"),
        ({"words": 5_999}, MESSAGES, "best"),  # 12 tokens a word
        ({"tokens": 150_000.0}, SAMPLED, "best"),
        ({"tokens": 150_001.0}, MESSAGES, "best"),
        ({"weighted": True}, MESSAGES, "best"),
        ({"docs": 200}, MESSAGES, "best"),
        ({"docs": 201}, MESSAGES, None),
    ],
)
def test_few_long_documents_a_topic_are_sampled(given, chosen, reading):
    shape = replace(ARTICLES, **given)
    choice = choose(shape, {})
    assert (choice.algo, choice.start, choice.passes) == chosen
    to_read = choose(shape, {}, "reading")
    assert (to_read.algo, to_read.start, to_read.passes) == (chosen[0], reading, chosen[2])
    assert to_read.options["learn_priors"]
    assert ("background" in to_read.options) == (chosen == MESSAGES)


def test_few_long_documents_keep_the_engine_that_takes_the_options_given():
    for given in ({"background": 3.0}, {"sparsity": 16}, {"beta": 0.0}):
        assert choose(ARTICLES, given, "reading").algo == "sparse-bp"
    for known in ("seeded", "covariates"):
        choice = choose(ARTICLES, {}, "reading", **{known: True})
        assert (choice.algo, choice.start) == ("sparse-bp", None)
    assert choose(ARTICLES, {}).reason == (
        "lowest perplexity on 60 long documents (1200.0 words each on average), learning its priors"
    )
    assert choose_smallest(choose(ARTICLES, {}), ARTICLES).algo == "atbp"


TITLES = Shape(docs=20_000, words=8_000, cells=160_000, tokens=1.7e5, topics=100)


# the corpus; the user's options; engine, start and passes that are chosen
@pytest.mark.parametrize(
    ("shape", "given", "chosen"),
    [
        (TITLES, {}, ("sparselda", "best", 400)),
        (TITLES, {"alpha": 0.1, "samples": 3}, ("sparselda", "best", 400)),
        (replace(TITLES, topics=400), {}, ("sparselda", "documents", 400)),
        (replace(TITLES, docs=40_000, tokens=4e5), {}, ("sparselda", "best", 325)),
        (replace(TITLES, docs=2_000), {}, ("sparse-bp", None, None)),  # 85 words each
        (replace(TITLES, docs=80_000, tokens=6e5), {}, ("sparse-bp", None, None)),
        (replace(TITLES, weighted=True), {}, ("sparse-bp", None, None)),
        (TITLES, {"sparsity": 64}, ("sparse-bp", None, None)),
        (TITLES, {"beta": 0.0}, ("sparse-bp", None, None)),
    ],
)
def test_short_documents_are_sampled_while_they_are_few(shape, given, chosen):
    for aim in ("prediction", "reading"):
        choice = choose(shape, given, aim)
        assert (choice.algo, choice.start, choice.passes) == chosen
    for known in ("seeded", "covariates"):
        assert choose(shape, given, **{known: True}).algo == "sparse-bp"


def test_topics_of_titles_for_reading_have_small_priors_that_stay():
    def priors(aim, given):
        options = choose(TITLES, given, aim).options
        return options.get("alpha"), options.get("beta"), options["learn_priors"]

    assert priors("reading", {}) == (0.02, 0.01, False)
    assert priors("reading", {"alpha": None, "samples": 3}) == (0.02, 0.01, False)
    assert priors("prediction", {}) == (None, None, True)
    assert priors("reading", {"learn_priors": True}) == (None, None, True)
    assert priors("reading", {"alpha": 0.3}) == (0.3, None, False)


def test_alpha_of_short_documents_is_learned_near_a_small_one():
    """After a quarter of the passes, whatever K is, where the user says nothing of alpha."""
    abstracts = replace(TITLES, docs=4_000)  # of 42 tokens

    def priors(shape, given, aim="prediction", **more):
        options = choose(shape, given, aim, **more).options
        names = ("alpha", "prior_mean", "prior_pull", "learn_after", "learn_priors")
        return tuple(options.get(name) for name in names)

    for shape in (TITLES, replace(TITLES, topics=20)):
        assert priors(shape, {}) == (None, 0.02, 1.0, 100, True)
        assert priors(shape, {}, passes=30) == (None, 0.02, 1.0, 7, True)
        assert priors(shape, {"prior_pull": 0.5}) == (None, 0.02, 0.5, 100, True)
        assert priors(shape, {"alpha": 0.1}) == (0.1, None, None, None, False)
        assert priors(shape, {"alpha": 0.1, "learn_priors": True})[1:] == (None, None, None, True)
    for aim in ("prediction", "reading"):
        assert priors(abstracts, {}, aim)[1:] == (0.02, 1.0, 764 // 4, True)
    few_long = Shape(docs=60, words=9_000, cells=40_000, tokens=7.2e4, topics=20)
    assert priors(few_long, {}) == (None, None, None, None, True)


def test_states_of_the_second_half_of_the_chain_are_averaged():
    def averaged(given, **more):
        options = choose(TITLES, given, **more).options
        return options.get("samples"), options.get("sample_every")

    assert averaged({}) == (12, 20) and averaged({}, passes=100) == (12, 5)
    assert averaged({"samples": 3}) == (3, 20) and averaged({"sample_every": 7}) == (12, 7)
    assert averaged({"burn_in": 30}) == (None, None)
    large = replace(TITLES, words=400_000)
    assert choose(large, {}).options.get("samples") is None


@pytest.mark.parametrize("length", [6, 40])
@pytest.mark.parametrize("aim", ["prediction", "reading"])
def test_a_chain_goes_on_with_what_was_chosen_for_it(tmp_path, aim, length):
    _, indptr, words, counts = draw(docs=300, words=90, topics=3, length=length, seed=2)
    titles = store(tmp_path / "titles.zarr", indptr, words, counts, 90)
    same = {"topics": 3, "aim": aim, "progress": QUIET}
    assert train(titles, tmp_path / "m", passes=4, **same).passes == 4
    record = run_of(tmp_path / "m")
    assert record["engine"] == "sparselda"
    assert train(titles, tmp_path / "m", passes=6, **same).passes == 6
    assert run_of(tmp_path / "m") == record


@pytest.mark.product
def test_titles_are_sampled_and_a_run_of_them_goes_on(tmp_path):
    _, indptr, words, counts = draw(docs=300, words=90, topics=3, length=6, seed=2)
    titles = store(tmp_path / "titles.zarr", indptr, words, counts, 90)
    model = tmp_path / "m"
    same = {"topics": 3, "progress": QUIET}
    assert train(titles, model, passes=12, **same).passes == 12
    record = run_of(model)
    assert (record["engine"], record["start"]) == ("sparselda", "best")
    assert train(titles, model, **same).passes == 400
    assert run_of(model) == record
    train(titles, model, passes=2, options={"sparsity": 16}, force=True, **same)
    assert run_of(model)["engine"] == "sparse-bp"


@pytest.mark.quick("atbp")
@pytest.mark.parametrize("algo", ["atbp", "stbp", "vb", "mvi", "svi", "ovb"])
def test_engines_that_are_poor_on_titles_say_so(tmp_path, algo, capsys):
    _, indptr, words, counts = draw(docs=60, words=30, topics=2, length=6, seed=2)
    titles = store(tmp_path / "titles.zarr", indptr, words, counts, 30)
    line = ["train", "--corpus", str(titles), "--model", str(tmp_path / "m"), "-K", "2"]
    assert run([*line, "--passes", "1", "--algo", algo]) == 0
    said = capsys.readouterr().err
    assert f"warning: documents have 6.3 words on average, and --algo {algo} needs longer" in said
    assert run([*line, "--passes", "1", "--algo", "bp", "--force"]) == 0
    assert "needs longer" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("docs", "topics", "reach"),
    [(59, 20, 2.95), (200, 20, 10.0), (450, 200, 2.25), (20, 50, 1.0), (11_000, 100, 100.0)],
)
def test_priors_move_by_as_many_times_as_documents_stand_behind_a_topic(docs, topics, reach):
    shape = Shape(docs=docs, words=9_000, cells=50 * docs, tokens=100.0 * docs, topics=topics)
    assert choose(shape, {}).options["prior_reach"] == reach
    assert choose(shape, {}, "reading").options["prior_reach"] == reach
    assert choose(shape, {"prior_reach": 50.0}).options["prior_reach"] == 50


@pytest.mark.parametrize("algo", ["vb", "mvi"])
@pytest.mark.parametrize(
    ("tokens", "topics", "start"),
    [
        (57, 20, "best"),
        (20, 64, "best"),
        (57, 65, "documents"),
        (19, 20, "documents"),
        (6, 20, "documents"),
    ],
)
def test_variational_engines_begin_with_the_best_of_tries_unless_documents_are_short_or_topics_many(
    algo, tokens, topics, start
):
    shape = Shape(1000, 5000, 800 * tokens, 1000.0 * tokens, topics)
    assert default_start(find(algo)(shape, find(algo).Options())) == start
    for other in ("ovb", "svi", "bp", "sparse-bp"):
        assert default_start(find(other)(shape, find(other).Options())) == "documents"


@pytest.mark.parametrize("algo", ["gs", "sparselda"])
@pytest.mark.parametrize(
    ("topics", "start"), [(100, "random"), (499, "random"), (500, "documents"), (1000, "documents")]
)
def test_the_samplers_begin_at_random_with_few_topics(algo, topics, start):
    shape = Shape(1000, 5000, 100_000, 2e5, topics)
    assert default_start(find(algo)(shape, find(algo).Options())) == start


@pytest.mark.parametrize(
    ("given", "learned"),
    [
        ({"alpha": 0.1}, False),
        ({"beta": 0.01}, False),
        ({"alpha": 0.1, "learn_priors": True}, True),
        ({"alpha": None, "beta": None, "learn_priors": None}, True),
        ({"learn_priors": False}, False),
    ],
)
def test_priors_that_are_given_stay(given, learned):
    choice = choose(LONG, given)
    assert choice.options["learn_priors"] is learned and choice.options.get("alpha") == given.get(
        "alpha"
    )
    assert ("learning" in choice.reason) is learned


@pytest.mark.product
def test_no_dead_topics_where_fewer_are_planted(tmp_path):
    _, indptr, words, counts = draw(docs=400, words=300, topics=5, length=60, seed=3)
    place = store(tmp_path / "corpus.zarr", indptr, words, counts, 300)
    for topics in (20, 100):
        done = train(
            place, tmp_path / f"m{topics}", topics=topics, passes=80, tol=0.0, progress=QUIET
        )
        model = TopicModel.open(done.model)
        shares = model.sizes / model.sizes.sum()
        alpha = np.asarray(model.alpha)
        assert shares.min() > 0.001 / topics and shares.max() < 0.25  # a planted topic has a fifth
        assert done.last["priors_held"] == 0 and alpha.max() < 10 * alpha.min()


def test_no_dead_topics_where_documents_are_hardly_more_than_topics(tmp_path):
    _, indptr, words, counts = draw(docs=100, words=900, topics=15, length=150, seed=4)
    place = store(tmp_path / "corpus.zarr", indptr, words, counts, 900)
    done = train(
        place, tmp_path / "m", topics=100, passes=60, tol=0.0, progress=QUIET
    )  # 35 are dead with the pull of others
    sizes = TopicModel.open(done.model).sizes
    assert (sizes / sizes.sum()).min() > 0.001 / 100
    assert (
        choose(Shape(100, 400, 9_000, 1.2e4, 90), {"prior_pull": 1.0}).options["prior_pull"] == 1
    )  # as it is given


def test_priors_are_learned_late_and_a_run_does_not_end_before(corpus, tmp_path):
    done = train(corpus, tmp_path / "m", topics=4, tol="50%", progress=QUIET)
    history = [json.loads(line) for line in (done.model / "history.jsonl").read_text().splitlines()]
    assert [r["pass"] for r in history if "alpha_sum" in r] == list(
        range(21, 41)
    ) and done.passes == 40
    assert done.reason == "perplexity changed by less than 50% over 10 passes"
    assert (
        train(corpus, tmp_path / "d", topics=4, progress=QUIET).passes >= 100
    )  # while passes are cheap
    plain = train(
        corpus, tmp_path / "p", algo="sparse-bp", topics=4, passes=1, options={"learn_priors": True}
    )
    assert "alpha_sum" in plain.last  # who names the engine says what it does
    for name, meant in (
        ("n_topics", "topics"),
        ("K", "topics"),
        ("alfa", "alpha"),
    ):  # of the run or of its engine
        with pytest.raises(
            UsageError, match=f"sparse-bp has no option '{name}'; did you mean '{meant}'"
        ):
            train(corpus, tmp_path / "p", **{name: 4})


def test_the_smallest_engine_keeps_what_was_said():
    other = choose_smallest(choose(LONG, {"alpha": 0.2}), LONG)
    assert other.algo == "atbp" and other.options == {"alpha": 0.2, "learn_priors": False}
    short = replace(SHORT, tokens=9e6)
    other = choose_smallest(choose(short, {"alpha": 0.2, "sparsity": 16}), short)
    assert other.algo == "sparselda" and other.options == {"alpha": 0.2, "learn_priors": False}
    assert choose_smallest(choose(short, {}), replace(short, weighted=True)).algo == "atbp"


def test_free_disk_does_not_decide(corpus, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(setup, "free_disk", lambda folder: 1000)
    line = [
        "train",
        "--corpus",
        str(corpus),
        "--model",
        str(tmp_path / "model"),
        "-K",
        "4",
        "--passes",
        "1",
    ]
    assert run(line) == 5
    said = capsys.readouterr().err
    assert "--algo atbp" in said and "--allow-smaller" in said and not (tmp_path / "model").exists()
    with pytest.raises(DoesNotFit, match="atbp"):
        train(
            corpus, tmp_path / "model", topics=4, allow_smaller=True, progress=QUIET
        )  # tried, and too large as well


def test_a_run_goes_on_with_what_was_chosen_for_it(corpus, tmp_path):
    model = tmp_path / "model"
    old = {"learn_priors": False, "sparsity": 32}  # as auto chose once
    train(corpus, model, algo="sparse-bp", topics=4, passes=2, tol=0.0, options=old, progress=QUIET)
    assert train(corpus, model, topics=4, passes=3, tol=0.0, progress=QUIET).passes == 3
    assert old.items() <= run_of(model)["options"].items()
    train(corpus, model, topics=4, passes=3, tol=0.0, force=True, progress=QUIET)
    assert {"learn_priors": True, "sparsity": 32}.items() <= run_of(model)["options"].items()


def test_a_run_from_before_priors_were_learned_goes_on_without(corpus, tmp_path):
    model = tmp_path / "model"
    same = {"algo": "sparse-bp", "topics": 4, "tol": 0.0, "progress": QUIET}
    train(corpus, model, passes=2, learn_priors=False, **same)
    for given in ({}, {"learn_priors": None}):
        train(corpus, model, passes=3, options=given, **same)
        assert run_of(model)["options"]["learn_priors"] is False
    with pytest.raises(TopicsError, match="--learn-priors False -> True"):
        train(corpus, model, passes=4, options={"learn_priors": True}, **same)
    with pytest.raises(TopicsError, match="--algo sparse-bp -> atbp"):
        train(corpus, model, passes=4, **{**same, "algo": "atbp"})
    train(corpus, model, passes=2, force=True, **same)
    assert run_of(model)["options"]["learn_priors"] is True


def test_from_the_command_line(corpus, tmp_path, capsys):
    model = tmp_path / "model"
    line = ["train", "--corpus", str(corpus), "--model", str(model), "-K", "4", "--tol", "0"]
    for passes, more, learned in (
        ("2", [], True),
        ("3", [], True),
        ("2", ["--force", "--alpha", "0.1"], False),
    ):
        assert run([*line, "--passes", passes, *more]) == 0
        assert f"{passes} passes" in capsys.readouterr().out
        assert run_of(model)["options"]["learn_priors"] is learned


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("more", [{"mem_limit": "2G"}, {"allow_smaller": True}])
def test_where_memory_does_not_hold_the_best(corpus, tmp_path, monkeypatch, force, more):
    """Also with --force over an older run."""
    real = setup.make_plan

    def plan(work, room):
        if work.engine.name == "sparse-bp":
            raise DoesNotFit("too large")
        return real(work, room)

    if force:
        train(corpus, tmp_path / "model", topics=4, passes=1, progress=QUIET)
    monkeypatch.setattr(setup, "make_plan", plan)
    same = {"topics": 4, "passes": 2, "tol": 0.0, "force": force, "progress": QUIET}
    with pytest.raises(DoesNotFit, match="--allow-smaller"):
        train(corpus, tmp_path / "model", **same)
    train(corpus, tmp_path / "model", **same, **more)
    assert run_of(tmp_path / "model")["engine"] == "atbp"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"algo": "bp", "start": "nowhere"}, "cannot start from 'nowhere'"),
        ({"algo": "bp", "options": {"sparsity": 3}}, "sparsity"),
        ({"mem_limit": "120M", "topics": 1 << 20, "algo": "bp"}, "--mem-limit"),
    ],
)
def test_what_refuses_leaves_no_folder(corpus, tmp_path, wrong, words):
    same = {"topics": 4, "progress": QUIET, **wrong}
    with pytest.raises(TopicsError, match=words):
        train(corpus, tmp_path / "new" / "place" / "model", **same)
    assert not list(tmp_path.iterdir())
