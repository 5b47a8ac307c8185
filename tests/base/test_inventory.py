"""The mark of a folder and its inventory (topicstream/files)."""

from __future__ import annotations

import ast
import contextlib
import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests import ROOT
from topicstream.base.errors import NotOurs, UsageError
from topicstream.base.files import inventory, marker, ownership
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import lock, write_json
from topicstream.base.files.outputs import check_place, written

PACKAGE = ROOT / "topicstream"


@pytest.fixture
def model(tmp_path) -> Path:
    ownership.claim(tmp_path / "m", "model")
    (tmp_path / "m" / "topics" / "c").mkdir(parents=True)
    for name in ("history.jsonl", "topics/zarr.json", "topics/c/0"):
        with owned.create(tmp_path / "m" / name) as f:
            f.write(b"ours")
    return tmp_path / "m"


@pytest.mark.parametrize(
    "name", ["notes.txt", "topics/c/1", "topics-2/zarr.json", ".history.jsonl.7.tmp", "a\nb"]
)
def test_what_the_inventory_lacks_stops_the_removal_and_stays(model, name):
    path = model / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    with pytest.raises(NotOurs, match="is not ours"):
        owned.remove(model, "model")
    with pytest.raises(NotOurs):
        owned.remove_file(path)
    with pytest.raises(NotOurs):
        owned.create(path)
    with pytest.raises(NotOurs):
        write_json(path, {})
    owned.remove_within(model / "topics")
    owned.remove_within(path.parent if path.parent != model else model / "topics")
    assert path.read_text() == "mine" and (model / "history.jsonl").exists()


def test_links_are_not_followed_and_not_ours(model, tmp_path):
    (tmp_path / "victim").write_text("mine")
    for name in ("training.json", "history.jsonl"):
        (model / name).unlink(missing_ok=True)
        os.symlink(tmp_path / "victim", model / name)
        for write in (owned.create, partial(owned.reserve, keep=True), owned.remove_file):
            with pytest.raises(NotOurs):
                write(model / name)
    assert (tmp_path / "victim").read_text() == "mine"


def test_what_is_ours_goes_with_its_empty_folders_and_what_a_kill_left(model):
    (model / "empty" / "deeper").mkdir(parents=True)
    owned.reserve(model / ".manifest.json.tmp")
    with lock(model, "testing", kind="model"):
        owned.sweep(model)
    assert not list(model.glob(".*.tmp"))
    owned.remove(model, "model")
    assert not model.exists()


def test_a_folder_within_one_of_ours_goes_only_where_we_made_it(tmp_path):
    ownership.claim(tmp_path / "runs", "runs")
    ownership.claim(tmp_path / "runs" / "0001", "model")
    owned.reserve(tmp_path / "runs" / "0001" / "history.jsonl")
    ownership.claim(tmp_path / "theirs", "model")
    os.rename(tmp_path / "theirs", tmp_path / "runs" / "moved")  # by somebody, into our folder
    with pytest.raises(NotOurs, match="moved"):
        owned.remove(tmp_path / "runs", "runs")
    os.rename(tmp_path / "runs" / "moved", tmp_path / "theirs")
    owned.remove(tmp_path / "runs", "runs")
    assert not (tmp_path / "runs").exists() and (tmp_path / "theirs").exists()


def test_scratch_folders_are_ours_whatever_a_library_puts_there(model):
    with pytest.raises(ZeroDivisionError), owned.scratch(model, "work") as folder:
        (folder / "spill").mkdir()
        (folder / "spill" / "duckdb_temp_block-0.block").write_bytes(b"by a library")
        assert not list(inventory.unlisted_paths(model))
        1 / 0  # noqa: B018
    assert not folder.exists()
    with owned.scratch(model, "work") as folder:
        (folder / "notes.txt").write_text("mine")
        (folder / "duckdb_temp_block-0.block").write_bytes(b"by a library")
    assert os.listdir(folder) == ["notes.txt"]


def test_moved_folders_take_their_entries_along(model):
    owned.move_folder(model / "topics", model / "topics-2")
    assert not list(inventory.unlisted_paths(model))
    owned.remove_within(model / "topics-2")
    assert not (model / "topics-2").exists()


def test_the_marker_of_a_backup_by_hard_links_does_not_change(model, tmp_path):
    backup = tmp_path / "backup"
    shutil.copytree(model, backup, copy_function=os.link)
    before = (backup / marker.MARK).read_bytes()
    owned.reserve(model / "new")
    owned.remove_file(model / "history.jsonl")
    marker.tidy_list(model)
    assert (backup / marker.MARK).read_bytes() == before
    assert not inventory.is_listed(model / "history.jsonl")
    assert inventory.is_listed(backup / "history.jsonl")


