"""A store, a model of it and their report."""

from __future__ import annotations

import pytest

from tests.report_store import data_of, made, planted_model, unpack


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    corpus, rows = made(folder)
    planted_model(corpus, folder / "model", 5)  # the fifth is empty
    return folder, corpus, rows


@pytest.fixture(scope="module")
def model_and_rows(tmp_path_factory):
    """A folder with a store and a model of it, and its documents by their ids."""
    folder = tmp_path_factory.mktemp("flow")
    corpus, rows = made(folder, 300)
    planted_model(corpus, folder / "model")
    return folder, {r["id"]: r for r in rows}


def model_options(folder):
    """The options that name the model and the store of such a folder."""
    return ["--model", str(folder / "model"), "--corpus", str(folder / "corpus.zarr")]


@pytest.fixture(scope="module")
def written(stored):
    folder, _, _ = stored
    report = pytest.importorskip("topicstream.addons.report.page").report
    done = report(
        folder / "model",
        folder / "corpus.zarr",
        out=folder / "r.html",
        title="<b>A & B</b>",
        threads=2,
    )
    return folder / "r.html", done, *unpack(data_of((folder / "r.html").read_text()))
