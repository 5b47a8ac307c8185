"""scikit-learn's own tests of ``LatentDirichletAllocation``, run on our estimator.

Names and signature are mapped. ``DIFFERENT`` lists the tests that do not apply, and why.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from topicstream.sklearn import TopicModel

theirs = pytest.importorskip("sklearn.decomposition.tests.test_online_lda")

DIFFERENT = {
    "test_lda_default_prior_params": "priors are learnt, not 1 / K",
    "test_lda_preplexity_mismatch": "of a private method",
    "test_dirichlet_expectation": "of a private function",
    "test_lda_dtype_match": "components_ are float32 always; exp_dirichlet_component_ is private",
}
OTHER_VERBOSITY = {0, 2}
"""``evaluate_every`` does not exist: every pass has its perplexity."""


class LatentDirichletAllocation(TopicModel):
    """Our estimator by their name and with the arguments of theirs that their tests use."""

    def __init__(
        self,
        n_components: int = 10,
        *,
        doc_topic_prior: float | None = None,
        topic_word_prior: float | None = None,
        learning_method: str = "batch",
        max_iter: int = 10,
        total_samples: float = 1e6,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
        learning_offset: float = 10.0,
        evaluate_every: int = -1,
    ) -> None:
        super().__init__(
            n_components,
            algorithm={"batch": "auto", "online": "ovb"}[learning_method],
            doc_topic_prior=doc_topic_prior,
            topic_word_prior=topic_word_prior,
            max_iter=max_iter,
            total_samples=total_samples,
            n_jobs=n_jobs,
            verbose=verbose,
            random_state=random_state,
        )


def cases() -> list[Any]:
    """Every test of theirs, once for each set of its parameters."""
    listed = []
    for name, function in sorted(vars(theirs).items()):
        if not name.startswith("test_") or name in DIFFERENT:
            continue
        sets: list[dict[str, Any]] = [{}]
        for mark in getattr(function, "pytestmark", ()):
            if mark.name != "parametrize":
                continue
            names = [part.strip() for part in mark.args[0].split(",")]
            rows = [row if len(names) > 1 else (row,) for row in mark.args[1]]
            sets = [{**one, **dict(zip(names, row, strict=True))} for one in sets for row in rows]
        for number, arguments in enumerate(sets):
            if arguments.get("verbose") and arguments["evaluate_every"] in OTHER_VERBOSITY:
                continue
            listed.append(pytest.param(function, arguments, id=f"{name[5:]}-{number}"))
    return listed


@pytest.mark.slow
@pytest.mark.parametrize(("function", "arguments"), cases())
def test_scikit_learns_tests_of_its_own_class(function, arguments, monkeypatch):
    monkeypatch.setattr(theirs, "LatentDirichletAllocation", LatentDirichletAllocation)
    asked = inspect.signature(function).parameters
    fixtures = {"global_random_seed": 0}
    more = {name: fixtures[name] for name in asked if name not in arguments}
    function(**arguments, **more)


def test_every_exception_is_a_test_of_theirs():
    assert [name for name in DIFFERENT if not hasattr(theirs, name)] == []
