"""From a message to its sentences and clauses, each with where it stands in the message."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise

_HAN = re.compile("[\u3400-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
_SENTENCE = re.compile(r"[^.!?;。！？；\n]+(?:[.](?=\w)[^.!?;。！？；\n]+)*[.!?;。！？；]*")
_WORD = re.compile(r"[^\W\d_]+")
_ENGLISH = frozenset(("i", "my", "the", "is", "have", "user", "we", "our", "and", "to", "of", "has", "was", "are"))
# Words of other languages in Latin letters that English does not have.
_OTHERS = frozenset((
    "abito", "aime", "ben", "bin", "bor", "das", "der", "ein", "eine", "el", "es", "est", "estoy", "eu", "gosto",
    "gusta", "habe", "habite", "heb", "ho", "ich", "ik", "ist", "jag", "je", "jestem", "les", "los", "ma", "mag",
    "mam", "mein", "meine", "meu", "mi", "mia", "mijn", "minha", "mio", "mon", "moro", "nicht", "niet", "nous",
    "não", "och", "pas", "sono", "sou", "soy", "suis", "tengo", "tenho", "una", "und", "une", "vivo", "wir",
    "wohne", "woon", "yo", "är",
))  # fmt: skip
_ABBREVIATION = re.compile(r"\b(Dr|Mr|Mrs|Ms|Prof|St|e\.g|i\.e|approx|No)\.", re.IGNORECASE)
_PERSON = r"(?:i|i'm|i've|i'd|i'll|my|we|our|he|she|they|it|the user|her|his)"
# A run of spaces, as long as what was blanked out, is looked through from its beginning only.
_CLAUSE = re.compile(
    r"(?:(?<!\s)\s+(?:[,:—–-]+\s+)?|(?<![,:—–\s-])[,:—–-]+\s+)\b"
    r"(?:but|however|although|though|whereas|while|and|because|so|yet|plus)\s+"
    rf"(?=(?:then |now |also |still |sadly |luckily )?{_PERSON}\b)"
    rf"|,\s+(?=(?:then |now |also |so |which )?(?:i|i'm|i've|my|the user)\b(?! (?:think|guess|believe|suppose)\b))"
    r"|(?<!\s)\s+[—–]\s+"
    r"|，(?=但|可是|不过(?!敏)|而且|所以|现在|还|也|我|用户|住在|对.{1,8}过敏|在.{1,10}工作|不?喜欢|讨厌|来自|养了|不吃|不喝|患有)|(?:，|,)?(?:但是|可是|不过(?!敏)|而且|所以|并且|但)",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"^\s*(?:if|when|whenever|unless|suppose|imagine|after|before|while|since)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a message: `text[start:end]` of it, without the space around."""

    text: str
    start: int
    end: int


def plain(text: str) -> str:
    """Text with one form for quotes, spaces and full-width letters, of unchanged length."""
    table = {"’": "'", "‘": "'", "\u00a0": " ", "“": '"', "”": '"', "\t": " "}
    return "".join(
        table.get(c, n if len(n := unicodedata.normalize("NFKC", c)) == 1 and not _is_punctuation(c) else c)
        for c in text
    )


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def language_of(text: str) -> str:
    """ "zh" where Han characters carry the text, "en" for Latin letters, otherwise ""."""
    han = len(_HAN.findall(text))
    letters = len(_LETTER.findall(text))
    if letters == 0:
        return ""
    if han and han * 3 >= letters - han:
        return "zh"
    words = set(_WORD.findall(text.casefold()))
    if words & _OTHERS and not words & _ENGLISH:
        return ""
    return "en" if sum(c.isascii() for c in text if c.isalpha()) * 2 > letters else ""


def sentences(text: str) -> list[Piece]:
    """The sentences of a message, in order."""
    hidden = _ABBREVIATION.sub(lambda match: match[0][:-1] + "\x00", text)
    found = []
    for match in _SENTENCE.finditer(hidden):
        piece = _piece(text, *match.span())
        if any(c.isalnum() for c in piece.text):
            found.append(piece)
    return found


def clauses(sentence: Piece, text: str) -> list[Piece]:
    """The clauses of a sentence that say something of their own; a condition stays with what depends on it."""
    if _CONDITION.match(sentence.text):
        return [sentence]
    cuts = [(sentence.start, sentence.start)]
    cuts += [(sentence.start + m.start(), sentence.start + m.end()) for m in _CLAUSE.finditer(sentence.text)]
    cuts.append((sentence.end, sentence.end))
    pieces = [_piece(text, left[1], right[0]) for left, right in pairwise(cuts)]
    return [piece for piece in pieces if any(c.isalnum() for c in piece.text)]


def _piece(text: str, start: int, end: int) -> Piece:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return Piece(text[start:end], start, end)
