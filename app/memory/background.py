"""Extraction after an answer: it waits until the answer has ended, and gives way when the next one starts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

from octavo.app.memory.extract import remember_message
from octavo.app.memory.keeper import Keeper, Outcome

if TYPE_CHECKING:
    from octavo.storage.conversations import Conversations


class MemoryWorker:
    """One thread that reads the person's new messages while no answer is being given.

    on_outcome: called from that thread for everything that was written or found. An error of one message is told to
    `on_error` and does not end the thread.
    """

    def __init__(
        self,
        keeper: Keeper,
        conversations: Conversations,
        *,
        on_outcome: Callable[[Outcome], None] = lambda outcome: None,
        on_error: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self._keeper = keeper
        self._conversations = conversations
        self._on_outcome = on_outcome
        self._on_error = on_error
        self._waiting: SimpleQueue[str | None] = SimpleQueue()
        self._free = threading.Event()
        self._free.set()
        self._closing = threading.Event()
        self._idle = threading.Condition()
        self._num_waiting = 0
        self._thread = threading.Thread(target=self._run, name="octavo-memory", daemon=True)
        self._thread.start()

    def answer_started(self) -> None:
        """Begin to give way: after the message in hand nothing more is read until the answer has ended."""
        self._free.clear()

    def answer_ended(self, conversation_id: str) -> None:
        """Go on, and read what is new in this conversation."""
        with self._idle:
            self._num_waiting += 1
        self._waiting.put(conversation_id)
        self._free.set()

    def wait(self, timeout: float) -> bool:
        """True once everything that waited has been read; for tests and for the end of the program."""
        with self._idle:
            return self._idle.wait_for(lambda: self._num_waiting == 0, timeout)

    def close(self) -> None:
        """End the thread; what was not read yet is read after the next answer of that conversation."""
        self._closing.set()
        self._free.set()
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (conversation_id := self._waiting.get()) is not None:
            try:
                self._read(conversation_id)
            except Exception as error:
                self._on_error(error)
            with self._idle:
                self._num_waiting -= 1
                self._idle.notify_all()

    def _read(self, conversation_id: str) -> None:
        answers: list[str] = []
        for message in self._conversations.path(conversation_id):
            if message.role == "assistant":
                answers.append(message.text)
            self._free.wait()
            if self._closing.is_set():
                return
            for outcome in remember_message(self._keeper, message, answers):
                self._on_outcome(outcome)
