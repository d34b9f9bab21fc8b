"""HTML to text: blocks, headings, tables and code; scripts, styles and what is not displayed are left out."""

from __future__ import annotations

import re

from lxml import etree, html

from octavo.app.documents.building import TextBuilder
from octavo.app.documents.encodings import decode
from octavo.app.documents.parsed import Limits, Outcome, Parsed, ParseError

_SKIPPED = frozenset({"script", "style", "template", "noscript", "svg", "head", "iframe", "object", "select"})
_BLOCK_NAMES = (
    "address article aside blockquote body dd details div dl dt fieldset figcaption figure footer form header hr li "
    "main nav ol p section summary ul"
)
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_INVISIBLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d]*[1-9])|opacity\s*:\s*0(?![.\d]*[1-9])|"
    r"text-indent\s*:\s*-\d{3,}",
    re.IGNORECASE,
)
_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)|<\?xml[^>]{0,100}encoding=[\"']([A-Za-z0-9_.:-]+)",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"[ \t\n\r\f]+")


def parse_html(data: bytes, limits: Limits, encoding: str | None = None) -> Parsed:
    """Read a page. Raises ParseError."""
    decoded = decode(data, encoding or _declared(data))
    builder = TextBuilder(limits)
    title = add_html(builder, decoded.text)
    parsed = Parsed("html", text=builder.text(), marks=builder.marks, title=title, encoding=decoded.encoding)
    parsed.hidden = builder.hidden
    if builder.num_invisible:
        parsed.notes.append(f"{builder.num_invisible:,} invisible characters were left out.")
    return parsed


def _declared(data: bytes) -> str | None:
    """The encoding that the page names, if the page is not UTF-8 anyway and the name is right."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        match = _CHARSET.search(data[:4096])
        if match is not None:
            name = (match[1] or match[2]).decode("ascii")
            try:
                data.decode(name)
            except (LookupError, UnicodeDecodeError):
                return None
            return name
    return None


def add_html(builder: TextBuilder, text: str) -> str:
    """Append the text of a page to `builder`; returns the page's title. Raises ParseError."""
    if not text.strip():
        return ""
    # A declaration of an encoding is void in text that is decoded already, and lxml refuses it.
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text)
    parser = html.HTMLParser(no_network=True, remove_comments=True, remove_pis=True, huge_tree=True)
    root = html.document_fromstring(text, parser=parser, ensure_head_body=True)
    if any("depth" in entry.message for entry in parser.error_log):
        raise ParseError(Outcome.FAILED, "Its elements are nested too deep to be read.")
    title = root.findtext(".//title") or ""
    body = root.find("body")
    if body is not None:
        _Walk(builder).run(body)
    return " ".join(title.split())


class _Walk:
    """One pass over a tree without recursion, however deep it is."""

    def __init__(self, builder: TextBuilder) -> None:
        self._builder = builder
        self._text: list[str] = []

    def run(self, body: html.HtmlElement) -> None:
        walk = etree.iterwalk(body, events=("start", "end"))
        skipped: html.HtmlElement | None = None
        for event, element in walk:
            if event == "end":
                if element is not skipped:
                    self._close(element)
                skipped = None
                self._text.append(element.tail or "" if element is not body else "")
            elif self._take_whole(element):
                walk.skip_subtree()
                skipped = element
            else:
                self._open(element)
        self._flush()

    def _take_whole(self, element: html.HtmlElement) -> bool:
        """Elements that are left out, or whose text is taken as one."""
        tag = element.tag
        if not isinstance(tag, str) or tag in _SKIPPED:
            return True
        style = element.get("style") or ""
        if element.get("hidden") is not None or (style and _INVISIBLE.search(style)):
            self._builder.hide(_all_text(element), "text that is not displayed")
            return True
        if tag in _HEADINGS:
            self._flush()
            self._builder.heading(_all_text(element), _HEADINGS[tag])
        elif tag == "pre":
            self._flush()
            self._builder.code(_all_text(element).strip("\n"))
        elif tag == "table" and element.find(".//table") is None:
            self._flush()
            self._builder.table(
                [[_all_text(cell) for cell in row if cell.tag in ("td", "th")] for row in element.iter("tr")]
            )
        else:
            return False
        return True

    def _open(self, element: html.HtmlElement) -> None:
        if element.tag in _BLOCKS or element.tag in ("tr", "table"):
            self._flush()
        if element.tag == "br":
            self._text.append("\x01")
        if element.tag == "li":
            self._text.append("- ")
        self._text.append(element.text or "")

    def _close(self, element: html.HtmlElement) -> None:
        if element.tag in _BLOCKS or element.tag in ("tr", "table"):
            self._flush()
        elif element.tag in ("td", "th"):
            self._text.append(" ")

    def _flush(self) -> None:
        text = _NUMBERS.sub(" ", "".join(self._text)).replace(" \x01", "\x01").replace("\x01 ", "\x01")
        self._text.clear()
        if text.strip(" \x01-"):
            self._builder.paragraph(text.replace("\x01", "\n"))


def _all_text(element: html.HtmlElement) -> str:
    """The text below an element, with the line ends of `br`, without what is skipped."""
    pieces: list[str] = []
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, inner in walk:
        if event == "start":
            style = inner.get("style") or ""
            if inner is not element and (
                not isinstance(inner.tag, str)
                or inner.tag in _SKIPPED
                or inner.get("hidden") is not None
                or (style and _INVISIBLE.search(style))
            ):
                walk.skip_subtree()
            else:
                pieces.append(("\n" if inner.tag == "br" else "") + (inner.text or ""))
        elif inner is not element:
            pieces.append(inner.tail or "")
    return "".join(pieces)
