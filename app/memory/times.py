"""When a statement holds: dates and relative dates, resolved against the day it was said.

An interval is half open, [start, end); a side that is not known is None. What is not known stays so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

from octavo.app.memory.quantities import number_of

_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)}|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
_COUNT = r"(?P<count>\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|a few|a couple of)"
_HAN_COUNT = "(?P<count>[0-9]+|[一二两三四五六七八九十半]+|几)"
_UNIT = "(?P<unit>day|week|month|year)s?"


@dataclass(frozen=True, slots=True)
class Interval:
    """Days from `start` up to, not including, `end`."""

    start: date | None = None
    end: date | None = None

    def overlaps(self, other: Interval) -> bool:
        before = self.end is not None and other.start is not None and self.end <= other.start
        after = other.end is not None and self.start is not None and other.end <= self.start
        return not before and not after

    def is_over(self, day: date) -> bool:
        """True if it ended by `day`."""
        return self.end is not None and self.end <= day


@dataclass(frozen=True, slots=True)
class Found:
    """A time in a text: what it covers, and whether it is the beginning of something that goes on."""

    interval: Interval
    is_since: bool
    span: tuple[int, int]


def find_time(text: str, said: date) -> Found | None:
    """The first time a text names, relative ones counted from the day it was said."""
    best: Found | None = None
    for pattern, read in _PATTERNS:
        match = pattern.search(text)
        if match is not None and (best is None or match.start() < best.span[0]):
            found = read(match, said)
            if found is not None:
                best = Found(*found, match.span())
    return best


def _years(start: int, end: int) -> Interval:
    return Interval(date(start, 1, 1), date(end, 1, 1))


def _month_span(year: int, month: int) -> Interval:
    return Interval(date(year, month, 1), date(year + month // 12, month % 12 + 1, 1))


def _month_number(name: str) -> int:
    return next(i for i, month in enumerate(_MONTHS, start=1) if month.startswith(name.casefold()[:3]))


def _month_back(said: date, months: int) -> date:
    index = said.year * 12 + said.month - 1 - months
    return date(index // 12, index % 12 + 1, min(said.day, 28))


def back(said: date, count: float, unit: str) -> date:
    """The day `count` units before `said`."""
    if unit in ("year", "年"):
        return _month_back(said, round(count * 12))
    if unit in ("month", "个月", "月"):
        return _month_back(said, round(count))
    return said - timedelta(days=count * (7 if unit in ("week", "周", "星期", "个星期") else 1))


_Read = tuple[Interval, bool] | None


def _from_to(match: re.Match[str], said: date) -> _Read:
    return Interval(date(int(match["a"]), 1, 1), date(int(match["b"]) + 1, 1, 1)), False


def _since(match: re.Match[str], said: date) -> _Read:
    month = _month_number(match["month"]) if match["month"] else 1
    year = int(match["year"] or match["year2"] or said.year - (month > said.month))
    return Interval(date(year, month, 1)), True


def _since_han(match: re.Match[str], said: date) -> _Read:
    return Interval(date(int(match["year"]), int(match["m"] or 1), 1)), True


def _until(match: re.Match[str], said: date) -> _Read:
    return Interval(None, date(int(match["year"]), 1, 1)), False


def _iso(match: re.Match[str], said: date) -> _Read:
    try:
        day = date(int(match["y"]), int(match["m"]), int(match["d"]))
    except ValueError:
        return None
    return Interval(day, day + timedelta(days=1)), False


def _day_of_month(match: re.Match[str], said: date) -> _Read:
    number, name = match["day"] or match["day2"], match["month"] or match["month2"]
    try:
        day = date(int(match["year"] or said.year), _month_number(name), int(number))
    except ValueError:
        return None
    return Interval(day, day + timedelta(days=1)), False


def _month_of_year(match: re.Match[str], said: date) -> _Read:
    month = _month_number(match["month"])
    year = int(match["year"]) if match["year"] else said.year - (month > said.month)
    return _month_span(year, month), False


def _year(match: re.Match[str], said: date) -> _Read:
    return _years(int(match["year"]), int(match["year"]) + 1), False


def _ago(match: re.Match[str], said: date) -> _Read:
    count = {"a few": 3.0, "a couple of": 2.0, "几": 3.0}.get(match["count"]) or number_of(match["count"]) or 1.0
    start = back(said, count, match["unit"])
    return Interval(start, start + timedelta(days=1)), False


def _lasting(match: re.Match[str], said: date) -> _Read:
    found = _ago(match, said)
    return None if found is None else (Interval(found[0].start), True)


def _named(days: int) -> Callable[[re.Match[str], date], _Read]:
    def read(match: re.Match[str], said: date) -> _Read:
        day = said + timedelta(days=days)
        return Interval(day, day + timedelta(days=1)), False

    return read


def _whole(unit: str, offset: int) -> Callable[[re.Match[str], date], _Read]:
    def read(match: re.Match[str], said: date) -> _Read:
        if unit == "year":
            return _years(said.year + offset, said.year + offset + 1), False
        if unit == "month":
            first = _month_back(said.replace(day=1), -offset)
            return _month_span(first.year, first.month), False
        monday = said - timedelta(days=said.weekday()) + timedelta(weeks=offset)
        return Interval(monday, monday + timedelta(days=7)), False

    return read


_YEAR = r"(?P<year>(?:19|20)\d\d)"
_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], date], _Read]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), read)
    for pattern, read in (
        (r"\b(?:from|between) (?P<a>(?:19|20)\d\d) (?:to|until|till|and|through) (?P<b>(?:19|20)\d\d)\b", _from_to),
        (r"从?(?P<a>(?:19|20)\d\d)年?(?:到|至|-)(?P<b>(?:19|20)\d\d)年?", _from_to),
        (rf"\bsince (?:{_MONTH}(?: {_YEAR.replace('year', 'year2')})?|{_YEAR})\b", _since),
        (rf"自?从?{_YEAR}年(?:(?P<m>\d\d?)月)?(?:起|以来|开始)", _since_han),
        (rf"\b(?:until|till|before) {_YEAR}\b", _until),
        (rf"{_YEAR}年(?:以前|之前)", _until),
        (r"\b(?:on |by )?(?P<y>(?:19|20)\d\d)-(?P<m>\d\d)-(?P<d>\d\d)\b", _iso),
        (r"(?P<y>(?:19|20)\d\d)年(?P<m>\d\d?)月(?P<d>\d\d?)[日号]", _iso),
        (
            rf"\b(?:on |by )?(?:the )?(?:{_MONTH} (?P<day>\d\d?)(?:st|nd|rd|th)?"
            rf"|(?P<day2>\d\d?)(?:st|nd|rd|th)?(?: of)? {_MONTH.replace('<month>', '<month2>')})(?:,? {_YEAR})?\b",
            _day_of_month,
        ),
        (rf"\bin (?:early |late |mid-)?{_MONTH}(?: {_YEAR})?\b", _month_of_year),
        (rf"\b(?:back )?(?:in|during) (?:early |late |mid-)?{_YEAR}\b", _year),
        (rf"(?<!\d){_YEAR}年", _year),
        (rf"\b{_COUNT} {_UNIT} ago\b", _ago),
        (rf"{_HAN_COUNT}(?P<unit>天|周|个星期|个月|年)(?:以?前|之前)", _ago),
        (
            rf"\b(?:for|over) (?:the (?:last|past) )?(?:about |almost |nearly |over )?{_COUNT} {_UNIT}(?: now)?\b",
            _lasting,
        ),
        (r"\byesterday\b|\blast night\b|昨天|昨晚", _named(-1)),
        (r"前天", _named(-2)),
        (r"\b(?:tomorrow)\b|明天", _named(1)),
        (r"\b(?:today|tonight|this morning|this afternoon|this evening)\b|今天|今晚|今早", _named(0)),
        (r"\blast year\b|去年", _whole("year", -1)),
        (r"\bthis year\b|今年", _whole("year", 0)),
        (r"\bnext year\b|明年", _whole("year", 1)),
        (r"\blast month\b|上个?月", _whole("month", -1)),
        (r"\bthis month\b|这个月", _whole("month", 0)),
        (r"\bnext month\b|下个?月", _whole("month", 1)),
        (r"\blast week\b|上(?:周|个?星期)", _whole("week", -1)),
        (r"\bthis week\b|这(?:周|个?星期)", _whole("week", 0)),
        (r"\bnext week\b|下(?:周|个?星期)", _whole("week", 1)),
    )
)
