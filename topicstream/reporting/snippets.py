"""The beginnings of some documents' texts, read again from the raw files that the store names as
their sources.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.corpus.reader import Corpus
from topicstream.errors import TopicsError
from topicstream.ingestion.opening.inputs_record import file_of, raw_files
from topicstream.ingestion.parsing.documents import content_kind, raw_value
from topicstream.ingestion.read_options import CUT, FIELDS, LAYOUT, OF_FILES, ReadOptions
from topicstream.ingestion.spooling.tasks import Task, pieces
from topicstream.reporting.gather import describe_documents
from topicstream.reporting.metadata import kept_columns

LARGEST = 2 << 30
"""Bytes of raw files that are read for snippets without being asked to."""


# of an archive
MEMBER = r"(?<=\.tar|\.tgz)/.*|(?<=\.tar\.gz|\.tar\.xz)/.*|(?<=\.tar\.bz2|\.tar\.zst)/.*"

Passage = tuple[str, int]
"""Source of a document and, of a corpus cut by ``--split``, the number of its part (from 1); 0: the
whole.
"""


def passage_of(corpus: Corpus, row: Mapping[str, Any]) -> Passage | None:
    """Where the text of a document stands, by its row of the documents' table; None where the table
    does not say.
    """
    source = row.get("source")
    if not source:
        return None
    if not (corpus.manifest.reading or {}).get("split"):
        return source, 0
    part = str(row.get("id") or "").rpartition("#")[2]
    return (source, int(part)) if part.isdecimal() and len(part) < 10 else None


def snippets(
    corpus: Corpus,
    passages: Iterable[Passage],
    *,
    characters: int = 280,
    text_field: str | None = None,
    asked: bool = False,
) -> tuple[dict[Passage, str], str]:
    """First characters of some passages, read again from the raw files.

    Parameters
    ----------
    corpus
        The store; its manifest says how its documents were read and cut.
    passages
        What to read, as ``passage_of`` gives it.
    characters
        Length of a snippet.
    text_field
        Field of the text, where it is not that of the ingest.
    asked
        Read whatever file the store names: of any size, changed since, or never an input.  (A
        stranger's store may name any
        file of this machine; so by default only inputs that are as they were at the ingest are
        read.)

    Returns
    -------
    tuple
        The texts by passage, and why there are none (or "").  Files that cannot be read are left
        out.
    """
    if corpus.manifest.tokenizer is None:
        return {}, "the corpus was made from counts, not from texts"
    passages_of_file: dict[str, set[Passage]] = {}
    for passage in passages:
        passages_of_file.setdefault(re.sub(MEMBER, "", file_of(passage[0])), set()).add(passage)
    find = raw_files(corpus.path, known=not asked)
    places = {f: place for f in sorted(passages_of_file) if (place := find(f)) is not None}
    if not places:
        if not asked and any(map(raw_files(corpus.path), passages_of_file)):
            return (
                {},
                "the raw files are not as they were when the corpus was made; --text reads them",
            )
        if all(file.startswith("documents#") for file in passages_of_file):
            return {}, "the documents came from memory, not from files; look them up by their ids"
        return {}, "the raw files are not where they were when the corpus was made"
    size = sum(Path(place).stat().st_size for place in places.values())
    if not asked and size > LARGEST:
        return {}, f"the raw files have {size / 1e9:.1f} GB; --text reads them"
    texts: dict[Passage, str] = {}
    for file, place in places.items():
        texts |= _of_file(corpus, file, place, passages_of_file[file], text_field, characters)
    return texts, "" if texts else "no text was found in the raw files"


def beginnings(
    corpus: Corpus, numbers: np.ndarray, *, characters: int = 280
) -> dict[int, tuple[str, str]]:
    """(id, beginning) of some training documents by number; a title in the place of a text that
    cannot be read.
    """
    rows = describe_documents(corpus, numbers, ["source", *kept_columns(corpus, None)])
    places = {number: passage_of(corpus, row) for number, row in rows.items()}
    texts, _ = snippets(corpus, filter(None, places.values()), characters=characters)
    return {
        number: (row["id"], texts.get(places[number] or ("", 0)) or row.get("title") or "")
        for number, row in rows.items()
    }


def _of_file(
    corpus: Corpus,
    file: str,
    place: str,
    passages: set[Passage],
    text_field: str | None,
    characters: int,
) -> dict[Passage, str]:
    """Snippets of one raw file, as far as it can be read."""
    # read alone a file is called by its base name
    waiting = {
        (os.path.basename(place) + source[len(file) :], part): (source, part)
        for source, part in passages
    }
    reading = corpus.manifest.reading
    options = ReadOptions(on_error="skip").recall(reading, FIELDS, LAYOUT, CUT, OF_FILES)
    # a source without a position is a file that is one document
    form = "files" if any(source == file for source, _ in passages) else options.format
    options = replace(options, format=form, text_field=text_field or options.text_field, meta={})
    texts: dict[Passage, str] = {}
    try:
        for task in pieces([place], options):
            _read(task, waiting, texts, characters)
            if not waiting:
                break
    except (TopicsError, OSError, ValueError):
        pass
    if (
        not texts and text_field is None
    ):  # appended from a file whose fields are not those of the first
        return _of_file(corpus, file, place, passages, "text", characters)
    return texts


def _read(
    task: Task, waiting: dict[Passage, Passage], texts: dict[Passage, str], characters: int
) -> None:
    batch, _ = task.run()
    if content_kind(batch) != "text":
        return
    ids, sources, content = batch.columns[:3]
    waiting_sources = pa.array(sorted({source for source, _ in waiting}), sources.type)
    hits = np.flatnonzero(
        pc.is_in(sources, value_set=waiting_sources).to_numpy(zero_copy_only=False)
    )
    cut = task.options.split is not None
    for i in hits.tolist():
        part = int(ids[i].as_py().rpartition("#")[2]) if cut else 0
        passage = waiting.pop((sources[i].as_py(), part), None)
        if passage is None:
            continue
        text = " ".join(
            (raw_value(content, i) or b"")[: 8 * characters].decode("utf-8", "ignore").split()
        )
        texts[passage] = (
            text if len(text) <= characters else text[:characters].rsplit(" ", 1)[0] + " …"
        )
