"""A scrolling list of parts of which only those near the reader are widgets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from textual.containers import VerticalScroll
from textual.message import Message

from octavo.app.tui.collector import forget_painted
from octavo.app.tui.parts import Part, how_many
from octavo.app.tui.widgets.entry import Entry

TAIL = 8_000  # mounted when a conversation opens; see Part.cost for the unit
BATCH = 4_000  # mounted at once when one scrolls on
MOST = 24_000  # mounted at any time
_NEAR = 4  # rows from an end at which more is mounted


class PartsWindow(VerticalScroll, can_focus=False):
    """Parts `first` to `end` are mounted, each as an Entry. Changes run one after the other, under `turn`."""

    @dataclass
    class Mounted(Message):
        """Entries of these messages came onto the screen."""

        message_ids: tuple[str, ...]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.turn = asyncio.Lock()
        self._parts: list[Part] = []
        self._entries: list[Entry] = []
        self._first = 0
        self._is_loading = False

    @property
    def parts(self) -> Sequence[Part]:
        """All of them, mounted or not."""
        return self._parts

    @property
    def entries(self) -> Sequence[Entry]:
        """The mounted ones, top to bottom."""
        return self._entries

    @property
    def _end(self) -> int:
        return self._first + len(self._entries)

    @property
    def has_end(self) -> bool:
        """True if the last part is mounted."""
        return self._end == len(self._parts)

    @property
    def is_at_end(self) -> bool:
        """True if the reader is at the end of what is mounted."""
        return self.scroll_y >= self.max_scroll_y - _NEAR

    def on_mount(self) -> None:
        self.anchor()

    def on_resize(self) -> None:
        self.fill()

    def fill(self) -> None:
        """Mount more where what is mounted does not fill the screen, or one could not scroll to the rest.

        A screen that is covered is not laid out, and fills up when it comes back.
        """
        if self._first > 0 and self.max_scroll_y <= _NEAR and not self._is_loading and self.screen.is_current:
            self._load(self._load_older)

    async def to_start(self) -> None:
        """Show the first parts."""
        async with self.turn:
            if self._first > 0:
                await self._mount_only(0, how_many(self._parts, TAIL))
        self.scroll_home(animate=False)

    async def to_end(self) -> None:
        """Show the last parts, and stay at the end while more comes."""
        async with self.turn:
            if not self.has_end:
                await self._mount_tail()
        self.anchor()

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        if self._is_loading or round(old) == round(new):
            return
        if new < old and new <= _NEAR and self._first > 0:
            self._load(self._load_older)
        elif new > old and self.max_scroll_y - new <= _NEAR and not self.has_end:
            self._load(self._load_newer)

    def _load(self, load: Callable[[], Awaitable[tuple[Entry, float] | None]]) -> None:
        """Mount more in a task of its own; what is on the screen stays where it is."""
        self._is_loading = True

        async def run() -> None:
            mark = None
            try:
                async with self.turn:
                    mark = await load()
            finally:
                # Not awaited under `turn`: the refresh may need the one who waits for it.
                if not self.call_after_refresh(self._loaded, mark):
                    self._is_loading = False

        self.run_worker(run(), group="window")

    def _loaded(self, mark: tuple[Entry, float] | None) -> None:
        """The new layout is known: bring the marked entry back to its row."""
        self._is_loading = False
        if mark is not None and mark[0].is_attached:
            entry, row = mark
            self.scroll_to(y=entry.virtual_region.y - row, animate=False, immediate=True)
        self.fill()

    async def _load_older(self) -> tuple[Entry, float] | None:
        if self._first == 0 or not self._entries:
            return None
        mark = self._mark(self._entries[0])
        number = how_many(reversed(self._parts[: self._first]), BATCH)
        with self.app.batch_update():
            await self._mount_before(number)
            await self._drop_last()
        return mark

    async def _load_newer(self) -> tuple[Entry, float] | None:
        if self.has_end or not self._entries:
            return None
        mark = self._mark(self._entries[-1])
        with self.app.batch_update():
            await self._mount_after(how_many(self._parts[self._end :], BATCH))
            await self._drop_first()
        return mark

    def _mark(self, entry: Entry) -> tuple[Entry, float] | None:
        """An entry and its row on the screen; None at the end, where the anchor holds."""
        if self.has_end and self.max_scroll_y - self.scroll_y < 1:
            return None
        return entry, entry.virtual_region.y - self.scroll_y

    # Mounting; called under `turn`

    async def _mount_tail(self) -> None:
        number = how_many(reversed(self._parts), TAIL)
        await self._mount_only(len(self._parts) - number, number)

    async def _mount_only(self, first: int, number: int) -> None:
        with self.app.batch_update():
            await self._drop(self._entries)
            self._entries, self._first = [], first
            await self._mount_after(number)
        self.call_after_refresh(self.fill)

    async def _mount_after(self, number: int) -> None:
        new = [Entry(part) for part in self._parts[self._end : self._end + number]]
        self._entries = [*self._entries, *new]
        await self._mount(new, before=None)

    async def _mount_before(self, number: int) -> None:
        new = [Entry(part) for part in self._parts[self._first - number : self._first]]
        mark = self._entries[0]
        self._entries = [*new, *self._entries]
        self._first -= number
        await self._mount(new, before=mark)

    async def _mount(self, entries: Sequence[Entry], before: Entry | None) -> None:
        if entries:
            await self.mount_all(entries, before=before)
            self.post_message(self.Mounted(tuple(dict.fromkeys(entry.part.message.id for entry in entries))))

    async def _drop_first(self) -> None:
        """Unmount what is too much at the start."""
        number = self._surplus(self._entries)
        gone, self._entries = self._entries[:number], self._entries[number:]
        self._first += number
        await self._drop(gone)

    async def _drop_last(self) -> None:
        """Unmount what is too much at the end."""
        number = self._surplus(self._entries[::-1])
        keep = len(self._entries) - number
        gone, self._entries = self._entries[keep:], self._entries[:keep]
        await self._drop(gone)

    @staticmethod
    def _surplus(entries: Sequence[Entry]) -> int:
        """How many from the beginning of `entries` must go, so that the rest is not too much; two may always stay."""
        kept = how_many((entry.part for entry in reversed(entries)), MOST)
        return len(entries) - max(kept, min(2, len(entries)))

    async def _drop(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            await entry.end_stream()
        if entries:
            await self.remove_children(list(entries))
            forget_painted()
