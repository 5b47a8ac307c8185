"""The session of a training run: tables, block state, params, history and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from topicstream.base import machine
from topicstream.base.errors import StoreError
from topicstream.base.files import ownership as owned
from topicstream.base.places import places
from topicstream.base.text import counted
from topicstream.engines.base import (
    Key,
    PassEnd,
    Phase,
    new_stats,
    phase_of,
)
from topicstream.engines.covariates import row_coefficients
from topicstream.engines.phases import blocks_were_visited
from topicstream.evaluation.covariates import CovariateFile
from topicstream.numeric.parallel import Workers
from topicstream.numeric.tables.table import Table
from topicstream.training.course import Course, check_pass
from topicstream.training.covariates import mean_prior, write_rows_of_run
from topicstream.training.executor import Job
from topicstream.training.passes import START, Pass, PassRunner
from topicstream.training.setup import TrainingRun
from topicstream.training.starts.start import Ground, seeds_blocks
from topicstream.training.state.checkpoint import (
    Facts,
    Saver,
    State,
    checkpoint_name,
    list_checkpoints,
    read_checkpoint,
)
from topicstream.training.state.memory import Memories
from topicstream.training.state.record import (
    FINISHED,
    History,
    Outcome,
    forget_topics,
    measure_moves,
    topics_file,
)
from topicstream.training.tables import FinishedTable, Readable, RunTables


class Session:
    """The state of a run between rounds.

    Attributes
    ----------
    passes
        Passes done.
    rounds
        Rounds done of the next pass.
    needs_start
        True until the start is done.
    passes_run
        All passes run, including those after the best one, if the model is of the best pass.
    check_signals
        Raises Interrupted after a signal. Long work between rounds calls it.
    """

    def __init__(self, run: TrainingRun) -> None:
        plan = run.plan
        self.run = run
        self.plan = plan
        self.engine = run.engine
        self.work = run.folder / "work"
        self._checkpoints = run.folder / "checkpoints"
        self.work.mkdir(exist_ok=True)
        owned.sweep(self.work)  # removes what a killed run left, but block state
        # a copy: an append that ends while this run continues replaces the file by a longer one
        self.vocab = self.work / "vocab.parquet"
        owned.copy(run.corpus.file("vocab"), self.vocab)
        self.workers = Workers(plan.threads)
        tables_folder = self.work if plan.place.tables_on_disk else None
        self.tables = RunTables(run.engine, run.n_w, self.workers, tables_folder)
        corpus = run.corpus
        self._covariates: CovariateFile | None = None
        if run.design is not None:
            rows = self.work / "covariates.bin"
            self._covariates = write_rows_of_run(corpus, run.grid, run.design, rows, run.progress)
            corpus = corpus.with_covariates(self._covariates)
        spill = self.work if plan.place.deltas_spill else None
        job = Job(
            run.engine,
            corpus,
            run.grid,
            run.layout,
            run.block,
            self.workers,
            plan.place.prefetch,
            spill,
            plan.sums,
            plan.seed_rows,
            run.start.memory(run.engine, run.block),
            seeds_blocks(run.engine, run.start),
        )
        self.executor = run.executor(job)
        self.runner = PassRunner(
            run.engine,
            run.grid,
            self.executor,
            self.tables,
            run.record.seed,
            job.layout.round_blocks,
        )
        self.readable = Readable(self.tables, self.executor.gather)
        self.params = run.engine.initial_params()
        self.stats = new_stats(run.engine)
        self.passes = 0
        self.rounds = 0
        self.needs_start = True
        self.passes_run = 0
        self._pass_seconds = 0.0
        self.memories = Memories(self.work, run.engine.state, len(run.grid), plan.spare)
        self.history = History(run.folder)
        self.course = Course(run.engine, run.corpus, plan.threads, run.record.start, run.design)
        self.saver = Saver(self._checkpoints, self.work)
        self.check_signals: Callable[[], None] = lambda: None

    # -- resume
    def resume(self) -> Outcome | None:
        """Load the latest intact checkpoint.

        Returns
        -------
        Outcome or None
            The outcome of the run if it had finished.
        """
        loaded = self._load_latest()
        self.saver.adopt()
        self.memories.remove_unneeded(self.saver.needed)
        self._rewind(self.passes, self.needs_start)
        if not loaded:
            return None
        best = self._checkpoints / checkpoint_name(self.course.best)
        if self.course.best and best.is_dir():
            self.saver.pinned = best.name
        finished = Outcome.read(self.run.folder)
        if finished is not None and finished.passes == self.passes and not self.rounds:
            self.passes_run = max(finished.passes, finished.made)  # made is 0 without a best pass
            return finished
        rounds = f" and {counted(self.rounds, 'round')}" if self.rounds else ""
        self.run.progress.say(f"continuing after {counted(self.passes, 'pass')}{rounds}")
        return None

    def _load_latest(self) -> bool:
        """Restore the latest intact checkpoint, and return False without any.

        Damaged ones after it are removed.

        Raises
        ------
        StoreError
            All are damaged.
        """
        places = list_checkpoints(self._checkpoints)
        while places:
            try:
                self._load(places[-1])
                return True
            except StoreError as e:
                damaged = places.pop()
                if not places:
                    raise
                self.run.progress.say(f"warning: {e}; going back to checkpoint {places[-1].name}")
                owned.remove_within(damaged)
        return False

    def _load(self, place: Path) -> None:
        """Restore the state of a checkpoint.

        Raises
        ------
        StoreError
            The checkpoint is damaged or not of this run.
        """
        state = read_checkpoint(place)
        try:
            self.tables.load(place, state.arrays, state.facts.scales)
            self.executor.share()
            self.stats = {name: state.arrays[f"stat.{name}"].copy() for name in self.stats}
            self.memories.reopen(state)
        except (KeyError, ValueError, TypeError, IndexError) as e:
            problem = f"{type(e).__name__}: {e}"
            raise StoreError(
                f"{place}: not the state of this run ({problem}); start over with --force"
            ) from None
        self.params = state.checked_params(place, self.engine.initial_params())
        self.passes = state.passes
        self.rounds = state.rounds
        self.needs_start = state.facts.needs_start
        self.course.running = list(state.facts.perplexities)
        self.course.measured = list(state.facts.heldout)
        self._pass_seconds = state.facts.pass_seconds
        written = not self.needs_start and blocks_were_visited(self.engine.phases, self.passes)
        if self.engine.state and written and "old" not in self.memories.held:
            raise StoreError(f"{place}: names no block state; start over with --force")

    def _rewind(self, passes: int, needs_start: bool) -> None:
        """Cut the history behind a pass."""
        for problem in self.history.rewind(passes, needs_start):
            self.run.progress.say(f"warning: {problem}")

    def _order(self, number: int) -> np.ndarray:
        """Return the blocks of a pass in visiting order, int64[blocks]."""
        phase = phase_of(self.engine.phases, max(number, 1))[0]
        return self.run.grid.order(phase.order, self.run.record.seed, number)

    # -- passes
    def mark_unfinished(self) -> None:
        """Mark the run as unfinished before its next pass."""
        owned.remove_file(self.run.folder / FINISHED, missing_ok=True)
        if self.run.stopping.tol_params and not self.needs_start and self.rounds == 0:
            # store the topics of the checkpoint, for the next pass to be compared with
            self._measure_moves(self.passes, self.tables.current)

    def run_pass(self, pause: Callable[[int], bool]) -> bool:
        """Run the start or one pass, and return False if ``pause`` stopped it.

        A pass that a checkpoint interrupted continues from its next round.
        """
        began = time.monotonic()
        number = 0 if self.needs_start else self.passes + 1
        going = self._start(pause) if number == 0 else self._pass(number, pause)
        self._pass_seconds += time.monotonic() - began
        blocks_done = self.rounds * self.runner.round_blocks
        if not going and blocks_done < len(self._order(number)):
            return False
        self._end_pass(number)  # ``pause`` may stop a run after the last round, too
        return going

    def _start(self, pause: Callable[[int], bool]) -> bool:
        """Run the start, and return False if ``pause`` stopped it."""
        start = self.run.start
        kind = self.engine.phases[0].start
        ground = Ground(
            self.engine,
            self.run.corpus,
            self.run.grid,
            self.run.record.seed,
            self.run.n_w,
            self.workers,
            self.plan.memory.free,
            self.run.progress.say,
            self.run.layout,
            self.run.executor,
            self._step,
        )
        if self.rounds == 0:
            start.prepare(ground, self.params)
        if kind == "visit":
            seeds = start.seeds(ground)
            work = Pass(0, self._order(0), self.params, self.stats, seeds=seeds)
            return self._visit_blocks(work, "start", pause)
        if kind == "table":
            start.fill(ground, self.tables.current, self.params)
        return True

    def _pass(self, number: int, pause: Callable[[int], bool]) -> bool:
        """Run a pass, and return False if ``pause`` stopped it."""
        phase = phase_of(self.engine.phases, number)[0]
        if phase.steps:
            self.engine.end_phase(self._pass_end(number, phase, self.stats))
            return True
        work = Pass(number, self._order(number), self.params, self.stats)
        return self._visit_blocks(work, f"pass {number}/{self.run.stopping.passes}", pause)

    def _visit_blocks(self, work: Pass, title: str, pause: Callable[[int], bool]) -> bool:
        """Visit the blocks of a pass from the next round on, and show how far it is."""
        cells_of_pass = int(self.run.grid.cells.sum())
        show = partial(self.run.progress.step, title, total=cells_of_pass, unit="cell")
        show(0)
        self.memories.begin_pass(work.number, self.saver.needed)

        def after_round(rounds: int, cells: int) -> bool:
            self.rounds = rounds
            show(cells)
            return pause(rounds)

        work.first_round = self.rounds
        work.old = self.memories.held.get("old")
        work.new = self.memories.held.get("new")
        work.after_round = after_round
        return self.runner.run(work)

    def _pass_end(self, number: int, phase: Phase, stats: Mapping[str, np.ndarray]) -> PassEnd:
        """Collect what an engine sees at the end of a pass."""
        key = Key(self.run.record.seed, number, phase.name)
        return PassEnd(
            key,
            phase,
            self.params,
            stats,
            self.tables.totals,
            self.readable,
            self.run.progress.say,
            self._step,
        )

    def _step(self, phase: str, done: int, total: int, unit: str) -> None:
        """Report progress of long work between rounds, and raise Interrupted after a signal."""
        self.check_signals()
        self.run.progress.step(phase, done, total, unit)

    def _end_pass(self, number: int) -> None:
        """End a pass: check and measure it, write its record and perhaps a checkpoint."""
        began = time.monotonic()
        run = self.run
        phase = START
        last_of_phase = False
        if number:
            phase, last_of_phase = phase_of(self.engine.phases, number)
        finished = self.executor.finish_pass(phase if number else None)
        worst = {name: table.worst for name, table in finished.items()}
        additions = 2 * int(run.grid.docs.max()) + len(run.grid)
        check_pass(self.engine, self.tables.totals, worst, number, float(run.n_w.sum()), additions)
        figures = self._figures(number, phase, last_of_phase, finished) if number else {}
        seconds = self._pass_seconds + time.monotonic() - began
        eval_began = time.monotonic()
        every = run.stopping.eval_every
        heldout = None
        low = None
        if number and every and (number % every == 0 or number >= run.stopping.passes):
            heldout, low = self.course.measure(number, self.readable, self.params, figures)
        if run.stopping.tol_params:
            figures["topics_moved"] = self._measure_moves(number, self.readable)
        record = {
            "pass": number,
            "seconds": round(seconds, 6),
            "cells_per_second": round(int(run.grid.cells.sum()) / max(seconds, 1e-9), 1),
            "running_perplexity": None,
            "heldout_perplexity": heldout,
            "eval_seconds": round(time.monotonic() - eval_began, 6) if low is not None else 0.0,
            "rss_peak_bytes": machine.peak_bytes(),
            "mass_correction": float(max((w[0] for w in worst.values()), default=0.0)),
            **figures,
            **self.executor.effort(),
        }
        fetched = places().traffic()
        if fetched:
            record["fetched"] = fetched
        if len(self.engine.phases) > 1:
            record["phase"] = phase.name
        if number == 0:
            record["start"] = run.record.start
        self.passes = number
        self.rounds = 0
        self.needs_start = False
        self._pass_seconds = 0.0
        self.stats = new_stats(self.engine)
        self.memories.end_pass()
        self.history.append(record)
        run.progress.end_pass(record, run.stopping.passes)
        pin = low is not None and self.course.best == number
        self.saver.end_pass(
            self._state, self.tables.current, final=number >= run.stopping.passes, pin=pin
        )

    def _figures(
        self, number: int, phase: Phase, last_of_phase: bool, finished: Mapping[str, FinishedTable]
    ) -> dict[str, object]:
        """Let the engine end a pass, and return the figures of the pass for the history."""
        stats = dict(self.stats)
        for name, table in finished.items():
            for figure_name, figure in table.summary.items():
                stats[f"{name}.{figure_name}"] = figure
            self._sample_table(name, number)
        end = self._pass_end(number, phase, stats)
        figures: dict[str, object] = dict(self.engine.end_pass(end))
        objective = self.engine.about.objective
        value = objective.value(self.stats)
        if value is not None:
            self.course.add_perplexity(value)
            if objective.name == "perplexity":
                figures["running_perplexity"] = value
            else:
                figures["objective"] = {objective.name: value}
        if last_of_phase or number >= self.run.stopping.passes:
            self.executor.free_buffers()
        if last_of_phase:
            if not phase.steps:
                self.engine.end_phase(end)
                self.executor.share()
            self.course.clear()
        return figures

    def _sample_table(self, name: str, number: int) -> None:
        """Add the state of a table to its samples, if one is taken after this pass.

        A run of 200 passes that is continued to 1000 averages the last states of the thousand. The
        samples of the shorter run are dropped.
        """
        spec = self.engine.tables[name]
        passes = self.run.stopping.passes
        if self.readable[name].samples_taken > spec.samples_before(number, passes):
            self.readable[name].drop_samples()
        if spec.takes_sample(number, passes):
            self.readable[name].take_sample()
            self.executor.share()

    def _measure_moves(self, number: int, tables: Mapping[str, Table]) -> float | None:
        """Measure how far the topics moved in a pass, and store them for the next.

        Older files are removed unless a checkpoint needs them.
        """
        moved = measure_moves(self.work, number, tables["phi"], float(self.params["beta"][0]))
        forget_topics(self.work, self.saver.needed | {topics_file(self.work, number).name})
        return moved

    # -- checkpoints
    def _state(self) -> State:
        """Collect the contents of a checkpoint beside the tables."""
        self.executor.write_state()
        arrays = self.tables.arrays
        files: dict[str, str] = {}
        for name, value in self.params.items():
            arrays[f"param.{name}"] = value.copy()
        for name, value in self.stats.items():
            arrays[f"stat.{name}"] = value.copy()
        for role, memory in self.memories.held.items():
            arrays[f"memory.{role}"] = memory.index.copy()
            files[role] = memory.path.name
        topics = topics_file(self.work, self.passes)
        if topics.exists():
            files["topics"] = topics.name
        old = self.memories.held.get("old")
        facts = Facts(
            needs_start=self.needs_start,
            scales=self.tables.scales,
            perplexities=self.course.running,
            heldout=self.course.measured,
            pass_seconds=self._pass_seconds,
            memory=files,
            memory_digest="" if old is None else old.digest(),
        )
        return State(self.passes, self.rounds, arrays, facts)

    def checkpoint_between_rounds(self, rounds: int) -> None:
        """Write a checkpoint inside a pass."""
        self.rounds = rounds
        # a start writes no successors
        tables = self.tables.current if self.needs_start else self.tables.roles
        self.saver.save(self._state(), tables)

    # -- end
    def finish(self, reason: str) -> str:
        """Make the last checkpoint, or that of the best pass, durable, and return the reason.

        The reason then names the pass that is kept. Buffers are released first, to make room for
        writing the model: the plan counts the larger of the two.
        """
        self.executor.gather()
        self.executor.release()
        self.passes_run = self.passes
        if self.course.best not in (0, self.passes) and self._go_back(self.course.best):
            reason = f"the best of {self.passes_run} by held-out perplexity; {reason}"
            self.saver.save(self._state(), self.tables.current)
        elif self.saver.latest != checkpoint_name(self.passes):
            self.saver.save(self._state(), self.tables.current)
        self.memories.remove_unneeded(self.saver.needed)
        return reason

    def _go_back(self, best: int) -> bool:
        """Return to the state after pass ``best``, or return False if its checkpoint is damaged.

        Later passes are dropped.
        """
        try:
            self._load(self._checkpoints / checkpoint_name(best))
        except StoreError as e:
            self.run.progress.say(f"warning: {e}; the last pass is kept, not pass {best}")
            return False
        self._rewind(best, False)
        return True

    def set_mean_prior(self) -> None:
        """Set alpha to the mean of the documents' own, where it depends on their covariates."""
        if self._covariates is None:
            return
        coefficients = row_coefficients(self.engine.shape.covariates, self.params)
        assert coefficients is not None
        mean = mean_prior(self._covariates, self.run.grid, coefficients)
        self.params["alpha"][:] = mean

    def mark_finished(self, reason: str) -> None:
        """Record that the run is finished: the model is stored."""
        forget_topics(self.work, set())
        outcome = Outcome.under(self.run.stopping, self.passes, reason, self.passes_run)
        outcome.write(self.run.folder)

    def close(self) -> None:
        """End threads and close files."""
        self.workers.close()
        self.memories.close()
        self.executor.release()
        self.tables.close()
