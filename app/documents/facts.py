"""Numbers and dates of a text as values that can be compared: "1,000" and "1.000", "ninety" and "90", "3 May 2021" and
"2021-05-03", 七十六 and 76 are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MONTHS = (
    "january januar jan", "february februar feb", "march märz mar", "april apr", "may mai", "june juni jun",
    "july juli jul", "august aug", "september sept sep", "october oktober oct okt", "november nov",
    "december dezember dec dez",
)  # fmt: skip
_MONTH = {name: number for number, names in enumerate(_MONTHS, start=1) for name in names.split()}
_NAMED = "|".join(sorted(_MONTH, key=len, reverse=True))
_DATES = re.compile(
    rf"(?P<d1>\d{{1,2}})(?:\.|st|nd|rd|th)?\s+(?:of\s+)?(?P<m1>{_NAMED})\b\.?(?:,?\s+(?P<y1>\d{{4}}))?"
    rf"|\b(?P<m2>{_NAMED})\b\.?\s+(?:(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,?\s+(?P<y2>\d{{4}}))?|(?P<y3>\d{{4}}))"
    r"|(?<!\d)(?P<y4>\d{4})-(?P<m4>\d{2})-(?P<d4>\d{2})(?!\d)"
    r"|(?<![\d.])(?P<d5>\d{1,2})\.(?P<m5>\d{1,2})\.(?P<y5>\d{4})(?!\d)"
    r"|(?:(?P<y6>\d{4})年)?(?P<m6>\d{1,2})月(?P<d6>\d{1,2})[日号]",
    re.IGNORECASE,
)
_CODE = r"(?<![A-Za-z0-9])(?P<code>[A-Za-z]{1,4}-?\d+)(?![\d.,]*\d)"  # "E3", "F05"
_DIGITS = r"\d+(?:[.,:]\d+)*"
_SMALL = (
    "zero null", "one eins", "two zwei zwo", "three drei", "four vier", "five fünf", "six sechs", "seven sieben",
    "eight acht", "nine neun", "ten zehn", "eleven elf", "twelve zwölf", "thirteen dreizehn", "fourteen vierzehn",
    "fifteen fünfzehn", "sixteen sechzehn", "seventeen siebzehn", "eighteen achtzehn", "nineteen neunzehn",
)  # fmt: skip
_ONES = {word: value for value, words in enumerate(_SMALL) for word in words.split()}
_TENTHS = (
    "twenty zwanzig", "thirty dreißig", "forty vierzig", "fifty fünfzig", "sixty sechzig", "seventy siebzig",
    "eighty achtzig", "ninety neunzig",
)  # fmt: skip
_TENS = {word: 10 * value for value, words in enumerate(_TENTHS, start=2) for word in words.split()}
_GERMAN = {
    f"{'ein' if one == 'eins' else one}und{ten}": tens + value
    for ten, tens in _TENS.items()
    for one, value in _ONES.items()
    if 0 < value < 10
}
_ORDINALS = {
    "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10, "twelfth": 12,
    "dritte": 3, "siebte": 7, "achte": 8,
} | {f"{word}te": value for word, value in _ONES.items() if value in (2, 4, 5, 6, 9, 10, 11, 12)}  # fmt: skip
_SCALES = {"hundred": 100, "hundert": 100, "thousand": 1000, "tausend": 1000, "million": 10**6}
_SPELLED = _ONES | _TENS | _GERMAN | _ORDINALS
_WORDS = "|".join(sorted(_SPELLED | _SCALES, key=len, reverse=True))
_RUN = rf"\b(?:{_WORDS})(?:[rsnm]\b|\b)(?:(?:[\s-]+and)?[\s-]+(?:{_WORDS})\b)*"
_HAN_DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "亿": 10**8}
_HAN = "[零〇一二三四五六七八九两十百千万亿]+"
_NUMBERS = re.compile(rf"{_CODE}|(?P<digits>{_DIGITS})|(?P<run>{_RUN})|(?P<han>{_HAN})", re.IGNORECASE)
_UNIT = re.compile(r"\s*-?\s*(%|°|[€$£¥]|[\u3400-\u9fff]{1,2}|[^\W\d_]+)")
_CURRENCY = {"€": "euro", "$": "dollar", "£": "pound", "¥": "元", "%": "percent", "prozent": "percent"}
_PLURAL = re.compile(r"(?<=\w{3})(?:en|es|e|s|n)$")
# Words that stand for no number where they say "one of", and scales that are figures of speech.
_LOOSE = frozenset({"1", "0"})


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, a date's part or a code in text[start:end]; `unit` is what is counted, "" where nothing follows.

    A `loose` one may say no number at all, as "one" does in "one of them".
    """

    value: str
    unit: str
    start: int
    end: int
    loose: bool = False


