"""``--algo auto``: the choice of engine, sparsity and priors, with its reasons.

It depends on the corpus, the number of topics and the limits that the user states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from topicstream.base.errors import DiskTooSmall, DoesNotFit, UsageError
from topicstream.base.text import counted
from topicstream.engines import find
from topicstream.engines.base import Options, Shape, learns_priors
from topicstream.engines.gibbs.chain import LARGE_TABLE, GibbsOptions
from topicstream.training.config import TrainConfig
from topicstream.training.starts.best import tries_fit
from topicstream.training.state.record import RunRecord, read_decided_options

BEST = "sparse-bp"
SMALLEST = "atbp"
SAMPLER = "sparselda"
# Short documents: a chain that begins from the best of tries and averages its last states has a
# lower perplexity than messages (docs/internals/decisions/short-texts.md). A pass costs some 200 ns
# a token; beyond MOST_SAMPLED tokens a run would take minutes
SAMPLED_LENGTH = 50
"""Tokens of a mean document, below which it is sampled."""
MOST_SAMPLED = 500_000
SAMPLED = 100_000_000
"""Tokens that the sampler visits over all passes, which says how many these are."""
LEAST_PASSES = 200
MOST_PASSES = 400
# Of snippets twice as many passes predict 2 % better, in 1.6 times the seconds; of titles 1 %
SNIPPET = 10
"""Tokens of a mean document, from which on it is a snippet."""
SAMPLED_OF_SNIPPETS = 130_000_000
MOST_PASSES_OF_SNIPPETS = 800
STATES = 12
PART = 20
"""The sampler averages STATES states, a PART-th of the passes apart: the chain's second half."""
TRIED_TOPICS = 128
"""Most topics for which the sampler begins from the best of tries."""
# Few long documents for as many topics: the same chain predicts better than messages, which find no
# topic of common words there (docs/internals/decisions/few-documents.md). 150,000 tokens take some
# seven seconds; of words that stand more often in the corpus nothing was measured
LONG_DOCUMENT = 800
FEW_PER_TOPIC = 3.5
RARE_WORDS = 12.0
"""Most tokens of the corpus a word of the vocabulary."""
MOST_OF_LONG = 150_000
# Of so few documents topics read better from the best of tries than from single documents
FEW_TO_READ = 200
# With 32 active topics, topics read better (NPMI 0.01 to 0.02 on four corpora), and none dies where
# there are fewer than K. Of a large corpus whose documents have fewer different words than
# FEW_DISTINCT, 16 give the same perplexity or a lower one (acl, 60, and 20news, 73; articles of
# 516: 0.7 % worse at 100 topics, 1.7 % at 500), in three quarters of the time and half the disk
FEW_DISTINCT = 128
LARGE = 5_000_000
# Of smaller corpora with fewer different words yet, 16 predict 1 to 2 % better where 32 are not all
# topics. Few documents a topic keep 32, or topics die (docs/internals/decisions/active-topics.md)
VERY_FEW_DISTINCT = 64
MANY_PER_TOPIC = 100
MOST_ACTIVE = 32
# Learned from the first pass on, alpha follows topics that are not there yet: some die, one grows.
# Without a pull it is fitted to the training documents, and too small for short ones
# (docs/internals/decisions/priors.md)
PRIORS = {"learn_after": 20, "prior_pull": 3.0}
# Priors move by as many times as documents stand behind a topic: of few documents beta is learned
# from words that one of them repeats; it grows, and topics die
# (docs/internals/decisions/lost-topics.md)
MOST_REACH = 100.0
# A background topic takes the words that otherwise stand first in many topics; with 48 active ones
# topics share fewer words yet (docs/internals/decisions/reading.md). Its alpha, in tokens, is this
# part of a mean document
READING = {"sparsity": 48}
BACKGROUND = 0.05
# A title is about one thing: with a small alpha that stays, topics of short documents cohere better
# than with a learned one (docs/internals/decisions/short-texts.md)
READING_SHORT = {"alpha": 0.02, "beta": 0.01, "learn_priors": False}
# A learned alpha is pulled thither, too, whatever K is: pulled to 5/K, topics of short documents
# predict 1 to 6 % worse. It begins at 5/K, so that documents move, for a WARM_PART-th
# of the passes (docs/internals/decisions/short-texts.md)
PRIORS_OF_SHORT = {"prior_mean": 0.02, "prior_pull": 1.0}
WARM_PART = 4
# The pull where documents are hardly more than topics: alpha learned there ends most of them
STRONG_PULL = 100.0


@dataclass(frozen=True)
class Choice:
    """A chosen engine and how it is to run.

    Attributes
    ----------
    algo
        Name of the engine.
    reason
        Why, in words.
    options
        Its options that are not its defaults.
    is_begun
        Whether the run in the folder has this engine already.
    start, passes
        Name of the start, and the most passes. None: the engine's default.
    """

    algo: str
    reason: str
    options: Mapping[str, Any] = field(default_factory=dict)
    is_begun: bool = False
    start: str | None = None
    passes: int | None = None


