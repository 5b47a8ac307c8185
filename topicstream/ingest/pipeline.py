"""``ingest``: raw files -> spools -> vocabulary -> a corpus store, committed by one rename (see reading.py, finishing.py and what they use)."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from topicstream import durable
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, TopicsError
from topicstream.ingest import commit
from topicstream.ingest.finishing import Finishing
from topicstream.ingest.journal import Journal, clear
from topicstream.ingest.plan import MemoryPlan
from topicstream.ingest.progress import Progress
from topicstream.ingest.reading import Line, Reading, Stop
from topicstream.ingest.settings import IngestOptions
from topicstream.ingest.tasks import parse_all
from topicstream.machine import calm_malloc
from topicstream.tokens.builder import VocabularyBuilder
from topicstream.tokens.documents import TextRun
from topicstream.tokens.phrases import learn_phrases
from topicstream.tokens.recipe import Recipe
from topicstream.tokens.tokenizer import Tokenizer


def ingest(
    paths: str | os.PathLike[str] | list[str | os.PathLike[str]],
    out: str | os.PathLike[str] = "corpus.zarr",
    *,
    options: IngestOptions | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    **given: Any,
) -> dict[str, Any]:
    """Read raw text or counts of any size into the corpus store ``out``; the summary as a dict.

    paths: files, folders, ``-`` for standard input.  Options by their command line names with underscores
    (``min_df=5, heldout="1%", stopwords="none", mem_limit="2G"``; see IngestOptions, ReadOptions, Recipe), or as one
    IngestOptions.  ``stop`` is a signal handler that ends the ingest after a commit.  The store is the same, byte for byte, for any number of workers and however often the ingest was
    killed and run again.

    Raises InputError (bad input or options), Busy (another writer), DoesNotFit, TopicsError (``out`` exists).
    """
    if options is None:
        options = IngestOptions.of(**given)
    elif given:
        raise TypeError("give options either as one IngestOptions or by name")
    names = [os.fspath(p) for p in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    if not names:
        raise InputError("nothing to ingest: give files, folders or - for standard input")
    return _Ingest(names, Path(out), options, progress or Progress(), stop or Stop()).run()


class _Ingest:
    def __init__(self, names: list[str], out: Path, options: IngestOptions, progress: Progress, stop: Stop) -> None:
        self.names, self.out, self.progress, self.stop = names, out, progress, stop
        self.plan = MemoryPlan.of(options.mem_limit, options.workers)
        self.wip = out.with_name(out.name + ".wip")
        self.base: Corpus | None = None
        if (out / "manifest.json").exists() and not options.force:
            self.base = Corpus.open(out) if options.append else None
        self.options = self._as_of_base(options)

    def _as_of_base(self, options: IngestOptions) -> IngestOptions:
        """An append uses the tokenizer and the threshold of the store."""
        if self.base is None:
            return dataclasses.replace(options, append=False, grow_vocab=False) if options.append else options
        stored = self.base.manifest["tokenizer"]
        if stored is None:
            return options
        recipe = Recipe.from_json(stored)
        if options.tokenizer_given and options.recipe != recipe:
            raise InputError(
                f"{self.out}: was made with another tokenizer; leave the tokenizer's options out to append"
            )
        return dataclasses.replace(options, recipe=recipe)

    def run(self) -> dict[str, Any]:
        calm_malloc(mapped=32 << 20, kept=24 << 20)
        pa.set_memory_pool(pa.system_memory_pool())
        if self.out.exists() and not self.out.is_dir():
            raise TopicsError(f"{self.out}: is a file; choose another --out")
        self.wip.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(durable.lock(self.wip, "ingesting into"))
            if self.base is not None:
                stack.enter_context(durable.lock(self.out, "writing to"))
                self.base = Corpus.open(self.out)
            if (done := self._finished_before()) is not None:
                return done
            self._refuse_overwrite()
            if self.base is None and self.options.recipe.phrase_threshold is not None:
                self.options = dataclasses.replace(self.options, recipe=self._with_phrases())
            journal = Journal(self.wip, self._key(), force=self.options.force)
            journal.state.setdefault("inputs", _stamps(self.names))
            try:
                return self._run(journal)
            except InputError:
                if journal.state["pieces"] == 0:
                    journal.remove()
                raise
            finally:
                journal.close()

    def _with_phrases(self) -> Recipe:
        """The recipe with the phrases of a reading of its own; the same on a resume, as it is learnt from the same text."""
        recipe, read = self.options.recipe, self.options.read
        if recipe.phrases or recipe.phrase_threshold is None:
            return recipe
        if "-" in self.names:
            raise InputError("--phrases reads the text twice, which standard input cannot be; save it to a file first")
        self.progress.say_step("learning phrases")
        read = dataclasses.replace(read, piece_bytes=min(self.plan.piece_bytes, read.piece_bytes))
        with tempfile.TemporaryDirectory(dir=self.wip, prefix="phrases-") as folder:
            texts = (run for run, _ in parse_all(self.names, read) if isinstance(run, TextRun))
            return learn_phrases(
                texts, recipe, folder, memory_bytes=self.plan.vocabulary, threshold=recipe.phrase_threshold
            )

    def _finished_before(self) -> dict[str, Any] | None:
        """The summary of this very ingest, where it was killed between its commit and the removal of the working folder.
        What another one left that was killed there is cleared away."""
        path = self.wip / "state.json"
        if self.options.force or not path.exists() or not (self.out / "manifest.json").exists():
            return None
        state = durable.read_json(path)
        done = state.get("committed")
        if done is None or done["fingerprint"] != Corpus.open(self.out).fingerprint:
            return None
        commit.plain_names(self.out, Corpus.open(self.out).manifest)
        if not self._is_this(state):
            clear(self.wip)
            return None
        self.progress.say(f"{self.out}: was finished already")
        commit.remove_folder(self.wip)
        return done["summary"]

    def _is_this(self, state: dict[str, Any]) -> bool:
        """Whether the state is of an ingest of the same input with the same options; the store that it appended
        to has changed since, and phrases are not yet learnt."""
        aside = {"append to"} | ({"tokenizer"} if self.options.recipe.phrase_threshold is not None else set())
        asked = [{k: v for k, v in key.items() if k not in aside} for key in (state["key"], self._key())]
        return asked[0] == asked[1] and state.get("inputs") == _stamps(self.names)

    def _refuse_overwrite(self) -> None:
        if self.base is not None or not self.out.exists() or not any(self.out.iterdir()):
            return
        problem = None
        if not (self.out / "manifest.json").exists():
            problem = f"{self.out}: a folder that is no corpus store; choose another --out"
        elif not self.options.force:
            problem = f"{self.out}: exists; --append adds to it, --force replaces it"
        if problem is not None:
            if not (self.wip / "state.json").exists():
                commit.remove_folder(self.wip)
            raise TopicsError(problem)

    def _key(self) -> dict[str, Any]:
        """What decides the sequence and the content of the pieces."""
        read = {k: v for k, v in dataclasses.asdict(self.options.read).items() if k not in ("on_error", "piece_bytes")}
        read["meta"] = dict(read["meta"])
        read["vocab"] = None if read["vocab"] is None else str(read["vocab"])
        return {
            "paths": [p if p == "-" else os.path.abspath(p) for p in self.names],
            **read,
            "tokenizer": self.options.recipe.hash(),
            "append to": self.base.fingerprint if self.base is not None else None,
        }

    def _run(self, journal: Journal) -> dict[str, Any]:
        state = journal.state
        piece = state.setdefault("piece_bytes", min(self.plan.piece_bytes, self.options.read.piece_bytes))
        options = dataclasses.replace(self.options, read=dataclasses.replace(self.options.read, piece_bytes=piece))
        if state["vocabulary"] is not None:
            builder = VocabularyBuilder.resume(journal.words, self.plan.vocabulary, state["vocabulary"])
            self.progress.say(f"{self.wip}: carrying on after {state['pieces']} pieces")
        else:
            builder = VocabularyBuilder(journal.words, self.plan.vocabulary)
        if not state["done"]:
            fixed = int(self.base.manifest["heldout"]["threshold"], 16) if self.base is not None else None
            line = Line(options.heldout, fixed)
            Reading(journal, builder, options, line, self.progress, self.stop).run(
                self.names, Tokenizer(options.recipe), self.plan.workers
            )
        return Finishing(self.out, self.base, self.plan, self.progress, journal, builder, options).run()


def _stamps(names: list[str]) -> list[Any]:
    """Size and time of every file that is named, [files, bytes, latest time] of a folder; None for standard input."""
    stamps: list[Any] = []
    for name in names:
        if name == "-" or not os.path.exists(name):
            stamps.append(None)
            continue
        found = (
            [os.path.join(at, f) for at, _, files in os.walk(name) for f in files] if os.path.isdir(name) else [name]
        )
        about = [os.stat(f) for f in found if os.path.exists(f)]
        stamps.append([len(about), sum(s.st_size for s in about), max((s.st_mtime_ns for s in about), default=0)])
    return stamps
