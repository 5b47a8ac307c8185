"""Whether a model and a corpus belong together."""

from __future__ import annotations

from topicstream.corpus.reader import Corpus
from topicstream.errors import UsageError
from topicstream.model.topic_model import TopicModel
from topicstream.model.vocabulary import Vocabulary, as_words

LEAST = 0.1
"""Share of a corpus' tokens that a model must know the words of.  Other texts of the same language: 70 % and more; another
language: 1 to 5 % (names, and words that look alike)."""


def strangers(model: TopicModel, corpus: Corpus) -> str | None:
    """A sentence where the model was trained on another corpus, with both names; None where it was trained on this one (or an
    earlier state of it), or does not say.  UsageError where they have next to no word in common: scores would say nothing."""
    trained = model.manifest.corpus.fingerprint
    if trained is None or corpus.is_of(trained):
        return None
    there = Vocabulary.read(corpus.file("vocab"))
    own = model.vocabulary.words
    if len(own) <= len(there.words) and as_words(there.words.slice(0, len(own))).equals(as_words(own)):
        return None  # an earlier state of it, before it grew
    known = float(there.counts[model.vocabulary.find(there.words) >= 0].sum()) / max(float(there.counts.sum()), 1.0)
    name = str(model.path or "the model")
    if known < LEAST:
        raise UsageError(
            f"{name} and {corpus.path} do not match: the model was trained on another corpus and knows "
            f"{100 * known:.1f} % of this one's tokens; give the model's own corpus, or a model of this one"
        )
    return (
        f"{name} was trained on another corpus than {corpus.path}, or on another state of it; it knows {100 * known:.0f} % of "
        "its tokens"
    )
