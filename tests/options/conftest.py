"""Fixtures of the tests of options."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.options.running import write_documents
from topicstream.cli.main import run


@pytest.fixture(scope="package")
def prepared(tmp_path_factory) -> Path:
    """Documents, a store with metadata and a model of it."""
    folder = tmp_path_factory.mktemp("options")
    write_documents(folder)
    meta = ["--meta", "date=year", "--meta", "group", "--meta", "authors", "--meta", "labels"]
    store = str(folder / "c.zarr")
    model = str(folder / "trained")
    assert (
        run(
            [
                "ingest",
                str(folder / "folder"),
                *meta,
                "--links",
                str(folder / "links.tsv"),
                "--out",
                store,
                "-q",
            ]
        )
        == 0
    )
    assert (
        run(
            [
                "train",
                "--corpus",
                store,
                "--model",
                model,
                "-K",
                "6",
                "--passes",
                "4",
                "--algo",
                "sparse-bp",
                "-q",
            ]
        )
        == 0
    )
    return folder


@pytest.fixture
def here(prepared, monkeypatch) -> Path:
    monkeypatch.chdir(prepared)
    return prepared
