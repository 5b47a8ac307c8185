"""The classifier of a model: optimum, memory, storage; and the methods of inference that use it."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from tests.inference.test_infer import ALPHA, BETA, K, W, documents
from tests.small_store import planted, store
from topicstream.addons.classifier.config import ClassifierConfig
from topicstream.addons.classifier.model import Classifier
from topicstream.addons.classifier.training import (
    Examples,
    _plan_examples,
    best_temperature,
    fit_softmax,
    label_divergence,
    train_classifier,
)
from topicstream.base.errors import DoesNotFit, InputError, StoreError
from topicstream.base.files.durable import read_json, write_json
from topicstream.base.files.inventory import unlisted_paths
from topicstream.inference.infer import infer
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import make_method
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.rng import bits, uniform
from topicstream.training.loop import train


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model with a classifier, the store it was learned on, and the counts."""
    folder = tmp_path_factory.mktemp("classifier")
    matrix, phi = planted(3, 400, W, K)
    corpus = store(folder / "c.zarr", matrix[:360], matrix[360:], blocks=2, ids=True)
    model = TopicModel.from_arrays(
        np.floor(phi * 3000), [f"word{i}" for i in range(W)], ALPHA, BETA
    )
    model.save(folder / "m")
    facts = train_classifier(folder / "m", corpus, threads=1)
    return folder, matrix, corpus, facts


def examples_of(matrix, theta):
    return Examples(csr_array(matrix.astype(np.float32)), theta.astype(np.float32))


def plain_loss(weights, matrix, theta, variance):
    """The penalised loss, densely: weights [W + 1, K], the bias last."""
    z = matrix @ weights[:-1] + weights[-1]
    logp = (
        z
        - np.log(np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True))
        - z.max(1, keepdims=True)
    )
    return -(theta * logp).sum() + (weights[:-1] ** 2).sum() / (2 * variance)


def test_the_optimum_is_scikit_learns():
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(2)
    matrix = rng.integers(0, 4, (80, 15))
    labels = rng.integers(0, 4, 80)
    labels = np.where(matrix[:, 0] > 2, 0, labels)
    theta = np.eye(4)[labels]
    fitted = fit_softmax(examples_of(matrix, theta), variance=2.0, tol=0.0, passes=100)
    peer = linear.LogisticRegression(C=2.0, tol=1e-10, max_iter=5000).fit(matrix, labels)
    least = plain_loss(np.vstack([peer.coef_.T, peer.intercept_]), matrix, theta, 2.0)
    nothing = plain_loss(np.zeros((16, 4)), matrix, theta, 2.0)
    assert (
        least
        <= plain_loss(fitted.weights.astype(float), matrix, theta, 2.0)
        < least + 0.15 * (nothing - least)
    )


def test_words_of_uneven_counts_are_learned_alike():
    """Counts from 0.05 to 20 a document: one step for all words would leave the rare ones behind,
    or throw the others about.
    """
    rng = np.random.default_rng(5)
    matrix = rng.poisson(np.geomspace(0.05, 20, 40), (2000, 40))
    weights = rng.normal(size=(41, 4)) / np.append(np.geomspace(0.5, 20, 40), 1.0)[:, None]
    z = np.exp(matrix @ weights[:-1] + weights[-1])
    theta = z / z.sum(1, keepdims=True)
    fitted = fit_softmax(examples_of(matrix, theta), variance=100.0, tol=1e-3, passes=300)
    logits = matrix @ fitted.weights[:-1] + fitted.weights[-1]
    assert fitted.converged and label_divergence(logits, theta, 1.0) < 0.1 * label_divergence(
        0 * logits, theta, 1.0
    )


def test_the_temperature_is_the_one_that_made_the_labels():
    rng = np.random.default_rng(4)
    logits = rng.normal(0, 2, (200, 6))
    for wanted in (0.8, 1.0, 1.7):
        z = np.exp(logits / wanted)
        assert best_temperature(logits, z / z.sum(1, keepdims=True)) == pytest.approx(
            wanted, rel=1e-3
        )


