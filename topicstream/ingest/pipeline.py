"""``ingest``: raw files -> spools -> vocabulary -> a corpus store, committed by one rename (see journal.py, reading.py,
decide.py, renumber.py, commit.py in that order)."""

from __future__ import annotations

import dataclasses
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from topicstream import durable
from topicstream.corpus.format import PARTS
from topicstream.corpus.reader import Corpus
from topicstream.errors import DoesNotFit, InputError, TopicsError
from topicstream.ingest import commit
from topicstream.ingest.decide import correct, decide
from topicstream.ingest.journal import Journal
from topicstream.ingest.progress import Progress
from topicstream.ingest.reading import Line, Reading
from topicstream.ingest.removal import Removal
from topicstream.ingest.renumber import Maps, write_blocks
from topicstream.ingest.settings import IngestOptions
from topicstream.machine import calm_malloc, default_memory_limit, default_threads, format_bytes, peak_bytes
from topicstream.tokens.builder import VocabularyBuilder
from topicstream.tokens.recipe import Recipe
from topicstream.tokens.tokenizer import Tokenizer
from topicstream.tokens.vocabulary import Vocabulary

FLOOR = 230 << 20
"""What interpreter, libraries and compiled kernels take."""
PER_WORKER = 9
"""Bytes a worker takes per byte of a piece: raw, text, cells, frames, and what waits in the queues."""


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """Workers, bytes of a piece, bytes for the vocabulary and for sorting ids, that fit the limit."""

    limit: int
    workers: int
    piece_bytes: int
    vocabulary: int

    @classmethod
    def of(cls, limit: int | None, workers: int | None) -> MemoryPlan:
        """DoesNotFit names the smallest limit."""
        limit = limit if limit is not None else default_memory_limit()
        wanted = workers if workers is not None else default_threads()
        if wanted < 1:
            raise InputError(f"--workers {wanted}: must be at least 1")
        least = FLOOR + (64 << 20)
        if limit < least:
            raise DoesNotFit(f"--mem-limit {format_bytes(limit)}: an ingest needs at least {format_bytes(least)}")
        piece = 8 << 20
        while piece > 1 << 20 and FLOOR + PER_WORKER * piece * (wanted + 2) > 0.7 * limit:
            piece //= 2
        while wanted > 1 and FLOOR + PER_WORKER * piece * (wanted + 2) > 0.8 * limit:
            wanted -= 1
        rest = limit - FLOOR - PER_WORKER * piece * (wanted + 2)
        return cls(limit, wanted, piece, max(16 << 20, min(rest // 2, 1 << 30)))


def ingest(
    paths: str | os.PathLike[str] | list[str | os.PathLike[str]],
    out: str | os.PathLike[str] = "corpus.zarr",
    *,
    options: IngestOptions | None = None,
    progress: Progress | None = None,
    **given: Any,
) -> dict[str, Any]:
    """Read raw text or counts of any size into the corpus store ``out``; the summary as a dict.

    paths: files, folders, ``-`` for standard input.  Options by their command line names with underscores
    (``min_df=5, heldout="1%", stopwords="none", mem_limit="2G"``; see IngestOptions, ReadOptions, Recipe), or as one
    IngestOptions.  The store is the same, byte for byte, for any number of workers and however often the ingest was
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
    return _Ingest(names, Path(out), options, progress or Progress()).run()


class _Ingest:
    def __init__(self, names: list[str], out: Path, options: IngestOptions, progress: Progress) -> None:
        self.names, self.out, self.progress = names, out, progress
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
        calm_malloc()
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
            journal = Journal(self.wip, self._key(), force=self.options.force)
            try:
                return self._run(journal)
            except InputError:
                if journal.state["pieces"] == 0:
                    journal.remove()
                raise
            finally:
                journal.close()

    def _finished_before(self) -> dict[str, Any] | None:
        """A run that was killed between its commit and the removal of the working folder."""
        state = self.wip / "state.json"
        if self.options.force or not state.exists() or not (self.out / "manifest.json").exists():
            return None
        done = durable.read_json(state).get("committed")
        if done is None or done["fingerprint"] != Corpus.open(self.out).fingerprint:
            return None
        commit.plain_names(self.out, Corpus.open(self.out).manifest)
        commit.remove_folder(self.wip)
        return done["summary"]

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
            Reading(journal, builder, options, line, self.progress).run(
                self.names, Tokenizer(options.recipe), self.plan.workers
            )
        return _Finishing(self, journal, builder, options).run()


class _Finishing:
    """From the spools to the committed store.  A function of the spools: killed, it starts again from them."""

    def __init__(self, job: _Ingest, journal: Journal, builder: VocabularyBuilder, options: IngestOptions) -> None:
        self.job, self.journal, self.builder, self.options = job, journal, builder, options
        self.base, self.plan, self.progress = job.base, job.plan, job.progress
        self.generation = self.base.manifest["generation"] + 1 if self.base is not None else 1
        self.began = time.monotonic()

    def run(self) -> dict[str, Any]:
        job, journal, state = self.job, self.journal, self.journal.state
        store = self._folder()
        removal = Removal(self.base)
        rule = self.options.on_duplicate or ("replace" if state["pubmed"] else "skip")
        decision = decide(journal, self.base, rule, self.options.heldout, self.plan.vocabulary, removal.numbers)
        ahead = self.plan.workers + 1
        weighted = state["weighted"] if self.base is None else self.base.weighted
        if state["weighted"] and not weighted:
            raise InputError(f"{job.out}: holds counts, the new documents have weights; ingest them into another store")
        with ThreadPoolExecutor(self.plan.workers, thread_name_prefix="finish") as pool:
            correct(journal, decision, self.builder, pool, ahead)
            removal.take(decision.replaced)
            if self.base is not None:
                old = Vocabulary.load(self.base.path / self.base.manifest["files"]["vocab"]["file"])
                removal.subtract(old)
                self.builder.seed(old)
                self.builder.seed_pruned(self.base.path / self.base.manifest["files"]["pruned"]["file"])
            else:
                old = None
            training = self._training_documents(decision) + (removal.training if self.base is not None else 0)
            pruning = self.options.pruning(training, state["text"])
            fixed = old
            if fixed is None and self.options.vocab is not None:
                fixed = Vocabulary.read(self.options.vocab)
            names = {kind: self._name(kind, "parquet") for kind in ("vocab", "pruned")}
            found = self.builder.finish(
                documents=training,
                min_df=pruning["min_df"],
                max_df=pruning["max_df"] if pruning["max_df"] is not None else 1.0,
                min_count=pruning["min_count"],
                max_vocab=pruning["max_vocab"],
                fixed=fixed,
                grow=self.options.grow_vocab,
                pruned=store / names["pruned"],
            )
            found.vocabulary.save(store / names["vocab"])
            old_parts = self.base.manifest["parts"] if self.base is not None else None
            nothing: dict[str, Any] = {"rows": 0, "blocks": []}
            train, heldout = (old_parts[p] if old_parts else nothing for p in PARTS)
            first_rows = (train["rows"], heldout["rows"])
            first_blocks = (len(train["blocks"]), len(heldout["blocks"]))
            blocks, empty = write_blocks(
                journal, decision, Maps(found.maps), store, weighted, first_rows, pool, ahead, self.progress
            )
        columns = {**(self.base.manifest["columns"] if self.base is not None else {}), **state["columns"]}
        parts = commit.summarise_parts(removal.apply(old_parts, self.generation), blocks)
        first_part = len(self.base.manifest["docs"]) if self.base is not None else 0
        docs = commit.write_documents(
            journal, decision, store, columns, first_part, blocks, first_blocks, self.progress
        )
        commit.settle_arrays(store, weighted, parts)
        files = {kind: commit.file_entry(store, name) for kind, name in names.items()}
        if (name := removal.save(store, self._name("removed", "npy"))) is not None:
            files["removed"] = commit.file_entry(store, name)
        elif self.base is not None and "removed" in self.base.manifest["files"]:
            files["removed"] = self.base.manifest["files"]["removed"]
        if journal.totals["rejected"]:
            name = self._name("rejects", "jsonl")
            commit.copy_file(journal.folder / "rejects.jsonl", store / name)
            files["rejects"] = commit.file_entry(store, name)
        summary = self._summary(decision, found, parts, blocks, empty, removal, pruning)
        manifest = commit.make_manifest(
            generation=self.generation,
            weighted=weighted,
            words=len(found.vocabulary),
            vocabulary_hash=found.vocabulary.hash,
            parts=parts,
            heldout=self._heldout(decision),
            recipe=self.options.recipe,
            text=state["text"] or (self.base is not None and self.base.manifest["tokenizer"] is not None),
            vocabulary={**pruning, "fixed": self.options.vocab, "training_documents": training},
            files=files,
            docs=[*(self.base.manifest["docs"] if self.base is not None else []), *docs],
            columns=columns,
            sources=state["sources"],
            summary=summary,
        )
        state["committed"] = {"fingerprint": manifest["fingerprint"], "summary": summary}
        durable.write_json(journal.folder / "state.json", state)
        commit.commit_manifest(store, manifest)
        if self.base is None:
            commit.put_in_place(store, job.out)
        else:
            commit.plain_names(store, manifest)
        journal.remove()
        self.progress.close()
        seconds = state["seconds"] + time.monotonic() - self.began
        bytes_read = max(state["consumed"], 1)
        return summary | {
            "out": str(job.out),
            "seconds": round(seconds, 3),
            "input_bytes": state["consumed"],
            "megabytes_per_second": round(bytes_read / max(seconds, 1e-9) / 1e6, 3),
            "peak_rss_bytes": peak_bytes(),
            "workers": self.plan.workers,
        }

    def _folder(self) -> Path:
        if self.base is not None:
            commit.sweep(self.base.path, self.base.manifest)
            return self.base.path
        store = self.journal.folder / "store"
        if store.exists():
            commit.remove_folder(store)
        store.mkdir()
        return store

    def _name(self, kind: str, suffix: str) -> str:
        return f"{kind}.{suffix}" if self.generation == 1 else f"{kind}-{self.generation:04d}.{suffix}"

    def _training_documents(self, decision: Any) -> int:
        n = 0
        for i in range(len(self.journal.docs)):
            n += int((decision.classes(i, self.journal.docs.read(i)[0]["high"]) == 0).sum())
        return n

    def _heldout(self, decision: Any) -> dict[str, Any]:
        if self.base is not None:
            return self.base.manifest["heldout"]
        return {"asked": self.options.heldout.asked, "threshold": f"{decision.threshold:#018x}"}

    def _summary(
        self, decision: Any, found: Any, parts: Any, blocks: Any, empty: int, removal: Any, pruning: Any
    ) -> dict[str, Any]:
        totals, notes = self.journal.totals, self.journal.notes
        old = self.base.manifest["summary"] if self.base is not None else {}
        kept = sum(b["docs"] for new in blocks for b in new)
        cells = sum(parts[p]["cells"] for p in PARTS)
        stored = sum(parts[p]["bytes"] for p in PARTS)
        characters = totals["characters"]
        return {
            "documents": sum(parts[p]["docs"] for p in PARTS),
            "documents_added": kept,
            "documents_training": parts["train"]["docs"],
            "documents_heldout": parts["heldout"]["docs"],
            "documents_empty": empty + old.get("documents_empty", 0),
            "documents_removed": len(removal.numbers),
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
            "notes": dict(sorted(notes.items())),
            "pruning": pruning,
            "heldout_asked": self._heldout(decision)["asked"],
            "tokenizer": self._tokenizer_shown() if characters else None,
        }

    def _tokenizer_shown(self) -> dict[str, Any]:
        r = self.options.recipe
        return {"stopwords": r.stopwords_from, "min_length": r.min_length, "numbers": r.numbers}
