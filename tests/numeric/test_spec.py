"""What a table's declaration says, by hand: quanta, samples, bytes of merged sums."""

from __future__ import annotations

import pytest

from topicstream.numeric.tables.dense import DenseTable
from topicstream.numeric.tables.merging import merging_bytes
from topicstream.numeric.tables.spec import TableSpec, bytes_of, padded, quantum_of
from topicstream.numeric.tables.spill import place_bytes
from topicstream.numeric.tables.table import Merging, Sizes


@pytest.mark.parametrize(
    ("bound", "exponent"), [(1.0, -53), (1.5, -52), (2.0, -52), (2.0**30, -23), (2.0**30 + 1, -22)]
)
def test_the_quantum_makes_sums_up_to_the_bound_exact(bound, exponent):
    quantum = quantum_of(bound)
    assert quantum == 2.0**exponent
    # the bound and the next multiple below it are numbers of their own
    assert bound - quantum < bound and (bound - quantum) + quantum == bound
    assert quantum_of(0.0) == 0.0


def test_deltas_are_rounded_for_twice_the_tokens():
    assert TableSpec().quantum(2.0**20) == quantum_of(2.0**21) == 2.0**-32
    assert TableSpec(bound=8.0).quantum(2.0**20) == 2.0**-50
    assert TableSpec(rows="documents").quantum(1e6) == 0.0
    assert TableSpec(rows=7).quantum(1e6) == 0.0


@pytest.mark.parametrize(
    ("samples", "taken"),
    [
        (range(-100, 1, 25), [50, 75, 100, 125, 150]),  # the last pass is number 150
        (range(20, 41, 10), [20, 30, 40]),
        (range(-200, 1, 100), [50, 150]),  # none before the first pass
        (range(0), []),
        (range(140, 171, 10), [140, 150]),
    ],
)
def test_samples_are_taken_after_passes(samples, taken):
    spec = TableSpec(samples=samples)
    assert [n for n in range(1, 151) if spec.takes_sample(n, 150)] == taken
    for number in (1, 75, 76, 151):
        assert spec.samples_before(number, 150) == sum(n < number for n in taken)


def test_bytes_of_sums_that_merge():
    """A place: a float64, or a float32, a topic of 16 or 32 bits and perhaps an order."""
    assert place_bytes(32, dense=True, ordered=False) == 8
    assert place_bytes(20, dense=False, ordered=False) == 6
    assert place_bytes(1 << 16, dense=False, ordered=True) == 14
    assert place_bytes((1 << 16) + 1, dense=False, ordered=False) == 8
    assert merging_bytes(1000, 16, 20, 6) == Merging(
        20 * 1000, 1000 * 20 * 6 * 9 // 8, 16 * 20 * 14
    )
    assert merging_bytes(1000, 16, 32, 12).range == 16 * 32 * 24


def test_bytes_of_a_table_with_constants_and_sparse_deltas():
    """100 rows, 3 of them twice; 20 columns in 32; ranges of two rows."""
    sizes = Sizes(rows=100, columns=20, changed=30, seen=40, constants=3)
    dense = DenseTable.footprint(TableSpec(), sizes)
    assert dense.rows == 103 * 32 * 4 and dense.delta == 30 * 32 * 4
    assert dense.gathered == 43 * 32 * 4 and dense.fixed == 0
    assert dense.window == 100 * 32 * 4 + (8 << 20)
    assert dense.merging.range == 2 * 32 * 16
    sparse = DenseTable.footprint(TableSpec(delta="sparse", dtype="float64"), sizes)
    assert sparse.rows == 103 * 32 * 8 and sparse.delta == 0
    assert sparse.window == 100 * 32 * 8 and sparse.gathered == 43 * 32 * 8
    assert sparse.merging == merging_bytes(100, 2, 20, 6)
    few = DenseTable.footprint(TableSpec(), sizes._replace(seen=2))
    assert few.gathered == 4 * 32 * 4  # no more copies than rows
    large = DenseTable.footprint(TableSpec(), sizes._replace(rows=10**6))
    assert large.window == (4 << 20) + (8 << 20)
    # ranges of 4 MB: 32,768 rows of 128 bytes, but 64 ranges at least
    assert large.merging.range == 15_625 * 32 * 16
    wide = DenseTable.footprint(TableSpec(), sizes._replace(rows=10**7))
    assert wide.merging.range == 32_768 * 32 * 16


def test_sizes_of_arrays():
    assert [padded(n) for n in (1, 16, 17, 20, 32)] == [16, 16, 32, 32, 32]
    assert bytes_of((3, 5), "float64") == 120 and bytes_of(7, "uint16") == 14
