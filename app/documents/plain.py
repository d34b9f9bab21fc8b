"""Formats whose text is the file itself: plain text, Markdown, CSV, JSON, source code. Marks say what stands where."""

from __future__ import annotations

import bisect
import csv
import itertools
import json
import re

from octavo.app.documents.clean import cleaned
from octavo.app.documents.encodings import decode
from octavo.app.documents.parsed import Hidden, Limits, Mark, Outcome, Parsed, ParseError

_LONG_LINE = 1000
_COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(?:.*?\n)?? {0,3}\1[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)
_ATX = re.compile(r"^ {0,3}(#{1,6})[ \t]+([^\n]*?)[ \t]*#*[ \t]*$", re.MULTILINE)
_SETEXT = re.compile(r"^ {0,3}([^\n|>#\-=][^\n]*)\n {0,3}(=+|-{2,})[ \t]*$", re.MULTILINE)
_PIPES = re.compile(r"^[^\n]*\|[^\n]*\n[ \t]*\|?[ \t:]*-+[ \t:|-]*\n(?:[^\n]*\|[^\n]*(?:\n|$))*", re.MULTILINE)
_CHAPTER = re.compile(
    r"^[ \t]*((?:chapter|part|book|act|scene|section|article|appendix|kapitel|teil|buch|abschnitt|artikel)"
    r"[ \t]+(?:[0-9]+|[ivxlcdm]+)\b[^\n]{0,70}|§[ \t]*[0-9]+[a-z]?\b[^\n]{0,70}|"
    r"第[0-9零〇一二三四五六七八九十百千]+[章回节節卷篇条條部][^\n]{0,40})"
    r"[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_DEFINITION = re.compile(
    r"^(?P<indent>[ \t]*)(?:(?:export|default|pub(?:\([a-z]+\))?|public|private|protected|static|final|abstract|async|"
    r"inline|virtual|override|unsafe|extern|template[^\n]*>)[ \t]+)*"
    r"(?:def|class|func|fn|function|struct|enum|interface|trait|impl|module|namespace|protocol|record)\b[ \t]+"
    r"(?P<title>[^\n({:=]+)",
    re.MULTILINE,
)
_C_FUNCTION = re.compile(r"^(?=[A-Za-z_])[\w \t*&<>:,]*?\b(?P<title>\w+)[ \t]*\([^;{}]*\)[^;{}\n]*\n?\{", re.MULTILINE)
_INDENT = 4


def parse_plain(data: bytes, kind: str, limits: Limits, encoding: str | None = None) -> Parsed:
    """Read a text file of the given kind. Raises ParseError."""
    decoded = decode(data, encoding)
    if len(decoded.text) > limits.text_characters:
        raise ParseError(Outcome.FAILED, f"Its text is longer than {limits.text_characters:,} characters.")
    text, invisible = cleaned(decoded.text)
    parsed = Parsed(kind, text=text, encoding=decoded.encoding)
    if decoded.alternatives:
        others = ", ".join(decoded.alternatives)
        parsed.notes.append(f"Read as {decoded.encoding}; it could also be {others} (choose with --encoding).")
    _MARKERS[kind](parsed)
    if invisible:
        parsed.notes.append(f"{invisible:,} invisible characters were left out.")
    return parsed


def _mark_text(parsed: Parsed) -> None:
    parsed.marks = [
        Mark("heading", match.start(1), match.end(1), 1, match[1].strip()) for match in _CHAPTER.finditer(parsed.text)
    ]


def _mark_markdown(parsed: Parsed) -> None:
    """Headings, code and tables; comments, which no reader sees, are left out."""
    fences = [match.span() for match in _FENCE.finditer(parsed.text)]
    comments = [m for m in _COMMENT.finditer(parsed.text) if not _inside(m.start(), fences) and m[1].strip()]
    if comments:
        parsed.hidden = [Hidden(len(m[1]), "a comment", " ".join(m[1].split())[:400]) for m in comments]
        edges = [0, *(edge for m in comments for edge in m.span()), len(parsed.text)]
        parsed.text = "".join(parsed.text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))
        fences = [match.span() for match in _FENCE.finditer(parsed.text)]
    text = parsed.text
    marks = [Mark("code", start, end) for start, end in fences]
    marks += [
        Mark("heading", match.start(), match.end(), len(match[1]), match[2])
        for match in _ATX.finditer(text)
        if not _inside(match.start(), fences)
    ]
    for match in _SETEXT.finditer(text):
        if not _inside(match.start(), fences):
            level = 1 if match[2].startswith("=") else 2
            marks.append(Mark("heading", match.start(), match.end(), level, match[1].strip()))
    for match in _PIPES.finditer(text):
        if not _inside(match.start(), fences):
            head = text.index("\n", match.start())
            marks.append(Mark("table", match.start(), match.end(), head_end=head))
    parsed.marks = sorted(marks, key=lambda mark: mark.start)
    first = next((mark for mark in parsed.marks if mark.kind == "heading"), None)
    parsed.title = first.title if first is not None else ""


def _inside(place: int, spans: list[tuple[int, int]]) -> bool:
    index = bisect.bisect_right(spans, (place, 1 << 60)) - 1
    return index >= 0 and place < spans[index][1]


def _mark_csv(parsed: Parsed) -> None:
    """One table whose header is the first record, which may have line ends inside quotes."""
    text = parsed.text
    lines = iter(text.splitlines(keepends=True))
    head = ""
    for line in itertools.islice(lines, 100):
        head += line
        if head.count('"') % 2 == 0:
            break
    if csv_width(head) > 1:
        parsed.marks = [Mark("table", 0, len(text), head_end=len(head.rstrip("\n")))]


def csv_width(line: str) -> int:
    """How many fields a record has, with whichever delimiter gives most."""
    return max(len(next(csv.reader([line], delimiter=mark), [])) for mark in ",;\t|")


def _mark_json(parsed: Parsed) -> None:
    """JSON on endless lines is laid out anew: a line is what can be cut at."""
    try:
        value = json.loads(parsed.text)
    except (ValueError, RecursionError):
        parsed.notes.append("It is not valid JSON and was read as plain text.")
        return
    if max(map(len, parsed.text.splitlines()), default=0) > _LONG_LINE:
        parsed.text = cleaned(json.dumps(value, ensure_ascii=False, indent=1))[0]
    parsed.marks = [Mark("json", 0, len(parsed.text))]


def _mark_jsonl(parsed: Parsed) -> None:
    parsed.marks = [Mark("json", 0, len(parsed.text))]


def _mark_code(parsed: Parsed) -> None:
    text = parsed.text
    found = [
        (m.start(), m.end(), m["title"].strip(), len(m["indent"].expandtabs(_INDENT)) // _INDENT + 1)
        for m in _DEFINITION.finditer(text)
    ]
    if not found and len(text) < 1 << 20:
        found = [(m.start(), m.start(), m["title"], 1) for m in _C_FUNCTION.finditer(text)]
    headings = [Mark("heading", start, end, level, title) for start, end, title, level in found if title]
    parsed.marks = [Mark("code", 0, len(text)), *headings]


_MARKERS = {
    "text": _mark_text,
    "markdown": _mark_markdown,
    "csv": _mark_csv,
    "json": _mark_json,
    "jsonl": _mark_jsonl,
    "code": _mark_code,
}
