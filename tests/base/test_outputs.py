"""Files that a user names: several of one command appear together or not at all."""

from __future__ import annotations

import os

import pytest

from topicstream.base import system
from topicstream.base.errors import NotOurs, UsageError
from topicstream.base.files.outputs import written, written_together

NAMES = ("one", "two", "three")


def write_three(folder, text, force=False):
    with written_together():
        for name in NAMES:
            with written(folder / name, force=force) as file:
                file.write(text)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_file_that_fails_leaves_those_before_it(tmp_path, monkeypatch, nameless, fails_at):
    if not nameless:
        monkeypatch.setattr(system, "open_nameless", lambda folder: None)
    write_three(tmp_path, b"old")
    flush = system.flush
    flushed = []

    def fail(descriptor):
        flushed.append(descriptor)
        if len(flushed) == fails_at:
            raise KeyboardInterrupt
        flush(descriptor)

    monkeypatch.setattr(system, "flush", fail)
    with pytest.raises(KeyboardInterrupt):
        write_three(tmp_path, b"new", force=True)
    assert contents(tmp_path) == dict.fromkeys(NAMES, b"old")
    write_three(tmp_path, b"new", force=True)
    assert contents(tmp_path) == dict.fromkeys(NAMES, b"new")


@pytest.mark.parametrize("killed_at", [1, 2, 3])
def test_a_kill_between_two_names_leaves_no_mixture(tmp_path, killed_at):
    write_three(tmp_path, b"old")
    replace = os.replace
    renamed = []

    def stop(source, target):
        renamed.append(target)
        if len(renamed) == killed_at:
            os._exit(9)  # as a kill: nothing is tidied up
        replace(source, target)

    child = os.fork()
    if child == 0:
        os.replace = stop
        write_three(tmp_path, b"new", force=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    left = {name: text for name, text in contents(tmp_path).items() if name in NAMES}
    wanted = {1: {"one": b"old"}, 2: {"one": b"new"}, 3: {"one": b"new", "two": b"new"}}
    assert left == wanted[killed_at]
    write_three(tmp_path, b"newer", force=True)
    assert {name: (tmp_path / name).read_bytes() for name in NAMES} == dict.fromkeys(
        NAMES, b"newer"
    )


def test_a_place_that_is_taken_meanwhile_keeps_all_of_them_away(tmp_path):
    with pytest.raises(NotOurs, match="is there since this began"), written_together():
        for name in NAMES:
            with written(tmp_path / name, force=False) as file:
                file.write(b"new")
        (tmp_path / "two").write_bytes(b"another's")
    assert contents(tmp_path) == {"two": b"another's"}


def test_one_place_takes_one_output(tmp_path):
    with pytest.raises(UsageError, match="the place of another output"), written_together():
        with written(tmp_path / "one", force=True) as file:
            file.write(b"first")
        with written(tmp_path / "one", force=True):
            pass
    assert contents(tmp_path) == {}


def test_a_block_within_a_block_ends_with_the_outer_one(tmp_path):
    with written_together():
        with written_together(), written(tmp_path / "one", force=False) as file:
            file.write(b"1")
        assert contents(tmp_path) == {}
    assert contents(tmp_path) == {"one": b"1"}
    with written(tmp_path / "two", force=False) as file:
        file.write(b"2")
    assert contents(tmp_path) == {"one": b"1", "two": b"2"}
