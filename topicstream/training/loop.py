"""Train a model: plan, start, pass after pass, checkpoint, stop, store.  The library twin of ``topics train``."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from topicstream import machine
from topicstream.corpus.reader import Corpus
from topicstream.engines import find
from topicstream.engines.base import TOPICS, BlockShape, Engine, Layout, Shape, option_fields
from topicstream.errors import DiskTooSmall, DoesNotFit, InputError, Interrupted, TopicsError, UsageError
from topicstream.files import owned
from topicstream.files.durable import lock
from topicstream.files.ownership import check_place, claim, kind_of, refuse_strangers
from topicstream.files.plain import refuse_links
from topicstream.kernels.ahead import elsewhere
from topicstream.kernels.jit import kept, say_before_compiling
from topicstream.metrics import recorded as recorded_metrics
from topicstream.model.store import read_manifest
from topicstream.options import checked, configured, seconds
from topicstream.progress import Progress, Shown, listener
from topicstream.training.auto import SMALLEST, Choice, resolve_engine, smallest
from topicstream.training.config import TrainConfig
from topicstream.training.plan import make_plan, memory_bytes
from topicstream.training.rehearsal import PlanOnly, rehearse
from topicstream.training.session import Session
from topicstream.training.starts.anchor_start import anchor_bytes, anchor_engine
from topicstream.training.starts.carry import CARRIED, check_carried
from topicstream.training.starts.cluster_start import cluster_start_bytes
from topicstream.training.starts.initial import warm_bytes
from topicstream.training.starts.seeded import with_seeds
from topicstream.training.starts.tries import pays, tries_bytes
from topicstream.training.starts.vectors import sample_bytes
from topicstream.training.state.record import Record, left_open, read_record, remember, same_or_refuse
from topicstream.training.state.settled_topics import settled_bytes
from topicstream.training.stopping import Signals, Stopping, tolerance
from topicstream.training.warm import spec
from topicstream.training.warmup import Warmed, warm_up
from topicstream.training.weights import TrainingWeights

# what a run leaves in a model folder beside the model
RUN_FILES, RUN_FOLDERS = ("training.json", "history.jsonl", "finished.json", CARRIED), ("checkpoints", "work")


@dataclass(frozen=True)
class Trained:
    """What ``train`` did: the model's folder, passes made in all, why it stopped, the last history record, the number of
    topics."""

    model: Path
    passes: int
    reason: str
    last: Mapping[str, Any]
    topics: int = 0


def make_options(engine: type[Engine], given: Mapping[str, Any]) -> Any:
    """The engine's Options from plain values; TopicsError naming an unknown or impossible one."""
    return engine.Options(**checked(engine.Options.__dataclass_fields__, given, engine.name))


@configured(TrainConfig)
def train(config: TrainConfig) -> Trained:
    """Train ``topics`` topics (100 where not said; those of ``llda`` follow from the labels) on a corpus store with engine
    ``algo`` (``auto`` chooses and says why) and store them in the
    folder ``model``.

    Called again with the same arguments it carries on where an interrupted run stopped, does nothing when the run is
    finished, and continues it when ``passes`` is higher.  ``force`` starts anew.  ``mem_limit`` is a promise about the whole
    process.

    Raises DoesNotFit when memory or disk cannot hold it, Busy when another process trains this model, Interrupted after
    a signal (a checkpoint has been written), TopicsError when options or corpus differ from those of the run to resume.
    """
    if config.metrics is not None:
        with recorded_metrics(config.metrics, "train", model=config.model) as tell:
            done = train(replace(config, metrics=None))
            tell({"passes": done.passes, **figures_of(done.last)})
        return done
    if config.aim == "reading" and config.algo != "auto":
        raise UsageError("--aim reading: says what auto is to choose; --algo sparse-bp has --background and --sparsity")
    if config.dry_run:
        return _dry_run(config)
    return _train(config, None)


def figures_of(last: Mapping[str, Any]) -> dict[str, Any]:
    """What metrics say of the last pass."""
    return {**last, "pass_seconds": last.get("seconds")}


def _dry_run(config: TrainConfig) -> Trained:
    """Plan and rehearse in a folder beside the model's that goes away again."""
    folder = Path(config.model).absolute()
    near = next(p for p in folder.parents if p.is_dir())
    told = PlanOnly(listener(config.progress, Shown))
    with tempfile.TemporaryDirectory(dir=near, prefix="topics-dry-run-") as place:
        own = Path(place) / "model"
        done = _train(replace(config, model=own, force=False, resume=False, compiled=None, progress=told), rehearse)
    return replace(done, model=Path(config.model))