def test_training_is_deterministic_and_leaves_nothing(made, tmp_path):
    folder, _, corpus, facts = made
    assert facts["documents"] == 342 and facts["converged"] and 0.2 < facts["temperature"] < 5
    shutil.copytree(folder / "m", tmp_path / "m")
    again = train_classifier(tmp_path / "m", corpus, threads=2)
    assert {k: v for k, v in again.items() if k not in ("seconds", "model")} == {
        k: v for k, v in facts.items() if k not in ("seconds", "model")
    }
    a, b = (Classifier.open(TopicModel.open(p / "m")) for p in (folder, tmp_path))
    a.load(), b.load()
    assert (a.weights == b.weights).all() and (a.bias == b.bias).all()
    names = {p.name for p in (tmp_path / "m").iterdir()}
    assert "work" not in names and len({"classifier", "classifier-2"} & names) == 1
    assert not list(unlisted_paths(tmp_path / "m"))
    small = train_classifier(tmp_path / "m", corpus, documents=50)
    assert small["documents"] == 43  # every eighth of 360, less those set aside


def test_info_tells_of_the_classifier_and_whether_it_is_stale(made, tmp_path):
    from topicstream.display.model_info import describe, lines

    folder, _, _, facts = made
    shutil.copytree(folder / "m", tmp_path / "m")
    info = describe(folder / "m")
    assert info["classifier"]["documents"] == facts["documents"] and not info["classifier"]["stale"]
    assert any("classifier" in line and "STALE" not in line for line in lines(info))
    model = TopicModel.open(tmp_path / "m")
    TopicModel.from_arrays(model.phi + 1, model.words, ALPHA, BETA).save(tmp_path / "m")
    assert any("STALE" in line for line in lines(describe(tmp_path / "m")))


def test_a_small_limit_learns_from_fewer_documents(made):
    model = TopicModel.open(made[0] / "m", memory_limit=-1)
    store = SimpleNamespace(part=lambda: SimpleNamespace(docs=1_000_000, cells=100_000_000))

    def every(**options):
        return _plan_examples(model, store, ClassifierConfig(**options))[0]

    assert (
        every(documents=0, mem_limit="16G") == 1 and every(documents=200_000, mem_limit="16G") == 5
    )
    assert 5 < every(documents=200_000, mem_limit="512M") < 20


def test_maxent_is_its_formula_and_near_the_truth(made):
    folder, matrix, _, _ = made
    model = TopicModel.open(folder / "m")
    method = make_method("maxent", TopicRows(model))
    docs = documents(matrix[360:])
    found = method.shares(docs)
    weights = method.classifier.weights
    bias = method.classifier.bias
    t = method.temperature
    x = matrix[360:] ** 0.5  # all of one length
    z = np.exp((x @ weights.astype(float) + bias) / t)
    assert np.abs(found - z / z.sum(1, keepdims=True)).max() < 1e-5
    truth = make_method("bp", TopicRows(model)).shares(docs)
    cosine = (found * truth).sum(1) / np.sqrt((found**2).sum(1) * (truth**2).sum(1))
    assert cosine.mean() > 0.8
    plain = make_method("maxent", TopicRows(model), temperature=1.0).shares(docs)
    z = np.exp(x @ weights.astype(float) + bias)
    assert np.abs(plain - z / z.sum(1, keepdims=True)).max() < 1e-5
    hybrid = make_method("hybrid", TopicRows(model), resamples=3).shares(docs)
    better = (hybrid * truth).sum(1) / np.sqrt((hybrid**2).sum(1) * (truth**2).sum(1))
    assert better.mean() > cosine.mean()
    from_disk = TopicModel.open(folder / "m", memory_limit=-1)
    for name in ("maxent", "hybrid"):
        assert (
            make_method(name, TopicRows(model)).shares(docs)
            == make_method(name, TopicRows(from_disk)).shares(docs)
        ).all()