def figures(text: str) -> list[Figure]:
    """Everything in a text that states a number, in order."""
    found: list[Figure] = []
    rest = text
    for match in _DATES.finditer(text):
        found += _date(match)
        rest = rest[: match.start()] + " " * (match.end() - match.start()) + rest[match.end() :]
    for match in _NUMBERS.finditer(rest):
        kind, said = match.lastgroup or "", match[0]
        if kind == "code":
            letters = said.casefold().rstrip("0123456789").rstrip("-")
            found.append(Figure(letters + said[len(letters) :].lstrip("-"), f"code {letters}", *match.span()))
            continue
        value = plain(said) if kind == "digits" else (_spelled(said) if kind == "run" else _han(said))
        found.append(Figure(value, _unit(rest, match), *match.span(), kind != "digits" and value in _LOOSE))
    return sorted(found, key=lambda figure: figure.start)


def values(text: str) -> frozenset[str]:
    """The values of all figures of a text."""
    return frozenset(figure.value for figure in figures(text))


def plain(number: str) -> str:
    """1,000 and 1.000 and 1000 are one number, so are 3.50, 3,50 and 3.5."""
    joined = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", number).replace(",", ".")
    if ":" in joined:
        return re.sub(r":00$", "", joined).lstrip("0") or "0"
    whole, _, part = joined.partition(".")
    part = part.rstrip("0") if "." not in part else part
    return (whole.lstrip("0") or "0") + (f".{part}" if part else "")


def _date(match: re.Match[str]) -> Iterator[Figure]:
    """Year, month and day, each for itself: "in May 2021" says less than "on 3 May 2021", and the same."""
    for name, said in match.groupdict().items():
        if said is not None:
            kind = {"y": "year", "m": "month", "d": "day"}[name[0]]
            number = str(_MONTH[said.casefold()] if not said.isdigit() else int(said))
            yield Figure(number if kind == "year" else f"{kind} {number}", f"date {kind}", *match.span(name))


def _unit(text: str, match: re.Match[str]) -> str:
    before = text[max(match.start() - 2, 0) : match.start()].strip()
    if before in _CURRENCY:
        return _CURRENCY[before]
    after = _UNIT.match(text, match.end())
    if after is None:
        return ""
    word = after[1].casefold()
    return _CURRENCY.get(word) or _PLURAL.sub("", word)


def _spelled(words: str) -> str:
    total, current = 0, 0
    for word in re.findall(r"\w+", words.casefold()):
        value = next((_SPELLED[each] for each in (word, word[:-1]) if each in _SPELLED), None)
        if value is not None:
            current += value
        elif word in _SCALES and _SCALES[word] == 100:
            current = max(current, 1) * 100
        elif word in _SCALES:
            total, current = total + max(current, 1) * _SCALES[word], 0
    return str(total + current)


def _han(run: str) -> str:
    if not any(character in _HAN_UNITS for character in run):
        return "".join(str(_HAN_DIGITS[character]) for character in run).lstrip("0") or "0"
    total, section, digit = 0, 0, 0
    for character in run:
        if character in _HAN_DIGITS:
            digit = _HAN_DIGITS[character]
        elif _HAN_UNITS[character] >= 10_000:
            total, section, digit = (total + max(section + digit, 1)) * _HAN_UNITS[character], 0, 0
        else:
            section, digit = section + max(digit, 1) * _HAN_UNITS[character], 0
    return str(total + section + digit)
