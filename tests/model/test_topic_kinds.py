"""Which topics are dead or the background, and that every list marks them and means omit them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import topicstream
from tests.report_store import data_of, made, planted_model, unpack
from topicstream import TopicModel
from topicstream.cli.main import run
from topicstream.evaluation.coherence import coherence
from topicstream.model.topic_kinds import (
    dead_warning,
    describe_topics,
    largest_topics,
    least_tokens,
    rank_topics,
)

DOCS = 100


def model_of(sizes, docs=DOCS, words=40, **origin):
    """Topics of these tokens, each on words of its own."""
    phi = np.zeros((words * len(sizes), len(sizes)), np.float32)
    for k, size in enumerate(sizes):
        phi[words * k : words * (k + 1), k] = size / words
    names = [f"w{i:04d}" for i in range(len(phi))]
    corpus = {"docs": docs, "tokens": float(sum(sizes))}
    return TopicModel.from_arrays(phi, names, 0.1, 0.01, corpus=corpus, **origin)


@pytest.mark.parametrize(
    ("sizes", "docs", "kinds"),
    [
        ([2000, 2000, 960, 40], 100, "LLLD"),  # documents of 50 tokens
        ([2000, 2000, 940, 60], 100, "LLLL"),
        ([50, 30], 2, "LL"),  # few documents: of 40 tokens, a topic may hold less than one
        ([300_000] * 9 + [50_000, 900], 9, "LLLLLLLLLLD"),  # books
        ([3000] * 9 + [700, 190], 23, "LLLLLLLLLLD"),  # articles of 1,213 tokens
        ([4000, 0.2], None, "LD"),  # a model that does not say how many documents it had
        ([4000, 3.0], None, "LL"),
        ([5000], 100, "L"),
    ],
)
def test_less_than_a_documents_worth_is_dead(sizes, docs, kinds):
    assert "".join(kind[0].upper() for kind in model_of(sizes, docs).kinds) == kinds


def test_a_document_of_a_sample_is_as_long():
    model = model_of([2000, 2000, 960, 40], docs=200, sample=0.5)
    assert least_tokens(model) == pytest.approx(50) and model.kinds[3] == "dead"


@pytest.mark.parametrize("share", [0.1, 0.05])
def test_copies_of_the_corpus_and_of_the_prior_are_dead(share):
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(400, 0.05), 6).T
    sizes = np.full(6, (1 - 2 * share) * 50_000 / 6)
    phi = np.concatenate([p * sizes, (p.mean(axis=1) * share * 50_000)[:, None]], axis=1)
    phi = np.concatenate([phi, np.full((400, 1), share * 50_000 / 400)], axis=1)
    words = [f"w{i}" for i in range(400)]
    model = TopicModel.from_arrays(phi, words, 0.1, 0.01, corpus={"docs": 500})
    assert model.kinds == ["live"] * 6 + ["dead"] * 2
    alike = TopicModel.from_arrays(np.tile(phi[:, 6:7], 3), words, 0.1, 0.01)
    assert alike.kinds == ["live"] * 3  # there is nothing beside which they would be copies


@pytest.mark.parametrize(("apart", "kind"), [(0.195, "dead"), (0.205, "live")])
def test_a_fifth_of_the_corpus_apart_is_no_copy(apart, kind):
    """The last topic moves mass from half of the words to the others; a twentieth is its own."""
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(400, 0.05), 3).T
    mean = p.mean(axis=1)
    first = np.cumsum(mean) < 0.5
    # the distance from the corpus, of which it is a twentieth itself
    moved = apart / 0.95 / 2
    own = np.where(first, mean * (1 - moved / mean[first].sum()), 0)
    own += np.where(first, 0, mean * (1 + moved / mean[~first].sum()))
    table = np.concatenate([p * 0.95 / 3, own[:, None] * 0.05], axis=1) * 1e6
    model = TopicModel.from_arrays(table, [f"w{i}" for i in range(400)], 0.1, 0.0)
    corpus = table.sum(axis=1) / 1e6
    assert np.abs(own - corpus).sum() == pytest.approx(apart, rel=1e-6)
    assert model.kinds == ["live"] * 3 + [kind]


def test_labels_are_live_and_the_last_topic_of_background_is_that():
    assert model_of([2000, 2000, 5], label_docs=[40, 1]).kinds == ["live"] * 3
    assert model_of([2000, 900, 5000], options={"background": 3.0}).kinds[-1] == "background"
    assert model_of([2000, 900, 5000], options={"background": 0}).kinds[-1] == "live"


def test_edits_keep_kinds(tmp_path):
    model_of([2000, 20, 20, 900, 5000], options={"background": 3.0}).save(tmp_path / "m")
    opened = TopicModel.open(tmp_path / "m")
    assert list(opened.topic_kinds.values()) == ["live", "dead", "dead", "live", "background"]
    topicstream.edit(
        tmp_path / "m", [{"edit": "merge", "topics": [3, 1]}, {"edit": "drop", "topics": [0]}]
    )
    assert opened.topic_kinds == {2: "dead", 3: "live", 4: "background"}
    topicstream.edit(tmp_path / "m", [{"edit": "merge", "topics": [3, 4]}])
    assert opened.topic_kinds == {2: "dead", 3: "background"}


def test_a_warning_counts_them():
    assert dead_warning(model_of([2000, 2000, 5])) == [
        "1 of 3 topics is dead, with next to nothing of the corpus (`topics show` marks them): "
        "the corpus carries about 2 topics (-K 2)"
    ]
    assert dead_warning(model_of([2000, 2000])) == []


def test_rankings_begin_with_live_topics():
    kinds = ["background", "dead", "live", "live"]
    assert rank_topics(kinds, np.array([9.0, 8.0, 1.0, 2.0])) == [3, 2, 0, 1]


# -- what is shown of them
class Trained:
    """A store of planted themes, and a model with a dead topic (4) and a background (5)."""

    def __init__(self, home: Path) -> None:
        corpus, _ = made(home, 300)
        planted = planted_model(corpus)
        rng = np.random.default_rng(0)
        dead = np.zeros(planted.n_words)
        dead[rng.choice(planted.n_words, 12, replace=False)] = 1.0
        common = np.full(planted.n_words, 400.0)
        phi = np.column_stack([planted.phi, dead, common])
        self.path = str(home / "model")
        self.store = str(home / "corpus.zarr")
        TopicModel.from_arrays(
            phi,
            planted.vocabulary,
            0.1,
            0.01,
            options={"background": 2.0},
            corpus={"docs": 300, "tokens": float(phi.sum())},
            tokenizer=corpus.manifest.tokenizer,
        ).save(self.path)
        self.by_topic = coherence(TopicModel.open(self.path), corpus).by_topic("npmi")


KINDS = {0: "live", 1: "live", 2: "live", 3: "live", 4: "dead", 5: "background"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return Trained(tmp_path_factory.mktemp("kinds"))


def test_lists_mark_them(trained, tmp_path, capsys):
    shown = topicstream.show(trained.path)["topics"]
    assert {topic["topic"]: topic["kind"] for topic in shown} == KINDS
    assert [topic["topic"] for topic in shown] == [3, 2, 1, 0, 5, 4]
    capsys.readouterr()
    assert run(["show", "--model", trained.path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[4].startswith("5") and " (background) " in lines[4]
    assert lines[5].startswith("4") and " (dead) " in lines[5]
    assert "(dead)" not in "".join(lines[:5])
    for suffix in ("csv", "md"):
        table = str(tmp_path / f"t.{suffix}")
        assert run(["show", "--model", trained.path, "--table", table]) == 0
    with (tmp_path / "t.csv").open() as file:
        assert {int(row["topic"]): row["kind"] for row in csv.DictReader(file)} == KINDS
    assert "| dead" in (tmp_path / "t.md").read_text()
    rows = TopicModel.open(trained.path).top_words(3).to_pylist()
    assert {row["topic"]: row["kind"] for row in rows} == KINDS
    assert "(dead) " in TopicModel.open(trained.path)._repr_html_()


def test_the_background_is_no_topic_to_join(trained, capsys):
    """The groups are printed for ``topics edit --merge``, and numbers of merges are no topic's."""
    tree = topicstream.show(trained.path, reduce_to=2)
    assert sorted(k for group in tree["clusters"] for k in group) == [0, 1, 2, 3, 4]
    assert sorted(tree["topics"]) == [0, 1, 2, 3, 4]
    assert tree["first_merge"] == 6 and len(tree["merges"]) == 4
    assert run(["show", "--model", trained.path, "--tree"]) == 0
    assert "background" not in capsys.readouterr().out
    assert run(["show", "--model", trained.path, "--reduce-to", "6"]) == 2


