"""A folder in which one model is published."""

from __future__ import annotations

import shutil

import pytest

from tests.retrain_tools import cycle, folder


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder in which one model is published; copied by those who change it."""
    config = folder(tmp_path_factory.mktemp("published"))
    first = cycle(config)
    assert (first["decision"], first["published"], first["refused"]) == ("full", 1, [])
    return config


@pytest.fixture
def home(published, tmp_path):
    shutil.copytree(published.parent, tmp_path / "home", symlinks=True)
    return tmp_path / "home"
