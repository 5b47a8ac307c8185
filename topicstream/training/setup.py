"""The decisions of a run: corpus, engine, start, rounds, end and plan, before it begins.

``resolve`` makes them in order. The functions behind it stand in the order in which it calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.base import machine, plugins
from topicstream.base.errors import DoesNotFit, InputError, UsageError
from topicstream.base.options import checked, seconds, share
from topicstream.base.progress import Progress, listener, screen_listener
from topicstream.base.text import noun_of
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import select_sample
from topicstream.engines import engines, find
from topicstream.engines.base import TOPICS, About, BlockShape, Engine, Layout, Shape, passes_needed
from topicstream.engines.covariates import passes_for_regimes
from topicstream.engines.shapes import PriorShape
from topicstream.model.design import PriorDesign
from topicstream.model.manifest import read_manifest
from topicstream.model.weighting import Weights
from topicstream.training.auto import (
    apply_choice,
    choose_engine,
    choose_smaller,
    name_least_limit,
)
from topicstream.training.config import TrainConfig
from topicstream.training.covariates import find_design, prior_shape
from topicstream.training.executor import MakeExecutor
from topicstream.training.plan import Allowance, Plan, Work, make_plan
from topicstream.training.starts.best import pays
from topicstream.training.starts.seeded import SeededStart, add_seed_words
from topicstream.training.starts.start import Start, seeds_blocks
from topicstream.training.starts.warm import WarmStart
from topicstream.training.state.record import (
    RECORDED,
    RunRecord,
    compare_runs,
    free_disk,
    read_decided_options,
    read_recorded_start,
    topics_bytes,
)
from topicstream.training.stopping import CELLS, LONG, Stopping, tolerance
from topicstream.training.table_bytes import state_bytes_of_pass
from topicstream.training.threads import find_executor

POOR_ON_SHORT = "45 to 60 %"
"""Loss of perplexity on short texts (docs/internals/decisions/short-texts.md)."""


@dataclass(frozen=True)
class TrainingRun:
    """A run as the configuration asks for it, with everything decided that it leaves open.

    Attributes
    ----------
    folder
        Folder of the model.
    record
        Everything that the result depends on.
    engine, corpus
        The algorithm, and the store: sampled and weighted.
    layout
        Sizes of blocks and rounds.
    grid, block
        The blocks of a pass, and the largest sizes over them.
    n_w
        float64[W], training tokens (or weights) of each word.
    start
        The first topics.
    stopping
        The rules by which the run ends.
    plan
        Memory and disk of the run.
    executor
        A function that makes what visits the blocks.
    progress
        Shows the user how far the run is.
    design
        Design of the covariates that the documents' priors depend on, or None.
    """

    folder: Path
    record: RunRecord
    engine: Engine
    corpus: Corpus
    layout: Layout
    grid: Grid
    block: BlockShape
    n_w: np.ndarray
    start: Start
    stopping: Stopping
    plan: Plan
    executor: MakeExecutor
    progress: Progress
    design: PriorDesign | None = None


def resolve(config: TrainConfig, progress: Progress) -> TrainingRun:
    """Decide everything that a configuration leaves open, and write nothing.

    ``--algo auto`` chooses the engine by the corpus. Where the plan of that engine does not fit,
    it takes the one that stores least, provided that ``--allow-smaller`` or a stated limit permits
    it.

    Raises
    ------
    UsageError, InputError
        Options, corpus and engine do not fit together.
    TopicsError
        The folder holds a run with other settings.
    DoesNotFit
        Memory or disk cannot hold a run with any permitted engine.
    """
    corpus = open_corpus(config)
    if config.algo != "auto":
        return resolve_with_engine(config, corpus, progress)
    shape = shape_of(corpus, config.topics or TOPICS)
    choice = choose_engine(config, shape)
    progress.say(f"algo auto: {choice.algo}, {choice.reason}")
    try:
        return resolve_with_engine(apply_choice(choice, config), corpus, progress)
    except DoesNotFit as error:
        smaller = choose_smaller(config, choice, shape, error)
        progress.say(f"algo auto: {choice.algo} needs more than the limit; trying {smaller.algo}")
        try:
            return resolve_with_engine(apply_choice(smaller, config), corpus, progress)
        except DoesNotFit as smaller_error:
            raise name_least_limit(choice, error, smaller, smaller_error) from None


def resolve_with_engine(config: TrainConfig, corpus: Corpus, progress: Progress) -> TrainingRun:
    """Decide the rest of a run whose engine has a name.

    Raises
    ------
    TopicsError
        See ``resolve``.
    """
    n_w = corpus.word_counts() if corpus.weights is None else corpus.weights.n_w
    design = find_design(config, corpus, progress)
    engine, seed_words = make_engine_of_run(config, corpus, n_w, progress, design)
    start_name = choose_start(config, engine)
    start = make_start(start_name, engine, config.warm, config.warm_share)
    start.check(engine)
    layout = Layout(
        config.block_cells or engine.layout.block_cells,
        engine.layout.block_docs,
        config.round_blocks or engine.layout.round_blocks,
    )
    stopping = make_stopping(config, engine, progress)
    if design is not None:
        _warn_of_unlearned_covariates(engine, stopping.passes, progress)
    grid = corpus.grid(layout.block_cells, layout.block_docs, axes=engine.about.axes)
    block = find_largest_block(engine, grid, n_w)
    record = make_record(config, engine, corpus, layout, start_name, seed_words)
    check_folder(config, record, corpus, progress)
    work = Work(
        engine,
        layout,
        block,
        pass_state=state_bytes_of_pass(engine, grid),
        start=start.memory(engine, block),
        seeded=seeds_blocks(engine, start),
        keeps_best=bool(stopping.eval_every),
    )
    return TrainingRun(
        folder=Path(config.model),
        record=record,
        engine=engine,
        corpus=corpus,
        layout=layout,
        grid=grid,
        block=block,
        n_w=n_w,
        start=start,
        stopping=stopping,
        plan=make_plan(work, find_allowance(config, engine, stopping)),
        executor=find_executor(config.executor),
        progress=progress,
        design=design,
    )


def open_corpus(config: TrainConfig) -> Corpus:
    """Open the corpus of a run, sampled and weighted as the configuration asks.

    Raises
    ------
    UsageError, InputError
        It holds nothing that the engine can train on.
    """
    store = Corpus.open(config.corpus, dense=True)
    is_dense = bool(store.width)
    takes_dense = config.algo != "auto" and find(config.algo).about.dense
    if is_dense != takes_dense:
        fitting = [name for name, kind in engines().items() if kind.about.dense == is_dense]
        raise UsageError(
            f"{store.path}: holds {noun_of(store.width)}, which --algo {config.algo} does not "
            f"take; choose another (`topics engines` lists them), such as {fitting[-1]}"
        )
    part = parse_sample(config)
    if part is not None:
        store = _sample_corpus(store, part, config)
    if store.n_cells == 0:
        raise InputError(
            f"{store.path}: no training document contains a word of the vocabulary; ingest "
            f"again with other documents or another vocabulary"
        )
    weigh_cells(store, config.weighting)
    return store


def parse_sample(config: TrainConfig) -> float | None:
    """Return the requested share of the training documents, or None for all."""
    return None if config.sample is None else float(share(config.sample))


def _sample_corpus(store: Corpus, part: float, config: TrainConfig) -> Corpus:
    """Return a share of a corpus, if the engine reads words alone."""
    axes = [] if config.algo == "auto" else find(config.algo).about.axes
    if store.width or axes:
        noun = axes[0] if axes else noun_of(store.width)
        raise UsageError(
            f"--sample: --algo {config.algo} reads {noun}, which cannot be sampled; `topics "
            f"ingest --heldout` sets documents aside"
        )
    sample = select_sample(store, part)
    listener(config.progress, screen_listener).say(
        f"sample: {sample.n_docs:,} of {store.n_docs:,} training documents"
    )
    return sample


def weigh_cells(store: Corpus, kind: str) -> None:
    """Make a store's blocks yield weights instead of counts, unless ``kind`` is "none"."""
    if kind == "none":
        return
    if store.weighted:
        raise InputError(
            f"{store.path}: has real-valued cells; --weighting {kind} weighs counts, leave it out"
        )
    store.weights = TrainingWeights.from_corpus(kind, store)


