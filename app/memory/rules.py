"""An old and a new claim compared by rules alone: subjects, times, slots, values, polarity, numbers."""

from __future__ import annotations

import re

from octavo.app.memory import exposure
from octavo.app.memory.claims import UNKNOWN, Claim
from octavo.app.memory.lexicon import load_lexicon
from octavo.app.memory.slots import load_slots
from octavo.app.memory.verdicts import Finding

_NUMBER = re.compile(r"\d[\d,.]*|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b")
_UNSAID = frozenset(("question", "hypothetical", "reported"))
_UNSURE = frozenset(("plan", "wish", "possible"))
_SPOUSES = frozenset(("wife", "husband"))
_PARTNERS = _SPOUSES | {"girlfriend", "boyfriend", "partner"}
_TASTE = frozenset(("habit", "preference", "consume", "hobby", "plays"))


def compare(old: Claim, new: Claim) -> Finding:
    """The verdict on `new` beside `old`."""
    apart = _apart(old, new)
    if apart is not None:
        return apart
    if new.modality in _UNSURE or old.modality in _UNSURE:
        danger = exposure.danger(old, new)
        return danger or _compatible("One of the two is a plan or a wish, no fact.")
    danger = exposure.danger(old, new)
    if danger is not None:
        return danger
    if old.slot and old.slot == new.slot:
        return _same_slot(old, new)
    return _across(old, new)


def _apart(old: Claim, new: Claim) -> Finding | None:
    """A finding where the two can not meet: other people, other times, or not said to be so."""
    if old.modality in _UNSAID or new.modality in _UNSAID:
        return _compatible("One of the two is not stated as a fact.")
    if UNKNOWN in (old.subject, new.subject):
        return Finding("compatible", "It is not known whom one of the two is about.", decided=False)
    if old.subject != new.subject:
        return _compatible("They are about different subjects.")
    past = "past" in (old.tense, new.tense)
    if past and old.tense != new.tense:
        if _same(old, new) and _is_safety(old) and new.tense == "past" and old.affirmed == new.affirmed:
            return Finding("tension", f"It says that {_named(old)} is over, which is about health or safety.")
        return _compatible("One of the two is past.")
    if old.has_time and new.has_time and not old.time.overlaps(new.time):
        return _compatible("They are about different times.")
    if past and not (old.has_time and new.has_time):
        if _same(old, new) and old.affirmed == new.affirmed:
            return None
        return _compatible("Both are past, at times that are not known.")
    return None


def _same_slot(old: Claim, new: Claim) -> Finding:
    slot = load_slots().of(old.slot)
    if _same(old, new):
        return _same_value(old, new)
    if old.affirmed and new.affirmed:
        if slot.single and old.scope != new.scope:
            return _compatible("They are about different circumstances.")
        if slot.single and slot.measure == "":
            return _new_value(old, new, safety=slot.safety)
        if _masked(old.value) == _masked(new.value) and _NUMBER.search(old.value) and _NUMBER.search(new.value):
            return Finding("update", f"The number changed from {old.value} to {new.value}.")
        return _compatible("The slot holds several values.")
    return _containment(old, new) or _compatible("They are about different things.")


def _same_value(old: Claim, new: Claim) -> Finding:
    if old.affirmed != new.affirmed:
        denied, affirmed = (old, new) if new.affirmed else (new, old)
        if denied.scope not in ("", affirmed.scope):
            return _compatible("One of the two holds only in some circumstances.")
        if denied.scope != affirmed.scope:
            return Finding("tension", f"It says there is no exception to {_named(old)}, and names one.")
        if _is_safety(old):
            return Finding("tension", f"It says the opposite of {_named(old)}, which is about health or safety.")
        return Finding("contradiction", f"It says the opposite about {_named(old)}.")
    if old.scope != new.scope:
        return _compatible("They are about different circumstances.")
    if old.quantity is not None and new.quantity is not None and not old.quantity.equals(new.quantity):
        if not old.affirmed:
            return _compatible("Both deny a number, not the same one.")
        safety = _is_safety(old)
        return Finding("update", f"The number of {_named(old)} changed.", confirm=safety)
    if (old.quantity is None) != (new.quantity is None) or old.scope != new.scope:
        return _compatible("One of the two is more precise.")
    return Finding("duplicate", "It says the same.")


def _new_value(old: Claim, new: Claim, *, safety: bool) -> Finding:
    lexicon = load_lexicon()
    names = (set(old.value.split()), set(new.value.split()))
    if names[0] < names[1] or names[1] < names[0]:
        return _compatible("One of the two values is more precise.")
    if new.value in lexicon.closure(old.value) or old.value in lexicon.closure(new.value):
        return _compatible("One of the two values is part of the other.")
    return Finding("update", f"{_slot_name(old)} changed from {old.value} to {new.value}.", confirm=safety)


