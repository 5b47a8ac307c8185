"""When a retrain compacts the corpus before it trains: where that costs nothing, or has become worth a start of every block."""

from __future__ import annotations

from pathlib import Path

from topicstream.corpus.reader import Corpus
from topicstream.ingestion.upkeep.compact import gain
from topicstream.model.store import read_manifest
from topicstream.retraining import decide as rules
from topicstream.retraining.config import Config
from topicstream.retraining.update import not_carried

MANY = 32
"""Storage blocks from which on half of them to spare are worth starting every block of an update from the model."""


def worth(config: Config, decision: str, base: tuple[Path, Path] | None) -> str:
    """Why the corpus is to be compacted now, in words; empty where it is not.  base: the present version and its run."""
    if config.store.compact == "never":
        return ""
    corpus = Corpus.open(config.corpus)
    spare, blocks, purged = gain(corpus)
    if not (spare or purged):
        return ""
    what = f"{spare} of {blocks} blocks to spare, {purged:,} removed documents"
    if config.store.compact == "always" or (blocks >= MANY and 2 * spare >= blocks):
        return what
    if decision == rules.FULL or base is None:
        return f"{what}; this training starts every block anyway"
    if why := not_carried(corpus, read_manifest(base[0]), base[1]):
        return f"{what}; this update starts every block anyway ({why})"
    return ""
