"""Inference of new documents: against plain twins, and the same document the same answer whatever
surrounds it.
"""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.reference import infer as reference
from tests.small_store import planted, store, with_documents
from topicstream.base.errors import InputError
from topicstream.base.progress import Shown
from topicstream.inference.documents import EMPTY, UNKNOWN, Documents, documents_of_cells
from topicstream.inference.infer import answers, infer
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import METHOD_NAMES, find_method, make_method
from topicstream.model.topic_model import TopicModel

W = 120
K = 7
D = 90
ALPHA = np.linspace(0.05, 0.3, K)
BETA = 0.01


def model_of(counts: np.ndarray, alpha=ALPHA, beta=BETA) -> TopicModel:
    return TopicModel.from_arrays(counts, [f"word{i}" for i in range(len(counts))], alpha, beta)


@pytest.fixture(scope="module")
def made():
    matrix, phi = planted(3, D, W, K)
    counts = np.floor(phi * 3000)
    return matrix, counts, model_of(counts)


def documents(matrix: np.ndarray, ids: list[str] | None = None) -> Documents:
    d, w = np.nonzero(matrix)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(d, minlength=len(matrix)))))
    names = pa.array(ids or [f"doc-{i}" for i in range(len(matrix))], pa.large_string())
    return documents_of_cells(
        names, indptr, w.astype(np.int32), matrix[d, w], np.arange(matrix.shape[1])
    )


def probabilities(counts: np.ndarray) -> np.ndarray:
    return (counts + BETA) / (counts + BETA).sum(axis=0)


def test_bp_is_the_fixed_point_of_the_paper(made):
    matrix, counts, model = made
    found = make_method("bp", TopicRows(model)).shares(documents(matrix))
    wanted = np.stack([reference.bp(x, probabilities(counts), ALPHA, 1e-3, 100) for x in matrix])
    assert found.shape == (D, K) and np.abs(found - wanted).max() < 2e-4
    assert np.allclose(found.sum(axis=1), 1, atol=1e-5)
    far = make_method("bp", TopicRows(model), tol=1e-6, inner=3000).shares(documents(matrix))
    wanted = np.stack([reference.bp(x, probabilities(counts), ALPHA, 1e-6, 3000) for x in matrix])
    assert np.abs(far - wanted).max() < 2e-4


def test_a_document_of_more_rows_than_the_panel_holds_is_done_in_pieces():
    rng = np.random.default_rng(0)
    topics = 600
    words = 1500
    counts = rng.gamma(0.1, 50, (words, topics)).astype(np.float32).astype(np.float64)
    matrix = rng.integers(0, 3, (2, words))
    model = model_of(counts, np.full(topics, 0.05))
    found = make_method("bp", TopicRows(model), inner=20).shares(documents(matrix))
    p = (counts + BETA) / (counts + BETA).sum(axis=0)
    wanted = np.stack([reference.bp(x, p, model.alpha, 1e-3, 20) for x in matrix])
    assert np.abs(found - wanted).max() < 1e-4


@pytest.mark.parametrize("most", [None, 3, K])
def test_vb_agrees_with_the_plain_one(made, most):
    matrix, counts, model = made
    found = make_method("vb", TopicRows(model), sparse=most).shares(documents(matrix))
    wanted = np.stack([reference.vb(x, counts, ALPHA, BETA, 3e-4, 100, most) for x in matrix])
    # where the L-th and the next weight are nearly the same, rounding decides which topic a cell
    # keeps
    close = np.abs(found - wanted).max(axis=1) < 2e-3
    assert close.mean() >= (0.9 if most == 3 else 1.0)
    assert np.allclose(found.sum(axis=1), 1, atol=1e-5)
    if most == K:
        assert (found == make_method("vb", TopicRows(model)).shares(documents(matrix))).all()


def test_vb_with_point_topics_agrees_with_the_plain_one(made):
    matrix, counts, model = made
    found = make_method("vb", TopicRows(model), phi="point", tol=1e-4).shares(documents(matrix))
    wanted = np.stack([reference.vb(x, counts, ALPHA, BETA, 1e-4, 100, point=True) for x in matrix])
    assert np.abs(found - wanted).max() < 2e-3
    assert (
        np.abs(
            found - make_method("vb", TopicRows(model), tol=1e-4).shares(documents(matrix))
        ).max()
        > 1e-3
    )
    with pytest.raises(InputError, match="phi must be one of dirichlet, point"):
        make_method("vb", TopicRows(model), phi="mean")


