"""``--algo auto``: the choice of engine, sparsity and priors, with its reasons.

It depends on the corpus, the number of topics and the limits that the user states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from topicstream.base.errors import DiskTooSmall, DoesNotFit, UsageError
from topicstream.base.progress import Progress
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import TOPICS, Options, Shape, learns_priors
from topicstream.training.config import TrainConfig
from topicstream.training.setup import shape_of
from topicstream.training.state.record import RunRecord, read_decided_options

Result = TypeVar("Result")

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
    """The engine, its options that are not its defaults, and the reason in words."""

    algo: str
    why: str
    options: Mapping[str, Any] = field(default_factory=dict)


def choose(shape: Shape, options_given: Mapping[str, Any], aim: str = "prediction") -> Choice:
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
        few = {"prior_pull": HELD} if shape.docs < 2 * shape.topics else {}
        sparse |= {
            name: value for name, value in (PRIORS | few).items() if sparse.get(name) is None
        }
    return Choice(
        BEST,
        f"lowest perplexity in the least time; {sparse['sparsity']} active topics a document "
        f"({length:.0f} different words each on average){learned}",
        sparse,
    )


def smallest(choice: Choice) -> Choice:
    """Fall back to the engine that stores least, with the options that all engines share."""
    shared = {
        name: value
        for name, value in choice.options.items()
        if name in Options.__dataclass_fields__
    }
    return Choice(SMALLEST, choice.why, shared)


def with_engine(
    config: TrainConfig, corpus: Corpus, progress: Progress, run: Callable[[TrainConfig], Result]
) -> Result:
    """Call ``run`` with the engine that the configuration names or ``auto`` chooses.

    With ``auto``, a run that the folder holds keeps its engine. Where the chosen engine does not
    fit, ``auto`` takes the one that stores least, provided that ``--allow-smaller`` or a stated
    limit permits it.

    Raises
    ------
    DoesNotFit
        If no permitted engine fits.
    """
    if config.algo != "auto":
        return run(config)
    options_given = config.options or {}
    begun = None if config.force else RunRecord.read(Path(config.model))
    if begun is None:
        choice = choose(shape_of(corpus, config.topics or TOPICS), options_given, config.aim)
    else:
        choice = Choice(
            begun.engine,
            "the run in this folder uses it",
            {**options_given, **read_decided_options(Path(config.model), "auto", options_given)},
        )
    progress.say(f"algo auto: {choice.algo}, {choice.why}")
    try:
        return run(replace(config, algo=choice.algo, options=choice.options, progress=progress))
    except DoesNotFit as e:
        if choice.algo == SMALLEST or config.aim == "reading" or begun is not None:
            raise
        stated = config.memory.stated and not isinstance(e, DiskTooSmall)
        # what is free now does not decide which model a command makes
        if not (config.allow_smaller or stated):
            raise type(e)(
                f"{e}; or pass --algo {SMALLEST}, which keeps less, or --allow-smaller to let "
                f"auto take it"
            ) from None
        progress.say(f"algo auto: {choice.algo} needs more than the limit; trying {SMALLEST}")
        try:
            return run(
                replace(config, algo=SMALLEST, options=smallest(choice).options, progress=progress)
            )
        except DoesNotFit as other:
            if 0 < e.least <= other.least:
                raise DoesNotFit(f"{e}; {SMALLEST} needs more", least=e.least) from None
            if e.least:
                raise DoesNotFit(
                    f"{other}; {choice.algo}, which auto would take, needs {e.least}M"
                ) from None
            raise
