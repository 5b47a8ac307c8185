"""One set of golden hashes for all processors: this one, and code for others, leave its bits.

docs/internals/decisions/processors.md says how. After a change that is meant to change bits, record
the set again:

    python scripts/tools/golden.py record --quick --made > tests/project/golden.json
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import golden
import pytest

from tests import ROOT

HASHES = json.loads(Path(__file__).with_name("golden.json").read_text())
WIDE = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
LEVELS = {
    "here": {},
    "x86-64-v3": {  # AVX2 with FMA
        "NUMBA_CPU_NAME": "x86-64-v3",
        "NUMBA_CPU_FEATURES": "-avx512f",
        "NPY_DISABLE_CPU_FEATURES": WIDE,
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "x86-64-v2": {  # no FMA, vectors of four float32
        "NUMBA_CPU_NAME": "x86-64-v2",
        "NUMBA_CPU_FEATURES": "",
        "NPY_DISABLE_CPU_FEATURES": f"AVX2 FMA3 {WIDE}",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
}
FEW = ["atbp", "sparse-bp", "sparselda", "svi"]
"""Engines of each family, tried with every run of the slow tests; `make campaigns` tries all."""
SLOW_LEVEL = ["bp", "atbp", "svi"]
"""Engines that are tried without FMA, where every fused product is a call."""
ALL = sorted({algo for algo, *_ in golden.RUNS.values()} - set(golden.LIBRARIES))


def flags_of_processor() -> set[str]:
    facts = Path("/proc/cpuinfo")
    return set(facts.read_text().split()) if facts.exists() else set()


def test_the_set_has_every_run_but_those_of_libraries():
    runs = [name for name, (algo, *_) in golden.RUNS.items() if algo not in golden.LIBRARIES]
    assert sorted(HASHES) == sorted(f"{name} / memory / 1" for name in runs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "engines"),
    [
        ("here", ALL),
        ("x86-64-v3", FEW),
        pytest.param("x86-64-v3", ALL, marks=pytest.mark.campaign),
        pytest.param("x86-64-v2", SLOW_LEVEL, marks=pytest.mark.campaign),
    ],
    ids=["here", "v3-few", "v3-all", "v2"],
)
def test_every_processor_leaves_the_same_bits(level, engines, tmp_path):
    if level != "here" and (
        platform.machine() != "x86_64" or not {"avx2", "fma"} <= flags_of_processor()
    ):
        pytest.skip("compares code for this processor with code for fewer instructions")
    env = {**os.environ, **LEVELS[level], "PYTHONPATH": str(ROOT)}
    if LEVELS[level]:
        env["NUMBA_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, golden.__file__, "record", "--quick", "--made"]
    done = subprocess.run(
        [*command, f"--only={','.join(engines)}"],
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    hashes = json.loads(done.stdout)
    assert len(hashes) == sum(algo in engines for algo, *_ in golden.RUNS.values())
    assert hashes == {name: HASHES[name] for name in hashes}
