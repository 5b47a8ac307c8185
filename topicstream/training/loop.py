"""Train a model: plan, start, pass after pass, finish (``topicstream.train``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.base import machine
from topicstream.base.cluster import connected
from topicstream.base.errors import Interrupted, TopicsError, UsageError, WorkersLost
from topicstream.base.files.durable import lock
from topicstream.base.files.marker import kind_of
from topicstream.base.files.outputs import check_place
from topicstream.base.files.plain import refuse_links
from topicstream.base.memory import MemoryLimit
from topicstream.base.metrics import record_metrics
from topicstream.base.options import openly_configured
from topicstream.base.progress import listener, screen_listener
from topicstream.base.records import Json
from topicstream.base.text import counted
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.engines.base import VectorEngine, passes_needed
from topicstream.model.manifest import Origin, as_origin, origin_of, read_ids
from topicstream.model.store import ModelWriter
from topicstream.model.topic_kinds import dead_warning, describe_topics
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.jit import notify_compiling
from topicstream.training.config import TrainConfig
from topicstream.training.covariates import TABLE, describe_prior, final_design
from topicstream.training.executor import Executor, Job, MakeExecutor, Remote
from topicstream.training.plan import Allowance, advise_wider_rounds
from topicstream.training.rehearsal import rehearsal_config, rehearse
from topicstream.training.session import Session
from topicstream.training.setup import TrainingRun, resolve
from topicstream.training.state.record import (
    Outcome,
    RunRecord,
    forget_runs,
)
from topicstream.training.stopping import Signals, Stopping
from topicstream.training.threads import find_executor

RECOVERIES = 10
"""Most times that a run continues after it has lost workers of a cluster."""
ALL_DONE = "all passes done"


@dataclass(frozen=True)
class Trained:
    """The result of ``train``.

    Attributes
    ----------
    model
        Folder of the model.
    passes
        All passes of the run.
    reason
        Why it stopped.
    last
        The last record of the history.
    topics
        Number of topics.
    background_topic
        Number of the background topic, None without one.
    """

    model: Path
    passes: int
    reason: str
    last: Mapping[str, Any]
    topics: int = 0
    background_topic: int | None = None

    def __repr__(self) -> str:
        passes = counted(self.passes, "pass")
        reason = f" ({self.reason})" if self.reason else ""
        topics = describe_topics(self.topics, self.background_topic)
        text = f"{self.model}: {topics}, {passes}{reason}"
        perplexity = self.last.get("running_perplexity")
        if perplexity:
            text += f", running perplexity {perplexity:.1f}"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a plain dict."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@openly_configured(TrainConfig)
def train(config: TrainConfig) -> Trained:
    """Train a topic model on a corpus store.

    Called again with the same arguments, it resumes an interrupted run, does nothing when the run
    is finished, and continues it when ``passes`` is higher; ``force`` starts over. ``mem_limit``
    bounds the whole process. The result does not depend on ``threads``.

    Returns
    -------
    Trained
        model (the folder), topics, passes, reason (why they ended), and last: the record of the
        last pass with its perplexity and the peak memory.

    Raises
    ------
    DoesNotFit
        Memory or disk cannot hold the run; the message names the smallest limit that would do.
    Busy
        Another process trains this model.
    Interrupted
        A signal came; a checkpoint has been written.
    TopicsError
        Options or corpus differ from those of the run to resume.

    Examples
    --------
    >>> done = topicstream.train("corpus.zarr", "sixth", topics=6, passes=5, progress=False)
    >>> topicstream.TopicModel.open("sixth").n_topics
    6
    """
    with record_metrics(config.metrics, "train", model=config.model) as tell:
        trained = _check_and_run(config)
        tell({"passes": trained.passes, **metric_figures(trained.last)})
    return trained


def metric_figures(last: Mapping[str, Json]) -> dict[str, Json]:
    """Select the figures of the last pass for the metrics file."""
    return {**last, "pass_seconds": last.get("seconds")}


def _check_and_run(config: TrainConfig) -> Trained:
    """Refuse what can be refused at once, then run the training or its rehearsal."""
    _ = config.memory  # raises for a limit that no command can keep
    if config.aim == "reading" and config.algo != "auto":
        raise UsageError(
            "--aim applies to --algo auto; --algo sparse-bp has --background and --sparsity"
        )
    if config.resume and RunRecord.read(Path(config.model)) is None:
        raise TopicsError(
            f"{config.model}: nothing to resume; leave out --resume to start a training"
        )
    machine.return_freed_memory()
    if config.dry_run:
        with rehearsal_config(config) as apart:
            return replace(_run(apart, _rehearse), model=Path(config.model))
    return _run(config, _make_passes)


Drive = Callable[[Session, Signals, TrainConfig], Trained]


def _run(config: TrainConfig, drive: Drive) -> Trained:
    """Resolve a run, and drive it: again from its last checkpoint where workers were lost."""
    progress = listener(config.progress, screen_listener)
    notify_compiling(progress.say)
    folder = Path(config.model)
    if kind_of(folder) != "model":
        check_place(folder, "--model", [config.corpus])
    if folder.is_dir():
        refuse_links(folder)
    bar = closing(progress) if progress is not config.progress else nullcontext()
    with bar, lock(folder, "training", kind="model"):
        run = resolve(config, progress)
        with Signals().watch() as signals, _open_executor(config, run) as executor:
            _record_run(config, run)
            for tries_left in reversed(range(RECOVERIES)):
                session = Session(replace(run, executor=executor))
                try:
                    return drive(session, signals, config)
                except WorkersLost as e:
                    if not tries_left or not e.addresses:
                        raise
                    progress.say(
                        f"warning: {e}; continuing from the last checkpoint on the workers that "
                        f"are there"
                    )
                finally:
                    session.close()
    raise AssertionError("the last try returns or raises")


@contextmanager
def _open_executor(config: TrainConfig, run: TrainingRun) -> Iterator[MakeExecutor]:
    """Yield the function that makes the executor: of the run, or for the workers of a scheduler."""
    if config.scheduler is None:
        yield run.executor
        return
    paths = [run.corpus.path, run.folder]
    with connected(config.scheduler, paths, config.workers_min) as cluster:
        if not cluster.executor:
            raise UsageError(
                f"--scheduler {config.scheduler}: its workers cannot train; leave out --scheduler "
                f"to train on this machine"
            )
        make = find_executor(cluster.executor)
        memory = MemoryLimit(cluster.memory(config.memory))
        allowance = Allowance(memory, config.threads or 0, config.tables)
        remote = Remote(cluster, run.folder / "work", allowance)

        def make_remote(job: Job) -> Executor:
            """Make the executor of a job on these workers."""
            return make(replace(job, remote=remote))

        yield make_remote


def _record_run(config: TrainConfig, run: TrainingRun) -> None:
    """Show the plan and record the run, in the place of an older one with ``--force``."""
    for line in run.plan.lines():
        run.progress.say(line)
    note = advise_wider_rounds(run.engine, run.layout.round_blocks, run.plan.threads, len(run.grid))
    if note and config.round_blocks is None:
        run.progress.say(note)
    if config.force:
        forget_runs(run.folder)
    run.record.write(run.folder)


def _rehearse(session: Session, signals: Signals, config: TrainConfig) -> Trained:
    """Estimate the cost of the run (``--dry-run``)."""
    return _describe(session, "dry run", rehearse(session))


def _make_passes(session: Session, signals: Signals, config: TrainConfig) -> Trained:
    """Make passes until a reason to stop appears, then write the model."""
    began = time.monotonic()
    run = session.run
    finished = session.resume()
    if finished is not None:
        message = _explain_nothing_to_do(session, finished, run.stopping)
        if message:
            run.progress.say(f"{run.folder}: finished already{message}, --force starts over")
            return _describe(session, finished.reason, session.history.last)
    session.mark_unfinished()
    session.check_signals = signals.check

    def pause(rounds: int) -> bool:
        """Write a checkpoint if it is time, and return False after a signal."""
        if signals.received:
            return False
        if time.monotonic() - session.saver.last > config.checkpoint_minutes * 60:
            session.checkpoint_between_rounds(rounds)
        return True

    reason = ""
    while not reason and (session.passes < run.stopping.passes or session.needs_start):
        if not session.run_pass(pause):
            session.checkpoint_between_rounds(session.rounds)
            raise Interrupted(
                f"stopped by a signal after {counted(session.passes, 'pass')}; a checkpoint is "
                f"written. Run the same command again to continue",
                signals.received,
            )
        reason = _reason_to_stop(session, run.stopping, time.monotonic() - began)
    reason = session.finish(reason or ALL_DONE)
    write_model(session, reason)
    session.mark_finished(reason)
    warnings = session.course.warnings(
        session.history.last, session.tables.current, session.params, run.n_w
    )
    if not session.engine.about.dense:
        warnings = dead_warning(TopicModel.open(run.folder, memory_limit=-1)) + warnings
    for warning in warnings:
        run.progress.say(f"warning: {warning}")
    return _describe(session, reason, session.history.last)


def _describe(session: Session, reason: str, last: Mapping[str, Any]) -> Trained:
    """Describe the model of a session, and why its training ended."""
    folder = session.run.folder
    topics = session.engine.shape.topics
    background = None
    if getattr(session.engine.options, "background", None):
        background = read_ids(folder, topics).ids[-1]
    return Trained(folder, session.passes, reason, last, topics, background)


def _explain_nothing_to_do(session: Session, finished: Outcome, stopping: Stopping) -> str:
    """Explain why a finished run is not continued, or return "" if it is."""
    if session.passes_run >= stopping.passes:
        return f", {counted(session.passes, 'pass')}; a higher --passes continues"
    if finished.reason != ALL_DONE and finished.covers(stopping):
        return f" ({finished.reason}, {counted(session.passes, 'pass')}); --tol 0 continues"
    return ""


def _reason_to_stop(session: Session, stopping: Stopping, seconds: float) -> str:
    """Return the reason why no further pass is made, or "" if one is.

    Raises
    ------
    TopicsError
        Time is out and there are no topics yet.
    """
    course = session.course
    if session.passes >= stopping.least and course.converged(stopping.tol, session.passes):
        return course.describe_convergence(stopping.tol)
    moved = session.history.last.get("topics_moved")
    has_settled = moved is not None and moved <= stopping.tol_params
    if has_settled and session.passes >= course.least:
        return f"no probability of a word moved by more than {stopping.tol_params:g}"
    if stopping.max_time is None or seconds <= stopping.max_time:
        return ""
    if passes_needed(session.engine.phases) is not None and session.passes < stopping.passes:
        session.checkpoint_between_rounds(session.rounds)
        raise TopicsError(
            f"out of time after {session.passes} of the {stopping.passes} passes that "
            f"{session.engine.name} makes, which have no topics yet; a checkpoint is written. Run "
            "the same command again to continue"
        )
    return "out of time"


def write_model(session: Session, reason: str) -> None:
    """Write the model of a run into its folder, and commit it.

    The rows of tables are streamed. The manifest comes last.
    """
    run = session.run
    params = session.params
    session.set_mean_prior()
    with ModelWriter(run.folder, run.corpus.n_words, run.record.topics) as writer:
        _write_tables(writer, session)
        writer.commit(
            _origin(session, reason),
            _model_vocabulary(session),
            params["alpha"],
            session.engine.model_beta(params),
        )


def _write_tables(writer: ModelWriter, session: Session) -> None:
    """Stream the tables and parameters that a model of the engine stores."""
    run = session.run
    engine = run.engine
    for name in engine.about.stored_tables:
        table = session.tables.current[name]
        write = writer.write_rows
        if name != "phi":
            axis = engine.tables[name].axis or ""
            names = axis_names(run.corpus, axis) if axis in engine.about.axes else None
            write = writer.add_table(name, table.n_rows, table.columns, axis, names).write_rows
        for start, rows in table.pieces():
            write(start, rows)
    if isinstance(engine, VectorEngine):
        writer.write_rows(0, engine.model_rows(session.params))
    if run.design is not None:
        coefficients = session.params[TABLE]
        design = final_design(run.design, session.params)
        columns = iter([pa.array(design.names, pa.large_string())])
        (rows, topics) = coefficients.shape
        writer.add_table(TABLE, rows, topics, names=columns).write_rows(0, coefficients)
    for name in engine.about.stored_params:
        value = np.atleast_2d(session.params[name])
        writer.add_table(name, *value.shape).write_rows(0, value)


def _origin(session: Session, reason: str) -> Origin:
    """Describe the run for the manifest of its model."""
    run = session.run
    record = run.record
    corpus = run.corpus
    manifest: dict[str, Any] = {
        "engine": record.engine,
        "cites": record.cites,
        "options": record.options,
        "seed": record.seed,
        "start": record.start,
        "layout": record.layout,
        "versions": record.versions,
        "corpus": {
            "fingerprint": corpus.fingerprint,
            "generation": corpus.manifest.generation,
            "docs": corpus.n_docs,
            "cells": corpus.n_cells,
            "tokens": corpus.n_tokens,
        },
        "tokenizer": corpus.manifest.tokenizer,
        "reading": corpus.manifest.reading,
        "vectors": corpus.width or None,
        "patches": corpus.manifest.patches,
        "passes": session.passes,
        "stopped": reason,
    }
    topic_names: dict[str, str] = {}
    topics_axis = run.engine.about.topics_axis
    if topics_axis:
        number = record.topics - corpus.axes[topics_axis].size
        for piece in axis_names(corpus, topics_axis):
            for name in piece.to_pylist():
                topic_names[str(number)] = name
                number += 1
        manifest["label_docs"] = corpus.axes[topics_axis].docs().tolist()
    if corpus.weights is not None:
        manifest["weighting"] = corpus.weights.about
    if record.seed_words is not None:
        manifest["seed_words"] = record.seed_words
        topic_names = {str(seed.topic): seed.name for seed in record.seed_words} | topic_names
    if record.sample is not None:
        manifest["sample"] = record.sample
    if run.design is not None:
        prior = run.engine.shape.covariates
        assert prior is not None
        manifest["covariates"] = describe_prior(run.design, prior, session.params)
    return origin_of(as_origin(manifest), topic_names=topic_names)


def _model_vocabulary(session: Session) -> Vocabulary:
    """Read the vocabulary of the run, with the counts of its sample, if any."""
    vocabulary = Vocabulary.read(session.vocab)
    if session.run.record.sample is None:
        return vocabulary
    corpus = session.run.corpus
    df = corpus.document_counts()
    counts = df if corpus.weighted else corpus.word_counts()
    return Vocabulary.from_words(vocabulary.words, counts, df)


def axis_names(corpus: Corpus, axis: str, step: int = 1 << 16) -> Iterator[pa.Array]:
    """Yield the names of an axis, in order, in batches of ``step``."""
    for first in range(0, corpus.axes[axis].size, step):
        yield corpus.axes[axis].names(first, first + step)
