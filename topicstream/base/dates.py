"""Dates as people write them and as spreadsheets store them."""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc

Day = tuple[int, int, int]
"""Year, month and day; month or day are 0 if unknown, and years before our era below 0."""
_CYCLE = 400, 146_097
"""Years and days after which the calendar repeats."""
_FORMS = [
    form.replace("/", mark) + time
    for form, mark, time in product(
        ("%d/%m/%y", "%m/%d/%y", "%d/%b/%y", "%d/%m/%Y", "%m/%d/%Y"),
        "/-.",
        ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p"),
    )
]
"""Formats that ``advice`` tries."""
_WORD = r"[^\W\d_]{3,}"
_READ = tuple(
    re.compile(form.replace("MONTH", rf"(?P<month>{_WORD})\.?"))
    for form in (
        rf"(?P<year>\d{{4}})(?: ?[-–/] ?(?:\d{{4}}|(?P<end>1[3-9]|[2-9]\d))|s)?(?:[-/. "
        rf"](?P<month>\d{{1,2}}|{_WORD})(?:[-/. ](?P<day>\d{{1,2}})(?:[t ]\d.*)?)?)?",
        r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})(?:t\d.*)?",
        r"(?P<day>\d{1,2})\. ?(?P<month>\d{1,2})\. ?(?P<year>\d{4})(?:,? \d.*)?",
        rf"(?:{_WORD}\.?,? )?(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th|er)?[-/. ]+(?:de "
        rf")?)?MONTH[-/., ]+(?:de )?(?P<year>\d{{4}})(?:[, t]+\d.*)?",
        rf"(?:{_WORD}\.?,? )?MONTH (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?(?: \d\d?:\S+(?: "
        rf"[-+a-z0-9]+)?)? (?P<year>\d{{4}})(?: .*)?",
    )
)
_BEFORE_OUR_ERA = re.compile(
    r"-(?P<iso>\d{4,6})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)(?:t.*)?)?)?"
    r"|(?P<named>\d{1,6}) ?(?:b\.? ?c\.?(?: ?e\.?)?|v\. ?chr\.?|av\. ?j\.? ?-?c\.?|a\. ?c\.?)"
)
_NUMBER = re.compile(r"(?:(?P<days>\d{5})|(?P<seconds>\d{10})(?:\d{3})?)(?:\.\d*)?")
_ABOUT = re.compile(r"^[\[(]?(?:c|ca|circa|um|vers)\b\.? ?|[][?~]")
_EASTERN = str.maketrans({"年": "-", "月": "-", "日": None})
_MONTHS = (
    "jan ene gen",
    "feb fev fév",
    "mar mär mrz mrt",
    "apr avr abr",
    "may mai maj mei mag",
    "jun juin giu",
    "jul juil lug",
    "aug aou aoû ago",
    "sep set",
    "oct okt ott out",
    "nov",
    "dec dez déc dic",
)
"""Beginnings of the months' names in English, German, French, Spanish, Italian, Portuguese, Dutch.
"""
_UNIX = date(1970, 1, 1)
"""Day 0 of Unix."""
_SPREADSHEET = date(1899, 12, 30)
"""Day 0 of Excel for dates from March 1900 on: it counts 29 February 1900, which never was."""


