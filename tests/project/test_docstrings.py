"""The examples in the docstrings of everything public run, each in a folder with a small store and
a model of it.
"""

from __future__ import annotations

import doctest
import inspect
import random
import shutil
from importlib import import_module

import pytest

import topicstream

THEMES = [
    "cats fur paws whiskers milk mice purring tail claws kitten",
    "ships harbour sails anchor captain deck crew cargo tide ocean",
    "stars galaxy telescope orbit comet planet nebula lunar solar moon",
    "bread oven flour dough baker yeast crust loaf butter salt",
]
EXTENDED = [
    "engines.gibbs.gs:GibbsSampling",
    "engines.gibbs.sparselda:SparseLDA",
    "engines.message.atbp:ATBP",
    "engines.message.bp:BeliefPropagation",
    "engines.message.bp:SimplifiedBeliefPropagation",
    "engines.message.bp:ZeroOrderCollapsedVariational",
    "engines.message.sparse_bp:SparseBeliefPropagation",
    "engines.message.stbp:STBP",
    "engines.variational.mvi:Memoized",
    "engines.variational.ovb:OnlineVariationalBayes",
    "engines.variational.svi:StochasticSparse",
    "engines.variational.vb:VariationalBayes",
    "base.cluster:Cluster",
    "base.dates:advice",
    "base.options:option",
    "base.places:Addresses",
    "base.progress:Progress",
    "base.records:decode_record",
    "base.text:render",
    "cli.command:topics_command",
    "cli.extension:CommandOptions",
    "model.formula:parse_formula",
    "display.view:ModelView",
    "evaluation.scoring:Scorer",
    "inference.method:Method",
    "model.parts:ModelPart",
    "training.executor:Executor",
]
"""Engines, what docs/internals/extending.md names, and what has an example beside."""
PUBLIC = [name for name in topicstream.__all__ if not name.startswith("__")]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with corpus.zarr (400 documents with dates, of four themes) and model (four
    topics).
    """
    folder = tmp_path_factory.mktemp("docstrings")
    rng = random.Random(1)
    documents = [
        {
            "id": f"doc-{d}",
            "date": f"{2010 + d % 8}-05-01",
            "text": " ".join(rng.choices(THEMES[d % 4].split(), k=20)),
        }
        for d in range(400)
    ]
    topicstream.ingest(
        documents, out=folder / "corpus.zarr", meta=["date"], heldout=40, min_df=1, progress=False
    )
    topicstream.train(folder / "corpus.zarr", folder / "model", topics=4, passes=20, progress=False)
    return folder


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_run(name, prepared, tmp_path, monkeypatch):
    folder = tmp_path / "here"
    shutil.copytree(prepared, folder, symlinks=True)
    monkeypatch.chdir(folder)
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(
        getattr(topicstream, name), name, module=False, globs={"topicstream": topicstream}
    )
    assert test.examples, f"{name} has no example"
    failures = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert failures.failed == 0


@pytest.mark.parametrize("place", EXTENDED)
def test_examples_for_extensions_run(place, prepared, monkeypatch):
    monkeypatch.chdir(prepared)
    path, name = place.split(":")
    module = import_module(f"topicstream.{path}")
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(getattr(module, name), name, module=False, globs=dict(vars(module)))
    assert test.examples, f"{name} has no example"
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


def test_the_estimator_runs():
    estimators = pytest.importorskip("topicstream.sklearn", reason="scikit-learn is not installed")
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(estimators.TopicModel, "TopicModel", module=False, globs={})
    assert test.examples and doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("name", [name for name in PUBLIC if name[0].islower()])
def test_functions_say_what_they_take_return_and_raise(name):
    text = inspect.getdoc(getattr(topicstream, name))
    assert [
        part
        for part in ("Parameters", "Returns", "Raises", "Examples")
        if f"{part}\n---" not in text
    ] == []
