"""The quality gate: may this model take the place of the present one?

Both are scored on the same held-out tokens: document completion over the words that both know.  The new model's
perplexity may be worse by a tolerance; it must have no empty and no identical topics (no more of them than the present
model, which would otherwise stay with its own; those of a first model are warnings), and its table must hold the mass of
the corpus it says it was trained on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.engines import find
from topicstream.errors import InputError, TopicsError
from topicstream.evaluation.completion import ScoredTopics, prepare_heldout, score_blocks
from topicstream.evaluation.keys import corpus_vocabulary
from topicstream.evaluation.matching import A_PAIR
from topicstream.evaluation.memory import A_WORD, ask_limit, bytes_of_thread, open_all_within
from topicstream.model.store import read_manifest
from topicstream.model.topic_model import TopicModel
from topicstream.model.vocabulary import Vocabulary
from topicstream.retraining.config import Gate
from topicstream.training.invariants import duplicate_topics

TOTAL = 1e-5
ROW = 1e-3


class _Table:
    """A model as ``duplicate_topics`` wants a table."""

    def __init__(self, model: TopicModel) -> None:
        self._model, self.totals = model, model.sizes

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """(first word, rows)."""
        return self._model.counts()


def faults(model: TopicModel, words: Vocabulary | None = None) -> list[str]:
    """What breaks a table's invariants, in words: NaN, infinite or negative counts; where the engine keeps the words'
    mass, a total that is not the corpus' tokens and rows that are not the words' counts (``words``: those of the corpus
    it was trained on)."""
    found: list[str] = []
    sums = np.zeros(model.n_words)
    lowest, finite = 0.0, True
    for start, rows in model.counts():
        finite = finite and bool(np.isfinite(rows).all())
        sums[start : start + len(rows)] = rows.sum(axis=1, dtype=np.float64)
        lowest = min(lowest, float(rows.min(initial=0.0)))
    if not finite:
        return ["the table holds NaN or infinity"]
    if lowest < -ROW * max(1.0, float(sums.max(initial=0.0))):
        found.append(f"the table holds a negative count ({lowest:.3g})")
    tokens = float((model.manifest.get("corpus") or {}).get("tokens") or 0.0)
    if not _keeps_mass(model) or not tokens:
        return found
    off = abs(sums.sum() / tokens - 1.0)
    if off > TOTAL:
        found.append(f"the table's mass differs from the corpus' tokens by {100 * off:.3g} %")
    counted = words is not None and model.weights is None  # weighted rows do not hold counts
    if counted and words is not None and len(words) == model.n_words and words.counts.sum() == tokens:
        rows_off = np.abs(sums - words.counts) / np.maximum(words.counts, 1)
        if rows_off.max(initial=0.0) > ROW:
            found.append(f"the row of word {words.texts([int(rows_off.argmax())])[0]!r} does not hold its count")
    return found


def _keeps_mass(model: TopicModel) -> bool:
    from topicstream.engines.base import Shape
    from topicstream.training.setup import make_options

    try:
        kind = find(str(model.manifest.get("engine")))
    except TopicsError:  # made elsewhere
        return False
    shape = Shape(1, model.n_words, 1, 1.0, model.n_topics, False)
    return kind(shape, make_options(kind, model.manifest.get("options") or {})).tables["phi"].mass == "row"


def shared_perplexity(models: list[TopicModel], corpus: Corpus, threads: int) -> list[Any]:
    """Scores of several models on the held-out documents, restricted to the words that all of them know: the same
    observed and the same scored tokens for each.  None for each where nothing can be scored."""
    words = corpus_vocabulary(corpus).words
    ids = [m.vocabulary.find(words) for m in models]
    common = np.all([i >= 0 for i in ids], axis=0)
    try:
        prepared = prepare_heldout(corpus, topics=max(m.n_topics for m in models))
        return [
            score_blocks(ScoredTopics.of_model(m, np.where(common, i, -1)), prepared, threads=threads)
            for m, i in zip(models, ids, strict=True)
        ]
    except InputError:
        return [None for _ in models]


def ask_room(limit: int | None, topics: int, words: int) -> None:
    """DoesNotFit where a given limit has no room to judge a model of so many topics beside one like it, of a corpus of
    ``words``: known before anything is trained."""
    ask_limit(limit, 3 * A_WORD * words + A_PAIR * topics**2, bytes_of_thread(topics), "judging the model")


def open_models(paths: Sequence[Path], corpus: Corpus, limit: int | None, threads: int) -> tuple[list[TopicModel], int]:
    """Models to be scored on the corpus, and aligned, within a limit; and the threads to score with.  DoesNotFit."""
    topics = [int(read_manifest(path)["topics"]) for path in paths]
    beside = A_WORD * corpus.n_words + A_PAIR * topics[0] * topics[-1]
    return open_all_within(paths, limit, threads, beside=beside)


def judge(new: TopicModel, old: TopicModel | None, corpus: Corpus, gate: Gate, threads: int) -> dict[str, Any]:
    """``refused``: the reasons, none when the new model may be published; and the figures: ``perplexity`` (new) and
    ``perplexity_before`` on the same held-out tokens, how many (``tokens``), and ``oov_rate``, the share of the held-out
    tokens left out because one of the models does not know their word; ``warnings``: empty and identical topics."""
    refused = faults(new, corpus_vocabulary(corpus) if corpus.fingerprint == _of(new) else None)
    figures: dict[str, Any] = {"perplexity": None, "perplexity_before": None, "tokens": 0, "oov_rate": None}
    figures["warnings"] = []
    if not refused:
        figures["warnings"] = duplicate_topics(_Table(new), new.n_topics)
        if gate.topics and old is not None and figures["warnings"]:
            before = duplicate_topics(_Table(old), old.n_topics)
            if _count(figures["warnings"]) > _count(before):
                refused += figures["warnings"]
        scores = shared_perplexity([new] if old is None else [new, old], corpus, threads)
        if scores[0] is not None:
            figures |= {"tokens": scores[0].tokens, "oov_rate": scores[0].oov_rate}
            figures["perplexity"] = float(scores[0].perplexity)
            if old is not None:
                figures["perplexity_before"] = present = float(scores[1].perplexity)
                if not figures["perplexity"] <= present * (1 + gate.tolerance):
                    refused.append(
                        f"held-out perplexity {figures['perplexity']:.1f} where the present model has {present:.1f} "
                        f"(tolerance {100 * gate.tolerance:g} %)"
                    )
    return {"refused": refused, **figures}


def _count(warnings: list[str]) -> int:
    """Empty topics and pairs of identical ones, out of the warnings about them."""
    return sum(int(w.split()[0]) for w in warnings)


def _of(model: TopicModel) -> Any:
    return (model.manifest.get("corpus") or {}).get("fingerprint")
