"""``--algo gmm`` and stores of vectors: the twin, the bound, runs that stop and go on, hostile
files, what commands say.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score

import topicstream
from tests import few_quick
from tests.reference import gaussians as twin
from tests.reference.mixture import top
from topicstream.addons.clusters import gaussians
from topicstream.addons.clusters.gaussian_density import (
    NOTHING,
    best_density,
    densities,
    log_density,
)
from topicstream.addons.clusters.gmm import KAPPA, assign_to_means
from topicstream.addons.clusters.model import GaussianModel
from topicstream.addons.clusters.split_merge import split_and_merge
from topicstream.base.errors import DoesNotFit, InputError, UsageError
from topicstream.base.progress import Shown as Progress
from topicstream.cli.main import run as command
from topicstream.corpus.reader import Corpus
from topicstream.engines import find
from topicstream.engines.base import Shape
from topicstream.evaluation.evaluate import evaluate
from topicstream.inference.infer import infer
from topicstream.ingestion.pipeline import ingest
from topicstream.training.course import warn_of_topics
from topicstream.training.loop import train
from topicstream.training.setup import make_options

QUIET = Progress(-1)


def points(seed, docs=900, n=5, components=3, spread=6.0):
    rng = np.random.default_rng(seed)
    mean = rng.normal(0, spread, (components, n))
    turn = rng.normal(0, 1, (components, n, n))
    z = rng.integers(0, components, docs)
    return np.stack([mean[k] + turn[k] @ rng.normal(size=n) for k in z]).astype(np.float32), z


def stored(folder, x, heldout="0", **more):
    np.save(folder / "x.npy", x)
    ingest(folder / "x.npy", folder / "v.zarr", heldout=heldout, progress=False, **more)
    return folder / "v.zarr"


def run(corpus, model, components=3, passes=5, **options):
    given = {
        "round_blocks": 2,
        "threads": 1,
        "tol": 0,
        "seed": 1,
        "progress": QUIET,
        "block_cells": 500,
    }
    own = {
        k: options.pop(k)
        for k in list(options)
        if k in (*given, "tables", "mem_limit", "eval_every", "force")
    }
    train(
        corpus,
        model,
        algo="gmm",
        topics=components,
        passes=passes,
        options=options,
        **{**given, **own},
    )
    return [
        r for r in map(json.loads, (model / "history.jsonl").read_text().splitlines()) if r["pass"]
    ]


@pytest.mark.parametrize("mean", ["free", "zero"])
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_posteriors_scores_and_bound_are_the_twins(mean, covariance):
    rng = np.random.default_rng(0)
    x, _ = points(0, docs=60)
    x = x.astype(float)
    spread = np.cov(x.T) if covariance == "full" else x.var(0)
    args = (x.mean(0) if mean == "free" else np.zeros(5), spread, KAPPA if mean == "free" else 0.0)
    prior = gaussians.Prior(*args)
    other = twin.Prior(*args)
    r = top(rng.normal(0, 3, (60, 4)), 3)
    r[:, 3], r[:, 0] = 0.0, r[:, 0] + r[:, 3]  # an empty component
    by = r.astype(np.float32)
    which = np.tile(np.arange(4, dtype=np.uint16), (60, 1))
    r = by.astype(float)
    stats = gaussians.sum_statistics(x, np.full(60, 4), which, by, 4, covariance == "diag")
    post = gaussians.posterior(stats, prior)
    wanted = [twin.posterior(x, column, other) for column in r.T]
    for k, (nu, _, m, scale) in enumerate(wanted):
        np.testing.assert_allclose(post.nu[k], nu)
        np.testing.assert_allclose(post.means[k], m, atol=1e-9)
        np.testing.assert_allclose(post.scale[k], scale, rtol=1e-6, atol=1e-8)
    expected = np.stack([twin.expected(x, p, other) for p in wanted], 1)
    np.testing.assert_allclose(
        log_density(x, gaussians.expected_densities(post, prior)), expected, rtol=1e-8, atol=1e-8
    )
    alpha = 0.7
    whole = twin.bound(x, r, alpha, other)
    parts = twin.log_beta(r.sum(0) + alpha) - twin.log_beta(np.full(4, alpha)) + twin.entropy(r)
    assert gaussians.data_bound(post, prior, 60) == pytest.approx(whole - parts, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e25])
def test_what_is_left_out_is_not_among_the_best(scale):
    rng = np.random.default_rng(0)
    n = 24
    k = 30
    turn = rng.normal(size=(k, n, n)) * np.exp(rng.normal(0, 2, (k, 1, n)))
    means = rng.normal(0, 3, (k, n))
    x = np.concatenate(
        [means[i] + rng.normal(size=(20, n)) @ turn[i].T for i in range(k)] + [means[:1] * 1e6]
    )
    of = densities(
        means * scale,
        turn @ turn.transpose(0, 2, 1) * scale**2,
        rng.uniform(1, 50, k),
        rng.normal(0, 30, k),
    )
    whole = log_density(x * scale, of)
    for most in (1, 4, 15):
        best = np.sort(np.argsort(-whole, 1, "stable")[:, :most], 1)
        near_best = np.take_along_axis(whole, best, 1) > whole.max(1, keepdims=True) - NOTHING
        other = np.argsort(rng.random(whole.shape), 1)[:, :most]
        for near in (None, other, best):
            found = best_density(x * scale, of, most, near)
            given = np.isfinite(np.take_along_axis(found, best, 1))
            np.testing.assert_array_equal(given, near_best)
            kept = np.isfinite(found)
            assert most == 15 or kept.mean() < 0.9
            np.testing.assert_allclose(found[kept], whole[kept], rtol=1e-6)


@pytest.mark.parametrize("most", few_quick([1, 2, 3], [2]))
def test_a_memoized_run_is_its_twin(most, tmp_path):
    x, _ = points(1, docs=420, spread=1.0)
    path = stored(tmp_path, x)
    history = run(path, tmp_path / "m", passes=4, sparsity=most, tries=1)
    store = Corpus.open(path, dense=True)
    grid = store.grid(500, 1 << 16)
    edges = [*grid.first_doc.tolist(), len(x)]
    assert len(edges) > 4
    x = x.astype(float)
    variance = ((x - x.mean(0)) ** 2).mean()
    cov = np.cov(x.T, bias=True) + 1e-6 * variance * np.eye(5)
    prior = twin.Prior(x.mean(0), cov, KAPPA)
    alpha = 10 / 3
    centred = x - x.mean(0)
    start = split_and_merge(
        centred, assign_to_means(centred, 3, 1), 3, gaussians.Prior(np.zeros(5), cov, KAPPA)
    )
    r = np.eye(3)[start]
    posts = [twin.posterior(x, column, prior) for column in r.T]  # the sample is all of them
    r = top(twin.scores(x, posts, r.sum(0), alpha, prior), most)
    blocks = list(pairwise(edges))
    bounds = []
    for _ in range(4):
        for at in range(0, len(blocks), 2):
            posts = [twin.posterior(x, column, prior) for column in r.T]
            part = slice(blocks[at][0], blocks[min(at + 1, len(blocks) - 1)][1])
            r[part] = top(twin.scores(x[part], posts, r.sum(0), alpha, prior), most)
        bounds.append(twin.bound(x, r, alpha, prior))
    np.testing.assert_allclose([h["bound"] for h in history], bounds, rtol=1e-6)
    np.testing.assert_allclose(GaussianModel(tmp_path / "m").sizes, r.sum(0), rtol=1e-3)


@pytest.mark.parametrize("covariance", few_quick(["full", "diag"], ["full"]))
def test_the_bound_never_falls_and_sizes_sum_to_the_points(covariance, tmp_path):
    x, _ = points(2, docs=1500, spread=1.5)
    history = run(
        stored(tmp_path, x), tmp_path / "m", components=6, passes=25, covariance=covariance
    )
    bounds = np.array([h["bound"] for h in history])
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all(), np.diff(bounds)
    assert GaussianModel(tmp_path / "m").sizes.sum() == pytest.approx(1500, rel=1e-6)


@pytest.mark.product
def test_planted_components_are_found_over_seeds_and_schedules(tmp_path):
    x, z = points(3, docs=1000)
    path = stored(tmp_path, x)
    for i, options in enumerate(
        [{"seed": 1}, {"seed": 2, "sparsity": 1}, {"schedule": "stochastic", "block_docs": 128}]
    ):
        run(path, tmp_path / f"m{i}", passes=15, tries=3, **options)
        found = infer(tmp_path / f"m{i}", Path(path), top=1, progress=False).to_pydict()["topics"]
        table = np.zeros((3, 3))
        np.add.at(table, (z, [t[0] for t in found]), 1)
        assert table.max(1).sum() > 0.97 * 1000, (i, table)


@pytest.mark.parametrize("estimate", few_quick(["posterior", "map", "ml"], ["ml"]))
def test_points_without_rank_constant_columns_and_more_components_than_points(estimate, tmp_path):
    x, _ = points(4, docs=40)
    x[:, 1], x[:, 2] = 7.0, x[:, 0]  # a column that never changes, one that says what another does
    x[20:] = x[0]
    path = stored(tmp_path, x)
    run(path, tmp_path / "m", components=60, estimate=estimate)
    model = GaussianModel(tmp_path / "m")
    assert model.sizes.sum() == pytest.approx(40, rel=1e-5)
    assert np.isfinite(model.answer(x)[0]).all()
    one = tmp_path / "one"
    one.mkdir()
    run(stored(one, x[:1]), one / "m", components=2, estimate=estimate)


@pytest.mark.parametrize("estimate", few_quick(["posterior", "map", "ml"], ["ml"]))
def test_many_points_without_full_rank_leave_a_model_that_can_be_read(estimate, tmp_path):
    """A covariance whose smallest eigenvalue float32 cannot hold."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(3000, 2)) @ rng.normal(size=(2, 8))).astype(np.float32)
    run(stored(tmp_path, x), tmp_path / "m", components=3, estimate=estimate)
    fit = GaussianModel(tmp_path / "m").answer(np.concatenate([x, x + rng.normal(size=x.shape)]))[0]
    assert np.isfinite(fit).all() and np.median(fit[:3000]) > 20 + np.median(fit[3000:])


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_numbers_whose_squares_float32_does_not_hold_are_refused(scale, tmp_path):
    with pytest.raises(InputError, match=r"too (large|small) .* rescale them"):
        run(stored(tmp_path, points(1, docs=60)[0] * np.float32(scale)), tmp_path / "m")


