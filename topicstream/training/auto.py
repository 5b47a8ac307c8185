"""``--algo auto``: the choice of engine, sparsity and priors, with its reasons.

It depends on the corpus, the number of topics and the limits that the user states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topicstream.base.errors import DiskTooSmall, DoesNotFit, UsageError
from topicstream.engines.base import Options, Shape, learns_priors
from topicstream.training.config import TrainConfig
from topicstream.training.state.record import RunRecord, read_decided_options

BEST = "sparse-bp"
SMALLEST = "atbp"
# 32 active topics: topics read better (NPMI 0.01 to 0.02 on four corpora) and none dies where there
# are fewer than K.  Of a
# large corpus of documents with fewer different words than this 16 give the same perplexity or a
# lower one (acl, 60, and 20news,
# 73; articles of 516: 0.7 % worse at 100 topics, 1.7 % at 500), in three quarters of the time and
# half the disk
FEW_DISTINCT = 128
LARGE = 5_000_000
# learned from the first pass on, alpha follows topics that are not there yet: some die, one grows;
# without a pull it is fitted to the training documents, and too small for short ones
# (docs/internals/decisions/priors.md)
PRIORS = {"learn_after": 20, "prior_pull": 3.0, "prior_reach": 100.0}
# A background topic takes the words that otherwise stand first in many topics; with 48 active ones
# topics share fewer words yet (docs/internals/decisions/reading.md).  Its alpha, in tokens, is this
# part of a mean document
READING = {"sparsity": 48}
BACKGROUND = 0.05
# the pull where documents are hardly more than topics: alpha learned there ends most of them
HELD = 100.0


@dataclass(frozen=True)
class Choice:
    """The engine, its options that are not its defaults, and the reason in words.

    ``begun``: the run in the folder has this engine already.
    """

    algo: str
    why: str
    options: Mapping[str, Any] = field(default_factory=dict)
    begun: bool = False


def choose(
    shape: Shape,
    options_given: Mapping[str, Any],
    aim: str = "prediction",
    covariates: bool = False,
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
        coefficients have a prior, and with a pull acl got worse.

    Raises
    ------
    UsageError
        If ``reading`` has fewer than two topics.
    """
    learn = learns_priors(*(options_given.get(name) for name in ("alpha", "beta", "learn_priors")))
    options = {**options_given, "learn_priors": learn}
    learned = ", learning its priors" if learn else ""
    sparse = dict(options)
    length = shape.cells / shape.docs
    if aim == "reading":
        if shape.topics < 2:
            raise UsageError(
                "--aim reading: uses the last topic for shared words; use at least two topics "
                "(-K 2)"
            )
        own = READING | {"background": round(BACKGROUND * shape.tokens / shape.docs, 3)}
        sparse |= {name: value for name, value in own.items() if sparse.get(name) is None}
        learned += f", with a background topic (alpha {sparse['background']:g})"
    if sparse.get("sparsity") is None:
        sparse["sparsity"] = 16 if length < FEW_DISTINCT and shape.cells >= LARGE else 32
    if learn:
        own = PRIORS | ({"prior_pull": 0.0} if covariates else {})
        if shape.docs < 2 * shape.topics:
            own |= {"prior_pull": HELD}
        sparse |= {name: value for name, value in own.items() if sparse.get(name) is None}
    return Choice(
        BEST,
        f"lowest perplexity in the least time; {sparse['sparsity']} active topics a document "
        f"({length:.0f} different words each on average){learned}",
        sparse,
    )


def choose_engine(config: TrainConfig, shape: Shape) -> Choice:
    """Choose the engine of a run, or keep that of the run that the folder holds."""
    options_given = config.options or {}
    folder = Path(config.model)
    begun = None if config.force else RunRecord.read(folder)
    if begun is None:
        return choose(shape, options_given, config.aim, config.covariates is not None)
    options = {**options_given, **read_decided_options(folder, "auto", options_given)}
    return Choice(begun.engine, "the run in this folder uses it", options, begun=True)


def choose_smaller(config: TrainConfig, choice: Choice, error: DoesNotFit) -> Choice:
    """Choose the engine that stores least, where ``choice`` does not fit.

    Raises
    ------
    DoesNotFit
        ``error``, where another engine is not permitted.
    """
    others_alike = config.aim != "reading" and config.covariates is None
    if choice.algo == SMALLEST or not others_alike or choice.begun:
        raise error
    # what is free now does not decide which model a command makes
    stated = config.memory.stated and not isinstance(error, DiskTooSmall)
    if not (config.allow_smaller or stated):
        raise type(error)(
            f"{error}; or pass --algo {SMALLEST}, which keeps less, or --allow-smaller to let "
            f"auto take it"
        ) from None
    return smallest(choice)


def name_least_limit(
    choice: Choice, error: DoesNotFit, smaller: Choice, other: DoesNotFit
) -> DoesNotFit:
    """Return the error that names the least limit, where neither of two engines fits."""
    if 0 < error.least <= other.least:
        return DoesNotFit(f"{error}; {smaller.algo} needs more", least=error.least)
    if error.least:
        return DoesNotFit(f"{other}; {choice.algo}, which auto would take, needs {error.least}M")
    return other


def smallest(choice: Choice) -> Choice:
    """Fall back to the engine that stores least, with the options that all engines share."""
    shared = {
        name: value
        for name, value in choice.options.items()
        if name in Options.__dataclass_fields__
    }
    return Choice(SMALLEST, choice.why, shared)
