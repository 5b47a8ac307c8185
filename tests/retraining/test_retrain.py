"""Retraining: what a cycle does with new, changed and deleted files; gate, versions, locks,
clocks.
"""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pytest

import topicstream
from tests.ingest_tools import cells_by_id
from tests.report_store import data_of, unpack
from tests.retrain_tools import cycle, folder, made, state_of, write
from topicstream.base.errors import TopicsError
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import score_model
from topicstream.model.topic_model import TopicModel
from topicstream.retraining import config as settings
from topicstream.retraining import decide, publish
from topicstream.retraining.config import Gate, When
from topicstream.retraining.gate import judge


def test_a_first_cycle_publishes_a_bare_copy(home):
    names = {p.name for p in (home / "versions" / "0001").iterdir()}
    assert names == {
        ".topicstream",
        "manifest.json",
        "vocab.parquet",
        "topics",
        "history.jsonl",
        "topics.json",
    }
    assert os.readlink(home / "current") == "versions/0001"
    assert TopicModel.open(home / "current").path == home / "versions" / "0001"
    assert not (home / "journal.json").exists() and not (home / "incoming").exists()


def test_nothing_new_changes_nothing(home):
    before = state_of(home)
    again = cycle(home / "retrain.toml")
    assert (again["decision"], again["published"]) == ("nothing", None)
    assert state_of(home) == before


def test_new_documents_are_an_update_that_keeps_the_topics(home):
    extra = made(80, seed=2, prefix="e")
    for d in extra[:40]:
        d["text"] += " brandnewword"
    write(home / "raw" / "b.jsonl", extra)
    before = TopicModel.open(home / "current")
    done = cycle(home / "retrain.toml")
    assert (done["decision"], done["published"], done["documents_added"]) == ("update", 2, 80)
    assert done["training"] == "warm"
    assert done["topics"]["kept"] == 4 and done["topics"]["born"] == []
    after = TopicModel.open(home / "current")
    assert after.n_words > before.n_words and "brandnewword" in after.words
    assert after.words[: before.n_words] == before.words
    corpus = Corpus.open(home / "corpus.zarr")
    assert after.totals.sum() == pytest.approx(corpus.n_tokens, rel=1e-6)
    assert json.loads((home / "versions" / "0002" / "topics.json").read_text())["ids"] == [
        0,
        1,
        2,
        3,
    ]
    assert not (home / "runs").exists()


def test_a_changed_file_replaces_its_documents_and_a_deleted_one_leaves_them(home):
    docs = made(300, seed=1)
    docs[3]["text"] = "axko axko aylo"
    write(home / "raw" / "a.jsonl", [*docs, {"id": "late", "text": "bxko bylo bzmo"}])
    done = cycle(home / "retrain.toml")
    assert (done["changed_files"], done["decision"], done["training"]) == (1, "update", "warm")
    cells = cells_by_id(home / "corpus.zarr")
    assert len(cells) == 301 and cells["d3"][1] == {"axko": 2.0, "aylo": 1.0} and "late" in cells
    (home / "raw" / "a.jsonl").unlink()
    gone = cycle(home / "retrain.toml")
    assert (gone["decision"], gone["deleted_files"]) == ("nothing", 1)
    assert len(cells_by_id(home / "corpus.zarr")) == 301


def test_changed_add_takes_new_ids_only(tmp_path):
    config = folder(tmp_path, changed="add")
    cycle(config)
    docs = made(300, seed=1)
    docs[3]["text"] = "axko axko aylo"
    write(tmp_path / "raw" / "a.jsonl", [*docs, *made(20, seed=5, prefix="n")])
    before = cells_by_id(tmp_path / "corpus.zarr")["d3"]
    done = cycle(config)
    assert (done["documents_added"], done["training"]) == (20, "warm")
    assert cells_by_id(tmp_path / "corpus.zarr")["d3"] == before


