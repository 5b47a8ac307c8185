"""``ingest``: raw files become parts, and parts become a store, committed by one rename.

``parts/reading.py`` is the first half, ``store/finishing.py`` the second.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Literal

import pyarrow as pa

from topicstream.base.cluster import connected_within
from topicstream.base.errors import InputError, NothingKept, NotOurs, TopicsError, UsageError
from topicstream.base.files import durable
from topicstream.base.files import ownership as owned
from topicstream.base.files.inventory import refuse_unlisted
from topicstream.base.files.marker import MARK
from topicstream.base.files.outputs import check_place, folder_named
from topicstream.base.files.ownership import claim
from topicstream.base.machine import default_threads, peak_bytes, return_freed_memory
from topicstream.base.options import configured
from topicstream.base.places import places
from topicstream.base.progress import listener
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
from topicstream.ingestion.parts.working_folder import IngestState, WorkingFolder, read_state
from topicstream.ingestion.plan import plan_ingest
from topicstream.ingestion.settings import (
    describe_reading,
    recipe_of,
    resolve_options,
    side_files_of,
)
from topicstream.ingestion.store.finishing import Finishing
from topicstream.ingestion.tokens.hyphens import learn_joined_words
from topicstream.ingestion.tokens.phrases import learn_phrases
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.tokenizer import Tokenizer
from topicstream.ingestion.tokens.tools import named_tools
from topicstream.numeric.kernels.jit import notify_compiling


class IngestSummary(Summary):
    """Figures of an ingest.

    Attributes
    ----------
    out
        Folder of the store, or its address.
    documents, documents_training, documents_heldout
        Documents of the store, and of each part.
    words, cells, tokens
        Words of the vocabulary, distinct words of the documents added up, and their occurrences.
    rejected
        Records that were left out because they could not be read.
    seconds
        Time of the ingest.
    """

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
        dropped_duplicates, seconds, ... It has ``finished_before`` if the same ingest had finished
        already, so that nothing was done. ``place_taken`` names the first document that was
        skipped because another one of the same file has its name for an id.

    Raises
    ------
    InputError
        If input or options are bad; the message names file and record.
    Busy
        If another command writes to the store.
    DoesNotFit
        If memory or disk have no room.
    TopicsError
        If ``out`` is the store of another ingest, and ``force`` is not set.

    Examples
    --------
    >>> texts = ["ships and sails", "sails and harbours", "bread and butter", "butter and flour"]
    >>> summary = topicstream.ingest(texts, out="small.zarr", min_df=1, heldout=0, progress=False)
    >>> summary["documents"]
    4
    """
    options = resolve_options(config)
    names = as_inputs(
        config.documents,
        path=True,
        vocabulary=config.vocabulary,
        ids=config.ids,
        layer=config.layer,
    )
    if names == []:
        raise InputError("nothing to ingest: give files, folders or - for standard input")
    product = _IngestProduct(names, options, has_recipe=config.recipe is not None)
    return IngestSummary(places().make(config.out, product))


class _IngestProduct:
    """The store of an ingest, as a product that a place makes (base/providers.py)."""

    kind: Literal["corpus"] = "corpus"

    def __init__(
        self, names: list[str] | InMemory, options: IngestConfig, *, has_recipe: bool
    ) -> None:
        self._names = names
        self._options = options
        self._has_recipe = has_recipe
        self.appends = options.append
        self.force = options.force
        self.progress = options.progress

    @cached_property
    def _record(self) -> InputsRecord:
        """Return the record of the inputs, whose stamps are read once."""
        return inputs_record.describe_inputs(file_names(self._names), self._options)

    @property
    def inputs(self) -> str:
        return self._record.request if self._record.is_known else ""

    def make(self, folder: str | os.PathLike[str]) -> dict[str, Json]:
        options = dataclasses.replace(self._options, out=folder_named(folder))
        return _Ingest(self._names, options, has_recipe=self._has_recipe).run()

    def is_made(self, folder: Path) -> bool:
        stored = inputs_record.load_record(folder)
        return inputs_record.is_made_by(folder, stored.fingerprint, self._record.request)

    def describe_made(self, folder: Path) -> dict[str, Json]:
        return _summarize_finished(StoreManifest.read(folder), self._record, self._options)


def file_names(names: list[str] | InMemory) -> list[str]:
    """Return the names of inputs, or none for documents in memory."""
    return names if isinstance(names, list) else []


def _summarize_finished(
    store: StoreManifest, record: InputsRecord, options: IngestConfig
) -> dict[str, Json]:
    """Return the summary of a store that the same ingest has made before."""
    return store.summary | {
        "out": str(options.out),
        "finished_before": True,
        "seconds": 0.0,
        "input_bytes": sum(entry.stamp[1] for entry in record.inputs),
        "megabytes_per_second": 0.0,
        "peak_rss_bytes": peak_bytes(),
        "workers": options.workers or default_threads(),
    }