def _containment(old: Claim, new: Claim) -> Finding | None:
    """Denying the whole and affirming a part of it do not go together: no meat, but steak."""
    denied, affirmed = (old, new) if new.affirmed else (new, old)
    if denied.affirmed or not affirmed.affirmed or denied.scope not in ("", affirmed.scope):
        return None
    if denied.value in exposure.reach(affirmed) and denied.base_slot in ("owns", "family"):
        return Finding("contradiction", f"{affirmed.value} is a {denied.value}, of which the other says there is none.")
    if denied.value in exposure.reach(affirmed) and denied.base_slot != "preference":
        verdict = f"{affirmed.value} is, or contains, {denied.value}, which the other denies."
        return Finding("tension", verdict)
    if denied.base_slot == "preference" and denied.value in load_lexicon().closure(affirmed.value, contents=False):
        return Finding("tension", f"{affirmed.value} is a kind of {denied.value}, which the other rejects.")
    return None


def _across(old: Claim, new: Claim) -> Finding:
    """Claims of two slots, when none of them is a danger."""
    if {old.base_slot, new.base_slot} <= {"count", "owns", "family"} and _one_thing(old, new):
        return _possession(old, new)
    if old.base_slot in _TASTE and new.base_slot in _TASTE and old.base_slot != new.base_slot:
        denied, affirmed = (old, new) if new.affirmed else (new, old)
        if _one_thing(old, new) and old.affirmed != new.affirmed and denied.scope in ("", affirmed.scope):
            return Finding("tension", f"One of the two says yes to {_named(old)}, the other says no.")
        return _containment(old, new) or _compatible("They are about different things.")
    if {old.base_slot, new.base_slot} == {"marital", "family"}:
        return _couple(old, new)
    if {old.base_slot, new.base_slot} == {"can", "commute"}:
        return _driving(old, new)
    if {old.base_slot, new.base_slot} == {"can", "hobby"} or {old.base_slot, new.base_slot} == {"can", "preference"}:
        return _ability(old, new)
    if old.slot and new.slot and old.base_slot not in ("is", "do") and new.base_slot not in ("is", "do"):
        return Finding("compatible", "They are about different things.", decided=not _one_thing(old, new))
    return Finding("compatible", "No rule knows how the two go together.", decided=False)


def _possession(old: Claim, new: Claim) -> Finding:
    if old.affirmed == new.affirmed:
        return _compatible("One of the two is more precise.")
    return Finding("contradiction", f"One of the two says there is {_named(old)}, the other that there is none.")


def _couple(old: Claim, new: Claim) -> Finding:
    status, other = (old, new) if old.base_slot == "marital" else (new, old)
    alone = {"single": _PARTNERS, "divorced": _SPOUSES, "widowed": _SPOUSES}.get(status.value, frozenset())
    if status.affirmed and other.affirmed and other.value in alone:
        return Finding("tension", f"One of the two says {status.value}, the other names a {other.value}.")
    return _compatible("They are about different things.")


def _driving(old: Claim, new: Claim) -> Finding:
    able, way = (old, new) if old.base_slot == "can" else (new, old)
    if not able.affirmed and able.value in ("drive", "driving") and way.affirmed and way.value == "car":
        return Finding("tension", "One of the two says there is no driving, the other that there is.")
    return _compatible("They are about different things.")


def _ability(old: Claim, new: Claim) -> Finding:
    able, doing = (old, new) if old.base_slot == "can" else (new, old)
    activity = load_lexicon().find(able.value) or load_lexicon().find(able.value + "ing") or able.value
    swims = {"swim": "swimming", "drive": "driving"}.get(able.value, activity)
    if not able.affirmed and doing.affirmed and swims in exposure.reach(doing):
        return Finding("tension", f"It needs {swims}, which the other says is not possible.")
    return _compatible("They are about different things.")


def _same(old: Claim, new: Claim) -> bool:
    return old.slot == new.slot and old.value == new.value and old.free_of == new.free_of


def _one_thing(old: Claim, new: Claim) -> bool:
    mine = old.concepts or {old.value or old.slot.partition(":")[2]}
    return bool(mine & (new.concepts or {new.value or new.slot.partition(":")[2]}))


def _is_safety(claim: Claim) -> bool:
    return load_slots().of(claim.slot).safety


def _named(claim: Claim) -> str:
    name = claim.value or claim.slot.partition(":")[2] or claim.base_slot
    return name.replace("_", " ")


def _slot_name(claim: Claim) -> str:
    base, _, key = claim.slot.partition(":")
    return f"{base} {key}".strip().replace("_", " ").capitalize()


def _masked(value: str) -> str:
    return _NUMBER.sub("#", value)


def _compatible(reason: str) -> Finding:
    return Finding("compatible", reason)
