"""A first `topics train` compiles, and goes on in a process that never held the compiler's memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.planted import draw, store


@pytest.mark.parametrize("cache", ["empty", "none"])
def test_compiles_once_and_ends(cache, tmp_path):
    _, indptr, words, counts = draw(docs=60, words=80, topics=3, length=40, seed=2)
    corpus = store(tmp_path / "corpus.zarr", indptr, words, counts, 80)
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    env["XDG_CACHE_HOME"] = str(tmp_path / "cache") if cache == "empty" else "/proc/nowhere"
    command = [sys.executable, "-m", "topicstream.cli.main", "train", "--corpus", str(corpus), "--model", str(tmp_path / "m"),
               "--algo", "atbp", "-K", "3", "--passes", "2", "--tol", "0", "--threads", "1"]  # fmt: skip
    first = subprocess.run(command, env=env, capture_output=True, text=True)
    assert first.returncode == 0 and "2 passes" in first.stdout, first.stderr
    assert first.stderr.count("compiled in") == first.stderr.count("memory plan:") == 1
    if cache == "empty":
        again = subprocess.run([*command, "--force"], env=env, capture_output=True, text=True)
        assert again.returncode == 0 and "compiled in" not in again.stderr
        plans = [int(re.search(r"interpreter (\d+) MB", done.stderr)[1]) for done in (first, again)]
        assert abs(plans[0] - plans[1]) < 25  # begun anew, the compiler's 60 MB are not in the plan