@pytest.mark.parametrize(("phi", "most"), [("point", None), ("dirichlet", None), ("dirichlet", 3)])
def test_vb_from_the_prior_agrees_with_the_plain_one(made, phi, most):
    """Yao, Mimno and McCallum 2009, section 4: the variational parameters begin at alpha, here of
    one large topic.
    """
    matrix, counts, _ = made
    alpha = np.where(np.arange(K) == 2, 1.0, 0.05)
    rows = TopicRows(model_of(counts, alpha))
    given = {"phi": phi, "sparse": most, "tol": 1e-4, "begin": "prior"}
    found = make_method("vb", rows, **given).shares(documents(matrix))
    wanted = [
        reference.vb(x, counts, alpha, BETA, 1e-4, 100, most, phi == "point", from_prior=True)
        for x in matrix
    ]
    close = np.abs(found - np.stack(wanted)).max(axis=1) < 2e-3
    assert close.mean() >= (0.9 if most else 0.95)
    once = [
        make_method("vb", rows, **given, inner=1).shares(documents(matrix))
        for given["begin"] in ("even", "prior")
    ]
    assert once[1][:, 2].mean() > once[0][:, 2].mean() + 0.1
    same = TopicRows(
        model_of(counts, np.full(K, 0.05))
    )  # one alpha for all: only how far it came differs
    starts = [
        make_method("vb", same, **{**given, "begin": b}).shares(documents(matrix))
        for b in ("even", "prior")
    ]
    assert np.abs(starts[0] - starts[1]).max() < 1e-5
    with pytest.raises(InputError, match="begin must be one of even, prior"):
        make_method("vb", rows, begin="uniform")


def test_gibbs_alone_has_the_exact_mean():
    rng = np.random.default_rng(1)
    counts = np.floor(rng.gamma(0.7, 10, (5, 3)))
    alpha = np.array([0.2, 0.5, 0.3])
    model = model_of(counts, alpha)
    matrix = np.array([[1, 2, 0, 1, 0], [0, 0, 3, 0, 1], [0, 0, 0, 0, 0]])
    found = make_method("gibbs", TopicRows(model), sweeps=60000, burn=20).shares(documents(matrix))
    p = probabilities(counts)
    for x, shares in zip(matrix, found, strict=True):
        assert (
            np.abs(shares - reference.exact_alone(np.repeat(np.arange(5), x), p, alpha)).max()
            < 0.01
        )


@pytest.mark.parametrize("own_counts", [False, True])
def test_gibbs_of_one_word_is_exact_after_a_sweep(own_counts):
    """The token counts with its probabilities, not with the topic that is drawn."""
    rng = np.random.default_rng(1)
    counts = np.floor(rng.gamma(0.7, 10, (5, 3)))
    alpha = np.array([0.2, 0.5, 0.3])
    rows = TopicRows(model_of(counts, alpha))
    given = {"sweeps": 1, "burn": 0, "own_counts": own_counts}
    found = make_method("gibbs", rows, **given).shares(documents(np.eye(5, dtype=int)))
    p = probabilities(counts)
    for word, shares in enumerate(found):
        exact = reference.exact_alone(np.array([word]), p, alpha)
        np.testing.assert_allclose(shares, exact, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "words", "warns"), [("vb", 6, True), ("vb", 30, False), ("bp", 6, False)]
)
def test_short_documents_are_warned_of(made, capsys, method, words, warns):
    _, counts, _ = made
    model = model_of(counts, np.full(K, 0.05))
    infer(model, [["word0"] * words] * 4, method=method, progress=Shown())
    said = capsys.readouterr().err
    assert (f"have {words}.0 known words on average, and --method vb needs longer" in said) is warns
    list(answers(model, [["word0"] * words] * 4, method=method, progress=Shown()))
    assert capsys.readouterr().err.count("needs longer") == warns
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        list(answers(model, [["word0"] * words] * 4, method=method))
    assert sum("needs longer" in str(w.message) for w in warned) == warns
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(answers(model, [["word0"] * words] * 4, method=method, progress=False))


