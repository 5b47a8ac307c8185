"""Layout of a CSV file: where its records begin, what parts and quotes fields, what escapes.

What the user does not say is looked for in the head of the file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from topicstream.base.errors import UsageError
from topicstream.ingestion.open.source import Source, plain_suffix
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import western, why_not_utf8
from topicstream.ingestion.parse.rejects import BadFile

LOOKED_AT = 50
"""Records that are looked at where the user does not say whether there is a header."""
MOST_BEFORE = 30
"""Lines below which the header is looked for."""
_VALUE = re.compile(r"[-+]?\d|[\w.+-]+@[\w-]+\.|https?://")
DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
MOST_HEADER = 16 << 10
NO_QUOTE = "\x1f"
"""Stands for no quote character: text does not hold it."""
BACKSLASH = "\\"
NULL = "\\N"
"""Missing value as MySQL and PostgreSQL write it."""
_NULLS = re.compile(r"(?:^|[,;\t|])\\N(?=$|[,;\t|\r\n])", re.MULTILINE)
_ESCAPE = re.compile(r"\\(.)")
BEFORE = "lines before the header of CSV files, skipped (--skip-lines 0 reads them)"
ESCAPED = "CSV files with backslashes as escapes (--escapechar '' takes them as text)"


@dataclass(frozen=True)
class CsvLayout:
    """Names of the columns, and how records are written.

    Attributes
    ----------
    names
        Names of the columns, from the header or by number.
    delimiter
        Character between fields.
    blanks
        True if blanks follow the delimiter, perhaps before a quote.
    quote
        Character around fields.
    escape
        Character that takes the meaning of the next one, or None.
    comment
        Beginning of a line that is no record, or None.
    commented
        True if lines with ``#`` stand before the header.
    text
        Names of the columns that hold text.
    lines
        Number of lines before the first record.
    """

    names: tuple[str, ...]
    delimiter: str
    blanks: bool
    quote: str
    escape: str | None
    comment: str | None
    commented: bool
    text: tuple[str, ...]
    lines: int

    def reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Parse lines, which are pulled as records need them."""
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            skipinitialspace=self.blanks,
            quotechar=self.quote,
            escapechar=self.escape,
            strict=True,
        )

    def without_nulls(self, row: list[str]) -> list[str]:
        """Empty the fields that stand for a missing value."""
        if self.escape != BACKSLASH or NULL not in row:
            return row
        return ["" if value == NULL else value for value in row]


def unescape_letters(line: str, layout: CsvLayout) -> str:
    """Double the backslashes that are text, so that only escapes vanish.

    Of files without quotes, as databases write them, ``\\n``, ``\\t`` and ``\\r`` are white space.
    """
    if layout.escape != BACKSLASH or BACKSLASH not in line:
        return line
    special = {layout.quote, layout.delimiter, BACKSLASH}
    white = "ntr" if layout.quote == NO_QUOTE or layout.delimiter == "\t" else ""

    def keep_backslash(match: re.Match[str]) -> str:
        letter = match[1]
        if letter in special:
            return match[0]
        return " " if letter in white else BACKSLASH + match[0]

    return _ESCAPE.sub(keep_backslash, line)


def parse_lines(lines: Iterable[str], layout: CsvLayout) -> list[list[str] | None]:
    """Parse some lines, and list the fields of each record, None for one that is not CSV."""
    if layout.escape:
        lines = [unescape_letters(line, layout) for line in lines]
    rows = layout.reader(lines)
    records: list[list[str] | None] = []
    while True:
        try:
            records.append(next(rows))
        except StopIteration:
            return records
        except csv.Error:
            records.append(None)


def why_not_csv(error: csv.Error) -> str:
    """Explain why a record is not CSV, with what to do."""
    if "new-line character" in str(error):
        return (
            "a carriage return in a field without quotes; end all lines alike, or quote the field"
        )
    return (
        f"a quote that is not closed or is followed by text ({error}); --quotechar '' takes quotes "
        f"as text"
    )


