"""Nights with raw files that cannot be read: each is named and set aside, and no other waits."""

from __future__ import annotations

import errno
import io
import json
import os
import sys

import pytest

import topicstream
from tests import ROOT, few_quick
from tests.retrain_tools import cycle, made, state_of, write
from topicstream.base.errors import FilesFailed, UsageError
from topicstream.base.files import durable
from topicstream.base.files import ownership as owned
from topicstream.cli.main import run
from topicstream.retraining import publish

sys.path.insert(0, str(ROOT / "scripts" / "campaigns"))
import bad_nights

KINDS = bad_nights.BAD_JSONL
EACH = bad_nights.BAD_EACH
NAMES = {kind: bad_nights.name_of(kind, suffix) for kind, (suffix, _) in KINDS.items()}


def failed_night(config, **options):
    """The summary of a night in which a file fails."""
    with pytest.raises(FilesFailed) as caught:
        cycle(config, **options)
    return caught.value.summary


def put_bad_files(raw, kinds=KINDS):
    """One bad file of each kind; their names."""
    for kind, (suffix, make) in kinds.items():
        make(raw / bad_nights.name_of(kind, suffix), bad_nights.made(30, 7, "bad"))
    return {bad_nights.name_of(kind, suffix) for kind, (suffix, _) in kinds.items()}


@pytest.mark.product
def test_a_file_of_each_kind_is_named_and_the_others_are_taken_in(home):
    config = home / "retrain.toml"
    names = put_bad_files(home / "raw")
    for kind, (suffix, make) in bad_nights.ODD.items():
        make(home / "raw" / bad_nights.name_of(kind, suffix), [])
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    first = failed_night(config)
    assert (first["documents_added"], first["published"]) == (30, 2)
    assert set(first["left_out"]) == names and first["files_left_out"] == len(names)
    for name, why in first["left_out"].items():
        assert f"{home}/raw/{name}" in why and "incoming" not in why and "rror:" not in why
    write(home / "raw" / "c.jsonl", made(30, seed=3, prefix="f"))
    assert failed_night(config)["documents_added"] == 30
    third = cycle(config)
    assert set(third["set_aside"]) == names and third["left_out"] == {}
    assert not (home / "incoming").exists() and not (home / "journal.json").exists()


@pytest.mark.quick("Parquet, cut")
@pytest.mark.parametrize("kind", few_quick(EACH, ["Parquet, cut", "PubMed XML, cut"]))
def test_a_bad_file_among_files_each_by_its_own_format(home, kind):
    config = home / "retrain.toml"
    config.write_text(config.read_text().replace("[ingest]", '[ingest]\nformat = "each"'))
    names = put_bad_files(home / "raw", {kind: EACH[kind]})
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    first = failed_night(config)
    assert (first["documents_added"], set(first["left_out"])) == (30, names)


@pytest.mark.product
def test_nights_that_each_bring_a_bad_file_converge(tmp_path, monkeypatch, capsys):
    def night(config):
        """As the campaign's, in this process."""
        code = run(["retrain", "--config", str(config)])
        said = capsys.readouterr()
        return code, json.loads(said.out or "{}"), said.err

    monkeypatch.setattr(bad_nights, "night", night)
    kinds = dict(list(KINDS.items())[::8])
    outcome = bad_nights.run_nights(tmp_path, 3, 1, kinds)
    assert outcome.problems == []


def test_a_stray_file_alone_is_set_aside_like_one_among_others(home):
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    cycle(home / "retrain.toml")
    (home / "raw" / "notes.txt").write_text("axko bxko cxko")
    summary = failed_night(home / "retrain.toml")
    assert list(summary["left_out"]) == ["notes.txt"] and summary["decision"] == "nothing"
    assert "that of the other files jsonl" in summary["left_out"]["notes.txt"]


def test_another_option_lets_files_that_were_set_aside_be_read(home):
    config = home / "retrain.toml"
    (home / "raw" / "b.csv").write_bytes(bad_nights.as_csv(bad_nights.made(20, 1, "c")))
    for _ in range(2):
        failed_night(config)
    assert list(cycle(config)["set_aside"]) == ["b.csv"]
    config.write_text(config.read_text().replace("[ingest]", '[ingest]\nformat = "each"'))
    assert cycle(config)["documents_added"] == 20


@pytest.mark.product
def test_a_file_that_may_not_be_opened_is_tried_every_night(home, monkeypatch):
    secret = write(home / "raw" / "secret.jsonl", made(20, seed=2, prefix="e"))
    write(home / "raw" / "b.jsonl", made(30, seed=3, prefix="f"))
    real = owned.copy

    def copy(source, target):
        if str(source) == str(secret):
            raise PermissionError(errno.EACCES, "Permission denied", str(secret))
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(owned, "copy", copy)
        first = failed_night(home / "retrain.toml")
        assert first["documents_added"] == 30
        assert "cannot be read (Permission denied)" in first["left_out"]["secret.jsonl"]
        failed_night(home / "retrain.toml")
        assert list(cycle(home / "retrain.toml")["set_aside"]) == ["secret.jsonl"]
        assert list(cycle(home / "retrain.toml")["set_aside"]) == ["secret.jsonl"]
    mended = cycle(home / "retrain.toml")
    assert (mended["documents_added"], mended["set_aside"]) == (20, {})


