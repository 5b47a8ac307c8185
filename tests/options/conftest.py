"""Fixtures of the tests of options."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.options.running import make_store_and_model, write_documents


@pytest.fixture(scope="package")
def prepared(tmp_path_factory) -> Path:
    """Documents, a store with metadata and a model of it."""
    folder = tmp_path_factory.mktemp("options")
    write_documents(folder)
    make_store_and_model(folder)
    return folder


@pytest.fixture
def here(prepared, monkeypatch) -> Path:
    monkeypatch.chdir(prepared)
    return prepared
