"""The values of options that no line of test_pairs tries, on documents of several files and two
languages.

A command ends well or refuses in the documented way (one line; exit code 2, 3 or 5). Stores are
the same bytes, and models the same content, for any number of workers and threads.
"""

from __future__ import annotations

import pytest

from tests import few_quick
from tests.options import running
from tests.options.values import REFUSED, Case, cases, first_values


def others(command: str) -> list[Case]:
    together = set(first_values(command, REFUSED).values())
    return [case for case in cases(command) if case not in together]


QUICK = {
    ("--text-field", "title,text"),
    ("--meta", "labels=labels"),
    ("--meta-file", "side.tsv:mood", "--key", "id"),
    ("--layer", "counts"),
    ("--vector-field", "text"),
    ("--patches", "8"),
    ("--on-error", "skip"),
    ("--segmenter", "jieba"),
    ("--heldout", "group=red"),
    ("--aim", "reading"),
    ("--tol", "0.01"),
    ("--weighting", "tfidf"),
    ("--tables", "disk"),
}
"""One value of each kind; the others are tried by the slow tests, and algorithms and starts by
tests of their own.
"""


@pytest.mark.parametrize(
    ("case",),
    few_quick([(case,) for case in others("ingest")], [(case,) for case in QUICK]),
    ids=" ".join,
)
def test_ingest(here, case, capsys):
    running.ingested("folder", case, ("1", "4"), capsys)


@pytest.mark.parametrize(
    ("case",),
    few_quick([(case,) for case in others("train")], [(case,) for case in QUICK]),
    ids=" ".join,
)
def test_train(here, case, capsys):
    running.trained(case, ("1", "2"), capsys)


@pytest.mark.parametrize("case", cases("infer"), ids=" ".join)
def test_infer(here, case, capsys):
    running.inferred("folder/0.jsonl", case, ("1", "2"), capsys)
