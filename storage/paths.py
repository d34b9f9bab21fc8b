"""Where Octavo keeps its files: four folders kept apart, by the platform's custom or below OCTAVO_HOME."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import platformdirs

from octavo.storage.errors import StorageError

HOME_VARIABLE = "OCTAVO_HOME"
SETTINGS_FILE = "octavo.toml"
_PRIVATE = 0o700


@dataclass(frozen=True)
class Paths:
    """The folders, all absolute; none of them need exist.

    config: what a person edits. data: what must not be lost, models among it. cache: what can be made again.
    state: logs and history.
    """

    config: Path
    data: Path
    cache: Path
    state: Path

    @classmethod
    def from_environment(cls) -> Paths:
        """The folders of this user: below OCTAVO_HOME where it is set, else where the platform wants them.

        An empty variable (OCTAVO_HOME, XDG_CONFIG_HOME, ...) counts as unset. Raises StorageError for a
        relative OCTAVO_HOME: what it holds would seem lost as soon as a command runs in another folder.
        """
        home = os.environ.get(HOME_VARIABLE, "")
        if not home:
            # Called without an author: Windows would put one level more between the user and the files.
            dirs = platformdirs.PlatformDirs("octavo", appauthor=False)
            return cls(dirs.user_config_path, dirs.user_data_path, dirs.user_cache_path, dirs.user_state_path)
        root = Path(home).expanduser()
        if not root.is_absolute():
            raise StorageError(f"{HOME_VARIABLE} is {home!r}, a relative path; it must be an absolute one.")
        return cls(root / "config", root / "data", root / "cache", root / "state")

    @property
    def user_config_file(self) -> Path:
        """The settings of this user, for every folder they work in."""
        return self.config / SETTINGS_FILE

    @property
    def models_dir(self) -> Path:
        """Model files that Octavo downloaded, and its record of them."""
        return self.data / "models"

    @property
    def database_file(self) -> Path:
        """Conversations and everything else that Octavo remembers."""
        return self.data / "octavo.db"

    @property
    def documents_file(self) -> Path:
        """The documents that were added, as text, and their index."""
        return self.data / "documents.db"

    @property
    def pages_dir(self) -> Path:
        """The page store: what was computed once, kept over restarts. All of it can be computed again."""
        return self.cache / "pages"

    def folders(self) -> Iterator[tuple[str, Path]]:
        """Name and path of each of the four folders."""
        for field in fields(self):
            yield field.name, getattr(self, field.name)


def create_private(folder: Path) -> Path:
    """Create `folder` and its missing parents, open to this user alone, and return it.

    A folder that is there already keeps its permissions. Raises StorageError if it cannot be created.
    """
    missing = [folder]
    while not missing[-1].exists() and missing[-1].parent != missing[-1]:
        missing.append(missing[-1].parent)
    try:
        for path in reversed(missing):
            path.mkdir(mode=_PRIVATE, exist_ok=True)
    except OSError as error:
        raise StorageError(f"The folder {folder} cannot be created: {error.strerror or error}.") from error
    return folder
