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
