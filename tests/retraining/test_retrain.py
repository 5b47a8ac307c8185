"""Retraining: what a cycle does with new, changed and deleted files; gate, versions, locks, clocks."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import topicstream
from tests import ROOT
from tests.ingest_tools import cells_by_id
from tests.retrain_tools import folder, made, write
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.errors import Busy, InputError, StoreError, TopicsError
from topicstream.files import durable
from topicstream.model.topic_model import TopicModel
from topicstream.retraining import config as settings
from topicstream.retraining import cycle as cycle_module
from topicstream.retraining import decide, publish, raw_files
from topicstream.retraining.config import Gate, When
from topicstream.retraining.gate import judge


def cycle(config: Path, **options):
    return topicstream.retrain(config, stream=io.StringIO(), **options)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder in which one model is published; copied by those who change it."""
    config = folder(tmp_path_factory.mktemp("published"))
    first = cycle(config)
    assert (first["decision"], first["published"], first["refused"]) == ("full", 1, [])
    return config


@pytest.fixture
def home(published, tmp_path):
    shutil.copytree(published.parent, tmp_path / "home", symlinks=True)
    return tmp_path / "home"


def state_of(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    "members", [{"files": {"a.jsonl": 5}}, {"last_trained": 5}, {"version": [1]}, {"files": []}, {"refused": 1}]
)
def test_a_state_that_no_cycle_wrote_is_refused_in_a_line(home, members):
    state = durable.read_json(home / "state.json")
    durable.write_json(home / "state.json", {k: v for k, v in state.items() if k != "checksum"} | members)
    with pytest.raises(StoreError, match=r"state\.json: `\$"):
        cycle(home / "retrain.toml", dry_run=True)


def test_what_is_no_plain_file_among_the_raw_ones_is_left_alone(home):
    os.mkfifo(home / "raw" / "pipe.jsonl")  # would be waited for without end
    (home / "raw" / "gone.jsonl").symlink_to("nowhere")
    assert [*raw_files.raw_files(home / "raw", ("*",))] == [*raw_files.raw_files(home / "raw", ("[!pg]*",))]


JOURNAL = {
    "stage": "append", "began": "2026-11-23", "decision": "full", "files": {}, "base": None, "version": 2, "summary": {},
    "groups": [{"name": "new", "rule": "skip"}],
}  # fmt: skip


@pytest.mark.parametrize(
    "members",
    [
        {"groups": [{"name": "../../elsewhere", "rule": "skip"}]},
        {"groups": [{"name": "new"}]},
        {"groups": [{"name": "new", "rule": "skip", "base": "x"}]},
        {"groups": [5]},
        {"base": "../1"},
        {"version": "../2"},
        {"summary": []},
        {"stage": ["append"]},
        {"stage": "publish"},
        {"stage": "publish", "ids": {}},
    ],
)
def test_a_journal_leads_nowhere_else(home, members):
    (home.parent / "elsewhere").mkdir()
    (home.parent / "elsewhere" / "x.jsonl").write_text('{"id": "x", "text": "not for this corpus"}')
    before = state_of(home / "corpus.zarr")
    (home / "journal.json").write_text(json.dumps(JOURNAL | members))
    with pytest.raises(StoreError, match=r"journal\.json: `\$"):
        cycle(home / "retrain.toml")
    assert state_of(home / "corpus.zarr") == before


@pytest.mark.parametrize("journal", ["{}", "[]", '{"stage": "run", "began": "today"}'])
def test_a_journal_that_no_cycle_wrote_is_told(home, journal):
    (home / "journal.json").write_text(journal)
    with pytest.raises(StoreError, match=r"journal\.json"):
        cycle(home / "retrain.toml")
    assert (home / "journal.json").read_text() == journal


def test_a_first_cycle_publishes_a_bare_copy(home):
    names = {p.name for p in (home / "versions" / "0001").iterdir()}
    assert names == {".topicstream", "manifest.json", "vocab.parquet", "topics", "history.jsonl", "topics.json"}
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
    assert json.loads((home / "versions" / "0002" / "topics.json").read_text())["ids"] == [0, 1, 2, 3]
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
    assert said["decision"] == "update" and said["why"] == ["1 new file"] and said["drift"]["documents"] == 30
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
    assert run(["retrain", "--config", str(home / "retrain.toml")]) == 6
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert out.count("\n") == 1 and summary["published"] is None and "perplexity" in summary["refused"][0]
    assert err.rstrip().splitlines()[-1].startswith("topics: the gate refused")
    assert publish.current(home) == 1 and publish.published_versions(home) == [1]
    assert not (home / "journal.json").exists()
    assert cycle(home / "retrain.toml")["decision"] == "nothing"  # not the same again tomorrow
    (home / "retrain.toml").write_text(text.replace("-0.9", "0.5"))
    write(home / "raw" / "c.jsonl", made(30, seed=4, prefix="f"))
    again = cycle(home / "retrain.toml")
    assert again["published"] is not None and again["training"] == "warm"


