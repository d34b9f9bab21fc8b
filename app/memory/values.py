"""Whether a phrase can be the value of a slot at all: "I live with my parents" names no place, "my job is fun" no job.

What does not fit is left to a slot that holds several values, so that it never takes the place of something else.
"""

from __future__ import annotations

import re

from octavo.app.memory.lexicon import load_lexicon
from octavo.app.memory.slots import Frame

_PLACES = frozenset(("europe", "asia", "usa", "canada", "place"))
_ARTICLE = re.compile(r"^(?:an?|the|my|our|his|her|their|this|that|some|one|two|three)\b", re.IGNORECASE)
_CAPITAL = re.compile(
    r"^(?:(?:the|downtown|central|north|south|east|west|northern|southern|old|greater) )?[^\W\d_a-zß-öø-ÿ]"
)
_HAN = re.compile("[\u3400-\u9fff]")
_HAN_DWELLING = re.compile("个|公寓|房子|宿舍|附近|家里|学校|旁边|一起|楼")
_MONTH = re.compile(r"\d|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)|月", re.IGNORECASE)
_NOWHERE = frozenset(("家", "家里", "外面", "晚上", "办公室", "公司", "学校", "周末", "线上"))
_WORKPLACE = re.compile(
    r"^(?:an?|the) (?:[\w-]+ )*(?:bank|hospital|school|university|startup|start-up|company|firm|agency|restaurant|"
    r"shop|store|library|clinic|factory|hotel|museum|ministry|government|bakery|café|cafe|studio|lab|laboratory|office|ngo|"
    r"pharmacy|supermarket|airport|airline|studio|practice|kindergarten|theatre|theater)$",
    re.IGNORECASE,
)


def fits(frame: Frame, groups: dict[str, str | None]) -> bool:
    """True if the phrase that a frame found can be a value of its slot."""
    phrase = (groups.get("v") or "").strip(" ,.;!\"'")
    match frame.slot.name:
        case "home" | "origin":
            return _is_place(phrase)
        case "employer":
            if _HAN.search(phrase):
                return phrase not in _NOWHERE
            return bool(_CAPITAL.match(phrase) or _WORKPLACE.match(phrase))
        case "name" | "emergency_contact":
            return bool(_CAPITAL.match(phrase) or _HAN.search(phrase))
        case "birthday":
            return _MONTH.search(phrase) is not None
        case "deadline":
            return bool(_MONTH.search(phrase) or re.search(r"day\b|week|month|noon|周|星期|天", phrase))
        case "job":
            return not frame.whole or _ARTICLE.match(phrase) is not None or _HAN.search(phrase) is not None
        case "contact":
            return bool(re.search(r"[\d@]", phrase)) or not re.search(
                "phone|number|mobile|mail|电话|号|邮", groups.get("k") or ""
            )
        case "marital":
            return not re.search(r"engaged (?:in|with)|single-", groups.get("v") or "")
        case _:
            return True


def _is_place(phrase: str) -> bool:
    if _HAN.search(phrase):
        return not _HAN_DWELLING.search(phrase)
    if _ARTICLE.match(phrase) and not _CAPITAL.match(phrase):
        return False
    lexicon = load_lexicon()
    known = lexicon.find(phrase)
    if known is not None:
        return bool(lexicon.closure(known) & _PLACES)
    return _CAPITAL.match(phrase) is not None