def test_features_leave_the_length_out_and_counts_do_not(made, tmp_path):
    folder, matrix, corpus, facts = made
    assert facts["features"] == "root"  # the default
    shutil.copytree(folder / "m", tmp_path / "m")
    for kind in ("root", "frequency"):
        if kind != "root":
            train_classifier(tmp_path / "m", corpus, features=kind, passes=5)
        method = make_method("maxent", TopicRows(TopicModel.open(tmp_path / "m")))
        length = float(matrix[:360].sum() / 360)
        method.load()
        assert method.classifier.features == kind and method.classifier.length == pytest.approx(
            length
        )
        once = method.shares(documents(matrix))
        thrice = method.shares(documents(3 * matrix))
        assert np.abs(once - thrice).max() < 1e-5
        x = (3 * matrix * length / (3 * matrix).sum(1, keepdims=True)) ** (
            0.5 if kind == "root" else 1
        )
        z = np.exp(
            (x @ method.classifier.weights.astype(float) + method.classifier.bias)
            / method.temperature
        )
        assert np.abs(thrice - z / z.sum(1, keepdims=True)).max() < 1e-5

    learned = train_classifier(tmp_path / "m", corpus, features="counts", passes=5)
    assert learned["features"] == "counts"
    method = make_method("maxent", TopicRows(TopicModel.open(tmp_path / "m")))
    method.load()
    z = np.exp(
        (3 * matrix @ method.classifier.weights.astype(float) + method.classifier.bias)
        / method.temperature
    )
    counted = method.shares(documents(3 * matrix))
    assert (
        method.classifier.length == 0 and np.abs(counted - z / z.sum(1, keepdims=True)).max() < 1e-5
    )
    assert np.abs(method.shares(documents(matrix)) - counted).max() > 0.05

    record = tmp_path / "m" / "classifier.json"
    said = read_json(record)
    for wrong in (
        {"schema": 1},
        {"schema": 3},
        {"length": -1.0},
        {"length": "long"},
        {"features": "pairs"},
    ):
        write_json(record, said | wrong)
        with pytest.raises(StoreError, match=r"classifier\.json: "):
            make_method("maxent", TopicRows(TopicModel.open(tmp_path / "m")))
    with pytest.raises(InputError, match="features"):
        train_classifier(tmp_path / "m", corpus, features="pairs")


@pytest.mark.parametrize("scale", [1.0, 0.75])
def test_hybrid_draws_by_its_formula(made, scale):
    """Weights are drawn in units of one, and what is left over weighs as much as is left."""
    folder, matrix, _, _ = made
    model = TopicModel.open(folder / "m")
    method = make_method("hybrid", TopicRows(model), seed=4)
    weights = matrix[0] * scale
    docs = documents(weights[None], ["one"])
    theta = make_method("maxent", TopicRows(model)).shares(docs)[0].astype(float)
    key = 0xCBF29CE484222325
    for c in b"one":
        key = (key ^ c) * 0x100000001B3 % (1 << 64)
    from topicstream.numeric.kernels.rng import step, stream

    state = np.uint64(stream(4, 2, np.uint64(key)))
    n = np.zeros(K)
    p = model.probabilities(np.arange(W))
    units = [(w, min(left, 1.0)) for w in range(W) for left in np.arange(weights[w], 0, -1)]
    for w, unit in units:
        sums = np.cumsum(p[w] * theta)
        k = np.searchsorted(sums, uniform(np.uint64(bits(state))) * sums[-1], side="right")
        n[k] += unit
        state = np.uint64(step(state))
    assert np.allclose(method.shares(docs)[0], (n + ALPHA) / (n.sum() + ALPHA.sum()), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "options"), [("maxent", {}), ("hybrid", {}), ("hybrid", {"resamples": 3})]
)
def test_neighbours_and_empty_documents(made, name, options):
    folder, matrix, _, _ = made
    method = make_method(name, TopicRows(TopicModel.open(folder / "m")), **options)
    whole = method.shares(documents(matrix))
    order = np.random.default_rng(5).permutation(400)
    assert (
        method.shares(documents(matrix[order], [f"doc-{i}" for i in order])) == whole[order]
    ).all()
    for d in (0, 17, 399):
        assert (method.shares(documents(matrix[d : d + 1], [f"doc-{d}"]))[0] == whole[d]).all()
    assert np.allclose(whole.sum(axis=1), 1, atol=1e-5)
    empty = method.shares(documents(np.zeros((2, W), int)))
    assert np.allclose(empty, ALPHA / ALPHA.sum(), atol=1e-6)


