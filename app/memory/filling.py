"""A matched frame made into claims: values, numbers with their units, and several things named in one phrase."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date

from octavo.app.memory.claims import Claim, with_thing
from octavo.app.memory.lexicon import load_lexicon, thing
from octavo.app.memory.quantities import Quantity, counts, frequency, measures, number_of
from octavo.app.memory.slots import Frame, Slot, load_slots
from octavo.app.memory.times import Found
from octavo.app.memory.verbs import base

_LIST = re.compile(r"\s*(?:,\s*(?:and|or)|,|\band\b|\bor\b|&|和|、|跟|以及|或者|还有)\s*")
_EDIBLE = frozenset((
    "caffeine", "alcohol", "sugar", "nut", "dairy", "lactose", "meat", "egg", "honey", "seafood", "gluten", "fruit",
    "soy", "sesame", "spicy_food", "salt", "tomato", "decaf", "herbal_tea", "water", "juice", "cilantro", "kale",
))  # fmt: skip
_SERVES = frozenset(
    ("make", "cook", "bake", "brew", "grill", "prepare", "add", "put", "pour", "mix", "have", "get", "fix")
)
_SELF = re.compile(r"^(?:myself|ourselves|us|me) ")
_HOUR = re.compile(r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>am|pm|点半|点)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Said:
    """Who a clause is about, the day it was said, and the time it names."""

    subject: str
    day: date
    time: Found | None


def fill(frame: Frame, match: re.Match[str], said: Said, clause: str, *, denied: bool = False) -> list[Claim]:
    """The claims of a frame that matched; several where its slot holds several values and the phrase names them."""
    slot, groups = frame.slot, match.groupdict()
    name = slot.name
    key = groups.get("k") or groups.get("k2")
    if key or slot.measure in ("count", "frequency", "time"):
        name = f"{slot.name}:{_key(slot, key or clause)}"
    base_claim = Claim(said.subject, name, "", affirmed=not frame.denied, scope=(groups.get("tail") or "").strip())
    if slot.measure:
        return [_measured(base_claim, slot, groups, clause)]
    phrase = frame.value or groups.get("v") or ""
    if slot.name == "appointment":
        kind = "hour" if re.match(r"\d|noon", phrase) else "day"
        return [replace(base_claim, slot=f"{name}:{kind}", value=phrase.casefold().strip(" 。."))]
    if slot.name in ("wakes", "sleeps"):
        return [replace(base_claim, value=_hour(phrase))]
    aliased = load_slots().alias(slot, phrase.strip())
    if aliased != phrase.strip():
        known = load_lexicon().find(aliased)
        return [replace(base_claim, value=known or aliased, concepts=frozenset({known} if known else ()))]
    if slot.name == "owns" and edible(phrase):
        base_claim = replace(base_claim, slot="consume")
    phrases = [phrase] if slot.single or _is_one(phrase) else [part for part in _LIST.split(phrase) if part.strip()]
    if groups.get("old"):
        # "switched from X to Y" ends X, too.
        ended = replace(base_claim, affirmed=False, **with_thing(thing(groups["old"] or "")))
        return [ended, replace(base_claim, **with_thing(thing(phrase)))]
    is_name = (slot.single and slot.name != "favourite") or slot.name == "condition"
    return [replace(base_claim, **with_thing(thing(part, is_name=is_name, whole=denied))) for part in phrases]


def generic(predicate: str, said: Said) -> list[Claim]:
    """A claim for a predicate that no frame knows: the verb is the slot, the rest its value."""
    verb, _, rest = predicate.partition(" ")
    root, _ = base(verb)
    if not rest:
        return [Claim(said.subject, "do", root)]
    if root in _SERVES and edible(rest):
        return [Claim(said.subject, "consume", **with_thing(thing(_SELF.sub("", rest))))]
    name = "is" if root == "be" else f"do:{root}"
    return [Claim(said.subject, name, **with_thing(thing(rest)))]


def edible(phrase: str) -> bool:
    """True for something to eat or drink: to have a pizza is to eat it."""
    lexicon = load_lexicon()
    return any(lexicon.closure(concept) & _EDIBLE for concept in thing(phrase).concepts)


def _is_one(phrase: str) -> bool:
    """True for one thing whose name has "and" in it."""
    return phrase.strip().casefold() in load_lexicon().names


def _key(slot: Slot, phrase: str) -> str:
    if slot.measure == "time":
        words = phrase.casefold().split()
        if words and base(words[0])[0] in ("program", "code", "work", "use", "write", "develop") and len(words) > 1:
            words = [word for word in words[1:] if word not in ("in", "with", "as", "on", "a", "an")]
        phrase = " ".join(words)
    if slot.measure == "frequency":
        words = phrase.casefold().split()
        return " ".join([base(words[0])[0], *words[1:]]) if words else ""
    return thing(phrase).value


def _measured(claim: Claim, slot: Slot, groups: dict[str, str | None], clause: str) -> Claim:
    text = groups.get("q") or clause
    quantity: Quantity | None = None
    if slot.measure == "age":
        number = number_of(text)
        quantity = None if number is None else Quantity(number, "age")
    elif slot.measure == "frequency":
        found = frequency(f"{text}{groups.get('q2') or ''}") or frequency(clause)
        quantity = None if found is None else Quantity(found[0], "a week")
    elif slot.measure == "count":
        number = number_of(text)
        quantity = None if number is None else Quantity(number, "")
    else:
        known = measures(text)
        bare = counts(text)
        if known:
            quantity = known[0][0]
        elif bare:
            quantity = Quantity(bare[0][0], "")
    key, lexicon = claim.slot.partition(":")[2], load_lexicon()
    named = key if key in lexicon.concepts else lexicon.find(key) if key else None
    concepts = frozenset({named} if named else ())
    if slot.measure == "frequency" and not concepts:
        concepts = thing(key.partition(" ")[2]).concepts  # "drink 2 coffees a day": what is done so often
    return replace(claim, quantity=quantity, concepts=concepts)


def _hour(text: str) -> str:
    """ "6 am", "6:30", "六点" as hours and minutes."""
    match = _HOUR.search(text)
    if match is None:
        number = number_of(re.sub(r"[点早半]", "", text))
        return text.strip() if number is None else f"{int(number):02d}:{'30' if '半' in text else '00'}"
    hour = int(match["hour"]) + (12 if (match["half"] or "").casefold() == "pm" and int(match["hour"]) < 12 else 0)
    minute = "30" if match["half"] == "点半" else match["minute"] or "00"
    return f"{hour:02d}:{minute}"