def test_a_touched_file_is_not_new(home):
    os.utime(home / "raw" / "a.jsonl", ns=(1, 1))
    assert cycle(home / "retrain.toml")["decision"] == "nothing"
    assert json.loads((home / "state.json").read_text())["files"]["a.jsonl"]["mtime_ns"] == 1


def test_files_of_one_name_in_two_folders_do_not_collide(tmp_path):
    config = folder(tmp_path)
    nameless = [{"text": d["text"]} for d in made(40, seed=3)]
    write(tmp_path / "raw" / "monday" / "x.jsonl", nameless)
    cycle(config)
    write(tmp_path / "raw" / "tuesday" / "x.jsonl", nameless)
    assert cycle(config)["documents_added"] == 40


def test_a_dry_run_says_why_and_changes_nothing(home):
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    before = state_of(home)
    said = cycle(home / "retrain.toml", dry_run=True)
    assert (
        said["decision"] == "update"
        and said["why"] == ["1 new file"]
        and said["drift"]["documents"] == 30
    )
    assert state_of(home) == before


def test_new_files_wait_until_a_condition_holds(home):
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    waiting = cycle(home / "retrain.toml", if_drift=True)
    assert waiting["decision"] == "nothing" and "wait" in waiting["why"][0]
    assert Corpus.open(home / "corpus.zarr").manifest.generation == 1
    assert cycle(home / "retrain.toml", if_new_docs=True)["published"] == 2


def test_drift_leads_to_a_full_training(home):
    write(home / "raw" / "b.jsonl", made(60, seed=2, prefix="e", language="q"))
    done = cycle(home / "retrain.toml", if_drift=True)
    assert done["decision"] == "full" and done["training"] == "fresh"
    assert done["drift"]["seen_words"] == 0 and done["drift"]["unknown_tokens"] == 1


def test_the_gate_refuses_and_the_old_model_stays(home, capsys):
    text = (home / "retrain.toml").read_text().replace("tolerance = 0.5", "tolerance = -0.9")
    (home / "retrain.toml").write_text(text)
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    assert (
        run(["retrain", "--config", str(home / "retrain.toml"), "--metrics", str(home / "m.prom")])
        == 6
    )
    found = {
        line.split("{")[0]: line.split()[-1]
        for line in (home / "m.prom").read_text().splitlines()
        if line[0] != "#"
    }
    assert [
        found[f"topicstream_{name}"] for name in ("exit_code", "success", "refused", "version")
    ] == ["6", "0", "1", "1"]
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert (
        out.count("\n") == 1
        and summary["published"] is None
        and "perplexity" in summary["refused"][0]
    )
    assert err.rstrip().splitlines()[-1].startswith("topics: the gate refused")
    assert publish.current_version(home) == 1 and publish.published_versions(home) == [1]
    assert not (home / "journal.json").exists()
    assert cycle(home / "retrain.toml")["decision"] == "nothing"  # not the same again tomorrow
    (home / "retrain.toml").write_text(text.replace("-0.9", "0.5"))
    write(home / "raw" / "c.jsonl", made(30, seed=4, prefix="f"))
    again = cycle(home / "retrain.toml")
    assert again["published"] is not None and again["training"] == "warm"