def test_a_file_that_is_written_to_in_place_parts_from_its_backup(model, tmp_path):
    os.link(model / "history.jsonl", tmp_path / "backup")
    with open(owned.reserve(model / "history.jsonl", keep=True), "ab") as file:
        file.write(b" and more")
    assert (tmp_path / "backup").read_bytes() == b"ours"
    assert (model / "history.jsonl").read_bytes() == b"ours and more"
    assert not list(inventory.unlisted_paths(model))


@pytest.mark.parametrize("how", ["file", "table", "replaced"])
def test_a_line_of_the_list_does_not_outlive_its_file(model, how):
    path = model / ("topics/c/0" if how == "table" else "history.jsonl")
    with lock(model, "testing", kind="model"):
        if how == "file":
            owned.remove_file(path)
        elif how == "table":
            owned.remove_within(model / "topics")
        else:
            owned.replace(path, model / "other.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    with pytest.raises(NotOurs):
        owned.remove(model, "model")
    assert path.read_text() == "mine"


def test_temporary_names_are_ours_only_while_they_are_listed(model):
    with lock(model, "testing", kind="model"):
        write_json(model / "manifest.json", {"kind": "model", "schema": 1})
    mine = model / ".manifest.json.tmp"
    mine.write_text("mine")
    with pytest.raises(NotOurs):
        write_json(model / "manifest.json", {"kind": "model", "schema": 1})
    assert mine.read_text() == "mine"


def test_a_lock_with_content_is_not_ours(model):
    (model / ".lock").write_text("mine")
    with pytest.raises(NotOurs):
        owned.remove(model, "model")
    assert (model / ".lock").read_text() == "mine"


def test_a_path_is_resolved_as_the_system_resolves_it(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "elsewhere" / "m").mkdir()
    os.symlink("elsewhere/deep", "link")
    (tmp_path / "elsewhere" / "m" / "history.jsonl").write_text("mine")
    through = Path("link/../m")  # elsewhere/m, not m
    assert marker.home_of(through / "history.jsonl") is None
    assert not inventory.owns(through / "history.jsonl")
    with pytest.raises(NotOurs):
        owned.remove_file(through / "history.jsonl")
    os.symlink(tmp_path / "m" / "topics", "into")
    assert inventory.owns(Path("into/../history.jsonl"))


def test_the_line_of_a_path_is_that_of_its_resolved_one(tmp_path, monkeypatch):
    """Whatever links, ``..`` and missing folders it is named by."""
    for folder in ("a", "a/b/c", "far/deep", "loose"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for marked in ("a", "far"):
        marker.write_marker(
            tmp_path / marked / marker.MARK,
            marker.format_marker(marker.Mark("corpus", "1"), []),
        )
    os.symlink("../../far/deep", tmp_path / "a" / "b" / "link")
    os.symlink(tmp_path / "a", tmp_path / "loose" / "to-a")
    os.symlink("missing", tmp_path / "a" / "b" / "broken")
    monkeypatch.chdir(tmp_path / "a")
    parts = ["b", "c", "link", "..", ".", "far", "loose", "to-a", "broken", "new"]
    starts = ["", f"{tmp_path}/", "../"]
    for names in itertools.product(starts, parts, ["", *parts], ["", *parts]):
        path = names[0] + "/".join(filter(None, names[1:]))
        folder, name = os.path.split(path)
        place = os.path.realpath(path)
        if name not in (".", ".."):
            place = os.path.join(os.path.realpath(folder), name)
        above = list(Path(place).parents)
        home = next((f for f in above if (f / marker.MARK).exists()), None)
        line = marker.line_of(path)
        assert marker.home_of(path) == home, path
        if home is not None:
            assert os.path.samefile(line.home, home), path
            assert os.fsdecode(line.entry) == os.path.relpath(place, home), path


@pytest.mark.parametrize("call", ["unlink", "rmdir", "rename"])
def test_a_removal_that_was_killed_blocks_nothing(model, tmp_path, monkeypatch, call):
    """Killed before each of its calls, half a folder never has its name, and all goes in
    the end.
    """
    shutil.copytree(model, tmp_path / "whole")
    for instant in range(1, 12):
        shutil.rmtree(model, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", model)
        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            patch.setattr(os, call, killed_at(getattr(os, call), instant))
            owned.remove(model, "model")
        assert not model.exists() or (model / "topics" / "c" / "0").exists()
        owned.remove(model, "model")
        assert ownership.claim(model, "model").kind == "model"
        assert sorted(os.listdir(tmp_path)) == ["m", "whole"]


def killed_at(call, instant):
    """``call``, which raises at its n-th use and ever after."""
    count = itertools.count(1)

    def wrapper(*args, **named):
        if next(count) >= instant:
            raise KeyboardInterrupt
        return call(*args, **named)

    return wrapper


def test_a_sealed_inventory_is_sorted_and_lists_what_is_there(tmp_path):
    marks = []
    for order in (("b", "a", "gone"), ("gone", "a", "b", "a")):
        folder = tmp_path / order[0]
        ownership.claim(folder, "corpus")
        for name in order:
            owned.reserve(folder / name)
        owned.remove_file(folder / "gone")
        marker.seal_marker(folder, "0123")
        marks.append((folder / marker.MARK).read_bytes())
    assert marks[0] == marks[1] == b'{"kind":"corpus","id":"0123"}\na\nb\n'


def test_folders_are_told_apart(tmp_path, model):
    with pytest.raises(NotOurs, match="is a model, not a corpus store"):
        ownership.claim(model, "corpus")
    with pytest.raises(NotOurs, match="is not a corpus store of ours"):
        owned.remove(model, "corpus")
    (model / marker.MARK).write_text("half a ma")
    with pytest.raises(NotOurs):
        ownership.claim(model, "model")
    with pytest.raises(UsageError):
        check_place("/", "--out")


OF_ITS_OWN = {
    "addons/cells/exchange.py: os.rename(beside, job.path)",
    "addons/cells/exchange.py: shutil.copytree(job.into, beside, symlinks=True)",
    "addons/cells/exchange.py: shutil.rmtree(beside, ignore_errors=True)",
    "addons/cells/exchange.py: metadata_file.unlink(missing_ok=True)",
    "addons/cells/exchange.py: root.write_text(json.dumps(about))",
    "fitting.py: shutil.rmtree(home, ignore_errors=True)",
    "fitting.py: shutil.rmtree(folder, ignore_errors=True)",
}
"""Calls on a folder that the function has just made under a random name."""


def test_nothing_else_in_the_package_removes_or_replaces():
    """Calls that remove or rename a file by its name, or write over it, anywhere but in files/."""
    forbidden = {
        "os": {
            "remove",
            "unlink",
            "rmdir",
            "removedirs",
            "rename",
            "renames",
            "replace",
            "truncate",
            "link",
            "symlink",
        },
        "shutil": {"rmtree", "move", "copy", "copy2", "copyfile", "copytree"},
    }
    of_paths = {"unlink", "rmdir", "rename", "touch", "write_bytes", "write_text"}
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if (
            name.startswith("base/files/")
            # compiled kernels and mirrors of addresses: names of their own in a cache folder
            or name in ("numeric/kernels/jit.py", "addons/cloud/mirror.py")
        ):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                attribute = node.func.attr
                if attribute not in of_paths.union(*forbidden.values()):
                    continue
                module = ast.unparse(node.func.value)
                if attribute in forbidden.get(
                    module, of_paths if module not in ("owned", "durable") else ()
                ):
                    wrong.append(f"{name}: {ast.unparse(node)[:80]}")
    assert set(wrong) == OF_ITS_OWN


KILLED = """
import os, signal
from pathlib import Path
from topicstream.base.files.outputs import check_place, written
with written(Path("answers.csv"), force=False) as file:
    file.write(bytes(1 << 20))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_command_leaves_nothing_beside_its_output(tmp_path):
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_RDWR))
    except OSError:
        pytest.skip("this file system has no files without a name")
    done = subprocess.run(
        [sys.executable, "-c", KILLED], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == -signal.SIGKILL and os.listdir(tmp_path) == []


@pytest.mark.parametrize("unnamed", [True, False])
def test_an_output_appears_whole_with_the_rights_of_any_file(tmp_path, monkeypatch, unnamed):
    if not unnamed:  # as on NFS
        monkeypatch.setattr(os, "O_TMPFILE", 0)
    place = tmp_path / "answers.csv"
    for force, data in ((False, b"id,topics,shares\n"), (True, b"id,topic,share\n")):
        with written(place, force=force) as file:
            file.write(data)
            assert place.exists() == force
        assert place.read_bytes() == data
    (tmp_path / "another").write_text("")
    assert place.stat().st_mode == (tmp_path / "another").stat().st_mode
    with pytest.raises(ZeroDivisionError), written(place, force=True):
        _ = 1 / 0
    assert place.read_bytes() == data and sorted(os.listdir(tmp_path)) == ["another", "answers.csv"]


def test_a_full_disk_leaves_no_half_made_mark(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(os, "fsync", full)
        ownership.claim(tmp_path / "m", "model")
    assert ownership.claim(tmp_path / "m", "model").kind == "model"