def test_the_gate_knows_a_bad_model(home):
    good, corpus = TopicModel.open(home / "current"), Corpus.open(home / "corpus.zarr")
    gate = Gate(tolerance=0.02)
    origin = {k: getattr(good.manifest, k) for k in ("engine", "options", "corpus")}
    assert judge(good, good, corpus, gate, 1).refused == []

    def other(phi):
        return TopicModel.from_arrays(phi, good.vocabulary, good.alpha, good.beta, **origin)

    rng = np.random.default_rng(0)
    mixed = good.phi.copy()
    for row in mixed:
        row[:] = row.sum() * rng.dirichlet(np.ones(4))
    assert "perplexity" in judge(other(mixed), good, corpus, gate, 1).refused[0]
    same = good.phi.copy()
    same[:, 0] = same[:, 1] = (same[:, 0] + same[:, 1]) / 2
    assert "same" in " ".join(judge(other(same), good, corpus, Gate(tolerance=9.0), 1).refused)
    first = judge(other(same), None, corpus, gate, 1)
    assert first.refused == [] and "same" in first.warnings[0]
    assert judge(other(same), other(same), corpus, gate, 1).refused == []  # no worse than what is there
    broken = other(good.phi.copy())
    broken.phi[3, 2] = np.nan
    assert judge(broken, good, corpus, gate, 1).refused


def test_rollback_and_forward(home, capsys):
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    cycle(home / "retrain.toml")
    two = TopicModel.open(home / "current").content_hash()
    assert run(["rollback", str(home)]) == 0
    assert "current is version 1 (was 2); it holds until `topics retrain --release`" in capsys.readouterr().out
    assert publish.current(home) == 1
    assert run(["rollback", str(home)]) == 1
    assert "no version before 1" in capsys.readouterr().err
    assert topicstream.rollback(home, to=2) == (1, 2)
    assert TopicModel.open(home / "current").content_hash() == two
    topicstream.rollback(home)
    write(home / "raw" / "c.jsonl", made(30, seed=6, prefix="g"))
    for _ in range(2):
        held = cycle(home / "retrain.toml")
        assert (held["decision"], held["current"], held["held"]) == ("nothing", 1, 1) and "--release" in held["why"][0]
    after = cycle(home / "retrain.toml", release=True)
    assert after["published"] == 3 and after["training"] == "warm"


def test_a_rollback_holds_until_new_documents_where_the_config_says_so(home):
    config = home / "retrain.toml"
    config.write_text(config.read_text().replace("[when]\n", '[when]\nafter_rollback = "new_docs"\n'))
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    assert cycle(config)["published"] == 2
    topicstream.rollback(home)
    assert cycle(config)["decision"] == "nothing" and publish.current(home) == 1
    write(home / "raw" / "c.jsonl", made(30, seed=6, prefix="g"))
    assert cycle(config)["published"] == 3 and publish.current(home) == 3
    assert cycle(config)["why"] == ["nothing is new"]


def test_a_file_that_fails_three_nights_is_set_aside(home):
    bad, config, metrics = home / "raw" / "bad.jsonl", home / "retrain.toml", home.parent / "retrain.prom"
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    bad.write_text("garbage {\n")
    for _ in range(2):
        with pytest.raises(InputError, match=r"raw/bad\.jsonl:1"):
            cycle(config, metrics=metrics)
        assert "files_set_aside" not in metrics.read_text() and publish.current(home) == 1
    third = cycle(config, metrics=metrics)
    assert (third["published"], third["documents_added"], list(third["set_aside"])) == (2, 30, ["bad.jsonl"])
    assert "topicstream_files_set_aside{" in metrics.read_text() and metrics.read_text().split("files_set_aside{")[1].split()[1] == "1"
    log = io.StringIO()
    assert topicstream.retrain(config, stream=log)["decision"] == "nothing"
    assert "raw/bad.jsonl:1" in log.getvalue() and "set aside until it changes" in log.getvalue()
    with pytest.raises(InputError, match=r"raw/bad\.jsonl:1"):
        cycle(config, release=True)
    write(bad, made(20, seed=3, prefix="f"))
    mended = cycle(config)
    assert (mended["documents_added"], mended["set_aside"]) == (20, {})


