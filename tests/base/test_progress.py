"""Which passes get a line on the screen."""

from __future__ import annotations

import io
import re

from topicstream.base.progress import Shown


def passes_said(passes, terminal=False, verbose=0):
    """Return the numbers of the passes that get a line, where all are fast."""
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    shown = Shown(verbose, stream)
    for number in range(1, passes + 1):
        shown.end_pass({"pass": number, "seconds": 0.01, "cells_per_second": 1e6}, passes)
    said = re.findall(rf"pass (\d+)/{passes}", stream.getvalue())
    return [int(number) for number in said]


def test_passes_that_follow_each_other_fast_get_some_forty_lines():
    assert passes_said(12) == [5, 10, 12]
    assert passes_said(200) == list(range(5, 201, 5))
    assert passes_said(800) == list(range(20, 801, 20))
    assert passes_said(200, terminal=True) == list(range(1, 201))
    assert passes_said(400, terminal=True) == list(range(10, 401, 10))
    assert passes_said(400, terminal=True, verbose=1) == list(range(1, 401))
