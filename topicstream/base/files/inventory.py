"""Which files and folders are ours: what the lists of markers say.

A folder is ours if it contains a marker (``marker.py``) now. A file is ours if the nearest marker
above lists it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from topicstream.base.errors import NotOurs
from topicstream.base.files.marker import (
    LOCK,
    MARK,
    Line,
    StrPath,
    entry_of,
    entry_of_name,
    home_of,
    is_half_marker,
    line_of,
    listed_entries,
    mark_of,
    names_entry,
    read_marker,
    resolve_folders,
)

_IN_SCRATCH = re.compile(r"duckdb_temp_[\w.-]+|[0-9a-f]{32}|\w+\.rows")
"""Names that DuckDB and workers give to files in a folder that they fill."""


def _folders_above(entry: bytes) -> Iterator[bytes]:
    """Yield the folders of an entry, with a slash at the end."""
    return (entry[: i + 1] for i, c in enumerate(entry) if c == ord("/"))


def is_listed(path: StrPath) -> bool:
    """Tell whether the nearest marker above lists a path.

    A file in a folder that a library fills is listed if it has a name of the library's.
    """
    line = line_of(path)
    return line is not None and is_on_list(line)


def is_on_list(line: Line) -> bool:
    """Tell whether a line is on its list (see ``is_listed``)."""
    lines = read_marker(line.home)
    entry = line.entry
    if names_entry(lines, entry) or names_entry(lines, entry + b"/"):
        return True
    named_by_library = _IN_SCRATCH.fullmatch(os.path.basename(os.fsdecode(entry))) is not None
    return named_by_library and any(names_entry(lines, folder) for folder in _folders_above(entry))


def is_lock(path: StrPath) -> bool:
    """Tell whether a file is a lock of ours: it has the name, and is empty."""
    if os.path.basename(path) != LOCK:
        return False
    about = os.lstat(path)
    return stat.S_ISREG(about.st_mode) and about.st_size == 0


def owns(path: StrPath) -> bool:
    """Tell whether a file is ours: a marker, an empty lock, or listed. A link never is."""
    if not os.path.isfile(path) or os.path.islink(path):
        return False
    if os.path.basename(path) == MARK:
        return mark_of(os.path.dirname(path)) is not None
    return is_listed(path) or (is_lock(path) and mark_of(os.path.dirname(path)) is not None)


def require_owned(path: StrPath) -> None:
    """Raise NotOurs where an existing file is not ours."""
    if not owns(path):
        raise NotOurs(f"{path}: is in the way and not ours; move it away and run this again")


def unlisted_paths(folder: StrPath) -> Iterator[Path]:
    """Yield paths in a marked folder that are not listed.

    Files, links and special files come one by one, a folder with nothing of ours in it as one.
    Empty folders count as ours, for a kill may leave one.
    """
    entries = listed_entries(folder)
    folders: set[bytes] = set()
    for entry in entries:
        folders.update(above[:-1] for above in _folders_above(entry))
    stack = [(Path(folder), b"", False)]
    while stack:
        place, prefix, filled = stack.pop()
        for path in sorted(place.iterdir()):
            entry = prefix + entry_of_name(path.name)
            if path.is_symlink() or not path.is_dir():
                if not _is_known(path, entry, entries, filled):
                    yield path
            elif mark_of(path) is not None:
                if entry in entries:
                    yield from unlisted_paths(path)
                elif holds_files(path):
                    yield path
            elif filled or entry in folders or entry + b"/" in entries:
                stack.append((path, entry + b"/", filled or entry + b"/" in entries))
            elif holds_files(path):
                yield path


def owned_files(folder: StrPath) -> Iterator[Path]:
    """Yield the files of ours below a folder, of each folder its marker last.

    A list is read once, not once a file: a folder may hold 100,000.
    """
    home = Path(folder) if mark_of(folder) is not None else home_of(folder)
    if home is not None:
        yield from _owned_below(
            Path(resolve_folders(folder)), Path(os.path.realpath(home)), listed_entries(home)
        )


def _owned_below(folder: Path, home: Path, entries: set[bytes]) -> Iterator[Path]:
    """Yield the files of ours below a folder.

    Parameters
    ----------
    folder
        The folder.
    home
        The nearest marked folder: this one, or one above.
    entries
        The list of ``home``.
    """
    prefix = b"" if folder == home else entry_of(folder, home) + b"/"
    filled = any(above in entries for above in _folders_above(prefix))
    files: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_dir():
            files.append(path)
        elif mark_of(path) is None:
            yield from _owned_below(path, home, entries)
        elif prefix + entry_of_name(path.name) in entries:
            yield from _owned_below(path, path, listed_entries(path))
    for path in sorted(files, key=lambda path: _REMOVED_LAST.get(path.name, 0)):
        if _is_known(path, prefix + entry_of_name(path.name), entries, filled):
            yield path


_REMOVED_LAST = {"state.json": 1, LOCK: 2, MARK: 3}
"""Files that are removed last, so that the rest of a killed removal shows whose it is."""


def _is_known(path: Path, entry: bytes, entries: set[bytes], filled: bool) -> bool:
    """Tell whether something that is no folder is ours.

    Parameters
    ----------
    path
        The path.
    entry
        The path as a line of the list.
    entries
        The list.
    filled
        True in a folder that a library fills.
    """
    if path.is_symlink() or not path.is_file():
        return False
    if entry in entries or (filled and _IN_SCRATCH.fullmatch(path.name)):
        return True
    if b"/" in entry:
        return False
    return path.name == MARK or is_lock(path) or is_half_marker(path)


def holds_files(folder: StrPath) -> bool:
    """Tell whether anything but empty folders and an empty lock lies in a folder."""
    return first_inside(folder) is not None


def first_inside(folder: StrPath) -> Path | None:
    """Return a path in a folder that is neither an empty folder nor an empty lock, if any."""
    for path in sorted(Path(folder).iterdir()):
        if path.is_dir() and not path.is_symlink():
            inside = first_inside(path)
            if inside is not None:
                return inside
        elif not is_lock(path):
            return path
    return None


def refuse_unlisted(folder: StrPath) -> None:
    """Raise NotOurs if a folder of ours holds a file that we did not make.

    Call it before the folder is removed or replaced as a whole. The error names the first file.
    """
    for path in unlisted_paths(folder):
        raise NotOurs(
            f"{path}: is not ours, and {folder} is to be replaced; move it out and run this again"
        )
