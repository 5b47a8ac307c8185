"""The options of a sweep.

One list makes ``topicstream.sweep``'s keywords and the options of ``topics sweep``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from pathlib import Path
from typing import Any

from topicstream.base.errors import UsageError
from topicstream.base.memory import ThreadedOptions
from topicstream.base.options import SchedulerOptions, like, listed_names, numbers, option
from topicstream.training.config import TrainConfig


def _parse_value(text: str) -> Any:
    """Parse a number, true, false or none, or return the text itself."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def values(
    options: Sequence[str] | Mapping[str, Sequence[Any]],
) -> Mapping[str, Sequence[Any]]:
    """Parse options and their values: [``alpha=0.05,0.1``] gives {alpha: [0.05, 0.1]}."""
    if isinstance(options, Mapping):
        return options
    out = {}
    for text in options:
        name, sign, texts = text.partition("=")
        if not sign or not texts:
            raise UsageError(
                f"{text}: expected an engine option and its values, such as alpha=0.05,0.1"
            )
        out[name.strip().replace("-", "_")] = [_parse_value(v.strip()) for v in texts.split(",")]
    return out


def parse_seeds(seeds: int | str | Sequence[int]) -> Sequence[int]:
    """Parse a number of seeds from 0 on (``3``), or a list of seeds (``5,6``)."""
    seeds_given = numbers(seeds)
    if isinstance(seeds, int) or (isinstance(seeds, str) and "," not in seeds):
        return range(seeds_given[0])
    return seeds_given


@dataclass(frozen=True)
class SweepConfig(SchedulerOptions, ThreadedOptions):
    """All settings of a sweep."""

    corpus: str | Path = like(TrainConfig, "corpus")
    out: str | Path = option(
        "sweep",
        "Folder for models, results and sweep.parquet.",
        flags=("-o", "--out"),
        metavar="FOLDER",
        show=True,
    )
    _: KW_ONLY
    topics: str | Sequence[int] = option(
        MISSING,
        "Numbers of topics.",
        flags=("-K", "--topics"),
        metavar="N,N,...",
        parse=numbers,
        after="corpus",
    )
    seeds: int | str | Sequence[int] = option(
        3,
        "Trainings per setting, or their seeds (5,6,7).",
        metavar="N|SEED,SEED,...",
        parse=parse_seeds,
        show=True,
    )
    algo: str | Sequence[str] = option(
        "auto", "Engines.", metavar="NAME,...", parse=listed_names, show=True
    )
    options: Sequence[str] | Mapping[str, Sequence[Any]] | None = option(
        None,
        "Values of an engine's option.",
        flags=("--option",),
        metavar="NAME=V,V,...",
        multiple=True,
        parse=values,
    )
    covariates: str | Sequence[str] | None = option(
        None,
        "Compare formulas of covariates in the prior, and none (repeatable, the simplest first).",
        metavar="FORMULA",
        multiple=True,
    )
    passes: int | None = like(
        TrainConfig,
        "passes",
        help="Maximum number of passes (default: the engine's).",
        show=False,
        after=None,
    )
    tol: float | str | None = like(
        TrainConfig,
        "tol",
        help="Stop a training when perplexity changes by less than this, as in `topics train`.",
        show=False,
        after=None,
    )
    measures: bool = option(
        False,
        "Also compute Arun 2010, Cao and Juan 2009 and Mimno 2011, which single-cell studies "
        "choose by; costs "
        "one more inference per run.",
    )
    table: str | Path | None = option(
        None,
        "Write a row per setting as .csv, .tex, .md, .parquet or .jsonl.",
        path="file",
        metavar="FILE",
    )
    seed_words: Any = option(
        None, "TOML file of seed words, as in `topics train`.", path="file", metavar="FILE"
    )
    force: bool = option(False, "Replace an existing table or figure.")
    said: Callable[[str], None] | None = option(
        None, "called with a line when a run is done", cli=False
    )
