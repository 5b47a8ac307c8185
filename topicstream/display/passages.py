"""Passages of documents, from the texts that the store keeps.

Without those they are read again from the raw files that the store names as their sources.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from topicstream.base.errors import TopicsError, UsageError
from topicstream.corpus.reader import Corpus
from topicstream.corpus.texts import find_rows, read_texts
from topicstream.display.gather import PARENT, describe_documents
from topicstream.display.metadata import choose_columns
from topicstream.ingestion.open.inputs_record import file_of, find_reading, raw_files
from topicstream.ingestion.options import CUT, FIELDS, LAYOUT, OF_FILES, ReadOptions
from topicstream.ingestion.parse.documents import content_kind, raw_value
from topicstream.ingestion.parts.tasks import Task, pieces
from topicstream.ingestion.tokens.accents import find_accent_folds
from topicstream.ingestion.tokens.normal import fold_with_places, folds
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.tokenizer import Tokenizer, prepared

LARGEST = 2 << 30
"""Bytes of raw files that are read for snippets without being asked to."""


MEMBER = r"(?<=\.tar|\.tgz)/.*|(?<=\.tar\.gz|\.tar\.xz)/.*|(?<=\.tar\.bz2|\.tar\.zst)/.*"
"""The part of a source that names a member of an archive."""

Snippet = tuple[str, int]
"""Source of a document, and the number of its part (from 1) if ``--split`` cut it, else 0."""


def locate_text(corpus: Corpus, row: Mapping[str, Any]) -> Snippet | None:
    """Locate the text of a document by its row of the documents' table, if that names it."""
    source = row.get("source")
    if not source:
        return None
    if row.get(PARENT) is None:
        return source, 0
    part = str(row.get("id") or "").rpartition("#")[2]
    return (source, int(part)) if part.isdecimal() and len(part) < 10 else None


def columns_of_place(corpus: Corpus) -> list[str]:
    """Return the columns of the documents' table that ``locate_text`` needs."""
    return ["source", *([PARENT] if corpus.manifest.has_parts else [])]


def snippets(
    corpus: Corpus,
    passages: Iterable[Snippet],
    *,
    characters: int = 280,
    text_field: str | None = None,
    any_file: bool = False,
) -> tuple[dict[Snippet, str], str]:
    """Read the first characters of some documents from the raw files.

    Parameters
    ----------
    corpus
        The store; its manifest says how its documents were read and cut.
    passages
        Documents to read, as ``locate_text`` returns them.
    characters
        Length of a snippet.
    text_field
        Field of the text, if it is not that of the ingest.
    any_file
        Read whatever file the store names: of any size, changed since, or never an input. By
        default, only unchanged inputs are read, because a stranger's store may name any file of
        this machine.

    Returns
    -------
    texts
        Texts by passage. Files that cannot be read are left out.
    reason
        Why there are none, or "".
    """
    if corpus.manifest.tokenizer is None:
        return {}, "the corpus was made from counts, not from texts"
    passages_of_file: dict[str, set[Snippet]] = {}
    for passage in passages:
        passages_of_file.setdefault(re.sub(MEMBER, "", file_of(passage[0])), set()).add(passage)
    find = raw_files(corpus.path, unchanged=not any_file)
    located = {file: find(file) for file in sorted(passages_of_file)}
    places = {file: place for file, place in located.items() if place is not None}
    if not places:
        return {}, _describe_missing(corpus, passages_of_file, any_file=any_file)
    size = sum(Path(place).stat().st_size for place in places.values())
    if not any_file and size > LARGEST:
        return {}, f"the raw files have {size / 1e9:.1f} GB; --text reads them"
    texts: dict[Snippet, str] = {}
    for file, place in places.items():
        texts |= _read_file(corpus, file, place, passages_of_file[file], text_field, characters)
    return texts, "" if texts else "no text was found in the raw files"