@pytest.mark.slow
def test_only_so_many_versions_are_kept(home):
    for n in range(4):
        write(home / "raw" / f"n{n}.jsonl", made(12, seed=10 + n, prefix=f"n{n}-"))
        cycle(home / "retrain.toml")
    assert publish.published_versions(home) == [3, 4, 5] and publish.current(home) == 5


def test_two_at_once(home, capsys):
    with durable.lock(home, "retraining"):
        with pytest.raises(Busy):
            cycle(home / "retrain.toml")
        assert run(["retrain", "--config", str(home / "retrain.toml")]) == 4
        assert "another process is retraining" in capsys.readouterr().err
        assert run(["rollback", str(home)]) == 4
        done: list[dict] = []
        waiting = threading.Thread(target=lambda: done.append(cycle(home / "retrain.toml", wait=True)))
        waiting.start()
        waiting.join(0.3)
        assert not done
    waiting.join(600)
    assert done[0]["decision"] == "nothing"


def test_a_clock_that_goes_back(home, monkeypatch):
    at = datetime.now(UTC)
    monkeypatch.setattr(decide, "now", lambda: at - timedelta(days=400))
    log = io.StringIO()
    said = topicstream.retrain(home / "retrain.toml", at_least_every="30d", stream=log)
    assert said["decision"] == "nothing" and "behind the last training" in log.getvalue()
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    assert cycle(home / "retrain.toml")["published"] == 2
    monkeypatch.setattr(decide, "now", lambda: at - timedelta(days=360))
    done = cycle(home / "retrain.toml", at_least_every="30d")
    assert done["decision"] == "full" and "40.0 days ago" in done["why"][0]


def test_a_read_only_target(home, tmp_path):
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    if subprocess.run(["mount", "--bind", str(home), str(mounted)], capture_output=True).returncode:
        pytest.skip("cannot mount here")
    try:
        remount = ["mount", "-o", "remount,ro,bind", str(mounted)]
        if subprocess.run(remount, capture_output=True).returncode:
            pytest.skip("cannot mount read-only here")
        with pytest.raises(TopicsError, match="is read-only; retrain writes there") as caught:
            cycle(mounted / "retrain.toml")
        assert "\n" not in str(caught.value)
    finally:
        subprocess.run(["umount", "-l", str(mounted)], check=True)


def test_a_file_that_changes_while_it_is_read(home, monkeypatch):
    busy = write(home / "raw" / "busy.jsonl", made(30, seed=2, prefix="e"))
    real, left = raw_files._stat, [1]

    def stat(path):
        found = real(path)
        if Path(path) == busy and left[0]:
            left[0] -= 1
            with open(busy, "a") as f:
                f.write(json.dumps({"id": f"more{left[0]}", "text": "axko aylo azmo"}) + "\n")
        return found

    monkeypatch.setattr(raw_files, "_stat", stat)
    assert cycle(home / "retrain.toml")["documents_added"] == 31  # the second copy was whole
    left[0] = 100
    with open(busy, "a") as f:
        f.write(json.dumps({"id": "again", "text": "axko aylo"}) + "\n")
    log = io.StringIO()
    waiting = topicstream.retrain(home / "retrain.toml", stream=log)
    assert (waiting["decision"], waiting["unsettled_files"]) == ("nothing", 1)
    assert "is being written to" in log.getvalue()
    left[0] = 0
    assert cycle(home / "retrain.toml")["published"] == 3
    assert "again" in cells_by_id(home / "corpus.zarr")


