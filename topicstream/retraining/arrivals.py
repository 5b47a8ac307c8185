"""The raw files that arrive in a cycle, and those of them that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topicstream.base.files import ownership as owned
from topicstream.base.progress import Progress
from topicstream.retraining.bad_files import (
    comes_from_file,
    find_bad_files,
    find_strays,
    hash_reading,
    match_message,
)
from topicstream.retraining.config import Config
from topicstream.retraining.raw_files import (
    SET_ASIDE,
    Scan,
    count_failure,
    describe_failures,
    scan_raw,
)
from topicstream.retraining.state import JOURNAL, Failing, RawFile, StateFile


class Arrivals:
    """The raw files that a cycle reads.

    A file that cannot be read is left out of this run; the third time it is set aside.

    Attributes
    ----------
    scan
        The raw files compared with the known ones.
    files
        Files that this run reads.
    failed
        Files that this run could not read.
    format
        The format of most files, or None.
    dry
        Whether nothing is remembered.
    """

    def __init__(self, config: Config, known: StateFile, log: Progress) -> None:
        self._config = config
        self._known = known
        self._log = log
        self._reading = hash_reading(config)
        self.scan = Scan()
        self.files: Mapping[str, RawFile] = {}
        self.failed: dict[str, Failing] = {}
        self.format: str | None = None
        self.dry = False

    def scan_files(self) -> Scan:
        """Scan the raw files, copy those to read, and leave out those that cannot be read."""
        raw = self._config.raw
        state = self._known.state
        scan = scan_raw(
            self._config,
            state.files,
            state.failing,
            failed=self.failed,
            reading=self._reading,
        )
        self.scan = scan
        counts = (
            f"{len(scan.new)} new, {len(scan.changed)} changed, {len(scan.deleted)} deleted "
            f"files, {len(state.files)} known"
        )
        self._log.say(f"{raw}: {counts}")
        for name in scan.unsettled:
            self._log.say(f"warning: {raw / name} is being written to; it waits for the next run")
        for name in (name for name in scan.set_aside if name not in self.failed):
            self._log.say(
                f"warning: {state.failing[name].why}: set aside until it changes; --release tries "
                f"it again"
            )
        for name, reason in scan.unreadable.items():
            self._count_failure(name, None, f"{raw / name}: {reason}")
        strays, self.format = find_strays(self._config, state.format)
        for name, reason in strays.items():
            self._count_failure(name, self._drop_copy(name), reason)
        self.files = {**scan.new, **scan.changed}
        self._forget_mended()
        return scan

    def leave_out(self, error: Exception) -> bool:
        """Count the raw files that an error comes from as failed, and return if there are any."""
        if not comes_from_file(error):
            return False
        files = self.files
        bad = find_bad_files(self._config) or match_message(error, files, self._config)
        bad = {
            name: reason
            for name, reason in bad.items()
            if name in files and name not in self.failed
        }
        for name, reason in bad.items():
            self._count_failure(name, files[name], reason)
        if not (self._config.folder / JOURNAL).exists():
            owned.remove(self._config.folder / "incoming", "incoming")
        return bool(bad)

    def describe_failed(self) -> dict[str, Any]:
        """Describe the files that are left out of this run, for its summary."""
        failing = {**self._known.state.failing, **self.failed}
        left_out = sorted({*self.scan.set_aside, *self.failed})
        return describe_failures({name: failing[name] for name in left_out})

    def _drop_copy(self, name: str) -> RawFile:
        """Take a file out of this run."""
        is_new = name in self.scan.new
        group = self._config.group_of("new" if is_new else "changed", name)
        owned.remove_file(self._config.folder / "incoming" / group / name)
        return (self.scan.new if is_new else self.scan.changed).pop(name)

    def _count_failure(self, name: str, file: RawFile | None, reason: str) -> None:
        """Leave a raw file out of this run, or set it aside if it has failed often enough."""
        failing = self._known.state.failing
        failed = count_failure(failing.get(name), file, reason, self._reading)
        self.failed[name] = failed
        advice = "left out of this run; the next one tries it again"
        if failed.times >= SET_ASIDE:
            advice = "set aside until it changes; --release tries it again"
        self._log.say(f"warning: {reason}: {advice}")
        if not self.dry:
            self._known.change(failing={**failing, name: failed})

    def _forget_mended(self) -> None:
        """Forget failures of files that are gone, or are again as they were when known."""
        scan = self.scan
        present = {*scan.new, *scan.changed, *scan.unsettled, *scan.set_aside, *scan.unreadable}
        before = self._known.state.failing
        failing = {
            name: failed
            for name, failed in before.items()
            if name in present or name in self.failed
        }
        if failing != before and not self.dry:
            self._known.change(failing=failing)
