"""Train a model: plan, start, pass after pass, checkpoint, stop, store.  The library twin of ``topics train``."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from topicstream import machine
from topicstream.corpus.reader import Corpus
from topicstream.durable import lock
from topicstream.engines import find
from topicstream.engines.base import BlockShape, Engine, Layout, Shape, option_fields
from topicstream.errors import DoesNotFit, InputError, Interrupted, TopicsError
from topicstream.kernels.jit import kept
from topicstream.training.auto import SMALLEST, Choice, resolve, smallest
from topicstream.training.carry import CARRIED, check
from topicstream.training.plan import make_plan, memory_bytes
from topicstream.training.progress import Progress
from topicstream.training.record import Record, left_open, remember, same_or_refuse
from topicstream.training.session import Session
from topicstream.training.stopping import Signals, Stopping
from topicstream.training.tries import pays, tries_bytes
from topicstream.training.warmup import warm_up

# what a run leaves in a model folder beside the model
RUN_FILES, RUN_FOLDERS = ("training.json", "history.jsonl", "finished.json", CARRIED), ("checkpoints", "work")


@dataclass(frozen=True)
class Trained:
    """What ``train`` did: the model's folder, passes made in all, why it stopped, the last history record."""

    model: Path
    passes: int
    reason: str
    last: Mapping[str, Any]


def make_options(engine: type[Engine], given: Mapping[str, Any]) -> Any:
    """The engine's Options from plain values; TopicsError naming an unknown or impossible one."""
    fields = engine.Options.__dataclass_fields__
    for name, value in given.items():
        if name not in fields:
            raise TopicsError(f"{engine.name} has no option {name!r}; it has {', '.join(fields)}")
        limits = fields[name].metadata
        if value is not None and limits.get("min") is not None and value < limits["min"]:
            raise TopicsError(f"{name} must be at least {limits['min']}, not {value}")
        if value is not None and limits.get("max") is not None and value > limits["max"]:
            raise TopicsError(f"{name} must be at most {limits['max']}, not {value}")
        if value is not None and limits.get("choices") and value not in limits["choices"]:
            raise TopicsError(f"{name} must be one of {', '.join(map(str, limits['choices']))}, not {value}")
    return engine.Options(**given)


