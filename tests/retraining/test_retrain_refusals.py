"""Retraining where something is wrong: states, journals, configurations, files, locks and
clocks.
"""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import topicstream
from tests import ROOT, few_quick
from tests.ingest_tools import cells_by_id
from tests.retrain_tools import cycle, folder, made, state_of, write
from topicstream.base.errors import (
    Busy,
    FilesFailed,
    InputError,
    StoreError,
    TopicsError,
    UsageError,
)
from topicstream.base.files import durable
from topicstream.cli.main import run
from topicstream.retraining import config as settings
from topicstream.retraining import cycle as cycle_module
from topicstream.retraining import decide, publish, raw_files


@pytest.mark.parametrize(
    "members",
    [
        {"files": {"a.jsonl": 5}},
        {"last_trained": 5},
        {"version": [1]},
        {"files": []},
        {"refused": 1},
    ],
)
def test_a_state_that_no_cycle_wrote_is_refused_in_a_line(home, members):
    state = durable.read_json(home / "state.json")
    durable.write_json(
        home / "state.json", {k: v for k, v in state.items() if k != "checksum"} | members
    )
    with pytest.raises(StoreError, match=r"state\.json: `\$"):
        cycle(home / "retrain.toml", dry_run=True)


def test_what_is_no_plain_file_among_the_raw_ones_is_left_alone(home):
    os.mkfifo(home / "raw" / "pipe.jsonl")  # would be waited for without end
    (home / "raw" / "gone.jsonl").symlink_to("nowhere")
    assert [*raw_files.raw_files(home / "raw", ("*",))] == [
        *raw_files.raw_files(home / "raw", ("[!pg]*",))
    ]


JOURNAL = {
    "stage": "append",
    "began": "2026-11-23",
    "decision": "full",
    "files": {},
    "base": None,
    "version": 2,
    "summary": {},
    "groups": [{"name": "new", "rule": "skip"}],
}


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


@pytest.mark.product
def test_a_file_that_fails_three_nights_is_set_aside(home):
    bad = home / "raw" / "bad.jsonl"
    config = home / "retrain.toml"
    metrics = home.parent / "retrain.prom"
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    bad.write_text("garbage {\n")
    for added, published in ((30, 2), (0, None)):
        with pytest.raises(
            FilesFailed,
            match=r"raw/bad\.jsonl:1: .*on_error = .skip. under \[ingest\] leaves",
        ) as caught:
            cycle(config, metrics=metrics)
        summary = caught.value.summary
        assert (summary["documents_added"], summary["published"]) == (added, published)
        assert list(summary["left_out"]) == ["bad.jsonl"] and summary["set_aside"] == {}
        assert figure(metrics, "files_left_out") == "1" and figure(metrics, "exit_code") == "3"
    third = cycle(config, metrics=metrics)
    assert (third["decision"], list(third["set_aside"])) == ("nothing", ["bad.jsonl"])
    assert third["left_out"] == {} and figure(metrics, "files_set_aside") == "1"
    log = io.StringIO()
    assert topicstream.retrain(config, stream=log)["decision"] == "nothing"
    assert "raw/bad.jsonl:1" in log.getvalue() and "set aside until it changes" in log.getvalue()
    released = topicstream.retrain(config, release=True, stream=log)
    assert "set aside are tried again" in log.getvalue()
    assert list(released["set_aside"]) == ["bad.jsonl"]  # at once: it has failed often enough
    write(bad, made(20, seed=3, prefix="f"))
    mended = cycle(config)
    assert (mended["documents_added"], mended["set_aside"]) == (20, {})
    assert durable.read_json(home / "state.json")["failing"] == {}


def figure(metrics: Path, name: str) -> str:
    """A figure of a metrics file."""
    return metrics.read_text().split(f"\ntopicstream_{name}{{")[1].split("\n")[0].split()[-1]


def test_a_store_that_changed_since_the_training_was_cut_short(home, monkeypatch):
    def cut_short(*given, **options):
        train_on(*given, **options | {"passes": 1})
        raise KeyboardInterrupt

    train_on = cycle_module.train_on
    write(home / "raw" / "b.jsonl", made(20, seed=2, prefix="e"))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(cycle_module, "train_on", cut_short)
        cycle(home / "retrain.toml")
    topicstream.ingest(
        made(20, seed=3, prefix="f"), home / "corpus.zarr", append=True, progress=False
    )
    log = io.StringIO()
    assert topicstream.retrain(home / "retrain.toml", stream=log)["published"] == 2
    assert "the settings or the corpus have changed" in log.getvalue()