@dataclass(frozen=True)
class TrainingWeights(Weights):
    """Weights of cells, with sums over the training documents.

    Attributes
    ----------
    n_w
        float64[W], sums of the weighted cells of each word.
    counts
        float64[W], sums of the unweighted cells.
    """

    n_w: np.ndarray = field(default_factory=lambda: np.zeros(0))
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def from_corpus(cls, kind: str, corpus: Corpus) -> TrainingWeights:
        """Compute the weights of the training documents, in one more reading for tf."""
        counts = corpus.word_counts()
        weights = Weights.from_counts(kind, counts, corpus.document_counts(), corpus.n_docs)
        blocks: Iterable[Any] = ()
        if weights.per_word is None:
            blocks = map(weights.weigh_block, corpus.blocks())
        n_w = weights.sum_by_word(counts, blocks)
        return cls(weights.about, weights.per_word, n_w, counts)


def shape_of(store: Corpus, topics: int) -> Shape:
    """Describe the training problem of a store, without its axes."""
    weighted = store.weighted or store.weights is not None
    return Shape(
        store.n_docs, store.n_words, store.n_cells, float(store.n_tokens), topics, weighted
    )


def make_options(engine: type[Engine], values: Mapping[str, Any]) -> Any:
    """Build the engine's Options from plain values.

    Raises
    ------
    TopicsError
        An option is unknown or invalid.
    """
    return engine.Options(**checked(engine.Options, values, engine.name, beside=TrainConfig))