def train(
    corpus: str | Path = "corpus.zarr",
    model: str | Path = "model",
    *,
    algo: str = "auto",
    topics: int = 100,
    seed: int = 0,
    passes: int | None = None,
    tol: float | None = None,
    max_time: float | None = None,
    eval_every: int = 0,
    start: str | None = None,
    warm: str | Path | None = None,
    carry: str | Path | None = None,
    warm_share: float = 1.0,
    threads: int | None = None,
    mem_limit: str | int | None = None,
    tables: str = "auto",
    block_cells: int | None = None,
    round_blocks: int | None = None,
    checkpoint_minutes: float = 10.0,
    force: bool = False,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    compiled: Callable[[], None] | None = None,
) -> Trained:
    """Train ``topics`` topics on a corpus store with engine ``algo`` (``auto`` chooses and says why) and store them in the
    folder ``model``.

    Called again with the same arguments it carries on where an interrupted run stopped, does nothing when the run is
    finished, and continues it when ``passes`` is higher.  ``force`` starts anew.

    options      the engine's own (alpha and beta per topic and per word, ...): see ``topics engines --json``
    start        one of the engine's starts; ``warm`` names the model of a ``warm`` start
    carry        the folder of a finished run on the head of this corpus: its tables and block memory are taken over and
                 only the blocks behind are started, from ``warm`` (see training/carry.py)
    warm_share   of a warm start that is the model's topics; the rest is the mean of the corpus
    mem_limit    bytes or ``"2G"``: a promise about the whole process; default 70 % of what the machine allows
    tables       where the big tables live: ``auto``, ``memory`` or ``disk``
    max_time     seconds
    compiled     called when kernels had to be compiled and are in the cache now, before the memory plan: the compiler
                 keeps 60 MB and more that a process which finds them in the cache never takes

    Raises DoesNotFit when memory or disk cannot hold it, Busy when another process trains this model, Interrupted after
    a signal (a checkpoint has been written), TopicsError when options or corpus differ from those of the run to resume.
    """
    settings = dict(locals())
    progress = progress or Progress()
    machine.calm_malloc()
    store = Corpus.open(corpus)
    if store.n_cells == 0:
        raise InputError(f"{store.path}: no training documents with words; ingest more, or lower --min-df")
    if topics < 1:
        raise TopicsError(f"the number of topics must be at least 1, not {topics}")
    folder = Path(model)
    options = {**(options or {}), **({} if force else left_open(folder, algo, options or {}))}
    shape = Shape(store.n_docs, store.n_words, store.n_cells, float(store.n_tokens), topics, store.weighted)
    if algo == "auto":
        folder.mkdir(parents=True, exist_ok=True)
        choice = resolve(folder, force, shape, options, free_disk(folder, force))
        progress.say(f"algo auto: {choice.algo}, {choice.why}")

        def go(choice: Choice) -> Trained:
            return train(**{**settings, "algo": choice.algo, "options": choice.options, "progress": progress})

        try:
            return go(choice)
        except DoesNotFit as e:
            if choice.algo == SMALLEST or (not force and (folder / "training.json").exists()):
                raise
            progress.say(f"algo auto: {SMALLEST} instead: {e}")
            return go(smallest(choice))
    kind = find(algo)
    if store.weighted and not kind.accepts_weights:
        raise InputError(
            f"{store.path} has real-valued cells and {algo} needs whole counts; use a message-passing engine such as atbp"
        )
    engine = kind(shape, make_options(kind, options))
    chosen = start or ("warm" if warm is not None else default_start(engine, shape))
    if chosen not in engine.starts:
        raise TopicsError(f"{algo} cannot start from {chosen!r}; it can from {', '.join(engine.starts)}")
    if (chosen == "warm") != (warm is not None):
        raise TopicsError("--start warm and the model to start from go together: --start warm --warm MODEL")
    layout = engine.layout()
    if carry is not None and (why := check(carry, store, engine)) is not None:
        raise TopicsError(f"{carry}: cannot be gone on from: {why}")
    layout = Layout(block_cells or layout.block_cells, layout.block_docs, round_blocks or layout.round_blocks)
    record = Record(
        engine=engine.name,
        cites=engine.cites,
        options={**asdict(engine.options)},
        topics=topics,
        seed=seed,
        start=chosen,
        warm=str(Path(warm).resolve()) if warm is not None else None,
        layout=asdict(layout),
        corpus=store.fingerprint,
        versions=machine.versions(),
    )
    stopping = Stopping(
        passes if passes is not None else engine.default_passes,
        tol if tol is not None else engine.default_tol,
        max_time,
        eval_every,
    )
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder, "training"), Signals().watched() as signals:
        if not force:
            for warning in same_or_refuse(folder, record, option_fields(kind.Options)):
                progress.say(f"warning: {warning}")
        began = time.monotonic()
        warmed = warm_up(engine, store.weighted, chosen)
        if warmed.compiled:
            progress.say(f"compiled in {time.monotonic() - began:.1f} s")
            if compiled is not None and kept():
                compiled()
        grid = store.grid(layout.block_cells, layout.block_docs)
        n_w = store.word_counts()
        block = BlockShape(
            docs=int(grid.docs.max()),
            cells=int(grid.cells.max()),
            tokens=most_tokens(store, grid, shape) if any(s.per == "token" for s in engine.memory.values()) else 0,
            words=grid.max_words,
            longest=longest_document(store),
            table_entries=int(np.minimum(n_w, topics).sum()),
            heaviest=int(n_w.max()),
        )
        pass_memory = memory_bytes_of_pass(engine, store, grid)
        store.release()
        machine.give_back()
        plan = make_plan(
            engine,
            layout,
            block,
            pass_memory,
            base=machine.resident_bytes(),
            before=warmed.peak,
            limit=machine.parse_bytes(mem_limit) if mem_limit is not None else machine.default_memory_limit(),
            threads=threads or machine.default_threads(),
            tables=tables,
            disk_free=free_disk(folder, force),
            folder=str(folder),
            seeded=engine.start_from == "visit" and chosen != "random",
            start_bytes=partial(tries_bytes, shape) if chosen == "best" else None,
        )
        for line in plan.lines():
            progress.say(line)
        if force:  # not before it is known that the new run can be made
            forget(folder)
        remember(folder, record)
        carried = Path(carry) if carry is not None else None
        session = Session(
            folder, record, engine, store, grid, block, plan, seed, layout, warm, progress, carried, warm_share, n_w
        )
        try:
            return _passes(session, stopping, signals, checkpoint_minutes * 60, progress)
        finally:
            session.close()


