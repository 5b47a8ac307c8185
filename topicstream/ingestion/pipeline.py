"""``ingest``: raw files become parts, parts a store, committed by one rename.

``parts/reading.py`` is the first half, ``store/finishing.py`` the second.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from topicstream.base.cluster import connected_within
from topicstream.base.errors import InputError, NothingKept, NotOurs, TopicsError, UsageError
from topicstream.base.files import durable
from topicstream.base.files import ownership as owned
from topicstream.base.files.marker import MARK
from topicstream.base.files.outputs import check_place, folder_named
from topicstream.base.files.ownership import claim, refuse_strangers
from topicstream.base.machine import default_threads, peak_bytes, return_freed_memory
from topicstream.base.options import configured
from topicstream.base.places import places
from topicstream.base.progress import Progress, listener
from topicstream.base.records import Json
from topicstream.base.shown import Summary
from topicstream.corpus.manifest import StoreManifest
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sweep import remove_stale_files
from topicstream.ingestion.appending import options_of_append
from topicstream.ingestion.config import IngestConfig, Stop
from topicstream.ingestion.open import inputs_record
from topicstream.ingestion.open.inputs import input_places
from topicstream.ingestion.open.inputs_record import InputsRecord
from topicstream.ingestion.open.memory import KEY, InMemory, as_inputs
from topicstream.ingestion.options import CUT, FIELDS, LAYOUT, META
from topicstream.ingestion.parts.reading import Reading
from topicstream.ingestion.parts.spread import Spread
from topicstream.ingestion.parts.tasks import pieces
from topicstream.ingestion.parts.working_folder import WorkingFolder, read_state
from topicstream.ingestion.plan import plan_ingest
from topicstream.ingestion.settings import IngestOptions
from topicstream.ingestion.store.finishing import Finishing
from topicstream.ingestion.tokens.hyphens import learn_joined_words
from topicstream.ingestion.tokens.phrases import learn_phrases
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.tokenizer import Tokenizer
from topicstream.ingestion.tokens.tools import asked_tools
from topicstream.numeric.kernels.jit import notify_compiling


class IngestSummary(Summary):
    """What an ingest counted."""

    out: str
    documents: int
    documents_training: int
    documents_heldout: int
    words: int
    cells: int
    tokens: float
    rejected: int
    seconds: float


@configured(IngestConfig)
def ingest(config: IngestConfig) -> IngestSummary:
    """Read raw text or counts of any size into the corpus store ``out``.

    Options are those of the command line with underscores (``min_df=5, heldout="1%",
    stopwords="none"``). Fields and columns of documents in memory are named as in files
    (``text_field``, ``id_field``, ``meta``). The store is the same, byte for byte, for any number
    of workers and however often the ingest was killed and run again.

    Returns
    -------
    IngestSummary
        documents, documents_training, documents_heldout, cells, tokens, words, rejected,
        dropped_duplicates, seconds, ... ``finished_before`` is there where the same ingest had
        finished already, so that nothing was done; ``place_taken`` names the first document that
        was skipped because another is called by the same file.

    Raises
    ------
    InputError
        For bad input or options, naming file and record.
    Busy
        While another command writes to the store.
    DoesNotFit
        Where memory or disk has no room.
    TopicsError
        Where ``out`` is the store of another ingest, without ``force``.

    Examples
    --------
    >>> texts = ["ships and sails", "sails and harbours", "bread and butter", "butter and flour"]
    >>> summary = topicstream.ingest(texts, out="small.zarr", min_df=1, heldout=0, progress=False)
    >>> summary["documents"]
    4
    """
    options = IngestOptions.of_config(config)
    names = as_inputs(
        config.documents,
        path=True,
        vocabulary=config.vocabulary,
        ids=config.ids,
        layer=config.layer,
    )
    if names == []:
        raise InputError("nothing to ingest: give files, folders or - for standard input")
    return IngestSummary(places().make(config.out, _Order(names, options)))


class _Order:
    """An ingest as it was ordered: makes its store in any folder, and knows it again."""

    kind: Literal["corpus"] = "corpus"

    def __init__(self, names: list[str] | InMemory, options: IngestOptions) -> None:
        self._names = names
        self._options = options
        self.appends = options.given.append
        self.force = options.given.force
        self.progress = options.given.progress

    @cached_property
    def _record(self) -> InputsRecord:
        names = self._names if isinstance(self._names, list) else []
        return inputs_record.describe(names, self._options)

    @property
    def inputs(self) -> str:
        return self._record.digest

    def make(self, folder: str | os.PathLike[str]) -> dict[str, Json]:
        out = folder_named(folder)
        given = dataclasses.replace(self._options.given, out=out)
        options = dataclasses.replace(self._options, given=given)
        return _Ingest(
            self._names, out, options, listener(given.progress), given.stop or Stop()
        ).run()

    def is_made(self, folder: Path) -> bool:
        record = inputs_record.load(folder)
        return inputs_record.is_this(folder, record.fingerprint, self._record)

    def describe_made(self, folder: Path) -> dict[str, Json]:
        return _made_once(StoreManifest.read(folder), self._record, self._options.given)


def _made_once(store: StoreManifest, record: InputsRecord, config: IngestConfig) -> dict[str, Json]:
    """Return the summary of a store that the same ingest has made before."""
    return store.summary | {
        "out": str(config.out),
        "finished_before": True,
        "seconds": 0.0,
        "input_bytes": sum(entry.stamp[1] for entry in record.inputs),
        "megabytes_per_second": 0.0,
        "peak_rss_bytes": peak_bytes(),
        "workers": config.workers or default_threads(),
    }


class _Ingest:
    def __init__(
        self,
        names: list[str] | InMemory,
        out: Path,
        options: IngestOptions,
        progress: Progress,
        stop: Stop,
    ) -> None:
        check_place(out, "--out", [n for n in names if n != "-"] if isinstance(names, list) else [])
        if out.is_symlink():
            raise NotOurs(f"--out {out}: is a link to {os.readlink(out)}; name the folder itself")
        if os.path.ismount(out):  # the store is made beside it and renamed
            raise UsageError(
                f"--out {out}: is the root of a disk or a mount, which a store cannot replace; "
                f"name a folder inside it"
            )
        self.names = names
        self.out = out
        self.progress = progress
        self.stop = stop
        self.plan = plan_ingest(options.given.mem_limit, options.given.workers)
        self.wip = out.with_name(out.name + ".wip")
        self.base: Corpus | None = None
        if (out / "manifest.json").exists() and not options.given.force:
            self.base = Corpus.open(out, dense=True) if options.given.append else None
        self.options = self._complete(options)
        self._tokenizer()  # what it lacks is reported before anything is made

    def _complete(self, options: IngestOptions) -> IngestOptions:
        """Complete the options: an append uses what the store remembers."""
        if self.base is None:
            given = dataclasses.replace(options.given, append=False, grow_vocab=False)
            return dataclasses.replace(options, given=given)
        layout = [LAYOUT] if isinstance(self.names, list) else []
        kinds = (FIELDS, META, CUT, *layout) if options.given.as_store else ()
        return options_of_append(options, self.base.manifest, self.out, *kinds)

    def _tokenizer(self) -> Tokenizer:
        """Make the tokenizer of the recipe, with the tools that this command names."""
        return Tokenizer(self.options.recipe, asked=asked_tools(self.options.given))

    def run(self) -> dict[str, Json]:
        return_freed_memory()
        notify_compiling(self.progress.say)
        if self.out.exists() and not self.out.is_dir():
            raise NotOurs(f"{self.out}: is a file; choose another --out")
        self.options.side.open(
            self.options.given
        )  # what they lack is reported before anything is read
        if self.out.exists() and set(os.listdir(self.out)) - {".lock", MARK}:
            claim(
                self.out, "corpus"
            )  # what is no store, or one that this version cannot read, is never replaced
        self.progress.step("reading", unit="B")
        with ExitStack() as stack:
            stack.enter_context(durable.lock(self.wip, "ingesting into", kind="ingest"))
            if self.base is not None:
                claim(self.out, "corpus")
                stack.enter_context(durable.lock(self.out, "writing to", kind="corpus"))
                self.base = Corpus.open(self.out, dense=True)
            record = inputs_record.describe(
                [] if isinstance(self.names, InMemory) else self.names, self.options
            )
            if (summary := self._made_before(record)) is not None:
                return summary
            if self.base is None and self.out.exists() and any(self.out.iterdir()):
                if not self.options.given.force:
                    raise TopicsError(
                        f"{self.out}: exists; --append adds to it, --force replaces it"
                    )
                refuse_strangers(self.out)
            recipe = self.options.recipe
            is_new = self.base is None and self.options.given.recipe is None
            if is_new:
                self.options = dataclasses.replace(self.options, recipe=self._learnt(recipe))
            if isinstance(self.names, InMemory) and self.base is not None:
                # an append must not meet the numbers of the documents before
                self.names = dataclasses.replace(
                    self.names, first=sum(p.docs for p in self.base.manifest.parts.values())
                )
            unfinished = None if self.options.given.force else read_state(self.wip)
            # nobody can carry on what was read from another process's memory
            lost = unfinished is None or any(
                path.startswith(KEY) for path in unfinished.key.get("paths", [])
            )
            paths = (
                [self.names.key]
                if isinstance(self.names, InMemory)
                else [entry.place for entry in record.inputs]
            )
            base = self.base.fingerprint if self.base is not None else None
            key = {
                "paths": paths,
                **self.options.reading(),
                "append to": base,
            }  # what decides the sequence and the content of the pieces
            working = WorkingFolder(
                self.wip, key, None if lost else unfinished, self.plan.words_of_part
            )
            state = working.state
            same = state.record is not None and inputs_record.are_same(record, state.record)
            if state.record is None:
                state.record = record
                state.places = [] if isinstance(self.names, InMemory) else input_places(self.names)
            try:
                return self._run(working, same)
            except BaseException as e:
                if state.pieces == 0 or isinstance(
                    e, NothingKept
                ):  # a run that has read nothing leaves nothing
                    working.remove()
                raise
            finally:
                working.close()

    def _learnt(self, recipe: Recipe) -> Recipe:
        """Return the recipe with what readings of their own learn from the text.

        It is the same on a resume, as it is learnt from the same text.
        """
        read = dataclasses.replace(
            self.options.given,
            piece_bytes=min(self.plan.piece_bytes, self.options.given.piece_bytes),
            room=self.plan.room,
        )
        memory = self.plan.relations
        asked = asked_tools(read)
        if recipe.join_hyphens and not recipe.joined_words:
            self._check_read_twice("join_hyphens")
            self.progress.step("learning broken words")
            with owned.scratch(self.wip, "hyphens") as folder:
                recipe = learn_joined_words(
                    self._texts(read), recipe, folder, memory_bytes=memory, asked=asked
                )
        if recipe.phrase_threshold is not None and not recipe.phrases:
            self._check_read_twice("phrases")
            self.progress.step("learning phrases")
            with owned.scratch(self.wip, "phrases") as folder:
                recipe = learn_phrases(
                    self._texts(read),
                    recipe,
                    folder,
                    memory_bytes=memory,
                    threshold=recipe.phrase_threshold,
                    asked=asked,
                )
        return recipe

    def _check_read_twice(self, name: str) -> None:
        """Refuse an option that reads the documents twice where they can be read only once."""
        if isinstance(self.names, InMemory):
            if self.names.once:
                raise InputError(
                    f"{name} reads the documents twice, but a generator yields them once; pass "
                    "a list"
                )
        elif "-" in self.names:
            raise UsageError(
                f"--{name.replace('_', '-')} reads the text twice, but standard input can be read "
                f"only once; save it to a file first"
            )

    def _texts(self, read: IngestConfig) -> Iterator[pa.Array]:
        """Yield the text of the documents of a reading of its own, large_string[D]."""
        for task in pieces(self.names, read):
            if task.reader.kind == "text":
                yield task.run()[0].column(2)

    def _made_before(self, record: InputsRecord) -> dict[str, Any] | None:
        """Return the summary of the store at ``out`` where this very ingest made it."""
        if self.options.given.force or not (self.out / "manifest.json").exists():
            return None
        store = Corpus.open(self.out, dense=True)
        state = read_state(self.wip)
        committed = None if state is None else state.committed
        if (
            state is not None
            and committed is not None
            and committed.fingerprint == store.fingerprint
        ):
            remove_stale_files(self.out, store.manifest)
            if state.record != record or isinstance(self.names, InMemory):
                owned.clear(self.wip, "ingest")
                return None
            self.progress.say(f"{self.out}: was finished already")
            owned.remove(self.wip, "ingest")
            return committed.summary
        if self.base is not None or not inputs_record.is_this(self.out, store.fingerprint, record):
            return None
        if state is None:  # the lock alone
            owned.remove(self.wip, "ingest")
        return _made_once(store.manifest, record, self.options.given)

    def _run(self, working: WorkingFolder, same: bool) -> dict[str, Json]:
        state = working.state
        config = dataclasses.replace(self.options.given, scratch=working.folder)
        if working.resumed and state.pieces:
            self.progress.say(f"{self.wip}: resuming after {state.pieces} pieces")
        if not state.done:
            names = self.names if isinstance(self.names, list) else []
            with connected_within(config.scheduler, self.plan.limit, [*names, self.wip]) as (
                cluster,
                limit,
            ):
                plan = (
                    self.plan
                    if cluster is None
                    else plan_ingest(limit.bytes, config.workers or cluster.least_threads)
                )
                state.piece_bytes = state.piece_bytes or min(
                    plan.piece_bytes, self.plan.piece_bytes, config.piece_bytes
                )
                read = dataclasses.replace(config, piece_bytes=state.piece_bytes, room=plan.room)
                workers = plan.workers if cluster is None else Spread(cluster, plan.workers)
                reading = Reading(working, read, self.progress, self.stop, same=same)
                reading.run(self.names, self._tokenizer(), workers)
        options = dataclasses.replace(self.options, given=config)
        return Finishing(self.out, self.base, self.plan, self.progress, working, options).run()
