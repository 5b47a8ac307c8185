"""With ``--eval-every`` the pass of the lowest held-out perplexity is what is kept, whatever comes
between.
"""

from __future__ import annotations

import json

import pytest
from checkpoint_bits import content_hash

from tests.planted import draw, store
from topicstream.base.files import ownership as owned
from topicstream.base.progress import Progress
from topicstream.cli.main import run
from topicstream.model.topic_model import TopicModel
from topicstream.training.course import Course
from topicstream.training.loop import train
from topicstream.training.session import Session
from topicstream.training.state import checkpoint
from topicstream.training.state.checkpoint import list_checkpoints

MADE = {
    2: 900.0,
    4: 800.0,
    6: 780.0,
    8: 790.0,
    10: 795.0,
    12: 799.0,
    14: 798.0,
    16: 785.0,
    18: 781.0,
    20: 770.0,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    _, indptr, words, counts = draw(docs=200, words=150, topics=4, length=40, seed=5)
    return store(
        tmp_path_factory.mktemp("best") / "corpus.zarr", indptr, words, counts, 150, heldout=20
    )


@pytest.fixture
def made(monkeypatch):
    """Held-out perplexity as above; ``made`` counts what is measured."""
    asked = []
    measure = Course.measure

    def after(course, number, *rest):
        asked.append(number)
        return measure(course, number, *rest)

    figures = {"perplexity": lambda *_: MADE[asked[-1]], "unigram_perplexity": lambda *_: 1000.0}
    documents = type("Made", (), figures)()
    monkeypatch.setattr(Course, "measure", after)
    monkeypatch.setattr(Course, "_heldout", documents)
    return asked


class Said(Progress):
    """What is said."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


def go(corpus, model, passes=16, tol=0.0, **more):
    return train(
        corpus,
        model,
        algo="sparse-bp",
        topics=8,
        passes=passes,
        tol=tol,
        threads=1,
        progress=False,
        **{"eval_every": 2} | more,
    )


def test_the_best_pass_is_kept_as_if_no_other_had_followed(corpus, tmp_path, made):
    done = go(corpus, tmp_path / "best")
    plain = go(corpus, tmp_path / "plain", passes=6, eval_every=0)
    assert (
        done.passes == plain.passes == 6
        and done.reason == "the best of 16 by held-out perplexity; all passes done"
    )
    assert [p.name for p in list_checkpoints(done.model / "checkpoints")] == ["000006-000000"]
    assert len(list((done.model / "work").glob("memory-*.bin"))) == 1
    one = TopicModel.open(done.model)
    other = TopicModel.open(plain.model)
    assert one.content_hash() == other.content_hash() and one.manifest.passes == 6
    assert done.last["heldout_perplexity"] == MADE[6]


def test_the_same_command_does_nothing_and_more_passes_go_on(corpus, tmp_path, made):
    model = tmp_path / "model"
    go(corpus, model)
    measured = len(made)
    assert go(corpus, model).passes == 6 and len(made) == measured
    assert go(corpus, model, passes=18).passes == 6  # goes back to pass 6 once more
    done = go(corpus, model, passes=20)
    assert done.passes == 20 and done.reason == "all passes done"
    assert (
        TopicModel.open(model).content_hash()
        == TopicModel.open(
            go(corpus, tmp_path / "plain", passes=20, eval_every=0).model
        ).content_hash()
    )


def test_a_run_that_was_stopped_finds_its_best_pass_again(corpus, tmp_path, made, monkeypatch):
    whole = go(corpus, tmp_path / "whole")
    model = tmp_path / "model"
    real = Session.run_pass

    def stops(session, pause):
        if session.passes == 11:
            raise KeyboardInterrupt
        return real(session, pause)

    monkeypatch.setattr(Session, "run_pass", stops)
    with pytest.raises(KeyboardInterrupt):
        go(corpus, model)
    monkeypatch.setattr(Session, "run_pass", real)
    assert go(corpus, model).reason == whole.reason
    assert content_hash(model) == content_hash(whole.model)


def test_it_says_when_to_stop(corpus, tmp_path, made):
    done = go(corpus, tmp_path / "model", passes=20, tol="0.1%", start="documents")
    assert done.passes == 6 and json.loads((done.model / "finished.json").read_text())["made"] == 16
    assert done.reason.startswith(
        "the best of 16 by held-out perplexity; no new low of held-out perplexity by 0.1%"
    )


def test_a_stop_by_the_topics_own_change_keeps_the_best_pass_too(corpus, tmp_path, made):
    done = go(corpus, tmp_path / "model", tol_params=1.0)
    assert done.passes == 4  # stops after 5, the least
    assert (
        done.reason
        == "the best of 5 by held-out perplexity; no probability of a word moved by more than 1"
    )
    later = go(corpus, tmp_path / "later", passes=20, tol_params=1e-9)
    assert later.passes == 20 and later.last["heldout_perplexity"] == MADE[20]


def test_a_damaged_best_pass_is_told_and_the_last_one_kept(corpus, tmp_path, made, monkeypatch):
    real = Session.finish
    said = Said()

    def finish(session, reason):
        (session.run.folder / "checkpoints" / "000006-000000" / "phi.rows").write_bytes(b"")
        return real(session, reason)

    monkeypatch.setattr(Session, "finish", finish)
    done = train(
        corpus,
        tmp_path / "m",
        algo="sparse-bp",
        topics=8,
        passes=16,
        tol=0.0,
        eval_every=2,
        threads=1,
        progress=said,
    )
    assert done.passes == 16 and any(
        "the last pass is kept, not pass 6" in line for line in said.lines
    )


@pytest.mark.parametrize(
    ("saves", "said"),
    [(0, "no checkpoint yet); the same `topics train` command starts"), (3, "2 passes); the same")],
)
def test_an_unfinished_run_says_what_is_there_and_what_to_do(
    corpus, tmp_path, monkeypatch, capsys, saves, said
):
    """As a run that a kill ended: before its first checkpoint, and after those of the start and two
    passes.
    """
    model = tmp_path / "m"
    real = checkpoint.write_checkpoint
    written = []

    def writes(*given):
        if len(written) == saves:
            raise RuntimeError("killed here")
        written.append(real(*given))

    monkeypatch.setattr(checkpoint, "write_checkpoint", writes)
    monkeypatch.setattr(checkpoint, "SHARE", float("inf"))  # a checkpoint each pass
    with pytest.raises(RuntimeError, match="killed here"):
        train(corpus, model, algo="bp", topics=4, passes=6, progress=Said())
    for command in (["info", str(model)], ["show", "--model", str(model)]):
        assert run(command) == 3
        line = capsys.readouterr().err
        assert "no model yet" in line and said in line and line.count("\n") == 1
    monkeypatch.undo()
    train(
        corpus, model, algo="bp", topics=4 if saves else 5, passes=6, progress=Said()
    )  # other settings lose nothing before one
    assert run(["info", str(model)]) == 0
    lines = (model / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["pass"] for line in lines] == list(range(7))


def test_a_checkpoint_that_a_kill_left_half_removed_goes_with_the_next_command(corpus, tmp_path):
    model = tmp_path / "m"
    train(corpus, model, algo="bp", topics=4, passes=3, progress=Said())
    left = model / "checkpoints" / ".000002-000000.old"
    owned.copy(list_checkpoints(model / "checkpoints")[-1], left)
    train(corpus, model, algo="bp", topics=4, passes=3, progress=Said())
    assert not left.exists() and list_checkpoints(model / "checkpoints")
