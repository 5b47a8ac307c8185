"""The second half of an ingest: from the spools to the committed store.

A function of the spools and of the store that is appended to: killed, it starts again from them.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from topicstream.corpus.axis_build import Contents, derive
from topicstream.corpus.documents import next_part
from topicstream.corpus.format import PARTS, part_folder
from topicstream.corpus.manifest import file_entry
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, NothingKept, shown
from topicstream.files import owned
from topicstream.files.ownership import write_mark
from topicstream.files.plain import refuse_links
from topicstream.ingestion.opening import inputs_record
from topicstream.ingestion.plan import MemoryPlan
from topicstream.ingestion.settings import Heldout, IngestOptions
from topicstream.ingestion.spooling.journal import Journal
from topicstream.ingestion.storing import commit
from topicstream.ingestion.storing.decide import TRAIN, Decision, correct, decide
from topicstream.ingestion.storing.renumber import Maps, write_blocks
from topicstream.ingestion.storing.side_join import attach
from topicstream.ingestion.upkeep.removal import Removal
from topicstream.machine import peak_bytes
from topicstream.progress import Progress
from topicstream.tokens.builder import Finished, VocabularyBuilder
from topicstream.tokens.language import unfit
from topicstream.tokens.selecting import ask_for_words
from topicstream.tokens.vocabulary import TokenVocabulary, read_drop_words

Blocks = tuple[list[dict[str, Any]], list[dict[str, Any]]]


class Finishing:
    """``run`` decides, numbers, writes and commits; the summary."""

    def __init__(
        self,
        out: Path,
        base: Corpus | None,
        plan: MemoryPlan,
        progress: Progress,
        journal: Journal,
        builder: VocabularyBuilder,
        options: IngestOptions,
    ) -> None:
        self.out, self.base, self.plan, self.progress = out, base, plan, progress
        self.journal, self.builder, self.options = journal, builder, options
        self.old: dict[str, Any] | None = base.manifest if base is not None else None
        self.generation = self.old["generation"] + 1 if self.old is not None else 1
        self.removal = Removal(base)
        self.began = time.monotonic()
        self.language: Future[dict[str, Any] | None] | None = None

    def run(self) -> dict[str, Any]:
        """Commit the store; what the ingest found, in figures."""
        state = self.journal.state
        self.weighted = state["weighted"] if self.base is None else self.base.weighted
        if state["weighted"] and not self.weighted:
            raise InputError(
                f"{self.out}: holds counts, the new documents have weights; ingest them into another store"
            )
        given: int | None = state.get("vectors")  # None: nothing was read
        self.vectors = self.base.vectors if self.base is not None else given or 0
        if given is not None and given != self.vectors:
            there, here = (f"vectors of {n} numbers" if n else "documents" for n in (self.vectors, given))
            raise InputError(f"{self.out}: holds {there}, the input {here}; ingest it into another store")
        self._attach()
        rule = self.options.on_duplicate or ("replace" if state["pubmed"] else "skip")
        self.progress.step("deciding which documents count")
        decision = decide(
            self.journal, self.base, rule, self.options.heldout, self.plan.vocabulary, self.removal.numbers
        )
        self.removal.take(decision.replaced)
        training, kept = self._documents(decision)
        if self.old is not None and not kept and not len(decision.replaced):
            return self._nothing_new(decision)
        store = self._folder()
        with ThreadPoolExecutor(self.plan.workers, thread_name_prefix="finish") as pool:
            found, pruning = self._vocabulary(decision, training, store, pool)
            saving = pool.submit(found.vocabulary.save, store / self._name("vocab"))
            blocks, empty, syncing = self._blocks(decision, found, store, pool)
            manifest = self._manifest(decision, found, pruning, blocks, empty, store, saving)
            for done in syncing:
                done.result()
        self.journal.commit_store(manifest)
        if self.base is None:
            write_mark(store, commit.mark(manifest["fingerprint"]))
        commit.commit_manifest(store, manifest)
        inputs_record.save(store, state["record"], manifest["fingerprint"], appended=self.base is not None)
        if self.base is None:
            commit.put_in_place(store, self.out)
        else:
            commit.plain_names(store, manifest)
        return self._end(manifest["summary"])

    def _attach(self) -> None:
        """Give the documents what side files say of them, and the split its field."""
        rule = self.options.heldout if self.old is None else Heldout.stored(self.old["heldout"])
        if not self.options.side and rule.split is None:
            return
        self.progress.step("joining the side files" if self.options.side else f"splitting by {rule.split}")
        before = self.journal.docs
        docs, columns, notes = attach(
            before, self.journal.folder, self.options.side, self.options.read, rule.split, self.journal.state["places"]
        )
        self.journal.docs = docs
        before.close()
        self.journal.state["columns"] |= columns
        self.journal.notes.update(notes)

    def _documents(self, decision: Decision) -> tuple[int, int]:
        """New training documents, and new documents kept."""
        training = kept = 0
        for i in range(len(self.journal.docs)):
            classes = decision.classes(i, self.journal.docs.read(i)[0])
            training += int((classes == TRAIN).sum())
            kept += int((classes <= 1).sum())
        return training, kept

    def _nothing_new(self, decision: Decision) -> dict[str, Any]:
        assert self.old is not None
        dropped = {f"dropped_{k}": v for k, v in decision.dropped.items()}
        rejected = {"rejected": self.journal.totals["rejected"], "notes": dict(sorted(self.journal.notes.items()))}
        return self._end(self.old["summary"] | dropped | rejected | {"documents_added": 0})

    def _folder(self) -> Path:
        if self.base is not None:
            refuse_links(self.base.path)
            self.base.let_go()  # the writer's lock keeps what it reads
            commit.sweep(self.base.path, self.base.manifest)
            return self.base.path
        store = self.journal.folder / "store"
        owned.remove_within(store, "ingest")
        store.mkdir()
        return store

    def _name(self, kind: str, suffix: str = "parquet") -> str:
        return f"{kind}.{suffix}" if self.generation == 1 else f"{kind}-{self.generation:04d}.{suffix}"

    def _vocabulary(
        self, decision: Decision, training: int, store: Path, pool: ThreadPoolExecutor
    ) -> tuple[Finished, dict[str, Any]]:
        correct(self.journal, decision, self.builder, pool, self.plan.workers + 1)
        fixed = None
        if self.base is not None:
            fixed = TokenVocabulary.load(self.base.file("vocab"))
            self.removal.subtract(fixed)
            self.builder.seed(fixed)
            self.builder.seed_pruned(self.base.file("pruned"))
        elif self.options.vocab is not None:
            fixed = TokenVocabulary.read(self.options.vocab, lambda n: ask_for_words(n, self.plan.words))
        dropped = set((self.old or {}).get("vocabulary", {}).get("dropped", []))
        if self.options.drop_words is not None:
            dropped |= read_drop_words(self.options.drop_words)
        documents = training + self.removal.training
        pruning = self.options.pruning(documents, self.journal.state["text"])
        if self.vectors:  # every coordinate stays
            pruning = {"min_df": 1, "max_df": None, "min_count": 0, "max_vocab": None}
        self.progress.step("choosing the vocabulary")
        found = self.builder.finish(
            documents=documents,
            min_df=pruning["min_df"],
            max_df=pruning["max_df"] if pruning["max_df"] is not None else 1.0,
            min_count=pruning["min_count"],
            max_vocab=pruning["max_vocab"],
            fixed=fixed,
            grow=self.options.grow_vocab,
            pruned=store / self._name("pruned"),
            room=self.plan.words,
            drop=TokenVocabulary.of(sorted(dropped)) if dropped else None,
            drop_top=self.options.drop_top,
        )
        if self.base is None and not self.vectors and not found.vocabulary.counts.any():
            raise NothingKept(self._why_nothing(documents))
        dropped |= set(found.top)
        if self.base is None and self.journal.state["text"]:
            left_out = store / self._name("pruned")
            self.language = pool.submit(
                unfit, found.vocabulary, left_out, found.tokens, self.options.recipe.stopwords_from
            )
        return found, {
            **pruning,
            **({"dropped": sorted(dropped)} if dropped else {}),
            "training_documents": documents,
            "fixed": self.options.vocab and os.path.basename(self.options.vocab),
        }

    def _why_nothing(self, documents: int) -> str:
        """Why no word of the vocabulary occurs."""
        read = self.options.read
        if not documents:
            return f"{self.out}: no training documents were read; nothing was stored"
        if self.journal.state["text"] or self.options.vocab is None:
            return f"{self.out}: none of the words of --vocab occurs in the documents; nothing was stored"
        which = "their words are only numbers" if read.words is None else f"their words are those of {read.words}"
        return (
            f"{self.out}: none of the words of --vocab {self.options.vocab} occurs in these counts ({which}); nothing was "
            "stored.  The file that names the words of a bag-of-words file, a line for each, is given as --words"
        )

    def _places(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Folder and rows of each part that are there already."""
        old = self.old["parts"] if self.old is not None else {p: {"rows": 0} for p in PARTS}
        train, heldout = ((part_folder(old[p], p), old[p]["rows"]) for p in PARTS)
        return train, heldout

    def _first_blocks(self) -> tuple[int, int]:
        """Blocks of each part that are there already."""
        if self.old is None:
            return 0, 0
        train, heldout = (len(self.old["parts"][p]["blocks"]) for p in PARTS)
        return train, heldout

    def _blocks(
        self, decision: Decision, found: Finished, store: Path, pool: ThreadPoolExecutor
    ) -> tuple[Blocks, int, list[Future[None]]]:
        return write_blocks(
            self.journal,
            decision,
            Maps(found.maps),
            store,
            self.weighted,
            bool(self.vectors),
            self._places(),
            pool,
            self.plan.workers + 1,
            self.progress,
        )

    def _manifest(
        self,
        decision: Decision,
        found: Finished,
        pruning: dict[str, Any],
        blocks: Blocks,
        empty: int,
        store: Path,
        saving: Future[None],
    ) -> dict[str, Any]:
        old, state = self.old or {}, self.journal.state
        columns = {**old.get("columns", {}), **state["columns"]}
        if self.base is not None and (without := sorted(set(old.get("columns", {})) - set(state["columns"]))):
            self.progress.say(
                f"note: the store has {', '.join(map(shown, without))} of its documents, these came without (--meta, --meta-file)"
            )
        parts = commit.summarise_parts(self.removal.apply(old.get("parts"), self.generation), blocks)
        old_docs = old.get("docs", [])
        first = next_part(old_docs)
        docs = commit.write_documents(
            self.journal, decision, store, columns, first, blocks, self._first_blocks(), self.progress
        )
        commit.settle_arrays(store, self.weighted, parts)
        saving.result()
        files = self._files(store)
        print_ = commit.fingerprint(found.vocabulary.hash, parts, files.get("removed"))
        axes = self._axes(store, parts, [*old_docs, *docs], columns, print_)
        heldout = {"asked": self.options.heldout.asked, "threshold": f"{decision.threshold:#018x}"}
        heldout |= self.options.heldout.to_json()
        manifest = commit.make_manifest(
            generation=self.generation,
            weighted=self.weighted,
            words=len(found.vocabulary),
            fingerprint=print_,
            vocabulary_hash=found.vocabulary.hash,
            parts=parts,
            axes=axes,
            heldout=old.get("heldout", heldout),
            recipe=self.options.recipe,
            text=state["text"] or old.get("tokenizer") is not None,
            vocabulary=pruning,
            files=files,
            docs=[*old_docs, *docs],
            columns=columns,
            sources=state["sources"],
            summary=self._summary(decision, found, parts, blocks, empty, pruning) | commit.axes_summary(axes),
        )
        kept = old.get("reading") if self.base is not None else self.options.read.remembered()
        if kept:
            manifest["reading"] = kept
        if state.get("whole ids", self.old is not None) and (self.old is None or old.get("ids") == "integer"):
            manifest["ids"] = "integer"
        if self.vectors:
            manifest["vectors"] = self.vectors
            if patches := self.options.read.patches or old.get("patches"):
                manifest["patches"] = patches
        return manifest | ({"compacted": old["compacted"]} if "compacted" in old else {})

    def _axes(
        self, store: Path, parts: dict[str, Any], docs: list[Any], columns: dict[str, str], print_: str
    ) -> dict[str, Any]:
        """Write the ids of authors, labels and links; the manifest's entries."""
        contents = Contents(store, parts, docs, columns, print_, self.generation, self.removal.listed)
        if contents.names:
            self.progress.step(f"numbering {', '.join(contents.names)}")
        # the names that are kept lie beside what is sorted, and the writers' buffers are not yet given back
        memory = max(16 << 20, self.plan.vocabulary // 6)
        return derive(contents, (self.old or {}).get("axes"), memory, self.plan.words)

    def _files(self, store: Path) -> dict[str, Any]:
        files = {kind: file_entry(store, self._name(kind)) for kind in ("vocab", "pruned")}
        removed = self.removal.save(store, self._name("removed", "npy"))
        if removed is not None:
            files["removed"] = file_entry(store, removed)
        elif self.old is not None and "removed" in self.old["files"]:
            files["removed"] = self.old["files"]["removed"]
        if self.journal.totals["rejected"]:
            name = self._name("rejects", "jsonl")
            commit.copy_file(self.journal.folder / "rejects.jsonl", store / name)
            files["rejects"] = file_entry(store, name)
        return files

    def _summary(
        self, decision: Decision, found: Finished, parts: Any, blocks: Blocks, empty: int, pruning: dict[str, Any]
    ) -> dict[str, Any]:
        totals, old = self.journal.totals, (self.old or {}).get("summary", {})
        cells = sum(parts[p]["cells"] for p in PARTS)
        stored = sum(parts[p]["bytes"] for p in PARTS)
        removed = len(self.removal.numbers)
        characters = totals["characters"]
        recipe = self.options.recipe
        shown = {"stopwords": recipe.stopwords_from, "min_length": recipe.min_length, "numbers": recipe.numbers}
        return {
            "documents": sum(parts[p]["docs"] for p in PARTS) - removed,
            **({"vectors": self.vectors} if self.vectors else {}),
            "documents_added": sum(b["docs"] for new in blocks for b in new),
            "documents_training": self.removal.training + sum(b["docs"] for b in blocks[0]),
            "documents_heldout": self.removal.heldout + sum(b["docs"] for b in blocks[1]),
            "documents_empty": empty + old.get("documents_empty", 0),
            "documents_removed": removed,
            **{f"dropped_{k}": v for k, v in decision.dropped.items()},
            "rejected": totals["rejected"],
            "words_before": found.distinct,
            "words": len(found.vocabulary),
            "words_pruned": found.pruned,
            "tokens_pruned": found.pruned_tokens,
            "cells": cells,
            "tokens": sum(parts[p]["tokens"] for p in PARTS),
            "bytes": stored,
            "bytes_per_cell": round(stored / max(cells, 1), 4),
            "characters": characters,
            "discarded_share": round(totals["discarded"] / characters, 6) if characters else None,
            "unspaced_share": round(totals["unspaced"] / characters, 6) if characters else None,
            "notes": dict(sorted(self.journal.notes.items())),
            "pruning": pruning,
            "heldout_asked": (self.old or {}).get("heldout", {}).get("asked", self.options.heldout.asked),
            "tokenizer": shown if self.journal.state["text"] else None,
            "language": self.language.result() if self.language is not None else None,
        }

    def _end(self, summary: dict[str, Any]) -> dict[str, Any]:
        """Remove the working folder; the summary with what differs from run to run."""
        state = self.journal.state
        self.journal.remove()
        self.progress.close()
        seconds = state["seconds"] + time.monotonic() - self.began
        return summary | {
            "out": str(self.out),
            "seconds": round(seconds, 3),
            "input_bytes": state["consumed"],
            "megabytes_per_second": round(state["consumed"] / max(seconds, 1e-9) / 1e6, 3),
            "peak_rss_bytes": peak_bytes(),
            "workers": self.plan.workers,
        }
