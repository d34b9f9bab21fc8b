"""Small plots in text: a row of bars as high as its numbers, and a bar of named parts."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

_HEIGHTS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """The newest of the values, oldest first, from nothing to their largest; a missing one is a gap."""
    shown = values[-width:]
    most = max(shown, default=0.0)
    if most <= 0:
        return "·" * len(shown)
    return "".join(
        " " if value <= 0 else _HEIGHTS[min(int(value / most * len(_HEIGHTS)), len(_HEIGHTS) - 1)] for value in shown
    )


def parts_bar(parts: Sequence[tuple[str, str, int]], total: int, width: int) -> Content:
    """Parts (shape, style, amount) of a total; what is left over is dots."""
    if total <= 0:
        return Content("")
    pieces, filled, amount = [], 0, 0
    for shape, style, size in parts:
        amount += size
        end = min(max(round(amount * width / total), filled + (1 if size else 0)), width)
        pieces.append(Content.styled(shape * (end - filled), style))
        filled = end
    return Content("").join([*pieces, Content.styled("·" * (width - filled), "$foreground 35%")])