def test_the_gate_knows_a_bad_model(home):
    good = TopicModel.open(home / "current")
    corpus = Corpus.open(home / "corpus.zarr")
    gate = Gate(tolerance=0.02)
    origin = {k: getattr(good.manifest, k) for k in ("engine", "options", "corpus")}
    assert judge(good, good, corpus, gate, 1).refused == []

    def other(phi):
        return TopicModel.from_arrays(phi, good.vocabulary, good.alpha, good.beta, **origin)

    rng = np.random.default_rng(0)
    mixed = good.phi.copy()
    for row in mixed:
        row[:] = row.sum() * rng.dirichlet(np.ones(4))
    bad = judge(other(mixed), good, corpus, gate, 1)
    assert "perplexity" in bad.refused[0]
    assert judge(good, good, corpus, gate, 1).error == 0
    logliks: list[list[np.ndarray]] = [[], []]
    for model, into in zip((good, other(mixed)), logliks, strict=True):
        score_model(model, corpus, on_block=lambda some, _, into=into: into.append(some))
    one, two = map(np.concatenate, logliks)
    ratios = [
        rng.choice(two - one, len(one)).sum() / bad.tokens for _ in range(400)
    ]  # bootstrap of the log of the ratio
    assert 0.8 < bad.error / np.std(ratios) < 1.25
    same = good.phi.copy()
    same[:, 0] = same[:, 1] = (same[:, 0] + same[:, 1]) / 2
    assert "same" in " ".join(judge(other(same), good, corpus, Gate(tolerance=9.0), 1).refused)
    first = judge(other(same), None, corpus, gate, 1)
    assert first.refused == [] and "same" in first.warnings[0]
    assert (
        judge(other(same), other(same), corpus, gate, 1).refused == []
    )  # no worse than what is there
    broken = other(good.phi.copy())
    broken.phi[3, 2] = np.nan
    assert judge(broken, good, corpus, gate, 1).refused


@pytest.mark.parametrize("weights", [None, "tfidf"])
def test_words_that_one_model_alone_has_cost_it_nothing(home, weights):
    """A model of more words gives less to each; the gate judges both by what they say of the words
    that both have.
    """
    old = TopicModel.open(home / "current")
    corpus = Corpus.open(home / "corpus.zarr")
    if weights:
        topicstream.train(
            home / "corpus.zarr",
            home / "weighted",
            topics=4,
            passes=5,
            weighting=weights,
            progress=False,
        )
        old = TopicModel.open(home / "weighted")
    more = np.concatenate(
        [old.phi, np.full_like(old.phi, old.phi.mean() / 2)]
    )  # a third of each topic goes to new words
    words = old.words + [f"new{i}" for i in range(len(old.words))]
    counts, df = (np.concatenate([of, of]) for of in (old.vocabulary.counts, old.vocabulary.df))
    new = TopicModel.from_arrays(more, words, old.alpha, old.beta, counts=counts, df=df)
    if weights:
        new.weights = replace(old.weights, per_word=np.concatenate([old.weights.per_word] * 2))
    found = judge(new, old, corpus, Gate(tolerance=0.02), 1)
    assert found.refused == [] and found.perplexity == pytest.approx(
        found.perplexity_before, rel=1e-5
    )


def test_a_published_model_is_known_by_its_path(home, capsys, monkeypatch):
    """The link and the folder that it points to are models for every command, and a store may stand
    behind them.
    """
    monkeypatch.chdir(home)
    for line in (
        "show current",
        "show versions/0001 corpus.zarr --docs 1",
        "eval corpus.zarr current --diversity",
        "infer current corpus.zarr --top 1",
    ):
        assert run(line.split()) == 0, line
    assert (
        run(["report", "current", "corpus.zarr", "--out", "page.html"]) == 0
        and (home / "page.html").exists()
    )
    assert "page.html: 4 topics" in capsys.readouterr().out


