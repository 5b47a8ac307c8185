"""The quality gate, which decides if a new model may replace the present one.

Both are scored on the same held-out tokens: document completion over the words that both know, with
p(w|k) among these words. The new model's perplexity may be worse by a tolerance. It must not have
more empty and identical topics than the present model, which would otherwise stay with its own;
those of a first model are warnings. The mass of its table was checked after each pass
(``training/course.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from topicstream.base.errors import InputError
from topicstream.base.memory import MemoryLimit, plan_memory
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import Score, ScoredTopics, prepare_heldout, score_blocks
from topicstream.evaluation.matching import PAIR_BYTES
from topicstream.evaluation.memory import (
    BLOCKS_IN_FLIGHT,
    BYTES_PER_WORD,
    bytes_of_thread,
    open_within,
)
from topicstream.model.manifest import read_manifest
from topicstream.model.topic_kinds import EMPTY, dead_warning
from topicstream.model.topic_model import TopicModel
from topicstream.retraining.config import Gate
from topicstream.training.course import warn_of_duplicate_topics


@dataclass
class Judgement:
    """The verdict of the gate.

    Attributes
    ----------
    refused
        Reasons; empty if the new model may be published.
    warnings
        Empty and identical topics, too few held-out tokens.
    perplexity, perplexity_before
        Perplexity of the new and the present model on the same held-out tokens.
    error
        Standard error of their ratio, over documents.
    tokens
        Held-out tokens that were scored.
    oov_rate
        Share of the held-out tokens whose word one of the models does not know.
    prior
        Which prior documents had, where covariates give each its own; else empty.
    """

    refused: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    perplexity: float | None = None
    perplexity_before: float | None = None
    error: float | None = None
    tokens: float = 0
    oov_rate: float | None = None
    prior: str = ""


def shared_perplexity(
    models: list[TopicModel], corpus: Corpus, threads: int
) -> list[tuple[Score, np.ndarray]]:
    """Score models on the held-out tokens whose words all of them know.

    Each has the same observed and the same scored tokens.

    Returns
    -------
    list
        Score and log-likelihoods of the documents, float64[D], of each model; empty if nothing
        can be scored.
    """
    words = corpus.read_vocabulary().words
    ids = [m.vocabulary.find(words) for m in models]
    common = np.all([i >= 0 for i in ids], axis=0)

    def score(model: TopicModel, index: np.ndarray) -> tuple[Score, np.ndarray]:
        """Score one model."""
        logliks: list[np.ndarray] = []
        topics = ScoredTopics.from_model(model, np.where(common, index, -1), shared=True)
        scored = score_blocks(
            topics, prepared, threads=threads, on_block=lambda some, _: logliks.append(some)
        )
        return scored, np.concatenate(logliks)

    try:
        prepared = prepare_heldout(corpus, topics=max(m.n_topics for m in models))
        return [score(m, i) for m, i in zip(models, ids, strict=True)]
    except InputError:
        return []


def check_room(limit: int | None, topics: int, words: int) -> None:
    """Raise DoesNotFit, before a training, if two models cannot be judged within the limit.

    Parameters
    ----------
    limit
        Memory limit in bytes.
    topics, words
        Topics of each model, and words of the corpus.
    """
    fixed = {
        "words": 3 * BYTES_PER_WORD * words,
        "pairs of topics": PAIR_BYTES * topics**2,
        "blocks": BLOCKS_IN_FLIGHT,
    }
    plan_memory(
        "judging the model",
        MemoryLimit.parse(limit),
        1,
        fixed,
        {"threads": bytes_of_thread(topics)},
    )


def open_models(
    paths: Sequence[Path], corpus: Corpus, limit: int | None, threads: int
) -> tuple[list[TopicModel], int]:
    """Open models to score them on a corpus and to align them, within a memory limit.

    Returns
    -------
    models, threads
        The models, and the threads to score with.

    Raises
    ------
    DoesNotFit
        If they do not fit the limit.
    """
    topics = [read_manifest(path).topics for path in paths]
    beside = BYTES_PER_WORD * corpus.n_words + PAIR_BYTES * topics[0] * topics[-1]
    return open_within(paths, limit, threads, beside=beside)


def judge(
    new: TopicModel, old: TopicModel | None, corpus: Corpus, gate: Gate, threads: int
) -> Judgement:
    """Judge a new model beside the present one, if there is one."""
    judgement = Judgement(warnings=dead_warning(new) + _warn_of_same_topics(new))
    if any(model.manifest.covariates for model in (new, old) if model is not None):
        judgement.prior = "all documents with the mean prior"
    if gate.topics and old and _count_unfit(new) > _count_unfit(old):
        judgement.refused += judgement.warnings
    scores = shared_perplexity([new] if old is None else [new, old], corpus, threads)
    if not scores:
        return judgement
    score, logliks = scores[0]
    judgement.tokens = score.tokens
    judgement.oov_rate = score.oov_rate
    judgement.perplexity = float(score.perplexity)
    if old is not None:
        _compare_perplexity(judgement, logliks, scores[1], gate)
    return judgement


def _compare_perplexity(
    judgement: Judgement, logliks: np.ndarray, before: tuple[Score, np.ndarray], gate: Gate
) -> None:
    """Compare the new model's perplexity with the present one's, and refuse one that is worse.

    Parameters
    ----------
    judgement
        The verdict so far, which gets reasons and warnings.
    logliks
        Log-likelihoods of the documents under the new model, float64[D].
    before
        Score and log-likelihoods of the present model.
    gate
        The conditions.
    """
    assert judgement.perplexity is not None
    score, logliks_before = before
    judgement.perplexity_before = float(score.perplexity)
    spread = float(np.std(logliks_before - logliks))
    judgement.error = float(spread * math.sqrt(len(logliks)) / score.tokens)
    if not judgement.perplexity <= judgement.perplexity_before * (1 + gate.tolerance):
        judgement.refused.append(
            f"held-out perplexity {judgement.perplexity:.1f} where the present model has "
            f"{judgement.perplexity_before:.1f} (tolerance {100 * gate.tolerance:g} %)"
        )
    if 2 * judgement.error > gate.tolerance:
        judgement.warnings.append(
            f"with {judgement.tokens:,.0f} held-out tokens the gate sees only differences "
            f"above {200 * judgement.error:.1f} %; the tolerance is "
            f'{100 * gate.tolerance:g} %; hold out more, such as heldout = "10%" under '
            f"[ingest] before the first run"
        )


def _warn_of_same_topics(model: TopicModel) -> list[str]:
    """Warn of topics that are the same."""
    return warn_of_duplicate_topics(model.counts(), model.sizes, model.n_topics)


def _count_unfit(model: TopicModel) -> int:
    """Count empty topics and pairs of identical ones."""
    pairs = sum(int(warning.split()[0]) for warning in _warn_of_same_topics(model))
    return int((model.sizes < EMPTY).sum()) + pairs
