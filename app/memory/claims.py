"""A statement in comparable form: about whom, which slot, which value, affirmed or denied, how sure, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal, TypeAlias

from octavo.app.memory.lexicon import Thing
from octavo.app.memory.quantities import Quantity
from octavo.app.memory.times import Interval

USER = "user"
UNKNOWN = ""

Modality: TypeAlias = Literal["stated", "plan", "wish", "possible", "question", "hypothetical", "reported"]
Tense: TypeAlias = Literal["present", "past", "future"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing a sentence says. `subject` is "user", "person:anna", "project:apollo", "other:..." or "" (unknown).

    slot is "" where none is known. `scope` is the circumstance it is limited to ("in the evening"), `is_event` a
    change that leaves a present state behind, `is_implied` something only presupposed ("my dog ...": has a dog).
    """

    subject: str
    slot: str
    value: str
    affirmed: bool = True
    modality: Modality = "stated"
    tense: Tense = "present"
    quantity: Quantity | None = None
    concepts: frozenset[str] = frozenset()
    free_of: frozenset[str] = frozenset()
    scope: str = ""
    time: Interval = field(default_factory=Interval)
    has_time: bool = False
    is_event: bool = False
    is_implied: bool = False

    @property
    def base_slot(self) -> str:
        """The slot without what names it more closely: "dose" of "dose:metformin"."""
        return self.slot.partition(":")[0]

    def key(self) -> str:
        """What the claim says, without when: equal for restatements, in whatever words or language."""
        amount = "" if self.quantity is None else f"{self.quantity.number:g} {self.quantity.dimension}"
        sign = "+" if self.affirmed else "-"
        return "\x1f".join((self.subject, self.slot, self.value, sign, amount, self.scope, self.tense))

    def document(self) -> dict[str, Any]:
        """The claim in values that JSON has."""
        return {
            "subject": self.subject,
            "slot": self.slot,
            "value": self.value,
            "affirmed": self.affirmed,
            "modality": self.modality,
            "tense": self.tense,
            "quantity": None if self.quantity is None else [self.quantity.number, self.quantity.dimension],
            "concepts": sorted(self.concepts),
            "free_of": sorted(self.free_of),
            "scope": self.scope,
            "time": [_text(self.time.start), _text(self.time.end)],
            "has_time": self.has_time,
            "is_event": self.is_event,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Claim:
        """The inverse of `document`. Raises KeyError or TypeError for anything else."""
        known = dict(document)
        quantity, (start, end) = known.pop("quantity"), known.pop("time")
        return cls(
            quantity=None if quantity is None else Quantity(float(quantity[0]), str(quantity[1])),
            time=Interval(_date(start), _date(end)),
            concepts=frozenset(known.pop("concepts")),
            free_of=frozenset(known.pop("free_of")),
            **known,
        )


def with_thing(value: Thing) -> dict[str, Any]:
    """The fields of a claim that a phrase gives."""
    return {"value": value.value, "concepts": value.concepts, "free_of": value.free_of}


def _text(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def _date(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)