def make_engine(
    kind: type[Engine],
    store: Corpus,
    options: Any,
    topics: int | None,
    prior: Callable[[int], PriorShape | None] = lambda topics: None,
) -> Engine:
    """Make an engine for a store.

    Parameters
    ----------
    topics
        The requested number of topics, None if the user gave none.
    prior
        A function of the number of topics that describes the covariates of the documents' priors.
    """
    about = kind.about
    axes = {name: store.axes[name].size for name in about.axes}
    shape = shape_of(store, about.topics(axes, options, topics))
    shape = replace(shape, axes=axes, rows=sum(entry.docs for entry in store.part().blocks))
    if about.topics_axis:
        shape = replace(shape, bare={about.topics_axis: count_bare_cells(store, about.topics_axis)})
    return kind(replace(shape, covariates=prior(shape.topics)), options)


def engine_facts(algo: str) -> About:
    """Return the facts about the engine of this name.

    Raises
    ------
    UsageError
        There is no such engine.
    """
    return find(algo).about


def count_bare_cells(store: Corpus, axis: str) -> int:
    """Count the cells of the training documents without an id of the axis."""
    cells = 0
    for number in range(len(store.part().blocks)):
        ids_of_document = store.lists(axis, number)[0]
        cells += int(store.lengths(number)[ids_of_document == 0].sum(dtype=np.int64))
    return cells


def make_engine_of_run(
    config: TrainConfig,
    store: Corpus,
    n_w: np.ndarray,
    progress: Progress,
    design: PriorDesign | None = None,
) -> tuple[Engine, Any]:
    """Make the engine for this corpus, and the seed words for the run's record.

    A run that is continued keeps the options that it decided at its beginning.
    """
    algo = config.algo
    kind = find(algo)
    if store.weights is not None and not kind.about.real_cells:
        raise InputError(
            f"--weighting {config.weighting}: {algo} needs whole counts; leave it out or use an "
            f"engine such as sparse-bp"
        )
    if store.weighted and not kind.about.real_cells:
        raise InputError(
            f"{store.path} has real-valued cells and {algo} needs whole counts; use a "
            f"message-passing engine such as sparse-bp"
        )
    if kind.about.products:
        machine.one_blas_thread()
    options = dict(config.options or {})
    if not config.force:
        options |= read_decided_options(Path(config.model), algo, options)
    prior = partial(prior_shape, design, config)
    engine = make_engine(kind, store, make_options(kind, options), config.topics, prior)
    engine, seed_words, warnings = add_seed_words(engine, config.seed_words, store, n_w)
    topics = engine.shape.topics
    docs = engine.shape.docs
    if kind.about.poor_on_short and engine.shape.short:
        warnings.append(
            f"documents have {engine.shape.length:.1f} words on average, and --algo {algo} needs "
            f"longer ones: on titles its held-out perplexity was {POOR_ON_SHORT} higher than "
            f"that of --algo sparselda"
        )
    if topics > docs:
        warnings.append(
            f"{topics:,} topics for {docs:,} training documents: most will be empty or repeat a "
            f"single document; use fewer topics (-K)"
        )
    for warning in warnings:
        progress.say(f"warning: {warning}")
    return engine, seed_words


def choose_start(config: TrainConfig, engine: Engine) -> str:
    """Name the start of the run.

    Raises
    ------
    UsageError
        The engine cannot start so.
    """
    chosen = config.start
    if chosen is None and config.warm is not None:
        chosen = "warm"
    if chosen is None and not config.force:
        chosen = read_recorded_start(Path(config.model), engine.name)
    chosen = chosen or default_start(engine)
    foreign = set(plugins.entries(plugins.STARTS)) - set(plugins.own_names(plugins.STARTS))
    takes_foreign = chosen in foreign and not engine.about.dense
    if chosen not in engine.about.starts and not takes_foreign:
        raise UsageError(
            f"{config.algo} cannot start from {chosen!r}; choose {', '.join(engine.about.starts)}"
        )
    if (chosen == "warm") != (config.warm is not None):
        raise UsageError(
            "--start warm and --warm MODEL must be given together: --start warm --warm MODEL"
        )
    return chosen


def default_start(engine: Engine) -> str:
    """Return the engine's default start, or ``best`` instead of ``documents`` where it pays."""
    about = engine.about
    shape = engine.shape
    first = "documents" if shape.topics >= about.documents_from else about.starts[0]
    if first == "documents" and "best" in about.starts and pays(shape, about):
        return "best"
    return first


