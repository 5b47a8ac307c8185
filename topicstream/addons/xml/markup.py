"""TEI XML and HTML, one document a file; of a ``teiCorpus`` one a ``TEI`` element, as it streams.

A document is the text with a blank line between blocks; of TEI speech and prose, without what
frames them (``elements``). Of two versions in a TEI edition the reading text is taken (``reg``,
``corr``, ``expan``, ``lem``, not ``orig``, ``sic``, ``abbr``, ``rdg``). Entities are never
resolved, and no DTD is loaded.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from topicstream.addons.xml.elements import Elements, local_name
from topicstream.base.dates import parse
from topicstream.ingestion.open.source import Source, plain_suffix
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.columns import LISTS, as_list
from topicstream.ingestion.parse.documents import LIST, TEXT, batch_of, positions, why_not_utf8
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import WORDS_LEFT_OUT, BadFile
from topicstream.ingestion.parse.spans import PART_MARK, SPANS, Span

BLOCKS = {
    "p",
    "head",
    "l",
    "lg",
    "sp",
    "speaker",
    "stage",
    "div",
    "ab",
    "item",
    "cell",
    "row",
    "opener",
    "closer",
    "salute",
    "signed",
    "dateline",
    "epigraph",
    "front",
    "body",
    "back",
    "title",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "li",
    "tr",
    "td",
    "th",
    "br",
    "section",
    "article",
    "blockquote",
    "pre",
    "dt",
    "dd",
    "figcaption",
}
LINES = {"l", "br", "lb"}
PARAGRAPHS = {"p", "l", "ab", "seg", "s", "item", "cell", "q", "quote", "said", "hi", "emph"}
BREAKS = {"lb", "pb", "cb", "gb", "milestone"}
SPEECHES = {"sp", "u"}
LINE = "\x1e"
BLOCK = "\x1f"
HEADING = "\x1d"
JOINED = "\x1c"
"""Marks in raw text: of lines, blocks, headings, and breaks within a word."""
_BROKEN_WORD = re.compile(f"[-‐¬⸗\xad]?\\s*(?:{JOINED}\\s*)+")
PERSONS = {"person", "persongrp", "role", "castitem", "castgroup", "name", "persname"}
SPEAKER = "speaker"
SPEECH = "speech"
"""Elements at which ``--split`` cuts plays and transcripts; the speaker is a field of each part."""
_XML_ID = "{http://www.w3.org/XML/1998/namespace}id"
HEADER = "teiheader"
AT_ONCE = 1 << 16
"""Bytes of a ``teiCorpus`` that are parsed at a time."""
_CORPUS = re.compile(
    rb"(?s)(?:\xef\xbb\xbf)?\s*(?:<\?.*?\?>\s*|<!--.*?-->\s*|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>\s*)*"
    rb"<(?:\w+:)?teiCorpus(?:\.2)?[\s>]"
)
HEADINGS = {"head", "h1", "h2", "h3", "h4", "h5", "h6"}
FIELDS = {
    "title": ("{*}teiHeader//{*}titleStmt/{*}title", "head/title"),
    "author": ("{*}teiHeader//{*}titleStmt/{*}author", "head/meta[@name='author']"),
    "date": (  # the work's own, else the earliest of its editions
        "{*}teiHeader//{*}creation//{*}date",
        "{*}teiHeader//{*}sourceDesc//{*}date",
        *(
            f"{{*}}standOff//{{*}}event[@type='{kind}']"
            for kind in ("written", "print", "premiere")
        ),  # DraCor
        *(
            f"head/meta[@{name}]"
            for name in ("property='article:published_time'", "name='date'", "name='DC.date'")
        ),
    ),
    "published": ("{*}teiHeader//{*}publicationStmt/{*}date",),  # the digital edition
}
"""Fields that ``--meta`` may name, and where they stand, the best place first."""
DATED = ("when", "notBefore", "from", "content", "notAfter", "to")


class Markup(Reader):
    """Reader of TEI XML and HTML: the text of a page without its markup."""

    name = "markup"
    about = "TEI XML or HTML, one document a file (or TEI element of a teiCorpus)"
    suffixes = (".html", ".htm", ".xhtml", ".tei")
    signature = re.compile(
        rb"(?is)(?:\xef\xbb\xbf)?\s*"
        rb"(?:<\?.*?\?>\s*|<!--.*?-->\s*|<!doctype[^>\[]*(?:\[.*?\]\s*)?>\s*)*"
        rb"<(?:\w+:)?(?:TEI(?:\.2)?|teiCorpus(?:\.2)?|html)[\s>]"
    )

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        from lxml import etree  # no other format needs it

        stream = source.as_bytes()
        if _CORPUS.match(stream.head()):
            yield from _corpus_batches(source, options)
            return
        data = stream.read(options.record_bytes + 1)
        if len(data) > options.record_bytes:
            source.reject(
                0,
                f"a document of more than {options.record_bytes >> 20} MiB; raise --max-document",
            )
            return
        if plain_suffix(source.name) in (".html", ".htm") or re.search(
            rb"(?i)<html[\s>]", data[:4096]
        ):
            # a page need not say that it is UTF-8, and lxml would take it for Latin-1
            encoding = options.encoding or (None if why_not_utf8(data) else "utf-8")
            parser = etree.HTMLParser(
                encoding=encoding, no_network=True, remove_comments=True, remove_pis=True
            )
        else:
            parser = etree.XMLParser(
                encoding=options.encoding, resolve_entities=False, load_dtd=False, no_network=True
            )
        try:
            root = etree.fromstring(data, parser)
            # a page of white space and comments
            root = etree.Element("html") if root is None else root
        except (etree.XMLSyntaxError, ValueError) as e:
            raise _describe_malformed(source, e) from None
        place = positions(source.key, np.array([1]))
        yield _read_document(source, options, root, [source.key], place)


def _describe_malformed(source: Source, error: Exception) -> BadFile:
    """Say where a file is not well-formed, by the last entry of the parser's log."""
    entry = next(reversed(list(getattr(error, "error_log", []))), None)
    line = getattr(error, "lineno", None) or 1
    problem = getattr(error, "msg", error)
    if entry is not None:
        line = entry.line
        problem = f"{entry.message}, line {entry.line}, column {entry.column}"
    return BadFile(source.name, line, f"not well-formed XML ({problem}); mend the file")


