"""One training run on its way: its tables, block memory, parameters, history and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from topicstream import machine
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import BlockShape, Engine, Key, Layout, Phase
from topicstream.errors import StoreError, TopicsError
from topicstream.files import owned
from topicstream.files.durable import read_json
from topicstream.parallel.rounds import Workers
from topicstream.progress import Progress
from topicstream.training.course import Course
from topicstream.training.executor import Job, MakeExecutor
from topicstream.training.invariants import check_pass, worth_a_warning
from topicstream.training.judgement import alpha_at_bound, hardly_diverse, topic_diversity
from topicstream.training.passes import PassRunner
from topicstream.training.plan import Plan
from topicstream.training.starts.carry import CARRIED, carry_over, first_new_block
from topicstream.training.starts.vectors import vector_sample
from topicstream.training.state.checkpoint import State, checkpoints, read_checkpoint
from topicstream.training.state.history import History
from topicstream.training.state.memory import Memories
from topicstream.training.state.outcome import Outcome, unfinish
from topicstream.training.state.record import Record
from topicstream.training.state.saver import Saver
from topicstream.training.state.settled_topics import SettledTopics
from topicstream.training.state.workspace import clean_work, new_tables
from topicstream.training.stopping import Stopping
from topicstream.training.threads import Threads


class Session:
    """``passes`` done, ``rounds`` done of the next; ``last`` is the latest history record."""

    def __init__(
        self,
        folder: Path,
        record: Record,
        engine: Engine,
        corpus: Corpus,
        grid: Grid,
        block: BlockShape,
        plan: Plan,
        seed: int,
        layout: Layout,
        warm: str | Path | None,
        progress: Progress,
        carry: Path | None = None,
        warm_share: float = 1.0,
        n_w: np.ndarray | None = None,
        executor: MakeExecutor = Threads,
    ) -> None:
        self.folder, self.record, self.engine, self.corpus, self.grid = folder, record, engine, corpus, grid
        self.plan, self._progress, self._warm, self._seed, self._carry = plan, progress, warm, seed, carry
        self._warm_share = warm_share
        self._work, self._checkpoints = folder / "work", folder / "checkpoints"
        clean_work(self._work)
        # the words as they are now: an append that ends while this run goes on puts a longer file in their place
        self._vocab = self._work / "vocab.parquet"
        owned.copy_file(corpus.file("vocab"), self._vocab)
        self.workers = Workers(plan.threads)
        self._n_w = corpus.word_counts() if n_w is None else n_w
        self.tables = new_tables(engine, "table", self._work, plan, self.workers, self._n_w)
        self.nexts = new_tables(engine, "next", self._work, plan, self.workers, self._n_w)
        spill = self._work if plan.deltas_on_disk else None
        self._make_executor = executor
        self.executor = executor(
            Job(engine, corpus, grid, layout.round_blocks, block, self.workers, plan.prefetch, spill)
        )
        self.runner = PassRunner(engine, grid, self.executor, self.tables, self.nexts, seed, layout.round_blocks)
        self.params = engine.initial_params()
        self.passes, self.rounds = 0, 0
        self.needs_start = True
        self.stats = self.engine.new_stats()
        self.memories = Memories(self._work, engine.memory, len(grid), plan.behind)
        self._history = History(folder / "history.jsonl")
        self.course = Course(engine, corpus, plan.threads, record.settings["start"])
        self.made = 0  # passes, those behind the one that was kept among them
        self._pass_seconds = 0.0
        self.saver = Saver(self._checkpoints, self._work, lambda: self.memories.names, not plan.behind)
        self._stopping: Any = None
        self._settled: SettledTopics | None = None

    # -- resume ------------------------------------------------------------------------------------------------------
    def resume(self) -> Outcome | None:
        """Load the latest checkpoint that is whole.  Returns how the run had finished, or None when it had not."""
        found = checkpoints(self._checkpoints)
        state = None
        while found and state is None:
            try:
                state = read_checkpoint(found[-1])
                self._load(found[-1], state)
            except StoreError as e:
                bad = found.pop()
                if not found:
                    raise
                self._progress.say(f"warning: {e}; going back to checkpoint {found[-1].name}")
                owned.remove_within(bad, "checkpoints")
                state = None
        self.saver.drop_memory()
        if state is None:
            self._take_over()
            return None
        for problem in self._history.rewind(self.passes, self.needs_start):
            self._progress.say(f"warning: {problem}")
        finished = Outcome.read(self.folder)
        if finished is not None and (finished.passes != self.passes or self.rounds):
            finished = None
        self.made = self.made if finished is None else finished.made
        best = self._checkpoints / State(self.course.best, 0).name
        if self.course.best and best.is_dir():
            self.saver.pin(best.name, set(read_json(best / "state.json")["facts"]["memory"].values()))
        if finished is None:
            self._progress.say(
                f"going on after {self.passes} passes" + (f" and {self.rounds} rounds" if self.rounds else "")
            )
        return finished

    def _load(self, path: Path, state: State) -> None:
        try:
            self._take(path, state)
        except (KeyError, ValueError, TypeError, IndexError) as e:
            what = f"{type(e).__name__}: {e}"
            raise StoreError(f"{path}: not the state of this run ({what}); start anew with --force") from None

    def _take(self, path: Path, state: State) -> None:
        self.passes, self.rounds = state.passes, state.rounds
        self.needs_start = bool(state.facts["needs_start"])
        for name, table in self.tables.items():
            table.load(path / f"{name}.rows")
            table.totals[:] = state.arrays[f"totals.{name}"]
            table.scale = float(state.facts["scales"].get(name, 1.0))
        for name, table in self.nexts.items():
            if (path / f"{name}.next.rows").exists():
                table.load(path / f"{name}.next.rows")
                table.totals[:] = state.arrays[f"next.{name}"]
            else:
                table.clear()
        self.params = state.checked_params(path, self.engine.initial_params())
        self.stats = {k[5:]: v.copy() for k, v in state.arrays.items() if k.startswith("stat.")}
        self.course.running = list(state.facts["perplexities"])
        self.course.measured = [(int(n), float(value)) for n, value in state.facts.get("heldout", [])]
        self._pass_seconds = float(state.facts["pass_seconds"])
        self.memories.reopen(state)
        if self.engine.memory and not self.needs_start and self.memories.old is None:
            raise KeyError("facts.memory.old")

    def _take_over(self) -> None:
        owned.remove_file(self.folder / CARRIED, missing_ok=True)
        if self._carry is None:
            return
        state = carry_over(self._carry, self.folder, self.engine, self.corpus, self.grid, self.tables)
        self.params = state.params
        self.memories.new = self.memories.opened(state, "new")

    def _order(self, number: int) -> np.ndarray:
        order = self.grid.order(self.engine.order, self._seed, number)
        return order[order >= first_new_block(self.folder)] if number == 0 else order

    # -- passes ------------------------------------------------------------------------------------------------------
    def run_pass(self, stopping: Stopping, pause: Callable[[int], bool]) -> bool:
        """The start or one pass, whole or from the round a checkpoint stopped at; False when ``pause`` asked to stop."""
        began = time.monotonic()
        number = 0 if self.needs_start else self.passes + 1
        what = f"pass {number}/{stopping.passes}" if number else "start"
        tell = partial(self._progress.step, what, total=int(self.grid.cells.sum()), unit="cell")
        tell(0)
        phase = self.engine.phase_of(number)[0] if number else Phase("start")
        if number == 0 and self.engine.on_vectors and self.rounds == 0:
            sample = vector_sample(self.corpus, self.grid, self._seed, self.engine.shape.topics)
            self.engine.begin(sample, self._seed, self.params)
        if number == 0 and self.engine.start_from == "empty":
            done = True
        elif number == 0 and self.engine.start_from == "table" and self.engine.on_vectors:
            for name, table in self.tables.items():
                rows = self.engine.start_rows(name, self.params)
                table.fill(lambda a, b, rows=rows: rows[a:b])  # type: ignore[misc]
            done = True
        elif number == 0 and self.engine.start_from == "table":
            seeds = self._seeds()
            if seeds is None:
                raise TopicsError(f"{self.engine.name} needs seed topics; choose another --start")
            self._fill_from(seeds)
            done = True
        elif phase.steps:
            self.saver.tables_free()
            self.engine.steps(self.tables, self.params, Key(self._seed, number, phase.name), self.stats)
            done = True
        else:
            seeds = self._seeds() if number == 0 else None
            self.memories.begin(number, self.saver.take_spare)

            def after(rounds: int, cells: int) -> bool:
                self.rounds = rounds
                tell(cells)
                return pause(rounds)

            order = self._order(number)
            following = self._order(number + 1) if number < stopping.passes else None
            done = self.runner.run(
                number,
                order,
                self.rounds,
                self.stats,
                self.params,
                seeds,
                self.memories.old,
                self.memories.new,
                self.saver.tables_free,
                after,
                following,
            )
        self._pass_seconds += time.monotonic() - began
        if not done and self.rounds * self.runner.round_blocks < len(self._order(number)):
            return False
        self._end_pass(number, stopping)
        return done

    def _seeds(self) -> Any:
        from topicstream.training.starts.choosing import start_topics  # its kernels are loaded by runs that begin

        return start_topics(
            self.record.settings["start"],
            self.engine,
            self.corpus,
            self.grid,
            self._seed,
            self._n_w,
            plan=self.plan,
            workers=self.workers,
            say=self._progress.say,
            warm=self._warm,
            warm_share=self._warm_share,
            executor=self._make_executor,
        )

    def _fill_from(self, seeds: Any) -> None:
        tokens = float(self.corpus.n_tokens)
        scale = tokens / float(np.sum(seeds.totals))
        self.tables["phi"].fill(lambda a, b: seeds.rows(np.arange(a, b, dtype=np.int32)) * np.float32(scale))

    def _end_pass(self, number: int, stopping: Stopping) -> None:
        began = time.monotonic()
        self.saver.tables_free()
        phase, last_of_phase = self.engine.phase_of(number) if number else (Phase("start"), False)
        if number > 0:
            self.runner.swap(phase)
        worst = {name: table.settle() for name, table in self.tables.items()}
        totals = {name: table.totals for name, table in self.tables.items()}
        additions = 2 * int(self.grid.docs.max()) + len(self.grid)
        check_pass(self.engine, totals, worst, number, float(self._n_w.sum()), additions)
        own: dict[str, Any] = {}
        value = None
        if number > 0:
            found = dict(self.stats)
            for name, table in self.tables.items():
                found |= {f"{name}.{what}": figure for what, figure in table.summary().items()}
                if self.engine.takes_sample(number) and self.engine.tables[name].samples:
                    table.take_sample()
            own = self.engine.end_pass(self.params, found, totals)
            if type(self.engine).end_pass_rows is not Engine.end_pass_rows:
                own |= self.engine.end_pass_rows(self.params, self.stats, self.tables["phi"].pieces())
            own |= self.engine.end_pass_tables(self.params, self.stats, self.tables)
            for warning in self.engine.warnings({"pass": number, **own}):
                self._progress.say(f"warning: {warning}")
            value = self.engine.objective.value(self.stats)
            if value is not None:
                self.course.note(value)
            if last_of_phase or number >= stopping.passes:
                self.runner.executor.rest()
            if last_of_phase:
                for line in self.engine.end_phase(phase, self.tables, self.params) or ():
                    self._progress.say(line)
                self.course.forget()
        seconds = self._pass_seconds + time.monotonic() - began
        heldout, low, judging = None, None, time.monotonic()
        if number > 0 and stopping.eval_every and (number % stopping.eval_every == 0 or number >= stopping.passes):
            heldout, low = self.course.measure(number, self.tables, self.params, own)
        cells = int(self.grid.cells.sum())
        record: dict[str, Any] = {
            "pass": number,
            "seconds": round(seconds, 6),
            "cells_per_second": round(cells / max(seconds, 1e-9), 1),
            "running_perplexity": value if self.engine.objective.name == "perplexity" else None,
            "heldout_perplexity": heldout,
            "eval_seconds": round(time.monotonic() - judging, 6) if low is not None else 0.0,
            "rss_peak_bytes": machine.peak_bytes(),
            "mass_correction": float(max((w[0] for w in worst.values()), default=0.0)),
            **own,
        }
        if value is not None and self.engine.objective.name != "perplexity":
            record["objective"] = {self.engine.objective.name: value}
        if self._settled is not None:
            record["topics_moved"] = self._settled.moved(number, self.tables["phi"], float(self.params["beta"][0]))
        if len(self.engine.phases) > 1:
            record["phase"] = phase.name
        if number == 0:
            record["start"] = self.record.settings["start"]
        self.passes, self.rounds, self.needs_start = number, 0, False
        self._pass_seconds = 0.0
        self.stats = self.engine.new_stats()
        stale = self.memories.end_pass()
        self._history.append(record)
        self._progress.end_pass(record, stopping.passes)
        if stale is not None:
            stale.close()
        pin = low is not None and self.course.best == number
        self.saver.soon(self._state, self.tables, final=number >= stopping.passes, pin=pin)
        if stale is not None:
            self.saver.let_go(stale.path)

    @property
    def last(self) -> Mapping[str, Any]:
        """The latest history record."""
        return self._history.last

    def unmoved(self, tol: float) -> bool:
        """Whether the last pass moved no probability of a word by more than that."""
        moved = self.last.get("topics_moved")
        return moved is not None and moved <= tol and self.passes >= self.course.least

    # -- checkpoints -------------------------------------------------------------------------------------------------
    def _state(self) -> State:
        arrays: dict[str, np.ndarray] = {f"totals.{name}": table.totals.copy() for name, table in self.tables.items()}
        arrays |= {f"next.{name}": table.totals.copy() for name, table in self.nexts.items()}
        arrays |= {f"param.{name}": value.copy() for name, value in self.params.items()}
        arrays |= {f"stat.{name}": figure.copy() for name, figure in self.stats.items()}
        memory: dict[str, str] = {}
        for which, held in self.memories.held:
            arrays[f"memory.{which}"] = held.index.copy()
            memory[which] = held.path.name
        facts = {
            "needs_start": self.needs_start,
            "scales": {name: table.scale for name, table in self.tables.items()},
            "perplexities": self.course.running,
            **({"heldout": self.course.measured} if self.course.measured else {}),
            "pass_seconds": self._pass_seconds,
            "memory": memory,
            "memory_digest": "" if self.memories.old is None else self.memories.old.digest(),
        }
        return State(self.passes, self.rounds, arrays, facts)

    def checkpoint_between_rounds(self, rounds: int) -> None:
        """A checkpoint inside a pass, written before going on."""
        self.rounds = rounds
        self.saver.now(self._state(), self.tables, {} if self.needs_start else self.nexts)

    # -- end ---------------------------------------------------------------------------------------------------------
    def note_stopping(self, stopping: Stopping) -> None:
        """What the run is asked to do now; a finished run that goes on is finished no more."""
        self._stopping = stopping
        if stopping.tol_params:
            words, topics = self.tables["phi"].n_rows, self.engine.shape.topics
            self._settled = SettledTopics(self._work, words, topics)
            if not self.needs_start and self.rounds == 0:
                self._settled.resumed(self.passes, self.tables["phi"], float(self.params["beta"][0]))
        unfinish(self.folder)

    def finish(self, reason: str) -> str:
        """Make the last checkpoint durable and store the model; returns the reason, with what was kept.  The buffers of the
        passes make room for what writing the model takes: the plan counts the larger of the two."""
        self.saver.wait()
        self.executor.release()
        self.made = self.passes
        if self.course.best not in (0, self.passes) and self._go_back(self.course.best):
            reason = f"the best of {self.made} by held-out perplexity; {reason}"
            self.saver.now(self._state(), self.tables, {})
        elif not self.saver.is_durable(State(self.passes, 0).name):
            self.saver.now(self._state(), self.tables, {})
        from topicstream.training.export import write_model

        write_model(
            self.folder,
            self.record,
            self.corpus,
            self._vocab,
            self.engine,
            self.tables,
            self.params,
            self.passes,
            reason,
        )
        moved = 0.0
        if self._settled is not None:
            moved = self._stopping.tol_params
            self._settled.remove()
        Outcome(self.passes, reason, self.made, self._stopping.tol, moved).write(self.folder)
        return reason

    def _go_back(self, best: int) -> bool:
        """Be as after that pass again, all that came behind it forgotten; False, and a word, when its checkpoint is damaged."""
        path = self._checkpoints / State(best, 0).name
        try:
            state = read_checkpoint(path)
        except StoreError as e:
            self._progress.say(f"warning: {e}; the last pass is kept, not pass {best}")
            return False
        self._load(path, state)
        for problem in self._history.rewind(best, False):
            self._progress.say(f"warning: {problem}")
        return True

    def warnings(self) -> list[str]:
        """What a user should hear of the topics."""
        said = worth_a_warning(self.engine, self.tables, self.params)
        if self.engine.on_vectors or "phi" not in self.tables:
            return said
        said += self.course.worse_than_unigram(self.last, self.tables, self.params, self._n_w)
        said += alpha_at_bound(self.engine, self.params)
        if not self.engine.topics_axis:
            said += hardly_diverse(
                topic_diversity(self.tables["phi"].pieces(), self.engine.shape.topics, self.engine.shape.words)
            )
        return said

    def close(self) -> None:
        """End threads, close files."""
        try:
            self.saver.close()
        finally:
            self.workers.close()
            self.memories.close()
            self.executor.release()
            for table in [*self.tables.values(), *self.nexts.values()]:
                table.close()
