"""The options of a training.

One list makes the keywords of ``topicstream.train``, the options of ``topics train`` and the
settings in the run's record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from topicstream.base.memory import ThreadedOptions
from topicstream.base.options import SchedulerOptions, option, seconds, share
from topicstream.base.places import places
from topicstream.model.weighting import KINDS
from topicstream.training.stopping import tolerance


def _resolve_store(store: Any) -> Any:
    """Return the local path of a store, which may be open."""
    return places().resolve(getattr(store, "path", store))


@dataclass(frozen=True)
class TrainConfig(SchedulerOptions, ThreadedOptions):
    """All settings of a training."""

    corpus: str | Path = option(
        "corpus.zarr", "Corpus store.", env="TOPICS_CORPUS", show=True, parse=_resolve_store
    )
    model: str | Path = option("model", "Folder of the model.", env="TOPICS_MODEL", show=True)
    _: KW_ONLY
    algo: str = option(
        "auto",
        "Engine; auto chooses by corpus, -K and --mem-limit; `topics engines` lists all.",
        metavar="NAME",
        show=True,
    )
    aim: str = option(
        "prediction",
        "Objective of --algo auto: prediction (held-out likelihood) or reading (distinct, "
        "interpretable topics at a cost of up to 5 % of held-out perplexity; the last topic is "
        "then a background of words that all documents share).",
        choices=("prediction", "reading"),
        show=True,
        recorded=True,
    )
    topics: int | None = option(
        None,
        "Number of topics (default: 100; llda: one per label).",
        flags=("-K", "--topics"),
        min=1,
        max=1 << 24,
        recorded=True,
    )
    passes: int | None = option(None, "Maximum number of passes (default: the engine's).", min=1)
    tol: float | str | None = option(
        None,
        "Stop when perplexity changes by less than this: a number, between passes, two passes "
        "in a row; a share such as 0.1%, over ten passes. 0 disables the check (default: the "
        "engine's, 0.1%; on small corpora auto makes 100 passes first).",
        min=0,
        metavar="SHARE",
        parse=tolerance,
    )
    tol_params: float | None = option(
        None,
        "Stop when no p(word | topic) changes by more than this in a pass (Zeng, Cheung & Liu: "
        "0.00001). Replaces --tol unless that is given too; keeps the topics of the previous pass "
        "on disk.",
        above=0,
        metavar="CHANGE",
    )
    max_time: float | str | None = option(
        None,
        "Stop after the pass in which this time runs out, such as 90s, 30m or 2h.",
        metavar="TIME",
        parse=seconds,
        machine=True,
    )
    eval_every: int = option(
        0,
        "Measure held-out perplexity every N passes, stop by it, and keep the best pass; 0: never.",
        metavar="N",
        min=0,
        show=True,
    )
    seed: int = option(0, "Random seed.", min=0, show=True, recorded=True)
    start: str | None = option(
        None,
        "Initialisation: random, documents, kmeans, best, anchors or warm (default: the "
        "engine's first; best for up to 64 topics on large corpora, and with vb and mvi unless "
        "documents are very short).",
        recorded=True,
    )
    warm: str | Path | None = option(
        None, "Model to start from (with --start warm).", recorded=True, parse=places().resolve
    )
    seed_words: str | Path | Mapping[str, Any] | Sequence[Any] | None = option(
        None,
        'TOML file of seed words, one table per topic: [name], words = ["one", "two"], strength '
        "= TOKENS. They seed topics 0, 1, ... with these names; in Python also a mapping.",
        path="file",
        metavar="FILE",
        recorded=True,
    )
    sample: float | str | None = option(
        None,
        "Train on this share of the training documents, such as 0.1 or 10%. Samples are "
        "reproducible and nested (10% is a subset of 20%); `infer --part rest` and `compare --on "
        "rest` use the others.",
        metavar="SHARE",
        max=1,
        parse=share,
        recorded=True,
    )
    weighting: str = option(
        "none",
        "Weights instead of counts: tf (every document has the same weight) or tfidf. The model "
        "records it; `eval` scores counts.",
        choices=KINDS,
        show=True,
        recorded=True,
    )
    covariates: str | None = option(
        None,
        "Let each document's alpha depend on its metadata: a formula over columns of the store, "
        "such as 'party + s(date)' (as in `topics effects`; a column of lists counts each value; "
        "regimes(date, 5) finds change points). For sparse-bp, bp, cvb0 and sparselda.",
        metavar="FORMULA",
        recorded=True,
    )
    covariate_sd: float | None = option(
        None,
        "With --covariates: standard deviation of the prior of each coefficient, of categories and "
        "of numbers in standard deviations; smaller holds documents closer together (default: "
        "learned for each term of the formula).",
        above=0,
        max=1e3,
        advanced=True,
        recorded=True,
    )
    covariate_means: float = option(
        1.0,
        "With --covariates: weight of the documents' shares of topics beside the likelihood of "
        "their topics, which alone (0) predicts documents worse of which nothing is read.",
        min=0,
        max=100,
        show=True,
        advanced=True,
        recorded=True,
    )
    intercept_sd: float = option(
        10.0,
        "With --covariates: standard deviation of the prior of each topic's log alpha around its "
        "initial value.",
        above=0,
        max=1e3,
        show=True,
        advanced=True,
        recorded=True,
    )
    tables: str = option(
        "auto", "Where to keep the large tables.", choices=("auto", "memory", "disk"), show=True
    )
    block_cells: int | None = option(
        None, "Cells per block (default: by corpus and engine).", min=1, max=1 << 30
    )
    round_blocks: int | None = option(
        None,
        "Blocks per round, which see the same tables (default: the engine's).",
        min=1,
        max=1 << 16,
    )
    workers_min: int = option(
        1,
        "With --scheduler: end with exit code 7 if fewer workers are available.",
        metavar="N",
        min=1,
        show=True,
        machine=True,
    )
    checkpoint_minutes: float = option(
        10.0, "Write a checkpoint within a pass after this many minutes.", min=0.0, show=True
    )
    resume: bool = option(
        False,
        "Resume, and fail if there is nothing to resume (without it the same command resumes if "
        "it can).",
    )
    allow_smaller: bool = option(
        False, "With --algo auto: use an engine that stores less if the disk is too small."
    )
    force: bool = option(False, "Start over, whatever run or model the folder holds.")
    dry_run: bool = option(
        False, "Print memory, disk and expected time, measured for a few seconds; change nothing."
    )
    metrics: str | Path | None = option(
        None,
        "Write the outcome to this file, in Prometheus' text format.",
        path=True,
        metavar="FILE",
    )
    options: Mapping[str, Any] | None = option(
        None,
        "the engine's own (alpha and beta per topic and per word, ...), which may also be given "
        "as keywords: `topics engines --json` lists them",
        cli=False,
        rest=True,
    )
    warm_share: float = option(
        1.0,
        "weight of the model's topics in a warm start; the rest is the mean of the corpus",
        cli=False,
    )
    executor: Any = option(
        None,
        "what visits the blocks: a function of a topicstream.training.executor.Job, or the name "
        "of an entry point in `topicstream.executors`; None: threads of this process",
        cli=False,
    )