class _LimitedDocuments:
    """Bytes of a ``teiCorpus``, of which no document may be longer than ``--max-document``."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        self._source = source
        self._most = options.record_bytes
        self._read = 0
        self.documents = 0

    def end_document(self) -> None:
        """Begin to count the bytes of the next document."""
        self.documents += 1
        self._read = 0

    def read(self, n: int = AT_ONCE) -> bytes:
        """Return some bytes, at most ``n``."""
        data = self._source.read(min(n, AT_ONCE))
        self._read += len(data)
        if self._read > self._most + AT_ONCE:
            limit = f"document {self.documents + 1} has more than {self._most >> 20} MiB"
            raise BadFile(self._source.name, 0, f"{limit}; raise --max-document")
        return data


def _corpus_batches(source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the documents of a ``teiCorpus``, one at a time."""
    from lxml import etree

    stream = _LimitedDocuments(source, options)
    parser = etree.XMLPullParser(
        events=("end",),
        tag=("{*}TEI", "{*}TEI.2"),
        collect_ids=False,  # each document may name its persons as the one before
        encoding=options.encoding,
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
    )
    try:
        while data := stream.read():
            parser.feed(data)
            for _, document in parser.read_events():
                stream.end_document()
                place = positions(source.key, np.array([stream.documents]))
                yield _read_document(source, options, document, place, place)
                _drop_document(document)
        parser.close()
    except (etree.XMLSyntaxError, ValueError) as e:
        raise _describe_malformed(source, e) from None


def _drop_document(document: Any) -> None:
    """Free a document that was read, and its place among its siblings."""
    document.clear()
    while document.getprevious() is not None and local_name(document.getprevious()) != HEADER:
        document.getparent().remove(document.getprevious())


