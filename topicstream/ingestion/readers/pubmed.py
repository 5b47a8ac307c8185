"""PubMed and MEDLINE XML as NLM ships it: one document a citation, title and abstract.

The file is cut behind record end tags, so a baseline file of any size streams; each piece is parsed by expat on its
own.  No document type is ever expanded: a DOCTYPE may name NLM's DTD, but an internal subset (the place of entity
bombs) is refused.  Withdrawn citations (DeleteCitation) come out in ``Provenance.deleted``.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.columns import column, text_of
from topicstream.ingestion.parsing.cut import cut
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import BadFile, Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.tokens.documents import Provenance, TextRun

_ROOT = re.compile(rb"<(PubmedArticleSet|MedlineCitationSet|PubmedArticle|MedlineCitation)(\s[^>]*|/)?>")
_SETS = (b"PubmedArticleSet", b"MedlineCitationSet")
_ENCODING = re.compile(rb"^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)[\"']")
_YEAR = re.compile(r"\d{4}")
NO_ABSTRACT = "records without abstract"


@dataclass
class Citation:
    """What is kept of one record."""

    pmid: str
    text: str
    abstract: bool
    journal: str | None
    year: str | None
    authors: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)


class NoRecord(ValueError):
    """A record that cannot be used, with the reason."""


class PubMed:
    name = "pubmed"
    kind = "text"
    about = "PubMed / MEDLINE XML"

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        found = _ENCODING.match(source.head())
        if found:
            try:
                source.declare(found[1].decode())
            except LookupError:
                raise BadFile(source.name, 1, f"declares the unknown encoding {found[1].decode()}") from None
        head = source.head()
        root = _ROOT.search(head)
        prolog = head[: root.start()] if root else head
        if b"<!ENTITY" in prolog or re.search(rb"<!DOCTYPE[^>]*\[", prolog):
            raise BadFile(source.name, 1, "declares entities of its own; such XML is refused")
        if root is None:
            raise BadFile(source.name, 1, "no PubmedArticleSet or MedlineCitationSet in it")
        line = 1 + prolog.count(b"\n")
        if (root[2] or b"").rstrip().endswith(b"/"):
            return iter(())
        if root[1] in _SETS:
            source.read(root.end())
            line += root[0].count(b"\n")
        else:
            source.read(root.start())
        return self._records(source, options, root[1], line)

    def _records(self, source: Source, options: ReadOptions, root: bytes, line: int) -> Iterator[Piece]:
        record = b"MedlineCitation" if root.startswith(b"Medline") else b"PubmedArticle"
        ends = [b"</%s>" % tag for tag in (record, b"PubmedBookArticle", b"DeleteCitation")]
        tail = b""

        def place(data: bytearray, final: bool) -> int:
            nonlocal tail
            end = max(data.rfind(e) + len(e) if e in data else 0 for e in ends)
            tail = bytes(data[end:]) if final else b""
            return end

        def count(data: bytearray) -> int:
            return sum(data.count(e) for e in ends)

        options = replace(options, piece_bytes=max(options.piece_bytes // 2, 1))
        closing = b"</%s>" % root if root in _SETS else b""
        for piece in cut(
            source, options, place, about=(record, *ends), line=line, count=count, one_line=False, by_lines=False
        ):
            yield piece
            line = piece.line + piece.data.count(b"\n")
        if source.damage is None and tail.strip() != closing:
            start = " ".join(tail[:1000].decode("utf-8", "replace").split())[:60]
            raise BadFile(source.name, line, f"ends in the middle of the XML ('{start}'); get the file again")

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[TextRun, Rejects]:
        rejects = Rejects()
        found: list[tuple[int, Citation]] = []
        deleted: list[str] = []
        line = piece.line
        # One small tree a record, freed at once: a tree of the whole piece is three times slower, all of it in the
        # garbage collector's walks.
        for number, data in enumerate(_records(piece), piece.record):
            try:
                element = _element(data)
                if element.tag == "DeleteCitation":
                    deleted += [_content(e) for e in element.iter("PMID")]
                else:
                    found.append((number, citation(element)))
            except ET.ParseError as e:
                rejects.add(piece.name, line + e.position[0] - 1, f"not well-formed XML ({e})", data.lstrip()[:200])
            except NoRecord as e:
                start = data.lstrip()
                rejects.add(piece.name, line + data[: len(data) - len(start)].count(b"\n"), str(e), start[:200])
            line += data.count(b"\n")
        bare = sum(not c.abstract for _, c in found)
        if bare:
            rejects.notes[NO_ABSTRACT] += bare
        text, offsets = text_of([c.text for _, c in found])
        about = Provenance(
            ids=pa.array([c.pmid for _, c in found], pa.large_string()),
            source=pa.array([f"{piece.key}#{number + 1}" for number, _ in found], pa.large_string()),
            meta={
                "authors": column("authors", [c.authors for _, c in found]),
                "labels": column("labels", [c.labels for _, c in found]),
                "date": column("date", [c.year for _, c in found]),
                "journal": column("journal", [c.journal for _, c in found]),
            },
            deleted=pa.array(deleted, pa.large_string()) if deleted else None,
        )
        return TextRun(about, text, offsets), rejects


def _records(piece: Piece) -> Iterator[bytes]:
    """The bytes of each record of a piece, with what stands before it."""
    at = 0
    for end in re.finditer(b"|".join(re.escape(e) for e in piece.about[1:]), piece.data):
        yield piece.data[at : end.end()]
        at = end.end()


def _element(data: bytes) -> ET.Element:
    """One record's tree.  Raises ET.ParseError and NoRecord."""
    parser = ET.XMLParser()
    parser.feed(b"<r>")  # within an element there is no place for a DTD, so none for entities
    parser.feed(data)
    parser.feed(b"</r>")
    root = parser.close()
    if len(root) != 1:
        raise NoRecord("not one record before an end tag")
    return root[0]


