"""Real documents, made on the spot: PDF by reportlab, Office files and books as the archives they are."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from reportlab.pdfgen.canvas import Canvas

from octavo.app.documents.parse import Reader

Draw = Callable[[Canvas], None]

CONTENT_TYPES = '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
STYLES = f"""<w:styles {W}>
<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>
<w:style w:styleId="H2"><w:name w:val="heading 2"/></w:style>
<w:style w:styleId="Mine"><w:name w:val="My heading"/><w:basedOn w:val="H2"/></w:style></w:styles>"""


@pytest.fixture(scope="session")
def reader() -> Iterator[Reader]:
    """One reading process for all tests."""
    with Reader() as reader:
        yield reader


@pytest.fixture
def make_pdf(tmp_path: Path) -> Callable[..., Path]:
    """make_pdf(page, page, ..., password=None) -> a PDF; a page is text, or a function that draws it."""

    def make(*pages: str | Draw, name: str = "file.pdf", encrypt: Any = None) -> Path:
        path = tmp_path / name
        canvas = Canvas(str(path), pagesize=(595, 842), encrypt=encrypt)
        for page in pages:
            if callable(page):
                page(canvas)
            else:
                for number, line in enumerate(page.splitlines()):
                    canvas.drawString(72, 770 - 14 * number, line)
            canvas.showPage()
        canvas.save()
        return path

    return make


@pytest.fixture
def make_archive(tmp_path: Path) -> Callable[..., Path]:
    """make_archive(name, {member: text}) -> the zip file."""

    def make(name: str, members: dict[str, str]) -> Path:
        path = tmp_path / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, text in members.items():
                archive.writestr(member, text)
        return path

    return make


@pytest.fixture
def make_docx(make_archive: Callable[..., Path]) -> Callable[..., Path]:
    """make_docx(body) -> a DOCX with this WordprocessingML in its body."""

    def make(body: str, **members: str) -> Path:
        document = f"<w:document {W}><w:body>{body}</w:body></w:document>"
        parts = {f"word/{name}.xml": text for name, text in members.items()}
        base = {"[Content_Types].xml": CONTENT_TYPES, "word/document.xml": document, "word/styles.xml": STYLES}
        return make_archive("file.docx", base | parts)

    return make


@pytest.fixture
def make_epub(make_archive: Callable[..., Path]) -> Callable[..., Path]:
    """make_epub(page, page, ..., encryption=None) -> a book with these bodies as pages."""

    def make(*bodies: str, encryption: str | None = None) -> Path:
        items = "".join(
            f'<item id="p{i}" href="text/p%20{i}.xhtml" media-type="application/xhtml+xml"/>'
            for i in range(len(bodies))
        )
        spine = "".join(f'<itemref idref="p{i}"/>' for i in range(len(bodies)))
        package = (
            '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"<dc:title>A Book</dc:title></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
        )
        container = (
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OPS/book.opf"/></rootfiles></container>'
        )
        members = {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "OPS/book.opf": package}
        for i, body in enumerate(bodies):
            members[f"OPS/text/p {i}.xhtml"] = (
                f'<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><body>{body}</body></html>'
            )
        if encryption is not None:
            members["META-INF/encryption.xml"] = encryption
        return make_archive("file.epub", members)

    return make