def choose(
    shape: Shape,
    options_given: Mapping[str, Any],
    aim: str = "prediction",
    covariates: bool = False,
    seeded: bool = False,
    passes: int | None = None,
    sampled: bool | None = None,
) -> Choice:
    """Choose engine, sparsity and priors by the corpus, K and the user's options.

    What the machine has free never counts, so the same command gives the same model. Engines with
    stored messages reach a lower perplexity than any engine without, and sooner
    (scripts/benchmarks/bench_quality.md). Where no prior is given, priors are learned: on five
    corpora, held-out perplexity was from 1 % worse to 20 % better than with fixed ones, the more
    topics the better.

    Parameters
    ----------
    shape
        Size of the training problem.
    options_given
        Engine options of the user. None leaves an option to this function.
    aim
        ``prediction`` or ``reading``.
    covariates
        Whether alpha depends on the documents' covariates. It is not pulled then: their
        coefficients have a prior and the documents' shares a say (``--covariate-means``).
    seeded
        Whether there are seed words, whose strengths may be fractions.
    passes
        The most that the user allows. None leaves them to this function.
    sampled
        Whether the sampler is taken where it can be. None leaves it to this function.

    Raises
    ------
    UsageError
        If ``reading`` has fewer than two topics.
    """
    if aim == "reading" and shape.topics < 2:
        raise UsageError(
            "--aim reading: uses the last topic for shared words; use at least two topics (-K 2)"
        )
    plain = not (covariates or seeded)
    if sampled is None:
        sampled = has_few_long(shape) or (is_short(shape) and shape.tokens <= MOST_SAMPLED)
    if plain and sampled and can_sample(shape, options_given):
        return _choose_sampler(shape, options_given, aim, passes)
    learn = learns_priors(*(options_given.get(name) for name in ("alpha", "beta", "learn_priors")))
    options = {**options_given, "learn_priors": learn}
    learned = ", learning its priors" if learn else ""
    sparse = dict(options)
    length = shape.cells / shape.docs
    if aim == "reading":
        background = round(BACKGROUND * shape.tokens / shape.docs, 3)
        _fill_unset(sparse, READING | {"background": background})
        learned += f", with a background topic (alpha {sparse['background']:g})"
    if sparse.get("sparsity") is None:
        sparse["sparsity"] = count_active(shape, plain)
    if learn:
        reach = min(max(shape.docs / shape.topics, 1.0), MOST_REACH)
        priors = {**PRIORS, "prior_reach": round(reach, 2)}
        if covariates:
            priors["prior_pull"] = 0.0
        if shape.docs < 2 * shape.topics:
            priors["prior_pull"] = STRONG_PULL
        _fill_unset(sparse, priors)
    active = min(int(sparse["sparsity"]), shape.topics)
    few = plain and aim == "reading" and shape.docs <= FEW_TO_READ
    return Choice(
        BEST,
        f"lowest perplexity in the least time; {counted(active, 'active topic')} a document "
        f"({length:.0f} different words each on average){learned}",
        sparse,
        start="best" if few and can_try(shape, BEST) else None,
    )


def count_active(shape: Shape, plain: bool = True) -> int:
    """Count the active topics of a document, fewer where it has few different words.

    Parameters
    ----------
    shape
        Size of the training problem.
    plain
        Whether topics have neither covariates nor seed words.
    """
    distinct = shape.cells / shape.docs
    if distinct < FEW_DISTINCT and shape.cells >= LARGE:
        return MOST_ACTIVE // 2
    counts = plain and not (shape.weighted or shape.short)
    many = shape.docs >= MANY_PER_TOPIC * shape.topics and shape.topics > MOST_ACTIVE
    return MOST_ACTIVE // 2 if counts and many and distinct < VERY_FEW_DISTINCT else MOST_ACTIVE


