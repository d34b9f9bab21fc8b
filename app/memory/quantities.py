"""Numbers with their units, in English and Chinese, brought to one unit a dimension so that they can be compared."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_WORDS = dict(
    zip(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        ],
        range(21),
        strict=True,
    )
) | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "dozen": 12}
_HAN_DIGITS = dict(zip("零一二三四五六七八九", range(10), strict=True)) | {"两": 2, "〇": 0}
_HAN_POWERS = {"十": 10, "百": 100, "千": 1000, "万": 10_000}

# unit -> (dimension, factor to the dimension's base unit, ways to write it)
_UNITS: dict[str, tuple[str, float, str]] = {
    "mcg": ("mass", 1e-3, "mcg µg μg microgram micrograms 微克"),
    "mg": ("mass", 1.0, "mg milligram milligrams 毫克"),
    "g": ("mass", 1e3, "g gram grams 克"),
    "kg": ("mass", 1e6, "kg kgs kilo kilos kilogram kilograms 公斤 千克"),
    "jin": ("mass", 5e5, "斤"),
    "lb": ("mass", 453592.37, "lb lbs pound pounds 磅"),
    "mm": ("length", 1e-3, "mm millimetre millimetres millimeter millimeters 毫米"),
    "cm": ("length", 1e-2, "cm centimetre centimetres centimeter centimeters 厘米 公分"),
    "m": ("length", 1.0, "m metre metres meter meters 米"),
    "km": ("length", 1e3, "km kms kilometre kilometres kilometer kilometers k 公里 千米"),
    "mi": ("length", 1609.344, "mile miles mi 英里"),
    "ml": ("volume", 1.0, "ml millilitre millilitres milliliter milliliters 毫升"),
    "l": ("volume", 1e3, "l litre litres liter liters 升"),
    "second": ("time", 1 / 60, "second seconds sec secs 秒"),
    "minute": ("time", 1.0, "minute minutes min mins 分钟"),
    "hour": ("time", 60.0, "hour hours hr hrs h 小时"),
    "day": ("time", 1440.0, "day days 天 日"),
    "week": ("time", 10_080.0, "week weeks 周 星期"),
    "month": ("time", 43_830.0, "month months 个月 月"),
    "year": ("time", 525_960.0, "year years yr yrs 年 岁"),
    "percent": ("share", 1.0, "% percent 百分之"),
    "usd": ("usd", 1.0, "$ dollar dollars usd 美元"),
    "eur": ("eur", 1.0, "€ euro euros eur 欧元"),
    "gbp": ("gbp", 1.0, "£ gbp"),
    "cny": ("cny", 1.0, "¥ yuan rmb cny 元 块 块钱 人民币"),
    "unit": ("dose", 1.0, "iu unit units 单位"),
    "gb": ("bytes", 1.0, "gb gib"),
}
_NAMES = {name: (dimension, factor) for dimension, factor, names in _UNITS.values() for name in names.split()}
_FREQUENCIES = {"day": 7.0, "week": 1.0, "month": 7 / 30.4375, "year": 7 / 365.25, "天": 7.0, "日": 7.0, "周": 1.0}
_FREQUENCIES |= {"星期": 1.0, "月": 7 / 30.4375, "个月": 7 / 30.4375, "年": 7 / 365.25}

_NUMBER = r"\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_WORD_NUMBER = "|".join(
    sorted(
        (f"{a}[- ]{b}" for a in ["twenty", "thirty", "forty", "fifty", "sixty"] for b in list(_WORDS)[1:10]), key=len
    )
)
_ENGLISH_NUMBER = rf"{_WORD_NUMBER}|{'|'.join(sorted(_WORDS, key=len, reverse=True))}|half an?|an?"
_HAN_NUMBER = "[零〇一二两三四五六七八九十百千万]+|半"
_NAMED_UNIT = "|".join(re.escape(name) for name in sorted(_NAMES, key=len, reverse=True))
_MEASURE = re.compile(
    rf"(?P<before>[$€£¥])\s?(?P<amount>{_NUMBER})(?P<thousand>k\b)?"
    rf"|百分之(?P<percent>{_NUMBER}|{_HAN_NUMBER})"
    rf"|(?:(?P<number>{_NUMBER})|\b(?P<word>{_ENGLISH_NUMBER})|"
    rf"(?P<han>{_HAN_NUMBER}))[\s-]?(?P<unit>{_NAMED_UNIT})(?![a-z])",
    re.IGNORECASE,
)
_FREQUENCY = re.compile(
    rf"\b(?:(?P<word>once|twice|thrice)|(?P<number>{_NUMBER}|{_ENGLISH_NUMBER})\s(?P<what>[a-z]+(?: of [a-z]+)?))"
    r"\s(?:a|an|per|each|every)\s(?P<period>day|week|month|year)\b|\b(?P<every>daily|weekly|monthly|every (?:single "
    r")?day|every week)\b"
    r"|每(?P<han_period>天|日|周|星期|个?月|年)(?:[^0-9零一二两三四五六七八九十]{0,4}(?P<han>[0-9]+|"
    r"[一二两三四五六七八九十]+)[次杯片支回])?",
    re.IGNORECASE,
)
_COUNT = re.compile(
    rf"(?<![\w.])(?P<number>{_NUMBER})(?![\w.])|\b(?P<word>{_WORD_NUMBER}|{'|'.join(_WORDS)})\b"
    r"|(?P<han>[零〇一二两三四五六七八九十百千万]+)(?=[个只条位名台辆本间])|"
    r"(?<=\D)(?P<bare>\d+)(?=[个只条位名台辆本间])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """`number` in the base unit of `dimension`: mg, m, ml, minutes, % or a currency; "" counts things."""

    number: float
    dimension: str

    def equals(self, other: Quantity) -> bool:
        return self.dimension == other.dimension and math.isclose(self.number, other.number, rel_tol=1e-6)


def number_of(text: str) -> float | None:
    """The number a numeral means: "1,200", "twenty-five", "a", "三十五"; None if it is none."""
    text = text.strip().casefold().replace(",", "")
    try:
        return float(text)
    except ValueError:
        pass
    if text in ("a", "an"):
        return 1.0
    if text in ("半", "half a", "half an"):
        return 0.5
    parts = [_WORDS.get(part) for part in re.split(r"[- ]", text)]
    if None not in parts:
        return float(sum(part for part in parts if part is not None))
    return _han_number(text)


def _han_number(text: str) -> float | None:
    if not text or any(c not in _HAN_DIGITS and c not in _HAN_POWERS for c in text):
        return None
    if all(c in _HAN_DIGITS for c in text):
        return float("".join(str(_HAN_DIGITS[c]) for c in text))
    total, digit = 0, 0
    for character in text:
        if character in _HAN_DIGITS:
            digit = _HAN_DIGITS[character]
        elif character == "万":
            total, digit = (total + digit) * 10_000, 0
        else:
            total, digit = total + (digit or 1) * _HAN_POWERS[character], 0
    return float(total + digit)


def measures(text: str) -> list[tuple[Quantity, tuple[int, int]]]:
    """Every number with a unit, and where it stands."""
    found = []
    for match in _MEASURE.finditer(text):
        if match["before"]:
            dimension, factor = _NAMES[match["before"]]
            number = number_of(match["amount"])
            factor *= 1000 if match["thousand"] else 1
        elif match["percent"]:
            dimension, factor, number = "share", 1.0, number_of(match["percent"])
        else:
            dimension, factor = _NAMES[match["unit"].casefold()]
            number = number_of(match["number"] or match["word"] or match["han"])
        if number is not None:
            found.append((Quantity(number * factor, dimension), match.span()))
    return found


def frequency(text: str) -> tuple[float, tuple[int, int]] | None:
    """Times a week of "twice a day", "3 cups a week", "daily", "每天两次", and where it stands."""
    match = _FREQUENCY.search(text)
    if match is None:
        return None
    if match["every"]:
        period = match["every"].casefold()
        times = {"daily": 7.0, "weekly": 1.0, "monthly": 7 / 30.4375, "every week": 1.0}.get(period, 7.0)
        return times, match.span()
    if match["han_period"]:
        count = number_of(match["han"]) if match["han"] else 1.0
        return (count or 1.0) * _FREQUENCIES[match["han_period"]], match.span()
    if match["word"]:
        count = {"once": 1.0, "twice": 2.0, "thrice": 3.0}[match["word"].casefold()]
    else:
        count = number_of(match["number"]) or 1.0
    return count * _FREQUENCIES[match["period"].casefold()], match.span()


def counts(text: str) -> list[tuple[float, tuple[int, int]]]:
    """Bare numbers, as in "3 cats" or "两只猫", and where they stand."""
    found = []
    for match in _COUNT.finditer(text):
        number = number_of(match["number"] or match["word"] or match["han"] or match["bare"])
        if number is not None:
            found.append((number, match.span()))
    return found
