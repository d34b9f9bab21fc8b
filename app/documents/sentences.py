"""Where sentences end, in scripts with and without spaces."""

from __future__ import annotations

import regex

_CLOSERS = "\"'”’»›)\\]】」』）》〉"
_END = regex.compile(rf"(?:[.!?…]+[{_CLOSERS}]*(?=\s|$)|[。！？；｡‼⁉।॥؟۔]+[{_CLOSERS}]*|[ \t]*\n[ \t]*\n)\s*")
_ABBREVIATIONS = (
    "mr mrs ms dr prof st no vol fig figs eq sec ch pp p cf vs etc al e.g i.e eg ie inc ltd co jr sr approx dept est "
    "z.b d.h u.a bzw ca nr abs art vgl usw bsp str hrsg bd jh s.o s.u o.ä u.s a.m p.m jan feb mar apr jun jul aug sep "
    "sept oct okt nov dec dez"
)
_SHORT = frozenset(_ABBREVIATIONS.split())
_LAST_WORD = regex.compile(r"[\w.]+$")
_LOOK_BACK = 24


def sentence_ends(text: str, start: int = 0, end: int | None = None) -> list[int]:
    """Offsets after each sentence of text[start:end], the white space behind it included; the last is `end`."""
    end = len(text) if end is None else end
    ends = [match.end() for match in _END.finditer(text, start, end) if _ends_here(text, match.start())]
    if start < end and (not ends or ends[-1] != end):
        ends.append(end)
    return ends


def sentences(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """The sentences of text[start:end] as (start, end) without the white space around them."""
    spans, begin = [], start
    for stop in sentence_ends(text, start, end):
        piece = text[begin:stop]
        if piece.strip():
            left = begin + len(piece) - len(piece.lstrip())
            spans.append((left, begin + len(piece.rstrip())))
        begin = stop
    return spans


def _ends_here(text: str, place: int) -> bool:
    """False for the dot of an abbreviation, an initial or an ordinal ("3. Oktober")."""
    if text[place] != ".":
        return True
    word = _LAST_WORD.search(text[max(place - _LOOK_BACK, 0) : place])
    if word is None:
        return True
    last = word[0].casefold()
    is_initial = len(last) == 1 and last.isalpha()
    is_ordinal = last.isdigit() and len(last) <= 2
    return not (last in _SHORT or is_initial or is_ordinal)
