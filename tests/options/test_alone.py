"""The values of options that no line of test_pairs tries, on documents of several files and two languages.

A command ends well or refuses in the documented way (one line; exit code 2, 3 or 5).  Stores are the same bytes, and models
the same content, for any number of workers and threads.
"""

from __future__ import annotations

from itertools import chain

import pytest

from tests.options import running
from tests.options.values import REFUSED, Case, cases, lines


def others(command: str) -> list[Case]:
    together = set(chain(*lines(command, REFUSED)))
    return [case for case in cases(command) if case not in together]


@pytest.mark.parametrize("case", others("ingest"), ids=" ".join)
def test_ingest(here, case, capsys):
    running.ingested("folder", case, ("1", "4"), capsys)


@pytest.mark.parametrize("case", others("train"), ids=" ".join)
def test_train(here, case, capsys):
    running.trained(case, ("1", "2"), capsys)


@pytest.mark.parametrize("case", cases("infer"), ids=" ".join)
def test_infer(here, case, capsys):
    running.inferred("folder/0.jsonl", case, ("1", "2"), capsys)
