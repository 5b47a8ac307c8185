"""A store with a removed document and a model of it, and a copy of each that a test may spoil."""

from __future__ import annotations

import shutil

import pytest

import topicstream
from tests.ingest_tools import documents, write_jsonl
from topicstream.base.progress import Shown as Progress
from topicstream.training.loop import train


@pytest.fixture(scope="package")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("hostile")
    write_jsonl(place / "a.jsonl", documents(80))
    topicstream.ingest(place / "a.jsonl", place / "c.zarr", min_df=1, max_df=1.0)
    write_jsonl(place / "b.jsonl", documents(20))
    topicstream.ingest(place / "b.jsonl", place / "c.zarr", append=True, on_duplicate="replace")
    train(
        place / "c.zarr",
        place / "m",
        algo="gs",
        topics=3,
        passes=1,
        tol=0.0,
        threads=1,
        progress=Progress(-1),
    )
    return place


@pytest.fixture
def store(made, tmp_path):
    shutil.copytree(made / "c.zarr", tmp_path / "c.zarr")
    return tmp_path / "c.zarr"


@pytest.fixture
def model(made, tmp_path):
    shutil.copytree(made / "m", tmp_path / "m")
    return tmp_path / "m"
