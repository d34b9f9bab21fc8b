"""PDF: text by PDFium, checked against pypdf; scanned pages, passwords, hidden and garbled text are told apart."""

from __future__ import annotations

import contextlib
import re
import unicodedata
from pathlib import Path
from typing import Any

import pypdfium2
from pypdfium2 import raw

from octavo.app.documents.building import TextBuilder
from octavo.app.documents.hidden_pdf import PageObjects
from octavo.app.documents.parsed import Limits, Mark, Outcome, Parsed, ParseError

_HYPHEN_AT_LINE_END = re.compile("[\x02\ufffe]\r?\n?")
_SAMPLE = 200  # characters of a page whose mapping to Unicode is looked at
_GARBLED_SHARE = 0.3
_NUM_CROSS_CHECKED = 3
_DISAGREE = 0.5
_LISTED_PAGES = 12


def parse_pdf(path: Path, limits: Limits, password: str | None = None) -> Parsed:
    """Read a PDF. Raises ParseError if it needs another password or is damaged."""
    document = open_pdf(path, password)
    with contextlib.closing(document):
        reader = _Reader(document, path, password, limits)
        parsed = reader.read()
        parsed.title = " ".join((document.get_metadata_dict().get("Title") or "").split())
    return parsed


def unknown_share(text: str) -> float:
    """The share of characters that have no meaning: replaced, private, unassigned, or glyph numbers spelt out."""
    visible = [character for character in text if not character.isspace()]
    if not visible:
        return 0.0
    unknown = sum(
        unicodedata.category(character) in ("Co", "Cn", "Cc") or character == "\ufffd" for character in visible
    )
    return (unknown + sum(len(match) for match in re.findall(r"\(cid:\d+\)", text))) / len(visible)


def open_pdf(path: Path, password: str | None = None) -> Any:
    """PDFium's document; it tries the empty password by itself. Raises ParseError."""
    try:
        return pypdfium2.PdfDocument(path, password=password)
    except pypdfium2.PdfiumError as error:
        if raw.FPDF_GetLastError() == raw.FPDF_ERR_PASSWORD or "password" in str(error).lower():
            wrong = "The password is not the right one." if password else "It has a password; give it with --password."
            raise ParseError(Outcome.ENCRYPTED, wrong) from None
        raise ParseError(Outcome.FAILED, f"It is not a readable PDF ({error}).") from None


class _Reader:
    def __init__(self, document: Any, path: Path, password: str | None, limits: Limits) -> None:
        self._document = document
        self._path, self._password = path, password
        self._limits = limits
        self._builder = TextBuilder(limits)
        self._other: Any = None

    def read(self) -> Parsed:
        parsed = Parsed("pdf")
        num_pages = len(self._document)
        read = min(num_pages, self._limits.pages)
        checked = {round(i * (read - 1) / max(_NUM_CROSS_CHECKED - 1, 1)) for i in range(_NUM_CROSS_CHECKED)}
        garbled, disagreeing = 0, []
        for number in range(read):
            text, has_content, is_garbled = self._page(number)
            if is_garbled or number in checked:
                other = self._other_text(number)
                if is_garbled and other.strip() and unknown_share(other) < unknown_share(text) / 2:
                    text, is_garbled = other, False
                elif not is_garbled and _differ(text, other):
                    disagreeing.append(number + 1)
            garbled += is_garbled
            self._builder.page()
            self._builder.paragraph(text)
            if has_content and not text.strip():
                parsed.pages_without_text.append(number + 1)
        parsed.text, parsed.pages, parsed.hidden = self._builder.text(), self._builder.pages, self._builder.hidden
        parsed.marks = _outline(self._document, parsed.text, parsed.pages)
        parsed.unknown_share = unknown_share(parsed.text)
        if garbled * 2 > read:
            parsed.unknown_share = max(parsed.unknown_share, garbled / read)
        _tell(parsed, num_pages, read, disagreeing)
        if self._builder.num_invisible:
            parsed.notes.append(f"{self._builder.num_invisible:,} invisible characters were left out.")
        return parsed

    def _page(self, number: int) -> tuple[str, bool, bool]:
        """The visible text, whether there is anything on the page at all, and whether the text is garbled."""
        try:
            page = self._document.get_page(number)
        except pypdfium2.PdfiumError:
            return self._other_text(number), True, False
        with contextlib.closing(page), contextlib.closing(page.get_textpage()) as textpage:
            objects = PageObjects(page)
            if objects.hidden:
                text, hidden = objects.split(textpage)
                self._builder.hide(hidden, f"page {number + 1}")
            else:
                text = textpage.get_text_range()
            count = min(textpage.count_chars(), _SAMPLE)
            errors = sum(raw.FPDFText_HasUnicodeMapError(textpage, index) == 1 for index in range(count))
            has_content = objects.num_objects > 0
        text = _HYPHEN_AT_LINE_END.sub("", text)
        return (
            text,
            has_content,
            count > 0 and (errors / count > _GARBLED_SHARE or unknown_share(text) > _GARBLED_SHARE),
        )

    def _other_text(self, number: int) -> str:
        """The page's text as pypdf reads it, empty if it cannot."""
        import pypdf

        try:
            if self._other is None:
                self._other = pypdf.PdfReader(self._path, password=self._password)
            text = self._other.pages[number].extract_text()
        except Exception:  # a second opinion on a file that may be damaged in any way
            return ""
        assert isinstance(text, str)
        return text


def _differ(text: str, other: str) -> bool:
    """True if one of the two has much that the other lacks."""
    mine, theirs = (sum(map(str.isalnum, one)) for one in (text, other))
    return theirs > 0 and mine > 0 and min(mine, theirs) < _DISAGREE * max(mine, theirs)


def _outline(document: Any, text: str, pages: list[int]) -> list[Mark]:
    """The bookmarks as headings: where their words stand on the page, else at its beginning."""
    marks = []
    with contextlib.suppress(pypdfium2.PdfiumError):
        for item in document.get_toc():
            destination = item.get_dest()
            index = destination.get_index() if destination is not None else None
            title = " ".join((item.get_title() or "").split())
            if index is None or not 0 <= index < len(pages) or not title:
                continue
            end = pages[index + 1] if index + 1 < len(pages) else len(text)
            match = re.compile(r"\s+".join(map(re.escape, title.split()))).search(text, pages[index], end)
            start, stop = match.span() if match is not None else (pages[index], pages[index])
            marks.append(Mark("heading", start, stop, item.level + 1, title))
    return sorted(marks, key=lambda mark: mark.start)


def _tell(parsed: Parsed, num_pages: int, read: int, disagreeing: list[int]) -> None:
    if read < num_pages:
        parsed.notes.append(f"Only the first {read:,} of {num_pages:,} pages were read.")
    if parsed.pages_without_text and parsed.text.strip():
        parsed.notes.append(f"There is no text on {page_list(parsed.pages_without_text)} (scanned?).")
    if disagreeing:
        parsed.notes.append(f"Two PDF readers disagree on the text of {page_list(disagreeing)}.")


def page_list(pages: list[int]) -> str:
    """ "page 3", or "pages 1, 2, 3", cut where it gets long."""
    listed = ", ".join(map(str, pages[:_LISTED_PAGES]))
    more = f" and {len(pages) - _LISTED_PAGES} more" if len(pages) > _LISTED_PAGES else ""
    return f"{'page' if len(pages) == 1 else 'pages'} {listed}{more}"
