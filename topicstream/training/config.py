"""Options of a training: the one list that makes ``topicstream.train``'s keywords, the options of ``topics train`` and the
settings in the run's record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from topicstream.memory import MemoryOptions
from topicstream.model.weighting import KINDS
from topicstream.options import SchedulerOptions, option, seconds, share
from topicstream.progress import Told
from topicstream.training.stopping import tolerance


@dataclass(frozen=True)
class TrainConfig(SchedulerOptions, MemoryOptions):
    """All settings of a training."""

    corpus: str | Path = option("corpus.zarr", "corpus store", env="TOPICS_CORPUS", show=True)
    model: str | Path = option("model", "folder of the model", env="TOPICS_MODEL", show=True)
    _: KW_ONLY
    algo: str = option(
        "auto",
        "engine (auto: chosen by corpus, -K and --mem-limit); `topics engines` lists them",
        metavar="NAME",
        show=True,
    )
    aim: str = option(
        "prediction",
        "objective of --algo auto: prediction (held-out likelihood) or reading (distinct, interpretable topics, for up to 5 % "
        "of held-out perplexity; the last topic is then the background, words that all documents share)",
        choices=("prediction", "reading"),
        show=True,
        recorded=True,
        was="prediction",
    )
    topics: int | None = option(
        None, "number of topics [default: 100; llda: one a label]", flags=("-K", "--topics"), min=1, max=1 << 24, recorded=True
    )
    passes: int | None = option(None, "passes at most [default: the engine's]", min=1)
    tol: float | str | None = option(
        None,
        "stop when perplexity changes by less than this between passes, two passes in a row; a share (0.1%): over ten passes; "
        "0 disables the check [default: the engine's, 0.1%; auto makes 100 cheap passes of a small corpus first]",
        min=0,
        metavar="SHARE",
        parse=tolerance,
    )
    tol_params: float | None = option(
        None,
        "stop when no topic's probability of a word moved by more than this in a pass (Zeng, Cheung & Liu: 0.00001), in the "
        "place of --tol unless that is given; keeps the topics of the pass before on disk",
        above=0,
        metavar="CHANGE",
    )
    max_time: float | str | None = option(
        None, "stop after the pass in which this time is over (90s, 30m, 2h)", metavar="TIME", parse=seconds
    )
    eval_every: int = option(
        0,
        "measure held-out perplexity every N passes: it then decides when to stop, and the best pass is kept; 0: never",
        metavar="N",
        min=0,
        show=True,
    )
    seed: int = option(0, "seed of every random choice", min=0, show=True, recorded=True)
    start: str | None = option(
        None,
        "random, documents, kmeans, best, anchors or warm [default: the engine's first; best for few topics of a big corpus, and "
        "for those of vb and mvi unless documents are very short]",
        recorded=True,
    )
    warm: str | Path | None = option(None, "model to start from (with --start warm)", path="exists", recorded=True)
    seed_words: str | Path | Mapping[str, Any] | Sequence[Any] | None = option(
        None,
        'TOML file of seed words for topics ([name], words = ["one", "two"], strength = TOKENS): topics '
        "0, 1, ... of that name; in the library also a mapping of what it would hold",
        path="file",
        metavar="FILE",
        recorded=True,
        was=None,
    )
    sample: float | str | None = option(
        None,
        "learn from this share of the training documents, 0.1 or 10% (by a hash of their ids: those of 10% are among those of 20%); "
        "`infer --part rest` and `compare --on rest` take the others",
        metavar="SHARE",
        max=1,
        parse=share,
        recorded=True,
        was=None,
    )
    weighting: str = option(
        "none",
        "weights in the place of counts: tf (every document weighs alike) or tfidf; the model keeps it, eval judges on counts",
        choices=KINDS,
        show=True,
        recorded=True,
        was="none",
    )
    threads: int | None = option(None, "threads [default: the processors]; never changes the result", min=1, max=4096)
    tables: str = option("auto", "where the big tables live", choices=("auto", "memory", "disk"), show=True)
    block_cells: int | None = option(None, "cells of a block [default: by corpus and engine]", min=1, max=1 << 30)
    round_blocks: int | None = option(None, "blocks that see the same tables [default: the engine's]", min=1, max=1 << 16)
    workers_min: int = option(
        1, "with --scheduler: end with exit code 7 when fewer workers are there", metavar="N", min=1, show=True
    )
    checkpoint_minutes: float = option(10.0, "also inside a pass, when it takes longer than this", min=0.0, show=True)
    resume: bool = option(False, "carry on (the same command does so by itself); fail when there is nothing to resume")
    allow_smaller: bool = option(False, "with --algo auto: take an engine that keeps less where the disk is too small")
    force: bool = option(False, "start over, whatever the folder holds")
    dry_run: bool = option(False, "print memory, disk and expected time (measured for some seconds); change nothing")
    metrics: str | Path | None = option(
        None, "write how it went to this file, in Prometheus' text format", path=True, metavar="FILE"
    )
    options: Mapping[str, Any] | None = option(
        None, "the engine's own (alpha and beta per topic and per word, ...): see `topics engines --json`", cli=False
    )
    carry: str | Path | None = option(
        None,
        "folder of a finished run on the head of this corpus: its tables and block memory are taken over and only the "
        "blocks behind are started, from `warm` (training/starts/carry.py)",
        cli=False,
    )
    warm_share: float = option(
        1.0, "of a warm start that is the model's topics; the rest is the mean of the corpus", cli=False
    )
    executor: Any = option(
        None,
        "who visits the blocks: a function of a topicstream.training.executor.Job, or the name of an entry point in "
        "`topicstream.executors`; None: threads of this process",
        cli=False,
    )
    progress: Told = option(None, "progress listener (topicstream/progress.py); False: nothing", cli=False)