def _fill_unset(options: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Set the options that the user left open (None or absent)."""
    for name, value in values.items():
        if options.get(name) is None:
            options[name] = value


def choose_engine(config: TrainConfig, shape: Shape) -> Choice:
    """Choose the engine of a run, or keep that of the run that the folder holds."""
    options_given = config.options or {}
    folder = Path(config.model)
    earlier = None if config.force else RunRecord.read(folder)
    choice = choose(
        shape,
        options_given,
        config.aim,
        covariates=config.covariates is not None,
        seeded=config.seed_words is not None,
        passes=config.passes,
    )
    if earlier is None:
        return choice
    options = {**options_given, **read_decided_options(folder, "auto", options_given)}
    passes = choice.passes if earlier.engine == choice.algo else None
    reason = "the run in this folder uses it"
    return Choice(earlier.engine, reason, options, is_begun=True, passes=passes)


def apply_choice(choice: Choice, config: TrainConfig) -> TrainConfig:
    """Return the configuration with what was chosen, where the user chose nothing."""
    start = config.start
    passes = config.passes
    if passes is None and choice.passes is not None:
        passes = choice.passes if config.warm is None else min(choice.passes, LEAST_PASSES)
    if start is None and config.warm is None:
        start = choice.start
    return replace(config, algo=choice.algo, options=choice.options, start=start, passes=passes)


def choose_smaller(config: TrainConfig, choice: Choice, shape: Shape, error: DoesNotFit) -> Choice:
    """Choose the engine that stores least, where ``choice`` does not fit.

    Raises
    ------
    DoesNotFit
        ``error``, where another engine is not permitted.
    """
    smaller = choose_smallest(choice, shape)
    replaceable = config.aim != "reading" and config.covariates is None and not choice.is_begun
    if choice.algo == smaller.algo or not replaceable:
        raise error
    # what is free now does not decide which model a command makes
    limit_stated = config.memory.stated and not isinstance(error, DiskTooSmall)
    if not (config.allow_smaller or limit_stated):
        raise type(error)(
            f"{error}; or pass --algo {smaller.algo}, which keeps less, or --allow-smaller to let "
            f"auto take it"
        ) from None
    return smaller


def name_least_limit(
    choice: Choice, error: DoesNotFit, smaller: Choice, error_of_smaller: DoesNotFit
) -> DoesNotFit:
    """Return the error that names the least limit, where neither of two engines fits."""
    if 0 < error.least <= error_of_smaller.least:
        return DoesNotFit(f"{error}; {smaller.algo} needs more", least=error.least)
    if error.least:
        return DoesNotFit(
            f"{error_of_smaller}; {choice.algo}, which auto would take, needs {error.least}M"
        )
    return error_of_smaller


def has_few_long(shape: Shape) -> bool:
    """Return True for few long documents a topic, whose words are rare in the corpus."""
    few = shape.docs <= FEW_PER_TOPIC * shape.topics
    most = min(MOST_OF_LONG, RARE_WORDS * shape.words)
    return few and shape.length >= LONG_DOCUMENT and shape.tokens <= most


def is_short(shape: Shape) -> bool:
    """Return True for documents of counts so short that a sampler finds the best topics."""
    return not shape.weighted and shape.length < SAMPLED_LENGTH


def can_try(shape: Shape, algo: str) -> bool:
    """Return True where the tries of the start ``best`` take little time and memory."""
    return shape.topics <= TRIED_TOPICS and tries_fit(shape, find(algo).about.tries)


def can_sample(shape: Shape, options_given: Mapping[str, Any]) -> bool:
    """Return True for whole counts, with options that a sampler takes."""
    options = {name: value for name, value in options_given.items() if value is not None}
    return (
        not shape.weighted
        and options.keys() <= GibbsOptions.__dataclass_fields__.keys()
        and all(options.get(prior, 1.0) > 0 for prior in ("alpha", "beta"))
    )


def count_passes(shape: Shape) -> int:
    """Count the sampler's passes: by tokens, and more of snippets than of titles."""
    snippets = SNIPPET <= shape.length < SAMPLED_LENGTH
    sampled = SAMPLED_OF_SNIPPETS if snippets else SAMPLED
    most = MOST_PASSES_OF_SNIPPETS if snippets else MOST_PASSES
    return min(max(int(sampled / shape.tokens), LEAST_PASSES), most)


def _choose_sampler(
    shape: Shape, options_given: Mapping[str, Any], aim: str, passes: int | None
) -> Choice:
    """Choose the sampler, for few tokens in short documents or in few long ones."""
    priors = [options_given.get(name) for name in ("alpha", "beta", "learn_priors")]
    learn = learns_priors(*priors)
    options = {**options_given, "learn_priors": learn}
    short = is_short(shape)
    if shape.short and aim == "reading" and priors == [None, None, None]:
        learn = False
        options |= READING_SHORT
    if passes is None:
        passes = count_passes(shape)
    if short and learn and options.get("alpha") is None:
        _fill_unset(options, PRIORS_OF_SHORT | {"learn_after": passes // WARM_PART})
    if shape.words * shape.topics <= LARGE_TABLE and options.get("burn_in") is None:
        states = {"samples": STATES, "sample_every": max(1, passes // PART)}
        _fill_unset(options, states)
    kind = "short documents" if short else counted(shape.docs, "long document")
    learned = ", learning its priors" if learn else ""
    return Choice(
        SAMPLER,
        f"lowest perplexity on {kind} ({shape.length:.1f} words each on average){learned}",
        options,
        start="best" if can_try(shape, SAMPLER) else "documents",
        passes=passes,
    )


def choose_smallest(choice: Choice, shape: Shape) -> Choice:
    """Choose the engine that stores least and suits the corpus.

    It has the options that all engines share.
    """
    names = choice.options.keys() & Options.__dataclass_fields__.keys()
    shared = {name: value for name, value in choice.options.items() if name in names}
    algo = SAMPLER if is_short(shape) and can_sample(shape, shared) else SMALLEST
    return Choice(algo, choice.reason, shared)