def _read_document(
    source: Source, options: ReadOptions, root: Any, ids: Any, sources: Any
) -> pa.RecordBatch:
    """Make a document of an element, as a batch of one row."""
    from lxml import etree

    for entity in list(root.iter(etree.Entity)):
        _replace_entity(entity)
    elements = (
        Elements(frozenset(), divisions=frozenset())
        if local_name(root) == "html"
        else Elements.of_option(options.tei_elements)
    )
    speeches = extract_speeches(root, elements, headed=options.split == "section")
    text, spans = join_speeches(speeches, options.split)
    for name, words in elements.words_left_out.items():
        source.note(f"{WORDS_LEFT_OUT}{name}", words)
    fields = read_fields(root)
    options = options.spelled_as([*fields, SPEAKER])
    if options.split in (SPEECH, SPEAKER) and spans and SPEAKER not in options.meta:
        options = replace(options, meta={**options.meta, SPEAKER: SPEAKER})
    present = {*fields, *([SPEAKER] if spans else [])}
    source.leave_out(present - set(options.meta.values()))
    meta = {}
    for column, name in options.meta.items():
        value = fields.get(name)
        values = as_list(value, name, options.list_separator) if column in LISTS else value
        meta[column] = (
            pa.array([spans], SPANS)
            if name == SPEAKER
            else pa.array([values], LIST if column in LISTS else TEXT)
        )
    return batch_of(ids, sources, {"text": pa.array([text], TEXT)}, meta)


def _replace_entity(entity: Any) -> None:
    """Replace a reference to a standard entity, such as an em dash, by its character.

    Any other stays as it is.
    """
    text = html.unescape(entity.text) + (entity.tail or "")
    before = entity.getprevious()
    parent = entity.getparent()
    if before is None:
        parent.text = (parent.text or "") + text
    else:
        before.tail = (before.tail or "") + text
    entity.tail = None
    parent.remove(entity)


class Speech(NamedTuple):
    """Text of some speakers together, or of none."""

    speakers: tuple[str, ...]
    text: str


def read_speakers(root: Any) -> dict[str, str]:
    """Read the names of the persons that a document declares, by their ids."""
    names: dict[str, str] = {}
    for element in root.xpath("//*[@xml:id]"):
        if local_name(element) in PERSONS:
            label = next(iter(element.xpath("*[contains(local-name(), 'ame')]")), element)
            name = " ".join(label.xpath("string()").split())
            if name:
                names.setdefault(element.get(_XML_ID), name)
    return names


def _name_speakers(speech: Any, names: dict[str, str]) -> tuple[str, ...]:
    """Name who speaks.

    A person that no header declares is called as in the first label of a speech.
    """
    labels = speech.xpath(
        "*[local-name()='speaker'][1]//text()[not(ancestor::*[local-name()='stage'])]"
    )
    label = " ".join("".join(labels).split()).rstrip(".,:; ")
    ids = [reference.rpartition("#")[2] for reference in speech.get("who", "").split()]
    ids = [name for name in ids if name]
    if len(ids) == 1 and label:
        names.setdefault(ids[0], label)
    speakers = [names.get(name, name) for name in ids] or ([label] if label else [])
    return tuple(dict.fromkeys(speakers))


def extract_speeches(root: Any, elements: Elements, *, headed: bool) -> list[Speech]:
    """Extract the text of a document, by speakers.

    A blank line separates blocks, a line break verses. ``headed`` puts ``#`` before the first text
    below a heading.
    """
    extractor = _Extractor(elements, read_speakers(root), headed)
    extractor.visit(root, chosen=not elements.only)
    return _clean_speeches(extractor.raw)