def test_views_of_documents_mark_them(trained):
    effects = topicstream.effects("party", trained.path, trained.store)
    rows = effects.table().to_pylist()
    assert {row["topic"]: row["kind"] for row in rows} == KINDS
    assert any(line.startswith("   4 (dead) ") for line in effects.lines())
    assert any(line.startswith("   5 (background) ") for line in effects.lines())
    groups = topicstream.show(trained.path, trained.store, by="party")
    assert {row["topic"]: row["kind"] for row in groups} == KINDS
    best = topicstream.show(trained.path, trained.store, find="ships")["topics"]
    assert [topic["kind"] for topic in best[-1:]] != ["live"] and best[0]["topic"] == 1


def test_the_report_marks_them(trained, tmp_path):
    out = tmp_path / "r.html"
    topicstream.report(trained.path, trained.store, out=str(out), progress=False)
    values, _ = unpack(data_of(out.read_text()))
    assert values["kinds"] == list(KINDS.values())
    assert values["names"][4].startswith("(dead) ")
    assert values["names"][5].startswith("(background) ")


def test_means_of_coherence_leave_dead_topics_and_the_background_out(trained, capsys):
    scores = topicstream.evaluate(trained.path, trained.store, coherent=True)["coherence"]
    assert scores["kinds"] == list(KINDS.values()) and scores["dead"] == 1
    assert scores["npmi_by_topic"] == trained.by_topic
    wanted = np.mean([value for k, value in enumerate(trained.by_topic) if k not in (4, 5)])
    assert scores["npmi"] == pytest.approx(wanted)
    assert scores["npmi"] != pytest.approx(np.mean(trained.by_topic))
    capsys.readouterr()
    line = ["eval", "--model", trained.path, "--corpus", trained.store, "--coherence"]
    assert run(line) == 0
    assert "1 topic left out as dead" in capsys.readouterr().out


