"""Engines whose sums have an order of their own leave the same bits on a processor with AVX-512 and
on one with AVX2.

Those that are not here sum in ``fast_kernel`` loops, in as many lanes as the processor has
(docs/internals/decisions/sums.md).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import golden
import pytest

from tests import ROOT

ENGINES = ["mixture", "gmm"]


def has_avx512() -> bool:
    facts = Path("/proc/cpuinfo")
    return facts.exists() and "avx512f" in facts.read_text().split()


@pytest.mark.slow
@pytest.mark.skipif(
    not has_avx512(),
    reason="compares code for this processor, with AVX-512, with code for x86-64-v3",
)
def test_code_for_avx2_leaves_the_bits_of_avx512(tmp_path):
    level = {
        "NUMBA_CPU_NAME": "x86-64-v3",
        "NUMBA_CPU_FEATURES": "-avx512f",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    command = [sys.executable, golden.__file__, "record", "--quick", "--only", ",".join(ENGINES)]
    env = {**os.environ, **level, "PYTHONPATH": str(ROOT)}
    narrow = json.loads(
        subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    )
    assert len(narrow) == 5 and narrow == golden.record(ENGINES, quick=True)