Rehearsal = Callable[[Session, Stopping], dict[str, Any]]


def _train(config: TrainConfig, rehearsal: Rehearsal | None) -> Trained:
    folder = Path(config.model)
    machine.memory_limit(config.mem_limit)  # what cannot be meant is said first
    if config.resume and not (folder / "training.json").exists():
        raise TopicsError(f"{config.model}: nothing to resume here")
    progress = listener(config.progress, Shown)
    machine.calm_malloc()
    store = _opened(config)
    given = config.options or {}
    options = {**given, **({} if config.force else left_open(folder, config.algo, given))}
    if config.algo == "auto":
        return _train_chosen(config, store, options, progress, rehearsal)
    n_w = store.word_counts() if store.weights is None else store.weights.n_w
    engine, seeds = _engine(config, store, options, n_w, progress)
    start = _start(config, engine)
    layout = engine.layout()
    if config.carry is not None and (why := check_carried(config.carry, store, engine)) is not None:
        raise TopicsError(f"{config.carry}: cannot be gone on from: {why}")
    layout = Layout(
        config.block_cells or layout.block_cells, layout.block_docs, config.round_blocks or layout.round_blocks
    )
    warm = None if config.warm is None else str(Path(config.warm).resolve())
    record = Record(
        engine=engine.name,
        cites=engine.cites,
        options={**asdict(engine.options)},
        settings=read_record(config, topics=engine.shape.topics, start=start, warm=warm, seed_words=seeds),
        layout=asdict(layout),
        corpus=store.fingerprint,
        versions=machine.versions(),
    )
    stopping = _stopping(config, engine, progress)
    if folder.is_dir():
        refuse_links(folder)
    with lock(folder, "training", kind="model"), Signals().watched() as signals:
        if (folder / "manifest.json").exists():
            read_manifest(folder)  # a model that cannot be replaced is told of now, not after the last pass
        if not config.force:
            for warning in same_or_refuse(folder, record, option_fields(type(engine).Options), store.is_of):
                progress.say(f"warning: {warning}")
        session = _session(config, store, engine, start, layout, record, stopping, n_w, progress)
        try:
            if rehearsal is not None:
                return Trained(folder, 0, "dry run", rehearsal(session, stopping), engine.shape.topics)
            return _passes(session, stopping, signals, config.checkpoint_minutes * 60, progress)
        finally:
            session.close()


def _opened(config: TrainConfig) -> Corpus:
    """The corpus, where there is something in it that the engine can train on; its cells weighed as asked."""
    store = Corpus.open(config.corpus, vectors=True)
    if store.vectors and (config.algo == "auto" or not find(config.algo).on_vectors):
        raise UsageError(f"{store.path}: holds vectors; --algo {config.algo} takes documents, --algo gmm takes vectors")
    if store.n_cells == 0:
        raise InputError(f"{store.path}: no training documents with words; ingest more, or lower --min-df")
    if kind_of(Path(config.model)) != "model":
        check_place(Path(config.model), "--model", [config.corpus])
    weigh(store, config.weighting)
    return store


def _train_chosen(
    config: TrainConfig, store: Corpus, options: dict[str, Any], progress: Progress, rehearsal: Rehearsal | None
) -> Trained:
    """Train with the engine that ``auto`` takes; where it does not fit, with the one that keeps least, if that may be."""
    folder, force = Path(config.model), config.force
    choice = resolve_engine(folder, force, shape_of(store, config.topics or TOPICS), options, config.aim)
    if not begun_anew():
        progress.say(f"algo auto: {choice.algo}, {choice.why}")

    def go(choice: Choice) -> Trained:
        return _train(replace(config, algo=choice.algo, options=choice.options, progress=progress), rehearsal)

    try:
        return go(choice)
    except DoesNotFit as e:
        begun = not force and (folder / "training.json").exists()
        if choice.algo == SMALLEST or config.aim == "reading" or begun:
            raise
        stated = config.mem_limit is not None and not isinstance(e, DiskTooSmall)
        if not (config.allow_smaller or stated):  # what is free now does not decide which model a command makes
            raise type(e)(
                f"{e}; or pass --algo {SMALLEST}, which keeps less, or --allow-smaller to let auto take it"
            ) from None
        progress.say(f"algo auto: {SMALLEST} instead: {e}")
        try:
            return go(smallest(choice))
        except DoesNotFit as other:
            if 0 < e.least <= other.least:
                raise e from None
            if e.least:
                raise DoesNotFit(f"{other}; {choice.algo}, which auto would take, needs {e.least}M") from None
            raise