def split_line(line: str, delimiter: str, most: int) -> list[str]:
    """Split a line of CSV that has no header into fields of up to ``most`` bytes.

    Raises
    ------
    csv.Error
        For a line that is not CSV.
    """
    csv.field_size_limit(max(csv.field_size_limit(), most))
    return next(csv.reader([line], delimiter=delimiter), [])


def layout_of(source: Source, options: ReadOptions) -> CsvLayout:
    """Find the layout of a file by its head and the options."""
    lines = _read_head_lines(source, options)
    comment = options.comment or None
    start = _find_first_line(lines, options.skip_lines or 0, comment, source)
    header = _find_header(lines, start, source, options)
    if header > start:
        source.note(BEFORE, sum(bool(line.strip()) for line in lines[start:header]))
    commented = any(line.startswith("#") for line in lines[start:header])
    layout = _guess_marks(lines[header], source, options, comment=comment, commented=commented)
    rows = layout.reader(line + "\n" for line in lines[header:])
    first = _read_header(rows, source, header + 1)
    end = header + rows.line_num  # type: ignore[attr-defined]
    escape = _detect_escape(lines[end:], layout, len(first), source, options)
    options = options.spelled_as(first)
    text = tuple(options.text_fields)
    has_header = options.header
    if has_header is None and set(_named_fields(options)) <= set(first):
        has_header = True
    examples = [] if has_header else _examples(rows, len(first))
    if has_header is None:
        has_header = not _is_data(first, examples, options)
    if has_header:
        return replace(layout, names=first, escape=escape, text=text, lines=end)
    if text == ("text",):  # the user did not say which: the longest
        sizes = [sum(len(row[c]) for row in [first, *examples]) for c in range(len(first))]
        text = (str(1 + sizes.index(max(sizes))),)
        source.note(
            f"CSV files without a header, column {text[0]} taken for the text (--text-field, "
            f"--header)"
        )
    names = tuple(str(c + 1) for c in range(len(first)))
    return replace(layout, names=names, escape=escape, text=text, lines=start)


def _read_head_lines(source: Source, options: ReadOptions) -> list[str]:
    """Read the first lines of a file, as UTF-8 or windows-1252."""
    head = source.head()
    if not head.strip():
        raise BadFile(source.name, 1, "is empty; a CSV file begins with the names of its columns")
    if options.encoding is None and why_not_utf8(head.rpartition(b"\n")[0]):
        head = western(head) or head
    return head.decode("utf-8", "surrogateescape").split("\n")


def _find_first_line(
    lines: Sequence[str], skipped: int, comment: str | None, source: Source
) -> int:
    """Find the first line that may be the header or a record."""
    place = skipped
    while place < len(lines):
        is_comment = comment and lines[place].startswith(comment)
        if lines[place].strip() and not is_comment:
            break
        place += 1
    if place >= len(lines):
        raise BadFile(source.name, skipped + 1, "no header after the skipped lines")
    tells_excel = re.fullmatch(r"(?i)\ufeff?sep=.\r?", lines[place])
    return place + 1 if tells_excel and len(lines) > place + 1 else place


def _find_header(lines: Sequence[str], start: int, source: Source, options: ReadOptions) -> int:
    """Find the line with the names that are wanted, or the first where there is none."""
    if options.header is False or options.skip_lines is not None:
        return start
    for place in range(start, min(start + MOST_BEFORE, len(lines))):
        names = _read_names(lines[place], source, options)
        if set(_named_fields(options.spelled_as(names))) <= set(names):
            are_names = not any(_is_value(name) for name in names)
            return place if are_names or place == start else start
    return start


def _read_names(line: str, source: Source, options: ReadOptions) -> tuple[str, ...]:
    """Read the fields of a line as names of columns, none where it is not CSV."""
    layout = _guess_marks(line, source, options)
    rows = parse_lines([line + "\n"], layout)
    fields = rows[0] if rows else None
    return tuple(name.strip() for name in fields or ())