@lru_cache(maxsize=1 << 16)
def parse(text: str) -> Day | None:
    """Read a date as people, mail and spreadsheets write it.

    It reads ``1999``, ``1999-05``, ``1999-05-31``, ``19990531``, ``31.5.1999``, ``31-MAY-1999``,
    ``May 31, 1999``, ``31. Mai 1999``, an ISO time, the times of mail and of Twitter,
    ``1999年5月31日`` and ``c. 1999``; of ``1842-1843``, ``1842-43`` and ``1840s`` the first year;
    the days of a spreadsheet (``42059.48``), and the seconds or milliseconds of Unix; of years
    before our era ``-0207``, ``-0207-03`` and ``207 BC``, which is ``-0207``.

    Returns
    -------
    Day or None
        None for other text.
    """
    text = _ABOUT.sub("", " ".join(text.lower().translate(_EASTERN).split())).rstrip("- ")
    number = _NUMBER.fullmatch(text)
    if number:
        day = (
            _SPREADSHEET + timedelta(int(number["days"]))
            if number["days"]
            else _UNIX + timedelta(seconds=int(number["seconds"]))
        )
        return day.year, day.month, day.day
    before = _BEFORE_OUR_ERA.fullmatch(text)
    if before:
        return _checked_day(
            -int(before["iso"] or before["named"]),
            int(before["month"] or 0),
            int(before["day"] or 0),
        )
    for form in _READ:
        match = form.fullmatch(text)
        if match is None:
            continue
        end = int(match.groupdict().get("end") or 99)
        if end < int(match["year"][2:]):  # 1999-13 is no span of years
            continue
        year = int(match["year"])
        month = _number_of_month(match["month"] or "0")
        read = _checked_day(year, month, int(match["day"] or 0))
        if read is not None:
            return read
    return None


def _checked_day(year: int, month: int, day: int) -> Day | None:
    """Return a date, or None where the calendar has no such day (nor a year 0)."""
    if not year:
        return None
    try:
        ordinal((year, month, day))
    except ValueError:
        return None
    return year, month, day


def ordinal(day: Day) -> int:
    """Return the number of a day, 1 for 1 January of the year 1.

    An unknown month or day is the first.

    Raises
    ------
    ValueError
        If the calendar has no such day.
    """
    year, month, day_of_month = day
    cycles = (year - 1) // _CYCLE[0]
    within = date(year - cycles * _CYCLE[0], month or 1, day_of_month or 1)
    return within.toordinal() + cycles * _CYCLE[1]


def day_of_ordinal(number: int) -> Day:
    """Return the day of a number that ``ordinal`` gave."""
    cycles = (number - 1) // _CYCLE[1]
    within = date.fromordinal(number - cycles * _CYCLE[1])
    return within.year + cycles * _CYCLE[0], within.month, within.day


def iso_year(year: int) -> str:
    """Format a year with four digits, and a sign before our era: ``1999``, ``-0207``."""
    return f"{year:04}" if year >= 0 else f"{year:05}"


def _number_of_month(month: str) -> int:
    """Return the number of a month by number or name, or 13 for another word."""
    if month.isdecimal():
        return int(month)
    for number, names in enumerate(_MONTHS, 1):
        if month.startswith(tuple(names.split())):
            return number
    return 13


def iso(day: Day) -> str:
    """Format a date as far as it is known: ``1999``, ``1999-05`` or ``1999-05-31``."""
    return "-".join([iso_year(day[0]), *(f"{number:02}" for number in day[1:] if number)])


def advice(unread: str) -> str:
    """Name the formats that fit a date which ``parse`` does not read, as options.

    Examples
    --------
    >>> advice("28/06/2017 13:06")
    "--date-format '%d/%m/%Y %H:%M'"
    >>> advice("3/4/2017")
    "--date-format '%d/%m/%Y' or '%m/%d/%Y'"
    """
    text = pa.chunked_array([[unread]], pa.large_string())
    fitting = [form for form in _FORMS if in_iso_format(text, form)[0].as_py() != unread]
    # %Y takes a year of two digits, too: as one of the first century
    fitting = [form for form in fitting if "%y" in form] or fitting
    if not fitting:
        return "1999, 1999-05, 1999-05-31, 31.05.1999, or --date-format"
    return f"--date-format {' or '.join(map(repr, fitting))}"


def in_iso_format(dates: pa.ChunkedArray, form: str) -> pa.ChunkedArray:
    """Convert dates of one form to ``1999-05-31``, and leave other text.

    Parameters
    ----------
    dates
        large_string[D].
    form
        A format of ``strptime``, such as ``%m/%d/%Y``.

    Returns
    -------
    ChunkedArray
        large_string[D].
    """
    days = pc.strptime(dates, format=form, unit="s", error_is_null=True)
    return pc.coalesce(pc.strftime(days, format="%Y-%m-%d").cast(dates.type), dates)
