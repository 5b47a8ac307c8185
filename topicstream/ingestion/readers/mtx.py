"""Matrix Market coordinate files: rows are documents, sorted, columns words.

With ``--transpose`` it is the other way, in any order.

``integer`` and ``pattern`` matrices hold counts; so do ``real`` ones, or with ``--weighted``
weights (float32 cells).
"""

from __future__ import annotations

import re

from topicstream.ingestion.open.source import Source
from topicstream.ingestion.parse.rejects import BadFile
from topicstream.ingestion.parse.triples import MatrixHeader, TripleReader, check_header

_BANNER = re.compile(rb"%%MatrixMarket\s+matrix\s+(\w+)\s+(\w+)\s+([\w-]+)\s*?\n", re.IGNORECASE)
_SIZES = re.compile(
    rb"(?:(?:%[^\n]*|[ \t\r]*)\n)*[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t]+(\d{1,18})[ \t\r]*(\n|$)"
)


class MatrixMarket(TripleReader):
    """Reader of Matrix Market coordinates: row, column and count a line."""

    name = "mtx"
    about = "Matrix Market coordinate (rows = documents)"
    suffixes = (".mtx",)
    signature = re.compile(rb"%%MatrixMarket")
    side_names = ("rows (--transpose: columns)", "columns")

    def header(self, source: Source) -> MatrixHeader:
        """Read the sizes.

        Raises BadFile for a matrix that holds no documents by rows.
        """
        head = source.head()
        banner = _BANNER.match(head)
        if banner is None:
            raise BadFile(source.name, 1, "does not begin with %%MatrixMarket matrix …")
        layout, field, symmetry = (banner[i].decode().lower() for i in (1, 2, 3))
        if (
            layout != "coordinate"
            or symmetry != "general"
            or field not in ("integer", "real", "pattern")
        ):
            reason = (
                f"the header says {layout} {field} {symmetry}; coordinate integer, real or "
                f"pattern general is read"
            )
            raise BadFile(source.name, 1, reason)
        sizes = _SIZES.match(head, banner.end())
        if sizes is None:
            raise BadFile(source.name, 2, "no line 'rows columns entries' after the comments")
        documents, words, cells = (int(sizes[i]) for i in (1, 2, 3))
        header = MatrixHeader(
            documents, words, cells, 2 if field == "pattern" else 3, field == "real", sizes.end()
        )
        check_header(source.name, 1 + head.count(b"\n", 0, sizes.start(1)), header)
        return header


READER = MatrixMarket()
