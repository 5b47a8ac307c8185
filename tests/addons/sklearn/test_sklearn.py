"""The scikit-learn estimator: scikit-learn's own checks, and what people do with it."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma

pytest.importorskip("sklearn", minversion="1.6")
sparse = pytest.importorskip("scipy.sparse")

from sklearn.base import clone  # noqa: E402
from sklearn.feature_extraction.text import CountVectorizer  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.utils.estimator_checks import estimator_checks_generator  # noqa: E402

import topicstream  # noqa: E402
from tests import few_quick  # noqa: E402
from tests.ingestion.test_memory_inputs import ALL, texts  # noqa: E402
from tests.small_store import planted  # noqa: E402
from topicstream.sklearn import TopicModel  # noqa: E402

TRAINING = {
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_array",
    "check_estimator_sparse_tag",
    "check_transformer_data_not_an_array",
    "check_pipeline_consistency",
    "check_transformer_preserve_dtypes",
    "check_estimators_dtypes",
    "check_fit_score_takes_y",
    "check_dtype_object",
    "check_f_contiguous_array_estimator",
    "check_methods_subset_invariance",
    "check_methods_sample_order_invariance",
    "check_fit2d_predict1d",
    "check_fit2d_1feature",
    "check_estimators_overwrite_params",
    "check_dont_overwrite_parameters",
    "check_n_features_in_after_fitting",
    "check_transformer_n_iter",
    "check_readonly_memmap_input",
    "check_transformer_general",
    "check_estimators_pickle",
    "check_estimators_nan_inf",
    "check_fit_idempotent",
    "check_fit2d_1sample",
}
"""Checks that train once more to look at what the quick ones come by."""


def checks(estimator: TopicModel, slow: Collection[str] | None = None) -> list[Any]:
    """scikit-learn's checks of an estimator, as parameters of a test; these are slow (None:
    all).
    """
    named = [
        (getattr(check, "func", check).__name__, check)
        for _, check in estimator_checks_generator(estimator)
    ]
    marks = [pytest.mark.product if slow is None or name in slow else () for name, _ in named]
    return [
        pytest.param(check, id=name, marks=mark)
        for (name, check), mark in zip(named, marks, strict=True)
    ]


@pytest.mark.parametrize("check", checks(TopicModel(n_components=3, max_iter=2), TRAINING))
def test_scikit_learns_own_checks(check):
    check(TopicModel(n_components=3, max_iter=2))


@pytest.mark.campaign
@pytest.mark.parametrize("check", checks(TopicModel(n_components=3, max_iter=3, algorithm="ovb")))
def test_scikit_learns_own_checks_of_a_stochastic_engine(check):
    check(TopicModel(n_components=3, max_iter=3, algorithm="ovb"))


@pytest.fixture(scope="module")
def matrix():
    return planted(0, 300, 60, 4)[0]


@pytest.mark.product
def test_dense_sparse_and_store_agree(matrix, tmp_path):
    one = TopicModel(4, max_iter=10).fit(matrix)
    two = TopicModel(4, max_iter=10).fit(sparse.csc_matrix(matrix.astype(float)))
    assert np.array_equal(one.components_, two.components_)
    assert one.components_.shape == (4, 60) and one.n_iter_ <= 10 and one.bound_ > 1
    theta = one.transform(sparse.csr_matrix(matrix))
    assert theta.shape == (300, 4) and np.allclose(theta.sum(axis=1), 1, atol=1e-5)
    names = [f"w{i}" for i in range(60)]
    topicstream.ingest(matrix, tmp_path / "c.zarr", vocabulary=names, **ALL)
    three = TopicModel(4, max_iter=10).fit(str(tmp_path / "c.zarr"))
    order = [names.index(w) for w in three.vocabulary_]
    assert np.allclose(three.components_, one.components_[:, order], rtol=0.5, atol=5)
    assert three.transform(tmp_path / "c.zarr").shape == (300, 4)
    stored = three.score(tmp_path / "c.zarr") / matrix.sum()
    assert stored == pytest.approx(one.score(matrix) / matrix.sum(), abs=0.2)
    assert (
        one.bound_
        == one.perplexity(matrix)
        == pytest.approx(np.exp(-one.score(matrix) / matrix.sum()))
    )
    assert three.bound_ == three.perplexity(str(tmp_path / "c.zarr"))


def test_pipeline_output_and_grid_search():
    pandas = pytest.importorskip("pandas")
    given = texts(120)
    pipeline = make_pipeline(CountVectorizer(), TopicModel(3, max_iter=3, random_state=1))
    assert pipeline.fit_transform(given).shape == (120, 3)
    assert list(pipeline.get_feature_names_out()) == ["topicmodel0", "topicmodel1", "topicmodel2"]
    X = CountVectorizer().fit_transform(given)
    frame = TopicModel(3, max_iter=2).set_output(transform="pandas").fit_transform(X)
    assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == [
        "topicmodel0",
        "topicmodel1",
        "topicmodel2",
    ]
    search = GridSearchCV(TopicModel(max_iter=3), {"n_components": [2, 4]}, cv=2).fit(X)
    assert search.best_params_["n_components"] in (2, 4) and search.best_score_ < 0


def test_clone_and_pickle_hold_arrays_and_parameters_only(matrix):
    fitted = TopicModel(4, max_iter=3, options={"learn_priors": False}).fit(matrix)
    assert clone(fitted).get_params() == fitted.get_params()
    assert "_model" not in fitted.__getstate__()
    again = pickle.loads(pickle.dumps(fitted))
    assert np.allclose(again.transform(matrix), fitted.transform(matrix), atol=1e-6)


def test_short_documents_are_warned_of(matrix):
    model = TopicModel(2, max_iter=2).fit(matrix)
    words = np.zeros((4, matrix.shape[1]), int)
    words[:, 0] = 6
    with warnings.catch_warnings(action="error"):
        model.transform(words)
    with pytest.warns(UserWarning, match=r"^documents have 6.0 known words on average"):
        model.set_params(method="vb").transform(words)


@pytest.mark.parametrize("algorithm", few_quick(["ovb", "svi"], ["ovb"]))
def test_partial_fit_learns(matrix, algorithm):
    model = TopicModel(
        4, algorithm=algorithm, total_samples=300, random_state=3, options={"tau": 1.0}
    )
    scores = []
    for at in [*range(0, 300, 50)] * 6:
        model.partial_fit(sparse.csr_matrix(matrix[at : at + 50]))
        if model.n_iter_ in (1, 36):
            scores.append(model.score(matrix) / matrix.sum())
    fitted = TopicModel(4, algorithm=algorithm, max_iter=20).fit(matrix)
    assert scores[-1] > scores[0] and scores[-1] > fitted.score(matrix) / matrix.sum() - 0.3
    assert model.n_iter_ == 36
    assert hasattr(TopicModel(), "partial_fit")  # auto: by ovb
    assert not hasattr(TopicModel(algorithm="gs"), "partial_fit")


def test_partial_fit_does_not_depend_on_threads():
    wide = np.random.default_rng(4).poisson(0.2, (5000, 40))
    alone, four = (
        TopicModel(3, n_jobs=n, total_samples=5000).partial_fit(sparse.csr_matrix(wide))
        for n in (1, 4)
    )
    assert np.array_equal(alone.components_, four.components_)


def test_partial_fit_is_a_step_of_online_bayes(matrix):
    """Hoffman, Blei & Bach 2010, Alg. 2: phi = (1 - rho) phi + rho D / S times expected counts."""
    given = {"algorithm": "ovb", "total_samples": 900, "options": {"tau": 1.0, "inner_tol": 0.0}}
    model = TopicModel(3, doc_topic_prior=0.5, topic_word_prior=0.1, **given)
    batch = np.asarray(matrix[:40], np.float64)
    model.partial_fit(batch)
    start = model.components_.astype(np.float64)
    model.partial_fit(batch)
    weights = digamma(start) - digamma(start.sum(axis=1, keepdims=True))
    gamma = np.full((40, 3), 0.5 + batch.sum(axis=1, keepdims=True) / 3)
    for _ in range(500):
        p = np.exp(weights[None] + digamma(gamma)[:, :, None])
        p /= p.sum(axis=1, keepdims=True)
        gamma = 0.5 + (p * batch[:, None, :]).sum(axis=2)
    expected = (p * batch[:, None, :]).sum(axis=0)
    rho = 2.0**-0.7
    wanted = (1 - rho) * (start - 0.1) + rho * 900 / 40 * expected + 0.1
    np.testing.assert_allclose(model.components_, wanted, rtol=2e-3, atol=0.02)


def test_partial_fit_takes_sparse_statistics(matrix):
    """Of many topics and one a word, ``svi`` gives only the entries that are not zero."""
    model = TopicModel(64, algorithm="svi", total_samples=600, options={"sparsity": 1})
    tokens = float(np.asarray(matrix).sum())
    mass = None
    for step in range(4):
        model.partial_fit(matrix)
        before = mass
        mass = float((model.components_.astype(np.float64) - model.topic_word_prior_).sum())
        if before is not None:
            rho = (10.0 + step) ** -0.7
            wanted = (1 - rho) * before + rho * 600 / len(matrix) * tokens
            assert mass == pytest.approx(wanted, rel=1e-3)
    assert model.components_.shape == (64, matrix.shape[1])


def test_bad_input_is_a_value_error(matrix):
    with pytest.raises(ValueError, match="Negative values"):
        TopicModel(2).fit(-matrix)
    with pytest.raises(ValueError, match="--algo lda: not known"):
        TopicModel(2, algorithm="lda").fit(matrix)
    with pytest.raises(ValueError, match="no corpus store here"):
        TopicModel(2).fit("nowhere.zarr")


@pytest.mark.parametrize(
    ("given", "before"),
    [
        (["a text", "another"], ""),
        (np.array(["a text", "another"]), ""),
        (np.array([["a text", 1.0]], object), ""),  # as a data frame
        ([["a", "text"], ["another"]], "analyzer=list"),
    ],
)
def test_texts_are_told_what_to_put_before(given, before):
    said = (
        f"put CountVectorizer before it, as in make_pipeline(CountVectorizer({before}), "
        f"TopicModel(7))"
    )
    with pytest.raises(ValueError, match=re.escape(said)):
        TopicModel(7).fit(given)
