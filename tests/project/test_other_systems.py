"""What Linux alone has is asked for in one place, and everything works where it is not there."""

from __future__ import annotations

import ast
import json
import mmap
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests import ROOT
from topicstream.base import machine, system
from topicstream.numeric.tables.storage import Storage

PACKAGE = ROOT / "topicstream"
MODULES = {"ctypes", "fcntl", "resource", "msvcrt", "winreg"}
NAMES = {
    "sched_getaffinity",
    "posix_fallocate",
    "posix_fadvise",
    "O_TMPFILE",
    "fsync",
    "fdatasync",
    "madvise",
    "getrusage",
    "sysconf",
    "cpu_count",
    "process_cpu_count",
    "copy_file_range",
    "sendfile",
    "memfd_create",
    "platform",
}


def hidden(system: str) -> dict[str, str]:
    """The environment of a process from which is hidden what that system lacks."""
    path = os.pathsep.join([str(ROOT / "tests/project/hidden"), str(ROOT)])
    return os.environ | {"PYTHONPATH": path, "TOPICS_HIDE": system}


def asked_for(path: Path) -> list[str]:
    """Names of one system that a module asks for."""
    asked: list[str] = []
    text = path.read_text()
    if not any(name in text for name in (*MODULES, *NAMES, "/proc/", "/sys/")):
        return asked
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import():
                asked += [alias.name for alias in node.names if alias.name in MODULES]
            case ast.ImportFrom() if node.module in MODULES:
                asked.append(node.module)
            case ast.Attribute(value=ast.Name(id="os" | "mmap" | "sys")) if node.attr in NAMES:
                asked.append(node.attr)
            case ast.Constant(value=str()) if node.value.startswith(("/proc/", "/sys/")):
                asked.append(node.value)
    return asked


def test_one_place_knows_the_system():
    known = {PACKAGE / "base/system.py", PACKAGE / "base/machine.py"}
    asked = {
        str(path.relative_to(PACKAGE)): names
        for path in sorted(PACKAGE.rglob("*.py"))
        if path not in known and (names := asked_for(path))
    }
    assert asked == {"__init__.py": ["fcntl"]}  # which refuses Windows
    assert all(asked_for(path) for path in known)


COMMANDS = """\
ingest raw/0.jsonl --min-df 1 --heldout 10% -q
ingest raw/0.jsonl --min-df 1 --heldout 10% -q
ingest raw/1.jsonl --append -q
train -K 3 --passes 3 --algo bp -q
show --docs 1 --text
infer raw/1.jsonl --out answers.jsonl -q
infer raw/1.jsonl --out answers.jsonl --force -q
eval --heldout
report -q
ingest raw/2.jsonl --append --grow-vocab -q
update --out next --passes 2 -q
compact -q
sweep --topics 2,3 --seeds 1 --passes 2 -q
retrain --init --config retrain.toml
retrain --config retrain.toml
retrain --config retrain.toml
info
"""
LATER_COMMANDS = """\
ingest raw/0.jsonl --out texts.zarr --min-df 1 --meta date,group --keep-text -q
train --corpus texts.zarr --model knowing -K 3 --passes 22 --covariates group -q
show --model knowing --corpus texts.zarr --docs 1 --text
show --model knowing --corpus texts.zarr --covariates
effects group --model knowing --corpus texts.zarr
forget 0-1 --model knowing --corpus texts.zarr
cite knowing
"""
SCRIPT = """\
import json, os, sys
import topicstream
from topicstream.cli.main import run
assert not hasattr(os, "sched_getaffinity") and not os.path.exists("/proc/self/status")
codes = []
for line in json.load(sys.stdin):
    codes.append(run(line.split()))
print("codes", codes)
"""


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(COMMANDS, marks=pytest.mark.product),
        pytest.param(LATER_COMMANDS, marks=pytest.mark.slow),
    ],
    ids=["main", "later"],
)
def test_the_main_commands_work_where_names_of_linux_are_not_there(tmp_path, lines):
    words = [
        "red",
        "blue",
        "green",
        "cat",
        "dog",
        "mouse",
        "bread",
        "wine",
        "cheese",
        "rain",
        "snow",
        "wind",
    ]
    (tmp_path / "raw").mkdir()
    for number in range(3):
        documents = [
            json.dumps(
                {
                    "id": f"{number}-{i}",
                    "text": " ".join(words[i % 10 : i % 10 + 3] * 4),
                    "date": str(2000 + i % 7),
                    "group": "ab"[i % 2],
                }
            )
            for i in range(60)
        ]
        (tmp_path / f"raw/{number}.jsonl").write_text("\n".join(documents))
    commands = lines.splitlines()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=hidden("macos"),
        input=json.dumps(commands),
        capture_output=True,
        text=True,
    )
    codes = json.loads(done.stdout.rpartition("codes ")[2] or "null")
    assert codes == [0] * len(commands), done.stdout + done.stderr
    assert "internal error" not in done.stderr and "Traceback" not in done.stderr
    if lines != COMMANDS:
        return
    assert (tmp_path / "answers.jsonl").read_text().count("\n") == 60
    left = {path.name for path in tmp_path.iterdir() if path.name.startswith(".")}
    assert left == {".topicstream", ".lock"}  # of retrain, whose home this is