def _engine(
    config: TrainConfig, store: Corpus, options: dict[str, Any], n_w: np.ndarray, progress: Progress
) -> tuple[Engine, Any]:
    """The engine on this corpus, and its seed words as a record of the run keeps them."""
    algo, kind = config.algo, find(config.algo)
    if store.weights is not None and not kind.accepts_weights:
        raise InputError(
            f"--weighting {config.weighting}: {algo} needs whole counts; leave it out or use an engine such as sparse-bp"
        )
    if store.weighted and not kind.accepts_weights:
        raise InputError(
            f"{store.path} has real-valued cells and {algo} needs whole counts; use a message-passing engine such as atbp"
        )
    if kind.on_vectors and not store.vectors:
        raise UsageError(
            f"{store.path}: holds documents; --algo {algo} takes vectors (.npy), --algo mixture clusters documents"
        )
    if kind.on_vectors:
        machine.one_blas_thread()
    engine = make_engine(kind, store, make_options(kind, options), config.topics)
    if kind.on_vectors:
        refuse_wide(engine, machine.memory_limit(config.mem_limit))
    engine, seeds, told = with_seeds(engine, config.seed_words, store, n_w)
    for line in told:
        progress.say(f"warning: {line}")
    topics, docs = engine.shape.topics, engine.shape.docs
    if topics > docs and not begun_anew():
        progress.say(
            f"warning: {topics:,} topics for {docs:,} training documents: most will be empty or say what one document "
            "says; fewer (-K) would do"
        )
    return engine, seeds


def _start(config: TrainConfig, engine: Engine) -> str:
    """How the run starts; UsageError where the engine cannot."""
    chosen = config.start or ("warm" if config.warm is not None else default_start(engine, engine.shape))
    if chosen not in engine.starts:
        raise UsageError(f"{config.algo} cannot start from {chosen!r}; it can from {', '.join(engine.starts)}")
    if (chosen == "warm") != (config.warm is not None):
        raise UsageError("--start warm and the model to start from go together: --start warm --warm MODEL")
    if chosen == "anchors":
        anchor_engine(engine.shape)  # refused now, not after the memory plan
    return chosen


def _stopping(config: TrainConfig, engine: Engine, progress: Progress) -> Stopping:
    """When the run ends."""
    if config.tol_params is not None and ("phi" not in engine.tables or len(engine.phases) > 1):
        raise UsageError(f"--tol-params: {config.algo} has no topics that move from pass to pass; leave it out")
    tol = config.tol if config.tol is not None else engine.default_tol if config.tol_params is None else 0.0
    stopping = Stopping(
        config.passes if config.passes is not None else engine.default_passes,
        tolerance(tol),
        seconds(config.max_time),
        config.eval_every,
        config.tol_params or 0.0,
    )
    if (needed := engine.needs_passes) is None:
        return stopping
    if config.passes not in (None, needed):
        progress.say(f"{config.algo} makes {needed} passes, whatever --passes says")
    return replace(stopping, passes=needed, tol=0.0)


def _compiled(config: TrainConfig, engine: Engine, start: str, progress: Progress) -> Warmed:
    """Have the kernels of the run compiled, by others where that can be; the process may begin anew then."""
    began = time.monotonic()
    say_before_compiling(progress.say)
    job = ("topicstream.training.warm", spec(engine, start))
    limit = machine.memory_limit(config.mem_limit)
    with nullcontext() if engine.shape.seeds else elsewhere(job, 6, progress.say, limit):
        warmed = warm_up(engine, engine.shape.weighted, start)
    say_before_compiling(None)
    if warmed.compiled:
        progress.say(f"compiled in {time.monotonic() - began:.1f} s")
        if config.compiled is not None and kept():
            config.compiled()
    return warmed