def _describe_missing(corpus: Corpus, files: Iterable[str], *, any_file: bool) -> str:
    """Say why none of the raw files that the store names can be read (``snippets``)."""
    files = list(files)
    if not any_file and any(map(raw_files(corpus.path), files)):
        return "the raw files are not as they were when the corpus was made; --text reads them"
    if all(file.startswith("documents#") for file in files):
        return (
            "the documents came from memory, and their texts were not kept (ingest with "
            "keep_text=True)"
        )
    return (
        "the raw files are not where they were when the corpus was made (ingest --keep-text "
        "keeps the texts in the store)"
    )


def beginnings(
    corpus: Corpus, numbers: np.ndarray, *, characters: int = 280
) -> dict[int, tuple[str, str]]:
    """Read the beginnings of some training documents.

    Returns
    -------
    dict
        (id, beginning) by number. The title stands in for a text that cannot be read.
    """
    columns = [*columns_of_place(corpus), *choose_columns(corpus, None)]
    rows = describe_documents(corpus, numbers, list(dict.fromkeys(columns)))
    texts, _ = _read_beginnings(corpus, rows, characters=characters)
    return {
        number: (row["id"], texts.get(number) or row.get("title") or "")
        for number, row in rows.items()
    }


def _read_beginnings(
    corpus: Corpus,
    rows: Mapping[int, Mapping[str, Any]],
    *,
    characters: int,
    heldout: bool = False,
    text_field: str | None = None,
    any_file: bool = False,
) -> tuple[dict[int, str], str]:
    """Read the beginnings of documents from the store's texts, or else from the raw files.

    Parameters
    ----------
    rows
        Rows of the documents' table by number, with ``columns_of_place``.
    heldout
        Whether they are documents set aside.
    characters, text_field, any_file
        As ``snippets`` has them. Another field than that of the ingest is only in the raw files.

    Returns
    -------
    tuple
        Texts by number, and the reason why there are none, or "".
    """
    if corpus.manifest.texts is not None and text_field is None:
        numbers = np.array(sorted(rows), np.int64)
        places_in_store = find_rows(corpus.path, corpus.manifest, numbers, heldout=heldout)
        stored = zip(
            numbers.tolist(), read_texts(corpus.path, corpus.manifest, places_in_store), strict=True
        )
        return {n: shorten_text(text, characters) for n, text in stored if text is not None}, ""
    located = {number: locate_text(corpus, row) for number, row in rows.items()}
    places = {number: place for number, place in located.items() if place is not None}
    read, missing = snippets(
        corpus, places.values(), characters=characters, text_field=text_field, any_file=any_file
    )
    return {number: read[place] for number, place in places.items() if place in read}, missing


def shorten_text(text: str, characters: int) -> str:
    """Return the beginning of a text in one line, cut between words."""
    line = " ".join(text[: 8 * characters].split())
    return line if len(line) <= characters else line[:characters].rsplit(" ", 1)[0] + " …"


def _read_file(
    corpus: Corpus,
    file: str,
    place: str,
    passages: set[Snippet],
    text_field: str | None,
    characters: int,
) -> dict[Snippet, str]:
    """Read snippets of one raw file, as far as it can be read."""
    # a file that is read alone is called by its base name
    waiting = {
        (os.path.basename(place) + source[len(file) :], part): (source, part)
        for source, part in passages
    }
    reading = find_reading(corpus.path, place)
    if reading is None:
        reading = corpus.manifest.reading
    options = ReadOptions(on_error="skip").recall(reading, FIELDS, LAYOUT, CUT, OF_FILES)
    # a source without a position is a file that is one document
    form = "files" if any(source == file for source, _ in passages) else options.format
    options = replace(options, format=form, text_field=text_field or options.text_field, meta={})
    texts: dict[Snippet, str] = {}
    try:
        for task in pieces([place], options):
            _read_piece(task, waiting, texts, characters)
            if not waiting:
                break
    except (TopicsError, OSError, ValueError):
        pass
    # a file that was appended may have other fields than the first
    if not texts and text_field is None:
        return _read_file(corpus, file, place, passages, "text", characters)
    return texts


def _read_piece(
    task: Task, waiting: dict[Snippet, Snippet], texts: dict[Snippet, str], characters: int
) -> None:
    """Move the documents of a piece from ``waiting`` to ``texts``."""
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
        text = (raw_value(content, i) or b"")[: 32 * characters].decode("utf-8", "ignore")
        texts[passage] = shorten_text(text, characters)


