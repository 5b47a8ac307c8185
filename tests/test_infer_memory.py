"""What `topics infer` holds: no more for many documents than for few, and little above the model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.small_store import store
from topicstream.kernels.jit import kept
from topicstream.model.topic_model import TopicModel

W, K = 20_000, 100
FEW, MANY = 80_000, 400_000
CHILD = """
import sys
from topicstream import machine
from topicstream.cli import startup
from topicstream.cli.main import run
startup.own_process()
code = run(sys.argv[1:], own_process=True)
print(machine.peak_bytes())
sys.exit(code)
"""
OPEN = """
import sys
from topicstream import machine
from topicstream.model.topic_model import TopicModel
model = TopicModel.open(sys.argv[1])
print(machine.resident_bytes())
"""


def said(program: str, *args: object) -> int:
    """The number that a process of its own says last."""
    done = subprocess.run([sys.executable, "-c", program, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A model of 8 MB, and FEW and MANY documents of three words as stores and as text."""
    folder = tmp_path_factory.mktemp("memory")
    rng = np.random.default_rng(4)
    names = [f"word{i}" for i in range(W)]
    TopicModel.from_arrays(rng.gamma(0.1, 50, (W, K)), names, 0.1, 0.01).save(folder / "model")
    words = np.sort(rng.integers(0, 12, (MANY, 3)), axis=1)
    matrix = np.zeros((MANY, 12), np.uint8)
    matrix[np.arange(MANY)[:, None], words] = 1
    for n in (FEW, MANY):
        store(folder / f"{n}.zarr", matrix[:n], matrix[:0], names[:12], blocks=n // FEW * 2, ids=True)
    return folder


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_memory_does_not_grow_with_the_documents_and_is_small_above_the_model(made):
    def peak(n: int, out: str) -> int:
        options = ["--model", made / "model", "--top", 3, "--threads", 2, "--force", "-q"]
        return said(CHILD, "infer", made / f"{n}.zarr", "-o", made / out, *options)

    peak(FEW, "x.parquet")  # compiles
    opened = said(OPEN, made / "model")
    for out in ("x.parquet", "x.jsonl"):
        few, many = peak(FEW, out), peak(MANY, out)
        sizes = json.dumps({"open": opened >> 20, "few": few >> 20, "many": many >> 20})
        assert many - few < 16 << 20, sizes  # to hold the documents takes 25 MB more
        if kept():
            assert many - opened <= 100 << 20, sizes