def test_infer_from_the_store(made):
    folder, matrix, corpus, _ = made
    table = infer(folder / "m", corpus, method="maxent", parts=("heldout",))
    found = np.array(table["shares"].to_pylist(), np.float32)
    assert (
        found
        == make_method("maxent", TopicRows(TopicModel.open(folder / "m"))).shares(
            documents(matrix[360:])
        )
    ).all()
    assert isinstance(table, pa.Table) and len(table) == 40


def test_a_missing_stale_or_damaged_classifier_is_one_clear_line(made, tmp_path):
    folder, _, corpus, _ = made
    model = TopicModel.open(folder / "m")
    TopicModel.from_arrays(model.phi, model.words, ALPHA, BETA).save(tmp_path / "bare")
    with pytest.raises(InputError, match="has no classifier; `topics classifier --model"):
        infer(tmp_path / "bare", corpus, method="maxent")
    in_memory = TopicModel.from_arrays(model.phi, model.words, ALPHA, BETA)
    with pytest.raises(InputError, match="in memory has no classifier"):
        make_method("hybrid", TopicRows(in_memory))
    with pytest.raises(InputError, match="save it first"):
        train_classifier(in_memory, corpus)
    with pytest.raises(InputError, match="above 0"):
        train_classifier(model, corpus, variance=0)
    train(corpus, tmp_path / "weighted", topics=K, passes=1, weighting="tfidf", progress=False)
    with pytest.raises(
        InputError, match=r"uses weighted cells \(tfidf\), which a classifier does not take"
    ):
        train_classifier(tmp_path / "weighted", corpus)  # whose answers no command would take
    shutil.copytree(folder / "m", tmp_path / "m")
    TopicModel.from_arrays(model.phi + 1, model.words, ALPHA, BETA).save(tmp_path / "m")
    with pytest.raises(InputError, match="topics have changed since the classifier"):
        infer(tmp_path / "m", corpus, method="maxent")
    train_classifier(tmp_path / "m", corpus, passes=3)  # mends it
    chunk = next((tmp_path / "m").glob("classifier*/c/0/0"))
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"x")
    with pytest.raises(StoreError, match="does not match its checksum"):
        infer(tmp_path / "m", corpus, method="maxent")
    record = tmp_path / "m" / "classifier.json"
    said = json.loads(record.read_text())
    record.write_text(json.dumps({"temperature": said["temperature"]}))
    with pytest.raises(StoreError):
        make_method("maxent", TopicRows(TopicModel.open(tmp_path / "m")))


