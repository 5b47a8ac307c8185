"""The decision between nothing, an update and a full training, with its reasons in words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime

from topicstream.base.progress import Progress
from topicstream.base.records import plain
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.upkeep.compact import compaction_gain
from topicstream.model.manifest import ModelManifest
from topicstream.model.seeds import read_seeds
from topicstream.retraining.config import Config, Train, When
from topicstream.retraining.raw_files import Scan
from topicstream.retraining.state import Decision, RetrainState
from topicstream.training.setup import engine_facts


def now() -> datetime:
    """Return the present time, UTC."""
    return datetime.now(UTC)


def read_fingerprint(config: Config) -> str | None:
    """Return the fingerprint of the corpus store, if there is one."""
    if (config.corpus / "manifest.json").exists():
        return Corpus.open(config.corpus).fingerprint
    return None


def describe_news(
    config: Config, state: RetrainState, scan: Scan, model: ModelManifest | None
) -> str:
    """Describe new files, or documents that the model was not trained on, or return "".

    Documents are not new if the gate refused a model that was trained on them.
    """
    if scan.any:
        counts = [(len(scan.new), "new"), (len(scan.changed), "changed")]
        return " and ".join(f"{n} {noun} file{'s' if n > 1 else ''}" for n, noun in counts if n)
    if read_fingerprint(config) is None:
        return ""
    corpora = [model.corpus.fingerprint] if model is not None else []
    corpora += [state.refused.corpus] if state.refused is not None else []
    if any(map(Corpus.open(config.corpus).has_fingerprint, corpora)):
        return ""
    return "documents in the corpus that the model was not trained on"


def seconds_since_training(state: RetrainState, log: Progress) -> float | None:
    """Return the seconds since the last full training, finished or not.

    They are 0 if the clock was set back, and None before the first training.
    """
    try:
        last = datetime.fromisoformat(state.last_tried or state.last_trained or "")
    except ValueError:  # there is none, or it is no date
        return None
    if last.tzinfo is None:
        last = last.replace(tzinfo=UTC)
    seconds = (now() - last).total_seconds()
    if seconds < 0:
        log.say(
            f"warning: the clock is {-seconds:.0f} s behind the last full training; assuming "
            f"that no time has passed"
        )
    return max(seconds, 0.0)


def hash_settings(config: Config) -> str:
    """Hash the settings, seed words and corpus that a training depends on."""
    settings = config.train.model_settings() | {"corpus": read_fingerprint(config)}
    if config.train.seed_words is not None:
        settings["seed_words"] = plain(read_seeds(config.train.seed_words))
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def describe_spare_blocks(config: Config, decision: Decision) -> str:
    """Describe why to compact the corpus before the training, or return ""."""
    rule = config.store.compact
    spare, blocks, purged = compaction_gain(Corpus.open(config.corpus))
    pays = rule == "always" or purged or 2 * spare >= blocks or decision == "full"
    if rule == "never" or not pays or not (spare or purged):
        return ""
    return f"{spare} of {blocks} blocks to spare, {purged:,} removed documents"


def describe_model_change(manifest: ModelManifest, train: Train) -> str | None:
    """Describe why no update leads to the configured model, or return None."""
    if train.topics != manifest.topics:
        return f"the config asks for {train.topics} topics, the model has {manifest.topics}"
    if train.algo not in ("auto", manifest.engine):
        return f"the config asks for {train.algo}, the model was made by {manifest.engine}"
    formula = None if manifest.covariates is None else manifest.covariates.formula
    if train.covariates != formula:
        return (
            f"the config asks for the covariates {train.covariates or 'none'}, the model has "
            f"{formula or 'none'}"
        )
    if "warm" not in engine_facts(str(manifest.engine)).starts:
        return f"{manifest.engine} cannot start from a model"
    return None


def decide(
    model: ModelManifest | None,
    new: str,
    drifted: Sequence[str],
    age: float | None,
    when: When,
    train: Train,
    forced: bool = False,
) -> tuple[Decision, list[str]]:
    """Decide what to do, and give at least one reason.

    Parameters
    ----------
    model
        Manifest of the present model, if there is one.
    new
        New files or documents, in words (``describe_news``).
    drifted
        Drift of the new documents, in words.
    age
        Seconds since the last full training.
    when, train
        The settings.
    forced
        A full training was asked for.
    """
    if model is None:
        if new or forced:
            return ("full", ["there is no model yet"])
        return ("nothing", ["there is no model yet, and no new documents"])
    if forced:
        return ("full", ["it was asked for"])
    full = list(drifted) if when.drift else []
    if when.at_least_every is not None and age is not None and age >= when.at_least_every:
        full.append(f"the last full training was {age / 86400:.1f} days ago")
    if full:
        return ("full", full)
    if new and when.new_docs:
        other = describe_model_change(model, train)
        return ("full", [new, other]) if other else ("update", [new])
    return ("nothing", [f"{new}, but no condition holds; they wait" if new else "nothing is new"])
