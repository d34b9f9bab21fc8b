"""The conversation on the screen, and the answer that is being written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.widgets import Static

from octavo.app.tui.parts import Part, how_many, parts_of
from octavo.app.tui.pieces import Cut, Piece, PieceSplitter
from octavo.app.tui.widgets.window import MOST, TAIL, PartsWindow

if TYPE_CHECKING:
    from octavo.storage.conversations import StoredMessage


class Transcript(PartsWindow):
    """Shows messages. Where there are none, `greeting` stands in the middle."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._splitter = PieceSplitter()
        self._greeting = ""

    def compose(self) -> ComposeResult:
        yield Static("", id="greeting", markup=False)

    def greet(self, text: str) -> None:
        """Say what is possible here, as long as there are no messages."""
        self._greeting = text
        self._show_greeting()

    async def show(self, parts: Sequence[Part]) -> None:
        """Show another conversation, at its end."""
        async with self.turn:
            self._parts = list(parts)
            await self._mount_tail()
            self._show_greeting()
        self.anchor()

    async def add(self, parts: Sequence[Part]) -> None:
        """Add a message at the end, and go there."""
        async with self.turn:
            self._splitter = PieceSplitter()
            had_end = self.has_end
            self._parts += parts
            if had_end:
                await self._mount_after(len(parts))
                await self._drop_first()
                self.call_after_refresh(self.fill)
            else:
                await self._mount_tail()
            self._show_greeting()
        self.anchor()

    async def truncate(self, message_id: str) -> None:
        """Take away this message and all that follow."""
        async with self.turn:
            keep = next((place for place, part in enumerate(self._parts) if part.message.id == message_id), None)
            if keep is not None:
                await self._cut(keep)
            self._show_greeting()

    async def _cut(self, keep: int) -> None:
        """Keep the first parts only; some of them are mounted afterwards."""
        place = max(keep - self._first, 0)
        gone, self._entries = self._entries[place:], self._entries[:place]
        self._parts = self._parts[:keep]
        await self._drop(gone)
        if not self._entries:
            self._first = keep
            await self._mount_tail()

    def _show_greeting(self) -> None:
        self.query_one("#greeting", Static).update("" if self._parts else self._greeting)

    # The answer being written

    async def stream(self, text: str) -> None:
        """Add text to the last message."""
        async with self.turn:
            if not self._parts or not text:
                return
            had_end, follows = self.has_end, self.is_at_end
            place = len(self._parts) - 1
            known = len(self._parts[place].piece.text)
            self._grow(text)
            if not had_end:
                return
            entry, part = self._entries[-1], self._parts[place]
            await entry.write(part.piece.text[known:], part)
            if place < len(self._parts) - 1:
                await entry.end_stream()
                entry.change(part)
                await self._mount_new(follows=follows)

    def _grow(self, text: str) -> None:
        """Add text to the parts, which may make more of them."""
        for piece in self._splitter.feed(text):
            last = self._parts[-1]
            if isinstance(piece, Cut):
                ended = replace(last.piece, text=last.piece.text + piece.close, cut_end=bool(piece.close))
                self._parts[-1] = replace(last, is_last=False, piece=ended)
                begun = Piece(piece.reopen, cut_start=bool(piece.reopen))
                self._parts.append(replace(last, index=last.index + 1, piece=begun))
            else:
                self._parts[-1] = replace(last, piece=replace(last.piece, text=last.piece.text + piece))

    async def _mount_new(self, *, follows: bool) -> None:
        """Mount parts that were added at the end, as far as the reader may want them now."""
        new = self._parts[self._end :]
        if follows and sum(part.cost for part in new) > TAIL:
            await self._mount_tail()
        elif follows:
            await self._mount_after(len(new))
            await self._drop_first()
        else:
            room = MOST - sum(entry.part.cost for entry in self._entries)
            await self._mount_after(how_many(new, room) if room > 0 else 0)

    async def finish(self, message: StoredMessage) -> None:
        """The last message is complete: show how it ended, and its stored text where it differs."""
        async with self.turn:
            if self.has_end and self._entries:
                await self._entries[-1].end_stream()
            final = parts_of(message)
            old = [part for part in self._parts if part.message.id == message.id]
            # An answer from documents is shown with its citations as links, which were not known while it came.
            is_same = [part.piece.text for part in final] == [part.piece.text for part in old]
            if not is_same or "documents" in message.record:
                with self.app.batch_update():
                    await self._cut(len(self._parts) - len(old))
                    self._parts += final
                    await self._mount_tail()
            self._update(lambda part: replace(part, message=message) if part.message.id == message.id else part)

    # What is known about messages

    def set_branches(self, branches: Mapping[str, tuple[str, ...]]) -> None:
        """Which messages have siblings; those not named stay as they are."""
        self._update(lambda part: replace(part, branches=branches.get(part.message.id, part.branches)))

    def set_left_out(self, reasons: Mapping[str, str]) -> None:
        """Dim exactly the messages that were not part of the last prompt: id -> reason."""
        self._update(lambda part: replace(part, left_out=reasons.get(part.message.id, "")))

    def replace_message(self, old_id: str, message: StoredMessage) -> None:
        """A message that was shown before it was saved now has its row."""
        self._update(lambda part: replace(part, message=message) if part.message.id == old_id else part)

    def _update(self, change: Callable[[Part], Part]) -> None:
        for place, part in enumerate(self._parts):
            new = change(part)
            if new == part:
                continue
            self._parts[place] = new
            if self._first <= place < self._end:
                self._entries[place - self._first].change(new)