def _content(element: ET.Element | None) -> str:
    """All text within an element, inline markup (<i>, <sup>) left out."""
    if element is None:
        return ""
    text = "".join(element.itertext()) if len(element) else element.text or ""
    return text.strip()


def _below(element: ET.Element | None, *tags: str) -> ET.Element | None:
    for tag in tags:
        if element is None:
            return None
        element = element.find(tag)
    return element


def _children(element: ET.Element | None) -> list[ET.Element]:
    return [] if element is None else list(element)


def citation(element: ET.Element) -> Citation:
    """A PubmedArticle, MedlineCitation or PubmedBookArticle.  Raises NoRecord."""
    if element.tag == "PubmedBookArticle":
        return _book(element)
    cited = element.find("MedlineCitation") if element.tag == "PubmedArticle" else element
    if cited is None or cited.tag != "MedlineCitation":
        raise NoRecord(f"<{element.tag[:40]}> is no citation")
    pmid = _content(cited.find("PMID"))
    if not pmid:
        raise NoRecord("a citation without PMID")
    article = cited.find("Article")
    title = _content(_below(article, "ArticleTitle")) or _content(_below(article, "VernacularTitle"))
    parts = [_content(e) for e in _children(_below(article, "Abstract")) if e.tag == "AbstractText"]
    journal = _below(article, "Journal")
    name = _content(_below(journal, "Title")) or _content(_below(cited, "MedlineJournalInfo", "MedlineTA"))
    dates = [_below(journal, "JournalIssue", "PubDate"), _below(article, "ArticleDate"), cited.find("DateCreated")]
    labels = [_content(e.find("DescriptorName")) for e in _children(cited.find("MeshHeadingList"))]
    return Citation(
        pmid,
        "\n".join(part for part in [title, *parts] if part),
        any(parts),
        name or None,
        next((y for d in dates if (y := _year(d))), None),
        _authors(_below(article, "AuthorList")),
        [label for label in labels if label],
    )


def _book(element: ET.Element) -> Citation:
    document = element.find("BookDocument")
    pmid = _content(_below(document, "PMID"))
    if not pmid:
        raise NoRecord("a book record without PMID")
    book = _below(document, "Book")
    name = _content(_below(book, "BookTitle"))
    title = _content(_below(document, "ArticleTitle")) or name
    parts = [_content(e) for e in _children(_below(document, "Abstract")) if e.tag == "AbstractText"]
    authors = _authors(_below(document, "AuthorList")) or _authors(_below(book, "AuthorList"))
    text = "\n".join(part for part in [title, *parts] if part)
    return Citation(pmid, text, any(parts), name or None, _year(_below(book, "PubDate")), authors)


def _year(date: ET.Element | None) -> str | None:
    """The year of a date, from <Year> or the first of a <MedlineDate> such as ``1998 Dec-1999 Jan``."""
    if date is None:
        return None
    found = _YEAR.search(_content(date.find("Year")) or _content(date.find("MedlineDate")))
    return found[0] if found else None


def _authors(group: ET.Element | None) -> list[str]:
    """``LastName Initials`` or the collective's name, as PubMed prints them."""
    out = []
    for author in _children(group):
        last = _content(author.find("LastName"))
        first = _content(author.find("Initials")) or _content(author.find("ForeName"))
        name = f"{last} {first}".strip() if last else _content(author.find("CollectiveName"))
        if name:
            out.append(name)
    return out


READER = PubMed()
