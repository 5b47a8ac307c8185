"""The second half of an ingest: from the parts to the committed store.

A function of the parts and of the store that is appended to: killed, it starts again from them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from topicstream.base.errors import InputError, NothingKept, UsageError, terminal_safe
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import sync
from topicstream.base.files.ownership import claim
from topicstream.base.files.plain import refuse_links
from topicstream.base.machine import peak_bytes, versions
from topicstream.base.progress import Progress
from topicstream.base.records import Json, plain
from topicstream.base.relations import Relations
from topicstream.base.text import counted, noun_of, payload_of
from topicstream.corpus.axis_build import Contents, derive
from topicstream.corpus.documents import PlacedDocuments
from topicstream.corpus.forgotten import lists_for, write_forgotten
from topicstream.corpus.format import PARTS, write_array_metadata
from topicstream.corpus.manifest import (
    BlockEntry,
    PartEntry,
    Sources,
    StoreFile,
    StoreManifest,
    part_folder,
    part_of,
    store_file,
)
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sweep import list_replaced_files, remove_stale_files
from topicstream.corpus.writer import BlockWriter
from topicstream.ingestion.config import Place
from topicstream.ingestion.open import inputs_record
from topicstream.ingestion.options import remembered_meta
from topicstream.ingestion.parse.rejects import LEFT_OUT, WORDS_LEFT_OUT
from topicstream.ingestion.parts.parts import DOCUMENT
from topicstream.ingestion.parts.working_folder import WorkingFolder
from topicstream.ingestion.plan import IngestPlan
from topicstream.ingestion.settings import Heldout, IngestOptions
from topicstream.ingestion.store import commit
from topicstream.ingestion.store.blocks import words_of_training, write_blocks
from topicstream.ingestion.store.decide import (
    HELDOUT,
    TRAIN,
    Decision,
    decide,
    find_taken_place,
)
from topicstream.ingestion.store.side_join import join_side_files
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.stopwords import listed_words, unfit
from topicstream.ingestion.tokens.tools import asked_tools
from topicstream.ingestion.tokens.vocabulary import (
    TokenVocabulary,
    are_counted_words,
    read_drop_words,
    stream_pruned,
)
from topicstream.ingestion.tokens.word_counts import (
    ChosenWords,
    WordCounts,
    WordLimits,
    ask_for_words,
)
from topicstream.ingestion.tokens.word_lists import (
    LISTED,
    WordList,
    describe_replaced,
    describe_stop_words,
)
from topicstream.ingestion.upkeep.rewrite import Removal

MOST_FIELDS = 100
"""Fields without a column that the summary names."""


def notes_summary(notes: Counter[str]) -> dict[str, Json]:
    """Return notes for the summary, and the names of the fields that were left out."""
    fields = sorted(
        note.removeprefix(LEFT_OUT)
        for note in notes
        if note.startswith(LEFT_OUT) and note != LEFT_OUT
    )
    elements = {
        note.removeprefix(WORDS_LEFT_OUT): n
        for note, n in notes.most_common()
        if note.startswith(WORDS_LEFT_OUT)
    }
    others = sorted(
        (note, n) for note, n in notes.items() if not note.startswith((LEFT_OUT, WORDS_LEFT_OUT))
    )
    return {
        "notes": dict(others),
        "fields_left_out": fields[:MOST_FIELDS],
        "elements_left_out": elements,
    }


class Finishing:
    """End of an ingest: ``run`` decides, numbers, writes and commits."""

    def __init__(
        self,
        out: Path,
        base: Corpus | None,
        plan: IngestPlan,
        progress: Progress,
        working: WorkingFolder,
        options: IngestOptions,
    ) -> None:
        self.out = out
        self.base = base
        self.plan = plan
        self.progress = progress
        self.working = working
        self.options = options
        self.old = base.manifest if base is not None else None
        self.old_parts = (
            self.old.parts if self.old is not None else {part: part_of([]) for part in PARTS}
        )
        self.generation = self.old.generation + 1 if self.old is not None else 1
        self.removal = Removal(base)
        self.forgotten = lists_for(out)
        self.began = time.monotonic()
        self.place_taken: str | None = None
        self.language: dict[str, Any] | None = None
        self.word_lists: dict[str, dict[str, Json]] = {}

    def run(self) -> dict[str, Json]:
        """Commit the store.

        Returns what the ingest found, in figures.
        """
        state = self.working.state
        self.weighted = state.weighted if self.base is None else self.base.weighted
        if state.weighted and not self.weighted:
            raise InputError(
                f"{self.out}: contains counts, but the new documents have weights; ingest them "
                f"into another store"
            )
        width: int | None = state.width  # None: nothing was read
        self.width = self.base.width if self.base is not None else width or 0
        if width is not None and width != self.width:
            raise InputError(
                f"{self.out}: holds {payload_of(self.width)}, the input {payload_of(width)}; "
                f"ingest it into another store"
            )
        self._join_side_files()
        heldout = self._heldout()
        rule = self.options.given.on_duplicate or ("replace" if state.pubmed else "skip")
        self.progress.step("deciding which documents count")
        with ThreadPoolExecutor(self.plan.workers, thread_name_prefix="finish") as pool:
            with Relations(self.working.folder, self.plan.relations) as relations:
                decision = decide(
                    self.working,
                    self.base,
                    rule,
                    heldout,
                    relations,
                    self.removal.numbers,
                    self.forgotten,
                )
                self.removal.take(decision.replaced)
                self.place_taken = find_taken_place(self.working, decision)
                if (
                    self.old is not None
                    and not decision.documents(TRAIN, HELDOUT)
                    and not len(decision.replaced)
                ):
                    dropped = {f"dropped_{k}": v for k, v in decision.dropped.items()}
                    return self._end(
                        self.old.summary
                        | dropped
                        | self._left_out()
                        | {"documents_added": 0, "rejects": None}
                    )
                store = self._folder()
                choice, pruning = self._vocabulary(decision, store, relations, pool)
            saving = pool.submit(choice.vocabulary.save, store / self._name("vocab"))
            writers = [
                BlockWriter(
                    store,
                    part_folder(before, part),
                    before.rows,
                    self.weighted,
                    pool,
                    bool(self.width),
                )
                for part, before in ((part, self.old_parts[part]) for part in PARTS)
            ]
            ahead = self.plan.workers + 1
            empty = write_blocks(
                self.working, decision, choice.vocabulary, writers, pool, ahead, self.progress
            )
            syncs = [pool.submit(writer.sync) for writer in writers]
            manifest = self._manifest(
                decision,
                choice,
                pruning,
                [writer.entries for writer in writers],
                empty,
                store,
                saving,
            )
            for done in syncs:  # before a manifest names the blocks
                done.result()
        self.working.commit_store(manifest.fingerprint, manifest.summary)
        if self.old is not None:
            list_replaced_files(store, self.old, manifest)
        manifest.write(store)
        assert state.record is not None  # from the beginning on
        inputs_record.save(
            store,
            state.record,
            manifest.fingerprint,
            appended=self.base is not None,
            readings=[inputs_record.InputReading(options=self.options.given.remembered())],
        )
        remove_stale_files(store, manifest)
        if self.base is None:
            if self.forgotten:
                write_forgotten(store, self.forgotten[0])
            commit.put_in_place(store, self.out)
        return self._end(manifest.summary)

    def _heldout(self) -> Heldout:
        """Return the rule by which documents are set aside: of an append the store's.

        Parts that an append cuts beside whole documents are set aside together, too.
        """
        if self.old is None:
            return self.options.heldout
        rule = Heldout.of_rule(self.old.heldout)
        if self._cuts_first and rule.split is None:
            return dataclasses.replace(rule, by=DOCUMENT)
        return rule

    @property
    def _cuts_first(self) -> bool:
        """Whether this append cuts its documents into parts, unlike the store's first input."""
        before = (self.old.reading if self.old is not None else None) or {}
        return self.options.given.split is not None and "split" not in before

    def _join_side_files(self) -> None:
        """Give the documents what side files say of them."""
        if not self.options.side:
            return
        self.progress.step("joining the side files")
        state = self.working.state
        columns, notes = join_side_files(
            self.working, self.options.side, self.options.given, self.plan.relations
        )
        state.columns |= columns
        self.working.notes.update(notes)

    def _folder(self) -> Path:
        if self.base is not None:
            refuse_links(self.base.path)
            remove_stale_files(self.base.path, self.base.manifest)
            return self.base.path
        store = self.working.folder / "store"
        owned.remove(store, "corpus")
        claim(store, "corpus")
        return store

    def _name(self, kind: str, suffix: str = "parquet") -> str:
        return (
            f"{kind}.{suffix}" if self.generation == 1 else f"{kind}-{self.generation:04d}.{suffix}"
        )

    def _vocabulary(
        self, decision: Decision, store: Path, relations: Relations, pool: ThreadPoolExecutor
    ) -> tuple[ChosenWords, dict[str, Json]]:
        """Count the words of the training documents and choose the vocabulary.

        Also returns what the manifest says of it.
        """
        given = self.options.given
        fixed = None
        if self.width and (given.vocab or given.drop_words or given.drop_top):
            kind = payload_of(self.width)
            raise UsageError(
                f"--vocab, --drop-words and --drop-top choose words, but these documents are "
                f"{kind}; leave them out"
            )
        if self.base is not None:
            fixed = self.removal.subtract(TokenVocabulary.read(self.base.file("vocab")))
        elif given.vocab is not None:
            fixed = TokenVocabulary.from_file(
                given.vocab, lambda n: ask_for_words(n, self.plan.words), given.encoding
            )
        dropped = set(self.old.vocabulary.get("dropped", []) if self.old is not None else [])
        documents = decision.documents(TRAIN) + self.removal.training
        # of dense rows every coordinate stays
        limits = (
            WordLimits(min_count=0)
            if self.width
            else self.options.limits(documents, self.working.state.text)
        )
        if self.base is None and not documents:
            first = self._left_out()["first_rejected"]
            raise NothingKept(
                f"{self.out}: no training documents were "
                f"read{f', the first was rejected: {first}' if first else ''}; nothing was "
                f"stored"
            )
        self.progress.step("choosing the vocabulary")
        counts = WordCounts(relations)
        for words in words_of_training(self.working, decision):
            counts.add(words)
        for words in stream_pruned(self.base.file("pruned")) if self.base is not None else ():
            counts.add(words)  # 4 occurrences now and 4 then make 8
        if fixed is not None and self.base is None:
            fixed = self._as_counted(fixed, counts)
        if given.drop_words is not None:
            dropped |= self._words_to_drop(
                given.drop_words, counts, fixed or TokenVocabulary.from_words([])
            )
        choice = counts.choose(
            limits,
            documents=documents,
            fixed=fixed,
            grow=given.grow_vocab,
            dropped=dropped,
            drop_top=given.drop_top,
            room=self.plan.words,
        )
        counts.save_pruned(store / self._name("pruned"))
        if self.base is None and self.working.state.text:
            self.language = unfit(relations, choice.tokens, self.options.recipe.stopwords_from)
        if self.base is None and not self.width and not choice.vocabulary.counts.any():
            raise NothingKept(self._why_nothing())
        dropped |= set(choice.top)
        made_with = self.old.vocabulary if self.old is not None else {}
        drop_top = made_with.get("drop_top", given.drop_top)
        return choice, {
            **plain(limits),
            **({"drop_top": drop_top} if drop_top else {}),
            **({"dropped": sorted(dropped)} if dropped else {}),
            "training_documents": documents,
            "fixed": made_with.get("fixed", given.vocab and os.path.basename(given.vocab)),
        }

    def _as_counted(self, listed: TokenVocabulary, counts: WordCounts) -> TokenVocabulary:
        """Return the words of --vocab as the text counts them, and note what occurs."""
        recipe = self._list_recipe(str(self.options.given.vocab))
        matched = WordList.of(listed.words, recipe, self._tools).as_in_corpus(counts.occur)
        self.word_lists["vocab"] = matched.summary()
        words = matched.words.unique()
        return listed if words.equals(listed.words) else TokenVocabulary.from_words(words)

    def _words_to_drop(self, path: Place, counts: WordCounts, stored: TokenVocabulary) -> set[str]:
        """Return the words of --drop-words as the text counts them, and note what occurs."""
        entries = pa.array(
            sorted(read_drop_words(path, self.options.given.encoding)), pa.large_string()
        )
        listed = WordList.of(entries, self._list_recipe(path), self._tools)

        def occur(words: pa.Array) -> np.ndarray:
            known = counts.occur(words)
            return known if self.base is None else known | (stored.lookup(words) >= 0)

        matched = listed.as_in_corpus(occur)
        self.word_lists["drop_words"] = matched.summary()
        if self.base is not None:
            still = matched.words.filter(pa.array(stored.lookup(matched.words) >= 0)).unique()
            self.word_lists["drop_words"]["kept"] = still.slice(0, LISTED).to_pylist()
        return set(matched.words.to_pylist())

    def _describe_lists(self) -> dict[str, Json]:
        """For the summary: how the words of the user's lists occur in the corpus."""
        recipe = self.options.recipe
        if self.base is None and self.working.state.text:
            known = {w for name in recipe.stopwords_from.split("+") for w in listed_words(name)}
            lists = {
                "stopwords": describe_stop_words(recipe, known),
                "replace": describe_replaced(recipe),
            }
            self.word_lists |= {n: t for n, t in lists.items() if t["parted"] or t["unusable"]}
        return {"word_lists": self.word_lists} if self.word_lists else {}

    def _list_recipe(self, path: Place) -> Recipe | None:
        """Return how words of a list become words of the corpus.

        None: they are such words.
        """
        text = self.working.state.text
        return self.options.recipe if text and not are_counted_words(path) else None

    @property
    def _tools(self) -> tuple[str, ...]:
        return asked_tools(self.options.given)

    def _why_nothing(self) -> str:
        """Why no word of the vocabulary occurs."""
        read = self.options.given
        if self.working.state.text or self.options.given.vocab is None:
            return (
                f"{self.out}: none of the words of --vocab occurs in the documents; nothing was "
                f"stored"
            )
        which = (
            "their words are only numbers"
            if read.words is None
            else f"their words are those of {read.words}"
        )
        return (
            f"{self.out}: none of the words of --vocab {self.options.given.vocab} occurs in "
            f"these counts ({which}); nothing was "
            "stored.  The file that names the words of a bag-of-words file, a line for each, is "
            "given as --words"
        )

    def _manifest(
        self,
        decision: Decision,
        chosen: ChosenWords,
        pruning: dict[str, Json],
        blocks: list[list[BlockEntry]],
        empty: int,
        store: Path,
        saving: Future[None],
    ) -> StoreManifest:
        old = self.old
        state = self.working.state
        before = old.columns if old is not None else {}
        columns = {**before, **state.columns}
        if without := sorted(set(before) - set(state.columns)):
            replaced = len(decision.replaced)
            lost = f"; {counted(replaced, 'document')} replaced by them had these fields"
            self.progress.say(
                f"{'warning' if replaced else 'note'}: the store has "
                f"{', '.join(map(terminal_safe, without))} of its documents, but these came "
                f"without (--meta, --meta-file){lost * bool(replaced)}"
            )
        left = self.removal.apply(self.old_parts, self.generation)
        parts = {
            p: part_of([*left[p].blocks, *new], left[p].folder)
            for p, new in zip(PARTS, blocks, strict=True)
        }
        old_docs = old.docs if old is not None else []
        writer = PlacedDocuments(
            store, columns, old_docs, parts, [len(self.old_parts[p].blocks) for p in PARTS]
        )
        counts = commit.ColumnCounts(self.options.given.date_format)
        docs = commit.write_documents(self.working, decision, writer, counts, self.progress)
        write_array_metadata(
            store,
            {part_folder(entry, p): entry.rows for p, entry in parts.items()},
            weighted=self.weighted,
        )
        saving.result()
        files = self._files(store)
        recipe = (
            self.options.recipe
            if state.text or (old is not None and old.tokenizer is not None)
            else None
        )
        integer = (old is not None if state.whole_ids is None else state.whole_ids) and (
            old is None or old.ids == "integer"
        )
        # no times in it: the same input gives the same bytes
        manifest = StoreManifest(
            schema=1,
            kind="corpus",
            created_with=versions(),
            generation=self.generation,
            weighted=self.weighted,
            n_words=len(chosen.vocabulary),
            fingerprint=commit.fingerprint(chosen.vocabulary.hash, parts, files.get("removed")),
            parts=parts,
            heldout=old.heldout if old is not None else decision.heldout.rule(decision.threshold),
            tokenizer=recipe.to_json() if recipe is not None else None,
            tokenizer_hash=recipe.hash() if recipe is not None else None,
            vocabulary={**pruning, "hash": chosen.vocabulary.hash},
            files=files,
            docs=[*old_docs, *docs],
            columns=cast("Any", columns),
            sources=Sources(count=len(state.sources), first=state.sources[:100]),
            summary=self._summary(decision, chosen, parts, blocks, empty, pruning)
            | counts.summary(columns),
            reading=self._reading() or None,
            ids="integer" if integer else None,
            width=self.width,
            patches=(self.options.given.patches or (old.patches if old is not None else None))
            if self.width
            else None,
            compacted=old.compacted if old is not None else 0,
        )
        return self._with_axes(store, manifest)

    def _reading(self) -> dict[str, Any]:
        """Return how the input was read: what the store remembers, and columns that are new."""
        read = self.options.given.remembered()
        if self.old is None:
            return read
        before = self.old.reading or {}
        meta = remembered_meta(read) | remembered_meta(before)
        parts = {"has_parts": True} if self._cuts_first else {}
        return before | ({"meta": meta} if meta else {}) | parts

    def _with_axes(self, store: Path, manifest: StoreManifest) -> StoreManifest:
        """Write the ids of the list columns, and enter them."""
        contents = Contents(store, manifest, self.removal.listed)
        if contents.names:
            self.progress.step(f"numbering {', '.join(contents.names)}")
        old = self.old.axes if self.old is not None else {}
        axes = derive(contents, old, self.plan.relations, self.plan.words)
        return replace(manifest, axes=axes, summary=manifest.summary | commit.axes_summary(axes))

    def _files(self, store: Path) -> dict[str, StoreFile]:
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
        """Count the rejected records, and name the first of them.

        Also what else was odd.
        """
        page = next(self.working.rejects(), b"")
        reject = json.loads(page.splitlines()[0]) if page else None
        where = reject and f"{reject['file']}:{reject['line']}".removesuffix(":0")
        return {
            "rejected": self.working.totals["rejected"],
            "first_rejected": reject and f"{where}: {reject['reason']}",
            **notes_summary(self.working.notes),
        }

    def _summary(
        self,
        decision: Decision,
        chosen: ChosenWords,
        parts: dict[str, PartEntry],
        blocks: list[list[BlockEntry]],
        empty: int,
        pruning: dict[str, Json],
    ) -> dict[str, Json]:
        totals = self.working.totals
        old = self.old.summary if self.old is not None else {}
        characters = totals["characters"]
        recipe = self.options.recipe
        shown = {
            "stopwords": recipe.stopwords_from,
            "min_length": recipe.min_length,
            "numbers": recipe.numbers,
        }
        return commit.parts_summary(parts) | {
            **({noun_of(self.width): self.width} if self.width else {}),
            "documents_added": sum(b.docs for new in blocks for b in new),
            "documents_empty": empty + old.get("documents_empty", 0),
            **{f"dropped_{k}": v for k, v in decision.dropped.items()},
            "words_before": chosen.distinct,
            "words": len(chosen.vocabulary),
            "words_pruned": chosen.pruned,
            "tokens_pruned": chosen.pruned_tokens,
            "characters": characters,
            "discarded_share": round(totals["discarded"] / characters, 6) if characters else None,
            "unspaced_share": round(totals["unspaced"] / characters, 6) if characters else None,
            **self._left_out(),
            "rejects": self._name("rejects", "jsonl") if totals["rejected"] else None,
            "pruning": pruning,
            "heldout_asked": decision.heldout.asked,
            "tokenizer": shown if self.working.state.text else None,
            "joined_words": len(recipe.joined_words) if recipe.join_hyphens else None,
            "language": self.language,
            **self._describe_lists(),
        }

    def _end(self, summary: dict[str, Json]) -> dict[str, Json]:
        """Remove the working folder.

        Returns the summary with what differs from run to run.
        """
        state = self.working.state
        self.working.remove()
        self.progress.close()
        seconds = state.seconds + time.monotonic() - self.began
        taken = {} if self.place_taken is None else {"place_taken": self.place_taken}
        return (
            summary
            | taken
            | {
                "out": str(self.out),
                "seconds": round(seconds, 3),
                "input_bytes": state.consumed,
                "megabytes_per_second": round(state.consumed / max(seconds, 1e-9) / 1e6, 3),
                "peak_rss_bytes": peak_bytes(),
                "workers": self.plan.workers,
            }
        )
