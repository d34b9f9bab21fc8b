"""Byte sizes as people write them: a number and a unit, never a number alone."""

from __future__ import annotations

import re
from decimal import Decimal

ACCEPTED = "a size with its unit, such as 512MB or 8GB (powers of 1000), 512MiB or 8GiB (powers of 1024)"
UNIT_MISSING = "a number alone leaves open whether bytes, MB or GB are meant"

_UNITS = {"B": 1}
_UNITS |= {f"{prefix}B": 1000**power for power, prefix in enumerate("kMGTP", start=1)}
_UNITS |= {f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGTP", start=1)}
_FACTORS = {unit.upper(): factor for unit, factor in _UNITS.items()}
_SIZE = re.compile(r"\s*([+-]?)([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([A-Za-z]*)\s*")
_LIMIT = 2**63


def parse_size(text: str) -> int:
    """Bytes of a size such as `8GB` (8 * 10^9), `8GiB` (8 * 2^30) or `1.5 gib`; a part of a byte is dropped.

    Raises ValueError with the reason, as a clause, for a number without a unit, an unknown unit, and a size
    that is not above zero or too large to address.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("it is not a number and a unit")
    sign, number, unit = match.groups()
    if not unit:
        raise ValueError(UNIT_MISSING)
    factor = _FACTORS.get(unit.upper())
    if factor is None:
        raise ValueError(f"{unit} is not a unit")
    size = int(Decimal(number) * factor)
    if sign == "-" or size < 1:
        raise ValueError("it must be more than zero")
    if size >= _LIMIT:
        raise ValueError("it is more than a computer can address")
    return size


def format_size(count: int) -> str:
    """The shortest text that `parse_size` reads as exactly `count` bytes: 6442450944 -> "6GiB"."""
    texts = [f"{count // factor}{unit}" for unit, factor in reversed(_UNITS.items()) if count % factor == 0]
    return min(texts, key=len)