def test_two_at_once(home, capsys):
    others = home / ".shares.jsonl.0123456789abcdef.tmp"
    others.write_text("what another command is writing beside the corpus")
    with durable.lock(home, "retraining"):
        with pytest.raises(Busy):
            cycle(home / "retrain.toml")
        assert run(["retrain", "--config", str(home / "retrain.toml")]) == 4
        assert "another process is retraining" in capsys.readouterr().err
        assert run(["rollback", str(home)]) == 4
        done: list[dict] = []
        waiting = threading.Thread(
            target=lambda: done.append(cycle(home / "retrain.toml", wait=True))
        )
        waiting.start()
        waiting.join(0.3)
        assert not done
    waiting.join(600)
    assert done[0]["decision"] == "nothing" and others.exists()


def test_a_clock_that_goes_back(home, monkeypatch):
    at = datetime.now(UTC)
    monkeypatch.setattr(decide, "now", lambda: at - timedelta(days=400))
    log = io.StringIO()
    said = topicstream.retrain(home / "retrain.toml", at_least_every="30d", stream=log)
    assert said["decision"] == "nothing" and "behind the last full training" in log.getvalue()
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    assert cycle(home / "retrain.toml", full=True)["published"] == 2
    monkeypatch.setattr(decide, "now", lambda: at - timedelta(days=360))
    done = cycle(home / "retrain.toml", at_least_every="30d")
    assert done["decision"] == "full" and "40.0 days ago" in done["why"][0]


def test_a_full_training_is_due_though_updates_came_between(home, monkeypatch):
    at = datetime.now(UTC)
    monkeypatch.setattr(decide, "now", lambda: at + timedelta(days=20))
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    assert cycle(home / "retrain.toml")["decision"] == "update"
    monkeypatch.setattr(decide, "now", lambda: at + timedelta(days=40))
    done = cycle(home / "retrain.toml", at_least_every="30d")
    assert done["decision"] == "full" and "the last full training was 40.0 days ago" in done["why"]


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


@pytest.mark.product
def test_a_file_that_changes_while_it_is_read(home, monkeypatch):
    busy = write(home / "raw" / "busy.jsonl", made(30, seed=2, prefix="e"))
    real = raw_files._stat
    left = [1]

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


@pytest.mark.product
def test_words_of_a_night_that_fails(home, capsys, monkeypatch):
    """Options are those of the config; a full disk has code 5 wherever it was noticed; a file
    without a word is no failure.
    """
    config = home / "retrain.toml"
    raw = home / "raw"
    config.write_text(config.read_text().replace("drift = false", "drift = true"))
    (raw / "silent.jsonl").write_text('{"id": "s", "text": "... !"}\n')
    assert cycle(config)["documents_added"] == 1
    (raw / "notes.txt").write_text("axko bxko")
    write(raw / "b.jsonl", made(20, seed=2, prefix="e"))
    assert run(["retrain", "--config", str(config)]) == 3
    assert (
        "raw/notes.txt: its format is files, that of the other files jsonl; give format under "
        "[ingest] (each: every file by its own), or move it out of the folder"
        in capsys.readouterr().err
    )
    (raw / "notes.txt").unlink()
    write(raw / "c.jsonl", made(20, seed=3, prefix="f"))

    def full(*given, **options):
        raise OSError(errno.ENOSPC, "No space left on device", str(home / "corpus.zarr.wip"))

    monkeypatch.setattr(cycle_module, "ingest", full)
    assert run(["retrain", "--config", str(config), "--metrics", str(home / "m.prom")]) == 5
    out, err = capsys.readouterr()
    assert json.loads(out)["exit_code"] == 5 and "make room" in err
    assert (
        'exit_code{command="retrain",config="' + f'{config}"}} 5\n' in (home / "m.prom").read_text()
    )


