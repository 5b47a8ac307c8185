"""What holding rows to their mass corrects, as a dense table reports it, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from topicstream.engines.base import TableSpec
from topicstream.numeric.tables import rounds
from topicstream.numeric.tables.dense import DenseTable
from topicstream.numeric.tables.rounds import RoundSpace


def serial(work, n):
    for i in range(n):
        work(i)


def filled(rows, mass=None, kind="row", folder=None):
    """A dense table with these rows."""
    rows = np.asarray(rows, np.float32)
    table = DenseTable(TableSpec(mass=kind), *rows.shape, mass, folder, serial)
    table.fill(lambda a, b: np.pad(rows[a:b], ((0, 0), (0, table.width - rows.shape[1]))))
    return table


def rows_of(table):
    return np.concatenate([part.copy() for _, part in table.pieces()])[:, : table.columns]


@pytest.mark.parametrize("on_disk", [False, True])
def test_rows_are_clipped_and_held_to_their_mass(on_disk, tmp_path):
    mass = np.array([4.0, 10.0, 8.0])
    table = filled([[5, -1, 1], [1, 2, 3], [6, 4, -2]], mass, folder=tmp_path if on_disk else None)
    # sums 5, 6 and 8 of 4, 10 and 8;  lowest -1/4 and -2/8, as shares of the mass
    np.testing.assert_allclose(table.finish_pass(), [0.4, -0.25, 0.0])
    expected = [[10 / 3, 0, 2 / 3], [10 / 6, 20 / 6, 5], [4.8, 3.2, 0]]
    np.testing.assert_allclose(rows_of(table), expected, rtol=1e-6)
    np.testing.assert_allclose(table.totals[:3], np.sum(expected, axis=0), rtol=1e-6)
    np.testing.assert_allclose(table.finish_pass(), 0.0, atol=1e-6)  # the last pass' are forgotten


def test_a_number_that_is_none_is_told():
    table = filled([[1, 2], [np.nan, 1], [3, 4]], np.array([3.0, 1.0, 7.0]))
    np.testing.assert_array_equal(table.finish_pass(), [0, 0, 1])


def test_a_table_whose_rows_have_no_mass_is_clipped():
    table = filled([[4, -1, 1], [0.25, -0.5, 0.25], [1, 2, 3]], kind="part")
    # lowest: -1 of a sum of 4, -0.5 of a sum below one, which counts as one
    np.testing.assert_allclose(table.finish_pass(), [0.0, -0.5, 0.0])
    np.testing.assert_array_equal(rows_of(table), [[4, 0, 1], [0.25, 0, 0.25], [1, 2, 3]])
    np.testing.assert_allclose(table.totals[:3], [5.25, 2, 4.25])


def test_a_rewritten_table_is_no_longer_shrunk():
    table = filled([[2, 4], [6, 8]], kind="none")
    assert table.blend(0.5) == 2.0
    np.testing.assert_array_equal(table.totals[:2], [4, 6])
    table.rewrite(lambda first, rows: rows + first)
    assert table.scale == 1.0
    np.testing.assert_array_equal(rows_of(table), [[1, 2], [4, 5]])
    np.testing.assert_array_equal(table.totals[:2], [5, 7])


@pytest.mark.parametrize("on_disk", [False, True])
def test_rows_that_a_round_changes_are_held_to_their_own_mass(on_disk, tmp_path, monkeypatch):
    """On disk each window has two rows."""
    monkeypatch.setattr(rounds, "WINDOW_BYTES", 2 * 16 * 4)
    rows = np.ones((400, 3), np.float32)
    mass = np.arange(3.0, 403.0)
    table = filled(rows, mass, folder=tmp_path if on_disk else None)
    changed = np.arange(1, 400, 3, dtype=np.int32)
    deltas = table.new_round(RoundSpace(1, tmp_path if on_disk else None), len(changed), 1e5)
    room = deltas.slot(0, changed)
    room[:] = 0
    room[:, 1] = 2.0
    deltas.put(0, changed, room)
    table.apply(deltas)
    expected = rows.copy()
    expected[changed] = np.array([1, 3, 1]) / 5 * mass[changed, None]
    np.testing.assert_allclose(rows_of(table), expected, rtol=1e-6)
    np.testing.assert_allclose(table.totals[:3], expected.sum(0, dtype=float), rtol=1e-6)
    # row 1 sums to 5 of 4, and row 397 to 5 of 400
    np.testing.assert_allclose(table.worst, [1 - 5 / mass[changed[-1]], 0, 0], rtol=1e-6)