def test_rollback_and_forward(home, capsys):
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    cycle(home / "retrain.toml")
    two = TopicModel.open(home / "current").content_hash()
    assert run(["rollback", str(home)]) == 0
    assert (
        "current is version 1 again (was 2), until `topics retrain --release`"
        in capsys.readouterr().out
    )
    assert publish.current_version(home) == 1
    assert run(["rollback", str(home)]) == 1
    assert "no version before 1" in capsys.readouterr().err
    for by_hand in (str(home / "versions" / "0002"), "./versions/0002/"):
        (home / "current").unlink()
        (home / "current").symlink_to(by_hand)
        assert cycle(home / "retrain.toml")["current"] == 2
        assert topicstream.rollback(home, to=1) == (2, 1)
    (home / "current").unlink()
    (home / "current").symlink_to(home.parent / "elsewhere")
    assert (
        run(["retrain", "--config", str(home / "retrain.toml")]) == 1
        and "remove the link" in capsys.readouterr().err
    )
    (home / "current").unlink()
    topicstream.rollback(home, to=1)
    assert topicstream.rollback(home, to=2) == (1, 2)
    assert TopicModel.open(home / "current").content_hash() == two
    topicstream.rollback(home)
    write(home / "raw" / "c.jsonl", made(30, seed=6, prefix="g"))
    for _ in range(2):
        held = cycle(home / "retrain.toml")
        assert (held["decision"], held["current"], held["held"]) == (
            "nothing",
            1,
            1,
        ) and "--release" in held["why"][0]
    after = cycle(home / "retrain.toml", release=True)
    assert after["published"] == 3 and after["training"] == "warm"


@pytest.mark.product
def test_a_rollback_holds_until_new_documents_where_the_config_says_so(home):
    config = home / "retrain.toml"
    config.write_text(
        config.read_text().replace("[when]\n", '[when]\nafter_rollback = "new_docs"\n')
    )
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    assert cycle(config)["published"] == 2
    topicstream.rollback(home)
    assert cycle(config)["decision"] == "nothing" and publish.current_version(home) == 1
    write(home / "raw" / "c.jsonl", made(30, seed=6, prefix="g"))
    assert cycle(config)["published"] == 3 and publish.current_version(home) == 3
    assert cycle(config)["why"] == ["nothing is new"]


@pytest.mark.slow
def test_only_so_many_versions_are_kept(home):
    for n in range(4):
        write(home / "raw" / f"n{n}.jsonl", made(12, seed=10 + n, prefix=f"n{n}-"))
        cycle(home / "retrain.toml")
    assert publish.published_versions(home) == [3, 4, 5] and publish.current_version(home) == 5


def test_the_log_has_timestamps(home):
    log = io.StringIO()
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    topicstream.retrain(home / "retrain.toml", stream=log)
    lines = log.getvalue().splitlines()
    assert len(lines) > 5
    for line in lines:
        datetime.fromisoformat(line.split(" ")[0])


def test_decisions():
    manifest = SimpleNamespace(engine="atbp", topics=4, covariates=None)
    plain = settings.Train(topics=4)

    def kind(**given):
        facts = {
            "model": manifest,
            "new": "1 new file",
            "drifted": [],
            "age": 10.0,
            "when": When(),
            "train": plain,
        }
        return decide.decide(**{**facts, **given})[0]

    assert kind() == "update" and kind(new="") == "nothing" and kind(model=None) == "full"
    assert (
        kind(drifted=["it has"]) == "full"
        and kind(drifted=["it has"], when=When(drift=False)) == "update"
    )
    assert (
        kind(new="", when=When(at_least_every=10.0)) == "full"
        and kind(new="", when=When(at_least_every=10.1)) == "nothing"
    )
    assert kind(new="", age=None, when=When(at_least_every=1.0)) == "nothing"
    assert kind(new="", model=None) == "nothing" and kind(new="", model=None, forced=True) == "full"
    assert kind(when=When(new_docs=False)) == "nothing" and kind(new="", forced=True) == "full"
    assert (
        kind(train=settings.Train(topics=5)) == "full"
        and kind(train=settings.Train(topics=4, algo="vb")) == "full"
    )


