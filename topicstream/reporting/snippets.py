"""The beginnings of some documents' texts, read again from the raw files that the store names as their sources."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.errors import TopicsError
from topicstream.ingestion.opening.inputs_record import file_of, raw_files
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.spooling.tasks import pieces
from topicstream.tokens.documents import TextRun

LARGEST = 2 << 30
"""Bytes of raw files that are read for snippets without being asked to."""


def snippets(
    store: Path,
    sources: Iterable[str],
    *,
    characters: int = 280,
    text_field: str | None = None,
    asked: bool = False,
) -> tuple[dict[str, str], str]:
    """(source -> first characters of the text, why there are none or '').  Files that are gone or cannot be read are left
    out; only pieces that hold a wanted document are parsed.

    asked  read whatever the store names: files of any size, changed since, or never an input (a stranger's store may name
           any file; what it does not know the time of is not read otherwise)
    """
    wanted: dict[str, set[str]] = {}
    for source in sources:
        if source:
            wanted.setdefault(file_of(source), set()).add(source)
    find = raw_files(store, known=not asked)
    places = {f: place for f in sorted(wanted) if (place := find(f)) is not None}
    if not places:
        if not asked and any(map(raw_files(store), wanted)):
            return {}, "the raw files are not as they were when the corpus was made; --text reads them"
        return {}, "the raw files are not where they were when the corpus was made"
    size = sum(Path(place).stat().st_size for place in places.values())
    if not asked and size > LARGEST:
        return {}, f"the raw files have {size / 1e9:.1f} GB; --text reads them"
    found: dict[str, str] = {}
    for file, place in places.items():
        # read alone a file is called by its base name
        left = {os.path.basename(place) + s[len(file) :]: s for s in wanted[file]}
        lines = sorted(int(s.rpartition(":")[2]) for s in wanted[file] if s != file)
        # a source without a position is a file that is one document
        form = "files" if file in wanted[file] else None
        options = ReadOptions(on_error="skip", text_field=text_field or "text", format=form)
        try:
            held = None
            for task in pieces([place], options):
                # a piece is parsed once it is known where the next one begins
                if held is not None:
                    _read(held, task.piece.line, lines, left, found, characters)
                held = task
                if not left:
                    break
            if held is not None and left:
                _read(held, None, lines, left, found, characters)
        except (TopicsError, OSError, ValueError):
            continue
    return found, "" if found else "no text was found in the raw files"


def _read(
    task: object, following: int | None, lines: list[int], left: dict[str, str], found: dict[str, str], n: int
) -> None:
    piece = task.piece  # type: ignore[attr-defined]
    if lines and piece.line > 1 and following is not None and following > piece.line:
        at = np.searchsorted(lines, [piece.line, following])
        if at[0] == at[1]:
            return
    run, _ = task.run()  # type: ignore[attr-defined]
    if not isinstance(run, TextRun):
        return
    hits = np.flatnonzero(
        pc.is_in(run.about.source, value_set=pa.array(sorted(left), run.about.source.type)).to_numpy(
            zero_copy_only=False
        )
    )
    for i in hits.tolist():
        source = run.about.source[i].as_py()
        if source not in left:
            continue
        raw = bytes(run.text[run.offsets[i] : min(run.offsets[i + 1], run.offsets[i] + 8 * n)])
        text = " ".join(raw.decode("utf-8", "ignore").split())
        found[left.pop(source)] = text if len(text) <= n else text[:n].rsplit(" ", 1)[0] + " …"
