"""A cycle of ``topics retrain``: scan, measure, decide, append, train, judge, publish.

    journal.json   the cycle at work: its step and the data of the steps; replaced atomically,
                   removed last. Each step may be run again from its beginning.
    state.json     state between cycles: known files, dates of trainings
    incoming/      copies of the files of this cycle
    runs/NNNN/     training of version NNNN, until it is published or refused

Killed at any instant, the next run finishes the cycle from its step; ``current`` changes in one
rename.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from topicstream.base import machine
from topicstream.base.errors import InputError, NotOurs, StoreError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import sync
from topicstream.base.files.marker import Kind
from topicstream.base.files.ownership import claim
from topicstream.base.places import places
from topicstream.base.progress import Progress
from topicstream.base.records import Json, plain, write_record
from topicstream.base.text import counted
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.matching import align
from topicstream.ingestion.open import inputs_record
from topicstream.ingestion.pipeline import ingest
from topicstream.ingestion.upkeep.compact import compact
from topicstream.model import edits
from topicstream.model.manifest import number_topics, read_ids, read_manifest
from topicstream.model.topic_model import TopicModel
from topicstream.retraining import decide as rules
from topicstream.retraining import publish
from topicstream.retraining.arrivals import Arrivals
from topicstream.retraining.bad_files import comes_from_file, with_user_paths
from topicstream.retraining.config import Config
from topicstream.retraining.drift import list_drift_reasons, measure_raw_files
from topicstream.retraining.gate import check_room, judge, open_models
from topicstream.retraining.raw_files import SET_ASIDE
from topicstream.retraining.state import (
    JOURNAL,
    STATE,
    CycleJournal,
    Decision,
    Group,
    Refused,
    RetrainState,
    StateFile,
    read_journal,
)
from topicstream.retraining.update import train_on
from topicstream.training.loop import train

FOLDERS: Mapping[str, Kind] = {
    "corpus.zarr": "corpus",
    "corpus.zarr.wip": "ingest",
    "incoming": "incoming",
    "runs": "runs",
    "versions": "versions",
}


class Cycle:
    """A cycle in a folder whose lock the caller holds.

    Parameters
    ----------
    config
        The settings.
    log
        The listener to progress.
    """

    journal: CycleJournal

    def __init__(self, config: Config, log: Progress) -> None:
        self.config = config
        self.folder = config.folder
        self.log = log
        self.wip = config.corpus.with_name("corpus.zarr.wip")
        self.threads = config.train.threads or machine.default_threads()
        self.known = StateFile(config.folder)
        self.arrivals = Arrivals(config, self.known, log)
        self.began = time.monotonic()

    def run(self, full: bool, dry: bool, release: bool = False) -> dict[str, Json]:
        """Finish the cycle at work, or run a new one, and return its summary.

        The run goes on without a raw file that cannot be read. The next run tries such a file
        again; the third time it is set aside.

        Parameters
        ----------
        full
            Train from scratch, whatever the conditions say.
        dry
            Only decide.
        release
            End the hold of a rollback, and try files again that were set aside.
        """
        self.arrivals.dry = dry
        while True:
            try:
                return self._run(full, dry, release)
            except Exception as e:
                if not self.arrivals.leave_out(e):
                    raise
            release = False  # the first attempt has done it

    def _run(self, full: bool, dry: bool, release: bool) -> dict[str, Json]:
        """Run the cycle as far as no raw file fails."""
        # what a killed run left half-written; other commands may be writing their results here
        owned.sweep(self.folder, f".{STATE}.*.tmp", f".{JOURNAL}.*.tmp")
        for name, kind in FOLDERS.items():
            if os.path.lexists(self.folder / name):
                claim(self.folder / name, kind)
        publish.current_version(self.folder)
        self.known.read()
        if self.state.files and rules.read_fingerprint(self.config) is None:
            # a new store would hold the new files alone, and a journal begun now would take the old
            # one for its work
            raise StoreError(
                f"{self.config.corpus}: no corpus store is there, though "
                f"{len(self.state.files)} raw files were taken into "
                f"it; restore it (manifest.json is written last), or remove "
                f"{self.folder}/state.json to ingest all again"
            )
        if release and not dry and (self.state.held is not None or self.state.failing):
            self.log.say(
                "--release: the hold of a rollback ends, and files that were set aside are "
                "tried again"
            )
            # one that has failed three times and fails again is set aside at once
            failing = {
                name: replace(failed, times=min(failed.times, SET_ASIDE - 1))
                for name, failed in self.state.failing.items()
            }
            self.known.change(held=None, failing=failing)
        journal = read_journal(self.folder)
        if journal is not None:
            self.journal = journal
            self.arrivals.files = journal.files
            self.log.say(f"resuming at stage {journal.stage} of the cycle begun {journal.began}")
            if dry:
                return self._make_summary(
                    {"decision": journal.decision, "why": ["a cycle is at work"], "dry_run": True}
                )
        else:
            summary = self._begin(full, dry)
            if summary is not None:
                return self._make_summary(summary)
        steps = {
            "append": self._append,
            "train": self._train,
            "gate": self._gate,
            "publish": self._publish,
        }
        while self.journal.stage != "end":
            steps[self.journal.stage]()
        self._finish()
        return self._make_summary(self.journal.summary)

    def _begin(self, full: bool, dry: bool) -> dict[str, Any] | None:
        """Scan, measure, decide, and begin a journal.

        Returns
        -------
        dict or None
            The summary of a cycle that ends here; None: the steps follow.
        """
        scan = self.arrivals.scan_files()
        if self.state.held is not None and not (
            scan.any and self.config.when.after_rollback == "new_docs"
        ):
            held_note = (
                f"version {self.state.held} is held since the rollback to it; `topics retrain "
                f"--release` ends that"
            )
            self.log.say(f"decision: nothing: {held_note}")
            owned.remove(self.folder / "incoming", "incoming")
            return {"why": [held_note], "held": self.state.held, "dry_run": dry}
        present = publish.current_version(self.folder)
        model = (
            None if present is None else read_manifest(publish.version_path(self.folder, present))
        )
        figures = None
        if scan.any and present is not None and rules.read_fingerprint(self.config) is not None:
            (opened,), threads = self._open_models(publish.version_path(self.folder, present))
            figures = measure_raw_files(self.config, opened, scan, threads, self.log)
        drifted = list_drift_reasons(figures, self.config.drift) if figures else []
        new_documents = rules.describe_news(self.config, self.state, scan, model)
        age = rules.seconds_since_training(self.state, self.log)
        decision, reasons = rules.decide(
            model, new_documents, drifted, age, self.config.when, self.config.train, full
        )
        self.log.say(f"decision: {decision}: {'; '.join(reasons)}" + (" (dry run)" if dry else ""))
        counts = {
            "new": scan.new,
            "changed": scan.changed,
            "deleted": scan.deleted,
            "unsettled": scan.unsettled,
        }
        summary = {
            "decision": decision,
            "why": reasons,
            **{f"{name}_files": len(files) for name, files in counts.items()},
            "drift": figures and asdict(figures),
        }
        if dry or decision == "nothing":
            owned.remove(self.folder / "incoming", "incoming")
            if scan.touched and not dry:
                self.known.change(files=self.state.files | scan.touched)
            return {**summary, "dry_run": dry}
        self._begin_journal(decision, summary, present)
        return None

    def _begin_journal(self, decision: Decision, summary: dict[str, Any], base: int | None) -> None:
        """Write the journal of a cycle that acts, once its model is sure to fit the memory."""
        scan = self.arrivals.scan
        words = (
            Corpus.open(self.config.corpus).n_words
            if rules.read_fingerprint(self.config) is not None
            else 0
        )
        check_room(self.config.train.mem_limit, self.config.train.topics, words)
        rule = {"new": "skip", "changed": "replace" if self.config.changed == "replace" else "skip"}
        self.journal = CycleJournal(
            stage="append",
            began=_format_now(),
            decision=decision,
            files=scan.new | scan.changed | scan.touched,
            groups=[
                Group(name=name, rule=rule[name.partition(".")[0]])
                for name in scan.groups(self.config)
            ],
            base=base,
            version=max([0, *publish.published_versions(self.folder), self.state.version]) + 1,
            summary=summary,
            format=self.arrivals.format,
        )
        self._record()

    # steps of a cycle; each may run again from its beginning

    def _append(self) -> None:
        """Ingest the copies, after which the files count as known."""
        for index, group in enumerate(self.journal.groups):
            if group.added is None:
                self._add_group(index, group)
        remove_wip(self.wip)  # a run may have been killed while it removed it
        fingerprint = rules.read_fingerprint(self.config)
        if fingerprint is not None:  # passages are read from the raw files: the copies go
            raw = inputs_record.place_of(str(self.config.raw))
            places = inputs_record.InputsRecord(inputs=[raw])
            inputs_record.save_record(
                self.config.corpus,
                places,
                fingerprint,
                appended=True,
                readings=self.config.readings(),
            )
        journal = self.journal
        failing = {
            name: failed for name, failed in self.state.failing.items() if name not in journal.files
        }
        self.known.change(
            files=self.state.files | journal.files,
            version=journal.version,
            failing=failing,
            format=journal.format or self.state.format,
        )
        owned.remove(self.folder / "incoming", "incoming")
        added = sum(group.added or 0 for group in journal.groups)
        self._record(documents_added=added)
        model = (
            None
            if journal.base is None
            else read_manifest(publish.version_path(self.folder, journal.base))
        )
        if (
            journal.decision == "update"
            and model is not None
            and Corpus.open(self.config.corpus).has_fingerprint(model.corpus.fingerprint)
        ):
            self.log.say("the new files hold no new documents; nothing to train")
            self._record("end", decision="nothing", why=["the new files hold no new documents"])
            return
        reason = rules.describe_spare_blocks(self.config, journal.decision)
        if reason:
            self.log.say(f"compacting {self.config.corpus}: {reason}")
            compacted = compact(self.config.corpus, progress=self.log)
            before, after = compacted["blocks"]
            self.log.say(
                f"{before} -> {after} blocks, "
                f"{counted(compacted['documents_purged'], 'document')} purged"
            )
            self._record(compacted=compacted["blocks"])
        self._record("train")

    def _add_group(self, index: int, group: Group) -> None:
        """Ingest a folder of copies, once."""
        present = rules.read_fingerprint(self.config)
        if group.docs_before is None:
            group = replace(group, base=present, docs_before=self._count_documents())
            self._record(groups={index: group})
        # a run that was killed before it could say so may have committed the ingest
        committed = group.base != present
        if not committed or (self.wip / "state.json").exists():
            self._ingest_group(group)
        group = replace(group, added=self._count_documents() - (group.docs_before or 0))
        self._record(groups={index: group})
        self.log.say(f"{group.name} files: {counted(group.added, 'document')} added")

    def _ingest_group(self, group: Group) -> None:
        """Ingest a folder of copies, or drop the journal if one of them is bad."""
        options = {
            "grow_vocab": True,
            **self.config.ingest_options(group.name),
            "append": True,
            "mem_limit": self.config.train.mem_limit,
            "workers": self.config.train.threads,
        }
        source = self.folder / "incoming" / group.name
        try:
            summary = ingest(
                [source], self.config.corpus, progress=self.log, on_duplicate=group.rule, **options
            )
            left_out = summary["dropped_forgotten"]
            if left_out:
                before = self.journal.summary.get("documents_forgotten", 0)
                self._record(documents_forgotten=before + left_out)
                self.log.say(
                    f"{counted(left_out, 'document')} left out, which `topics forget` removed"
                )
            rejected = summary["rejected"]
            if rejected:
                self.log.say(
                    f"warning: {counted(rejected, 'record')} left out, the first "
                    f"{summary['first_rejected']}"
                )
                self._record(
                    records_rejected=self.journal.summary.get("records_rejected", 0) + rejected
                )
        except Exception as e:
            if not comes_from_file(e) and not isinstance(e, InputError):
                raise
            # the next cycle, which this run begins without the bad file, looks at all files again
            owned.remove_file(self.folder / JOURNAL)
            remove_wip(self.wip)
            if isinstance(e, InputError):
                raise with_user_paths(e, self.config) from None
            raise
        finally:
            self.log.close()

    def _train(self) -> None:
        """Train the new model in a folder of its own."""
        options = self.config.train
        run = publish.run_path(self.folder, self.journal.version)
        base = self.journal.base
        settings = rules.hash_settings(self.config)
        if self.journal.settings != settings:
            if run.exists():
                self.log.say(
                    "the settings or the corpus have changed since this training began; it "
                    "starts over"
                )
                owned.remove(run, "model")
            self.journal = replace(self.journal, settings=settings)
            self._record()
        claim(run.parent, "runs")
        if self.journal.decision == "update" and base is not None:
            model = publish.version_path(self.folder, base)
            updated = train_on(
                self.config.corpus,
                model,
                run,
                passes=options.update_passes,
                progress=self.log,
                **options.limits(),
            )
            training = updated.how
            passes = updated.passes
            reason = updated.reason
        else:
            self.known.change(last_tried=_format_now())
            keywords = options.limits() | options.model_settings()
            del keywords["update_passes"]
            trained = train(self.config.corpus, run, progress=self.log, **keywords)
            training = "fresh"
            passes = trained.passes
            reason = trained.reason
        self._record("gate", training=training, passes=passes, stopped=reason)

    def _gate(self) -> None:
        """Judge the new model, and go on to publish it or end the cycle."""
        present = publish.current_version(self.folder)
        before = [] if present is None else [publish.version_path(self.folder, present)]
        (new, *olds), threads = self._open_models(
            publish.run_path(self.folder, self.journal.version), *before
        )
        old = olds[0] if olds else None
        judgement = judge(new, old, Corpus.open(self.config.corpus), self.config.gate, threads)
        self._record(gate=asdict(judgement))
        for warning in (w for w in judgement.warnings if w not in judgement.refused):
            self.log.say(f"warning: {warning}")
        if judgement.refused:
            self.log.say(f"gate: refused: {'; '.join(judgement.refused)}")
            self.known.change(
                refused=Refused(corpus=rules.read_fingerprint(self.config), why=judgement.refused)
            )
            self._record("end")
            return
        text = f"gate: passed, held-out perplexity {judgement.perplexity or math.nan:.1f}"
        if judgement.perplexity_before is not None:
            text += f" (present model {judgement.perplexity_before:.1f})"
        if judgement.prior:
            text += f", {judgement.prior}"
        self.log.say(text)
        ids = (
            number_topics(new.n_topics)
            if old is None
            else align(old, new, read_ids(old.path, old.n_topics), self.config.publish.far)
        )
        self.journal = replace(self.journal, ids=ids)
        self._record("publish")

    def _publish(self) -> None:
        """Publish the new model as a version: its folder, the link, the state."""
        number = self.journal.version
        ids = self.journal.ids
        assert ids is not None
        run = publish.run_path(self.folder, number)
        is_published = publish.version_path(self.folder, number).exists()
        if self.config.publish.classifier and not is_published:
            self._record(classifier=publish.learn_classifier(run, self.config, self.log))
        place = publish.store_version(run, self.folder, number, ids)
        before = publish.current_version(self.folder)
        if before is not None and before != number:
            edits.copy_log(publish.version_path(self.folder, before), place)
        publish.point_to(self.folder, number)
        address = self.config.publish.address
        if address is not None:
            uploaded = places().publish(place, address)
            self.log.say(f"published {address}: {counted(uploaded['uploaded'], 'file')} uploaded")
        self.known.change(last_trained=_format_now(), version=number, refused=None, held=None)
        publish.prune(self.folder, self.config.publish.keep)
        changes = {name: getattr(ids, name) for name in ("kept", "born", "died", "split", "merged")}
        self.log.say(
            f"published {place}; topics: "
            + ", ".join(f"{len(listed_topics)} {name}" for name, listed_topics in changes.items())
        )
        topics = changes | {"kept": len(ids.kept), "distance": ids.distance}
        if not ids.kept:  # of a first model all topics are new
            topics |= {"born": len(ids.born)}
        self._record("end", published=number, topics=topics)

    def _finish(self) -> None:
        """Remove the runs, then the journal, so that a killed run ends here again."""
        try:
            owned.remove(self.folder / "runs", "runs")
        except NotOurs as e:  # others have put something into it
            self.log.say(f"warning: {e}")
        owned.remove_file(self.folder / JOURNAL)
        sync(self.folder)

    # what the steps share

    def _record(
        self, stage: str = "", *, groups: Mapping[int, Group] | None = None, **figures: Any
    ) -> None:
        """Write the journal with its changes.

        Parameters
        ----------
        stage
            The next step.
        groups
            Changed groups by index.
        figures
            Further values of the summary.
        """
        journal = self.journal
        changed = [(groups or {}).get(index, group) for index, group in enumerate(journal.groups)]
        self.journal = replace(
            journal, stage=stage or journal.stage, groups=changed, summary=journal.summary | figures
        )
        write_record(self.folder / JOURNAL, self.journal)

    @property
    def state(self) -> RetrainState:
        """Return what is known between cycles."""
        return self.known.state

    def _count_documents(self) -> int:
        """Count the documents of the corpus."""
        if rules.read_fingerprint(self.config) is None:
            return 0
        corpus = Corpus.open(self.config.corpus)
        return int(corpus.part().docs + corpus.part(True).docs)

    def _open_models(self, *paths: Path) -> tuple[list[TopicModel], int]:
        """Open models for scores on the corpus, and return the threads to score with, too."""
        return open_models(
            paths, Corpus.open(self.config.corpus), self.config.train.mem_limit, self.threads
        )

    def _make_summary(self, figures: Mapping[str, Any]) -> dict[str, Json]:
        """Make the summary of a cycle for JSON, with None for numbers that are not finite."""
        number = publish.current_version(self.folder)
        summary: dict[str, Any] = plain(
            {
                "decision": "nothing",
                "published": None,
                "documents_added": 0,
                "records_rejected": 0,
                **self.arrivals.describe_failed(),
                **figures,
                "refused": (figures.get("gate") or {}).get("refused", []),
                "current": number,
                "model": None if number is None else str(self.folder / publish.CURRENT),
                "seconds": round(time.monotonic() - self.began, 3),
            }
        )
        return summary


def _format_now() -> str:
    """Return the present date and time, to the second."""
    return rules.now().isoformat(timespec="seconds")


def remove_wip(wip: Path) -> None:
    """Remove the working folder of an ingest, and what a removal left that was killed."""
    if os.path.lexists(wip):
        claim(wip, "ingest")
    owned.remove(wip, "ingest")