@pytest.mark.parametrize(
    ("rule", "decision", "gain", "pays"),
    [
        ("auto", "update", (2, 4, 0), True),
        ("auto", "update", (1, 3, 0), False),
        ("auto", "full", (1, 9, 0), True),
        ("auto", "full", (0, 9, 0), False),
        ("auto", "update", (0, 9, 1), True),
        ("always", "update", (1, 9, 0), True),
        ("always", "update", (0, 9, 0), False),
        ("never", "full", (5, 9, 3), False),
    ],
)
def test_it_pays_to_compact_where_half_of_the_blocks_are_to_spare(
    rule, decision, gain, pays, monkeypatch
):
    monkeypatch.setattr(decide, "compaction_gain", lambda corpus: gain)
    monkeypatch.setattr(decide.Corpus, "open", lambda path: None)
    config = SimpleNamespace(store=SimpleNamespace(compact=rule), corpus="c.zarr")
    said = decide.describe_spare_blocks(config, decision)
    assert bool(said) == pays
    if pays:
        assert said == f"{gain[0]} of {gain[1]} blocks to spare, {gain[2]} removed documents"


@pytest.mark.slow
def test_a_cycle_compacts_when_it_pays(tmp_path, monkeypatch):
    """``always``, ``never``; and ``auto`` before a full training, or where half of the blocks are
    to spare.
    """
    config = folder(tmp_path)
    cycle(config)
    plain = config.read_text()
    config.write_text(plain + '[store]\ncompact = "never"\n')
    write(tmp_path / "raw" / "b.jsonl", made(60, seed=2, prefix="e"))
    assert "compacted" not in cycle(config)
    config.write_text(plain)
    write(tmp_path / "raw" / "c.jsonl", made(60, seed=3, prefix="f"))
    before = cells_by_id(tmp_path / "corpus.zarr")
    assert cycle(config)["compacted"] == [6, 2]
    assert before.items() <= cells_by_id(tmp_path / "corpus.zarr").items()
    monkeypatch.setattr(decide, "compaction_gain", lambda corpus: (1, 4, 0))
    write(tmp_path / "raw" / "d.jsonl", made(60, seed=4, prefix="g"))
    assert "compacted" not in cycle(config)
    config.write_text(plain + '[store]\ncompact = "always"\n')
    write(tmp_path / "raw" / "f.jsonl", made(60, seed=5, prefix="h"))
    assert cycle(config)["compacted"] == [6, 2]
    assert cycle(config)["decision"] == "nothing"
    config.write_text(config.read_text().replace("always", "perhaps"))
    with pytest.raises(TopicsError, match="compact must be one of auto, never, always"):
        cycle(config)


@pytest.mark.product
def test_records_left_out_are_counted_and_passages_are_those_of_the_raw_files(tmp_path, capsys):
    config = folder(tmp_path)
    config.write_text(config.read_text().replace("[ingest]", '[ingest]\non_error = "skip"'))
    with (tmp_path / "raw" / "a.jsonl").open("a") as file:
        file.write("{bad\n{worse\n")
    assert run(["retrain", "--config", str(config), "--metrics", f"{tmp_path}/m.prom"]) == 0
    out, err = capsys.readouterr()
    assert (
        json.loads(out)["records_rejected"] == 2
        and "warning: 2 records left out, the first a.jsonl:301: " in err
    )
    assert 'topicstream_records_rejected{command="retrain"' in (tmp_path / "m.prom").read_text()
    write(tmp_path / "raw" / "new" / "b.jsonl", made(30, seed=2, prefix="e"))
    assert cycle(config)["records_rejected"] == 0
    model = topicstream.TopicModel.open(tmp_path / "current")
    for document in model.typical_documents(
        0, 3, corpus=tmp_path / "corpus.zarr", text=True
    ).to_pylist():
        assert document["text"] and document["marks"]
    topicstream.report(
        tmp_path / "current", tmp_path / "corpus.zarr", out=tmp_path / "r.html", progress=False
    )
    values, _ = unpack(data_of((tmp_path / "r.html").read_text()))
    assert all(passage for listed in values["passages"] for passage in listed), values["notes"]
    left = topicstream.forget(["e3", "d3"], tmp_path / "corpus.zarr", progress=False)["elsewhere"]
    assert [
        any(text.startswith(f"{tmp_path}/{name}:") for text in left)
        for name in ("raw/a.jsonl", "raw/new/b.jsonl")
    ] == [True, True], left