def test_comparison_and_info_mark_them(trained, capsys):
    pairs = topicstream.compare(trained.path, trained.path)["matched"]
    assert {pair["a"]: pair["kind_a"] for pair in pairs} == KINDS
    capsys.readouterr()
    assert run(["compare", trained.path, trained.path]) == 0
    assert "(dead -> dead)" in capsys.readouterr().out
    assert run(["info", trained.path, "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["dead_topics"] == [4] and about["background_topics"] == [5]
    assert run(["info", trained.path]) == 0
    text = capsys.readouterr().out
    assert "dead         1 topic with next to nothing of the corpus: 4" in text
    assert "background   topic 5" in text


def printed_by(capsys, *line):
    """Run a command, and return what it printed."""
    capsys.readouterr()
    assert run([str(word) for word in line]) == 0
    return "".join(capsys.readouterr())


def test_no_count_of_topics_has_the_background_among_them(trained, tmp_path, capsys):
    model = trained.path
    five = "5 topics and a background topic"
    assert five in printed_by(capsys, "info", model)
    assert five in printed_by(capsys, "cite", model)
    assert five in printed_by(capsys, "edit", model)
    assert five in printed_by(capsys, "eval", "--model", model, "--corpus", trained.store)
    assert five in printed_by(capsys, "report", model, "--no-corpus", "--out", tmp_path / "r.html")
    assert "5 topics matched" in printed_by(capsys, "compare", model, model)
    opened = TopicModel.open(model)
    assert five in repr(opened) and opened.background_topic == 5
    assert "6 topics are shown" not in printed_by(capsys, "edit", model, "--drop", 5, "--dry-run")
    written = printed_by(capsys, "export", "--model", model, "--out", tmp_path / "p.csv")
    assert f"{five} (topic 5)" in written
    head = (tmp_path / "p.csv").read_text().splitlines()[0].replace('"', "").split(",")
    assert head == ["word", *(f"topic_{k}" for k in range(4)), "topic_4_dead", "topic_5_background"]
    assert "background" in repr(opened.top_words(3)).splitlines()[-1]


def test_pairs_of_backgrounds_are_not_in_the_mean_distance(tmp_path):
    first = model_of([2000, 900, 5000], options={"background": 3.0})
    other = model_of([2000, 900, 5000], options={"background": 3.0})
    other.phi[80:, 2] = np.arange(40)[::-1] * 5000 / 780  # the background alone differs
    other.totals = other.sizes = other.phi.sum(axis=0, dtype=np.float64)
    compared = topicstream.compare(first, other)
    assert [pair["distance"] > 0.1 for pair in compared["matched"]] == [False, False, True]
    assert compared["mean_distance"] == pytest.approx(0.0, abs=1e-5)


def test_a_count_beside_the_background():
    assert describe_topics(20, 19) == "19 topics and a background topic"
    assert describe_topics(2, 0) == "1 topic and a background topic"
    assert describe_topics(1, None) == "1 topic"


def test_the_background_is_the_largest_topic_of_no_document(tmp_path):
    shares = np.array([[0.1, 0.2, 0.7], [0.3, 0.2, 0.5]], np.float32)
    model = model_of([2000, 900, 5000], options={"background": 3.0})
    assert largest_topics(shares, model).tolist() == [1, 0]
    assert largest_topics(shares, model_of([2000, 900, 5000])).tolist() == [2, 2]


@pytest.fixture(scope="module")
def few_topics(tmp_path_factory):
    """A store of 120 documents of three topics."""
    rng = np.random.default_rng(0)
    words = 600
    base = 1 / np.arange(1, words + 1)
    own = rng.dirichlet(np.full(words, 0.05), 3)
    topics = 0.7 * own + 0.3 * base / base.sum()

    def documents():
        for d in range(120):
            p = rng.dirichlet([0.3] * 3) @ topics
            drawn = rng.choice(words, size=150, p=p / p.sum())
            yield {"id": str(d), "text": " ".join(f"w{i}x" for i in drawn)}

    store = tmp_path_factory.mktemp("few") / "c.zarr"
    topicstream.ingest(documents(), out=store, heldout=0.1, stopwords="none", progress=False)
    return store


def test_training_warns_and_the_sweep_leaves_them_out(few_topics, tmp_path, capsys):
    line = ["train", "--corpus", str(few_topics), "--model", str(tmp_path / "m"), "-K", "30"]
    assert run([*line, "--algo", "sparse-bp"]) == 0  # auto holds the priors of so few documents
    kinds = TopicModel.open(tmp_path / "m").kinds
    dead = kinds.count("dead")
    assert dead >= 5 and f"{dead} of 30 topics are dead" in capsys.readouterr().err
    swept = topicstream.sweep(
        few_topics,
        tmp_path / "sweep",
        topics=[3, 30],
        seeds=1,
        algo=["sparse-bp"],
        progress=False,
    )
    for setting in swept["settings"]:
        values = np.array(setting["by_topic"]["npmi"], float)
        live = np.array([kind != "dead" for kind in setting["by_topic"]["kinds"]])
        assert setting["dead"] == (~live).sum()
        assert setting["npmi"]["value"] == pytest.approx(np.nanmean(values[live]))
    assert swept["settings"][1]["dead"] > 0
    assert "of its topics are dead" not in swept["why"] or swept["chosen"]["dead"]
