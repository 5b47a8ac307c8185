"""PubMed and MEDLINE XML as NLM ships it: one document a citation, title and abstract.

Citations are taken from the stream one by one, so a baseline file of any size needs little memory.
Entities are never resolved, no DTD is loaded. Withdrawn citations (DeleteCitation) are rows
without text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from topicstream.corpus.format import AUTHORS, LABELS
from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import LIST, TEXT, batch_of, most_records
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import BadFile

NO_ABSTRACT = "records without abstract"
RECORDS = ("PubmedArticle", "MedlineCitation", "PubmedBookArticle", "DeleteCitation")
_YEAR = re.compile(r"\d{4}")


class NoRecord(ValueError):
    """A record that cannot be used, with the reason."""


class Citation(NamedTuple):
    """Fields of one record.

    text None: it is withdrawn.
    """

    id: str
    source: str
    text: str | None = None
    abstract: bool = False
    authors: Sequence[str] = ()
    headings: Sequence[str] = ()
    date: str | None = None
    journal: str | None = None


class PubMed(Reader):
    """Reader of PubMed and MEDLINE XML, a document a citation."""

    name = "pubmed"
    about = "PubMed / MEDLINE XML"
    signature = re.compile(
        rb"(?s)\s*(?=<).*?"
        rb"<(PubmedArticleSet|MedlineCitationSet|PubmedArticle|MedlineCitation)[\s/>]"
    )

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        from lxml import etree  # no other format needs it

        stream = source if options.encoding is not None else source.as_bytes()
        encoding = "utf-8" if options.encoding is not None else None  # instead of the one declared
        events = etree.iterparse(
            stream,
            tag=RECORDS,
            encoding=encoding,
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
        )
        citations: list[Citation] = []
        size = 0
        number = 0
        error = None
        try:
            for _, element in events:
                if (
                    element.tag == "MedlineCitation"
                    and _tag(element.getparent()) == "PubmedArticle"
                ):
                    continue
                number += 1
                try:
                    citations += _citations(element, f"{source.key}#{number}")
                    size += len(citations[-1].text or "")
                except NoRecord as e:
                    source.reject(
                        element.sourceline, str(e), etree.tostring(element, with_tail=False)
                    )
                _free_element(element)
                if size > options.piece_bytes or len(citations) >= most_records(options):
                    yield _batch(source, citations)
                    citations = []
                    size = 0
        except etree.XMLSyntaxError as e:
            error = e
        yield _batch(source, citations)
        if source.damage:
            return
        if error is not None:
            raise BadFile(
                source.name,
                error.lineno or 1,
                f"not well-formed XML ({error.msg}); get the file again",
            )
        if _tag(events.root) not in (*RECORDS, "PubmedArticleSet", "MedlineCitationSet"):
            raise BadFile(source.name, 1, "no PubmedArticleSet or MedlineCitationSet in it")


def _tag(element: Any) -> str | None:
    return None if element is None else element.tag


def _free_element(element: Any) -> None:
    """Free the memory of a record, and of the records before it in its set."""
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]


def _batch(source: Source, citations: list[Citation]) -> pa.RecordBatch:
    source.note(NO_ABSTRACT, sum(c.text is not None and not c.abstract for c in citations))
    columns = {name: [getattr(c, name) for c in citations] for name in Citation._fields}
    lists = {
        column: pa.array(columns[name], LIST)
        for column, name in ((AUTHORS, "authors"), (LABELS, "headings"))
    }
    single = {name: pa.array(columns[name], TEXT) for name in ("date", "journal")}
    return batch_of(
        columns["id"], columns["source"], {"text": pa.array(columns["text"], TEXT)}, lists | single
    )


def _content(element: Any, path: str = ".") -> str:
    """Return all text of the first element at a path, without inline markup (<i>, <sup>)."""
    child = None if element is None else element.find(path)
    return "" if child is None else "".join(child.itertext()).strip()


def _citations(element: Any, source: str) -> Iterator[Citation]:
    """Yield the citations of a record, or the ids that a DeleteCitation withdraws.

    Records are PubmedArticle, MedlineCitation and PubmedBookArticle.

    Raises
    ------
    NoRecord
        For a record without PMID.
    """
    if element.tag == "DeleteCitation":
        yield from (Citation(_content(pmid), source) for pmid in element.iter("PMID"))
        return
    citation = element
    is_book = False
    if element.tag == "PubmedArticle":
        citation = element.find("MedlineCitation")
    elif element.tag == "PubmedBookArticle" and element.find("BookDocument") is not None:
        citation = element.find("BookDocument")
        is_book = True
    if citation is None or not _content(citation, "PMID"):
        raise NoRecord(f"a {element.tag} without PMID")
    article = citation if is_book else citation.find("Article")
    title = _content(article, "ArticleTitle") or _content(article, "VernacularTitle")
    if is_book:
        journal = _content(citation, "Book/BookTitle")
        title = title or journal
    else:
        journal = _content(article, "Journal/Title")
    parts = () if article is None else article.iterfind("Abstract/AbstractText")
    abstract = [_content(part) for part in parts]
    headings = citation.iterfind("MeshHeadingList/MeshHeading")
    labels = [_content(heading, "DescriptorName") for heading in headings]
    yield Citation(
        _content(citation, "PMID"),
        source,
        "\n".join(part for part in [title, *abstract] if part),
        any(abstract),
        _authors(article, "AuthorList") or _authors(citation, "Book/AuthorList"),
        [label for label in labels if label],
        _first_year(citation),
        journal or _content(citation, "MedlineJournalInfo/MedlineTA") or None,
    )


_DATES = (
    "Book/PubDate",
    "Article/Journal/JournalIssue/PubDate",
    "Article/ArticleDate",
    "DateCreated",
)
"""Paths of the dates of a citation, the best one first."""


def _first_year(citation: Any) -> str | None:
    """Return the year of the first date of a citation that has one."""
    for path in _DATES:
        year = _year(citation.find(path))
        if year is not None:
            return year
    return None


def _year(date: Any) -> str | None:
    """Return the year of a date: its <Year>, or the first of a <MedlineDate>.

    A <MedlineDate> is a text such as ``1998 Dec-1999 Jan``.
    """
    year = _YEAR.search(_content(date, "Year") or _content(date, "MedlineDate"))
    return year[0] if year else None


def _authors(element: Any, path: str) -> list[str]:
    """List authors as PubMed prints them: ``LastName Initials`` or a collective's name."""
    names = []
    for author in () if element is None else element.iterfind(f"{path}/Author"):
        last = _content(author, "LastName")
        first = _content(author, "Initials") or _content(author, "ForeName")
        names.append(f"{last} {first}".strip() if last else _content(author, "CollectiveName"))
    return [name for name in names if name]


READER = PubMed()