def test_a_bad_file_is_named_and_changes_nothing(home):
    (home / "raw" / "bad.jsonl").write_text('{"id": "x", "text": "axko"}\n{broken\n')
    before = state_of(home / "corpus.zarr")
    with pytest.raises(InputError, match=r"raw/bad\.jsonl:2"):
        cycle(home / "retrain.toml")
    assert state_of(home / "corpus.zarr") == before and publish.current(home) == 1


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("gone", ["manifest.json", ""])
def test_a_corpus_that_is_gone_is_not_begun_anew(home, gone, full):
    """A disk that is not mounted: the new documents wait until the store is back."""
    write(home / "raw" / "b.jsonl", made(40, seed=9, prefix="n"))
    missing, away = home / "corpus.zarr" / gone, home / "away"
    missing.rename(away)
    before = state_of(home)
    with pytest.raises(
        StoreError, match=r"corpus\.zarr: no corpus store is there, though 1 raw files were taken into it"
    ):
        cycle(home / "retrain.toml", full=full)
    assert state_of(home) == before
    away.rename(missing)
    assert cycle(home / "retrain.toml", full=full)["documents_added"] == 40


def test_a_bad_file_in_the_first_cycle_can_be_mended(tmp_path):
    config = folder(tmp_path)
    good = (tmp_path / "raw" / "a.jsonl").read_text()
    (tmp_path / "raw" / "a.jsonl").write_text(good + "{broken\n")
    with pytest.raises(InputError, match=r"raw/a\.jsonl:301"):
        cycle(config)
    (tmp_path / "raw" / "a.jsonl").write_text(good)
    assert cycle(config)["documents_added"] == 300


def test_the_log_has_timestamps(home):
    log = io.StringIO()
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    topicstream.retrain(home / "retrain.toml", stream=log)
    lines = log.getvalue().splitlines()
    assert len(lines) > 5
    for line in lines:
        datetime.fromisoformat(line.split(" ")[0])


def test_decisions():
    manifest = SimpleNamespace(engine="atbp", topics=4)
    plain = settings.Train(topics=4)

    def kind(**given):
        facts = {"model": manifest, "new": "1 new file", "drifted": [], "age": 10.0, "when": When(), "train": plain}
        return decide.decide(**{**facts, **given}).kind

    assert kind() == "update" and kind(new="") == "nothing" and kind(model=None) == "full"
    assert kind(drifted=["it has"]) == "full" and kind(drifted=["it has"], when=When(drift=False)) == "update"
    assert (
        kind(new="", when=When(at_least_every=9.0)) == "full"
        and kind(new="", when=When(at_least_every=11.0)) == "nothing"
    )
    assert kind(when=When(new_docs=False)) == "nothing" and kind(new="", forced=True) == "full"
    assert kind(train=settings.Train(topics=5)) == "full" and kind(train=settings.Train(topics=4, algo="vb")) == "full"


def test_init_writes_a_config_that_says_the_defaults(tmp_path, capsys):
    config = tmp_path / "r.toml"
    assert run(["retrain", "--init", "--config", str(config)]) == 0
    read = settings.load_config(config)
    assert read == settings.Config(folder=tmp_path, raw=tmp_path / "raw", ingest={"grow_vocab": True}, patterns=["*"])
    assert run(["retrain", "--init", "--config", str(config)]) == 1
    capsys.readouterr()
    for text, word in (
        ("tpics = 3", "tpics"),
        ("[train]\ntopics = 'x'", "topics"),
        ("[gate]\nx = 1", "x"),
        ("a = [", "TOML"),
    ):
        config.write_text(text)
        assert run(["retrain", "--config", str(config)]) == 2
        assert word in capsys.readouterr().err
    assert run(["retrain", "--config", str(tmp_path / "no.toml")]) == 2
    assert "--init" in capsys.readouterr().err


def test_the_example_config_is_one():
    assert settings.load_config(ROOT / "examples" / "cron" / "retrain.toml").train.topics >= 2


def test_a_cycle_compacts_when_it_pays(tmp_path, monkeypatch):
    """``always``, ``never``; and ``auto`` before a full training, or where half of the blocks are to spare."""
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
    monkeypatch.setattr(cycle_module, "gain", lambda corpus: (1, 4, 0))
    write(tmp_path / "raw" / "d.jsonl", made(60, seed=4, prefix="g"))
    assert "compacted" not in cycle(config)
    config.write_text(plain + '[store]\ncompact = "always"\n')
    write(tmp_path / "raw" / "f.jsonl", made(60, seed=5, prefix="h"))
    assert cycle(config)["compacted"] == [6, 2]
    assert cycle(config)["decision"] == "nothing"
    config.write_text(config.read_text().replace("always", "perhaps"))
    with pytest.raises(TopicsError, match="compact must be one of auto, never, always"):
        cycle(config)
