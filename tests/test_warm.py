"""Kernels that a command needs are compiled in another process, once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from topicstream.kernels.ahead import prepare
from topicstream.kernels.cache_folder import KernelFolder

pytestmark = pytest.mark.slow

INGEST = """
import json, sys, topicstream
from numba.core import event
with event.install_recorder("numba:compile") as compiled:
    more = {"meta_files": sys.argv[3] + ":row,authors", "key": "row"} if sys.argv[3:] else {}
    topicstream.ingest(sys.argv[1], sys.argv[2], min_df=1, **more)
names = {str(e.data["dispatcher"].py_func.__qualname__) for _, e in compiled.buffer if e.is_end}
print(json.dumps(sorted(names)))
"""


@pytest.mark.parametrize("format", ["jsonl", "txt"])
def test_ingest_compiles_nothing_itself(tmp_path, format):
    docs, side = tmp_path / f"a.{format}", tmp_path / "authors.tsv"
    line = '{{"id": "{i}", "text": "a few words {i} na\\u00efve"}}\n' if format == "jsonl" else "a few words {i} naïve\n"
    docs.write_text("".join(line.format(i=i) for i in range(50)))
    side.write_text("".join(f"{i + 1}\tA{i}\tB\n" for i in range(50)))
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run(out):
        given = [sys.executable, "-c", INGEST, str(docs), str(tmp_path / out), *[str(side)] * (format == "jsonl")]
        return json.loads(subprocess.run(given, env=env, check=True, capture_output=True, text=True).stdout)

    assert run("one") == []
    kept = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "cache" / "topicstream" / "kernels").iterdir()}
    assert sum(name.startswith("topicstream.ready.topicstream.ingestion.warm.") for name in kept) == 1
    assert run("two") == []
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "cache" / "topicstream" / "kernels").iterdir()} == kept


PARENT = """
import sys
from topicstream.kernels import ahead
ahead._key = lambda sources: "0" * 32
ahead.prepare("job", ("kernels",), 1, print, 1 << 30)
"""
JOB = """
import sys, time
from pathlib import Path
from topicstream.kernels.ahead import leave
def job(folder):
    (folder / "inner").mkdir()
    (folder / "inner" / "file").write_text("x")
    Path(sys.argv[0]).with_name("began").write_text(str(folder))
    time.sleep(1200)
leave(job, folder=sys.argv[1])
"""


def test_a_parent_that_is_killed_leaves_neither_child_nor_folder(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "tmp").mkdir()
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    env = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONPATH": path,
    }
    env.pop("NUMBA_DISABLE_JIT", None)
    parent = subprocess.Popen([sys.executable, "-c", PARENT], env=env, stdout=subprocess.DEVNULL)

    def wait(until):
        end = time.monotonic() + 600
        while not until() and time.monotonic() < end:
            time.sleep(0.05)
        assert until()

    wait((tmp_path / "began").exists)
    wait(lambda: (tmp_path / "began").read_text() != "")
    parent.kill()
    parent.wait()
    wait(lambda: not list((tmp_path / "tmp").iterdir()))


def test_a_child_that_fails_is_no_error(monkeypatch, tmp_path):
    monkeypatch.setattr("topicstream.kernels.cache.folders", lambda: (KernelFolder(tmp_path / "kernels"),))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    said = []
    prepare("a.job", ("kernels",), 15, said.append, 1 << 30)
    assert len(said) == 1 and not list((tmp_path / "kernels").glob("*.nbc"))


def test_nothing_is_said_when_all_is_there(monkeypatch, tmp_path):
    folder = KernelFolder(tmp_path / "kernels")
    monkeypatch.setattr("topicstream.kernels.cache.folders", lambda: (folder,))
    monkeypatch.setattr(sys, "executable", "/bin/true")
    said = []
    for _ in range(2):
        prepare("a.job", ("kernels",), 15, said.append, 1 << 30)
    assert len(said) == 1


SHARED = """
import os, sys
from pathlib import Path
from topicstream.kernels import compiler
from topicstream.kernels.ahead import leave
from topicstream.kernels.jit import kernel
@kernel
def power(x, n):
    for _ in range(n):
        x *= x
    return x
@kernel
def powers(x):
    return power(x, 2) + power(x, 3) + power(x, 4)
def first(folder):
    assert power(2.0, 1) == 4.0
def second(folder):
    assert powers(1.0) == 3.0
leave(first, second, folder=sys.argv[1])
Path(sys.argv[0]).with_name(f"{os.getpid()}.missed").write_text(str(compiler.missed))
"""


def test_two_processes_share_the_work_and_numbers_in_a_call_make_no_more_of_it(monkeypatch, tmp_path):
    """``power`` is compiled for (float64, int64) and not once for 2, for 3 and for 4: as Python calls it, and as ``powers``
    does; nothing is compiled by both."""
    (tmp_path / "shared_job.py").write_text(SHARED)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    folder = KernelFolder(tmp_path / "cache" / "topicstream" / "kernels")
    monkeypatch.setattr("topicstream.kernels.cache.folders", lambda: (folder,))
    said = []
    assert prepare("shared_job", ("kernels",), 15, said.append, 1 << 30)
    assert len(said) == 1 and sum(int(p.read_text()) for p in tmp_path.glob("*.missed")) == 3
    assert prepare("shared_job", ("kernels",), 15, said.append, 1 << 30) and len(said) == 1


def test_infer_and_train_leave_compiling_to_others(tmp_path):
    from topicstream.cli.main import run

    docs = tmp_path / "a.jsonl"
    docs.write_text("".join(f'{{"id": "{i}", "text": "some few words {i % 7} here"}}\n' for i in range(60)))
    store, model = str(tmp_path / "c.zarr"), str(tmp_path / "m")
    assert run(["ingest", str(docs), "--out", store, "--min-df", "1", "-q"]) == 0
    code = "import sys; from topicstream.cli.main import run; code = run(sys.argv[1:]); sys.exit(code or 'numba' in sys.modules)"
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    lines = "".join(f"some few words {i % 7} here\n" for i in range(9))
    infer = ("infer", "-", "--model", model, "--format")
    for announced, command, read in (
        (1, ("train", "--corpus", store, "--model", model, "-K", "2", "--algo", "atbp", "--passes", "2"), ""),
        (1, (*infer, "jsonl"), docs.read_text()),
        (0, (*infer, "lines"), lines),
        (0, (*infer, "jsonl", "--follow"), docs.read_text()),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *command, "--mem-limit", "1G"], env=env, input=read, capture_output=True, text=True
        )
        assert done.returncode == 0 and done.stderr.count("compiling for this machine") == announced, (command, done.stderr)


def test_what_infer_compiles_follows_from_what_it_reads_and_writes(tmp_path):
    from topicstream.inference.config import InferConfig
    from topicstream.inference.infer import _compiling

    model = tmp_path / "m"
    assert _compiling(InferConfig(model, [Path("-")]))[1] == "bp,txt,jsonl"
    assert _compiling(InferConfig(model, [Path("a.txt")]))[1] == "bp,txt"
    assert _compiling(InferConfig(model, [Path("a.csv.gz")], method="vb", top=3))[1] == "vb,csv,lists"
    assert _compiling(InferConfig(model, [Path("-")], format="csv", out="a.csv", min_prob=0.1))[1] == "bp,csv,to-csv,lists"
