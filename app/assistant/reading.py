"""The gauge's reading: where every byte of the device, of RAM and of the disk is, what moves, and what still fits.

Each bar's parts add up to the whole of its memory. Figures that cannot be measured apart say that they are estimates.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from octavo.app.models.text import human_size

if TYPE_CHECKING:
    from octavo.app.assistant.probe import SystemFigures
    from octavo.app.assistant.snapshot import Snapshot
    from octavo.engine.kv.residency import TierCounters

Kind = Literal["weights", "in use", "cached", "workspace", "others", "free"]

PROGRAM_GROWS = 192 << 20
"""What the libraries of documents, of the memory and of the panel take once they are used; measured, some 170 MB."""

_RATE_S = 1.0  # over which pages moved a second are counted
_NEARLY_FULL = 0.8  # of the context
_LEAST_TOKENS = 1024
_LEAST_RAM, _LEAST_RAM_SHARE = 512 << 20, 0.05
_LEAST_DISK = 1 << 30


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of one kind; `is_estimate` where they are what is left over after everything that can be counted."""

    kind: Kind
    size: int
    is_estimate: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """One memory: its parts, which add up to `total`; of them `counted` bytes stand against the `budget`, which may be
    all of Octavo's or its KV alone (0: none); the `peak` of Octavo's part so far; `room` is how many more tokens' pages
    fit, `loose` how many of them only where cached pages give way.
    """

    name: str
    total: int
    parts: tuple[Part, ...]
    counted: int
    budget: int
    peak: int
    room: int = 0
    loose: int = 0

    @property
    def used(self) -> int:
        return sum(part.size for part in self.parts if part.kind not in ("others", "free"))

    def size(self, kind: Kind) -> int:
        return sum(part.size for part in self.parts if part.kind == kind)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What Octavo stays under in one memory, so that the figure beside that bar never exceeds it.

    `model` bytes are allocated up front or reserved, whatever is read. `program` is what Python, torch and the
    libraries take beside them in RAM: measured when the model was loaded, with what they grow by; more as soon as more
    is seen; on a GPU 0.
    `host` bytes of RAM for pages come on top of what a GPU holds.
    """

    memory: str
    model: int
    program: int = 0
    host: int = 0

    @property
    def size(self) -> int:
        return self.model + self.program

    @property
    def sentence(self) -> str:
        """The guarantee as it is, and what of it is an estimate."""
        if self.program:
            model = f"{human_size(self.model)} of it the model's"
            return f"Octavo stays under ≈{human_size(self.size)} of {self.memory}, {model}"
        below = f" and {human_size(self.host)} of RAM for pages" if self.host else ""
        return f"Octavo stays under {human_size(self.size)} on the {self.memory}{below}"


@dataclass(frozen=True, slots=True)
class Reading:
    """`up` and `down` are pages a second, to the device and to the disk; `hit_rate` None before anything was read;
    `ceiling` None without a model.
    """

    bars: tuple[Bar, ...]
    up: float
    down: float
    hit_rate: float | None
    ceiling: Ceiling | None
    warnings: tuple[str, ...]
    pss: int = 0


@dataclass(frozen=True, slots=True)
class Context:
    """Tokens of the last prompt and answer, and the most there can be."""

    used: int = 0
    limit: int = 0


class Meter:
    """Makes readings of the engine's last snapshot and of what the system says now."""

    def __init__(self) -> None:
        self._moved: deque[tuple[float, float, float]] = deque()
        self._model = ""
        self._program = 0

    def read(self, snapshot: Snapshot | None, system: SystemFigures, context: Context, now: float) -> Reading:
        """`now` is in seconds, of any clock that runs on."""
        if snapshot is None:
            self._moved.clear()
            ram = _fill("RAM", system.ram, [Part("workspace", system.rss)], _free(system), 0, 0, system.peak_rss)
            return Reading((ram,), 0.0, 0.0, None, None, _low(system, None), system.pss)
        ceiling = self._ceiling(snapshot, system)
        up, down = self._rates(snapshot, now)
        bars = (*_device(snapshot), _ram(snapshot, system), *_disk(snapshot, system))
        warnings = (*_full(context), *_low(system, snapshot), *_tight(snapshot, bars))
        return Reading(bars, up, down, snapshot.engine.hit_rate, ceiling, warnings, system.pss)

    def _ceiling(self, snapshot: Snapshot, system: SystemFigures) -> Ceiling:
        """On a CPU the model's bytes and the program's are in one RAM, and only the model's are reserved."""
        limits, engine = snapshot.limits, snapshot.engine
        if engine.cuda is not None:
            return Ceiling("GPU", limits.device, host=limits.host)
        touched = engine.most_occupied + engine.tails.in_use + engine.rows.occupied
        beside = max(system.rss - engine.weights - touched, 0)
        # Loaded just now, the model has not computed yet; later its workspace may lie in what is beside it.
        is_new = snapshot.model != self._model
        self._program = beside + PROGRAM_GROWS if is_new else max(self._program, beside - limits.workspace)
        return Ceiling("RAM", limits.device + limits.host + engine.weights, self._program)

    def _rates(self, snapshot: Snapshot, now: float) -> tuple[float, float]:
        up, down = _moved(snapshot.engine.counters, snapshot.engine.num_layers)
        if snapshot.model != self._model or (self._moved and up < self._moved[-1][1]):
            self._moved.clear()  # another engine counts from zero
        self._model = snapshot.model
        self._moved.append((now, up, down))
        while len(self._moved) > 2 and now - self._moved[1][0] >= _RATE_S:
            self._moved.popleft()
        then, up_then, down_then = self._moved[0]
        seconds = now - then
        return ((up - up_then) / seconds, (down - down_then) / seconds) if seconds > 0 else (0.0, 0.0)


