"""The local step: against its plain twin; the same bits whatever surrounds a document; and one
theta behind every command.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import topicstream
import topicstream.display.doc_topics
import topicstream.inference.documents
from tests import few_quick
from tests.reference.local_step import local_step as twin
from topicstream.corpus.reader import Corpus
from topicstream.evaluation import completion
from topicstream.evaluation.completion import score_model
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import make_method
from topicstream.inference.methods.vb import sparse_step
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.arrays import RowCells, TopicWeights
from topicstream.numeric.kernels.local_step import (
    DIRICHLET,
    EVEN,
    FROM_PRIOR,
    POINT,
    LocalRule,
    LocalScratch,
    fixed_point,
    inverse_norms,
    local_step,
    padded_floats,
)

BETA = 0.05
LENGTHS = (0, 1, 2, 7, 8, 9, 40, 0, 1)


class Made:
    """Rows of topic weights and documents of LENGTHS cells; row 3 is zero."""

    def __init__(self, topics, words=60, seed=0, dirichlet=False, begin=EVEN):
        rng = np.random.default_rng(seed)
        self.topics = topics
        self.width = -(-topics // 16) * 16
        self.dirichlet = dirichlet
        self.begin = begin
        self.base = rng.gamma(0.3, 20.0, (words, topics)).astype(np.float32)
        self.base[3] = 0.0
        self.beta = 0.0 if dirichlet else BETA
        ones = np.ones(topics)
        self.inverse = (
            padded_floats(ones, self.width)
            if dirichlet
            else inverse_norms(self.base.sum(axis=0, dtype=np.float64), words, BETA, self.width)
        )
        self.alpha = padded_floats(np.linspace(0.02, 0.4, topics), self.width)
        self.indptr = np.concatenate(([0], np.cumsum(LENGTHS))).astype(np.int64)
        pick = [np.sort(rng.choice(words, n, replace=False)) for n in LENGTHS]
        self.rows = np.concatenate(pick).astype(np.int64)
        self.rows[0] = 3  # a document whose one word has a row of zeros
        self.counts = rng.integers(1, 6, len(self.rows)).astype(np.float32)

    def own(self, d):
        rows = self.rows[self.indptr[d] : self.indptr[d + 1]]
        return (self.base[rows].astype(np.float64) + self.beta) * self.inverse[: self.topics]

    def x(self, d):
        return self.counts[self.indptr[d] : self.indptr[d + 1]].astype(np.float64)

    def step(self, indptr=None, rows=None, counts=None, base=None, tol=1e-3, inner=100):
        indptr = self.indptr if indptr is None else indptr
        out = np.empty((len(indptr) - 1, self.topics), np.float32)
        cells = RowCells(
            indptr,
            self.rows if rows is None else rows,
            self.counts if counts is None else counts,
        )
        weights = TopicWeights(self.base if base is None else base, self.beta, self.inverse)
        rule = LocalRule(DIRICHLET if self.dirichlet else POINT, self.begin, tol, inner)
        local_step(cells, weights, self.alpha, rule, out)
        return out


CASES = [(k, d) for k in (1, 5, 16, 23, 100) for d in (False, True)]


@pytest.mark.parametrize("begin", [EVEN, FROM_PRIOR])
@pytest.mark.parametrize(("topics", "dirichlet"), CASES)
def test_equals_its_twin(topics, dirichlet, begin):
    made = Made(topics, dirichlet=dirichlet, begin=begin)
    alpha = made.alpha[:topics].astype(np.float64)
    # a fixed number of inner iterations: a rounding may not decide when one of the two stops
    for inner in (1, 2, 10):
        found = made.step(tol=0.0, inner=inner)
        wanted = [
            twin(made.x(d), made.own(d), alpha, 0.0, inner, dirichlet, begin)[0]
            for d in range(len(LENGTHS))
        ]
        assert np.abs(found - np.array(wanted)).max() < 2e-4 / topics**0.5
    assert np.allclose(found.sum(axis=1), 1, atol=1e-5)
    prior = alpha / alpha.sum()
    for d in np.flatnonzero(np.array(LENGTHS) == 0):
        assert np.allclose(found[d], prior, rtol=1e-6)
    if dirichlet:  # a word that is impossible in every topic says nothing
        assert np.allclose(found[1], prior, rtol=1e-6)


def test_stops_when_little_moves():
    made = Made(5)
    alpha = made.alpha[:5].astype(np.float64)
    for d in (3, 5, 6):
        cells = slice(made.indptr[d], made.indptr[d + 1])
        sizes = (48 * 16, 80, 80, 16, 16, 16)
        scratch = LocalScratch(*(np.empty(n, np.float32) for n in sizes))
        weights = TopicWeights(made.base, BETA, made.inverse)
        # 0.37e-3: far from where either twin's change lands
        for tol in (0.2, 0.02, 0.37e-3):
            made_iterations = fixed_point(
                made.rows[cells],
                made.counts[cells],
                weights,
                made.alpha,
                LocalRule(POINT, EVEN, tol, 100),
                scratch,
            )
            assert made_iterations == twin(made.x(d), made.own(d), alpha, tol, 100)[1]


@pytest.mark.parametrize(("topics", "dirichlet"), CASES)
def test_same_bits_alone_in_company_and_from_any_rows(topics, dirichlet):
    made = Made(topics, dirichlet=dirichlet)
    whole = made.step()
    for d in range(len(LENGTHS)):
        cells = slice(made.indptr[d], made.indptr[d + 1])
        alone = made.step(
            np.array([0, LENGTHS[d]]), made.rows[cells].copy(), made.counts[cells].copy()
        )
        assert (alone[0] == whole[d]).all()
    padded = np.zeros((len(made.base), made.width), np.float32)
    padded[:, :topics] = made.base
    assert (made.step(base=padded) == whole).all()
    used, at = np.unique(made.rows, return_inverse=True)
    assert (made.step(rows=at.astype(np.int64), base=made.base[used]) == whole).all()


@pytest.mark.parametrize("dirichlet", [False, True])
def test_a_document_in_pieces_has_the_same_bits(dirichlet):
    made = Made(23, dirichlet=dirichlet)
    cells = slice(made.indptr[6], made.indptr[7])
    found = []
    for rows in (8, 16, 40, 64):
        sizes = (rows * 32, rows + 32, rows + 32, 32, 32, 32)
        scratch = LocalScratch(*(np.full(n, np.nan, np.float32) for n in sizes))
        fixed_point(
            made.rows[cells],
            made.counts[cells],
            TopicWeights(made.base, made.beta, made.inverse),
            made.alpha,
            LocalRule(dirichlet, EVEN, 1e-3, 100),
            scratch,
        )
        found.append(scratch.n)
    assert all((f == found[0]).all() for f in found)


def test_few_words_over_many_topics_keep_their_topics():
    """psi of a thousandth of a token is far below what float32 holds: the weights of such topics
    are still told apart.
    """
    topics = 400
    rng = np.random.default_rng(1)
    own = np.ascontiguousarray(rng.gamma(0.5, 1.0, (1, topics)).astype(np.float32))
    alpha = np.full(topics, 0.001)
    out = np.empty((1, topics), np.float32)
    local_step(
        RowCells(np.array([0, 1]), np.zeros(1, np.int64), np.array([0.02], np.float32)),
        TopicWeights(own, 0.0, np.ones(topics, np.float32)),
        padded_floats(alpha, topics),
        LocalRule(DIRICHLET, EVEN, 0.0, 3),
        out,
    )
    wanted, _ = twin(np.array([0.02]), own.astype(np.float64), alpha, 0.0, 3, True)
    assert np.abs(out[0] - wanted).max() < 1e-4 and out.max() > 0.01


# -- one theta behind every command
# --------------------------------------------------------------------------------------

THEMES = ("apple pear plum fig", "iron zinc lead tin", "dog cat horse cow", "red blue green pink")


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """Documents as JSON lines, and a store of them with a fifth set aside."""
    folder = tmp_path_factory.mktemp("raw")
    rng = np.random.default_rng(4)
    lines = []
    for i in range(300):
        theme = [w for t in rng.choice(4, 2, replace=False) for w in THEMES[t].split()]
        text = " ".join(rng.choice(theme, rng.integers(1, 25)))
        lines.append({"id": f"d{i}", "text": text if i != 17 else "nothing known here"})
    (folder / "all.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    topicstream.ingest(folder / "all.jsonl", folder / "c.zarr", heldout="20%", min_df=3)
    return folder


MODELS = [("atbp", "phi float32"), ("gs", "counts"), ("sparse-bp", "packed")]


@pytest.fixture(scope="module", params=[name for name, _ in MODELS])
def trained(request, raw):
    folder = raw / request.param
    topicstream.train(
        raw / "c.zarr", folder, algo=request.param, topics=6, passes=5, eval_every=1, threads=1
    )
    return folder


def answers(path):
    table = pq.read_table(path)
    return dict(
        zip(table["id"].to_pylist(), np.array(table["shares"].to_pylist(), np.float32), strict=True)
    )


def same(a, b):
    return a.keys() == b.keys() and all((a[k] == b[k]).all() for k in a)


@pytest.mark.quick("sparse-bp-2-*")
@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("threads", few_quick([1, 2], [2]))
def test_infer_eval_and_show_have_one_theta(raw, trained, tmp_path, monkeypatch, memory, threads):
    corpus = Corpus.open(raw / "c.zarr")
    model = TopicModel.open(trained, memory_limit=None if memory else -1)
    assert (model.phi is not None) == memory
    # the reference: from the store, by the library's method, in memory, one thread
    topicstream.infer(TopicModel.open(trained), corpus, out=tmp_path / "want.parquet", threads=1)
    want = answers(tmp_path / "want.parquet")
    held = {}
    learned = {}
    for part, into in (("heldout", held), ("train", learned)):
        topicstream.infer(
            model, corpus, out=tmp_path / f"{part}.parquet", parts=(part,), threads=threads
        )
        into.update(answers(tmp_path / f"{part}.parquet"))
    assert same({**held, **learned}, want) and len(held) > 30
    # from the raw text of the same documents
    topicstream.infer(model, raw / "all.jsonl", out=tmp_path / "raw.parquet", threads=threads)
    assert same(answers(tmp_path / "raw.parquet"), want)
    # show --theta
    topicstream.display.doc_topics.ThetaView(
        model, corpus, theta=str(tmp_path / "theta.parquet"), threads=threads
    ).result()
    assert same(answers(tmp_path / "theta.parquet"), learned)
    # eval, all cells observed: what it scores with
    seen = []
    original = completion.score_cells

    def keep(*args):
        seen.append((args[0], args[2].copy()))
        original(*args)

    monkeypatch.setattr(completion, "score_cells", keep)
    score_model(model, corpus, split=None, threads=1)
    scored = np.concatenate([theta for _, theta in seen])
    assert (scored == np.stack(list(held.values()))).all()
    # and on the observed cells of a split: what infer answers for these cells
    seen.clear()
    halves = []
    whole = completion.split_documents
    monkeypatch.setattr(
        completion, "split_documents", lambda *a: halves.append(whole(*a)) or halves[-1]
    )
    score_model(model, corpus, threads=1)
    method = make_method("bp", TopicRows(TopicModel.open(trained)))
    for (_, theta), (observed, _, _) in zip(seen, halves, strict=True):
        assert (np.diff(observed.indptr) > 0).sum() > 10 and (
            method.shares(observed) == theta
        ).all()


@pytest.mark.parametrize(("tables", "threads"), [("memory", 2), ("disk", 1)])
def test_a_training_runs_held_out_figure_is_evals(raw, trained, tmp_path, tables, threads):
    topicstream.train(
        raw / "c.zarr",
        tmp_path / "m",
        algo=trained.name,
        topics=6,
        passes=2,
        eval_every=1,
        threads=threads,
        tables=tables,
    )
    model = TopicModel.open(tmp_path / "m")
    assert (
        score_model(model, Corpus.open(raw / "c.zarr")).perplexity
        == model.history[-1]["heldout_perplexity"]
    )


def test_eval_by_vb_scores_with_what_infer_answers_by_vb(raw, trained, tmp_path, monkeypatch):
    corpus = Corpus.open(raw / "c.zarr")
    model = TopicModel.open(trained)
    seen = []
    topicstream.infer(model, corpus, out=tmp_path / "h.parquet", parts=("heldout",), method="vb")
    original = completion.score_cells
    monkeypatch.setattr(
        completion, "score_cells", lambda *a: seen.append(a[2].copy()) or original(*a)
    )
    by_vb = score_model(model, corpus, split=None, fold_in="vb")
    score_model(TopicModel.open(trained, memory_limit=-1), corpus, split=None, fold_in="vb")
    want = np.stack(list(answers(tmp_path / "h.parquet").values()))
    assert (np.concatenate(seen) == np.concatenate([want, want])).all()
    assert (
        "by vb" in by_vb.measured
        and by_vb.perplexity != score_model(model, corpus, split=None).perplexity
    )


def test_words_of_another_vocabulary_are_summed_in_the_models_order(raw, trained, tmp_path):
    """A model whose words stand in another order than the store's: eval still scores what infer
    answers.
    """
    corpus = Corpus.open(raw / "c.zarr")
    model = TopicModel.open(trained)
    order = np.random.default_rng(0).permutation(model.n_words)
    words = [model.words[int(i)] for i in order]
    other = TopicModel.from_arrays(model.phi[order], words, model.alpha, model.beta)
    topicstream.infer(other, corpus, out=tmp_path / "h.parquet", parts=("heldout",))
    held = answers(tmp_path / "h.parquet")
    seen = []
    original = completion.score_cells
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            completion, "score_cells", lambda *a: seen.append(a[2].copy()) or original(*a)
        )
        score_model(other, corpus, split=None)
        other.save(tmp_path / "m")
        score_model(TopicModel.open(tmp_path / "m", memory_limit=-1), corpus, split=None)
    want = np.stack(list(held.values()))
    found = np.concatenate(seen)
    assert (found == np.concatenate([want, want])).all()


@pytest.mark.parametrize("tol", [0.1, 0.01])
def test_a_sparse_step_that_keeps_every_topic_is_the_twin_and_ends_with_it(tol):
    """Long documents: what moves is measured by their tokens."""
    made = Made(10, dirichlet=True)
    counts = made.counts * 50
    for d in (3, 6):
        first, stop = made.indptr[d : d + 2]
        out = np.empty((1, 10), np.float32)
        sweeps = sparse_step(
            RowCells(made.indptr[d : d + 2], made.rows, counts),
            TopicWeights(made.base, 0.0, made.inverse),
            made.alpha,
            LocalRule(DIRICHLET, EVEN, tol, 100),
            10,
            out,
        )
        share, steps = twin(
            counts[first:stop].astype(float), made.own(d), made.alpha[:10], tol, 100, True
        )
        assert sweeps == steps < 100  # none ran out
        np.testing.assert_allclose(out[0], share, atol=1e-4)