def test_gibbs_joint_has_the_exact_mean():
    rng = np.random.default_rng(2)
    # so that the chain mixes
    counts = np.floor(rng.gamma(0.7, 1.5, (4, 2)))
    alpha = np.array([0.2, 0.5])
    beta = 0.4
    model = model_of(counts, alpha, beta)
    matrix = np.array([[1, 2, 0, 0], [0, 2, 0, 1], [0, 0, 2, 1]])
    joint = make_method("gibbs", TopicRows(model), sweeps=60000, burn=20, joint=True)
    blocks = [documents(matrix[:2]), documents(matrix[2:])]
    found = np.concatenate([joint.shares(b) for b in joint.gather(iter(blocks))])
    wanted = reference.exact_together(
        [np.repeat(np.arange(4), x) for x in matrix], counts, alpha, beta
    )
    assert np.abs(found - wanted).max() < 0.01
    p = (counts + beta) / (counts + beta).sum(axis=0)
    alone = np.stack([reference.exact_alone(np.repeat(np.arange(4), x), p, alpha) for x in matrix])
    assert np.abs(wanted - alone).max() > 0.02  # so the test can tell one from the other


def test_gibbs_with_own_counts_has_the_exact_mean():
    rng = np.random.default_rng(2)
    counts = np.floor(rng.gamma(0.7, 1.5, (4, 2)))
    alpha = np.array([0.2, 0.5])
    beta = 0.4
    model = model_of(counts, alpha, beta)
    matrix = np.array([[1, 2, 0, 0], [0, 2, 0, 1], [0, 0, 2, 1]])
    found = make_method("gibbs", TopicRows(model), sweeps=60000, burn=20, own_counts=True).shares(
        documents(matrix)
    )
    each = [[np.repeat(np.arange(4), x)] for x in matrix]
    wanted = np.concatenate([reference.exact_together(one, counts, alpha, beta) for one in each])
    assert np.abs(found - wanted).max() < 0.01
    p = (counts + beta) / (counts + beta).sum(axis=0)
    still = np.stack([reference.exact_alone(np.repeat(np.arange(4), x), p, alpha) for x in matrix])
    assert np.abs(wanted - still).max() > 0.02  # so the test can tell one from the other
    with pytest.raises(InputError, match="leave one out"):
        make_method("gibbs", TopicRows(model), joint=True, own_counts=True)


@pytest.mark.parametrize("log", [False, True])
def test_naive_bayes_is_its_formula(made, log):
    matrix, counts, model = made
    found = make_method("naive-bayes", TopicRows(model), log=log).shares(documents(matrix))
    p = probabilities(counts)
    score = np.stack([np.prod(p ** x[:, None], axis=0) if log else x @ p for x in matrix])
    assert np.abs(found - score / score.sum(axis=1, keepdims=True)).max() < 1e-5


METHODS: list[tuple[str, dict]] = [
    ("bp", {}),
    ("vb", {}),
    ("vb", {"sparse": 2}),
    ("vb", {"phi": "point"}),
    ("vb", {"phi": "point", "begin": "prior"}),
    ("gibbs", {"sweeps": 10, "burn": 3}),
    ("gibbs", {"sweeps": 10, "burn": 3, "own_counts": True}),
    ("naive-bayes", {}),
    ("naive-bayes", {"log": True}),
]


@pytest.mark.parametrize(("name", "options"), METHODS)
def test_neighbours_and_order_change_nothing(made, name, options):
    matrix, _, model = made
    method = make_method(name, TopicRows(model), **options)
    whole = method.shares(documents(matrix))
    order = np.random.default_rng(5).permutation(D)
    turned = method.shares(documents(matrix[order], [f"doc-{i}" for i in order]))
    assert (turned == whole[order]).all()
    for d in (0, 17, D - 1):
        assert (method.shares(documents(matrix[d : d + 1], [f"doc-{d}"]))[0] == whole[d]).all()


