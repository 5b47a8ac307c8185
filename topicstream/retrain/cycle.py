"""``topics retrain``: scan, measure, decide, append, train, judge, publish.  One cycle, written down as it goes.

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
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO

from topicstream import machine
from topicstream.corpus.reader import Corpus
from topicstream.durable import lock, read_json, sync_folder, write_json
from topicstream.errors import InputError, StoreError, TopicsError
from topicstream.ingest.pipeline import ingest
from topicstream.ingest.progress import Shown
from topicstream.model.store import read_manifest
from topicstream.model.topic_model import TopicModel
from topicstream.retrain import decide as rules
from topicstream.retrain import publish, survey
from topicstream.retrain.align import align, first_ids, read_ids
from topicstream.retrain.config import Config, When, load, parse_seconds
from topicstream.retrain.drift import verdict
from topicstream.retrain.files import scan
from topicstream.retrain.gate import judge
from topicstream.retrain.log import Log
from topicstream.retrain.update import train_on
from topicstream.training.loop import train
from topicstream.training.progress import Progress

SCHEMA = 1
STAGES = ("append", "train", "gate", "publish")


def retrain(
    config: str | Path | Config = "retrain.toml",
    *,
    if_new_docs: bool = False,
    if_drift: bool = False,
    at_least_every: str | float | None = None,
    full: bool = False,
    dry_run: bool = False,
    max_time: float | None = None,
    mem_limit: str | int | None = None,
    wait: bool = False,
    stream: TextIO | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """One cycle; the summary as plain values.

    if_new_docs, if_drift, at_least_every   conditions under which to act, instead of the config's [when]
    full        a full training whatever holds;  dry_run: decide and say why, change nothing
    max_time    seconds of training;  mem_limit: as ``"2G"``;  both instead of the config's
    wait        for another run to end, instead of raising Busy
    stream      where the log goes (stderr), a line with a timestamp each

    The summary's ``refused`` lists why the gate refused the new model (the command exits 6 then); empty otherwise.
    Raises InputError (a raw file that cannot be read), Busy, DoesNotFit, Interrupted, TopicsError.
    """
    settings = config if isinstance(config, Config) else load(config)
    if if_new_docs or if_drift or at_least_every is not None:
        every = parse_seconds(at_least_every, "at_least_every")
        settings = replace(settings, when=When(if_new_docs, if_drift, every))
    changes: dict[str, Any] = {} if max_time is None else {"max_time": max_time}
    if mem_limit is not None:
        changes["mem_limit"] = machine.parse_bytes(mem_limit)
    settings = replace(settings, train=replace(settings.train, **changes))
    cycle = Cycle(settings, Log(stream, quiet))
    try:
        settings.folder.mkdir(parents=True, exist_ok=True)
        with lock(settings.folder, "retraining", wait=wait):
            return cycle.run(full, dry_run)
    except PermissionError as e:
        raise TopicsError(f"{e.filename or settings.folder}: {e.strerror}; retrain writes to {settings.folder}") from e
    except OSError as e:
        if e.errno == 30:
            raise TopicsError(f"{settings.folder}: is read-only; retrain writes there, name another folder") from e
        raise


class Cycle:
    """One cycle of one folder; the caller holds the lock."""

    def __init__(self, config: Config, log: Log) -> None:
        self.config, self.folder, self.log = config, config.folder, log
        self.threads = config.train.threads or machine.default_threads()
        limit = config.train.mem_limit
        self.memory = limit if limit is not None else machine.default_memory_limit()
        self.journal: dict[str, Any] = {}
        self.state: dict[str, Any] = {"schema": SCHEMA, "files": {}, "last_trained": None, "last_tried": None}
        self.began = time.monotonic()

    # -- the whole -----------------------------------------------------------------------------------------------
    def run(self, full: bool, dry: bool) -> dict[str, Any]:
        """Carry on with the cycle at work, or begin one."""
        machine.calm_malloc()
        for stray in self.folder.glob(".*.tmp"):  # of a run that was killed while it wrote
            stray.unlink(missing_ok=True)
        if (self.folder / "state.json").exists():
            self.state |= read_json(self.folder / "state.json")
        if self.state["files"] and self._fingerprint() is None:
            # a new store would hold the new files alone, and a journal begun now would take the old one for its work
            raise StoreError(
                f"{self.config.corpus}: no corpus store is there, though {len(self.state['files'])} raw files were taken into "
                f"it; restore it (manifest.json is written last), or remove {self.folder}/state.json to ingest all anew"
            )
        if (self.folder / "journal.json").exists():
            self.journal = read_json(self.folder / "journal.json")
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
            model = self._open(publish.version_path(self.folder, present))
            figures = survey.drift_of(self.config, model, found, incoming, self.threads, self.log)
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
            shutil.rmtree(incoming, ignore_errors=True)
            if found.touched and not dry:
                self._keep(files=self.state["files"] | found.touched)
            return self._summary({**told, "dry_run": dry})
        groups = [("new", found.new, "skip"), ("changed", found.changed, self._rule())]
        self._go_on(
            "append",
            began=rules.now().isoformat(timespec="seconds"),
            decision=decision.kind,
            files=found.new | found.changed | found.touched,
            groups=[{"name": name, "rule": rule} for name, files, rule in groups if files],
            base=present,
            version=max([0, *publish.versions(self.folder), int(self.state.get("version", 0))]) + 1,
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
            shutil.rmtree(wip, ignore_errors=True)  # what a run left that was killed while it removed it
            group["added"] = self._documents() - group["docs_before"]
            self.log(f"{group['name']} files: {group['added']:,} documents added")
            self._go_on("append")
        self._keep(files=self.state["files"] | self.journal["files"], version=self.journal["version"])
        shutil.rmtree(self.folder / "incoming", ignore_errors=True)
        added = sum(g["added"] for g in self.journal["groups"])
        self.journal["summary"]["documents_added"] = added
        model = self._manifest_of(self.journal["base"])
        if self.journal["decision"] == rules.UPDATE and model and model["corpus"]["fingerprint"] == self._fingerprint():
            self.log("every document was known already; nothing to train")
            self.journal["summary"] |= {"decision": rules.NOTHING, "why": ["every document was known already"]}
            return self._end()
        self._go_on("train")
        return {}

    def _ingest(self, source: Path, rule: str, append: bool) -> None:
        given = dict(self.config.ingest)
        grow = bool(given.pop("grow_vocab", True))
        progress = Shown(self.log.stream)
        if append:
            given |= {"append": True, "grow_vocab": grow}
        given |= {"mem_limit": self.config.train.mem_limit, "workers": self.config.train.threads}
        try:
            ingest([source], self.config.corpus, progress=progress, on_duplicate=rule, **given)
        except InputError as e:  # a file that cannot be taken in: the next run looks at all files anew
            (self.folder / "journal.json").unlink()
            for place in (self.config.corpus.with_name("corpus.zarr.wip"), self.folder / "incoming"):
                shutil.rmtree(place, ignore_errors=True)
            raise survey.raw_names(e, [source], self.config.raw) from None
        finally:
            progress.close()

    def _train(self) -> dict[str, Any]:
        """The new model in a folder of its own."""
        want, run = self.config.train, self._run
        settings = _digest({k: v for k, v in asdict(want).items() if k not in ("max_time", "mem_limit", "threads")})
        if run.exists() and self.journal.get("settings") != settings:
            self.log("the settings have changed since this training began; it begins anew")
            shutil.rmtree(run)
        if self.journal.get("settings") != settings:
            self._go_on("train", settings=settings)
        self._keep(last_tried=rules.now().isoformat(timespec="seconds"))
        limits: dict[str, Any] = {
            "tol": want.tol,
            "max_time": want.max_time,
            "mem_limit": want.mem_limit,
            "threads": want.threads,
            "progress": Progress(self.log.verbosity, self.log.stream),
        }
        run.parent.mkdir(exist_ok=True)
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
                topics=want.topics,
                seed=want.seed,
                passes=want.passes,
                options=want.options,
                **limits,
            )
            how, passes, reason = "fresh", whole.passes, whole.reason
        self.journal["summary"] |= {"training": how, "passes": passes, "stopped": reason}
        self._go_on("gate")
        return {}

    def _gate(self) -> dict[str, Any]:
        """Publish or refuse."""
        new, old = self._open(self._run), self._current_model()
        found = judge(new, old, Corpus.open(self.config.corpus), self.config.gate, self.threads)
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
        place = publish.store_version(self._run, self.folder, number, ids)
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
        (self.folder / "journal.json").unlink()
        sync_folder(self.folder)
        self.journal = {}
        if (self.folder / "runs").is_dir():
            for run in (self.folder / "runs").iterdir():
                if run.name != held:
                    shutil.rmtree(run, ignore_errors=True)
        return summary

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

    def _documents(self) -> int:
        if self._fingerprint() is None:
            return 0
        corpus = Corpus.open(self.config.corpus)
        return int(corpus.part()["docs"] + corpus.part(True)["docs"])

    def _open(self, path: Path) -> TopicModel:
        return TopicModel.open(path, memory_limit=self.memory // 4)

    def _current_model(self) -> TopicModel | None:
        number = publish.current(self.folder)
        return self._open(publish.version_path(self.folder, number)) if number is not None else None

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
        return _plain(every)


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
