"""When something is due: which project a deadline belongs to, and its day."""

from __future__ import annotations

import re
from datetime import date

from octavo.app.memory.claims import Claim
from octavo.app.memory.filling import Said
from octavo.app.memory.lexicon import thing
from octavo.app.memory.times import back, find_time


def deadline(match: re.Match[str], context: Said, possessive: bool) -> Claim:
    """The claim of a frame of the slot `deadline`; `possessive`: the clause began with the project's name."""
    key, subject = match.groupdict().get("k"), context.subject
    if key:
        owner = f"project:{thing(key).value}".replace("project:project ", "project:")
    elif possessive:
        owner = subject.replace("person:", "project:")
    else:
        owner = subject if subject.startswith("project:") else "project:the project"
    return Claim(owner, "deadline", _date_value(match["v"], context.day))


def _date_value(text: str, day: date) -> str:
    found = find_time(text if re.match(r"(?:on|in|by) ", text) else f"on {text}", day) or find_time(f"in {text}", day)
    if found is None or found.interval.start is None:
        return text.casefold()
    start = found.interval.start
    if start < day and not re.search(r"\d{4}", text):
        start = back(start, -1, "year")  # a deadline without a year is the next such day
    return start.isoformat()
