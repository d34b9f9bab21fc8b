"""DOCX (ECMA-376): paragraphs, headings by their style, lists, tables, notes; deleted and hidden text left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from octavo.app.documents.archive import Archive, opened
from octavo.app.documents.building import TextBuilder
from octavo.app.documents.parsed import Limits, Parsed

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_MARKS = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
_SKIPPED = frozenset({f"{_W}del", f"{_W}moveFrom", f"{_W}instrText", f"{_W}pPr", f"{_W}rPr", _FALLBACK})
_TINY_HALF_POINTS = 2
_HEADING = re.compile(r"heading\s*(\d)", re.IGNORECASE)


def parse_docx(path: Path, limits: Limits) -> Parsed:
    """Read a document. Raises ParseError."""
    builder = TextBuilder(limits)
    with opened(path, limits) as archive:
        levels = _heading_levels(archive)
        body = archive.xml("word/document.xml").find(f"{_W}body")
        if body is not None:
            _add_blocks(builder, body, levels)
        for name in ("word/footnotes.xml", "word/endnotes.xml"):
            if name in archive.names:
                for note in archive.xml(name):
                    if note.get(f"{_W}type") is None:
                        _add_blocks(builder, note, levels)
        comments = len(archive.xml("word/comments.xml")) if "word/comments.xml" in archive.names else 0
    parsed = Parsed("docx", text=builder.text(), marks=builder.marks, hidden=builder.hidden)
    if comments:
        parsed.notes.append(f"{comments:,} comments were left out.")
    if builder.num_invisible:
        parsed.notes.append(f"{builder.num_invisible:,} invisible characters were left out.")
    return parsed


def _heading_levels(archive: Archive) -> dict[str, int]:
    """Style id -> outline level from 1, for the styles of headings and those based on them."""
    if "word/styles.xml" not in archive.names:
        return {}
    levels: dict[str, int] = {}
    based: dict[str, str] = {}
    for style in archive.xml("word/styles.xml").iter(f"{_W}style"):
        key = style.get(f"{_W}styleId") or ""
        name, base = style.find(f"{_W}name"), style.find(f"{_W}basedOn")
        outline = style.find(f"{_W}pPr/{_W}outlineLvl")
        match = _HEADING.match(name.get(f"{_W}val") or "") if name is not None else None
        if outline is not None and (outline.get(f"{_W}val") or "").isdigit():
            levels[key] = int(outline.get(f"{_W}val") or 0) + 1
        elif match is not None:
            levels[key] = int(match[1])
        elif name is not None and (name.get(f"{_W}val") or "").lower() == "title":
            levels[key] = 1
        if base is not None:
            based[key] = base.get(f"{_W}val") or ""
    for key in based:
        base_key, seen = key, set[str]()
        while base_key in based and base_key not in levels and base_key not in seen:
            seen.add(base_key)
            base_key = based[base_key]
        if base_key in levels:
            levels.setdefault(key, levels[base_key])
    return {key: level for key, level in levels.items() if level <= 9}


def _add_blocks(builder: TextBuilder, parent: etree._Element, levels: dict[str, int]) -> None:
    for element in parent:
        if element.tag == f"{_W}p":
            _add_paragraph(builder, element, levels)
        elif element.tag == f"{_W}tbl":
            builder.table(_rows(builder, element))
        elif element.tag in (f"{_W}sdt", f"{_W}customXml", f"{_W}ins", f"{_W}smartTag"):
            content = element.find(f"{_W}sdtContent")
            _add_blocks(builder, element if content is None else content, levels)


def _rows(builder: TextBuilder, table: etree._Element) -> Iterator[list[str]]:
    for row in table.iter(f"{_W}tr"):
        yield [" ".join(_text(builder, p) for p in cell.iter(f"{_W}p")) for cell in row.iter(f"{_W}tc")]


def _add_paragraph(builder: TextBuilder, paragraph: etree._Element, levels: dict[str, int]) -> None:
    text = _text(builder, paragraph)
    style = paragraph.find(f"{_W}pPr/{_W}pStyle")
    outline = paragraph.find(f"{_W}pPr/{_W}outlineLvl")
    level = levels.get(style.get(f"{_W}val") or "") if style is not None else None
    if outline is not None and (outline.get(f"{_W}val") or "").isdigit():
        level = int(outline.get(f"{_W}val") or 0) + 1
    if level is not None and level <= 9:
        builder.heading(text, level)
    else:
        bullet = "- " if paragraph.find(f"{_W}pPr/{_W}numPr") is not None and text.strip() else ""
        builder.paragraph(bullet + text)


def _text(builder: TextBuilder, paragraph: etree._Element) -> str:
    """The visible text of a paragraph, text boxes in it included."""
    pieces: list[str] = []
    walk = etree.iterwalk(paragraph, events=("start",))
    for _, element in walk:
        if element.tag in _SKIPPED:
            walk.skip_subtree()
        elif element.tag == f"{_W}r" and _is_hidden(element):
            builder.hide("".join(t.text or "" for t in element.iter(f"{_W}t")), "text formatted as hidden")
            walk.skip_subtree()
        elif element.tag == f"{_W}t":
            pieces.append(element.text or "")
        elif element.tag == f"{_W}p" and pieces and element is not paragraph:
            pieces.append("\n")
        else:
            pieces.append(_MARKS.get(str(element.tag), ""))
    return "".join(pieces)


def _is_hidden(run: etree._Element) -> bool:
    """Formatted as hidden, in white without a shade behind it, or in a size nobody can read."""
    properties = run.find(f"{_W}rPr")
    if properties is None:
        return False
    vanish = properties.find(f"{_W}vanish")
    if vanish is not None and vanish.get(f"{_W}val") not in ("0", "false", "off"):
        return True
    color, size = properties.find(f"{_W}color"), properties.find(f"{_W}sz")
    shaded = properties.find(f"{_W}shd") is not None or properties.find(f"{_W}highlight") is not None
    in_cell = any(parent.tag == f"{_W}tc" for parent in run.iterancestors())  # the cell may be dark
    if color is not None and (color.get(f"{_W}val") or "").upper() == "FFFFFF" and not shaded and not in_cell:
        return True
    return (
        size is not None
        and (size.get(f"{_W}val") or "").isdigit()
        and int(size.get(f"{_W}val") or 9) <= _TINY_HALF_POINTS
    )
