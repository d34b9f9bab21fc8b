"""Documents read in the background, one after the other: their KV pages are filled while the engine is free.

Each document has pages of its own. Questions are answered by searching meanwhile. Pages that are filled stay filled, so
reading stops for a question and goes on after it, and after a restart it is found done. While a conversation is on the
screen, pages of the documents that are read whole in it are kept near: they are the last to leave the device and RAM.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from octavo.app.documents.asking import Asker, Question
from octavo.app.documents.whole import Whole, owner_of
from octavo.app.errors import AppError
from octavo.engine.errors import EngineError
from octavo.storage.errors import StorageError

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.app.documents.shelf import Shelf
    from octavo.storage.documents import StoredDocument

_TOLD_EVERY = 0.5  # seconds
_MOST = 8  # documents; where more are open, each is read when it is asked


@dataclass(frozen=True, slots=True)
class DocumentReading:
    """`done` of `total` pages of the document are read: its own, or KV pages where `has_pages` is false. It is one of
    `num_documents`, of which `num_read` are read.

    With `note` it is not read whole, and that is why.
    """

    conversation_id: str
    document: str
    done: int = 0
    total: int = 0
    has_pages: bool = False
    note: str = ""
    num_read: int = 0
    num_documents: int = 1

    @property
    def is_done(self) -> bool:
        return bool(self.num_documents) and self.num_read == self.num_documents


class BackgroundReader:
    """`want` and `stop` are for any thread, all else for the engine's. Without a shelf there is nothing to read."""

    def __init__(self, shelf: Shelf | None, emit: Callable[[DocumentReading], None], wake: Callable[[], None]) -> None:
        self.shelf = shelf
        self._emit = emit
        self._wake = wake
        self._wanted: str | None = None
        self._shown: str | None = None  # the conversation whose documents are kept near, whether or not they are read
        self._is_stale = False  # something else is wanted, or something else is open
        self._whole: Whole | None = None
        self._left: list[Whole] = []  # to be read after it
        self._state: DocumentReading | None = None
        self._request: int | None = None
        self._told = 0.0

    def want(self, conversation_id: str | None) -> None:
        """Read what is open in this conversation now, as far as it is to be read whole."""
        if self.shelf is not None:
            self._wanted = self._shown = conversation_id
            self._is_stale = True
            self._wake()

    def stop(self) -> bool:
        """Read no further; False if nothing was being read. What is open stays near."""
        state, wanted = self._state, self._wanted
        self._wanted, self._is_stale = None, True
        return wanted is not None and state is not None and state.num_read < state.num_documents

    def work(self, assistant: Assistant | None, is_free: Callable[[], bool]) -> None:
        """Read on as long as the engine `is_free`."""
        while assistant is not None and is_free():
            try:
                if not self._step(assistant):
                    return
            except Exception as error:  # the thread that reads has questions to answer, too
                conversation_id, self._wanted = self._wanted or "", None
                with suppress(Exception):
                    self.pause(assistant)
                expected = isinstance(error, (AppError, EngineError, StorageError))
                sentence = str(error) if expected else f"{type(error).__name__}: {error}"
                self._emit(DocumentReading(conversation_id, "", note=f"Reading in the background ended: {sentence}"))

    def pause(self, assistant: Assistant | None) -> None:
        """Leave the engine to somebody else, or for good; what was read stays."""
        if assistant is not None and self._request is not None:
            assistant.engine.cancel(self._request)
        self._request = self._whole = self._state = None
        self._left = []

    def _step(self, assistant: Assistant) -> bool:
        """True if there is more to do."""
        if self._is_stale:
            self._is_stale = False
            self.pause(assistant)
        wanted = self._wanted
        if wanted is None:
            if self._shown is None:
                assistant.engine.cache.kept_near = frozenset()
            return False
        if self._state is None:
            self._begin(assistant, wanted)
        if self._state is None:
            return False
        if self._whole is None:
            return self._next(assistant)
        self._advance(assistant, self._whole)
        return True

    def _begin(self, assistant: Assistant, conversation_id: str) -> None:
        shelf = self.shelf
        assert shelf is not None, "something is wanted"
        attached, among = shelf.askable(conversation_id)
        documents = shelf.documents()
        self._state = DocumentReading(conversation_id, "", num_documents=0)
        assistant.engine.cache.kept_near = frozenset()
        if not 0 < len(among) <= _MOST or attached.mode == "search" or documents is None:
            return
        asker = Asker(assistant, documents, shelf.settings.generation.policy())
        question = Question("", among, attached.mode, system=shelf.settings.system)
        for document in among:
            notes: list[str] = []
            whole = asker.whole(document, question, notes)
            if whole is not None:
                self._left.append(whole)
            elif notes:
                self._emit(DocumentReading(conversation_id, document.name, note=notes[0]))
        self._state = replace(self._state, num_documents=len(self._left))
        if self._left:
            # Pages that a question was the first to fill are the conversation's.
            owners = {owner_of(whole.document) for whole in self._left}
            assistant.engine.cache.kept_near = frozenset(owners | {conversation_id})

    def _next(self, assistant: Assistant) -> bool:
        """Turn to the next document; one that was read before is done. False if there is none."""
        if not self._left:
            return False
        whole = self._left.pop(0)
        if whole.is_known(assistant):
            self._tell(whole, whole.num_tokens)
        else:
            self._whole = whole
        return True

    def _advance(self, assistant: Assistant, whole: Whole) -> None:
        from octavo.engine.config import GenerationPolicy
        from octavo.engine.events import DoneEvent

        engine = assistant.engine
        if self._request is None:
            policy, owner = GenerationPolicy(temperature=0.0, max_tokens=1), owner_of(whole.document)
            self._request = engine.submit(list(whole.prompt_ids), policy, owner=owner)
        for event in engine.step():
            if event.request_id == self._request and isinstance(event, DoneEvent):
                if event.error is not None:
                    raise EngineError(f"{whole.document.name} could not be read whole: {event.error}.")
                self._request = self._whole = None
                self._tell(whole, whole.num_tokens)
                return
        sequence = next((each for each in engine.sequences if each.request_id == self._request), None)
        now = time.monotonic()
        if sequence is not None and now - self._told >= _TOLD_EVERY:
            self._told = now
            # The last one is read when the last token is.
            self._tell(whole, min(sequence.num_computed, whole.num_tokens - 1))

    def _tell(self, whole: Whole, num_tokens: int) -> None:
        assert self._state is not None, "it has begun"
        assert self.shelf is not None, "it has begun"
        done, total = pages_done(whole.document, num_tokens, whole.num_tokens, self.shelf.settings.page_size)
        self._state = replace(
            self._state,
            document=whole.document.name,
            done=done,
            total=total,
            has_pages=bool(whole.document.pages),
            num_read=self._state.num_read + (num_tokens == whole.num_tokens),
        )
        self._emit(self._state)


def pages_done(document: StoredDocument, num_read: int, num_tokens: int, page_size: int) -> tuple[int, int]:
    """Pages of a document that `num_read` of its `num_tokens` tokens cover, and all: its own, or else KV pages."""
    if not document.pages:
        return -(-num_read // page_size) if num_read == num_tokens else num_read // page_size, -(
            -num_tokens // page_size
        )
    total = len(document.pages)
    if num_read == num_tokens:
        return total, total
    place = document.num_characters * num_read / num_tokens
    return max(bisect_right(document.pages, place) - 1, 0), total
