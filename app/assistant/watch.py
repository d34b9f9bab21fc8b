"""What the engine's thread does between its steps and while it is idle: measure, show pages, let idle ones go."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from octavo.app.assistant.snapshot import Snapshot, take_snapshot

if TYPE_CHECKING:
    from octavo.app.assistant.chat import Chat
    from octavo.engine.inspection import PageDetail, PageMap
    from octavo.storage.pages import Store

SNAPSHOT_S = 0.2
CHECK_S = 15.0
_QUIET_S = 0.25  # between two looks while pages are written, or another program may take the device's memory
_MOST_PAGES = 64
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Look:
    """Show the pages of a conversation and, of `page`, all that is known.

    With `message_id`, an answer, also the text of these `pages` of its prompt.
    """

    conversation_id: str
    page: int | None = None
    message_id: str = ""
    pages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class PagesShown:
    """What a Look found: None and nothing where the conversation has no pages that are known."""

    look: Look
    map: PageMap | None
    detail: PageDetail | None
    text: str
    texts: tuple[tuple[int, str], ...] = ()


class Watch:
    """`open`, `close` and `look` are for any thread, `snapshot` and `store` too; everything else for the engine's.

    The conversation that is open keeps its pages on the device. Any other gives them up, as far as a tier below has
    them, `idle_s` seconds after it was asked or left; a closed one at the next step.
    """

    def __init__(
        self,
        emit: Callable[[PagesShown], None],
        wake: Callable[[], None] = lambda: None,
        *,
        idle_s: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wake` is called from any thread when there is something to attend to."""
        self.snapshot: Snapshot | None = None
        self.store: Store | None = None  # of the model that is loaded
        self._emit = emit
        self._wake = wake
        self._idle_s = idle_s
        self._clock = clock
        self._looks: SimpleQueue[Look] = SimpleQueue()
        self._closed: SimpleQueue[str] = SimpleQueue()
        self._open: str | None = None
        self._left: SimpleQueue[tuple[str, float]] = SimpleQueue()
        self._used: dict[str, float] = {}  # conversation -> when it was asked or left
        self._resting: set[str] = set()  # conversations that gave their pages up, and were not asked since
        self._measured = self._checked = clock()

    # Any thread

    def open(self, conversation_id: str | None) -> None:
        """This conversation is the one that is looked at now."""
        before, self._open = self._open, conversation_id
        if before is not None and before != conversation_id:
            self._left.put((before, self._clock()))

    def close(self, conversation_id: str) -> None:
        """Nobody wants to go on with this conversation soon."""
        self._closed.put(conversation_id)
        self._wake()

    def look(self, look: Look) -> None:
        self._looks.put(look)
        self._wake()

    # The engine's thread

    def asked(self, conversation_id: str) -> None:
        """A question of this conversation is answered now."""
        self._used[conversation_id] = self._clock()
        self._resting.discard(conversation_id)

    def let_go(self) -> None:
        """The model is unloaded."""
        self.snapshot = self.store = None
        self._used.clear()
        self._resting.clear()

    def patience(self, chat: Chat | None) -> float:
        """Seconds that the thread may wait for a command before it attends again."""
        if chat is None:
            return CHECK_S
        engine = chat.assistant.engine
        return _QUIET_S if engine.device.startswith("cuda") or engine.cache.tiers.is_writing else CHECK_S

    def attend(self, chat: Chat | None, *, idle: bool = False) -> None:
        """Do what is due; `idle` where no answer runs."""
        now = self._clock()
        self.store = chat.assistant.store if chat is not None else None
        if chat is not None and idle:
            chat.assistant.engine.cache.tiers.collect()
        self._let_closed_go(chat)
        if now - self._checked >= CHECK_S:
            self._checked = now
            self._rest(chat, now)
        if chat is not None and (idle or now - self._measured >= SNAPSHOT_S):
            self._measured = now
            with suppress(Exception):  # a gauge must not end an answer
                self.snapshot = take_snapshot(chat.assistant, chat.model)
        while (look := _taken(self._looks)) is not None:
            self._let_closed_go(chat)  # what was closed before this was asked
            self._emit(self._show(chat, look))

    def _let_closed_go(self, chat: Chat | None) -> None:
        while (conversation_id := _taken(self._closed)) is not None:
            self._used.pop(conversation_id, None)
            if chat is not None and conversation_id != self._open:
                self._give_up(chat, {conversation_id})

    def _rest(self, chat: Chat | None, now: float) -> None:
        while (left := _taken(self._left)) is not None:
            conversation_id, at = left
            if conversation_id in self._used:
                self._used[conversation_id] = max(at, self._used[conversation_id])
        idle = {each for each, at in self._used.items() if each != self._open and now - at >= self._idle_s}
        if chat is not None and idle:
            self._give_up(chat, idle)
            for conversation_id in idle:
                del self._used[conversation_id]

    def _give_up(self, chat: Chat, conversation_ids: set[str]) -> None:
        """Also what they share with conversations that rest already, such as the pages of a system prompt."""
        self._resting |= conversation_ids
        chat.assistant.engine.cache.rest(self._resting - {self._open or ""})

    def _show(self, chat: Chat | None, look: Look) -> PagesShown:
        if chat is None:
            return PagesShown(look, None, None, "")
        inspection, tokenizer = chat.assistant.engine.inspection, chat.assistant.tokenizer
        owner = look.conversation_id
        try:
            if not inspection.knows(owner):
                inspection.know(owner, chat.prompt_ids(owner))
            found = inspection.look(owner)
            detail = inspection.detail(owner, look.page) if look.page is not None else None
            text = tokenizer.decode(detail.token_ids) if detail is not None else ""
            return PagesShown(look, found, detail, text, self._texts(chat, look))
        except Exception as error:  # a conversation that is gone, a template that refuses it
            return PagesShown(look, None, None, f"{type(error).__name__}: {error}")

    def _texts(self, chat: Chat, look: Look) -> tuple[tuple[int, str], ...]:
        if not look.message_id or not look.pages:
            return ()
        ids, size = chat.prompt_ids(look.conversation_id, look.message_id), chat.assistant.engine.cache.page_size
        places = [place for place in look.pages[:_MOST_PAGES] if place * size < len(ids)]
        return tuple((at, chat.assistant.tokenizer.decode(ids[at * size : (at + 1) * size])) for at in places)


def _taken(queue: SimpleQueue[T]) -> T | None:
    try:
        return queue.get_nowait()
    except Empty:
        return None
