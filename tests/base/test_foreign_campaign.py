"""A selection of scripts/campaigns/foreign_files.py: files of others survive every command."""

from __future__ import annotations

import random

import foreign_files
import pytest

GROUPS = {
    "in our folders": (foreign_files.in_our_folders, 8),
    "in the place of ours": (foreign_files.in_the_place_of_ours, 8),
    "outputs": (foreign_files.outputs, 12),
    "backups": (foreign_files.backups, 6),
    "through links": (foreign_files.through_links, 8),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    foreign_files.make_template(folder)
    return folder


@pytest.mark.quick("outputs")
@pytest.mark.parametrize("group", GROUPS)
def test_nothing_of_others_is_lost(template, tmp_path, group):
    make, count = GROUPS[group]
    problems: list[str] = []
    for case in random.Random(7).sample(list(make()), count):
        problems += foreign_files.run_case(case, template, tmp_path)[1]
    assert problems == []


def test_there_are_more_than_150_cases():
    assert len(foreign_files.all_cases()) > 150
