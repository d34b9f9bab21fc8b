"""From settings to an assistant that can answer, fetching the model first where it is missing."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from octavo.app.cli.progress import announce, progress_bar

if TYPE_CHECKING:
    from octavo.app.assistant.assistant import Assistant
    from octavo.app.settings import Settings
    from octavo.storage.paths import Paths


def open_assistant(settings: Settings, paths: Paths | None = None) -> tuple[Assistant, str]:
    """The assistant on the model the settings name, and that model's name.

    paths: where models and pages are, by default this user's own folders.
    Raises the errors of `resolve_model`, `ensure_model` and `open_model`, each one sentence.
    """
    from octavo.app.assistant.assistant import open_model
    from octavo.app.models.resolve import ensure_model, resolve_model
    from octavo.storage.paths import Paths

    paths = paths or Paths.from_environment()
    model = resolve_model(None, settings, paths)
    with progress_bar() as progress:
        ensure_model(model, paths, offline=settings.offline, announce=announce, progress=progress)
    assistant = open_model(model, settings, paths)
    gc.freeze()  # what was loaded stays, and need not be looked at every few hundred objects, between two tokens
    return assistant, model.name
