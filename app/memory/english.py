"""One English clause read as claims: subject, auxiliaries and negation, then the frames of the slots."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date

from octavo.app.memory import english_parts as parts
from octavo.app.memory import english_words as words_of
from octavo.app.memory.auxiliaries import strip
from octavo.app.memory.claims import UNKNOWN, USER, Claim, Modality, Tense, with_thing
from octavo.app.memory.deadlines import deadline
from octavo.app.memory.english_subject import subject_of
from octavo.app.memory.filling import Said, fill, generic
from octavo.app.memory.lexicon import load_lexicon, thing
from octavo.app.memory.slots import Frame, load_slots
from octavo.app.memory.times import Found, Interval, find_time
from octavo.app.memory.values import fits
from octavo.app.memory.verbs import is_verb

_POSSESSED = re.compile(
    rf"\b(?:my|our|the user's) (?:\w+ )?(?P<noun>{'|'.join(sorted(words_of.OWNED, key=len, reverse=True))})\b",
    re.IGNORECASE,
)
_PRESCRIBED = re.compile(
    r"^(?:(?:my|the|our) (?:doctor|gp|dentist|psychiatrist|cardiologist|physician|hospital|clinic)|they|he|she|"
    r"dr\.? \w+) (?:has |have |just )*(?:prescribed me|gave me a prescription for|put me on|has me on|started me on) "
    r"(?P<what>.+)$",
    re.IGNORECASE,
)
_LISTED = re.compile(  # "I'm a vegetarian, severely allergic to nuts"
    r",\s+(?:(?:severely|highly|very|also|mildly)\s+)?(?=(?:allergic|intolerant|diabetic|pregnant|afraid|scared)\b)"
)
_JOINED = re.compile(r",?\s+and\s+(?:also |now |then |still )?(?=(\w+)\b(?:\s+(\w+))?)", re.IGNORECASE)
_STATES = frozenset(
    [
        "allergic",
        "vegan",
        "vegetarian",
        "married",
        "single",
        "divorced",
        "diabetic",
        "pregnant",
        "afraid",
        "scared",
        "intolerant",
    ]
)
_BUT_NOT = re.compile(r",?\s+(?:but|and) (?:not|never|no) (?P<what>.+)$|,\s+not (?P<what2>.+)$", re.IGNORECASE)
_TIMED = frozenset(
    ("experience", "wakes", "sleeps", "habit", "age", "birthday")
)  # what looks like a time is part of the value
_RECENT_DAYS = 14
_CIRCUMSTANCE = re.compile(
    r"\s+((?:on (?:weekends|weekdays|workdays|holidays|vacation|\w+days)|in (?:summer|winter)))$"
)
_LIMIT = re.compile(r"\b(?:well|much|often|a lot|fluently|always|enough|too \w+|regularly|many|every \w+|daily)\b")
_DENIED = re.compile(r"\b(?:is|are|was|does|do) not\b")
_CHANGED = re.compile(
    r"\b(?:raised|changed|set|reduced|increased|lowered|cut|moved|rescheduled|pushed|postponed|shifted|brought)\b"
)
_CAN_NOT = re.compile(
    r"^can not (?:stand|bear|stomach|abide|tolerate|digest|process|handle|take|live|survive|function|start|get "
    r"enough of)\b"
)


@dataclass
class _Verb:
    """What the words before the main verb say."""

    affirmed: bool = True
    modality: Modality = "stated"
    tense: Tense = "present"
    event: bool = False
    forbidden: bool = False
    able: bool = False
    ended: bool = False
    perfect: bool = False
    limit: str = ""


def read(text: str, said: date, previous: str = UNKNOWN) -> list[Claim]:
    """The claims of one clause; `previous` is the person spoken of before, for "he" and "she"."""
    text = _LISTED.sub(" and ", _expand(text))
    denied = False
    while True:
        lead = parts.DENYING_LEAD_IN.match(text)
        denied ^= lead is not None
        lead = lead or parts.LEAD_IN.match(text)
        if lead is None:
            break
        text = text[lead.end() :]
    if prescribed := _PRESCRIBED.match(text):
        text = f"I take {prescribed['what']}"  # by whose advice makes no difference to what it meets
    when = find_time(text, said)
    if when is not None and when.span[0] == 0:
        text = f"{text[when.span[1] :].lstrip(' ,')} {text[: when.span[1]]}"
    unreal = parts.UNREAL.search(text) is not None
    found = _joined(text, said, previous)
    implied = [_owned(noun) for noun in (match["noun"].casefold() for match in _POSSESSED.finditer(text))]
    claims = []
    for claim in found:
        claim = replace(claim, affirmed=claim.affirmed ^ denied)
        claims.append(replace(claim, modality="hypothetical") if unreal else claim)
    gone = {(claim.slot, claim.value) for claim in claims if not claim.affirmed}
    return claims + [claim for claim in implied if not unreal and (claim.slot, claim.value) not in gone]


def _owned(noun: str) -> Claim:
    """ "My daughter ..." presupposes that there is one."""
    slots, lexicon = load_slots(), load_lexicon()
    if lexicon.find(noun) in ("dog", "cat", "car", "horse"):
        slot, value = "owns", noun
    else:
        slot, value = "family", slots.alias(slots.by_name["family"], noun)
    known = lexicon.find(value)
    return Claim(USER, slot, known or value, concepts=frozenset({known} if known else ()), is_implied=True)


def _expand(text: str) -> str:
    for pattern, full in parts.CONTRACTIONS:
        text = pattern.sub(full, text)
    return text.strip(" .,!?;:\"'()[]*-–—")


def _joined(text: str, said: date, previous: str) -> list[Claim]:
    """The claims of a clause whose subject may have several predicates: "I live in X and work at Y"."""
    _, rest, possessive = subject_of(text, previous)
    if possessive or not rest:
        return _single(text, said, previous)
    pieces, start = [], 0
    for match in _JOINED.finditer(rest):
        word = match[1].casefold()
        after = (match[2] or "").casefold()
        if (
            word in _STATES
            or (is_verb(word) and after not in ("and", "or", "") and not word.endswith("ing"))
            or word in ("do", "does")
        ):
            pieces.append(rest[start : match.start()])
            start = match.end()
    pieces.append(rest[start:])
    head = text[: len(text) - len(rest)]
    claims: list[Claim] = []
    for number, piece in enumerate(pieces):
        if number and piece.split()[0].casefold() in _STATES:
            piece = "am " + piece
        exception = _BUT_NOT.search(piece)
        if exception is None:
            claims += _single(head + piece, said, previous)
            continue
        main = _single(head + piece[: exception.start()], said, previous)
        other = exception["what"] or exception["what2"]
        claims += main
        claims += [
            replace(claim, affirmed=not claim.affirmed, quantity=None, **with_thing(thing(other))) for claim in main[:1]
        ]
    return claims


def _single(text: str, said: date, previous: str) -> list[Claim]:
    subject, rest, possessive = subject_of(text, previous)
    when = find_time(text, said)
    context = Said(subject=subject, day=said, time=when)
    as_mine = "my " + rest if possessive else text
    for form in dict.fromkeys((_clean(as_mine), _clean(_cut(as_mine, said)))):
        for frame in load_slots().frames["en"]:
            if frame.whole and (match := frame.match(form)) and fits(frame, match.groupdict()):
                return _whole(frame, match, context, possessive, form)
    if possessive or not rest or subject == UNKNOWN:
        return [Claim(subject, "", " ".join(text.casefold().split()))]
    return _predicate(rest, context)


def _whole(frame: Frame, match: re.Match[str], context: Said, possessive: bool, form: str) -> list[Claim]:
    """The claims of a frame that met a clause with its subject: "my dose of X is Y"."""
    subject = context.subject
    if frame.slot.name == "deadline":
        return [deadline(match, context, possessive)]
    owner = subject if possessive and subject.startswith(("person:", "project:")) else USER
    verb = _Verb(affirmed=_DENIED.search(form) is None)
    if re.search(r"\bwas\b", form) and not _CHANGED.search(form):
        verb.tense = "past"
    context = replace(context, subject=owner)
    return _finish(fill(frame, match, context, form), verb, context, frame, "")


def _cut(text: str, said: date) -> str:
    """`text` without the time it names."""
    when = find_time(text, said)
    return text if when is None else " ".join((text[: when.span[0]] + " " + text[when.span[1] :]).split())


def _clean(text: str) -> str:
    text = text.strip(" ,.;:!?\"'")
    while (shorter := parts.TAIL.sub("", text)) != text:
        text = shorter.strip(" ,.;:!?\"'")
    return text


def _predicate(rest: str, context: Said) -> list[Claim]:
    circumstance = _CIRCUMSTANCE.search(rest)
    timed, sometimes = (rest[: circumstance.start()], circumstance[1]) if circumstance else (rest, "")
    for frame in load_slots().frames["en"]:
        if frame.slot.name in _TIMED:
            verb = _Verb()
            words = _auxiliaries(_clean(timed).split(), verb)
            match = None if frame.whole or not words else frame.match(" ".join(words))
            if match is not None and fits(frame, match.groupdict()):
                return _finish(fill(frame, match, context, rest), verb, replace(context, time=None), frame, sometimes)
    earlier = parts.EARLIER.search(rest) is not None
    rest = _clean(_cut(rest, context.day))
    rest = re.sub(
        r"\b(?:formerly|previously|back then|in the past|as a (?:child|kid|teenager|student|baby)|when i was .+)\b",
        "",
        rest,
    ).strip(" ,")
    scope = ""
    if match := parts.SCOPE.search(" " + rest):
        scope, rest = match[0].strip().casefold(), rest[: max(match.start() - 1, 0)]
    limit = _LIMIT.search(rest)
    verb = _Verb(tense="past" if earlier else "present", limit=limit[0] if limit else "")
    words = _auxiliaries(rest.split(), verb)
    if not words:
        return []
    predicate = _clean(" ".join(words))
    if scope.startswith("for ") and words[0] == "have":
        predicate = "eat" + predicate[4:]
    for frame in load_slots().frames["en"]:
        if frame.whole:
            continue
        if (match := frame.match(predicate)) and fits(frame, match.groupdict()):
            denied = verb.affirmed == frame.denied
            claims = fill(frame, match, context, rest, denied=denied)
            return _finish(_eaten(claims, verb, context, earlier), verb, context, frame, scope)
    return _finish(_eaten(generic(predicate, context), verb, context, earlier), verb, context, None, scope)


def _eaten(claims: list[Claim], verb: _Verb, context: Said, earlier: bool) -> list[Claim]:
    """What somebody had for lunch is what they eat: a recent meal counts as present."""
    eaten = claims[0].base_slot in ("consume", "medication", "dose") and verb.affirmed
    if eaten and verb.tense == "past" and not earlier and _is_recent(context):
        verb.tense, verb.event = "present", True
    return claims


def _finish(claims: list[Claim], verb: _Verb, context: Said, frame: Frame | None, scope: str) -> list[Claim]:
    """What the auxiliaries and the time say, put onto the claims of a frame."""
    tense, event = verb.tense, verb.event or verb.ended
    if verb.perfect and (not verb.affirmed or (context.time is not None and context.time.is_since)):
        tense = "present"  # "have lived here for years", "have never smoked"
    if frame is not None and frame.change and verb.modality == "stated":
        tense, event = "present", True
    if context.time is not None and tense == "present" and not event and context.time.is_since:
        event = True
    done = []
    for claim in claims:
        affirmed = claim.affirmed == verb.affirmed
        scope = scope or claim.scope
        if not affirmed and frame is not None and claim.base_slot != "preference":
            scope = scope or verb.limit  # "I don't eat much meat" does not say that there is none
        time = _validity(context.time, tense, event, context.day)
        changed = replace(claim, affirmed=affirmed, modality=verb.modality, tense=tense, scope=scope, time=time)
        done.append(replace(changed, is_event=event, has_time=context.time is not None))
    return done


def _validity(when: Found | None, tense: Tense, event: bool, said: date) -> Interval:
    if when is None:
        return Interval(None, said) if tense == "past" else Interval()
    if tense == "past" and when.is_since:
        return Interval(None, said)
    if event or when.is_since:
        return Interval(when.interval.start)
    return when.interval


def _is_recent(context: Said) -> bool:
    start = None if context.time is None else context.time.interval.start
    return context.time is None or (start is not None and (context.day - start).days <= _RECENT_DAYS)


def _auxiliaries(words: list[str], verb: _Verb) -> list[str]:
    """The predicate from its main verb on, that verb in its base form; what stood before goes into `verb`."""
    lowered = [word if word[:1].isupper() and i else word.casefold() for i, word in enumerate(words)]
    if _CAN_NOT.match(" ".join(word.casefold() for word in lowered if word.casefold() not in words_of.ADVERBS)):
        return [word.casefold() for word in lowered if word.casefold() not in words_of.ADVERBS]
    state = strip(lowered)
    verb.affirmed, verb.event, verb.ended = state.affirmed, state.event, state.ended
    verb.modality, verb.perfect = state.modality, state.perfect
    if state.past and not state.ended:
        verb.tense = "past"
    return state.words
