"""``--algo auto``: engine, sparsity and priors that suit the corpus, the number of topics and the limits that are stated, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topicstream.engines import find
from topicstream.engines.base import BlockShape, Options, Shape, learns_priors
from topicstream.errors import UsageError
from topicstream.files.durable import read_json
from topicstream.machine import format_bytes

BEST, SMALLEST = "sparse-bp", "atbp"
# 32 active topics: topics read better (NPMI 0.01 to 0.02 on four corpora) and none dies where there are fewer than K.  Of a
# large corpus of documents with fewer different words than this 16 give the same perplexity or a lower one (acl, 60, and 20news,
# 73; articles of 516: 0.7 % worse at 100 topics, 1.7 % at 500), in three quarters of the time and half the disk
FEW_DISTINCT, LARGE = 128, 5_000_000
# learned from the first pass on, alpha follows topics that are not there yet: some die, one grows; without a pull it is
# fitted to the training documents, and too small for short ones (docs/decisions/defaults.md)
PRIORS = {"learn_after": 20, "prior_pull": 3.0, "prior_reach": 100.0}
# A background topic takes the words that otherwise stand first in many topics; with 48 active ones topics share fewer words yet
# (docs/decisions/defaults.md).  Its alpha, in tokens, is this part of a mean document
READING = {"sparsity": 48}
BACKGROUND = 0.05
HELD = 100.0  # the pull where documents are hardly more than topics: alpha learned there ends most of them


@dataclass(frozen=True)
class Choice:
    """The engine, its options that are not its defaults, and the reason in words."""

    algo: str
    why: str
    options: Mapping[str, Any] = field(default_factory=dict)


def choose(shape: Shape, given: Mapping[str, Any], aim: str = "prediction") -> Choice:
    """By the corpus, K and what the user says, never by what the machine has free: the same command gives the same model.
    Stored messages reach a lower perplexity than any engine without, and sooner (scripts/benchmarks/bench_quality.md).

    given: the engine's options as the user has them; None is for us to decide.  Priors are learned where none is given:
    held-out perplexity from 1 % worse to 20 % better than with fixed ones on five corpora, the more topics the better.
    """
    learn = learns_priors(*(given.get(name) for name in ("alpha", "beta", "learn_priors")))
    options = {**given, "learn_priors": learn}
    learned = ", learning its priors" if learn else ""
    if shape.weighted and not find(BEST).accepts_weights:
        return Choice(SMALLEST, f"the cells are real-valued{learned}", options)
    sparse = dict(options)
    length = shape.cells / shape.docs
    if aim == "reading":
        if shape.topics < 2:
            raise UsageError("--aim reading: gives the last topic to shared words; ask for two topics or more (-K)")
        own = READING | {"background": round(BACKGROUND * shape.tokens / shape.docs, 3)}
        sparse |= {name: value for name, value in own.items() if sparse.get(name) is None}
        learned += f", with a background topic (alpha {sparse['background']:g})"
    if sparse.get("sparsity") is None:
        sparse["sparsity"] = 16 if length < FEW_DISTINCT and shape.cells >= LARGE else 32
    if learn:
        few = {"prior_pull": HELD} if shape.docs < 2 * shape.topics else {}
        sparse |= {name: value for name, value in (PRIORS | few).items() if sparse.get(name) is None}
    fields = find(BEST).Options.__dataclass_fields__
    engine = find(BEST)(shape, find(BEST).Options(**{k: v for k, v in sparse.items() if k in fields}))
    need = 0
    for spec in engine.memory.values():
        one = spec.shape(BlockShape(shape.docs, shape.cells, int(shape.tokens), shape.words))
        size = 1
        for n in one:
            size *= int(n)
        need += size * {"uint8": 1, "uint16": 2, "float32": 4}[spec.dtype]
    return Choice(
        BEST,
        f"its messages take {format_bytes(need)} of disk a pass, and it reaches the lowest perplexity soonest; "
        f"{sparse['sparsity']} active topics, documents having {length:.0f} different words each{learned}",
        sparse,
    )


def smallest(choice: Choice) -> Choice:
    """The engine that takes the least instead."""
    kept = {k: v for k, v in choice.options.items() if k in Options.__dataclass_fields__}
    return Choice(SMALLEST, choice.why, kept)


def resolve_engine(folder: Path, force: bool, shape: Shape, given: Mapping[str, Any], aim: str) -> Choice:
    """The engine of the run that ``folder`` holds, if it holds one that ``auto`` may carry on; else a fresh choice."""
    if not force and (folder / "training.json").exists():
        run = read_json(folder / "training.json")
        name = str(run.get("engine")) if isinstance(run, dict) else ""
        return Choice(name, "the run in this folder uses it", given)
    return choose(shape, given, aim)
