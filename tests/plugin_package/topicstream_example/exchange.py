"""A format and a converter of another package: a word and its likeliest topic on each line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topicstream.base.files.outputs import written
from topicstream.model.exchange import Export, Format, read_counts, text_lines
from topicstream.model.topic_model import TopicModel


def write(job: Export) -> Mapping[str, Any]:
    """Write the words of a model, each with its likeliest topic."""
    likeliest = read_counts(job.model).argmax(axis=1)
    with written(job.path, force=job.force) as file:
        file.write(text_lines(job.model.vocabulary.words, likeliest))
    return {"topics": job.model.n_topics, "words": job.model.n_words}


WORD_TOPICS = Format(
    "word-topics",
    "model",
    "a line a word: the word and its likeliest topic",
    "topicstream_example.exchange:write",
    suffix=".words",
)


def to_dict(model: TopicModel) -> dict[str, list[float]]:
    """Convert a model into counts of each word by topic."""
    return dict(zip(model.words, read_counts(model).tolist(), strict=True))
