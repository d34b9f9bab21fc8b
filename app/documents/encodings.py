"""Bytes to text: the whole file as strict UTF-8 first, and only then a guess, which the user can overrule.

A guess from the first kilobytes alone takes a file for ASCII that has its first accent later (markitdown#1505).
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from octavo.app.documents.parsed import Outcome, ParseError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE_BYTES = 1 << 18
_MOST_ALTERNATIVES = 4


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text and its encoding; `alternatives` are other encodings that a guess could have been."""

    text: str
    encoding: str
    alternatives: tuple[str, ...] = ()


def decode(data: bytes, chosen: str | None = None) -> Decoded:
    """The text of `data`, in the encoding `chosen` if one is.

    Raises ParseError for bytes that are no text, and for a chosen encoding that is unknown or does not fit.
    """
    if chosen:
        return _chosen(data, chosen)
    for mark, name in _MARKS:
        if data.startswith(mark):
            return Decoded(data.decode(name, "replace"), name.removesuffix("-sig"))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _guessed(data)
    if "\x00" in text[:_SAMPLE_BYTES]:
        raise ParseError(Outcome.UNSUPPORTED, "It is not a text file: it holds zero bytes.")
    return Decoded(text, "ascii" if text.isascii() else "utf-8")


def _chosen(data: bytes, name: str) -> Decoded:
    try:
        return Decoded(data.decode(name), codecs.lookup(name).name)
    except LookupError:
        raise ParseError(
            Outcome.FAILED, f"There is no encoding called {name!r}; utf-8, cp1252, gb18030 are some."
        ) from None
    except UnicodeDecodeError as error:
        raise ParseError(
            Outcome.FAILED, f"It is not {name}: byte {error.start} is {error.object[error.start]:#04x}."
        ) from None


def _guessed(data: bytes) -> Decoded:
    """Guess from lines that are not ASCII: only these tell encodings apart."""
    from charset_normalizer import from_bytes

    if b"\x00" in data[:_SAMPLE_BYTES]:
        raise ParseError(Outcome.UNSUPPORTED, "It is not a text file: it holds zero bytes.")
    sample = bytearray()
    for line in data.splitlines(keepends=True):
        if not line.isascii():
            sample += line[:_SAMPLE_BYTES]
        if len(sample) >= _SAMPLE_BYTES:
            break
    guesses = [match.encoding for match in from_bytes(bytes(sample))]
    # Equal text under several names is no choice; cp1252 is what Western files without a mark are.
    names = list(dict.fromkeys(guesses)) or ["cp1252"]
    if "cp1252" in names and _looks_western(bytes(sample)):
        names.insert(0, names.pop(names.index("cp1252")))
    return Decoded(data.decode(names[0], "replace"), names[0], tuple(names[1 : 1 + _MOST_ALTERNATIVES]))


def _looks_western(sample: bytes) -> bool:
    """True where single high bytes stand among ASCII letters, as accents do; other scripts have runs of them."""
    high = sum(byte > 127 for byte in sample)
    return high * 4 < len(sample)
