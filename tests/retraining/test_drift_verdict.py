"""Drift is decided by tokens and likelihood: a second night of the same sources is none."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import topicstream
from topicstream.corpus.reader import Corpus
from topicstream.model.topic_model import TopicModel
from topicstream.retraining.config import Limits
from topicstream.retraining.drift import Drift, measure, stage, verdict


def night(seed: int, source: str, n: int) -> list[dict[str, str]]:
    """Texts of a source: words that all of its texts share, and many that few have."""
    draw = random.Random(f"{seed}{source}")
    texts = []
    for number in range(n):
        subject = draw.choice("abcd")
        common = [f"{source}{subject}w{min(30, int(draw.expovariate(0.1)))}" for _ in range(30)]
        rare = [f"{source}r{int(draw.paretovariate(0.6))}" for _ in range(10)]
        text = " ".join(common + rare).translate(str.maketrans("0123456789", "ghijklmnop"))
        texts.append({"id": f"{source}{seed}-{number}", "text": text})
    return texts


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home: Path = tmp_path_factory.mktemp("drift")
    first = [*night(1, "x", 300), *night(1, "y", 300)]
    topicstream.ingest(first, home / "c.zarr", heldout="20%")
    topicstream.train(home / "c.zarr", home / "m", topics=8, passes=30)
    return home


def figures_of(home: Path, texts: list[dict[str, str]], place: Path) -> Drift:
    corpus = Corpus.open(home / "c.zarr")
    new = stage(texts, place / "new.zarr", corpus, {"drop_top": 2, "phrase_threshold": 0.5})
    return measure(TopicModel.open(home / "m"), corpus, new, 1)


@pytest.mark.parametrize("sources", ["xy", "x", "y"])
@pytest.mark.parametrize("n", [300, 40])
def test_a_second_night_of_the_same_sources_is_no_drift(trained, tmp_path, sources, n):
    texts = [text for source in sources for text in night(2, source, n)]
    figures = figures_of(trained, texts, tmp_path)
    assert verdict(figures, Limits()) == []


def test_their_distinct_words_would_have_been_called_new(trained, tmp_path):
    figures = figures_of(trained, [*night(2, "x", 300), *night(2, "y", 300)], tmp_path)
    assert figures.seen_words < 0.70
    assert figures.unknown_tokens < 0.20
    [why] = verdict(figures, Limits(seen_words=0.70))
    assert "words were seen in training" in why


@pytest.mark.parametrize("texts", [night(1, "z", 200), night(1, "z", 200) + night(2, "x", 100)])
def test_another_source_is_drift(trained, tmp_path, texts):
    assert verdict(figures_of(trained, texts, tmp_path), Limits())


def test_the_subjects_of_old_words_in_another_mix_are_drift_by_likelihood(trained, tmp_path):
    words = sorted({word for text in night(1, "x", 300) for word in text["text"].split()})
    draw = random.Random(3)
    texts = [
        {"id": f"m{i}", "text": " ".join(draw.choice(words) for _ in range(40))} for i in range(200)
    ]
    figures = figures_of(trained, texts, tmp_path)
    assert figures.unknown_tokens < 0.20
    assert any("perplexity" in why for why in verdict(figures, Limits()))