def test_a_bad_file_is_named_and_changes_nothing(home):
    (home / "raw" / "bad.jsonl").write_text('{"id": "x", "text": "axko"}\n{broken\n')
    before = state_of(home / "corpus.zarr")
    with pytest.raises(InputError, match=r"raw/bad\.jsonl:2"):
        cycle(home / "retrain.toml")
    assert state_of(home / "corpus.zarr") == before and publish.current_version(home) == 1


@pytest.mark.quick("-False")
@pytest.mark.parametrize("full", few_quick([False, True], [False]))
@pytest.mark.parametrize("gone", ["manifest.json", ""])
def test_a_corpus_that_is_gone_is_not_begun_anew(home, gone, full):
    """A disk that is not mounted: the new documents wait until the store is back."""
    write(home / "raw" / "b.jsonl", made(40, seed=9, prefix="n"))
    missing = home / "corpus.zarr" / gone
    away = home / "away"
    missing.rename(away)
    before = state_of(home)
    with pytest.raises(
        StoreError,
        match=r"corpus\.zarr: no corpus store is there, though 1 raw files were taken into it",
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


def test_init_writes_a_config_that_says_the_defaults(tmp_path, capsys):
    config = tmp_path / "r.toml"
    assert run(["retrain", "--init", "--config", str(config)]) == 0
    read = settings.load_config(config)
    assert read == settings.Config(
        folder=tmp_path, raw=tmp_path / "raw", ingest={"grow_vocab": True}, patterns=["*"]
    )
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


def test_a_failing_night_keeps_the_version_and_the_last_success_of_the_metrics(home):
    metrics = home.parent / "retrain.prom"
    cycle(home / "retrain.toml", metrics=metrics)
    success = figure(metrics, "last_success_timestamp_seconds")
    assert float(success) > 1.7e9
    (home / "retrain.toml").write_text("[gate]\ntopics = 30\n")
    with pytest.raises(UsageError, match=r"\[gate\] topics must be true or false, not 30"):
        cycle(home / "retrain.toml", metrics=metrics)
    assert figure(metrics, "success") == "0"
    assert figure(metrics, "exit_code") == "2"
    assert figure(metrics, "version") == "1"
    assert figure(metrics, "last_success_timestamp_seconds") == success
    (home / "raw").rename(home / "gone")
    (home / "retrain.toml").write_text("")
    metrics.unlink()  # of another machine: the version is that of the folder
    with pytest.raises(InputError, match="no such folder"):
        cycle(home / "retrain.toml", metrics=metrics)
    assert figure(metrics, "version") == "1"
    assert "last_success" not in metrics.read_text()
    (home / "gone").rename(home / "raw")
    assert cycle(home / "retrain.toml", metrics=metrics)["decision"] == "nothing"
    assert float(figure(metrics, "last_success_timestamp_seconds")) > 1.7e9


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("[ingest]\ngrow_vocab = 3", r"\[ingest\]: grow_vocab must be true or false, not 3"),
        ("[ingest]\nlowercase = 'yes'", r"\[ingest\]: lowercase must be true or false, not 'yes'"),
        ("[when]\ndrift = 1", r"\[when\] drift must be true or false, not 1"),
        ("[publish]\nclassifier = 'x'", r"\[publish\] classifier must be true or false"),
        ("[train]\nallow_smaller = 2", r"\[train\] allow_smaller must be true or false"),
        ("[ingest]\ndrop_top = 3\nvocab = 'v'", r"drop_top under \[ingest\].*vocab there"),
    ],
)
def test_a_setting_of_the_file_is_refused_in_its_words(tmp_path, config, message):
    (tmp_path / "retrain.toml").write_text(config)
    with pytest.raises(UsageError, match=message) as error:
        cycle(tmp_path / "retrain.toml")
    assert "--" not in str(error.value)
    assert str(tmp_path / "retrain.toml") in str(error.value)


def test_what_a_bad_record_needs_is_said_once(tmp_path):
    config = folder(tmp_path)
    write(tmp_path / "raw" / "b.jsonl", [{"id": "x", "body": "apple"}])
    with pytest.raises(InputError) as error:
        cycle(config)
    message = str(error.value)
    want = '(text_field under [ingest]; on_error = "skip" there leaves such records out)'
    assert want in message
    assert message.count("(") == 1