MARKED = 30
"""Words of a topic that are marked."""
SAME = 0.7
"""Jaccard index of two texts' words from which one is a near-duplicate of the other."""
CHARACTERS = 20_000
"""Characters of a document, at most, among which its passage is chosen."""
ALL_CHARACTERS = 40_000_000
"""Characters of all documents together that are read, at most."""
AT_ONCE = 1000
"""Texts that are freed of their markup at a time."""
WORD = re.compile(r"[^\W_]+")
SENTENCE_END = re.compile("[.!?] |[。！？] ?")
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True)
class Passage:
    """Part of a text with some words marked.

    Attributes
    ----------
    text
        The part, with an ellipsis where the text goes on.
    marks
        (start, end) of the marked words, in characters of ``text``.
    """

    text: str
    marks: list[tuple[int, int]]


class Texts:
    """Texts of some documents, among which passages are chosen.

    Parameters
    ----------
    recipe
        The recipe of the tokenizer that made words of them.
    texts
        Texts by the number of the document.
    """

    def __init__(self, recipe: Recipe, texts: Mapping[int, str]) -> None:
        self._recipe = recipe
        self._texts = dict(texts)

    @cached_property
    def _replaced(self) -> Mapping[int, str]:
        """Letters in place of those that words of the store lack: ligatures, accented ones."""
        ligatures = folds() if self._recipe.normalize == "nfkc" else {}
        accents = self._recipe.fold_accents
        return ligatures if accents is None else {**ligatures, **find_accent_folds(accents)}

    @cached_property
    def _forms(self) -> dict[str, list[str]]:
        """Spellings in the texts of the words of a vocabulary that changes words."""
        if not (self._recipe.stem or self._recipe.lemmas or self._recipe.replace):
            return {}
        plain = structs.replace(
            self._recipe, phrases=(), ngrams=1, drop=(), segmenter=None, stopwords=()
        )
        try:
            tokenizer = Tokenizer(plain)
        # only a store that was made in Python can name a lemmatizer that no command offers
        except UsageError:
            tokenizer = Tokenizer(structs.replace(plain, lemmas=None))
        distinct_words: set[str] = set()
        for text in self._texts.values():
            distinct_words.update(WORD.findall(text))
        written = sorted(distinct_words)
        counted = tokenizer.count(pa.array(written, pa.large_string()))
        forms: dict[str, list[str]] = {}
        for word, number in zip(
            np.repeat(written, np.diff(counted.indptr)).tolist(),
            counted.words.tolist(),
            strict=True,
        ):
            forms.setdefault(counted.types[number].as_py(), []).append(word)
        return forms

    def _pattern(self, words: Iterable[str]) -> re.Pattern[str]:
        """Compile a pattern that matches any of the words as the texts spell them.

        ``a_b`` matches the two words one after the other.
        """
        parts = [
            [part for part in word.split("_") if part]
            for word in sorted(words, key=len, reverse=True)
        ]
        forms = [
            r"[\W_]+".join(
                "(?:" + "|".join(map(re.escape, [part, *self._forms.get(part, ())])) + ")"
                for part in word
            )
            for word in parts
            if word
        ]
        whole_words = [
            form if UNSPACED.search(form) else rf"(?<![^\W_]){form}(?![^\W_])" for form in forms
        ]
        return re.compile("|".join(whole_words) or r"(?!)", re.IGNORECASE)

    def passage(self, number: int, words: Iterable[str], characters: int = 400) -> Passage | None:
        """Cut out the part of a document with most of the words, if its text was read."""
        text = self._texts.get(number)
        if text is None:
            return None
        hits = find_matches(self._pattern(words), text, self._replaced)
        return best_passage(text, hits, characters)

    def words(self, number: int) -> set[str]:
        """Return the distinct words of a document's text, lower-cased."""
        return set(WORD.findall(self._texts.get(number, "").lower()))


