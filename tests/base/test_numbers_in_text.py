"""Amounts of memory, bars and shortened lines, by hand."""

from __future__ import annotations

import pytest

from topicstream.base import machine
from topicstream.base.machine import PROCESS_BYTES, format_bytes, process_bytes
from topicstream.base.text import shortened, sparkline

KB = 1 << 10
MB = 1 << 20
GB = 1 << 30


@pytest.mark.parametrize(
    "bytes, text",
    [
        (0, "0 B"),
        (KB - 1, "1023 B"),
        (KB, "1.0 kB"),
        (int(9.9 * KB), "9.9 kB"),
        (10 * KB, "10 kB"),
        (MB - 1, "1024 kB"),
        (MB, "1.0 MB"),
        (512 * MB, "512 MB"),
        (GB - MB, "1023 MB"),
        (2.5 * GB, "2.5 GB"),
        (10 * GB, "10 GB"),
        (-2 * MB, "-2.0 MB"),
    ],
)
def test_bytes_have_the_largest_unit_that_they_fill(bytes, text):
    assert format_bytes(bytes) == text


def test_a_process_is_counted_in_whole_steps(monkeypatch):
    step = machine.STEP_BYTES
    later = machine.LATER_BYTES
    for held, expected in ((step, step), (step + 1, 2 * step), (10**12, PROCESS_BYTES)):
        monkeypatch.setattr(machine.system, "resident_bytes", lambda held=held: held - later)
        assert process_bytes() == min(PROCESS_BYTES, expected)


def test_a_long_series_is_thinned_to_values_at_equal_distances():
    values = [7.0] * 9
    values[0] = 0.0
    values[2] = 1.0
    values[4] = 2.0
    values[6] = 3.0
    values[8] = 0.0
    assert sparkline(values, 5) == "▁▃▆█▁"
    assert sparkline(values[::2], 5) == "▁▃▆█▁"
    assert len(sparkline(values, 9)) == 9


def test_a_line_as_long_as_its_bound_is_whole():
    assert shortened("a  b\nc", 5) == "a b c"
    assert shortened("a b cd", 5) == "a b …"