@pytest.mark.parametrize(
    "command",
    [["-m", "topicstream", "--help"], ["-c", "import topicstream"]],
    ids=["topics", "import"],
)
def test_windows_is_one_line_that_names_the_way(command):
    done = subprocess.run(
        [sys.executable, *command], env=hidden("windows"), capture_output=True, text=True
    )
    assert done.returncode != 0 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "WSL2" in done.stderr


@pytest.mark.parametrize("advice", [True, False])
def test_pages_that_are_released_leave_the_process_and_keep_their_values(
    tmp_path, monkeypatch, advice
):
    if not advice:
        monkeypatch.delattr(mmap, "MADV_DONTNEED")
    storage = Storage((512, 1 << 14), np.float32, tmp_path)
    storage.array[:] = np.arange(512)[:, None]
    before = resident()
    storage.release_pages()
    assert before - resident() > 24 << 20
    assert (storage.array[:, 5] == np.arange(512)).all()
    storage.array[7] = 1
    storage.release_pages(0, 64)
    assert (storage.array[7] == 1).all() and (storage.array[8] == 8).all()
    storage.clear()
    storage.close()


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def test_a_file_takes_its_size_without_the_call_for_it(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    system.allocate(fd, 3_000_001)
    assert os.fstat(fd).st_size == 3_000_001 and os.fstat(fd).st_blocks * 512 >= 3_000_001
    os.close(fd)


@pytest.mark.parametrize(("processor", "heard"), [("x86_64", 2), ("aarch64", 1), ("arm64", 1)])
def test_false_alarms_of_matrix_products_are_silent_on_arm(monkeypatch, processor, heard):
    monkeypatch.setattr(machine.platform, "machine", lambda: processor)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        machine.ignore_false_alarms()
        warnings.warn("divide by zero encountered in matmul", RuntimeWarning, stacklevel=1)
        warnings.warn("overflow encountered in exp", RuntimeWarning, stacklevel=1)
    assert len(said) == heard


def test_the_peak_is_in_bytes_by_either_way(monkeypatch):
    peak = system.peak_bytes()
    assert 10 << 20 < peak < 1 << 40
    usage = type("Usage", (), {"ru_maxrss": 300 << 10})
    monkeypatch.setattr(system.resource, "getrusage", lambda who: usage)
    monkeypatch.setattr(
        system, "open", lambda *_: (_ for _ in ()).throw(FileNotFoundError()), raising=False
    )
    assert system.peak_bytes() == 300 << 20
    monkeypatch.setattr(sys, "platform", "darwin")
    assert system.peak_bytes() == 300 << 10


def test_a_flush_reaches_the_disk_where_fsync_does_not(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(system.fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(system.fcntl, "fcntl", lambda fd, command: asked.append(command))
    monkeypatch.setattr(os, "fsync", lambda fd: asked.append("fsync"))
    system.flush(0)
    assert asked == [51]

    def refuse(fd, command):
        raise OSError

    monkeypatch.setattr(system.fcntl, "fcntl", refuse)
    system.flush(0)
    assert asked == [51, "fsync"]


def test_folders_change_names_where_the_system_has_no_call_for_it(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a/of_a").write_text("")
    swapped = system.exchange_names(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b/of_a").exists() == swapped
    assert not system.exchange_names(tmp_path / "a", tmp_path / "none")