def _session(
    config: TrainConfig,
    store: Corpus,
    engine: Engine,
    start: str,
    layout: Layout,
    record: Record,
    stopping: Stopping,
    n_w: np.ndarray,
    progress: Progress,
) -> Session:
    """The run within the memory that it may take: kernels, blocks, plan, and what an earlier run left goes or goes on."""
    folder, shape, warm = Path(config.model), engine.shape, config.warm
    warmed = _compiled(config, engine, start, progress)
    grid = store.grid(layout.block_cells, layout.block_docs, axes=engine.axes)
    block = BlockShape(
        docs=int(grid.docs.max()),
        cells=int(grid.cells.max()),
        tokens=int(grid.tokens.max()) if any(s.per == "token" for s in engine.memory.values()) else 0,
        words=grid.max_words,
        longest=grid.longest,
        table_entries=int(np.minimum(n_w, shape.topics).sum()),
        heaviest=int(n_w.max()),
        axes=dict(grid.axes),
    )
    pass_memory = memory_bytes_of_pass(engine, grid)
    store.release()
    machine.give_back()
    settled = settled_bytes(shape.words, shape.topics) if stopping.tol_params else 0
    plan = make_plan(
        engine,
        layout,
        block,
        pass_memory,
        base=machine.resident_bytes() + warmed.come_back,
        before=max(warmed.peak, machine.peak_of_ours()),
        limit=machine.memory_limit(config.mem_limit),
        threads=config.threads or machine.default_threads(),
        tables=config.tables,
        disk_free=free_disk(folder, config.force) - settled,
        folder=str(folder),
        seeded=engine.start_from == "visit" and (start != "random" or engine.random_topics),
        start_bytes=start_bytes(start, engine, block),
        beside=0 if warm is None or engine.on_vectors else warm_bytes(warm, shape.words, shape.topics),
        keeps_best=bool(stopping.eval_every),
    )
    for line in plan.lines():
        progress.say(line)
    if config.force:  # not before it is known that the new run can be made
        forget_runs(folder)
    remember(folder, record)
    carried = Path(config.carry) if config.carry is not None else None
    return Session(
        folder, record, engine, store, grid, block, plan, config.seed, layout, warm, progress, carried,
        config.warm_share, n_w,
    )  # fmt: skip


def begun_anew() -> bool:
    """Whether this process goes on for one that had kernels to compile (cli/train.py), and has told how it begins."""
    return "TOPICS_BEGUN_ANEW" in os.environ


def weigh(store: Corpus, kind: str) -> None:
    """From now on the store's blocks have weights for counts (``none``: as they are)."""
    if kind == "none":
        return
    if store.weighted:
        raise InputError(f"{store.path}: has real-valued cells; --weighting {kind} weighs counts, leave it out")
    store.weights = TrainingWeights.of_corpus(kind, store)


def shape_of(store: Corpus, topics: int) -> Shape:
    """The training problem of a store, as far as it has no axes."""
    weighted = store.weighted or store.weights is not None
    return Shape(store.n_docs, store.n_words, store.n_cells, float(store.n_tokens), topics, weighted)


def make_engine(kind: type[Engine], store: Corpus, options: Any, topics: int | None) -> Engine:
    """An engine for a store; topics: as many as are asked for, None: not said."""
    axes = {name: store.axes[name].size for name in kind.axes}
    shape = shape_of(store, kind.n_topics(axes, options, topics))
    shape = replace(shape, axes=axes, rows=sum(entry["docs"] for entry in store.part()["blocks"]))
    if kind.topics_axis:
        shape = replace(shape, bare={kind.topics_axis: bare_cells(store, kind.topics_axis)})
    return kind(shape, options)


def refuse_wide(engine: Engine, limit: int) -> None:
    """DoesNotFit where components alone, of whatever vectors, are more than the limit: before kernels are tried on them."""
    n = engine.shape.words
    if (need := engine.scratch_bytes(BlockShape(2, 2 * n, 0, n))) > limit:
        raise DoesNotFit(
            f"{engine.name} with {engine.shape.topics} components of {n} numbers needs {machine.format_bytes(need)}, the smallest "
            f"limit that would do is above {need >> 20}M; lower -K, --covariance diag, or raise --mem-limit"
        )


def start_bytes(start: str, engine: Engine, block: BlockShape) -> Callable[[int], int] | None:
    """What a start itself takes, by threads; None: no more than a visit."""
    shape = engine.shape
    if engine.on_vectors:
        return partial(sample_bytes, engine)
    if start == "kmeans" and getattr(engine.options, "tries", 1) > 1:
        return partial(cluster_start_bytes, shape)
    if start == "best":
        return partial(tries_bytes, shape)
    return partial(anchor_bytes, shape, block) if start == "anchors" else None


