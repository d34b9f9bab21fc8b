"""Characters that a person does not see are taken out of what a model reads; those that a script needs stay.

Zero-width characters, bidirectional controls, tag characters and stacked variation selectors can carry a second text
inside the visible one (https://www.unicode.org/reports/tr36/ and tr39). Joiners stay inside emoji, Indic and Arabic
scripts, where they change what is seen; so do the three flags that are written with tag characters.
"""

from __future__ import annotations

import functools
import re
from importlib import resources

_JOINED_SCRIPTS = "\u0600-\u08ff\u0900-\u109f\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefc"
_EMOJI = "\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
_KEPT = "|".join(
    (
        "\U0001f3f4(?:\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|"
        "\U000e0077\U000e006c\U000e0073))\U000e007f",
        f"(?<=[{_JOINED_SCRIPTS}])[\u200c\u200d]",
        f"(?<=[{_EMOJI}])\u200d(?=[{_EMOJI}])",
        "(?<=[^\\s\ufe00-\ufe0f\U000e0100-\U000e01ef])[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
        "(?![\ufe00-\ufe0f\U000e0100-\U000e01ef])",
    )
)
_GONE = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_SUSPECT = re.compile(f"({_KEPT})|[{_GONE}]+")
_PLAIN_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LINE_ENDS = re.compile("\r\n?|\u0085|\u2028|\u2029")
_SURROGATES = re.compile("[\ud800-\udfff]")
_LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\u00a0": " ", "\u202f": " "}
)
_SHOWN = 120
_AROUND = 100  # characters around a word within which its pattern has to match


def cleaned(text: str) -> tuple[str, int]:
    """`text` without invisible characters and with plain line ends, and how many characters were taken out."""
    if "\r" in text or not text.isascii():
        text = _LINE_ENDS.sub("\n", text)
    if text.isascii():
        kept = _PLAIN_CONTROL.sub("", text)
        return kept, len(text) - len(kept)
    text = _SURROGATES.sub("\ufffd", text).translate(_LIGATURES)
    kept = _SUSPECT.sub(lambda match: match[1] or "", text)
    return kept, len(text) - len(kept)


def injections(text: str, most: int = 20) -> list[str]:
    """Up to `most` stretches of `text` that speak to a model rather than to a reader, each cut to one line."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text  # a few characters grow in lower case, and would shift every place after them
    found: dict[int, str] = {}
    for words, pattern in _injection_patterns():
        for word in words:
            place = lowered.find(word)
            while place >= 0 and len(found) < most:
                match = pattern.search(text, max(place - _AROUND, 0), place + _AROUND)
                if match is not None:
                    start, end = max(match.start() - 20, 0), match.end() + 40
                    found.setdefault(match.start(), " ".join(text[start:end].split())[:_SHOWN])
                place = lowered.find(word, place + len(word))
    return [found[start] for start in sorted(found)]


@functools.cache
def _injection_patterns() -> list[tuple[list[str], re.Pattern[str]]]:
    lines = resources.files("octavo.assets").joinpath("injections.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" :: ", 1) for line in lines if line and not line.startswith("#")]
    return [(words.split(", "), re.compile(pattern, re.IGNORECASE)) for words, pattern in pairs]