def infer_rows(store):
    """All vectors in the order of the ingest."""
    batches = store.documents([])
    return np.concatenate(
        [b.column("counts").values.to_numpy().reshape(-1, store.width) for b in batches]
    )


def test_infer_and_eval_keep_a_limit_or_name_one(tmp_path):
    x, _ = points(9, docs=300)
    stored(tmp_path, x)
    run(tmp_path / "v.zarr", tmp_path / "m", passes=2)
    for ask in (
        lambda limit: infer(tmp_path / "m", x, mem_limit=limit, progress=False),
        lambda limit: evaluate(
            tmp_path / "m", tmp_path / "v.zarr", training=True, mem_limit=limit, progress=False
        ),
    ):
        with pytest.raises(DoesNotFit, match="needs") as e:
            ask("1M")
        ask(f"{e.value.least or 512}M")


def test_points_set_aside_are_judged_while_it_trains(tmp_path, capsys):
    x, _ = points(11, docs=600)
    path = stored(tmp_path, x, heldout="20%")
    for options in ({}, {"covariance": "diag"}, {"schedule": "stochastic", "block_docs": 64}):
        history = run(path, tmp_path / "m", passes=4, eval_every=2, force=True, **options)
        assert history[-1]["pass"] in (2, 4)  # the better one is kept
        whole = evaluate(tmp_path / "m", path, heldout=True, progress=False)["heldout"][
            "nats_per_point"
        ]
        assert history[-1]["heldout"]["nats a point"] == pytest.approx(-whole, rel=1e-4)


