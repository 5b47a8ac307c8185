"""Folders that are open for reading, so that a rewritten one is not called damaged.

Readers hold no lock, and a writer replaces or removes files that they have not read yet. A reader
that misses a file compares the manifest with the one that it opened: if they differ, the folder
was rewritten meanwhile.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakSet

from topicstream.base.errors import Busy, StoreError, TopicsError


class Opening:
    """A store or a model that is open for reading, and the manifest that it had then.

    Parameters
    ----------
    folder
        The folder. Make the opening before its manifest is read.
    noun
        ``store`` or ``model``, for messages.
    """

    def __init__(self, folder: Path, noun: str) -> None:
        self.folder = folder
        self.noun = noun
        self._place = Path(os.path.abspath(folder))  # the working folder may change
        self._identity = file_identity(self._place / "manifest.json")
        _openings.add(self)

    def was_rewritten(self) -> bool:
        """Tell whether the folder has another manifest, or none, by now."""
        return file_identity(self._place / "manifest.json") != self._identity

    def is_named_in(self, text: str) -> bool:
        """Tell whether a message names the folder or a file in it, as a path of its own.

        Messages write paths as ``m: damaged``, ``m/phi: damaged`` or ``'m'``. A folder called
        ``model`` is not named by the word in "no model yet".
        """
        path = re.escape(str(self.folder))
        return re.search(rf"(?<![\w./-]){path}(?=[:/'\"])", text) is not None

    def error(self) -> Busy:
        """Make the error about the rewriting."""
        return Busy(
            f"{self.folder}: the {self.noun} was rewritten while it was read; run the command again"
        )


_openings: WeakSet[Opening] = WeakSet()


def current_openings() -> WeakSet[Opening]:
    """Return all present openings."""
    return WeakSet(_openings)


def rewriting_behind(error: Exception, earlier: Iterable[Opening] = ()) -> Busy | None:
    """Return an error about the rewriting that an error comes from, if any.

    An error of ours, or of the system, names a file, which must lie in the rewritten folder. Any
    other error may come from the folders that the failed call has opened itself.

    Parameters
    ----------
    error
        The error.
    earlier
        Openings from before the call. They count only for an error that names a file of theirs.
    """
    names_file = isinstance(error, (StoreError, OSError))
    if isinstance(error, TopicsError) and not names_file:
        return None
    text = str(error)
    opened_before = set(earlier)
    for opening in list(_openings):
        opened_in_call = opening not in opened_before
        concerned = opening.is_named_in(text) or (opened_in_call and not names_file)
        if concerned and opening.was_rewritten():
            return opening.error()
    return None


def explain_damage(problem: str) -> TopicsError:
    """Return the error for a file that is missing or damaged, or for the rewriting behind it.

    A folder may be open twice, before and after a rewriting. Which of the two has met the problem
    is not known then, and the error names both causes.

    Parameters
    ----------
    problem
        A sentence that begins with the path of the file.

    Returns
    -------
    TopicsError
        StoreError, or Busy after a rewriting.
    """
    error = StoreError(problem)
    rewritten = rewriting_behind(error)
    if rewritten is None:
        return error
    for opening in list(_openings):
        if opening.is_named_in(problem) and not opening.was_rewritten():
            return StoreError(
                f"{problem}; or open the {opening.noun} again, if you opened it before it was "
                f"rewritten"
            )
    return rewritten


def file_identity(path: Path) -> tuple[int, int, int] | None:
    """Return numbers that tell a file from its successors, None without a file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