class DocumentTexts(Texts):
    """Texts of some documents, read from the store, or else from the raw files.

    Parameters
    ----------
    corpus
        The store of the documents.
    numbers
        Their global numbers in the part.
    heldout
        The part: the documents set aside, or the training documents.
    text_field
        Field of the text, if it is not that of the ingest.
    any_file
        Read files of any size that may have changed since the ingest (``snippets``).

    Attributes
    ----------
    missing
        Why there are no texts, or "".
    """

    def __init__(
        self,
        corpus: Corpus,
        numbers: Any,
        *,
        heldout: bool = False,
        text_field: str | None = None,
        any_file: bool = True,
    ) -> None:
        rows = describe_documents(
            corpus, np.unique(np.asarray(numbers, np.int64)), columns_of_place(corpus), heldout
        )
        characters = min(CHARACTERS, max(1000, ALL_CHARACTERS // max(1, len(rows))))
        texts, self.missing = _read_beginnings(
            corpus,
            rows,
            characters=characters,
            heldout=heldout,
            text_field=text_field,
            any_file=any_file,
        )
        recipe = (
            Recipe.from_json(corpus.manifest.tokenizer) if corpus.manifest.tokenizer else Recipe()
        )
        markup = structs.replace(
            recipe,
            drop=tuple(kind for kind in recipe.drop if kind == "tags"),
            normalize="nfc",  # ligatures and accents are shown as they are written
            lowercase=False,
            fold_accents=None,
        )
        read = list(texts)
        for first in range(0, len(read), AT_ONCE):  # a second copy of them all would not fit
            some = read[first : first + AT_ONCE]
            plain = prepared(
                pa.array([texts[number] for number in some], pa.large_string()), markup, None
            )
            texts |= {
                number: " ".join(text.split())
                for number, text in zip(some, plain.to_pylist(), strict=True)
            }
        super().__init__(recipe, texts)


def skip_duplicates(texts: Sequence[set[str]]) -> list[int]:
    """Return the positions of texts that are no near-duplicates of an earlier one.

    Parameters
    ----------
    texts
        The words of each text.
    """
    chosen: list[int] = []
    for i, words in enumerate(texts):
        if not words or all(len(words & texts[j]) < SAME * len(words | texts[j]) for j in chosen):
            chosen.append(i)
    return chosen


def find_matches(
    pattern: re.Pattern[str], text: str, replaced: Mapping[int, str]
) -> list[tuple[int, int]]:
    """Find the places in a text that a pattern matches.

    Parameters
    ----------
    pattern, text
        The pattern and the text.
    replaced
        Characters that the text may have, but not the pattern, and the letters in their place.
    """
    if not replaced or text.translate(replaced) == text:
        return [match.span() for match in pattern.finditer(text)]
    letters, places = fold_with_places(text, replaced)
    return [
        (places[match.start()][0], places[match.end() - 1][1])
        for match in pattern.finditer(letters)
    ]


def best_passage(text: str, hits: Sequence[tuple[int, int]], characters: int) -> Passage:
    """Cut out the part of a text with the most distinct marked words, the first of equals.

    Parameters
    ----------
    text
        The text.
    hits
        (start, end) of the words in it.
    characters
        Length of the part.
    """
    margin = characters // 6
    best = 0
    most = 0
    for begin in [0, *(max(0, start - margin) for start, _ in hits)]:
        inside = {text[a:b].lower() for a, b in hits if begin <= a and b <= begin + characters}
        if len(inside) > most:
            best = begin
            most = len(inside)
    if best:  # from the beginning of a sentence, or of a word, where one is near
        first = min(a for a, _ in hits if a >= best)
        behind = max(0, best - margin)
        ends = [match.end() for match in SENTENCE_END.finditer(text, behind, first)]
        space = text.rfind(" ", behind, best + 1)
        if ends:
            best = ends[-1]
        elif space >= 0:
            best = space + 1
    end = best + characters
    end = len(text) if end >= len(text) else max(text.rfind(" ", best, end), end - margin)
    head = "… " * (best > 0)
    tail = " …" * (end < len(text))
    shift = len(head) - best
    return Passage(
        head + text[best:end] + tail,
        [(a + shift, b + shift) for a, b in hits if best <= a and b <= end],
    )


def count_candidates(n: int) -> int:
    """Return the number of documents to rank so that n of them differ."""
    return 10 * n + 20
