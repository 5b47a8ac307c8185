"""TEI XML and HTML, one document a file.

A document is the text without header, running heads and notes, with a blank line between blocks.
Of two versions in a TEI edition the reading text is taken (``reg``, ``corr``, ``expan``, not
``orig``, ``sic``, ``abbr``). Entities are never resolved, and no DTD is loaded.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.base.dates import parse
from topicstream.ingestion.open.source import Source, plain_suffix
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.columns import LISTS, as_list
from topicstream.ingestion.parse.documents import LIST, TEXT, batch_of, positions, why_not_utf8
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import BadFile

SKIPPED = {"teiheader", "standoff", "fw", "note", "idno", "script", "style", "template", "noscript"}
TWICE = {"orig", "sic", "abbr"}
"""Within ``choice``: what stands there beside the reading text."""
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
DATED = ("when", "notBefore", "from", "content")


class Markup(Reader):
    name = "markup"
    about = "TEI XML or HTML, one document a file"
    suffixes = (".html", ".htm", ".xhtml", ".tei")
    signature = re.compile(
        rb"(?is)(?:\xef\xbb\xbf)?\s*(?:<\?.*?\?>\s*|<!--.*?-->\s*|<!doctype[^>\[]*(?:\[.*?\]\s*)?>\s*)*<(?:\w+:)?(?:TEI(?:\.2)?|html)[\s>]"
    )

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        from lxml import etree  # no other format needs it

        data = source.as_bytes().read(options.record_bytes + 1)
        if len(data) > options.record_bytes:
            source.reject(
                0,
                f"a document of more than {options.record_bytes >> 20} MiB; split it or raise "
                f"the limit",
            )
            return
        if plain_suffix(source.name) in (".html", ".htm") or re.search(
            rb"(?i)<html[\s>]", data[:4096]
        ):
            # which a page need not say
            stated = options.encoding or (None if why_not_utf8(data) else "utf-8")
            parser = etree.HTMLParser(
                encoding=stated, no_network=True, remove_comments=True, remove_pis=True
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
            line = getattr(e, "lineno", None) or 1
            raise BadFile(
                source.name, line, f"not well-formed XML ({getattr(e, 'msg', e)}); mend the file"
            ) from None
        for entity in list(root.iter(etree.Entity)):
            _in_words(entity)
        fields = fields_of(root)
        options = options.spelled_as(fields)
        source.leave_out(set(fields) - set(options.meta.values()))
        meta = {}
        for column, name in options.meta.items():
            value = fields.get(name)
            listed = as_list(value, name, options.list_separator) if column in LISTS else value
            meta[column] = pa.array([listed], LIST if column in LISTS else TEXT)
        walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
        text = {"text": pa.array([text_of(walk, options.split == "section")], TEXT)}
        yield batch_of([source.key], positions(source.key, np.array([1])), text, meta)


def _in_words(entity: Any) -> None:
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


def _name(element: Any) -> str:
    """Return the local name of an element in lower case, "" for a comment."""
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def text_of(walker: Any, headed: bool) -> str:
    """Extract the text of a document from lxml's walk over it.

    A blank line separates blocks, a line break verses. ``headed`` puts ``#`` before a heading.
    """
    parts: list[str] = []
    for event, element in walker:
        name = _name(element)
        mark = "\x1e" if name in LINES else "\x1f" if name in BLOCKS else ""
        if event == "start":
            heading = headed and name in HEADINGS and _name(element.getparent()) != "html"
            parts.append(mark + "# " * heading)
            if name in SKIPPED or (name in TWICE and _name(element.getparent()) == "choice"):
                walker.skip_subtree()
            else:
                parts.append(element.text or "")
        elif element.getparent() is not None:
            parts += [mark, element.tail or ""]
    blocks = (
        [" ".join(line.split()) for line in block.split("\x1e")]
        for block in "".join(parts).split("\x1f")
    )
    return "\n\n".join(
        text for block in blocks if (text := "\n".join(line for line in block if line))
    )


def fields_of(root: Any) -> dict[str, str]:
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
    named = next(
        (name for name in names if name.get("type") == "full"), names[0] if names else element
    )
    words = "".join(named.xpath(".//text()[not(ancestor::*[local-name()='idno'])]")).split()
    return next(filter(None, map(element.get, DATED)), " ".join(words))


READER = Markup()
