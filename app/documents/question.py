"""What a question is about: its words without those that only ask, and how far a text covers them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from importlib import resources

from octavo.app.documents.sentences import sentences
from octavo.storage.words import entries, words_of

_WORD = re.compile(r"\w+(?:[-'’]\w+)*")
_WIDE = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_QUOTED = re.compile('["“„«「].*?["”“»」]')
# Chinese words of one character that join others; a pair across one of them is no word.
_PARTICLES = re.compile("[是的了吗呢在由从像个把被和与]")
_SHORTEST_STEM = 4
_SHORTEST_PART = 5  # letters of a compound's part
_VOWELS = str.maketrans("äöü", "aou")
# A sentence that asks: by its end, or by a word that it begins with.
_ASKS = re.compile(
    "[?？؟]+[\"'”’»)」』]*$|^(?:(?:please|bitte|and|und|so)[ ,]+)?(?:tell|explain|describe|list|give|name|show|find|"
    "summari[sz]e|compare|what|how|who|when|where|why|which|nenne?|sage?|erkläre?|beschreibe?|fasse?|zeige?|was|wer|"
    r"wie|wo|wann|warum|welche\w*)\b|^(?:请|請|告诉|告訴|解释|总结)",
    re.IGNORECASE,
)
# Words that stand for something said before; without it a question cannot be looked up. "This contract" does not.
_POINTING = re.compile(
    r"\b(?:this|that|these|those|dies|diese|dieser|dieses|diesem|diesen)\b(?!\s+(?:document|text|file|contract|"
    r"agreement|paper|article|report|book|manual|dokument|datei|vertrag|bericht|buch|artikel)\w{0,2}\b)|"
    r"\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers|"
    r"er|ihn|ihm|sein|seine|seiner|sie|ihr|ihre|ihrer|davon|dazu|darin)\b|"
    "[它他她其]|[这那](?![份个些]?(?:文件|文档|合同|文章|报告|书))",
    re.IGNORECASE,
)


@functools.cache
def _question_words() -> tuple[frozenset[str], re.Pattern[str]]:
    """Words by themselves, and a pattern for the runs of scripts without spaces, longest first."""
    words = set().union(*_languages())
    wide = sorted((word for word in words if _WIDE.fullmatch(word)), key=len, reverse=True)
    return frozenset(words), re.compile("|".join(map(re.escape, wide)))


def question_words() -> frozenset[str]:
    """Words that only ask or connect, of all languages."""
    return _question_words()[0]


def content_of(question: str) -> str:
    """The question without the words that only ask; the question itself if nothing else is in it."""
    return _content(question) or question


def _content(question: str) -> str:
    words, wide = _question_words()
    rest = wide.sub(" ", question)
    return " ".join(word for word in _WORD.findall(rest) if word.casefold() not in words)


def terms_of(question: str) -> list[str]:
    """The content of a question as single words and, in scripts without spaces, pairs of characters."""
    terms: dict[str, None] = {}
    for word in _WORD.findall(content_of(question).casefold()):
        rest = word
        for run in _WIDE.findall(word):
            rest = rest.replace(run, " ")
            pieces = [piece for piece in _PARTICLES.split(run) if len(piece) > 1] or [run]
            terms |= dict.fromkeys(pair for piece in pieces for pair in entries(piece)[:-1] or [piece])
        terms |= dict.fromkeys(part for part in re.findall(r"\w+", rest) if len(part) > 1 or part.isdigit())
    return list(terms)


def in_context(message: str, earlier: Sequence[str]) -> str:
    """What a message asks, as it is looked up: without what it only tells beside its question.

    A question that points back, or says nothing by itself, is looked up with what the message tells, or where it tells
    nothing, with the question before it.
    """
    said = [line[start:end] for line in message.splitlines() for start, end in sentences(line)]
    asking = [sentence for sentence in said if _ASKS.search(sentence)]
    if 0 < len(asking) < len(said):
        # What a later one points back to is in the first.
        return message if _points_back(asking[0]) or not _content(asking[0]) else " ".join(asking)
    return f"{message} {earlier[-1]}" if earlier and _points_back(message) else message


def _points_back(question: str) -> bool:
    return _POINTING.search(_QUOTED.sub(" ", question)) is not None


def is_english(question: str) -> bool:
    """True unless words that only ask are of another language more often, or the script is."""
    letters = [letter for letter in question if letter.isalpha()]
    if sum(letter > "\u024f" for letter in letters) * 2 >= max(len(letters), 1):
        return False
    english, *others = _languages()
    words = set(_WORD.findall(question.casefold()))
    return all(len(words & english) >= len(words & other) for other in others)


@functools.cache
def _languages() -> list[frozenset[str]]:
    """The words that only ask of each language, those of English first."""
    lines = resources.files("octavo.assets").joinpath("question_words.txt").read_text(encoding="utf-8").splitlines()
    return [frozenset(line.casefold().split()) for line in lines if not line.startswith("#")]


def covered(terms: Iterable[str], texts: Iterable[str]) -> list[str]:
    """Those of the terms that the texts hold, in this form or in another with the same stem."""
    words: set[str] = set()
    for text in texts:
        words |= words_of(text)
    stems = {word[:length] for word in words for length in range(_SHORTEST_STEM, len(word) + 1)}
    return [term for term in terms if term in words or stem(term) in stems]


def related(terms: Iterable[str], text: str) -> list[str]:
    """Those of the terms that a German text holds otherwise: as the end of a longer word, as a word that ends them
    ("Mitgliederversammlung" and "Versammlung"), with another vowel, or as a participle ("wäscht" and "gewaschen").
    """
    words = words_of(text)
    long = [word for word in words if len(word) >= _SHORTEST_PART]
    forms = {_german_form(word) for word in words}
    return [
        term
        for term in terms
        if (len(term) >= _SHORTEST_STEM and _german_form(term) in forms)
        or (len(term) >= _SHORTEST_PART and any(word.endswith(term) or term.endswith(word) for word in long))
    ]


def _german_form(word: str) -> str:
    plain = word.translate(_VOWELS)
    if plain.startswith("ge") and plain.endswith(("t", "en")) and len(plain) > _SHORTEST_STEM + 3:
        plain = plain[2:]
    return stem(plain)


def credited(terms: Iterable[str], text: str) -> dict[str, float]:
    """How far a text holds each of the terms: 1 as `covered` has it. Two characters of a script without spaces that do
    not stand side by side in it earn up to a half: they may be parts of two words, or of the same one said otherwise.
    """
    terms = list(terms)
    held = set(covered(terms, [text]))
    found = dict.fromkeys(held, 1.0)
    for term in terms:
        if term not in held and len(term) == 2 and _WIDE.fullmatch(term):
            found[term] = sum(character in text for character in term) / 4
    return found


def stem(word: str) -> str:
    """A word without the ending that is most likely inflection; never shorter than four characters."""
    if not word.isalpha() or _WIDE.match(word):
        return word
    for ending in ("ings", "ing", "ern", "est", "ies", "ed", "es", "en", "er", "em", "ly", "s", "e", "n", "y", "t"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word
