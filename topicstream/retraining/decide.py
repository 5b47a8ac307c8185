"""Nothing, an update, or a full training: the rules, and the reasons in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from topicstream.engines import find
from topicstream.retraining.config import Train, When

NOTHING, UPDATE, FULL = "nothing", "update", "full"


@dataclass(frozen=True)
class CycleDecision:
    """kind: ``nothing``, ``update`` or ``full``; why: at least one reason."""

    kind: str
    why: list[str]


def now() -> datetime:
    """The present, UTC."""
    return datetime.now(UTC)


def seconds_since(date: str | None, at: datetime) -> float | None:
    """Seconds from an ISO date to ``at``; negative when the clock has gone back, None without a readable date."""
    if date is None:
        return None
    try:
        then = datetime.fromisoformat(date)
    except ValueError:
        return None
    return (at - (then if then.tzinfo is not None else then.replace(tzinfo=UTC))).total_seconds()


def other_model(manifest: Mapping[str, Any], train: Train) -> str | None:
    """Why the model could not be updated to what the config asks for; None when it can."""
    if train.topics != manifest["topics"]:
        return f"the config asks for {train.topics} topics, the model has {manifest['topics']}"
    if train.algo not in ("auto", manifest["engine"]):
        return f"the config asks for {train.algo}, the model was made by {manifest['engine']}"
    if "warm" not in find(manifest["engine"]).starts:
        return f"{manifest['engine']} cannot start from a model"
    return None


def decide(
    *,
    model: Mapping[str, Any] | None,
    new: str,
    drifted: Sequence[str],
    age: float | None,
    when: When,
    train: Train,
    forced: bool = False,
) -> CycleDecision:
    """What to do.

    model   manifest of the present model, None without one;  new: what is new, in words, empty when nothing is
    drifted reasons of ``drift.verdict``;  age: seconds since the last training;  forced: a full training was asked for
    """
    if model is None:
        if new or forced:
            return CycleDecision(FULL, ["there is no model yet"])
        return CycleDecision(NOTHING, ["there is no model yet, and no new documents"])
    if forced:
        return CycleDecision(FULL, ["it was asked for"])
    full = list(drifted) if when.drift else []
    if when.at_least_every is not None and age is not None and age >= when.at_least_every:
        full.append(f"the last training was {age / 86400:.1f} days ago")
    if full:
        return CycleDecision(FULL, full)
    if new and when.new_docs:
        other = other_model(model, train)
        return CycleDecision(FULL, [new, other]) if other else CycleDecision(UPDATE, [new])
    if new:
        return CycleDecision(NOTHING, [f"{new}, but no condition holds; they wait"])
    return CycleDecision(NOTHING, ["nothing is new"])
