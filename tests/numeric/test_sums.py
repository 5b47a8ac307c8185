"""Sums and products of fixed order: their lanes, tails and what lies past the end."""

from __future__ import annotations

import numpy as np
import pytest

from topicstream.numeric.kernels.arrays import address_of, load_row, store_row
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.products import multiply, multiply_transposed
from topicstream.numeric.kernels.simd import fma32, fma64
from topicstream.numeric.kernels.sums import (
    dot_doubles,
    dot_rows,
    load_doubles,
    sum_doubles,
    sum_floats,
    total_doubles,
)

LENGTHS = [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 100]


def by_lanes(x: np.ndarray, lanes: int) -> np.number:
    """The sum as it is defined: lanes in order, then a tree."""
    padded = np.zeros(-(-len(x) // lanes) * lanes, x.dtype)
    padded[: len(x)] = x
    sums = np.zeros(lanes, x.dtype)
    for row in padded.reshape(-1, lanes):
        sums += row
    while len(sums) > 1:
        half = len(sums) // 2
        sums = sums[:half] + sums[half:]
    return sums[0]


@pytest.mark.parametrize("n", LENGTHS)
def test_sums_are_those_of_lanes_and_a_tree(n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=n + 5) * np.exp(rng.normal(size=n + 5) * 6)
    x[n:] = np.nan  # not read
    single = x.astype(np.float32)
    assert sum_doubles(x, n) == by_lanes(x[:n], 8)
    assert np.float32(sum_floats(single, n)) == by_lanes(single[:n], 16)


@kernel
def dot_of(a, b, n):
    return dot_rows(address_of(a), address_of(b), n)


@pytest.mark.parametrize("n", LENGTHS)
def test_dots_are_near_the_exact_ones(n):
    rng = np.random.default_rng(n)
    a = rng.normal(size=n + 3)
    b = rng.normal(size=n + 3)
    exact = float((a[:n].astype(np.longdouble) * b[:n]).sum())
    assert dot_doubles(a, b, n) == pytest.approx(exact, rel=1e-13, abs=1e-14)
    single = dot_of(a.astype(np.float32), b.astype(np.float32), n)
    assert single == pytest.approx(exact, rel=1e-4, abs=1e-5)


@kernel
def total_of(a, i, n):
    return total_doubles(load_doubles(a, i, n))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_eight_entries_as_doubles(dtype):
    a = np.arange(1, 21).reshape(4, 5).astype(dtype)
    assert total_of(a, 5, 20) == sum(range(6, 14))
    assert total_of(a, 15, 18) == 16 + 17 + 18
    assert total_of(a, 18, 18) == 0


@kernel
def copy_row(a, b, n):
    for i in range(0, n, 16):
        store_row(address_of(b), i, load_row(address_of(a), i, n), n)


@pytest.mark.parametrize("n", LENGTHS)
def test_a_row_ends_where_it_ends(n):
    a = np.arange(1, n + 30, dtype=np.float32)
    b = np.full_like(a, -1)
    copy_row(a, b, n)
    assert (b[:n] == a[:n]).all() and (b[n:] == -1).all()


@kernel
def fused(x, y, z):
    return fma64(x, y, z)


@kernel
def fused_single(x, y, z):
    return fma32(x, y, z)


def test_a_fused_product_is_rounded_once():
    x = 1.0 + 2.0**-30
    assert fused(x, x, -1.0) == 2.0**-29 + 2.0**-60 != x * x - 1.0
    y = np.float32(1.0 + 2.0**-13)
    assert fused_single(y, y, np.float32(-1.0)) == 2.0**-12 + 2.0**-26 != y * y - np.float32(1)


@pytest.mark.parametrize("rows", [1, 3, 4, 9])
def test_products_of_matrices_are_chains_in_the_order_of_the_inner_index(rows):
    rng = np.random.default_rng(rows)
    x = rng.normal(size=(rows, 16)).astype(np.float32)
    a = rng.normal(size=(16, 32)).astype(np.float32)
    out = np.full((rows, 32), np.nan, np.float32)
    multiply(x, a, out)
    chain = np.zeros((rows, 32), np.float32)
    for j in range(16):  # float64 has room for a product of two float32; one rounding is left
        chain = (chain + x[:, j : j + 1].astype(np.float64) * a[j]).astype(np.float32)
    assert np.abs(out - chain).max() <= 2**-22
    np.testing.assert_allclose(out, x.astype(np.float64) @ a, atol=1e-5)
    across = np.full((16, 32), np.nan, np.float32)
    y = rng.normal(size=(rows, 32)).astype(np.float32)
    multiply_transposed(x, y, across)
    np.testing.assert_allclose(across, x.T.astype(np.float64) @ y, atol=1e-5)
