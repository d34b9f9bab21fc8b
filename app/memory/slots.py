"""What a statement can be about, and the patterns that find it. The data is `memory_slots.toml` in the assets."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Literal, TypeAlias

Language: TypeAlias = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class Slot:
    """How the values of a slot behave; see the head of the file of slots."""

    name: str
    single: bool = False
    safety: bool = False
    guards: bool = False
    exposure: bool = False
    measure: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """One way to fill a slot."""

    slot: Slot
    patterns: tuple[re.Pattern[str], ...]
    denied: bool
    change: bool
    whole: bool
    value: str

    def match(self, text: str) -> re.Match[str] | None:
        """The first pattern that meets the whole text."""
        for pattern in self.patterns:
            found = pattern.fullmatch(text)
            if found is not None:
                return found
        return None


@dataclass(frozen=True, slots=True)
class Slots:
    """Every slot, the frames of each language in order, and other words for values of a slot."""

    by_name: Mapping[str, Slot]
    frames: Mapping[Language, tuple[Frame, ...]]
    aliases: Mapping[str, Mapping[str, str]]

    def of(self, slot: str) -> Slot:
        """The slot that "dose:metformin" is one of; one with no rules of its own where it is unknown."""
        return self.by_name.get(slot.partition(":")[0]) or Slot("")

    def alias(self, slot: Slot, value: str) -> str:
        """`value` in the word the slot compares by."""
        return self.aliases.get(slot.name, {}).get(value.casefold(), value)


@functools.cache
def load_slots() -> Slots:
    """The slots of the assets. Raises KeyError if a frame names no slot."""
    with resources.files("octavo.assets").joinpath("memory_slots.toml").open("rb") as stream:
        document = tomllib.load(stream)
    by_name = {name: Slot(name, **entry) for name, entry in document["slots"].items()}
    frames: dict[Language, tuple[Frame, ...]] = {}
    languages: tuple[Language, Language] = ("en", "zh")
    for language in languages:
        frames[language] = tuple(
            Frame(
                by_name[entry["slot"]],
                tuple(re.compile(pattern, re.IGNORECASE) for pattern in entry[language]),
                entry.get("denied", False),
                entry.get("change", False),
                entry.get("whole", False),
                entry.get("value", ""),
            )
            for entry in document["frames"]
            if language in entry
        )
    return Slots(by_name, frames, document["aliases"])
