"""Document completion: against its dense twin, and the same for any block size, threads, vocabulary
order and table.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tests.reference.completion import completion as twin
from tests.reference.completion import split_of, text_key
from tests.small_store import planted, store
from topicstream.base.errors import InputError
from topicstream.evaluation import completion, memory
from topicstream.evaluation.completion import (
    ScoredTopics,
    TopicTable,
    prepare_heldout,
    score_blocks,
    score_model,
)
from topicstream.evaluation.keys import document_keys, hash_strings, word_keys
from topicstream.model.topic_model import TopicModel

W = 80
K = 5
BETA = 0.01
ALPHA = np.array([0.1, 0.3, 0.05, 0.2, 0.1])


def heldout_perplexity(
    phi, alpha, beta, totals, corpus, *, split=0.8, parts=("heldout",), threads=1
):
    """Of an array of topics."""
    prepared = prepare_heldout(corpus, parts, split=split is not None, topics=K)
    return score_blocks(
        ScoredTopics(TopicTable(phi, alpha, beta, totals, len(phi))),
        prepared,
        split=split,
        threads=threads,
    )


@pytest.fixture(scope="module")
def matrix():
    counts, phi = planted(1, 120, W, K)
    counts[7] = 0  # an empty document
    counts[8] = 0
    counts[8, 3] = 4  # a document of one cell cannot be split
    counts[9:19] = 0  # nor can these, of which some are observed and some are not
    counts[np.arange(9, 19), np.arange(10)] = 2
    return counts, np.ascontiguousarray(phi * 1000.0).astype(np.float32)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, matrix):
    return store(
        tmp_path_factory.mktemp("c") / "corpus.zarr",
        matrix[0][60:],
        matrix[0][:60],
        blocks=3,
        ids=True,
    )


def lam(phi):
    return phi.sum(axis=0, dtype=np.float64)


def same(a, b):
    return (a.perplexity, a.tokens, a.docs, a.skipped, a.cells) == (
        b.perplexity,
        b.tokens,
        b.docs,
        b.skipped,
        b.cells,
    )


@pytest.mark.parametrize("split", [0.8, 0.9, None])
def test_equals_the_dense_twin(corpus, matrix, split):
    counts, phi = matrix
    keys = [text_key(f"heldout-{d}") for d in range(60)]
    words = [text_key(f"word{w}") for w in range(W)]
    loglik, tokens, docs, skipped = twin(
        counts[:60], keys, words, phi.astype(float), ALPHA, BETA, split
    )
    score = heldout_perplexity(phi, ALPHA, BETA, lam(phi), corpus, split=split)
    assert (score.tokens, score.docs, score.skipped) == (tokens, docs, skipped)
    assert score.nats_per_token == pytest.approx(-loglik / tokens, rel=2e-5)
    assert score.perplexity == pytest.approx(np.exp(score.nats_per_token))


def test_keys_equal_their_twin(corpus):
    texts = ["", "a", "naïve", "漢字", "word1"]
    assert hash_strings(texts).tolist() == [text_key(t) for t in texts]
    assert document_keys(corpus, True).tolist() == [text_key(f"heldout-{d}") for d in range(60)]
    assert word_keys(corpus)[:3].tolist() == [text_key(f"word{w}") for w in range(3)]


def test_the_split_is_near_its_share():
    places = [split_of(text_key(f"d{d}"), text_key(f"w{w}")) for d in range(60) for w in range(60)]
    assert np.mean(np.array(places) < 0.8) == pytest.approx(0.8, abs=0.03)


def test_any_block_size_and_threads_give_the_same_bits(corpus, matrix, monkeypatch):
    phi = matrix[1]
    scores = []
    for cells in (30, 500, 1 << 20):
        monkeypatch.setattr(completion, "block_cells", lambda topics, cells=cells: cells)
        for threads in (1, 2, 5):
            scores.append(heldout_perplexity(phi, ALPHA, BETA, lam(phi), corpus, threads=threads))
    assert all(same(s, scores[0]) for s in scores)


def test_many_topics_make_smaller_blocks():
    assert completion.block_cells(None) == completion.block_cells(10) == 1 << 15
    assert completion.block_cells(1000) * 1000 * 4 <= memory.GATHERED
    assert completion.block_cells(10**6) == 1 << 11


def test_bytes_of_scoring_by_hand(monkeypatch):
    """12 MB a thread, and 6 bytes for each cell of a block and topic, of which 16 are spare."""
    assert memory.bytes_of_thread(100) == 12 * 2**20 + 6 * 2**15 * 116
    assert memory.bytes_of_thread(1000) == 12 * 2**20 + 6 * (2**23 // 1000) * 1016
    assert memory.block_docs(100) == 2**12 and memory.block_docs(10**6) == 2**8
    sizes = {"a": SimpleNamespace(words=1000, topics=20), "b": SimpleNamespace(words=500, topics=9)}
    monkeypatch.setattr(memory, "read_manifest", sizes.get)
    monkeypatch.setattr(memory.TopicModel, "open", lambda path, share, dense: (path, share, dense))
    asked = {}

    def plan_memory(task, limit, threads, fixed, each):
        asked.update(task=task, threads=threads, fixed=fixed, each=each)
        return SimpleNamespace(workers=3, free=1001)

    monkeypatch.setattr(memory, "plan_memory", plan_memory)
    opened, threads = memory.open_within(["a", "b"], "2G", 4, beside=77)
    assert opened == [("a", 500, False), ("b", 500, False)] and threads == 3
    assert asked == {
        "task": "scoring a beside b",
        "threads": 4,
        "fixed": {"words": 150 * 1500, "blocks": 40 * 2**20, "results": 77},
        "each": {"threads": memory.bytes_of_thread(20)},
    }


def test_storage_blocks_and_word_order_do_not_matter(tmp_path, corpus, matrix):
    counts, phi = matrix
    score = heldout_perplexity(phi, ALPHA, BETA, lam(phi), corpus)
    order = np.random.default_rng(0).permutation(W)
    names = [f"word{i}" for i in order]
    other = store(
        tmp_path / "o.zarr", counts[60:][:, order], counts[:60][:, order], names, blocks=1, ids=True
    )
    again = heldout_perplexity(phi[order], ALPHA, BETA, lam(phi), other)
    assert (again.tokens, again.docs, again.cells) == (score.tokens, score.docs, score.cells)
    assert again.perplexity == pytest.approx(
        score.perplexity, rel=1e-5
    )  # float32 sums in another order


def test_padded_table_in_memory_equals_rows_from_disk(tmp_path, corpus, matrix):
    phi = matrix[1]
    model = TopicModel.from_arrays(phi, [f"word{i}" for i in range(W)], ALPHA, BETA)
    model.save(tmp_path / "model")
    padded = np.zeros((W, 16), np.float32)
    padded[:, :K] = phi
    in_memory = score_blocks(
        ScoredTopics(TopicTable(padded, ALPHA, BETA, lam(phi), W)), prepare_heldout(corpus)
    )
    on_disk = score_model(TopicModel.open(tmp_path / "model", memory_limit=0), corpus, threads=3)
    assert same(in_memory, on_disk)
    assert same(score_model(model, corpus), on_disk)


def test_words_are_matched_by_text_and_the_unknown_counted(tmp_path, corpus, matrix):
    counts, phi = matrix
    kept = np.arange(0, W, 2)[::-1].copy()
    often = int(np.argmax(counts[:60][:, kept].sum(axis=0)))
    kept[[often, -1]] = kept[[-1, often]]  # the model's last word is one that matters
    model = TopicModel.from_arrays(phi[kept], [f"word{i}" for i in kept], ALPHA, BETA)
    score = score_model(model, corpus)
    unknown = counts[:60, 1::2].sum()
    assert score.oov_tokens == unknown
    assert score.oov_rate == pytest.approx(unknown / counts[:60].sum())
    only = np.zeros_like(counts[:60])
    only[:, kept] = counts[:60][:, kept]
    keys = [text_key(f"heldout-{d}") for d in range(60)]
    words = [text_key(f"word{w}") for w in kept]
    loglik, tokens, *_ = twin(
        counts[:60][:, kept], keys, words, phi[kept].astype(float), ALPHA, BETA, 0.8
    )
    assert score.tokens == tokens
    assert score.nats_per_token == pytest.approx(-loglik / tokens, rel=2e-5)


def test_without_a_documents_table_numbers_are_keys(tmp_path, matrix):
    counts, phi = matrix
    plain = [store(tmp_path / f"{b}.zarr", counts[60:], counts[:60], blocks=b) for b in (1, 4)]
    scores = [heldout_perplexity(phi, ALPHA, BETA, lam(phi), c) for c in plain]
    assert same(*scores)
    assert len(np.unique(document_keys(plain[1], True))) == 60


def test_both_parts_together(corpus, matrix):
    counts, phi = matrix
    score = heldout_perplexity(
        phi, ALPHA, BETA, lam(phi), corpus, split=None, parts=("train", "heldout")
    )
    assert score.tokens == counts.sum()


def test_figures_of_a_score_add_up(corpus, matrix):
    """Cells and documents by the twin's split; iterations a document; the rows make the total."""
    counts, phi = matrix
    heldout = counts[:60]
    pieces = []
    told = []
    score = score_blocks(
        ScoredTopics(TopicTable(phi, ALPHA, BETA, lam(phi), W)),
        prepare_heldout(corpus, topics=K),
        progress=lambda *done: told.append(done),
        on_block=lambda *piece: pieces.append(piece),
    )
    cells = scored = 0
    for d, row in enumerate(heldout):
        key = text_key(f"heldout-{d}")
        places = [split_of(key, text_key(f"word{w}")) for w in np.flatnonzero(row)]
        rest = sum(place >= 0.8 for place in places)
        if 0 < rest < len(places):
            cells += rest
            scored += 1
    assert (score.cells, score.docs, score.skipped) == (cells, scored, 60 - scored)
    assert 1 <= score.inner <= 100
    loglik, tokens = (np.concatenate(some) for some in zip(*pieces, strict=True))
    assert len(loglik) == 60 and (tokens > 0).sum() == scored
    assert tokens.sum() == score.tokens and -loglik.sum() / score.tokens == pytest.approx(
        score.nats_per_token, rel=1e-12
    )
    assert told[-1] == (60, 60)
    assert (score.oov_tokens, score.oov_rate, score.split) == (0, 0, 0.8)
    assert "20 % of the different words" in score.measured and "other 80 %" in score.measured


