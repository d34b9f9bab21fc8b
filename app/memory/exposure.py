"""What endangers whom: allergies, conditions, diets, medicines and fears against what is eaten, taken, kept or done."""

from __future__ import annotations

from octavo.app.memory.claims import Claim
from octavo.app.memory.lexicon import load_lexicon
from octavo.app.memory.slots import load_slots
from octavo.app.memory.verdicts import Finding

_TASTES = frozenset(("favourite", "habit", "preference", "consume", "plays", "hobby", "can", "do", "uses"))
_EATEN = frozenset(("preference", "consume", "habit", "do", "medication", "favourite"))
_DIETS = frozenset(("diet", "condition"))


def danger(old: Claim, new: Claim) -> Finding | None:
    """A tension between something that must be avoided and something that is liked, taken, kept or done; or None."""
    for guard, other in ((old, new), (new, old)):
        if guard.affirmed and other.affirmed and guard.tense != "past" and load_slots().of(guard.slot).guards:
            reason = _reason(guard, other)
            if reason:
                return Finding("tension", reason)
    return None


def reach(claim: Claim) -> frozenset[str]:
    """Everything the things a claim names are and contain, without what it says they are free of."""
    lexicon = load_lexicon()
    reached: set[str] = {claim.value} if claim.value else set()
    for concept in claim.concepts:
        reached.update(lexicon.closure(concept))
    if claim.free_of:
        gone = set(claim.free_of)
        reached -= {key for key in reached if key in gone or (key != claim.value and _within(key, gone))}
    return frozenset(reached)


def _within(key: str, gone: set[str]) -> bool:
    return bool(load_lexicon().closure(key) & gone)


def _reason(guard: Claim, other: Claim) -> str:
    if guard.slot == other.slot and guard.base_slot != "medication":
        return ""
    slot, lexicon = load_slots().of(other.slot), load_lexicon()
    if not (slot.exposure or other.base_slot in ("do", "count", "owns", "dose")):
        return ""
    taken = reach(other)
    if guard.base_slot in _DIETS:
        forbidden = frozenset(lexicon.diets.get(guard.value.replace(" ", "_"), ()))
        hit = forbidden & taken if other.base_slot in _EATEN else frozenset[str]()
        return f"{_word(guard.value)} rules out {_word(min(hit))}, which is in {_word(other.value)}." if hit else ""
    if guard.base_slot in ("medication", "dose"):
        return _interaction(guard, other, taken)
    if guard.base_slot == "fear" and other.base_slot not in _TASTES:
        return ""
    hit = (guard.concepts or frozenset((guard.value,))) & taken
    if hit:
        named = _word(other.value or other.slot.partition(":")[2])
        what = _word(min(hit))
        return (
            f"{_guard_name(guard)} {what}, and {named} is or contains it."
            if named != what
            else f"{_guard_name(guard)} {what}."
        )
    mixed = {key for key in other.concepts if lexicon.is_mixed(key)}
    if any(key in lexicon.closure(concept) for concept in guard.concepts for key in mixed):
        return f"{_guard_name(guard)} {_word(guard.value)}, and {_word(other.value)} often contains it."
    return ""


def _interaction(guard: Claim, other: Claim, taken: frozenset[str]) -> str:
    lexicon = load_lexicon()
    for concept in guard.concepts:
        for kind in lexicon.closure(concept):
            hit = set(lexicon.interactions.get(kind, ())) & taken
            if hit and other.base_slot in ("preference", "consume", "favourite", "habit", "medication", "dose"):
                return f"{_word(concept)} does not go together with {_word(min(hit))}."
    return ""


def _guard_name(guard: Claim) -> str:
    return {"allergy": "There is an allergy to", "fear": "There is a fear of"}.get(guard.base_slot, "To be avoided is")


def _word(value: str) -> str:
    return value.replace("_", " ")
