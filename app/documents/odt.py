"""ODT (OpenDocument 1.3): headings, paragraphs, lists, tables, notes; deleted and hidden text left out."""

from __future__ import annotations

from pathlib import Path

from lxml import etree

from octavo.app.documents.archive import Archive, opened
from octavo.app.documents.building import TextBuilder
from octavo.app.documents.parsed import Limits, Outcome, Parsed, ParseError

_NS = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE, _STYLE, _OFFICE = (f"{{{_NS}{name}:1.0}}" for name in ("text", "table", "style", "office"))
_ENCRYPTED = f"{{{_NS}manifest:1.0}}encryption-data"
_CONTAINERS = frozenset(
    {f"{_TEXT}{name}" for name in ("list", "list-item", "list-header", "section", "index-body", "table-of-content")}
)
_SKIPPED = frozenset({f"{_TEXT}tracked-changes", f"{_OFFICE}annotation", f"{_TEXT}sequence-decls"})
_HIDDEN = frozenset({f"{_TEXT}hidden-text", f"{_TEXT}hidden-paragraph"})


def parse_odt(path: Path, limits: Limits) -> Parsed:
    """Read a document. Raises ParseError."""
    builder = TextBuilder(limits)
    with opened(path, limits) as archive:
        manifest = "META-INF/manifest.xml"
        if manifest in archive.names and next(archive.xml(manifest).iter(_ENCRYPTED), None) is not None:
            raise ParseError(Outcome.ENCRYPTED, "It has a password. Save it without one, and add that.")
        root = archive.xml("content.xml")
        hidden = _hidden_styles(root) | _hidden_styles_of(archive)
        body = root.find(f"{_OFFICE}body/{_OFFICE}text")
        if body is not None:
            _Reader(builder, hidden).add(body)
    parsed = Parsed("odt", text=builder.text(), marks=builder.marks, hidden=builder.hidden)
    if builder.num_invisible:
        parsed.notes.append(f"{builder.num_invisible:,} invisible characters were left out.")
    return parsed


def _hidden_styles_of(archive: Archive) -> set[str]:
    return _hidden_styles(archive.xml("styles.xml")) if "styles.xml" in archive.names else set()


def _hidden_styles(root: etree._Element) -> set[str]:
    """Names of the styles whose text is not displayed."""
    return {
        style.get(f"{_STYLE}name") or ""
        for style in root.iter(f"{_STYLE}style")
        for properties in style.iter(f"{_STYLE}text-properties")
        if properties.get(f"{_TEXT}display") == "none"
    }


class _Reader:
    """Blocks in reading order; lists and sections are opened, tables taken as one."""

    def __init__(self, builder: TextBuilder, hidden_styles: set[str]) -> None:
        self._builder = builder
        self._hidden_styles = hidden_styles

    def add(self, parent: etree._Element) -> None:
        stack = list(reversed(parent))
        while stack:
            element = stack.pop()
            if element.tag in _CONTAINERS:
                stack += reversed(element)
            elif element.tag == f"{_TEXT}h":
                level = element.get(f"{_TEXT}outline-level") or "1"
                self._builder.heading(self._text(element), int(level) if level.isdigit() else 1)
            elif element.tag == f"{_TEXT}p":
                text = self._text(element)
                in_list = any(outer.tag == f"{_TEXT}list-item" for outer in element.iterancestors())
                self._builder.paragraph(f"- {text}" if in_list and text.strip() else text)
            elif element.tag == f"{_TABLE}table":
                self._builder.table(
                    [
                        [" ".join(self._text(p) for p in cell.iter(f"{_TEXT}p")) for cell in row]
                        for row in element.iter(f"{_TABLE}table-row")
                    ]
                )

    def _text(self, paragraph: etree._Element) -> str:
        """The visible text; a note stands where it is referred to."""
        pieces: list[str] = []
        walk = etree.iterwalk(paragraph, events=("start", "end"))
        skipped: etree._Element | None = None
        for event, element in walk:
            if event == "end":
                if element is not paragraph:
                    pieces.append(element.tail or "")
                continue
            is_hidden = element.get(f"{_TEXT}style-name") in self._hidden_styles or element.tag in _HIDDEN
            if is_hidden or element.tag in _SKIPPED:
                if is_hidden:
                    text = "".join(element.itertext()) or element.get(f"{_TEXT}string-value") or ""
                    self._builder.hide(text, "text formatted as hidden")
                walk.skip_subtree()
                skipped = element
            else:
                pieces.append(_opening(element))
        del skipped
        return "".join(pieces)


def _opening(element: etree._Element) -> str:
    if element.tag == f"{_TEXT}s":
        count = element.get(f"{_TEXT}c") or "1"
        return " " * min(int(count) if count.isdigit() else 1, 100)
    if element.tag in (f"{_TEXT}tab", f"{_TEXT}line-break"):
        return "\t" if element.tag == f"{_TEXT}tab" else "\n"
    return (" (" if element.tag == f"{_TEXT}note-body" else "") + (element.text or "")
