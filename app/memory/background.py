"""Work on the memory beside the chat: it waits until an answer has ended, and gives way when the next one starts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

from octavo.app.memory.extract import remember_message

if TYPE_CHECKING:
    from octavo.app.memory.keeper import Keeper, Outcome
    from octavo.storage.conversations import Conversations

Tell = Callable[[str, "list[Outcome]"], None]


class MemoryWorker:
    """One thread that reads the person's new messages, and does other jobs, while no answer is being given.

    on_outcomes: called from that thread with the conversation and everything that was written or found in one message
    of it. An error of one job is told to `on_error` and does not end the thread. With `extracts` False messages are
    only marked as looked through, so that they are not read later either.
    """

    def __init__(
        self,
        keeper: Keeper,
        conversations: Conversations,
        *,
        extracts: bool = True,
        on_outcomes: Tell = lambda conversation_id, outcomes: None,
        on_error: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self._keeper = keeper
        self._conversations = conversations
        self._extracts = extracts
        self._on_outcomes = on_outcomes
        self._on_error = on_error
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
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
        self.submit(lambda: self._read(conversation_id))
        self._free.set()

    def pause(self) -> None:
        """Called between steps of long work: returns when no answer is being given. Inside a transaction, which others
        may wait for, it returns at once."""
        if threading.current_thread() is self._thread and not self._keeper.memories.database.in_transaction:
            self._free.wait()

    def catch_up(self) -> None:
        """Read the messages that an earlier run did not get to."""
        self.submit(self._read_missed)

    def submit(self, job: Callable[[], None]) -> None:
        """Do something in the thread when its turn has come."""
        with self._idle:
            self._num_waiting += 1
        self._waiting.put(job)

    def wait(self, timeout: float) -> bool:
        """True once everything that waited has been done; for tests and for the end of the program."""
        with self._idle:
            return self._idle.wait_for(lambda: self._num_waiting == 0, timeout)

    def close(self) -> None:
        """End the thread; what was not read yet is read by `catch_up`."""
        self._closing.set()
        self._free.set()
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._waiting.get()) is not None:
            self._free.wait()
            try:
                if not self._closing.is_set():
                    job()
            except Exception as error:
                self._on_error(error)
            with self._idle:
                self._num_waiting -= 1
                self._idle.notify_all()

    def _read_missed(self) -> None:
        for conversation_id, message_id in self._keeper.marks.missed():
            self._read(conversation_id, message_id)

    def _read(self, conversation_id: str, leaf_id: str | None = None) -> None:
        answers: list[str] = []
        for message in self._conversations.path(conversation_id, leaf_id):
            if message.role == "assistant":
                answers.append(message.text)
                continue
            self._free.wait()
            if self._closing.is_set():
                return
            if not self._extracts:
                self._keeper.marks.put(message.id)
                continue
            outcomes = remember_message(self._keeper, message, answers)
            if outcomes:
                self._on_outcomes(conversation_id, outcomes)
