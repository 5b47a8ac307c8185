"""The second half of an ingest: from the parts to the committed store.

It depends only on the parts and on the store that is appended to. After a kill it starts again from
them.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from msgspec.structs import replace

from topicstream.base.errors import InputError, terminal_safe
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import sync
from topicstream.base.files.ownership import claim
from topicstream.base.files.plain import refuse_links
from topicstream.base.machine import peak_bytes, versions
from topicstream.base.progress import Progress
from topicstream.base.records import Json
from topicstream.base.relations import Relations
from topicstream.base.text import counted, noun_of, payload_of
from topicstream.corpus.axis_build import Contents, build_axes
from topicstream.corpus.documents import PlacedDocuments
from topicstream.corpus.forgotten import lists_for, write_forgotten
from topicstream.corpus.format import PARTS, write_array_metadata
from topicstream.corpus.manifest import (
    BlockEntry,
    PartEntry,
    Sources,
    StoreFile,
    StoreManifest,
    TextFile,
    part_folder,
    part_of,
    store_file,
)
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sweep import list_replaced_files, remove_stale_files
from topicstream.corpus.texts import TextsWriter, with_texts
from topicstream.corpus.writer import BlockWriter
from topicstream.ingestion.config import IngestConfig
from topicstream.ingestion.open import inputs_record
from topicstream.ingestion.options import remembered_meta
from topicstream.ingestion.parse.rejects import LEFT_OUT, WORDS_LEFT_OUT
from topicstream.ingestion.parts.part_files import TEXTS
from topicstream.ingestion.parts.split import DOCUMENT
from topicstream.ingestion.parts.working_folder import WorkingFolder
from topicstream.ingestion.plan import IngestPlan
from topicstream.ingestion.settings import (
    Heldout,
    heldout_of,
    keeps_texts,
    recipe_of,
    side_files_of,
)
from topicstream.ingestion.store import commit
from topicstream.ingestion.store.blocks import write_blocks
from topicstream.ingestion.store.choose_words import WordChoice
from topicstream.ingestion.store.decide import (
    DROPPED,
    HELDOUT,
    TRAIN,
    Decision,
    decide,
    find_taken_place,
)
from topicstream.ingestion.store.side_join import join_side_files
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary
from topicstream.ingestion.tokens.word_counts import ChosenWords
from topicstream.ingestion.upkeep.rewrite import Removal

MOST_FIELDS = 100
"""Fields without a column that the summary names."""


def notes_summary(notes: Counter[str]) -> dict[str, Json]:
    """Return notes for the summary, with the fields and elements that were left out."""
    plain: dict[str, int] = {}
    fields: list[str] = []
    elements: dict[str, int] = {}
    for note, number in notes.most_common():
        if note.startswith(WORDS_LEFT_OUT):
            elements[note.removeprefix(WORDS_LEFT_OUT)] = number
        elif not note.startswith(LEFT_OUT):
            plain[note] = number
        elif note != LEFT_OUT:  # a field without a name
            fields.append(note.removeprefix(LEFT_OUT))
    return {
        "notes": dict(sorted(plain.items())),
        "fields_left_out": sorted(fields)[:MOST_FIELDS],
        "elements_left_out": elements,
    }


class Finishing:
    """The second half of an ingest: ``run`` decides, numbers words, writes and commits.

    Parameters
    ----------
    out
        Folder of the store.
    base
        The store that is appended to, or None.
    plan
        The memory plan.
    progress
        The progress listener.
    working
        The working folder, with all parts.
    options
        The options.
    """

    def __init__(
        self,
        out: Path,
        base: Corpus | None,
        plan: IngestPlan,
        progress: Progress,
        working: WorkingFolder,
        options: IngestConfig,
    ) -> None:
        self.out = out
        self.base = base
        self.plan = plan
        self.progress = progress
        self.working = working
        self.options = options
        self.recipe = recipe_of(options)
        self.old = base.manifest if base is not None else None
        self.old_parts = (
            self.old.parts if self.old is not None else {part: part_of([]) for part in PARTS}
        )
        self.generation = self.old.generation + 1 if self.old is not None else 1
        self.removal = Removal(base)
        self.forgotten = lists_for(out)
        self.began = time.monotonic()
        self.place_taken: str | None = None
        self.weighted, self.width = self._content()

    def _content(self) -> tuple[bool, int]:
        """Return if cells have weights, and the numbers of a dense row (0: documents).

        Raises
        ------
        InputError
            If the store has another kind of content than the new documents.
        """
        state = self.working.state
        if self.base is None:
            return state.weighted, state.width or 0
        if state.weighted and not self.base.weighted:
            raise InputError(
                f"{self.out}: contains counts, but the new documents have weights; ingest them "
                f"into another store"
            )
        if state.width not in (None, self.base.width):  # None: nothing was read
            raise InputError(
                f"{self.out}: holds {payload_of(self.base.width)}, the input "
                f"{payload_of(state.width)}; ingest it into another store"
            )
        return self.base.weighted, self.base.width

    def run(self) -> dict[str, Json]:
        """Commit the store, and return the summary of the ingest."""
        self._join_side_files()
        with ThreadPoolExecutor(self.plan.workers, thread_name_prefix="finish") as pool:
            with Relations(self.working.folder, self.plan.relations) as relations:
                decision = self._decide(relations)
                if self.old is not None and self._adds_nothing(decision):
                    return self._end(self._unchanged_summary(self.old, decision))
                store = self._folder()
                choosing = WordChoice(
                    self.base,
                    self.options,
                    self.working,
                    self.plan,
                    self.removal,
                    self.width,
                    self.progress,
                )
                paths = [store / self._name(kind) for kind in ("vocab", "pruned")]
                choice, pruning = choosing.choose(decision, relations, *paths)
            writers = self._block_writers(store, pool)
            vocabulary_hash, empty = self._write_blocks(paths[0], decision, writers, pool)
            syncing = [pool.submit(writer.sync) for writer in writers]
            parts = self._parts([writer.entries for writer in writers])
            columns = self._columns(decision)
            docs, column_summary = self._write_documents(store, decision, parts, columns)
            summary = (
                self._summary(decision, choice, parts, empty, pruning)
                | {"language": choosing.language}
                | choosing.describe_lists()
                | column_summary
            )
            texts = self._write_texts(store, decision)
            vocabulary = {**pruning, "hash": vocabulary_hash}
            manifest = self._manifest(store, decision, choice, vocabulary, parts, docs, summary)
            manifest = with_texts(manifest, texts)
            for future in syncing:  # the manifest must not name blocks that a power cut may lose
                future.result()
        self._commit(store, manifest)
        return self._end(manifest.summary)

    def _decide(self, relations: Relations) -> Decision:
        """Decide which documents count, and note those of the store that go."""
        self.progress.step("deciding which documents count")
        rule = "replace" if self.working.state.pubmed else "skip"
        decision = decide(
            self.working,
            self.base,
            self.options.on_duplicate or rule,
            self._heldout(),
            relations,
            self.removal.numbers,
            self.forgotten,
        )
        self.removal.withdraw(decision.replaced)
        self.place_taken = find_taken_place(self.working, decision)
        return decision

    def _heldout(self) -> Heldout:
        """Return the rule by which documents are set aside.

        An append has the rule of its store. If only the append cuts documents into parts, those
        of a document are set aside together, too.
        """
        if self.old is None:
            return heldout_of(self.options)
        rule = Heldout.of_rule(self.old.heldout)
        if self._cuts_first and rule.split is None:
            return dataclasses.replace(rule, by=DOCUMENT)
        return rule

    @property
    def _cuts_first(self) -> bool:
        """Tell if this append cuts its documents into parts, unlike the store's first input."""
        before = (self.old.reading if self.old is not None else None) or {}
        return self.options.split is not None and "split" not in before

    @staticmethod
    def _adds_nothing(decision: Decision) -> bool:
        """Tell whether the store of an append stays as it is."""
        return not decision.documents(TRAIN, HELDOUT) and not len(decision.replaced)

    def _unchanged_summary(self, old: StoreManifest, decision: Decision) -> dict[str, Json]:
        """Return the summary of an append that adds nothing."""
        dropped = {f"dropped_{reason}": n for reason, n in decision.dropped.items()}
        return old.summary | dropped | self._left_out() | {"documents_added": 0, "rejects": None}

    def _write_blocks(
        self,
        vocabulary_path: Path,
        decision: Decision,
        writers: list[BlockWriter],
        pool: ThreadPoolExecutor,
    ) -> tuple[str, int]:
        """Write the storage blocks, with the words in memory only as long as that takes.

        Returns
        -------
        hash, empty
            Hash of the vocabulary, and the number of documents without a word.
        """
        vocabulary = TokenVocabulary.read(vocabulary_path)
        ahead = self.plan.workers + 1
        empty = write_blocks(
            self.working, decision, vocabulary, writers, pool, ahead, self.progress
        )
        return vocabulary.hash, empty

    def _block_writers(self, store: Path, pool: ThreadPoolExecutor) -> list[BlockWriter]:
        """Make the writer of each part's blocks, which follow the existing ones."""
        writers = []
        for part in PARTS:
            entry = self.old_parts[part]
            folder = part_folder(entry, part)
            dense = self.width > 0
            writers.append(BlockWriter(store, folder, entry.rows, self.weighted, pool, dense))
        return writers

    def _commit(self, store: Path, manifest: StoreManifest) -> None:
        """Replace the manifest or the whole store, in one rename.

        The record of the ingest is written before. It has the fingerprint of the new manifest, so
        until the rename it belongs to no store.
        """
        state = self.working.state
        record = inputs_record.InputsRecord(inputs=state.inputs, request=state.request)
        reading = inputs_record.InputReading(options=self.options.remembered())
        inputs_record.save_record(
            store,
            record,
            manifest.fingerprint,
            appended=self.base is not None,
            readings=[reading],
        )
        if self.old is not None:
            list_replaced_files(store, self.old, manifest)
        manifest.write(store)
        remove_stale_files(store, manifest)
        if self.base is None:
            if self.forgotten:
                write_forgotten(store, self.forgotten[0])
            commit.put_in_place(store, self.out)

    def _join_side_files(self) -> None:
        """Add the fields of side files to the metadata of the documents."""
        side = side_files_of(self.options)
        if not side:
            return
        self.progress.step("joining the side files")
        columns, notes = join_side_files(self.working, side, self.options, self.plan.relations)
        self.working.state.columns |= columns
        self.working.notes.update(notes)

    def _folder(self) -> Path:
        """Return the folder that is written to: the store, or a new one in the working folder."""
        if self.base is not None:
            refuse_links(self.base.path)
            remove_stale_files(self.base.path, self.base.manifest)
            return self.base.path
        store = self.working.folder / "store"
        owned.remove(store, "corpus")
        claim(store, "corpus")
        return store

    def _name(self, kind: str, suffix: str = "parquet") -> str:
        """Return the name of a file of this generation, such as ``vocab-0002.parquet``."""
        number = "" if self.generation == 1 else f"-{self.generation:04d}"
        return f"{kind}{number}.{suffix}"

    def _columns(self, decision: Decision) -> dict[str, str]:
        """Return all columns of metadata, and report those that the new documents lack."""
        before = {} if self.old is None else self.old.columns
        new = self.working.state.columns
        lacking = sorted(set(before) - set(new))
        if lacking:
            replaced = len(decision.replaced)
            level = "warning" if replaced else "note"
            line = (
                f"{level}: the store has {', '.join(map(terminal_safe, lacking))} of its "
                f"documents, but these came without (--meta, --meta-file)"
            )
            if replaced:
                line += f"; {counted(replaced, 'document')} replaced by them had these fields"
            self.progress.say(line)
        return {**before, **new}

    def _parts(self, blocks: list[list[BlockEntry]]) -> dict[str, PartEntry]:
        """Return the parts with new blocks, their removed documents marked."""
        marked = self.removal.apply(self.old_parts, self.generation)
        parts = {}
        for part, new in zip(PARTS, blocks, strict=True):
            parts[part] = part_of([*marked[part].blocks, *new], marked[part].folder)
        return parts

    def _write_documents(
        self,
        store: Path,
        decision: Decision,
        parts: dict[str, PartEntry],
        columns: dict[str, str],
    ) -> tuple[list[StoreFile], dict[str, Json]]:
        """Write the documents' table and the arrays' metadata.

        Returns
        -------
        files, counts
            The files of the table, and counts of its columns for the summary.
        """
        old = [] if self.old is None else self.old.docs
        before = [len(self.old_parts[part].blocks) for part in PARTS]
        writer = PlacedDocuments(store, columns, old, parts, before)
        counts = commit.ColumnCounts(self.options.date_format)
        docs = commit.write_documents(self.working, decision, writer, counts, self.progress)
        rows = {part_folder(entry, part): entry.rows for part, entry in parts.items()}
        write_array_metadata(store, rows, weighted=self.weighted)
        return [*old, *docs], counts.summary(columns)

    def _write_texts(self, store: Path, decision: Decision) -> list[TextFile] | None:
        """Write the texts of the new documents, if they are kept.

        Returns
        -------
        list or None
            The manifest's entries of all text files of the store; None: it keeps no texts.
        """
        old = None if self.old is None else self.old.texts
        if not keeps_texts(self.options.keep_text, self.working.state.text_bytes):
            return old
        writer = TextsWriter(store, old or [])
        for i, piece in enumerate(self.working.pieces("id", TEXTS)):
            texts = piece.texts
            if texts is None:
                texts = pa.nulls(len(piece.documents), pa.large_string())
            stays = pa.array(decision.classes[i] != DROPPED)
            table = pa.table({"id": piece.documents["id"], "text": texts})
            writer.add(table.filter(stays))
            self.progress.step("writing texts", i + 1, len(decision.classes), "piece")
        return [*(old or []), *writer.finish()]

    def _manifest(
        self,
        store: Path,
        decision: Decision,
        chosen: ChosenWords,
        vocabulary: dict[str, Json],
        parts: dict[str, PartEntry],
        docs: list[StoreFile],
        summary: dict[str, Json],
    ) -> StoreManifest:
        """Make the manifest, without times: the same input gives the same bytes."""
        old = self.old
        state = self.working.state
        files = self._files(store)
        is_text = state.text or (old is not None and old.tokenizer is not None)
        recipe = self.recipe if is_text else None
        integer_ids = state.integer_ids
        if integer_ids is None:  # nothing was read
            integer_ids = old is not None
        manifest = StoreManifest(
            schema=1,
            kind="corpus",
            created_with=versions(),
            generation=self.generation,
            weighted=self.weighted,
            n_words=chosen.words,
            fingerprint=commit.fingerprint(str(vocabulary["hash"]), parts, files.get("removed")),
            parts=parts,
            heldout=old.heldout if old is not None else decision.heldout.rule(decision.threshold),
            tokenizer=recipe.to_json() if recipe is not None else None,
            tokenizer_hash=recipe.hash() if recipe is not None else None,
            vocabulary=vocabulary,
            files=files,
            docs=docs,
            columns=cast("Any", {**({} if old is None else old.columns), **state.columns}),
            sources=Sources(count=len(state.sources), first=state.sources[:100]),
            summary=summary,
            reading=self._reading() or None,
            ids="integer" if integer_ids and (old is None or old.ids == "integer") else None,
            width=self.width,
            patches=self._patches() if self.width else None,
            compacted=old.compacted if old is not None else 0,
        )
        return self._with_axes(store, manifest)

    def _patches(self) -> int | None:
        """Return the size of the patches of images."""
        stored = None if self.old is None else self.old.patches
        return self.options.patches or stored

    def _reading(self) -> dict[str, Any]:
        """Return the options of reading that the store remembers, with its new columns."""
        read = self.options.remembered()
        if self.old is None:
            return read
        before = self.old.reading or {}
        meta = remembered_meta(read) | remembered_meta(before)
        parts = {"has_parts": True} if self._cuts_first else {}
        return before | ({"meta": meta} if meta else {}) | parts

    def _with_axes(self, store: Path, manifest: StoreManifest) -> StoreManifest:
        """Build the axes of the list columns, and add them to the manifest."""
        contents = Contents(store, manifest, self.removal.listed)
        if contents.names:
            self.progress.step(f"numbering {', '.join(contents.names)}")
        old = self.old.axes if self.old is not None else {}
        axes = build_axes(contents, old, self.plan.relations, self.plan.words)
        return replace(manifest, axes=axes, summary=manifest.summary | commit.axes_summary(axes))

    def _files(self, store: Path) -> dict[str, StoreFile]:
        """Write the lists of removed documents and rejects, and return the entries of all files."""
        files = {kind: store_file(store, self._name(kind)) for kind in ("vocab", "pruned")}
        removed = self.removal.save(store, self._name("removed", "npy"))
        if removed is not None:
            files["removed"] = store_file(store, removed)
        elif self.old is not None and "removed" in self.old.files:
            files["removed"] = self.old.files["removed"]
        if self.working.totals["rejected"]:
            name = self._name("rejects", "jsonl")
            with owned.create(store / name) as file:
                file.writelines(self.working.rejects())
            sync(store / name)
            files["rejects"] = store_file(store, name)
        return files

    def _left_out(self) -> dict[str, Json]:
        """Return the rejected records and the notes, for the summary."""
        return {
            "rejected": self.working.totals["rejected"],
            "first_rejected": self.working.first_reject(),
            **notes_summary(self.working.notes),
        }

    def _summary(
        self,
        decision: Decision,
        chosen: ChosenWords,
        parts: dict[str, PartEntry],
        empty: int,
        pruning: dict[str, Json],
    ) -> dict[str, Json]:
        """Return the figures of the store."""
        totals = self.working.totals
        old = self.old.summary if self.old is not None else {}
        characters = totals["characters"]
        recipe = self.recipe
        shown = {
            "stopwords": recipe.stopwords_from,
            "min_length": recipe.min_length,
            "numbers": recipe.numbers,
        }
        return commit.parts_summary(parts) | {
            **({noun_of(self.width): self.width} if self.width else {}),
            "documents_added": decision.documents(TRAIN, HELDOUT),
            "documents_empty": empty + old.get("documents_empty", 0),
            **{f"dropped_{k}": v for k, v in decision.dropped.items()},
            "words_before": chosen.distinct,
            "words": chosen.words,
            "words_pruned": chosen.pruned,
            "tokens_pruned": chosen.pruned_tokens,
            "characters": characters,
            "discarded_share": round(totals["discarded"] / characters, 6) if characters else None,
            "unspaced_share": round(totals["unspaced"] / characters, 6) if characters else None,
            **self._left_out(),
            "rejects": self._name("rejects", "jsonl") if totals["rejected"] else None,
            "pruning": pruning,
            "heldout_asked": decision.heldout.text,
            "tokenizer": shown if self.working.state.text else None,
            "joined_words": len(recipe.joined_words) if recipe.join_hyphens else None,
        }

    def _end(self, summary: dict[str, Json]) -> dict[str, Json]:
        """Remove the working folder, and return the summary with the figures of this run."""
        state = self.working.state
        self.working.remove()
        self.progress.close()
        seconds = state.seconds + time.monotonic() - self.began
        if self.place_taken is not None:
            summary = summary | {"place_taken": self.place_taken}
        return summary | {
            "out": str(self.out),
            "seconds": round(seconds, 3),
            "input_bytes": state.consumed,
            "megabytes_per_second": round(state.consumed / max(seconds, 1e-9) / 1e6, 3),
            "peak_rss_bytes": peak_bytes(),
            "workers": self.plan.workers,
        }
