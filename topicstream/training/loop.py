"""Train a model: plan, start, pass after pass, checkpoint, stop, store.  The library twin of ``topics train``."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from topicstream import machine
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import TOPICS, BlockShape, Engine, Layout, option_fields
from topicstream.errors import DiskTooSmall, DoesNotFit, Interrupted, TopicsError, UsageError
from topicstream.files import owned
from topicstream.files.durable import lock
from topicstream.files.ownership import claim, refuse_strangers
from topicstream.files.plain import refuse_links
from topicstream.kernels.jit import notify_compiling
from topicstream.metrics import recorded as recorded_metrics
from topicstream.model.store import read_manifest
from topicstream.options import configured
from topicstream.progress import Progress, Shown, listener
from topicstream.training.auto import SMALLEST, Choice, resolve_engine, smallest
from topicstream.training.config import TrainConfig
from topicstream.training.plan import make_plan, memory_bytes, wider_rounds
from topicstream.training.rehearsal import PlanOnly, rehearse
from topicstream.training.session import Session
from topicstream.training.setup import corpus_of, engine_of, sample_of, shape_of, start_of, stopping_of
from topicstream.training.starts.anchor_start import anchor_bytes
from topicstream.training.starts.carry import CARRIED, check_carried
from topicstream.training.starts.cluster_start import cluster_start_bytes
from topicstream.training.starts.initial import warm_bytes
from topicstream.training.starts.tries import tries_bytes
from topicstream.training.starts.vectors import sample_bytes
from topicstream.training.state.record import Record, left_open, read_record, remember, same_or_refuse
from topicstream.training.state.settled_topics import settled_bytes
from topicstream.training.stopping import Signals, Stopping
from topicstream.training.threads import executor_of

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
        done = _train(replace(config, model=own, force=False, resume=False, progress=told), rehearse)
    return replace(done, model=Path(config.model))


Rehearsal = Callable[[Session, Stopping], dict[str, Any]]


def _train(config: TrainConfig, rehearsal: Rehearsal | None, opened: Corpus | None = None) -> Trained:
    folder = Path(config.model)
    machine.memory_limit(config.mem_limit)  # what cannot be meant is said first
    if config.resume and not (folder / "training.json").exists():
        raise TopicsError(f"{config.model}: nothing to resume here")
    progress = listener(config.progress, Shown)
    machine.return_freed_memory()
    notify_compiling(progress.say)
    store = corpus_of(config) if opened is None else opened
    given = config.options or {}
    options = {**given, **({} if config.force else left_open(folder, config.algo, given))}
    if config.algo == "auto":
        return _train_chosen(config, store, options, progress, rehearsal)
    n_w = store.word_counts() if store.weights is None else store.weights.n_w
    engine, seeds = engine_of(config, store, options, n_w, progress)
    start = start_of(config, engine)
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
        settings=read_record(config, topics=engine.shape.topics, start=start, warm=warm, seed_words=seeds, sample=sample_of(config)),
        layout=asdict(layout),
        corpus=store.fingerprint,
        versions=machine.versions(),
    )
    stopping = stopping_of(config, engine, progress)
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


def _train_chosen(
    config: TrainConfig, store: Corpus, options: dict[str, Any], progress: Progress, rehearsal: Rehearsal | None
) -> Trained:
    """Train with the engine that ``auto`` takes; where it does not fit, with the one that keeps least, if that may be."""
    folder, force = Path(config.model), config.force
    choice = resolve_engine(folder, force, shape_of(store, config.topics or TOPICS), options, config.aim)
    progress.say(f"algo auto: {choice.algo}, {choice.why}")

    def go(choice: Choice) -> Trained:
        own = replace(config, algo=choice.algo, options=choice.options, progress=progress)
        return _train(own, rehearsal, store)

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
        progress.say(f"algo auto: {choice.algo} needs more than the limit; trying {SMALLEST}")
        try:
            return go(smallest(choice))
        except DoesNotFit as other:
            if 0 < e.least <= other.least:
                raise DoesNotFit(f"{e}; {SMALLEST} needs more", least=e.least) from None
            if e.least:
                raise DoesNotFit(f"{other}; {choice.algo}, which auto would take, needs {e.least}M") from None
            raise


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
    settled = settled_bytes(shape.words, shape.topics) if stopping.tol_params else 0
    plan = make_plan(
        engine,
        layout,
        block,
        pass_memory,
        base=machine.PROCESS_BYTES,
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
    if config.round_blocks is None and (wider := wider_rounds(engine, layout.round_blocks, plan.threads, len(grid))):
        progress.say(wider)
    if config.force:  # not before it is known that the new run can be made
        forget_runs(folder)
    remember(folder, record)
    carried = Path(config.carry) if config.carry is not None else None
    return Session(
        folder, record, engine, store, grid, block, plan, config.seed, layout, warm, progress, carried,
        config.warm_share, n_w, executor_of(config.executor),
    )  # fmt: skip


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
        return Trained(session.folder, session.passes, finished.reason, session.last, session.engine.shape.topics)
    if finished is not None and finished.reason != "all passes done" and finished.covers(stopping):
        progress.say(
            f"{session.folder}: finished already ({finished.reason}, {session.passes} passes); --tol 0 continues, --force starts anew"
        )
        return Trained(session.folder, session.passes, finished.reason, session.last, session.engine.shape.topics)
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
        if session.passes >= stopping.least and session.course.converged(stopping.tol, session.passes):
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