def test_what_the_commands_say(tmp_path, capsys):
    x, _ = points(8, docs=600)
    path = stored(tmp_path, x, heldout="20%")
    run(path, tmp_path / "m")
    model = GaussianModel(tmp_path / "m")
    answers = infer(tmp_path / "m", Path(tmp_path / "x.npy"), progress=False).to_pydict()
    assert answers["id"][:2] == ["x.npy:0", "x.npy:1"]
    stats = pytest.importorskip("scipy.stats")
    logs = np.stack(
        [
            np.log(p) + stats.multivariate_normal(m, c).logpdf(x)
            for p, m, c in zip(model.pi, model.means, model.covariances)
        ],
        1,
    )
    np.testing.assert_allclose(model.answer(x)[0], np.logaddexp.reduce(logs, axis=1), rtol=1e-6)
    whole = evaluate(tmp_path / "m", path, heldout=True, training=True, progress=False)
    total = sum(whole[p]["nats_per_point"] * whole[p]["points"] for p in ("heldout", "training"))
    assert total / 600 == pytest.approx(-np.logaddexp.reduce(logs, axis=1).mean(), rel=1e-6)
    for wrong in (
        ["train", "--algo", "atbp", "--corpus", str(path), "--model", str(tmp_path / "n")],
        ["report", str(tmp_path / "m"), "--corpus", str(path)],
        ["show", "--model", str(tmp_path / "m"), "--docs", "2"],
        ["eval", "--model", str(tmp_path / "m"), "--corpus", str(path), "--coherence"],
    ):
        capsys.readouterr()
        assert command(wrong) == 2, wrong
        assert "vectors" in capsys.readouterr().err
    assert command(["info", str(path)]) == 0
    with pytest.raises(UsageError, match="vectors of 2 numbers, and the model is of vectors of 5"):
        np.save(tmp_path / "z.npy", np.zeros((3, 2)))
        infer(tmp_path / "m", Path(tmp_path / "z.npy"), progress=False)


