"""What an update is told: the one list that makes ``topicstream.update``'s keywords and the options of ``topics update``."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any

from topicstream.options import like, option
from topicstream.progress import Told
from topicstream.training.config import TrainConfig


@dataclass(frozen=True)
class UpdateConfig:
    """All settings of an update; engine, options, seed and number of topics are the model's."""

    corpus: str | Path = like(TrainConfig, "corpus")
    model: str | Path = like(TrainConfig, "model")
    _: KW_ONLY
    out: str | Path | None = option(
        None, "write the new model there and leave the old one [default: replace it]", path=True
    )
    passes: int | None = like(
        TrainConfig, "passes", help="passes at most [default: 15; 20 where every block starts anew]"
    )
    tol: float | str | None = like(
        TrainConfig,
        "tol",
        help="stop when running perplexity changes by less, as of train [default: 0.3 of the engine's]",
    )
    max_time: float | str | None = like(
        TrainConfig, "max_time", help="stop after the pass in which this time is over"
    )
    eval_every: int = like(TrainConfig, "eval_every", show=False)
    threads: int | None = like(TrainConfig, "threads")
    mem_limit: str | int | None = like(
        TrainConfig, "mem_limit", help="memory of the whole process [default: 70 % of what there is]"
    )
    tables: str = like(TrainConfig, "tables", help="where the tables live", show=False)
    checkpoint_minutes: float = like(TrainConfig, "checkpoint_minutes", cli=False)
    force: bool = option(False, "forget an unfinished update")
    metrics: str | Path | None = like(TrainConfig, "metrics")
    progress: Told = like(TrainConfig, "progress")

    def limits(self) -> dict[str, Any]:
        """What training is told as it stands."""
        own = ("corpus", "model", "out", "force", "passes", "progress", "metrics")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in own}
