"""Dates as people write them and as spreadsheets store them."""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

Day = tuple[int, int, int]  # year, month (0: not said), day (0: not said)
_FORMS = [
    form.replace("/", mark) + time
    for form in ("%d/%m/%y", "%m/%d/%y", "%d/%m/%Y", "%m/%d/%Y")
    for mark in "/-."
    for time in ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
]
"""What ``advice`` tries."""
_DATE = re.compile(
    r"(?P<year>\d{4})(?:[-/. ](?P<month>\d{1,2}|[a-z]{3})[a-z]*(?:[-/. ](?P<day>\d{1,2})(?:[t ]\d.*)?)?)?"
    r"|(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})"
    r"|(?P<dd>\d{1,2})\. ?(?P<mm>\d{1,2})\. ?(?P<yyyy>\d{4})(?:,? \d.*)?"
    r"|(?:[a-z]{3,9},? )?(?P<d2>\d{1,2})[-/. ]+(?P<m2>[a-z]{3})[a-z]*[-/., ]+(?P<y2>\d{4})(?:[, t]+\d.*)?"
    r"|(?P<serial>\d{5})(?:\.\d*)?"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SPREADSHEET = date(1899, 12, 30)
"""Day 0 of Excel and its kin (for dates from March 1900 on: they count 29 February 1900, which never was)."""


@lru_cache(maxsize=1 << 16)
def parse(text: str) -> Day | None:
    """A date: ``1999``, ``1999-05``, ``1999-05-31``, ``19990531``, ``31.5.1999``, ``31-MAY-1999``, an ISO time, PubMed's ``1999 May 31``, the
    days of a spreadsheet (``42059.48``); None for what is none of these."""
    match = _DATE.fullmatch(text.strip().lower())
    if match is None:
        return None
    if match["serial"]:
        day = _SPREADSHEET + timedelta(int(match["serial"]))
        return day.year, day.month, day.day
    year, month, day_of_month = (
        next((text for name in names if (text := match[name])), "0")
        for names in (("year", "y", "yyyy", "y2"), ("month", "m", "mm", "m2"), ("day", "d", "dd", "d2"))
    )
    try:
        numbers = int(year), int(month) if month.isdecimal() else 1 + _MONTHS.index(month), int(day_of_month)
        date(numbers[0], numbers[1] or 1, numbers[2] or 1)
    except ValueError:
        return None
    return numbers


def advice(unread: str) -> str:
    """How to give a date that ``parse`` does not read: the formats that fit it, as options.

    Examples
    --------
    >>> advice("28/06/2017 13:06")
    "--date-format '%d/%m/%Y %H:%M'"
    >>> advice("3/4/2017")
    "--date-format '%d/%m/%Y' or '%m/%d/%Y'"
    """
    text = pa.chunked_array([[unread]], pa.large_string())
    fitting = [form for form in _FORMS if in_iso_format(text, form)[0].as_py() != unread]
    fitting = [form for form in fitting if "%y" in form] or fitting  # %Y takes a year of two digits, too: as one of the first century
    if not fitting:
        return "1999, 1999-05, 1999-05-31, 31.05.1999, or --date-format"
    return f"--date-format {' or '.join(map(repr, fitting))}"


def in_iso_format(dates: pa.ChunkedArray, form: str) -> pa.ChunkedArray:
    """Dates of one form, large_string[D], as ``1999-05-31``; what is of another form stays as it is.

    Parameters
    ----------
    form
        As ``strptime`` takes it, such as ``%m/%d/%Y``.
    """
    days = pc.strptime(dates, format=form, unit="s", error_is_null=True)
    return pc.coalesce(pc.strftime(days, format="%Y-%m-%d").cast(dates.type), dates)
