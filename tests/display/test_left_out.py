"""Documents without a known word have the prior as their topics: they count in no mean and in no
ranking, and every output says how many there are.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from tests.left_out import SAID, opened
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.display import gather
from topicstream.display.gather import Survey, correlations, survey
from topicstream.display.view import ShownModel
from topicstream.evaluation.visiting import _block_shares, document_shares
from topicstream.model.edits import Drop, View, apply_log
from topicstream.retraining.drift import DocumentGroups, mean_shares


def test_shares_by_group_and_over_time(half_shown, capsys):
    _, theta, known, party = half_shown
    assert run(["show", "--by", "party"]) == 0
    assert SAID in capsys.readouterr().out
    assert run(["show", "--by", "party", "--json"]) == 0
    for row in json.loads(capsys.readouterr().out):
        mine = (party == row["group"]) & known
        assert row["share"] == pytest.approx(theta[mine, row["topic"]].mean(), abs=1e-6)
        assert (row["documents"], row["left_out"]) == (
            (50, 50) if row["group"] == "X" else (100, 0)
        )
    assert run(["show", "--over-time", "--by", "party", "--period", "year"]) == 0
    assert SAID in capsys.readouterr().out
    year = np.array([2000 + d % 5 for d in range(200)])
    assert run(["show", "--over-time", "--period", "year", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 10 and sum(row["left_out"] for row in rows[::2]) == 50
    for row in rows:
        mine = (year == int(row["period"])) & known
        assert row["share"] == pytest.approx(theta[mine, row["topic"]].mean(), abs=1e-6)
        assert row["documents"] == mine.sum()


@pytest.mark.parametrize(("linked", "blocks"), [(1000, range(10)), (100, range(0, 10, 2))])
def test_sums_of_a_report(half_shown, monkeypatch, linked, blocks):
    """Blocks of twenty documents: of all, or of every second one, come the products."""
    folder, theta, known, _ = half_shown

    def in_pieces(*arguments, **named):
        for block in document_shares(*arguments, **named):
            for first in range(0, len(block.shares), 20):
                part = slice(first, first + 20)
                yield block._replace(
                    first=block.first + first,
                    shares=block.shares[part],
                    tokens=block.tokens[part],
                )

    monkeypatch.setattr(gather, "document_shares", in_pieces)
    monkeypatch.setattr(gather, "LINKED", linked)
    model = opened(folder)
    shown = ShownModel(model, View([0, 1], [[0], [1]]), model, 1)
    sums = gather.gather_report(shown, Corpus.open(folder / "corpus.zarr"), Survey(None, []))
    assert (sums.docs, sums.left_out) == (150, 50)
    np.testing.assert_allclose(sums.share, theta[known].sum(axis=0), rtol=1e-6)
    assert sums.first.tolist() == np.bincount(theta[known].argmax(axis=1)).tolist()
    paired = known & np.isin(np.arange(200) // 20, blocks)
    assert sums.linked == paired.sum()
    np.testing.assert_allclose(sums.product, theta[paired].T @ theta[paired], rtol=1e-5)
    mean = theta[known].mean(axis=0)
    covariance = theta[paired].T @ theta[paired] / paired.sum() - np.outer(mean, mean)
    scale = np.sqrt(np.diagonal(covariance))
    expected = covariance / np.outer(scale, scale)
    np.testing.assert_allclose(correlations(sums), expected, rtol=1e-4)


def test_typical_documents(half_shown, capsys):
    _, _, known, _ = half_shown
    empty = {f"d{d}" for d in np.flatnonzero(~known)}
    assert run(["show", "--docs", "200", "--json"]) == 0
    for topic in json.loads(capsys.readouterr().out)["topics"]:
        listed = {document["id"] for document in topic["documents"]}
        assert len(listed) == 150 and not listed & empty


def test_a_dropped_topics_documents_have_no_topics_of_the_others(half_shown):
    """Who has words of the dropped topic alone has the prior of the others."""
    folder, theta, known, party = half_shown
    ships = int(theta[(party == "X") & known].mean(axis=0).argmax())
    view = _dropping(ships)
    corpus = Corpus.open(folder / "corpus.zarr")
    blocks = list(document_shares(opened(folder), corpus, view=view))
    counted = np.concatenate([block.counted for block in blocks])
    assert not counted[~known].any() and counted[party == "Y"].all()
    ships_alone = (party == "X") & known & (theta[:, ships] > 0.97)
    assert ships_alone.any() and not counted[ships_alone].any()


def _dropping(topic):
    rest = 1 - topic
    return View([rest], [[rest]], dropped=[topic])


def test_usage_that_drift_is_judged_by(half_shown):
    folder, theta, known, _ = half_shown
    corpus = Corpus.open(folder / "corpus.zarr")
    groups = DocumentGroups.of_training(corpus)
    (mean,) = mean_shares(opened(folder), groups, 1)
    assert np.allclose(mean, theta[known].mean(axis=0), atol=1e-6)
    assert survey(corpus, by=["party"]).columns[0].values == ["X", "Y"]


def test_files_of_topics_say_how_many_have_the_prior(half_shown, tmp_path, capsys):
    assert run(["show", "--theta", str(tmp_path / "t.parquet")]) == 0
    said = capsys.readouterr().out
    assert "200 documents; the prior stands for 50 documents without a known word" in said
    assert run(["show", "--theta", str(tmp_path / "u.parquet"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["without_known_word"] == 50


def test_half_a_token_of_the_topics_shown_counts():
    """Topic 2 is dropped: a document has share (alpha + n) - shown alpha of the tokens left."""
    view = apply_log([Drop(topics=[2], at="")], range(3))
    model = SimpleNamespace(alpha=np.array([0.5, 0.5, 1.0]))
    shown = np.array([0.15, 0.12, 0.9, 0.51, 0.49])
    theta = np.stack([shown / 3, 2 * shown / 3, 1 - shown], axis=1).astype(np.float32)
    docs = SimpleNamespace(
        tokens=np.array([11.0, 10.0, 10.0, 0.4, 0.4]), unknown=np.array([1.0, 0, 0, 0, 0])
    )
    block = _block_shares(model, view, 7, theta, docs)
    left = shown * (2 + docs.tokens - docs.unknown) - 1
    expected = np.where([True, False, True, True, False], left, 0)
    assert block.first == 7 and block.tokens == pytest.approx(expected, rel=1e-5)
    assert block.counted.tolist() == [True, False, True, True, False]
    none = SimpleNamespace(tokens=np.zeros(5), unknown=np.zeros(5))  # the prior, rounded up
    prior = np.tile(np.float32([0.25001, 0.25001, 0.5]), (5, 1))
    assert not _block_shares(model, view, 7, prior, none).counted.any()
    assert block.shares == pytest.approx(np.tile([1 / 3, 2 / 3], (5, 1)), rel=1e-5)
    whole = _block_shares(model, None, 0, theta, docs)
    assert whole.tokens.tolist() == [10, 10, 10, 0.4, 0.4] and whole.shares is theta