def test_a_disk_that_cannot_be_read_is_named(home, monkeypatch):
    broken = write(home / "raw" / "broken.jsonl", made(20, seed=2, prefix="e"))
    real = owned.copy

    def copy(source, target):
        real(source, target)
        if str(source) == str(broken):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(owned, "copy", copy)
    summary = failed_night(home / "retrain.toml")
    assert (
        "broken.jsonl: cannot be read (Input/output error)" in summary["left_out"]["broken.jsonl"]
    )


@pytest.mark.product
def test_a_folder_that_may_not_be_listed_hides_no_known_file(home, monkeypatch):
    write(home / "raw" / "below" / "b.jsonl", made(20, seed=2, prefix="e"))
    cycle(home / "retrain.toml")
    real = os.scandir

    def scandir(path):
        if str(path).endswith("raw/below"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    write(home / "raw" / "c.jsonl", made(30, seed=3, prefix="f"))
    monkeypatch.setattr(os, "scandir", scandir)
    summary = failed_night(home / "retrain.toml")
    assert (summary["documents_added"], summary["deleted_files"]) == (30, 0)
    assert list(summary["left_out"]) == ["below/"]


def test_a_file_that_vanishes_while_it_is_copied_leaves_no_copy(home, monkeypatch):
    gone = write(home / "raw" / "gone.jsonl", made(20, seed=2, prefix="e"))
    write(home / "raw" / "b.jsonl", made(30, seed=3, prefix="f"))
    real = owned.copy

    def copy(source, target):
        real(source, target)
        if str(source) == str(gone):
            gone.unlink()

    monkeypatch.setattr(owned, "copy", copy)
    assert cycle(home / "retrain.toml")["documents_added"] == 30


def test_a_dry_run_names_a_bad_file_and_counts_nothing(home):
    config = home / "retrain.toml"
    config.write_text(config.read_text().replace("drift = false", "drift = true"))
    (home / "raw" / "bad.jsonl").write_text("{broken\n")
    before = state_of(home)
    for _ in range(4):
        assert list(failed_night(config, dry_run=True)["left_out"]) == ["bad.jsonl"]
    assert state_of(home) == before


def test_what_no_reader_expects_is_of_its_file(home, monkeypatch):
    """An internal error of a reader stops no night."""
    from topicstream.ingestion.readers import jsonl

    write(home / "raw" / "odd.jsonl", made(20, seed=2, prefix="odd"))
    write(home / "raw" / "b.jsonl", made(30, seed=3, prefix="f"))
    real = jsonl.Objects.add

    def add(objects, number, record):
        if record.get("id") == "odd3":
            raise IndexError("list index out of range")
        real(objects, number, record)

    monkeypatch.setattr(jsonl.Objects, "add", add)
    summary = failed_night(home / "retrain.toml")
    assert summary["documents_added"] == 30
    assert "odd.jsonl: cannot be read (IndexError: list" in summary["left_out"]["odd.jsonl"]


def test_what_the_options_are_to_blame_for_is_no_files_fault(home):
    config = home / "retrain.toml"
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    config.write_text(config.read_text().replace("[ingest]", '[ingest]\nmeta = ["row"]'))
    with pytest.raises(UsageError, match="row"):
        cycle(config)
    assert publish.current_version(home) == 1
    assert durable.read_json(home / "state.json")["failing"] == {}


def test_the_line_of_a_night_with_a_bad_file(home, capsys):
    (home / "raw" / "bad.jsonl").write_text("{broken\n")
    (home / "raw" / "worse.jsonl").write_text("[1]\n")
    write(home / "raw" / "b.jsonl", made(30, seed=2, prefix="e"))
    assert run(["retrain", "--config", str(home / "retrain.toml")]) == 3
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert (said["published"], said["exit_code"], said["files_left_out"]) == (2, 3, 2)
    assert said["failed"].endswith(
        "; 1 more file could not be read either; the run has gone on without them, and the next "
        "one tries again"
    )
    assert err.splitlines()[-1] == f"topics: {said['failed']}"


def test_names_that_are_no_utf8_are_taken_in(home):
    raw = os.fsencode(home / "raw")
    with open(raw + b"/caf\xe9.jsonl", "wb") as file:
        file.write(bad_nights.as_jsonl(bad_nights.made(20, 1, "c")))
    log = io.StringIO()
    assert topicstream.retrain(home / "retrain.toml", stream=log)["documents_added"] == 20
    assert cycle(home / "retrain.toml")["decision"] == "nothing"


def test_a_key_that_is_no_text_stops_no_night(home):
    (home / "raw" / "b.jsonl").write_text(
        '{"\\ud800": 1, "id": "x", "text": "axko bxko"}\n{"id": "y", "text": "axko"}\n'
    )
    assert cycle(home / "retrain.toml")["documents_added"] == 2
