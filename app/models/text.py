"""Numbers as people read them."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB")


def human_size(count: int) -> str:
    """`count` bytes in decimal units, three figures: 491400064 -> "491 MB", 4683000000 -> "4.68 GB"."""
    value = float(count)
    unit = 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value /= 1000
        unit += 1
    if unit == 0:
        return f"{count} B"
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {_UNITS[unit]}"


def human_tokens(count: int) -> str:
    """`count` tokens in thousands where that is shorter: 32768 -> "32K", 8192 -> "8K", 1000 -> "1000"."""
    return f"{count // 1024}K" if count >= 1024 and count % 1024 == 0 else str(count)


def human_parameters(count: int) -> str:
    """`count` parameters: 494032768 -> "494M", 7615616512 -> "7.6B"."""
    return f"{count / 1e9:.1f}B" if count >= 999_500_000 else f"{count / 1e6:.0f}M"