def test_a_long_document_is_scored_in_panels(tmp_path):
    """More words than a panel of rows holds: the sum is that of the twin."""
    rng = np.random.default_rng(8)
    words = 9000
    counts = np.stack([rng.integers(0, 3, words), (rng.random(words) < 0.001).astype(int)])
    phi = rng.gamma(0.3, size=(words, K)).astype(np.float32) * 50
    store_of_two = store(tmp_path / "long.zarr", counts, counts)
    loglik, tokens, docs, _ = twin(
        counts,
        document_keys(store_of_two, True),
        word_keys(store_of_two),
        phi.astype(float),
        ALPHA,
        BETA,
        0.8,
    )
    score = heldout_perplexity(phi, ALPHA, BETA, lam(phi), store_of_two)
    assert (score.tokens, score.docs) == (tokens, docs)
    assert score.nats_per_token == pytest.approx(-loglik / tokens, rel=2e-5)


def test_a_table_in_memory_or_one_that_is_read_gives_rows(matrix):
    phi = matrix[1]

    class Stored:
        def rows(self, ids, out):
            assert out.shape == (len(ids), 16) and not out.any()
            out[:, :K] = phi[ids]
            return out

    for table in (phi, Stored()):
        topics = TopicTable(table, ALPHA, BETA, lam(phi), W)
        assert topics.n_topics == K and (topics.phi is phi) == (table is phi)
        np.testing.assert_array_equal(topics.rows(np.array([3, 9]))[:, :K], phi[[3, 9]])