def test_gibbs_draws_by_id_and_seed(made):
    matrix, _, model = made
    twins = np.repeat(matrix[:1], 2, axis=0)
    one = make_method("gibbs", TopicRows(model)).shares(documents(twins, ["a", "b"]))
    same = make_method("gibbs", TopicRows(model)).shares(documents(twins, ["a", "a"]))
    other = make_method("gibbs", TopicRows(model), seed=1).shares(documents(twins, ["a", "a"]))
    assert (same[0] == same[1]).all() and (same[0] == one[0]).all()
    assert (one[0] != one[1]).any() and (other[0] != same[0]).any()


@pytest.mark.parametrize("name", ["bp", "vb", "gibbs", "naive-bayes"])
def test_a_table_on_disk_gives_the_same_bits(made, tmp_path, name):
    matrix, _, model = made
    model.save(tmp_path / "m")
    from_disk = TopicModel.open(tmp_path / "m", memory_limit=-1)
    assert from_disk.phi is None
    found = [make_method(name, TopicRows(m)).shares(documents(matrix)) for m in (model, from_disk)]
    assert (found[0] == found[1]).all()


@pytest.mark.parametrize(("name", "options"), [*METHODS, ("gibbs", {"joint": True})])
def test_empty_documents_and_unknown_words(made, name, options):
    _, counts, model = made
    index = np.arange(W)
    index[60:] = -1
    rows = np.zeros((4, W), np.int64)
    telling = int(np.argmax((counts.max(axis=1) / (counts.sum(axis=1) + 50))[:60]))
    rows[1, 70:75] = 2
    rows[2, telling] = 3
    rows[3, [telling, 80, 81]] = (1, 2, 1)
    d, w = np.nonzero(rows)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(d, minlength=4))))
    ids = pa.array(list("abcd"), pa.large_string())
    docs = documents_of_cells(ids, indptr, w, rows[d, w], index)
    assert docs.flags.tolist() == [EMPTY, UNKNOWN, 0, 0]
    assert docs.tokens.tolist() == [0, 10, 3, 4] and docs.unknown.tolist() == [0, 10, 0, 3]
    method = make_method(name, TopicRows(model), **options)
    found = np.concatenate([method.shares(b) for b in method.gather([docs])])
    prior = (ALPHA / ALPHA.sum()).astype(np.float32)
    assert np.allclose(found[:2], prior, atol=1e-6)
    assert np.abs(found[2:] - prior).max(axis=1).min() > 0.05


def test_weights_that_are_no_counts(made):
    matrix, counts, model = made
    x = matrix * np.float32(0.37)
    wanted = np.stack([reference.bp(r, probabilities(counts), ALPHA, 1e-3, 100) for r in x])
    assert np.abs(make_method("bp", TopicRows(model)).shares(documents(x)) - wanted).max() < 2e-4
    sampled = make_method("gibbs", TopicRows(model), sweeps=400).shares(documents(x))
    assert np.abs(sampled.sum(axis=1) - 1).max() < 1e-3 and np.abs(sampled - wanted).mean() < 0.05


def test_words_that_are_impossible_say_nothing():
    counts = np.zeros((4, 2))
    counts[0] = (5, 0)
    counts[1] = (0, 5)
    model = model_of(counts, np.array([0.1, 0.3]), beta=0.0)
    matrix = np.array([[3, 0, 1, 0], [0, 0, 2, 2]])
    for name, options in (*METHODS, ("gibbs", {"joint": True})):
        method = make_method(name, TopicRows(model), **options)
        found = np.concatenate([method.shares(b) for b in method.gather([documents(matrix)])])
        first = [1, 0] if name == "naive-bayes" else [3.1 / 3.4, 0.3 / 3.4]
        assert np.allclose(found, [first, [0.25, 0.75]], atol=1e-5), name


def interleaved(tmp_path, matrix):
    """A store whose documents' table lists training and held-out documents in turn."""
    corpus = store(tmp_path / "c.zarr", matrix[:60], matrix[60:], blocks=3, ids=True)
    path = corpus.path / "docs" / "part-00000.parquet"
    table = pq.read_table(path)
    order = sorted(range(D), key=lambda i: i * 2 if i < 60 else (i - 60) * 3 + 1)
    return with_documents(corpus, table.take(order)), order