def planted(seed, components, n, docs, covariance):
    """Well separated components of unequal spread, and which each point is of."""
    rng = np.random.default_rng(seed)
    of = rng.integers(components, size=docs)
    means = rng.normal(size=(components, n)) * 6
    shapes = (
        rng.uniform(0.3, 1.8, (components, n))
        if covariance == "diag"
        else rng.normal(size=(components, n, n)) / n**0.5
    )
    noise = rng.normal(size=(docs, n))
    noise = (
        noise * shapes[of] if covariance == "diag" else np.einsum("di,dij->dj", noise, shapes[of])
    )
    return means[of] + noise, of


@pytest.mark.parametrize(
    ("components", "n", "covariance"),
    few_quick([(12, 8, "diag"), (20, 6, "full"), (30, 16, "diag")], [(20, 6, "full")]),
)
def test_moves_leave_the_plateaus_of_k_means(components, n, covariance):
    found = []
    by_means = []
    for seed in range(5):
        points, of = planted(seed, components, n, 200 * components, covariance)
        points -= points.mean(axis=0)
        spread = points.var(axis=0)
        prior = gaussians.Prior(
            np.zeros(n), spread if covariance == "diag" else np.diag(spread), 0.01
        )
        groups = assign_to_means(points, components, seed)
        by_means.append(adjusted_rand_score(of, groups))
        found.append(adjusted_rand_score(of, split_and_merge(points, groups, components, prior)))
    assert min(by_means) < 0.95 and min(found) > 0.99


@pytest.mark.quick("none-diag", "units-full")
@pytest.mark.parametrize(
    ("oddity", "covariance"), [("none", "diag"), ("far points", "diag"), ("units", "full")]
)
def test_a_planted_mixture_is_found_whole(oddity, covariance, tmp_path):
    (points, of) = planted(7, 15, 8, 3000, covariance)
    topics = 15
    if oddity == "far points":  # damaged rows
        points[:2] = [[1e4], [-1e4]]
        topics = 17
    elif oddity == "units":  # of coordinates, as tables have them
        points *= np.logspace(-4, 4, 8)
    path = tmp_path / "points.npy"
    np.save(path, points.astype(np.float32))
    topicstream.ingest(path, tmp_path / "c.zarr", heldout="0")
    topicstream.train(
        tmp_path / "c.zarr",
        tmp_path / "m",
        algo="gmm",
        topics=topics,
        options={"covariance": covariance},
        progress=False,
    )
    answers = topicstream.infer(tmp_path / "m", path, top=1)
    assert adjusted_rand_score(of, answers["topics"].combine_chunks().flatten().to_numpy()) > 0.99


@pytest.mark.product
def test_few_points_of_many_numbers_start_from_the_best_of_the_tries(tmp_path):
    x, of = load_wine(return_X_y=True)
    path = stored(tmp_path, ((x - x.mean(0)) / x.std(0)).astype(np.float32))
    agreement = []
    for seed in range(4):
        run(path, tmp_path / "m", passes=40, seed=seed, force=True)
        answers = topicstream.infer(tmp_path / "m", path, top=1)
        agreement.append(
            adjusted_rand_score(of, answers["topics"].combine_chunks().flatten().to_numpy())
        )
    assert min(agreement) > 0.7, agreement


def test_empty_and_tiny_components_are_told():
    engine = find("gmm")(Shape(1000, 8, 8000, 1000.0, 4), make_options(find("gmm"), {}))
    said = warn_of_topics(engine, {}, {"sizes": np.array([900.0, 92.0, 8.0, 0.0])})
    assert len(said) == 2 and said[0].startswith("1 of 4 components are empty")
    assert said[1].startswith("1 of 4 components hold fewer than 9 points")
    assert warn_of_topics(engine, {}, {"sizes": np.array([900.0, 40.0, 30.0, 30.0])}) == []
