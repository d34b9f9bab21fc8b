"""What the screen talks to: the conversations on disk and the engine's thread. Opened after the first frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from octavo.app.assistant.watch import Watch
    from octavo.app.documents.background import BackgroundReader
    from octavo.app.documents.index_thread import IndexThread
    from octavo.app.documents.shelf import Shelf
    from octavo.app.memory.service import ChatMemory
    from octavo.app.settings import Settings
    from octavo.storage.conversations import Conversations
    from octavo.storage.paths import Paths

OnEvent = Callable[[Any], None]


class Engine(Protocol):
    """The commands of `EngineThread`. Each returns at once; what comes of it arrives as events."""

    watch: Watch
    reader: BackgroundReader

    def start(self) -> None: ...
    def load(self, model: str | None = None) -> None: ...
    def turn(self, conversation_id: str, text: str, *, system: str | None = None) -> None: ...
    def regenerate(self, message_id: str) -> None: ...
    def edit(self, message_id: str, text: str) -> None: ...
    def forget(self, conversation_id: str) -> None: ...
    def cancel(self) -> None: ...
    def close(self, timeout: float = 10.0) -> bool: ...


@dataclass
class Backend:
    """Everything behind the screen. `model` is the name of the model that is used next."""

    paths: Paths
    settings: Settings
    conversations: Conversations
    engine: Engine
    model: str
    close_database: Callable[[], None]
    memory: ChatMemory | None = None
    shelf: Shelf | None = None
    index: IndexThread | None = None

    def choose_model(self, name: str) -> None:
        """Make a model the one of the next start, too. Raises ModelNotFoundError, OSError."""
        from octavo.app.models.resolve import choose_default, open_registry, resolve_model

        choose_default(resolve_model(name, self.settings, self.paths), open_registry(self.paths))

    def close(self) -> None:
        """End the engine's threads, which saves an unfinished answer, and let go of the database."""
        self.engine.close()
        if self.memory is not None:
            self.memory.close()
        if self.index is not None:
            self.index.close()
        self.close_database()


OpenBackend = Callable[[OnEvent], Backend]


def open_backend(flags: dict[str, object], on_event: OnEvent) -> Backend:
    """Open the settings, the database and the engine's threads; `flags` are the settings from the command line.

    Takes some tenths of a second, in imports for the most part. Raises SettingsError, ModelNotFoundError and
    StorageError, DatabaseBusyError among them.
    """
    from octavo.app.assistant.engine_thread import EngineThread
    from octavo.app.documents.index_thread import IndexThread
    from octavo.app.documents.shelf import Shelf
    from octavo.app.memory.service import ChatMemory
    from octavo.app.models.resolve import resolve_model
    from octavo.app.settings import load_settings
    from octavo.storage.attachments import Attachments
    from octavo.storage.conversations import Conversations
    from octavo.storage.database import open_database
    from octavo.storage.paths import Paths

    paths = Paths.from_environment()
    settings = load_settings(flags, paths=paths)
    model = resolve_model(None, settings, paths).name
    database = open_database(paths.database_file)
    try:
        conversations = Conversations(database)
        conversations.mark_interrupted()
        memory = ChatMemory(database, conversations, paths, settings.memory, on_event)
        shelf = Shelf(paths, settings, Attachments(database))
        engine = EngineThread(conversations, on_event, settings=settings, paths=paths, memory=memory, shelf=shelf)
        index = IndexThread(shelf, on_event)
        engine.start()
    except BaseException:
        database.close()
        raise
    return Backend(paths, settings, conversations, engine, model, database.close, memory, shelf, index)