def default_start(engine: Engine, shape: Shape) -> str:
    """The engine's first; ``best`` in the place of ``documents`` where it pays."""
    first = engine.starts[0]
    return "best" if first == "documents" and "best" in engine.starts and pays(shape) else first


def _passes(
    session: Session, stopping: Stopping, signals: Signals, checkpoint_seconds: float, progress: Progress
) -> Trained:
    """The pass loop proper."""
    began = time.monotonic()
    reason = "all passes done"
    finished = session.resume()
    if finished is not None and session.passes >= stopping.passes:
        progress.say(
            f"{session.folder}: finished already, {session.passes} passes; a higher --passes continues, --force starts anew"
        )
        return Trained(session.folder, session.passes, finished, session.last)
    if finished is not None and finished != "all passes done" and session.made_with(stopping):
        progress.say(
            f"{session.folder}: finished already ({finished}, {session.passes} passes); --tol 0 continues, --force starts anew"
        )
        return Trained(session.folder, session.passes, finished, session.last)
    session.note_stopping(stopping)

    def pause(rounds: int, cells: int) -> bool:
        progress.cells(cells)
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
        if session.converged(stopping.tol):
            reason = f"perplexity changed by less than {stopping.tol:g}"
            break
        if stopping.max_time is not None and time.monotonic() - began > stopping.max_time:
            reason = "out of time"
            break
    session.finish(reason)
    for warning in session.warnings():
        progress.say(f"warning: {warning}")
    return Trained(session.folder, session.passes, reason, session.last)


def free_disk(folder: Path, force: bool) -> int:
    """Bytes that are free where the folder lies, and with ``force`` those that ``forget`` will set free."""
    free = shutil.disk_usage(folder).free
    if force:
        free += sum(512 * p.stat().st_blocks for name in RUN_FOLDERS for p in (folder / name).rglob("*") if p.is_file())
    return free


def forget(folder: Path) -> None:
    """Remove what a run left in a model folder, but not the model itself (the new one replaces it when it is done)."""
    for name in RUN_FOLDERS:
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in RUN_FILES:
        (folder / name).unlink(missing_ok=True)


def longest_document(corpus: Corpus) -> int:
    """Cells of the longest training document."""
    blocks = range(len(corpus.part()["blocks"]))
    return max((int(corpus.lengths(s).max(initial=0)) for s in blocks), default=0)


def most_tokens(corpus: Corpus, grid: Any, shape: Shape) -> int:
    """Tokens of the largest block of the grid."""
    return int(max((b.tokens for b in corpus.blocks(grid=grid)), default=0))


def memory_bytes_of_pass(engine: Engine, corpus: Corpus, grid: Any) -> int:
    """Block memory of one pass in bytes (an upper bound for arrays per block)."""
    if not engine.memory:
        return 0
    total = 0
    tokens_left = float(corpus.n_tokens)
    for docs, cells in zip(grid.docs, grid.cells):
        share = int(tokens_left * cells / max(corpus.n_cells, 1)) + 1
        total += memory_bytes(engine, BlockShape(int(docs), int(cells), share, min(grid.max_words, int(cells))))
    return total