def test_a_store_is_answered_in_the_order_of_its_ingest(made, tmp_path):
    matrix, _, model = made
    corpus, order = interleaved(tmp_path, matrix)
    names = [f"train-{i}" if i < 60 else f"heldout-{i - 60}" for i in order]
    whole = make_method("bp", TopicRows(model)).shares(documents(matrix))
    for threads in (1, 2):
        summary = infer(model, corpus, out=tmp_path / f"t{threads}.parquet", threads=threads)
        table = pq.read_table(tmp_path / f"t{threads}.parquet")
        assert table["id"].to_pylist() == names and summary["documents"] == D
        assert (np.array(table["shares"].to_pylist(), np.float32) == whole[order]).all()
    infer(model, corpus, out=tmp_path / "h.parquet", parts=("heldout",))
    held = pq.read_table(tmp_path / "h.parquet")
    assert held["id"].to_pylist() == [n for n in names if n.startswith("heldout")]


def test_documents_removed_from_a_store_are_left_out(made, tmp_path):
    matrix, _, model = made
    corpus, order = interleaved(tmp_path, matrix)
    path = corpus.path / "docs" / "part-00000.parquet"
    table = pq.read_table(path)
    corpus = with_documents(corpus, table.take([i for i in range(D) if i not in (3, 50)]))
    infer(model, corpus, out=tmp_path / "t.parquet")
    whole = make_method("bp", TopicRows(model)).shares(documents(matrix))
    found = np.array(pq.read_table(tmp_path / "t.parquet")["shares"].to_pylist(), np.float32)
    assert (found == whole[[d for i, d in enumerate(order) if i not in (3, 50)]]).all()


def test_a_store_without_a_table_of_documents(made, tmp_path):
    matrix, _, model = made
    plain = store(tmp_path / "plain.zarr", matrix[:60], matrix[60:])
    infer(model, plain, out=tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet")["id"].to_pylist() == [str(i) for i in range(D)]


def test_words_are_matched_by_text(made, tmp_path):
    matrix, counts, model = made
    turn = np.random.default_rng(8).permutation(W)
    other = TopicModel.from_arrays(counts[turn], [f"word{i}" for i in turn], ALPHA, BETA)
    corpus = store(tmp_path / "c.zarr", matrix, matrix[:3])
    found = []
    for i, m in enumerate((model, other)):
        infer(m, corpus, out=tmp_path / f"{i}.parquet")
        found.append(np.array(pq.read_table(tmp_path / f"{i}.parquet")["shares"].to_pylist()))
    assert np.abs(found[0] - found[1]).max() < 1e-4


def test_what_cannot_be_meant_is_said(made, tmp_path):
    matrix, _, model = made
    corpus = store(tmp_path / "c.zarr", matrix, matrix[:3])
    rows = TopicRows(model)
    with pytest.raises(
        InputError,
        match="choose one of authors, bp, gibbs, gibbs1, gmm, hybrid, maxent, mixture, "
        "naive-bayes, vb",
    ):
        make_method("mcmc", rows)
    with pytest.raises(InputError, match="has no option 'joint'"):
        make_method("bp", rows, joint=True)
    with pytest.raises(InputError, match="has no option 'part'; did you mean 'parts'"):
        infer(model, corpus, part="heldout")
    for options in ({"top": 0}, {"min_prob": 1.5}):
        with pytest.raises(InputError):
            infer(model, corpus, out=tmp_path / "t.csv", **options)
    with pytest.raises(InputError, match="reads standard input"):
        infer(model, corpus, follow=True)
    with pytest.raises(InputError, match="is for raw documents"):
        infer(model, corpus, out=tmp_path / "t.csv", text_field="body")
    with pytest.raises(InputError, match=r"must end in \.parquet"):
        infer(model, corpus, out=tmp_path / "t.txt")
    assert [p.name for p in tmp_path.iterdir()] == ["c.zarr"]
    assert sorted(METHOD_NAMES) == [
        "authors",
        "bp",
        "gibbs",
        "gibbs1",
        "gmm",
        "hybrid",
        "maxent",
        "mixture",
        "naive-bayes",
        "vb",
    ]
    assert all(find_method(name).name == name and find_method(name).cites for name in METHOD_NAMES)