class _Extractor:
    """Collects the raw text of a document with its marks: speakers, and pieces of their text."""

    def __init__(self, elements: Elements, names: dict[str, str], headed: bool) -> None:
        self.raw: list[tuple[tuple[str, ...], list[str]]] = [((), [])]
        self._elements = elements
        self._names = names
        self._headed = headed

    def visit(self, element: Any, *, chosen: bool) -> None:
        """Collect the text of an element and of all that it holds."""
        name = local_name(element)
        mark = _choose_mark(element, name)
        is_text = self._elements.holds_text(element)
        parent = element.getparent()
        outer = "" if parent is None else local_name(parent)
        if mark == BLOCK and not is_text and outer in PARAGRAPHS:
            mark = " "  # a direction within a speech parts words, not paragraphs
        self._add(mark)
        if self._headed and name in HEADINGS and outer != "html":
            self._add(HEADING)
        if is_text:
            self._visit_content(element, name, chosen or name in self._elements.only)
        self._add(mark)

    def _visit_content(self, element: Any, name: str, chosen: bool) -> None:
        """Collect text and children of an element, of a speech under its speakers."""
        outer = self.raw[-1][0]
        if name in SPEECHES:
            self.raw.append((_name_speakers(element, self._names), []))
        self._add_text(element.text, chosen)
        for child in element:
            if isinstance(child.tag, str):  # no comment
                self.visit(child, chosen=chosen)
            self._add_text(child.tail, chosen)
        if name in SPEECHES:
            self.raw.append((outer, []))

    def _add_text(self, text: str | None, chosen: bool) -> None:
        """Collect text of a chosen element, or count its words."""
        if chosen:
            self._add(text or "")
        else:
            self._elements.count_unchosen(text)

    def _add(self, text: str) -> None:
        """Add raw text or a mark."""
        self.raw[-1][1].append(text)


def _choose_mark(element: Any, name: str) -> str:
    """Return the mark that stands before and behind an element's text."""
    if name in BREAKS and element.get("break") == "no":
        return JOINED
    if name in LINES:
        return LINE
    return BLOCK if name in BLOCKS else ""


def _clean_speeches(raw: Iterable[tuple[tuple[str, ...], list[str]]]) -> list[Speech]:
    """Make text of pieces with marks, leaving out those without words."""
    speeches: list[Speech] = []
    below_heading = False
    for speakers, pieces in raw:
        blocks: list[str] = []
        for block in _BROKEN_WORD.sub("", "".join(pieces)).split(BLOCK):
            below_heading = below_heading or HEADING in block
            lines = [" ".join(line.split()) for line in block.replace(HEADING, "").split(LINE)]
            text = "\n".join(filter(None, lines))
            if text:
                blocks.append("# " * below_heading + text)
                below_heading = False
        if blocks:
            speeches.append(Speech(speakers, "\n\n".join(blocks)))
    return speeches


def join_speeches(speeches: Sequence[Speech], split: str | None) -> tuple[str, list[Span]]:
    """Join speeches to the text of a document, and say which parts of it are whose.

    Parameters
    ----------
    speeches
        In the order of the document.
    split
        ``speech`` and ``speaker`` put a mark between speeches, or between all that one speaker says
        and what the next one says.
    """
    if split == SPEAKER:
        texts: dict[tuple[str, ...], list[str]] = {}
        for speech in speeches:
            texts.setdefault(speech.speakers, []).append(speech.text)
        speeches = [Speech(speakers, "\n\n".join(parts)) for speakers, parts in texts.items()]
    between = "\n\n" + PART_MARK * (split in (SPEECH, SPEAKER))
    spans: list[Span] = []
    end = 0
    for speech in speeches:
        start = end
        end = start + len(speech.text.encode())
        spans += [{"start": start, "end": end, "value": name} for name in speech.speakers]
        end += len(between)
    return between.join(speech.text for speech in speeches), spans


def read_fields(root: Any) -> dict[str, str]:
    """Read the document's fields from the header."""
    fields: dict[str, str] = {}
    for name, paths in FIELDS.items():
        values: list[str] = []
        for path in paths:
            values += map(_read_field, root.iterfind(path))
        values = list(filter(None, values))
        if name == "date":
            values.sort(key=lambda value: parse(value) or (9999,))
        if values:
            fields[name] = ";".join(values) if name == "author" else values[0]
    return fields


def _read_field(element: Any) -> str:
    """Read the value of a header element.

    Its date as it is encoded, or its text; for a person the full name, without identifiers.
    """
    names = [*element.iterfind("{*}persName"), *element.iterfind("{*}name")]
    full_name = next(
        (name for name in names if name.get("type") == "full"), names[0] if names else element
    )
    words = "".join(full_name.xpath(".//text()[not(ancestor::*[local-name()='idno'])]")).split()
    return next(filter(None, map(element.get, DATED)), " ".join(words))


READER = Markup()