def make_start(
    name: str, engine: Engine, warm: str | Path | None = None, warm_share: float = 1.0
) -> Start:
    """Make the start of this name.

    Parameters
    ----------
    warm, warm_share
        The model to start from, and the weight of its topics.
    """
    if name == "warm" and not engine.about.dense:
        assert warm is not None
        return WarmStart(warm, warm_share)
    kind: type[Start] = plugins.find(plugins.STARTS, engine.registered_start(name), "--start")
    start = kind.for_engine(engine)
    return start if engine.about.dense else SeededStart(start)


def make_stopping(config: TrainConfig, engine: Engine, progress: Progress) -> Stopping:
    """Decide when the run ends.

    Raises
    ------
    UsageError
        ``--tol-params`` is given for an engine that does not update topics in every pass.
    """
    if config.tol_params is not None and ("phi" not in engine.tables or len(engine.phases) > 1):
        raise UsageError(
            f"--tol-params: {config.algo} does not update topics in every pass; leave it out"
        )
    tol = config.tol
    if tol is None:
        tol = engine.about.tol if config.tol_params is None else 0.0
    is_default = config.tol is None and not config.eval_every
    least = 0
    if is_default and engine.phases[-1].settles_after:
        least = min(LONG, CELLS // engine.shape.cells)
    stopping = Stopping(
        config.passes if config.passes is not None else engine.about.passes,
        tolerance(tol),
        seconds(config.max_time),
        config.eval_every,
        config.tol_params or 0.0,
        least,
    )
    needed = passes_needed(engine.phases)
    if needed is None:
        return stopping
    if config.passes not in (None, needed):
        progress.say(f"{config.algo} makes {needed} passes, whatever --passes says")
    return replace(stopping, passes=needed, tol=0.0)


def find_largest_block(engine: Engine, grid: Grid, n_w: np.ndarray) -> BlockShape:
    """Return the largest sizes over the blocks of a grid."""
    has_token_state = any(spec.per == "token" for spec in engine.state.values())
    return BlockShape(
        docs=int(grid.docs.max()),
        cells=int(grid.cells.max()),
        tokens=int(grid.tokens.max()) if has_token_state else 0,
        words=grid.max_words,
        longest=grid.longest,
        table_entries=int(np.minimum(n_w, engine.shape.topics).sum()),
        heaviest=int(n_w.max()),
        axes=dict(grid.axes),
    )


def make_record(
    config: TrainConfig,
    engine: Engine,
    corpus: Corpus,
    layout: Layout,
    start: str,
    seed_words: Any,
) -> RunRecord:
    """Make the record of everything that the result depends on."""
    resolved = {
        "topics": engine.shape.topics,
        "start": start,
        "warm": None if config.warm is None else str(Path(config.warm).resolve()),
        "seed_words": seed_words,
        "sample": parse_sample(config),
    }
    settings = {name: getattr(config, name) for name in RECORDED} | resolved
    return RunRecord(
        engine=engine.name,
        cites=engine.cites,
        options=asdict(engine.options),
        layout=asdict(layout),
        corpus=corpus.fingerprint,
        versions=machine.versions(),
        **settings,
    )


def check_folder(
    config: TrainConfig, record: RunRecord, corpus: Corpus, progress: Progress
) -> None:
    """Check that a model in the folder can be replaced, and a run in it continued.

    Raises
    ------
    StoreError
        The model cannot be read.
    TopicsError
        The run has other settings.
    """
    folder = Path(config.model)
    if (folder / "manifest.json").exists():
        read_manifest(folder)
    if config.force:
        return
    for warning in compare_runs(folder, record, corpus.has_fingerprint):
        progress.say(f"warning: {warning}")


def _warn_of_unlearned_covariates(engine: Engine, passes: int, progress: Progress) -> None:
    """Warn where a run ends before the engine learns priors from the covariates."""
    after = getattr(engine.options, "learn_after", 0)
    if passes <= after:
        progress.say(
            f"warning: priors are learned after pass {after} and the run has {passes}, so "
            f"--covariates will change nothing; use more --passes, or a lower --learn-after"
        )
        return
    prior = engine.shape.covariates
    least = passes_for_regimes(after)
    if prior is not None and prior.periods and passes < least:
        progress.say(
            f"warning: --covariates: regimes need {least} passes to be found and used, and the "
            f"run has {passes}; use more --passes"
        )


def find_allowance(config: TrainConfig, engine: Engine, stopping: Stopping) -> Allowance:
    """Find the memory, threads and disk that the run may use."""
    folder = Path(config.model)
    shape = engine.shape
    reserved = topics_bytes(shape.words, shape.topics) if stopping.tol_params else 0
    return Allowance(
        config.memory,
        config.threads or machine.default_threads(),
        config.tables,
        free_disk(folder) - reserved,
        str(folder),
        machine.process_bytes(),
    )