def _moved(counters: TierCounters, num_layers: int) -> tuple[float, float]:
    """Pages that were brought up so far, and those that were written down."""
    up = counters.promoted_from_host + counters.promoted_from_disk + counters.streamed_layers / num_layers
    return up, float(counters.written)


def _device(snapshot: Snapshot) -> tuple[Bar, ...]:
    """The GPU's bar; without one the pool is RAM and stands there."""
    engine = snapshot.engine
    if engine.cuda is None:
        return ()
    in_use = engine.slots.in_use + engine.tails.in_use
    parts = [
        Part("weights", engine.weights),
        Part("in use", in_use),
        Part("cached", engine.slots.cached),
        # Slots that wait for pages are Octavo's, too: they were allocated when the model was loaded.
        Part("workspace", max(engine.cuda.reserved - engine.weights - in_use - engine.slots.cached, 0)),
    ]
    room, loose = _room(snapshot)
    used = sum(part.size for part in parts)
    bar = _fill("GPU", engine.cuda.total, parts, engine.cuda.free, used, snapshot.limits.device, engine.cuda.peak)
    return (_with_room(bar, room, loose),)


def _ram(snapshot: Snapshot, system: SystemFigures) -> Bar:
    """Everything of this process that lies in RAM, by kind."""
    engine = snapshot.engine
    in_use, cached, weights = engine.rows.in_use, engine.rows.cached, 0
    if engine.cuda is None:
        in_use += engine.slots.in_use + engine.tails.in_use
        cached += engine.slots.cached
        weights = min(engine.weights, system.rss)
    weights = min(weights, max(system.rss - in_use - cached, 0))
    parts = [
        Part("weights", weights, is_estimate=True),
        Part("in use", in_use),
        Part("cached", cached),
        Part("workspace", max(system.rss - weights - in_use - cached, 0), is_estimate=True),
    ]
    budget = engine.rows.total + (0 if engine.cuda is not None else engine.slots.total + engine.tails.total)
    bar = _fill("RAM", system.ram, parts, _free(system), in_use + cached, budget, system.peak_rss)
    if engine.cuda is None:
        return _with_room(bar, *_room(snapshot))
    tokens = engine.page_size / engine.page_bytes
    return _with_room(bar, int(engine.rows.free * tokens), int(engine.rows.cached * tokens))


def _disk(snapshot: Snapshot, system: SystemFigures) -> tuple[Bar, ...]:
    store, engine = snapshot.store, snapshot.engine
    if store is None or not system.disk:
        return ()
    cap = store.cap or 0
    kept = store.bytes_on_disk
    bar = _fill("NVMe", system.disk, [Part("cached", kept)], system.disk_free, kept, cap, kept)
    left = min(max(cap - store.bytes_on_disk, 0), system.disk_free)
    return (_with_room(bar, left // engine.page_bytes * engine.page_size, 0),)


def _room(snapshot: Snapshot) -> tuple[int, int]:
    """Tokens whose pages find free slots, and more where cached pages give way."""
    engine = snapshot.engine
    slots, tokens = engine.slots, engine.page_size / engine.page_bytes
    return int(slots.free * tokens), int(slots.cached * tokens)


def _with_room(bar: Bar, room: int, loose: int) -> Bar:
    return replace(bar, room=room, loose=loose)


def _fill(name: str, total: int, parts: list[Part], free: int, counted: int, budget: int, peak: int) -> Bar:
    """A bar whose parts add up: what neither Octavo nor nobody has, others have."""
    used = sum(part.size for part in parts)
    free = max(min(free, total - used), 0)
    others = Part("others", max(total - used - free, 0), is_estimate=True)
    shown = tuple(part for part in (*parts, others, Part("free", free)) if part.size)
    return Bar(name, max(total, used), shown, counted, budget, peak)


def _free(system: SystemFigures) -> int:
    """What nobody uses: the system counts mapped files, ours among them, as available."""
    return max(system.available - system.shared, 0)


def _full(context: Context) -> tuple[str, ...]:
    if not context.limit or context.used < _NEARLY_FULL * context.limit:
        return ()
    left = max(context.limit - context.used, 0)
    return (f"context {100 * context.used // context.limit}% full, {left:,} tokens left",)


def _low(system: SystemFigures, snapshot: Snapshot | None) -> tuple[str, ...]:
    """Warnings of memory that others may take first."""
    found = []
    if system.available < max(_LEAST_RAM_SHARE * system.ram, min(_LEAST_RAM, system.ram / 4)):
        found.append(f"only {human_size(system.available)} of RAM are free; close other programs")
    if snapshot is not None and snapshot.store is not None and system.disk and system.disk_free < _LEAST_DISK:
        found.append(f"only {human_size(system.disk_free)} are free on the disk of the page store")
    return tuple(found)


def _tight(snapshot: Snapshot, bars: tuple[Bar, ...]) -> tuple[str, ...]:
    """A warning where even the tier with the most room holds less than an answer takes."""
    room = max((bar.room + bar.loose for bar in bars), default=0)
    if room >= min(_LEAST_TOKENS, snapshot.engine.context // 8):
        return ()
    return (f"pages of only {room:,} more tokens fit; raise vram, ram or disk",)
