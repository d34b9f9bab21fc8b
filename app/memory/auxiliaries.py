"""The words before an English main verb: negation, tense, and whether something is done, planned, allowed or wished."""

from __future__ import annotations

from dataclasses import dataclass, field

from octavo.app.memory import english_words as words_of
from octavo.app.memory.claims import Modality
from octavo.app.memory.verbs import base, is_verb

_WISHES = {
    "want": "wish",
    "wish": "wish",
    "hope": "wish",
    "dream": "wish",
    "plan": "plan",
    "intend": "plan",
    "decide": "plan",
}
_MODALS = {
    "would": "wish",
    "might": "possible",
    "may": "possible",
    "could": "possible",
    "will": "plan",
    "shall": "plan",
}
_ENDINGS = ("stop", "quit", "cease")
_ONGOING = ("start", "begin", "keep", "continue", "try", "tend", "happen", "get")
_TURNS = frozenset(
    ["vegan", "vegetarian", "pescatarian", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty"]
)
# After "was", these leave a state behind.
_LASTING = frozenset(
    [
        "rewritten",
        "ported",
        "migrated",
        "switched",
        "upgraded",
        "renamed",
        "diagnosed",
        "told",
        "advised",
        "prescribed",
        "born",
        "raised",
        "hired",
        "promoted",
        "ordered",
        "warned",
        "fired",
    ]
)
_MAYBE = ("maybe", "perhaps", "possibly")


@dataclass
class Stripped:
    """A predicate whose first word is its main verb in the base form, and what stood before it."""

    words: list[str]
    affirmed: bool = True
    modality: Modality = "stated"
    past: bool = False
    event: bool = False
    ended: bool = False
    perfect: bool = False
    duty: bool = False
    able: bool = False
    seen: list[str] = field(default_factory=list)


def strip(words: list[str]) -> Stripped:
    """Read auxiliaries, adverbs and negations off the front, until the main verb stands there."""
    state = Stripped(list(words))
    while state.words:
        if not _step(state):
            break
    _main_verb(state)
    return state


def _step(state: Stripped) -> bool:
    """Take one word or phrase off the front; False once the main verb is reached."""
    word, after = state.words[0], state.words[1:]
    following = next((w for w in after if w not in words_of.ADVERBS and w not in words_of.DENIALS), "")
    if word in words_of.ADVERBS:
        return _drop(state, 1)
    if word in words_of.DENIALS:
        state.affirmed = not state.affirmed
        return _drop(state, 1)
    if word in _MAYBE:
        state.modality = "possible"
        return _drop(state, 1)
    if word == "used" and after[:1] == ["to"]:
        state.past = True
        return _drop(state, 2)
    if word in ("do", "does", "did") and (following and (is_verb(following) or after[0] in words_of.DENIALS)):
        state.past |= word == "did"
        return _drop(state, 1)
    if word in _MODALS:
        state.modality = _MODALS[word]  # type: ignore[assignment]
        return _drop(state, 1)
    if word in ("must", "should", "can", "need") and (word != "need" or after[:1] == ["to"]):
        state.duty, state.able = state.duty or word != "can", word == "can"
        return _drop(state, 2 if word == "need" else 1)
    return _verb_step(state, word, after, following)


def _verb_step(state: Stripped, word: str, after: list[str], following: str) -> bool:
    root, past = base(word)
    if root == "be":
        return _be(state, past, after, following)
    if root == "have":
        if following == "to":
            state.duty = True
            return _drop(state, after.index("to") + 2)
        if _is_participle(following):
            state.past |= past
            state.perfect = not past
            return _drop(state, 1)
        return False
    if root in _WISHES and after[:1] == ["to"]:
        state.modality = _WISHES[root]  # type: ignore[assignment]
        return _drop(state, 2)
    if root in ("think", "consider", "dream") and (after[:1] in (["of"], ["about"]) or root == "consider"):
        state.modality = "wish"
        return _drop(state, 1 if root == "consider" else 2)
    if root in _ENDINGS or (root == "give" and after[:1] == ["up"]):
        return _ending(state, after[1:] if root == "give" else after)
    if root in _ONGOING and (after[:1] == ["to"] or (following.endswith("ing") and is_verb(following))):
        state.event |= root in ("start", "begin")
        state.past |= past and root not in ("start", "begin", "get")
        return _drop(state, 2 if after[:1] == ["to"] else 1)
    return False


def _be(state: Stripped, past: bool, after: list[str], following: str) -> bool:
    if following == "going" and "to" in after[:4]:
        target = after[after.index("to") + 1 : after.index("to") + 2]
        if target and is_verb(target[0]):
            state.modality = "plan"
            return _drop(state, after.index("to") + 2)
    if following in ("able", "allowed", "supposed") and "to" in after[:4]:
        state.able = True
        return _drop(state, after.index("to") + 2)
    if following == "being" or (
        following.endswith("ing") and is_verb(following) and following not in ("boring", "living")
    ):
        state.past |= past
        return _drop(state, 1)
    if following == "living" and any(word in ("in", "with", "at", "near") for word in after):
        state.past |= past
        return _drop(state, 1)
    lasting = following in _LASTING
    state.event |= past and lasting
    state.past |= past and not lasting
    rest = [word for word in after if word not in words_of.ADVERBS]
    denials = 0
    while rest and rest[0] in words_of.DENIALS:
        denials += 1
        rest = [word for word in rest[1:] if word not in words_of.ADVERBS or word in rest[2:]]
    if denials % 2:
        state.affirmed = not state.affirmed
    state.words = ["be", *rest]
    return False


def _ending(state: Stripped, rest: list[str]) -> bool:
    """ "stopped drinking coffee" ends a habit; a noun ("gave up coffee") is something that was eaten or drunk."""
    if not rest:
        return False
    state.affirmed = not state.affirmed
    state.ended = True
    first = rest[0]
    if first == "being":
        state.words = ["be", *rest[1:]]
        return True
    if not (first.endswith("ing") and is_verb(first)) and first not in ("my", "the", "at"):
        rest = ["consume", *rest]
    elif first in ("my", "the", "at"):
        rest = ["leave", *rest]
        state.affirmed = not state.affirmed
    state.words = rest
    return False


def _is_participle(word: str) -> bool:
    root, _ = base(word)
    return root != word and (
        word.endswith(("ed", "en", "wn", "ne", "ught", "ung", "um"))
        or word in ("been", "had", "lost", "met", "got", "left", "sold", "become", "quit", "read")
    )


def _main_verb(state: Stripped) -> None:
    if not state.words:
        return
    first, rest = state.words[0], state.words[1:]
    root, past = base(first)
    while rest and (rest[0] in words_of.ADVERBS and root != "be"):
        rest = rest[1:]
    if rest and rest[0] == "no":
        state.affirmed = not state.affirmed
        rest = rest[1:]
    elif rest and rest[0] in ("any", "not"):
        state.affirmed ^= rest[0] == "not"
        rest = rest[1:]
    if root in ("become", "turn") and rest and (root == "become" or rest[0][0].isdigit() or rest[0] in _TURNS):
        root, past, state.event = "be", False, True
    state.past |= past and not state.ended
    if state.able or state.duty:
        if not state.affirmed and root in words_of.INGEST:
            state.affirmed = True
            root = "avoid"
            rest = rest[1:] if rest[:1] == ["around"] else rest
        elif state.able:
            root, rest = "can", [root, *rest]
    state.words = [root, *rest]


def _drop(state: Stripped, count: int) -> bool:
    state.seen += state.words[:count]
    state.words = state.words[count:]
    return True
