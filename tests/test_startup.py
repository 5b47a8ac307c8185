"""What a command loads before it answers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from topicstream.kernels.cache import own_folder

pytestmark = pytest.mark.slow

CHECK = """
import sys
from topicstream.cli import startup
startup.own_process()
import numpy as np
from topicstream.kernels.digamma import digamma
assert abs(float(digamma(1.0)) + 0.5772156649015329) < 1e-12
print("scipy.linalg" in sys.modules)
from scipy import linalg
print(linalg.det(np.array([[2.0, 1.0], [1.0, 2.0]])), "scipy.linalg" in sys.modules)
"""
HELP = """
import sys
from topicstream.cli.main import run
assert run(["--help"]) == 0
print([name for name in ("numpy", "numba", "pyarrow", "zarr") if name in sys.modules], file=sys.stderr)
"""


def test_kernels_load_without_scipys_linear_algebra_which_is_there_for_those_who_ask():
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["False", "3.0 True"], done.stderr


def test_help_loads_nothing():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True)
    assert done.stderr.strip() == "[]" and "retrain" in done.stdout


BUDGET = """
import sys, warnings
from topicstream.cli import startup
startup.own_process()
from topicstream.cli.main import run
assert run(sys.argv[1:]) == 0
print(len(sys.modules), *[name for name in ("numba", "zarr", "scipy", "sklearn", "asyncio", "numcodecs", "pydoc", "pyarrow.compute") if name in sys.modules], file=sys.stderr)
"""
WORDS = ["tree", "river", "stone", "cloud", "field", "horse", "bridge", "candle", "window", "garden"]


def test_what_is_compiled_already_loads_no_compiler(tmp_path):
    """Modules a command imports when its kernels are in the cache: counts, for seconds differ from machine to machine."""
    docs = tmp_path / "a.jsonl"
    docs.write_text("".join(f'{{"id": "{i}", "text": "{" ".join(WORDS[i % 7 : i % 7 + 4])}"}}\n' for i in range(60)))

    def loaded(*command, **more):
        given = [sys.executable, "-c", BUDGET, *map(str, command)]
        done = subprocess.run(given, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **more})
        assert done.returncode == 0, done.stderr
        count, *heavy = done.stderr.strip().split("\n")[-1].split()
        return int(count), heavy

    ingest = ("ingest", docs, "--min-df", "1", "-q")
    train = ("train", "-K", "2", "--algo", "sparse-bp", "--passes", "2", "--mem-limit", "1G", "-q")
    loaded(*ingest, "--out", "first.zarr")
    loaded(*train, "--corpus", "first.zarr", "--model", "first.model")
    model = ("--model", "first.model")
    loaded("infer", docs, *model, "-q")
    loaded("eval", *model, "--corpus", "first.zarr", "--coherence")
    for most, *command in (
        (500, *ingest, "--out", "second.zarr"),
        (510, "infer", docs, *model, "-q"),
        (490, "eval", *model, "--corpus", "first.zarr", "--coherence"),
        (390, "show", *model, "--corpus", "first.zarr"),
        (390, "info", "first.zarr"),
        (370, "info", "first.model"),
    ):
        count, heavy = loaded(*command)
        quick = command[0] in ("show", "info")
        assert not [name for name in heavy if quick or name != "pyarrow.compute"], (command, heavy)
        assert count <= most, (command, count)
    assert "numba" not in loaded(*train, "--corpus", "first.zarr", "--model", "second.model")[1]
    # as in an image: nowhere to keep anything, and a cache that was baked in
    (tmp_path / "nowhere").write_text("")
    shared = {"NUMBA_CACHE_DIR": str(tmp_path / "nowhere"), "TOPICS_KERNELS": str(own_folder())}
    for command in ((*ingest, "--out", "third.zarr"), ("infer", docs, *model, "-q")):
        assert "numba" not in loaded(*command, **shared)[1]


def test_warm_says_what_it_does_before_it_begins(tmp_path, monkeypatch, capsys):
    from topicstream.cli.main import run
    from topicstream.kernels import ahead
    from topicstream.kernels.cache_folder import KernelFolder

    folder = KernelFolder(tmp_path / "kernels")
    monkeypatch.setattr("topicstream.kernels.cache.folders", lambda: (folder,))
    began = tmp_path / "began"
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\necho "$@" >> {began}\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    for flag, which, told in (((), "some", "infer and eval"), (("--all",), "all", "every algorithm and method")):
        assert run(["warm", *flag]) == 0
        said = capsys.readouterr()
        assert f"{told}: compiling for this machine, once" in " ".join(said.err.split()) and "ready in" in said.out
        assert f"topicstream.cli.warming {which} " in began.read_text()
        assert run(["warm", *flag]) == 0 and capsys.readouterr().err == ""  # nothing to do
    program.write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.setattr(ahead, "_key", lambda sources: "another")
    assert run(["warm"]) == 1 and "not everything could be compiled" in capsys.readouterr().err
