"""What a command loads before it answers."""

from __future__ import annotations

import subprocess
import sys

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
print(len(sys.modules), *[name for name in ("numba", "zarr", "scipy", "sklearn", "asyncio") if name in sys.modules], file=sys.stderr)
"""
WORDS = ["tree", "river", "stone", "cloud", "field", "horse", "bridge", "candle", "window", "garden"]


def test_what_is_compiled_already_loads_no_compiler(tmp_path):
    """Modules a command imports when its kernels are in the cache: counts, for seconds differ from machine to machine."""
    docs = tmp_path / "a.jsonl"
    docs.write_text("".join(f'{{"id": "{i}", "text": "{" ".join(WORDS[i % 7 : i % 7 + 4])}"}}\n' for i in range(60)))

    def loaded(*command):
        given = [sys.executable, "-c", BUDGET, *map(str, command)]
        done = subprocess.run(given, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        count, *heavy = done.stderr.strip().split("\n")[-1].split()
        return int(count), heavy

    ingest = ("ingest", docs, "--min-df", "1", "-q")
    train = ("train", "-K", "2", "--algo", "sparse-bp", "--passes", "2", "--mem-limit", "1G", "-q")
    loaded(*ingest, "--out", "first.zarr")
    loaded(*train, "--corpus", "first.zarr", "--model", "first.model")
    model = ("--model", "first.model")
    loaded("infer", docs, *model, "-q")
    for most, *command in (
        (560, *ingest, "--out", "second.zarr"),
        (560, "infer", docs, *model, "-q"),
        (530, "show", *model, "--corpus", "first.zarr"),
        (480, "info", "first.zarr"),
        (430, "info", "first.model"),
    ):
        count, heavy = loaded(*command)
        assert not heavy and count <= most, (command, count, heavy)
    assert "numba" not in loaded(*train, "--corpus", "first.zarr", "--model", "second.model")[1]
