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
