"""A cycle of ``topics retrain``: scan, measure, decide, append, train, judge, publish.  One cycle, written down as it goes.

    journal.json   the cycle at work: its stage (append, train, gate, publish) and all that the stages need; replaced
                   atomically, removed last.  Each stage may be run again from its beginning.
    state.json     what holds between cycles: the files taken in, dates of trainings
    incoming/      copies of the files being taken in
    runs/NNNN/     training of version NNNN, kept (with its block memory) while that version is the current one

Killed at any instant, the next run finishes the cycle from its stage; ``current`` changes in one rename.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from topicstream import machine
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, NotOurs, StoreError
from topicstream.files import owned
from topicstream.files.durable import sync_folder, write_json
from topicstream.files.ownership import claim
from topicstream.inference.classifier import train_classifier
from topicstream.ingestion.pipeline import ingest
from topicstream.ingestion.upkeep.compact import compact
from topicstream.model import edits
from topicstream.model.seeds import read_seeds
from topicstream.model.store import read_manifest
from topicstream.model.topic_model import TopicModel
from topicstream.progress import Shown
from topicstream.retraining import decide as rules
from topicstream.retraining import publish, survey
from topicstream.retraining.align import align, first_ids, read_ids
from topicstream.retraining.config import Config
from topicstream.retraining.drift import verdict
from topicstream.retraining.files import remove_copies, scan
from topicstream.retraining.gate import ask_room, judge, open_models
from topicstream.retraining.log import Log
from topicstream.retraining.update import train_on
from topicstream.retraining.upkeep import worth
from topicstream.training.loop import train

SCHEMA = 1


class Cycle:
    """One cycle of one folder; the caller holds the lock."""

    def __init__(self, config: Config, log: Log) -> None:
        self.config, self.folder, self.log = config, config.folder, log
        self.threads = config.train.threads or machine.default_threads()
        self.journal: dict[str, Any] = {}
        self.state: dict[str, Any] = {"schema": SCHEMA, "files": {}, "last_trained": None, "last_tried": None}
        self.began = time.monotonic()

    # -- the whole -----------------------------------------------------------------------------------------------
    def run(self, full: bool, dry: bool) -> dict[str, Any]:
        """Carry on with the cycle at work, or begin one."""
        owned.sweep(self.folder)  # of a run that was killed while it wrote
        self._refuse_what_is_in_the_way()
        if (self.folder / "state.json").exists():
            self.state |= survey.read_home(self.folder / "state.json")
        if self.state["files"] and self._fingerprint() is None:
            # a new store would hold the new files alone, and a journal begun now would take the old one for its work
            raise StoreError(
                f"{self.config.corpus}: no corpus store is there, though {len(self.state['files'])} raw files were taken into "
                f"it; restore it (manifest.json is written last), or remove {self.folder}/state.json to ingest all anew"
            )
        if (self.folder / "journal.json").exists():
            self.journal = survey.read_journal(self.folder / "journal.json")
            self.log(f"carrying on at stage {self.journal['stage']} of the cycle begun {self.journal['began']}")
            if dry:
                return self._summary(
                    {"decision": self.journal["decision"], "why": ["a cycle is at work"], "dry_run": True}
                )
        else:
            summary = self._begin(full, dry)
            if summary is not None:
                return summary
        while self.journal:
            last = getattr(self, f"_{self.journal['stage']}")()
        return self._summary(last)

    def _begin(self, full: bool, dry: bool) -> dict[str, Any] | None:
        """Scan, measure, decide; the summary when that was all."""
        incoming = self.folder / "incoming"
        found = scan(
            self.config.raw, self.config.patterns, self.state["files"], incoming, self.config.changed != "ignore"
        )
        survey.tell(self.config, self.state, found, self.log)
        present = publish.current(self.folder)
        manifest = read_manifest(publish.version_path(self.folder, present)) if present is not None else None
        new, figures = survey.news(self.config, self.state, found, manifest), None
        if found.any and present is not None and self._fingerprint() is not None:
            (model,), threads = self._open(publish.version_path(self.folder, present))
            figures = survey.drift_of(self.config, model, found, incoming, threads, self.log)
        drifted = verdict(figures, self.config.drift) if figures else []
        decision = rules.decide(
            model=manifest,
            new=new,
            drifted=drifted,
            age=survey.age(self.state, self.log),
            when=self.config.when,
            train=self.config.train,
            forced=full,
        )
        self.log(f"decision: {decision.kind}: {'; '.join(decision.why)}" + (" (dry run)" if dry else ""))
        told = {
            "decision": decision.kind,
            "why": decision.why,
            "new_files": len(found.new),
            "changed_files": len(found.changed),
            "deleted_files": len(found.gone),
            "unsettled_files": len(found.unsettled),
            "drift": figures,
        }
        if dry or decision.kind == rules.NOTHING:
            remove_copies(incoming)
            if found.touched and not dry:
                self._keep(files=self.state["files"] | found.touched)
            return self._summary({**told, "dry_run": dry})
        words = Corpus.open(self.config.corpus).n_words if self._fingerprint() is not None else 0
        ask_room(self.config.train.mem_limit, self.config.train.topics, words)
        groups = [("new", found.new, "skip"), ("changed", found.changed, self._rule())]
        self._go_on(
            "append",
            began=rules.now().isoformat(timespec="seconds"),
            decision=decision.kind,
            files=found.new | found.changed | found.touched,
            groups=[{"name": name, "rule": rule} for name, files, rule in groups if files],
            base=present,
            version=max([0, *publish.published_versions(self.folder), int(self.state.get("version", 0))]) + 1,
            summary=told,
        )
        return None

    # -- stages --------------------------------------------------------------------------------------------------
    def _append(self) -> dict[str, Any]:
        """The copies into the corpus store; then the files count as taken in."""
        wip = self.config.corpus.with_name("corpus.zarr.wip")
        for group in self.journal["groups"]:
            if "added" in group:
                continue
            at = self._fingerprint()
            if "base" not in group:
                group |= {"base": at, "docs_before": self._documents()}
                self._go_on("append")
            done = group["base"] != at  # committed by a run that was killed before it could say so
            if not done or (wip / "state.json").exists():
                self._ingest(self.folder / "incoming" / group["name"], group["rule"], append=group["base"] is not None)
            _remove_wip(wip)  # what a run left that was killed while it removed it
            group["added"] = self._documents() - group["docs_before"]
            self.log(f"{group['name']} files: {group['added']:,} documents added")
            self._go_on("append")
        self._keep(files=self.state["files"] | self.journal["files"], version=self.journal["version"])
        remove_copies(self.folder / "incoming")
        added = sum(g["added"] for g in self.journal["groups"])
        self.journal["summary"]["documents_added"] = added
        model = self._manifest_of(self.journal["base"])
        if self.journal["decision"] == rules.UPDATE and model and self._is_trained_on(model):
            self.log("every document was known already; nothing to train")
            self.journal["summary"] |= {"decision": rules.NOTHING, "why": ["every document was known already"]}
            return self._end()
        if found := worth(self.config, self.journal["decision"], self._base()):
            self.log(f"compacting {self.config.corpus}: {found}")
            done = compact(self.config.corpus, progress=Shown(stream=self.log.stream))
            self.log(
                f"{done['blocks'][0]} -> {done['blocks'][1]} blocks, {done['documents_purged']:,} documents purged"
            )
            self.journal["summary"]["compacted"] = done["blocks"]
        self._go_on("train")
        return {}

    def _base(self) -> tuple[Path, Path] | None:
        base = self.journal["base"]
        return base and (publish.version_path(self.folder, base), self.folder / "runs" / f"{base:04d}")

    def _ingest(self, source: Path, rule: str, append: bool) -> None:
        given = dict(self.config.ingest)
        grow = bool(given.pop("grow_vocab", True))
        progress = Shown(stream=self.log.stream)
        if append:
            given |= {"append": True, "grow_vocab": grow}
        given |= {"mem_limit": self.config.train.mem_limit, "workers": self.config.train.threads}
        try:
            ingest([Path(source)], self.config.corpus, progress=progress, on_duplicate=rule, **given)
        except InputError as e:  # a file that cannot be taken in: the next run looks at all files anew
            owned.remove_file(self.folder / "journal.json")
            _remove_wip(self.config.corpus.with_name("corpus.zarr.wip"))
            remove_copies(self.folder / "incoming")
            raise survey.raw_names(e, [source], self.config.raw) from None
        finally:
            progress.close()

    def _train(self) -> dict[str, Any]:
        """The new model in a folder of its own."""
        want, run = self.config.train, self._run
        own = {k: v for k, v in asdict(want).items() if k not in ("max_time", "mem_limit", "threads", "seed_words")}
        if want.seed_words is not None:
            own["seed_words"] = [asdict(topic) for topic in read_seeds(want.seed_words)]
        settings = _digest(own)
        if run.exists() and self.journal.get("settings") != settings:
            self.log("the settings have changed since this training began; it begins anew")
            owned.remove(run, "model")
        if self.journal.get("settings") != settings:
            self._go_on("train", settings=settings)
        self._keep(last_tried=rules.now().isoformat(timespec="seconds"))
        limits: dict[str, Any] = {
            "tol": want.tol,
            "max_time": want.max_time,
            "mem_limit": want.mem_limit,
            "threads": want.threads,
            "progress": Shown(self.log.verbosity, self.log.stream),
        }
        claim(run.parent, "runs")
        base = self.journal["base"]
        if self.journal["decision"] == rules.UPDATE:
            done = train_on(
                self.config.corpus,
                publish.version_path(self.folder, base),
                run,
                earlier=self.folder / "runs" / f"{base:04d}",
                passes=want.update_passes,
                **limits,
            )
            how, passes, reason = done.how, done.passes, done.reason
        else:
            whole = train(
                self.config.corpus,
                run,
                algo=want.algo,
                aim=want.aim,
                allow_smaller=want.allow_smaller,
                topics=want.topics,
                seed=want.seed,
                passes=want.passes,
                seed_words=want.seed_words,
                weighting=want.weighting,
                options=want.options,
                **limits,
            )
            how, passes, reason = "fresh", whole.passes, whole.reason
        self.journal["summary"] |= {"training": how, "passes": passes, "stopped": reason}
        self._go_on("gate")
        return {}

    def _gate(self) -> dict[str, Any]:
        """Publish or refuse."""
        present = publish.current(self.folder)
        before = [] if present is None else [publish.version_path(self.folder, present)]
        (new, *olds), threads = self._open(self._run, *before)
        old = olds[0] if olds else None
        found = judge(new, old, Corpus.open(self.config.corpus), self.config.gate, threads)
        self.journal["summary"]["gate"] = found
        if found["refused"]:
            self.log(f"gate: refused: {'; '.join(found['refused'])}")
            self._keep(refused={"corpus": self._fingerprint(), "why": found["refused"]})
            return self._end()
        for warning in found["warnings"]:
            self.log(f"warning: {warning}")
        was = "" if found["perplexity_before"] is None else f" (present model {found['perplexity_before']:.1f})"
        self.log(f"gate: passed, held-out perplexity {found['perplexity'] or math.nan:.1f}{was}")
        if old is None:
            ids = first_ids(new.n_topics)
        else:
            assert old.path is not None
            ids = align(old, new, *read_ids(old.path, old.n_topics), self.config.publish.far)
        self._go_on("publish", ids=ids)
        return {}

    def _publish(self) -> dict[str, Any]:
        """The version, the link, the state; then what is not needed any more goes."""
        number, ids = int(self.journal["version"]), self.journal["ids"]
        if self.config.publish.classifier and not publish.version_path(self.folder, number).exists():
            want = self.config.train
            learned = train_classifier(
                self._run, self.config.corpus, threads=want.threads, mem_limit=want.mem_limit
            )  # fmt: skip
            self.log(f"classifier: {learned['documents']:,} documents, {learned['divergence']:.3f} nats from theta")
            self.journal["summary"]["classifier"] = {k: learned[k] for k in ("documents", "divergence", "temperature")}
        place = publish.store_version(self._run, self.folder, number, ids)
        if (before := publish.current(self.folder)) is not None and before != number:
            edits.carry(publish.version_path(self.folder, before), place)
        publish.point_to(self.folder, number)
        self._keep(last_trained=rules.now().isoformat(timespec="seconds"), version=number, refused=None)
        publish.prune(self.folder, self.config.publish.keep)
        counts = {k: len(ids[k]) for k in ("kept", "born", "died", "split", "merged")}
        self.log(f"published {place}; topics: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
        told = {k: ids[k] for k in ("born", "died", "split", "merged", "distance")}
        if not ids["kept"]:
            told["born"] = len(ids["born"])
        self.journal["summary"] |= {"published": number, "topics": {"kept": counts["kept"], **told}}
        return self._end(keep=self._run.name)

    def _end(self, keep: str | None = None) -> dict[str, Any]:
        """Remove the journal, and the runs that belong to no current version; the cycle's summary."""
        summary = self.journal["summary"]
        held = keep or (f"{now:04d}" if (now := publish.current(self.folder)) is not None else "")
        owned.remove_file(self.folder / "journal.json")
        sync_folder(self.folder)
        self.journal = {}
        if (self.folder / "runs").is_dir():
            for run in (self.folder / "runs").iterdir():
                if run.name.isdecimal() and run.name != held:
                    try:
                        claim(run, "model")
                        owned.remove(run, "model")
                    except NotOurs as e:
                        self.log(f"warning: {e}")
        return dict(summary)

    def _refuse_what_is_in_the_way(self) -> None:
        """Before anything is done: our names in the folder are ours."""
        if self.config.corpus.exists() or self.config.corpus.is_symlink():
            claim(self.config.corpus, "corpus")
        for name in ("incoming", "runs", "versions"):
            if os.path.lexists(self.folder / name):
                claim(self.folder / name, name)
        publish.current(self.folder)

    # -- what they share -----------------------------------------------------------------------------------------
    @property
    def _run(self) -> Path:
        return self.folder / "runs" / f"{self.journal['version']:04d}"

    def _go_on(self, stage: str, **facts: Any) -> None:
        self.journal |= {"schema": SCHEMA, "stage": stage, **facts}
        write_json(self.folder / "journal.json", _plain(self.journal))

    def _keep(self, **facts: Any) -> None:
        self.state |= facts
        write_json(self.folder / "state.json", self.state)

    def _rule(self) -> str:
        return "replace" if self.config.changed == "replace" else "skip"

    def _fingerprint(self) -> str | None:
        return survey.fingerprint(self.config)

    def _is_trained_on(self, model: dict[str, Any]) -> bool:
        return Corpus.open(self.config.corpus).is_of(model["corpus"]["fingerprint"])

    def _documents(self) -> int:
        if self._fingerprint() is None:
            return 0
        corpus = Corpus.open(self.config.corpus)
        return int(corpus.part()["docs"] + corpus.part(True)["docs"])

    def _open(self, *paths: Path) -> tuple[list[TopicModel], int]:
        return open_models(paths, Corpus.open(self.config.corpus), self.config.train.mem_limit, self.threads)

    def _manifest_of(self, number: int | None) -> dict[str, Any] | None:
        return read_manifest(publish.version_path(self.folder, number)) if number is not None else None

    def _summary(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """The summary of a cycle, one JSON line: finite numbers only."""
        number = publish.current(self.folder)
        every = {
            "decision": rules.NOTHING,
            "published": None,
            "documents_added": 0,
            **told,
            "refused": (told.get("gate") or {}).get("refused", []),
            "current": number,
            "model": str(self.folder / publish.CURRENT) if number is not None else None,
            "seconds": round(time.monotonic() - self.began, 3),
        }
        return dict(_plain(every))


def _remove_wip(wip: Path) -> None:
    if os.path.lexists(wip):
        claim(wip, "ingest")
        owned.remove(wip, "ingest")


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """JSON values: infinite and NaN numbers become None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value
