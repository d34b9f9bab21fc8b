"""Typed look-ups in a model's configuration: GGUF metadata or a config.json, neither of them trusted."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from octavo.engine.errors import ModelFileError


class Fields:
    """Look-ups that return the type asked for or raise ModelFileError naming the file and the key.

    A null counts as absent. An absent key gives the default; without one (None) it is an error.
    """

    def __init__(self, values: Mapping[str, Any], source: Path | str, prefix: str = "") -> None:
        self.source = source
        self._values = values
        self._prefix = prefix

    def __contains__(self, key: str) -> bool:
        """Whether the key is there, null or not."""
        return self._prefix + key in self._values

    def get(self, key: str) -> Any:
        """The raw value, None if absent."""
        return self._values.get(self._prefix + key)

    def keys(self) -> set[str]:
        """The keys that start with the prefix, without it, and whose value is not null."""
        present = {key for key, value in self._values.items() if value is not None}
        return {key.removeprefix(self._prefix) for key in present if key.startswith(self._prefix)}

    def text(self, key: str, default: str | None = None) -> str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a text")
        return value

    def flag(self, key: str) -> bool:
        """False if absent."""
        value = self._value(key, False)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number of at least 0."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._wrong(key, value, "a whole number")
        return value

    def positive(self, key: str, default: int | None = None) -> int:
        """A whole number of at least 1."""
        value = self.integer(key, default)
        if value == 0:
            raise self._wrong(key, value, "a positive whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A positive finite number."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise self._wrong(key, value, "a positive number")
        return float(value)

    def section(self, key: str) -> "Fields":
        """A nested object; an empty one if absent."""
        value = self._value(key, {})
        if not isinstance(value, Mapping):
            raise self._wrong(key, value, "an object")
        return Fields(value, f"{self.source}: {key}")

    def _value(self, key: str, default: Any) -> Any:
        value = self.get(key)
        if value is None:
            value = default
        if value is None:
            raise ModelFileError(f"{self.source}: {self._prefix}{key} is missing")
        return value

    def _wrong(self, key: str, value: Any, expected: str) -> ModelFileError:
        return ModelFileError(f"{self.source}: {self._prefix}{key} is {str(value)[:40]!r}, not {expected}")