def test_the_command(made, tmp_path, capsys):
    from topicstream.cli.main import run

    folder, _, corpus, _ = made
    shutil.copytree(folder / "m", tmp_path / "m")
    assert (
        run(
            [
                "classifier",
                "--model",
                str(tmp_path / "m"),
                "--corpus",
                str(corpus.path),
                "--passes",
                "3",
                "-q",
            ]
        )
        == 0
    )
    out = str(tmp_path / "t.jsonl")
    for extra in (["--method", "maxent"], ["--method", "hybrid", "--resamples", "2", "--force"]):
        assert (
            run(
                ["infer", str(corpus.path), "--model", str(tmp_path / "m"), "-o", out, "-q", *extra]
            )
            == 0
        )
    assert (
        run(
            [
                "infer",
                str(corpus.path),
                "--model",
                str(tmp_path / "m"),
                "--method",
                "bp",
                "--resamples",
                "2",
            ]
        )
        == 2
    )
    new = ["--model", str(tmp_path / "new"), "--corpus", str(corpus.path), "-q"]
    capsys.readouterr()
    assert (
        run(["train", "--classifier", "--algo", "bp", "-K", "3", "--passes", "2", "--json", *new])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["classifier"]["features"] == "root"
    assert Classifier.open(TopicModel.open(tmp_path / "new")).length > 0
    (
        tmp_path / "new" / "classifier.json"
    ).unlink()  # with nothing about the training told: the classifier alone
    assert run(["train", "--classifier", "--json", *new]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"model", "classifier"}


def test_gibbs1_has_the_exact_mean_and_keeps_the_topics_numbers(tmp_path):
    from tests.reference.infer import exact_together

    matrix = np.array([[2, 1, 0, 0], [0, 0, 1, 2], [1, 1, 0, 0]])
    corpus = store(tmp_path / "c.zarr", matrix, matrix[:1])
    options = {"alpha": 0.5, "beta": 0.4, "learn_priors": False}
    train(corpus.path, tmp_path / "m", algo="gs", topics=2, passes=2, options=options)
    model = TopicModel.open(tmp_path / "m")
    model.alpha = np.array([0.2, 0.8])  # so that the topics can be told apart
    new = np.array([[0, 2, 0, 1], [1, 0, 0, 1]])
    method = make_method("gibbs1", TopicRows(model), sweeps=60000, burn=50, trained_on=corpus)
    found = np.concatenate(
        [method.shares(b) for b in method.gather([documents(new[:1]), documents(new[1:])])]
    )
    every = [np.repeat(np.arange(4), x) for x in np.concatenate([matrix, new])]
    wanted = exact_together(every, np.zeros((4, 2)), model.alpha, model.beta)[3:]
    assert np.abs(found - wanted).max() < 0.015
    with pytest.raises(InputError, match="training run"):
        model.save(tmp_path / "bare")
        make_method("gibbs1", TopicRows(model), trained_on=corpus)
    train(corpus.path, tmp_path / "bp", algo="bp", topics=2, passes=2)
    with pytest.raises(
        InputError, match="bp does not assign topics to tokens; train with sparselda or gs"
    ):
        make_method("gibbs1", TopicRows(TopicModel.open(tmp_path / "bp")), trained_on=corpus)


@pytest.mark.product
def test_retrain_publishes_a_classifier_with_every_version_when_asked(tmp_path):
    import io

    import topicstream
    from tests.retrain_tools import folder, made, write

    config = folder(tmp_path)
    config.write_text(config.read_text() + "classifier = true\n")
    first = topicstream.retrain(config, stream=io.StringIO())
    assert first["published"] == 1 and first["classifier"]["documents"] > 200
    write(tmp_path / "raw" / "b.jsonl", made(80, seed=2, prefix="e"))
    second = topicstream.retrain(config, stream=io.StringIO())
    assert (second["decision"], second["published"]) == ("update", 2)
    for version in ("0001", "0002"):
        assert not list(unlisted_paths(tmp_path / "versions" / version))
        answers = topicstream.infer(
            tmp_path / "versions" / version, ["aaxko bbxko"], method="maxent"
        )
        assert len(answers["shares"][0]) == 4


def test_the_limit_that_it_names_does(made, tmp_path):
    model = shutil.copytree(made[0] / "m", tmp_path / "m")
    with pytest.raises(DoesNotFit) as e:
        train_classifier(model, made[2], mem_limit="1M", threads=2, progress=False)
    train_classifier(
        model, made[2], mem_limit=f"{e.value.least}M", threads=2, passes=2, progress=False
    )