class _Ingest:
    """An ingest into one folder of this machine.

    Parameters
    ----------
    names
        Names of the inputs, or documents in memory.
    options
        The options, as ``resolve_options`` returns them.
    has_recipe
        True if the tokenizer is that of a model or another store. Otherwise a new store may learn
        words from its text.
    """

    def __init__(
        self, names: list[str] | InMemory, options: IngestConfig, *, has_recipe: bool
    ) -> None:
        out = Path(options.out)
        check_place(out, "--out", [n for n in file_names(names) if n != "-"])
        if out.is_symlink():
            raise NotOurs(f"--out {out}: is a link to {os.readlink(out)}; name the folder itself")
        if os.path.ismount(out):  # the store is made beside it and renamed
            raise UsageError(
                f"--out {out}: is the root of a disk or a mount, which a store cannot replace; "
                f"name a folder inside it"
            )
        self.names = names
        self.out = out
        self.progress = listener(options.progress)
        self.stop = options.stop or Stop()
        self.plan = plan_ingest(options.mem_limit, options.workers)
        self.wip = out.with_name(out.name + ".wip")
        self.base: Corpus | None = None
        if options.append and (out / "manifest.json").exists():
            self.base = Corpus.open(out, dense=True)
        self.options = self._complete(options)
        self.learns = self.base is None and not has_recipe
        self._tokenizer()  # reports missing tools before anything is made

    def _complete(self, options: IngestConfig) -> IngestConfig:
        """Complete the options: an append uses what the store remembers."""
        if self.base is None:
            keep_text = False if isinstance(self.names, list) else None
            if options.keep_text is not None:
                keep_text = options.keep_text
            return dataclasses.replace(options, append=False, grow_vocab=False, keep_text=keep_text)
        layout = [LAYOUT] if isinstance(self.names, list) else []
        kinds = (FIELDS, META, CUT, *layout) if options.as_store else ()
        return options_of_append(options, self.base.manifest, self.out, *kinds)

    def _tokenizer(self) -> Tokenizer:
        """Make the tokenizer of the recipe, with the tools that this command names."""
        return Tokenizer(recipe_of(self.options), named_tools(self.options))

    def run(self) -> dict[str, Json]:
        """Make the store, or carry on where a killed run was.

        Returns
        -------
        dict
            The summary.
        """
        return_freed_memory()
        notify_compiling(self.progress.say)
        if self.out.exists() and not self.out.is_dir():
            raise NotOurs(f"{self.out}: is a file; choose another --out")
        # reports missing columns of side files before anything is read
        side_files_of(self.options).open(self.options)
        if self.out.exists() and set(os.listdir(self.out)) - {".lock", MARK}:
            # refuses folders of others, and stores that this version cannot read, even with --force
            claim(self.out, "corpus")
        self.progress.step("reading", unit="B")
        with ExitStack() as stack:
            stack.enter_context(durable.lock(self.wip, "ingesting into", kind="ingest"))
            if self.base is not None:
                claim(self.out, "corpus")
                stack.enter_context(durable.lock(self.out, "writing to", kind="corpus"))
                self.base = Corpus.open(self.out, dense=True)
            record = self._describe(None if self.base is None else self.base.fingerprint)
            summary = self._find_finished(record)
            if summary is not None:
                return summary
            self._refuse_existing()
            if self.learns:
                recipe = self._learn_words(recipe_of(self.options))
                self.options = dataclasses.replace(self.options, recipe=recipe)
            if isinstance(self.names, InMemory) and self.base is not None:
                # numbers that are ids of new documents must not be those of earlier ones
                first = sum(part.docs for part in self.base.manifest.parts.values())
                self.names = dataclasses.replace(self.names, first=first)
            working = self._open_working_folder(record)
            try:
                unchanged = inputs_record.are_same(record, working.state.request)
                self._read(working, unchanged=unchanged)
                return self._finish(working)
            except BaseException as e:
                # a run that has read nothing leaves no folder behind
                if working.state.pieces == 0 or isinstance(e, NothingKept):
                    working.remove()
                raise
            finally:
                working.close()

    def _describe(self, base: str | None) -> InputsRecord:
        """Describe the inputs of this ingest, as an append to a store of fingerprint ``base``."""
        return inputs_record.describe_inputs(file_names(self.names), self.options, base)

    def _find_finished(self, record: InputsRecord) -> dict[str, Json] | None:
        """Return the summary of the store at ``out`` if this very ingest has made it.

        The record in the store names the ingest. An append is recognised only if it was killed
        between its commit and the removal of its working folder: run later, the same command
        appends again. Such a working folder is cleared, whichever ingest left it.
        """
        if self.options.force or not (self.out / "manifest.json").exists():
            return None
        store = Corpus.open(self.out, dense=True)
        fingerprint = store.fingerprint
        unfinished = read_state(self.wip)
        if unfinished is not None and inputs_record.is_made_by(
            self.out, fingerprint, unfinished.request
        ):
            remove_stale_files(self.out, store.manifest)
            owned.clear(self.wip, "ingest")
            same = self._describe(unfinished.key["append to"]).request == unfinished.request
            unfinished = None
        else:
            same = self.base is None and inputs_record.is_made_by(
                self.out, fingerprint, record.request
            )
        if not same:
            return None
        if unfinished is None:  # the working folder holds only the lock
            owned.remove(self.wip, "ingest")
        return _summarize_finished(store.manifest, record, self.options)

    def _refuse_existing(self) -> None:
        """Raise TopicsError if a store or a file at ``out`` must not be replaced."""
        if self.base is None and self.out.exists() and any(self.out.iterdir()):
            if not self.options.force:
                raise TopicsError(f"{self.out}: exists; --append adds to it, --force replaces it")
            refuse_unlisted(self.out)

    def _open_working_folder(self, record: InputsRecord) -> WorkingFolder:
        """Open the working folder, with the parts that a killed run has read of the same input."""
        unfinished = None if self.options.force else read_state(self.wip)
        if unfinished is not None:
            # documents that were in another process's memory cannot be read on
            paths_before = unfinished.key.get("paths", [])
            if any(path.startswith(KEY) for path in paths_before):
                unfinished = None
        if isinstance(self.names, InMemory):
            paths = [self.names.key]
            starts = []
        else:
            paths = [entry.place for entry in record.inputs]
            starts = input_places(self.names)
        # all that the sequence and the content of the pieces depend on
        key = {
            "paths": paths,
            **describe_reading(self.options),
            "keep_text": self.options.keep_text,
            "append to": None if self.base is None else self.base.fingerprint,
        }
        fresh = IngestState(key=key, request=record.request, inputs=record.inputs, places=starts)
        return WorkingFolder(self.wip, fresh, unfinished, self.plan.words_of_part)

    def _learn_words(self, recipe: Recipe) -> Recipe:
        """Return a recipe with words learnt from the text, which is read for each kind of words.

        A resumed run learns the same words, as it reads the same text.
        """
        read = dataclasses.replace(
            self.options,
            piece_bytes=min(self.plan.piece_bytes, self.options.piece_bytes),
            room=self.plan.room,
        )
        memory = self.plan.relations
        tools = named_tools(read)
        if recipe.join_hyphens and not recipe.joined_words:
            self._check_read_twice("join_hyphens")
            self.progress.step("learning broken words")
            with owned.scratch(self.wip, "hyphens") as folder:
                recipe = learn_joined_words(
                    self._texts(read), recipe, folder, memory_bytes=memory, tools=tools
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
                    tools=tools,
                )
        return recipe

    def _check_read_twice(self, name: str) -> None:
        """Refuse an option that reads the documents twice if they can be read only once."""
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
        """Read the input and yield the texts of its documents, large_string[D]."""
        for task in pieces(self.names, read):
            if task.reader.kind == "text":
                yield task.run()[0].column(2)

    def _read(self, working: WorkingFolder, *, unchanged: bool) -> None:
        """Read the documents that are not in a part yet.

        Parameters
        ----------
        working
            The working folder.
        unchanged
            True if the inputs are known to be those that an earlier run has read.
        """
        state = working.state
        if working.resumed and state.pieces:
            self.progress.say(f"{self.wip}: resuming after {state.pieces} pieces")
        if state.done:
            return
        config = dataclasses.replace(self.options, scratch=working.folder)
        needed = [*file_names(self.names), self.wip]
        with connected_within(config.scheduler, self.plan.limit, needed) as (cluster, limit):
            plan = self.plan
            if cluster is not None:
                plan = plan_ingest(limit.bytes, config.workers or cluster.least_threads)
            state.piece_bytes = state.piece_bytes or min(
                plan.piece_bytes, self.plan.piece_bytes, config.piece_bytes
            )
            read = dataclasses.replace(config, piece_bytes=state.piece_bytes, room=plan.room)
            workers = plan.workers if cluster is None else Spread(cluster, plan.workers)
            reading = Reading(working, read, self.progress, self.stop, unchanged=unchanged)
            reading.run(self.names, self._tokenizer(), workers)

    def _finish(self, working: WorkingFolder) -> dict[str, Json]:
        """Make the store of the parts."""
        config = dataclasses.replace(self.options, scratch=working.folder)
        return Finishing(self.out, self.base, self.plan, self.progress, working, config).run()
