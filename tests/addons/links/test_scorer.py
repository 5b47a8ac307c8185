"""Link prediction, perplexity with links given, and candidates: against small sums by hand and
planted communities.
"""

import json

import numpy as np
import pytest

from tests.addons.links.test_engine import K, communities
from tests.planted import store
from topicstream.addons.links import scorer as links
from topicstream.addons.links.view import LinksView
from topicstream.base.errors import DoesNotFit, InputError
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.evaluate import evaluate
from topicstream.evaluation.visiting import document_shares
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train

DOCS = 240
HELD = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store of communities with documents set aside, models with and without links, and who links
    with whom.
    """
    folder = tmp_path_factory.mktemp("links")
    cells, main_topic, targets = communities(DOCS, seed=3, length=30)
    path = store(folder / "c.zarr", *cells, 150, heldout=HELD, lists={"links": targets})
    given = {"topics": K, "passes": 25, "tol": 0.0, "threads": 1, "start": "random", "seed": 1}
    for name, algo, options in (
        ("rtm", "rtm", {"alpha": 0.1, "eta": "identity", "xi": 0.3}),
        ("bp", "bp", {"alpha": 0.1}),
        ("none", "rtm", {"xi": 0.0}),
        ("defaults", "rtm", {}),
        ("paper's", "rtm", {"eta": "rows", "xi": 0.15, "alpha": 0.01, "beta": 0.01}),
    ):
        train(path, folder / name, algo=algo, options=options, **given)
    linked = {tuple(sorted((d, int(e[1:])))) for d, own in enumerate(targets) for e in own}
    return folder, linked, main_topic


def test_pairs_are_all_links_and_none(made, monkeypatch):
    folder, linked, _ = made
    corpus = Corpus.open(folder / "c.zarr")
    rng = np.random.default_rng(0)
    pairs = links.Pairs(corpus, rng)
    edge = DOCS - HELD
    assert set(map(tuple, pairs.training.tolist())) == {p for p in linked if p[1] < edge}
    assert set(map(tuple, pairs.testing.tolist())) == {p for p in linked if p[1] >= edge}
    for testing in (False, True):
        drawn = pairs.draw_unlinked(3000, testing, rng)
        assert (
            len(set(map(tuple, drawn.tolist()))) == 3000
            and not set(map(tuple, drawn.tolist())) & linked
        )
        assert ((drawn[:, 1] >= edge) == testing).all() and (drawn[:, 0] < drawn[:, 1]).all()
        if testing:  # evenly among all: of 60 x 180 + 60 x 59 / 2 pairs
            assert np.mean(drawn[:, 0] >= edge) == pytest.approx(1770 / (10800 + 1770), abs=0.03)
    monkeypatch.setattr(links, "MOST", 25)
    some = links.Pairs(corpus, rng)
    assert (
        len(some.training) == len(some.testing) == 25
        and set(map(tuple, some.training.tolist())) <= linked
    )


def test_what_the_classifier_holds_counts_against_the_limit(made, monkeypatch):
    folder, _, _ = made
    corpus = Corpus.open(folder / "c.zarr")
    pairs = links.Pairs(corpus, np.random.default_rng(0))
    assert links.bytes_held(corpus, K) >= 8 * K * (
        DOCS + 6 * 2 * max(len(pairs.training), len(pairs.testing))
    )
    monkeypatch.setattr(links, "MOST", 1 << 40)
    monkeypatch.setattr("topicstream.base.memory.PROCESS_BYTES", (512 << 20) - (60 << 20))
    with pytest.raises(DoesNotFit, match="the smallest limit that would do is"):
        evaluate(folder / "bp", corpus, links=True, mem_limit="512M")


def test_the_classifier_is_at_its_optimum_and_the_measures_by_hand():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 3))
    y = (rng.random(300) < 1 / (1 + np.exp(-(x @ [2.0, -1.0, 0.0] + 0.5)))).astype(float)
    classifier = links.fit_classifier(x, y)
    p = 1 / (1 + np.exp(-classifier.decision_function(x)))
    slopes = np.append(x.T @ (p - y) + classifier.coef_[0], (p - y).sum())
    np.testing.assert_allclose(slopes, 0, atol=1e-5)
    found = links.judge(np.array([3.0, 1.0, -1.0, 2.0, -2.0, -1.0]), np.array([1, 1, 1, 0, 0, 0]))
    assert found == pytest.approx(
        {"f": 2 / 3, "precision": 2 / 3, "recall": 2 / 3, "auc": (3 + 2 + 1.5) / 9}
    )
    assert links.judge(np.zeros(4), np.array([1, 0, 1, 0]))["auc"] == 0.5


def test_topics_of_training_documents_have_the_prior_in_them():
    class Model:
        alpha = np.array([0.5, 0.25, 0.25])

        def table(self, name):
            assert name == "theta"
            return self

        def gather(self, numbers):
            return np.array([[3.0, 0.0, 1.0], [0.0, 0.0, 0.0]])[numbers]

    shares, tokens = links.trained_shares(Model(), np.array([0, 1]))
    assert shares.tolist() == [[0.7, 0.05, 0.25], [0.5, 0.25, 0.25]]
    assert tokens.tolist() == [4, 0]


def test_topics_of_words_are_those_that_infer_answers(made):
    folder, _, _ = made
    model = TopicModel.open(folder / "bp")
    corpus = Corpus.open(folder / "c.zarr")

    mine = np.concatenate([s for _, s, _ in document_shares(model, corpus, heldout=True)])
    np.testing.assert_array_equal(
        mine, np.concatenate([s for _, s, _ in document_shares(model, corpus, heldout=True)])
    )


def test_links_are_predicted_and_better_by_a_model_that_saw_some(made):
    folder, _, _ = made
    found = {
        name: evaluate(folder / name, folder / "c.zarr", links=True, threads=1)["links"]
        for name in ("rtm", "bp")
    }
    assert found["rtm"]["root"]["auc"] > 0.75 and found["rtm"]["product"]["f"] > 0.6
    assert found["rtm"]["root"]["auc"] > found["bp"]["root"]["auc"] - 0.02
    assert found["rtm"]["given"]["perplexity"] < found["rtm"]["given"]["withheld"]
    again = evaluate(folder / "rtm", folder / "c.zarr", links=True, threads=3)["links"]
    assert again == found["rtm"]


def test_the_defaults_tell_links_better_than_the_papers_form_and_than_topics_without_links(made):
    folder, _, _ = made
    names = ("defaults", "paper's", "bp")
    auc = {
        n: evaluate(folder / n, folder / "c.zarr", links=True, threads=1)["links"]["root"]["auc"]
        for n in names
    }
    assert auc["defaults"] > max(auc["paper's"], auc["bp"]) + 0.01, auc


def test_given_links_that_weigh_nothing_change_nothing(made):
    folder, _, _ = made
    found = evaluate(folder / "none", folder / "c.zarr", links=True, heldout=True, threads=1)
    given = found["links"]["given"]
    assert given["perplexity"] == pytest.approx(given["withheld"], rel=1e-6)
    unread = evaluate(folder / "none", folder / "c.zarr", links=True, split=0, threads=1)
    assert unread["links"]["given"]["perplexity"] > given["perplexity"]
    if given["tokens"] == found["heldout"]["tokens"]:
        assert given["withheld"] == pytest.approx(found["heldout"]["perplexity"], rel=1e-5)


def test_the_message_of_links_is_that_of_training(made):
    from tests.reference.rtm import link_message

    model = TopicModel.open(made[0] / "rtm")
    theta = model.table("theta").gather(np.arange(4))
    theta[2] = 0  # a document without words
    mine = links.link_message(model, theta, np.array([3, 0, 1]))
    want = link_message(
        np.vstack([theta, np.zeros((3, K))]), [[], [], [], [], [0, 1, 2], [], [3]], np.eye(K)
    )[4:]
    np.testing.assert_allclose(mine, want, atol=1e-6)


def test_candidates_share_the_topic_and_are_not_linked_yet(made):
    folder, linked, main_topic = made
    hits = []
    for number in (0, 7, DOCS - 5):
        found = LinksView(
            model=folder / "rtm", corpus=folder / "c.zarr", links=f"d{number}", words=8, threads=1
        ).result()
        ids = [int(c["id"][1:]) for c in found["candidates"]]
        assert len(set(ids)) == 8 and number not in ids
        pairs = {tuple(sorted((number, i))) for i in ids}
        assert not {p for p in pairs & linked if min(p) < DOCS - HELD}
        ratios = [c["ratio"] for c in found["candidates"]]
        assert ratios == sorted(ratios, reverse=True) and ratios[0] > 1
        hits += [main_topic[i] == main_topic[number] for i in ids]
        own = {p for p in linked if number in p and min(p) < DOCS - HELD}
        assert found["linked"] == len(own)
    assert np.mean(hits) > 0.7


def test_the_commands_and_what_they_refuse(made, capsys):
    folder, _, _ = made
    store_of = ["--corpus", str(folder / "c.zarr"), "--threads", "1"]

    def said(*args):
        assert run([*args, *store_of]) == 0
        return capsys.readouterr().out

    assert (
        len(said("show", "--model", str(folder / "rtm"), "--links", "d0", "-n", "3").splitlines())
        == 3
    )
    told = said("eval", "--model", str(folder / "rtm"), "--links")
    assert "link prediction       F 0." in told and "with links given" in told
    as_json = json.loads(said("eval", "--model", str(folder / "bp"), "--links", "--json"))
    assert set(as_json["links"]) == {"pairs", "draws", "product", "root", "measured"}
    with pytest.raises(InputError, match="no document of this id"):
        LinksView(model=folder / "rtm", corpus=folder / "c.zarr", links="nobody").result()
    with pytest.raises(InputError, match="was trained without links"):
        LinksView(model=folder / "bp", corpus=folder / "c.zarr", links="d0").result()
    cells, _, _ = communities(60, seed=3)
    other = store(folder / "other.zarr", *cells, 150, heldout=10)
    with pytest.raises(InputError, match="has changed since"):
        LinksView(model=folder / "rtm", corpus=other, links="d0").result()
    with pytest.raises(InputError, match="has no links; ingest with"):
        evaluate(folder / "bp", other, links=True)