def bare_cells(store: Corpus, axis: str) -> int:
    """Cells of the training documents without an id of the axis."""
    blocks = range(len(store.part()["blocks"]))
    return sum(int(store.lengths(b)[store.ragged(axis, b)[0] == 0].sum(dtype=np.int64)) for b in blocks)


def default_start(engine: Engine, shape: Shape) -> str:
    """The engine's own; ``best`` in the place of ``documents`` where it pays."""
    first = engine.first_start
    return "best" if first == "documents" and "best" in engine.starts and pays(shape) else first


def _passes(
    session: Session, stopping: Stopping, signals: Signals, checkpoint_seconds: float, progress: Progress
) -> Trained:
    """The pass loop proper."""
    began = time.monotonic()
    reason = "all passes done"
    finished = session.resume()
    if finished is not None and session.made >= stopping.passes:
        progress.say(
            f"{session.folder}: finished already, {session.passes} passes; a higher --passes continues, --force starts anew"
        )
        return Trained(session.folder, session.passes, finished, session.last, session.engine.shape.topics)
    if finished is not None and finished != "all passes done" and session.made_with(stopping):
        progress.say(
            f"{session.folder}: finished already ({finished}, {session.passes} passes); --tol 0 continues, --force starts anew"
        )
        return Trained(session.folder, session.passes, finished, session.last, session.engine.shape.topics)
    session.note_stopping(stopping)

    def pause(rounds: int) -> bool:
        if signals.asked:
            return False
        if time.monotonic() - session.saver.last > checkpoint_seconds:
            session.checkpoint_between_rounds(rounds)
        return True

    while session.passes < stopping.passes or session.needs_start:
        if not session.run_pass(stopping, pause):
            session.checkpoint_between_rounds(session.rounds)
            raise Interrupted(
                f"stopped by a signal after {session.passes} passes; a checkpoint is written. Run the same command again to go on",
                signals.asked,
            )
        if session.course.converged(stopping.tol, session.passes):
            reason = session.course.settled(stopping.tol)
            break
        if session.unmoved(stopping.tol_params):
            reason = f"no probability of a word moved by more than {stopping.tol_params:g}"
            break
        if stopping.max_time is not None and time.monotonic() - began > stopping.max_time:
            if session.engine.needs_passes is not None and session.passes < stopping.passes:
                session.checkpoint_between_rounds(session.rounds)
                raise TopicsError(
                    f"out of time after {session.passes} of the {stopping.passes} passes that {session.engine.name} makes, which "
                    "have no topics yet; a checkpoint is written. Run the same command again to go on"
                )
            reason = "out of time"
            break
    reason = session.finish(reason)
    for warning in session.warnings():
        progress.say(f"warning: {warning}")
    return Trained(session.folder, session.passes, reason, session.last, session.engine.shape.topics)


def free_disk(folder: Path, force: bool) -> int:
    """Bytes that are free where the folder lies, and with ``force`` those that ``forget_runs`` will set free."""
    free = shutil.disk_usage(next(p for p in (folder, *folder.absolute().parents) if p.exists())).free
    if force:
        free += sum(512 * p.stat().st_blocks for name in RUN_FOLDERS for p in (folder / name).rglob("*") if p.is_file())
    return free


def forget_runs(folder: Path) -> None:
    """Remove what a run left in a model folder, but not the model itself (the new one replaces it when it is done)."""
    there = [name for name in RUN_FOLDERS if os.path.lexists(folder / name)]
    for name in there:
        claim(folder / name, name)
        refuse_strangers(folder / name, name)
    for name in there:
        owned.remove(folder / name, name)
    for name in RUN_FILES:
        owned.remove_file(folder / name, missing_ok=True)


def memory_bytes_of_pass(engine: Engine, grid: Any) -> int:
    """Block memory of one pass in bytes (an upper bound for arrays per block)."""
    if not engine.memory:
        return 0
    axes = dict(grid.axes)
    cells = int(grid.cells.sum())
    whole = engine.memory_of_pass(BlockShape(int(grid.docs.sum()), cells, 0, grid.max_words, axes=axes))
    if whole is not None:
        return whole
    return sum(
        memory_bytes(engine, BlockShape(int(docs), int(cells), int(tokens), min(grid.max_words, int(cells)), axes=axes))
        for docs, cells, tokens in zip(grid.docs, grid.cells, grid.tokens)
    )