def _guess_marks(
    line: str,
    source: Source,
    options: ReadOptions,
    comment: str | None = None,
    commented: bool = False,
) -> CsvLayout:
    """Guess delimiter and quotes of a line where the options do not name them."""
    quote = '"' if options.quotechar is None else options.quotechar or NO_QUOTE
    tabs = plain_suffix(source.name) in (".tsv", ".tab")
    guessed = "\t" if tabs else max(",\t;|", key=line.count)
    chosen = guessed if options.delimiter is None else options.delimiter
    delimiter = _one_character(DELIMITERS.get(chosen, chosen), "--delimiter", ", or tab")
    escape = options.escapechar or None
    return CsvLayout(
        names=(),
        delimiter=delimiter,
        blanks=f"{delimiter} " in line,
        quote=_one_character(quote, "--quotechar"),
        escape=escape if escape is None else _one_character(escape, "--escapechar"),
        comment=comment,
        commented=commented,
        text=(),
        lines=0,
    )


def _read_header(rows: Iterator[list[str]], source: Source, line: int) -> tuple[str, ...]:
    """Read the names of the columns, and refuse a header that is none."""
    try:
        first = tuple(name.strip() for name in next(rows))
        "".join(first).encode()
    except csv.Error as e:
        raise BadFile(
            source.name,
            line,
            f"the header is not CSV: {why_not_csv(e)}",
        ) from None
    except UnicodeEncodeError:
        raise BadFile(source.name, line, "the header is not valid UTF-8; give --encoding") from None
    if sum(map(len, first)) > MOST_HEADER:
        raise BadFile(
            source.name, line, f"the header does not end within {MOST_HEADER} bytes; is it CSV?"
        )
    return first


def _detect_escape(
    lines: Sequence[str], layout: CsvLayout, width: int, source: Source, options: ReadOptions
) -> str | None:
    """Find out whether backslashes are escapes: more lines are records then."""
    if options.escapechar is not None:
        return layout.escape
    sample = [line.removesuffix("\r") + "\n" for line in lines]
    if not any(BACKSLASH in line for line in sample):
        return None
    bad = _count_bad(sample, layout, width)
    bad_escaped = _count_bad(sample, replace(layout, escape=BACKSLASH), width)
    has_nulls = any(map(_NULLS.search, sample))
    if bad_escaped < bad or (has_nulls and bad_escaped == bad):
        source.note(ESCAPED)
        return BACKSLASH
    return None


def _count_bad(lines: Iterable[str], layout: CsvLayout, width: int) -> int:
    """Count the records that are not CSV, or have another number of fields."""
    return sum(row is None or len(row) not in (0, width) for row in parse_lines(lines, layout))


def _examples(rows: Iterable[list[str]], width: int) -> list[list[str]]:
    """List some whole records, their values stripped."""
    examples: list[list[str]] = []
    try:
        for row in islice(rows, LOOKED_AT):
            examples.append([value.strip() for value in row])
    except csv.Error:  # the head ends within a record
        pass
    return [row for row in examples if len(row) == width]


def _one_character(chosen: str, option: str, alternative: str = "") -> str:
    """Check that an option is one ASCII character that can do its work."""
    refused = '\n\r"' if option == "--delimiter" else "\n\r"
    if len(chosen.encode()) != 1 or chosen in refused:
        raise UsageError(f"{option} {chosen!r}: one ASCII character is needed{alternative}")
    return chosen


def _named_fields(options: ReadOptions) -> list[str]:
    """List the fields that the options name."""
    id_field = [options.id_field] if options.id_field and options.id_wanted else []
    return [*options.text_fields, *options.meta_wanted, *id_field]


def _is_data(first: tuple[str, ...], examples: list[list[str]], options: ReadOptions) -> bool:
    """Tell whether the first record looks like a document's and not like names.

    It lacks a field that the options name, and such fields are numbers; or the user did not name
    the text, and values stand in the record.
    """
    missing = set(_named_fields(options)) - set(first)
    if options.text_fields == ["text"]:  # the default, which the user did not name
        missing -= {"text"}
    if missing:
        return all(name.isdecimal() and 1 <= int(name) <= len(first) for name in missing)
    for column, name in enumerate(first):
        if _is_value(name):
            return True
        if name and any(row[column] == name for row in examples):
            return True
    return False


def _is_value(name: str) -> bool:
    """Tell whether a field looks like a value, not like the name of a column."""
    return len(name) > 60 or len(name.split()) > 6 or _VALUE.match(name) is not None
