"""Vectors from scattered places against NumPy, and the same bits with and without AVX-512."""

import json
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from tests.planted import draw
from tests.planted import store as corpus_store
from topicstream import train
from topicstream.numeric.kernels import gather as module
from topicstream.numeric.kernels.gather import (
    append,
    gather,
    highest,
    narrow,
    root,
    scatter,
    squeeze,
    widen,
)
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.simd import load, splat, store


@kernel
def exercise(table, at, small, wide, out, topics, values):
    """Every intrinsic once; returns the largest lane and how many entries were squeezed, and
    appended.
    """
    v = gather(table, 3, at, 1)
    store(out, 0, v)
    scatter(table, 3, at, 1, v + splat(np.float32(0.25)))
    store(out, 16, narrow(small, 16, root(widen(small, 0))))
    store(out, 32, narrow(wide, 16, widen(wide, 0)))
    store(out, 48, widen(table, 0))
    n = squeeze(topics, values, 5, 32, load(out, 64))
    return highest(v), n, append(topics, values, 24, at, 1, load(out, 64))


def arrays():
    rng = np.random.default_rng(2)
    table = rng.random(400).astype(np.float32)
    at = rng.choice(380, 17, replace=False).astype(np.uint16)
    small = rng.integers(0, 256, 32).astype(np.uint8)
    wide = rng.integers(0, 65536, 32).astype(np.uint16)
    out = np.zeros(80, np.float32)
    out[64:] = np.where(rng.random(16) < 0.5, 0, rng.random(16))
    return table, at, small, wide, out, np.zeros(40, np.uint16), np.zeros(40, np.float32)


def test_equals_numpy():
    table, at, small, wide, out, topics, values = arrays()
    before = table.copy()
    row = out[64:].copy()
    top, n, more = exercise(table, at, small, wide, out, topics, values)
    want = before[3 + at[1:].astype(int)]
    np.testing.assert_array_equal(out[:16], want)
    assert top == want.max()
    moved = before.copy()
    moved[3 + at[1:].astype(int)] += np.float32(0.25)
    np.testing.assert_array_equal(table, moved)
    rounded = np.floor(np.sqrt(small[:16].astype(np.float32)) + np.float32(0.5))
    np.testing.assert_array_equal(small[16:], rounded)
    np.testing.assert_array_equal(out[16:32], rounded)
    np.testing.assert_array_equal(wide[16:], wide[:16])
    lanes = np.flatnonzero(row)
    assert n == len(lanes)
    np.testing.assert_array_equal(topics[5 : 5 + n], 32 + lanes)
    np.testing.assert_array_equal(values[5 : 5 + n], row[lanes])
    assert more == n
    np.testing.assert_array_equal(topics[24 : 24 + n], at[1:][lanes])
    np.testing.assert_array_equal(values[24 : 24 + n], row[lanes])


def digest():
    """All results as hexadecimal."""
    given = arrays()
    exercise(*given)
    return [a.tobytes().hex() for a in given]


@pytest.mark.parametrize("fast", [True, False])
def test_one_instruction_and_single_loads_are_the_same_bits(monkeypatch, fast):
    monkeypatch.setattr(module, "_fast", lambda: fast)
    found = arrays()
    kernel(cache=False)(exercise.py_func)(*found)
    assert [a.tobytes().hex() for a in found] == digest()


def test_equal_places_keep_the_last_lane(monkeypatch):
    for fast in (True, False):
        monkeypatch.setattr(module, "_fast", lambda fast=fast: fast)
        found = arrays()
        found[1][1:] = np.repeat(np.arange(8, dtype=np.uint16), 2)

        @kernel(cache=False)
        def put(table, at, values):
            scatter(table, 0, at, 1, load(values, 0))

        values = np.arange(16, dtype=np.float32)
        put(found[0], found[1], values)
        np.testing.assert_array_equal(found[0][:8], values[1::2])


def test_single_loads_on_amd_and_without_avx512():
    assert module.one_instruction("sapphirerapids", "+avx2,+avx512f,+avx512vl")
    assert not module.one_instruction("znver5", "+avx2,+avx512f,+avx512vl")
    assert not module.one_instruction("sapphirerapids", "+avx2,-avx512f")
    assert not module.one_instruction("generic", "")


@pytest.mark.product
@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="chooses among x86 processors"
)
def test_without_avx512_the_bits_are_the_same(tmp_path):
    env = {
        **os.environ,
        "NUMBA_CPU_NAME": "x86-64-v2",
        "NUMBA_CPU_FEATURES": "-avx512f",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    code = "import json; from tests.numeric.test_gather import digest; print(json.dumps(digest()))"
    plain = subprocess.run(
        [sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True
    ).stdout
    assert json.loads(plain) == digest()


@pytest.mark.campaign  # test_processors.py compiles svi for AVX2 in every run of the slow tests
def test_the_tiles_compile_without_avx512(tmp_path):
    """LLVM ended the process there over a constant: svi's selection, its statistics and the scoring
    of the model.
    """
    _, *cells = draw(40, 60, 3, length=30, seed=2)
    corpus_store(tmp_path / "c.zarr", *cells, n_words=60, heldout=5)
    env = {
        **os.environ,
        "NUMBA_CPU_NAME": "x86-64-v3",
        "NUMBA_CPU_FEATURES": "-avx512f",
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }
    code = (
        "import sys; from topicstream import train; from topicstream.base.progress import Shown as "
        "Progress; "
        "print(train(sys.argv[1], sys.argv[2], algo='svi', topics=20, passes=1, eval_every=1, "
        "threads=1, "
        "progress=Progress(-1)).last['heldout_perplexity'])"
    )
    where = [str(tmp_path / "c.zarr"), str(tmp_path / "m")]
    said = subprocess.run(
        [sys.executable, "-c", code, *where], env=env, check=True, capture_output=True, text=True
    )
    here = train(
        *where[:1], tmp_path / "here", algo="svi", topics=20, passes=1, eval_every=1, threads=1
    )
    assert float(said.stdout) == pytest.approx(here.last["heldout_perplexity"], rel=1e-4)
