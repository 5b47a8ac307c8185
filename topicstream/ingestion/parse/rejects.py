"""Records that cannot be read: stop at the first, or leave them out, listed and counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from topicstream.base.errors import InputError, one_line

SHOWN_BYTES = 200
"""Bytes of a bad record that are listed."""
LEFT_OUT = "field left out: "
WORDS_LEFT_OUT = "words left out: "
"""Begins the note that counts the words of an element that is not text."""
MOST_NAMES = 1000
"""Names of fields left out that a summary can know; more of them are counted in one note."""
MORE_LEFT_OUT = "times a further field was left out, beyond the first 1,000 names"


def add_notes(notes: Counter[str], more: Mapping[str, int]) -> None:
    """Add notes to the notes of an input.

    Of fields left out at most ``MOST_NAMES`` names are kept, the others in one note.
    """
    names = sum(note.startswith(LEFT_OUT) for note in notes)
    for note in sorted(more):
        new_name = note.startswith(LEFT_OUT) and note not in notes
        if new_name and names >= MOST_NAMES:
            notes[MORE_LEFT_OUT] += more[note]
            continue
        names += new_name
        notes[note] += more[note]


class BadFile(InputError):
    """A file as a whole cannot be read on (a broken header, a truncated archive).

    ``--on-error skip`` leaves the rest of it out; every other InputError of a reader is the user's
    to mend and stops either way.
    """

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(f"{file}:{line}: {reason}" if line else f"{file}: {reason}")
        self.reject = Reject(file, line, reason, b"")


@dataclass(frozen=True)
class Reject:
    """Record that was left out.

    Attributes
    ----------
    file
        Name of the file as the user gave it.
    line
        Number of the line from 1, or 0 where the file has no lines.
    reason
        Why the record cannot be used, on one line.
    start
        First 200 bytes of the record.
    """

    file: str
    line: int
    reason: str
    start: bytes

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", one_line(self.reason))  # it may quote the file

    def error(self) -> InputError:
        """Make the error with which ``--on-error fail`` ends."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        advice = "--on-error=skip leaves such records out"
        if self.reason.endswith(")"):  # which holds advice already
            return InputError(f"{where}: {self.reason[:-1]}; {advice})")
        return InputError(f"{where}: {self.reason} ({advice})")


@dataclass
class Rejects:
    """Bad records of some input, and notes for the summary.

    Attributes
    ----------
    records
        Records that were left out.
    notes
        Counts of oddities that are no faults, such as ``records without abstract``. A note that
        begins with ``LEFT_OUT`` names a field that no option asked for.
    """

    records: list[Reject] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.records)

    def lines(self, name: str, key: str) -> bytes:
        """Return the lines of ``rejects.jsonl``: file, line, reason and start of each record.

        The file of the source ``name`` is stored as ``key``; bytes that are not UTF-8 are written
        as \\xNN.
        """
        text = ""
        for record in self.records:
            file = (
                key + record.file.removeprefix(name)
                if record.file.startswith(name)
                else record.file
            )
            about = {"file": file, "line": record.line, "reason": record.reason}
            about["start"] = record.start.decode("utf-8", "backslashreplace")
            text += json.dumps(about, ensure_ascii=False) + "\n"
        return text.encode("utf-8", "backslashreplace")
