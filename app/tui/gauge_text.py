"""The gauge as text: bars whose parts differ in shape as well as in colour, and what stands beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from octavo.app.models.text import human_size

if TYPE_CHECKING:
    from octavo.app.assistant.reading import Bar, Context, Kind, Reading

# Shape, colour and name of each kind.
LOOKS: dict[Kind, tuple[str, str, str]] = {
    "weights": ("█", "$secondary", "weights"),
    "in use": ("▓", "$primary", "KV in use"),
    "cached": ("▒", "$success", "KV cached"),
    "workspace": ("░", "$accent", "workspace"),
    "others": ("╱", "$foreground 45%", "others"),
    "free": ("·", "$foreground 35%", "free"),
}
_NAMES = {("NVMe", "cached"): "pages", ("RAM", "workspace"): "program"}
_LONG = 150  # cells from which the last row has room for whole sentences
_SHORTEST = 12  # cells of a bar whose parts can be told apart
PEAK = "│"
_PEAK_STYLE = "bold $warning"


def short_size(count: int) -> str:
    """Bytes in five cells at most: "912M", "1.73G"."""
    value, unit = human_size(count).split()
    return f"{value}{unit[0].upper() if unit != 'B' else 'B'}"


def cells(bar: Bar, width: int) -> list[Kind]:
    """What each of `width` cells of a bar shows; every part that is there has one cell at least."""
    if not bar.total or width <= 0:
        return []
    exact = [part.size * width / bar.total for part in bar.parts]
    counts = [max(int(share), 1) for share in exact]
    places = range(len(counts))
    while sum(counts) < width:
        counts[max(places, key=lambda at: exact[at] - counts[at])] += 1
    while sum(counts) > width and max(counts) > 1:
        counts[max((at for at in places if counts[at] > 1), key=lambda at: counts[at] - exact[at])] -= 1
    return [part.kind for part, count in zip(bar.parts, counts, strict=True) for _ in range(count)][:width]


def bar_content(bar: Bar, width: int) -> Content:
    """The bar with the mark of its peak, where that lies beyond what is used now."""
    kinds = cells(bar, width)
    peak = min(round(bar.peak * width / bar.total), width - 1) if bar.total else -1
    own = sum(kind not in ("others", "free") for kind in kinds)
    pieces: list[tuple[str, str]] = []
    for at, kind in enumerate(kinds):
        shape, style, _ = LOOKS[kind]
        if at == peak and peak >= own:
            shape, style = PEAK, _PEAK_STYLE
        if pieces and pieces[-1][1] == style:
            pieces[-1] = pieces[-1][0] + shape, style
        else:
            pieces.append((shape, style))
    return Content.assemble(*pieces)


def compact(reading: Reading, context: Context, tokens_per_s: float, width: int) -> Content:
    """Two rows: all bars beside each other, then what moves and what fits; a warning takes the second row's start."""
    texts = [f" {against(bar)}" for bar in reading.bars]
    names = [f"{bar.name} " for bar in reading.bars]
    gaps = 2 * (len(reading.bars) - 1)
    room = width - gaps - sum(len(name) + len(text) for name, text in zip(names, texts, strict=True))
    each = max(room // max(len(reading.bars), 1), 4)
    row = Content("  ").join(
        Content.assemble((name, "bold"), bar_content(bar, each), (text, "$foreground 80%"))
        for name, bar, text in zip(names, reading.bars, texts, strict=True)
    )
    second = _second(reading, width, _briefly(reading))
    return Content("\n").join([row.truncate(width), second])


def wide(reading: Reading, context: Context, tokens_per_s: float, width: int) -> Content:
    """A row for each bar with its parts named, then what moves and what fits."""
    name_width = max(len(bar.name) for bar in reading.bars) + 1
    most = width - name_width - _SHORTEST
    besides = [_beside(bar, reading.pss if bar.name == "RAM" else 0, most) for bar in reading.bars]
    bar_width = min(width // 4, width - name_width - max(beside.cell_length for beside in besides))
    rows = [
        Content.assemble((bar.name.ljust(name_width), "bold"), bar_content(bar, bar_width), beside)
        for bar, beside in zip(reading.bars, besides, strict=True)
    ]
    long = [*_traffic(reading), reading.ceiling.sentence if reading.ceiling else "", fits(reading)]
    texts = [*_about(context, tokens_per_s), *(long if width >= _LONG else _briefly(reading))]
    return Content("\n").join([*rows, _second(reading, width, texts)])


def _about(context: Context, tokens_per_s: float) -> list[str]:
    parts = [f"context {context.used:,}/{context.limit:,}"] if context.limit else []
    return [*parts, f"{tokens_per_s:.1f} tok/s"] if tokens_per_s else parts


def against(bar: Bar) -> str:
    """What Octavo has of a memory, against its budget, or its KV's alone where only that has one."""
    if not bar.budget:
        return f"{short_size(bar.used)}/{short_size(bar.total)}"
    counted = f"{short_size(bar.counted)}/{short_size(bar.budget)}"
    return counted if bar.counted == bar.used else f"{short_size(bar.used)} KV {counted}"


def _beside(bar: Bar, pss: int, width: int) -> Content:
    """The figures of a bar and as many names of its parts, each whole, as there is room for; others' come last."""
    pieces = []
    for part in sorted(bar.parts, key=lambda part: part.kind == "others"):
        shape, style, name = LOOKS[part.kind]
        about = "≈" if part.is_estimate else ""
        # On a CPU the rest is mostly the program itself: Python, torch and the libraries.
        name = _NAMES.get((bar.name, part.kind), name)
        pieces.append(Content.assemble((shape, style), f" {name} {about}{short_size(part.size)}"))
    pieces.insert(-1, Content.assemble((PEAK, _PEAK_STYLE), f" peak {short_size(bar.peak)}"))
    row = Content.styled(f" {against(bar)}", "bold")
    for piece in [*pieces, *([Content(f"PSS {short_size(pss)}")] if pss else [])]:
        longer = Content("  ").join([row, piece])
        row = longer if longer.cell_length <= width else row
    return row


def _traffic(reading: Reading) -> list[str]:
    """Pages a second to the device and to the disk, and how many reads found their page on the device."""
    moves = f"↑{reading.up:.0f} ↓{reading.down:.0f} pages/s"
    return [moves, f"hits {100 * reading.hit_rate:.0f}%"] if reading.hit_rate is not None else [moves]


def _briefly(reading: Reading) -> list[str]:
    """The same for a row of 80 cells."""
    room = ", ".join(f"{bar.name} {human_count(bar.room + bar.loose)}" for bar in reading.bars if bar.room + bar.loose)
    return [*_traffic(reading), _ceiling(reading), f"room {room} tok" if room else ""]


def _ceiling(reading: Reading) -> str:
    """In the unit of the figure that stands beside the bar, which must never exceed it."""
    ceiling = reading.ceiling
    if ceiling is None:
        return ""
    whose = "" if ceiling.memory == reading.bars[0].name == "RAM" else f"{ceiling.memory} "
    return f"{whose}stays under {'≈' if ceiling.program else ''}{short_size(ceiling.size)}"


def human_count(number: int) -> str:
    """Tokens in four cells at most: "8320", "2.0M"."""
    if number < 10_000:
        return str(number)
    return f"{number / 1e3:.0f}K" if number < 1_000_000 else f"{number / 1e6:.1f}M"


def _second(reading: Reading, width: int, texts: Sequence[str]) -> Content:
    """The row of numbers, as many as there is room for; warnings come first."""
    pieces = [Content.styled(f"⚠ {warning}", "bold $warning") for warning in reading.warnings]
    pieces += [Content.styled(text, "$foreground 80%") for text in texts if text]
    row = Content("")
    for piece in pieces:
        longer = Content(" · ").join([row, piece]) if row.cell_length else piece
        if longer.cell_length > width:
            continue
        row = longer
    return row if row.cell_length or not pieces else pieces[0].truncate(width, ellipsis=True)


def fits(reading: Reading) -> str:
    """The forecast: how many more tokens fit on each tier."""
    parts = [f"{bar.name} {bar.room + bar.loose:,}" for bar in reading.bars if bar.room + bar.loose]
    return f"room for {', '.join(parts)} tokens" if parts else ""