def test_a_score_says_what_was_measured(corpus, matrix):
    phi = matrix[1]
    given = ScoredTopics(TopicTable(phi, ALPHA, BETA, lam(phi), W)), prepare_heldout(corpus)
    third = score_blocks(*given, split=0.875).measured
    assert third.startswith("perplexity of 12.5 % of the different words")
    assert third.endswith("inferred from the other 87.5 %")
    assert score_blocks(*given, split=2 / 3).measured.startswith("perplexity of 33.3333 % of")
    assert score_blocks(*given, fold_in="vb").measured.endswith("other 80 % by vb")
    whole = score_blocks(*given, split=None).measured
    assert whole == "perplexity of all words, topics of documents inferred from the same"


def test_sums_of_many_rows_are_those_of_all(monkeypatch):
    """Words come in pieces of 2^18 / K rows."""
    asked = []
    table = np.random.default_rng(1).random((600, 1000)).astype(np.float32)

    def rows(ids):
        asked.append(len(ids))
        return np.pad(table[ids], ((0, 0), (0, 8)), constant_values=9.0)

    some = np.arange(0, 600, 2)
    found = completion._column_sums(rows, some, 1000)
    np.testing.assert_allclose(found, table[some].sum(axis=0, dtype=np.float64), rtol=1e-12)
    assert asked == [262, 38]
    assert completion._column_sums(rows, some[:0], 1000).tolist() == [0.0] * 1000


def test_truth_beats_the_uniform_and_the_marginal(corpus, matrix):
    counts, phi = matrix
    true = heldout_perplexity(phi, ALPHA, BETA, lam(phi), corpus).perplexity
    marginal = np.repeat(counts[60:].sum(axis=0)[:, None], K, 1).astype(np.float32)
    flat = np.ones((W, K), np.float32)
    assert true < heldout_perplexity(marginal, ALPHA, BETA, lam(marginal), corpus).perplexity
    assert heldout_perplexity(flat, ALPHA, BETA, lam(flat), corpus).perplexity == pytest.approx(
        W, rel=1e-5
    )


def test_nothing_to_score_is_an_error(tmp_path, matrix, corpus):
    counts, phi = matrix
    empty = store(tmp_path / "e.zarr", counts[:20], counts[:0])
    with pytest.raises(InputError, match="no documents set aside"):
        prepare_heldout(empty)
    foreign = TopicModel.from_arrays(phi, [f"other{i}" for i in range(W)], ALPHA, BETA)
    with pytest.raises(
        InputError, match="no document could be scored: each needs two different known words"
    ):
        score_model(foreign, corpus)
