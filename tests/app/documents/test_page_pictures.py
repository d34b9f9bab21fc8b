"""Pages of a PDF as pictures: what is cited is marked where it stands, and what cannot be shown is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from octavo.app.documents.parse import Reader
from octavo.app.documents.picture import PagePicture, has_pictures, page_picture
from octavo.app.documents.rendering import find_letters
from octavo.app.errors import AppError

MakePdf = Callable[..., Path]
WIDTH, HEIGHT = 595, 842  # points


def in_points(picture: PagePicture, box: tuple[int, int, int, int]) -> tuple[float, float, float, float]:
    """A box as left, bottom, right, top from the page's lower left corner."""
    scale = picture.width / WIDTH
    left, top, right, bottom = (value / scale for value in box)
    return left, HEIGHT - bottom, right, HEIGHT - top


def test_a_page_is_rendered_and_the_quote_is_where_it_was_drawn(make_pdf: MakePdf, reader: Reader) -> None:
    path = make_pdf("Nothing here.", "The rent is due.\nThe deposit is 2,500 euros.\nThe end.")
    picture = reader.render(path, 2, [("The deposit is\n2,500 euros.", 0.5)])
    assert len(picture.pixels) == 3 * picture.width * picture.height
    assert picture.width / picture.height == pytest.approx(WIDTH / HEIGHT, abs=0.01)
    boxes = [in_points(picture, box) for box in picture.boxes]
    assert min(box[0] for box in boxes) == pytest.approx(72, abs=3)
    assert all(770 - 14 - 6 < bottom < top < 770 - 14 + 14 for _, bottom, _, top in boxes)
    pixels = np.frombuffer(picture.pixels, np.uint8).reshape(picture.height, picture.width, 3)
    left, top, right, bottom = picture.boxes[0]
    assert pixels[top:bottom, left:right].min() < 100  # ink
    assert pixels[:50].min() == 255  # paper


def test_of_equal_quotes_the_one_that_is_meant_is_marked(make_pdf: MakePdf, reader: Reader) -> None:
    path = make_pdf("\n".join(["The same words stand here."] * 20))
    for place, line in ((0.0, 0), (0.5, 10), (1.0, 19)):
        picture = reader.render(path, 1, [("The same words stand here.", place)])
        _, bottom, _, top = in_points(picture, picture.boxes[0])
        assert bottom < 770 - 14 * line + 4 < top + 4


def test_colours_stay_what_they_are(make_pdf: MakePdf, reader: Reader) -> None:
    def red(canvas: Canvas) -> None:
        canvas.setFillColorRGB(1, 0, 0)
        canvas.rect(0, 0, WIDTH, HEIGHT, stroke=0, fill=1)

    picture = reader.render(make_pdf(red), 1, [])
    assert picture.pixels[:3] == bytes([255, 0, 0])
    assert picture.boxes == ()


def test_a_huge_page_is_bounded(tmp_path: Path, reader: Reader) -> None:
    path = tmp_path / "wall.pdf"
    canvas = Canvas(str(path), pagesize=(500, 14_000))
    canvas.drawString(50, 50, "low")
    canvas.save()
    picture = reader.render(path, 1, [("low", 0.0)])
    assert picture.width * picture.height < 6_100_000
    assert picture.boxes


def test_what_has_no_picture_is_said_and_the_process_goes_on(make_pdf: MakePdf, tmp_path: Path, reader: Reader) -> None:
    locked = make_pdf("Secret.", name="locked.pdf", encrypt=StandardEncryption("open", canPrint=0))
    torn = tmp_path / "torn.pdf"
    torn.write_bytes(b"%PDF-1.7\nnothing")
    good = make_pdf("Good.")
    for path, page, why in ((locked, 1, "password"), (torn, 1, "PDF"), (good, 9, "no page 9")):
        with pytest.raises(AppError, match=why):
            reader.render(path, page, [])
    assert reader.render(locked, 1, [], password="open").width
    assert reader.render(good, 1, []).width


def document(path: Path, **changes: Any) -> Any:
    stat = path.stat()
    fields = {"path": str(path), "name": path.name, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    fields |= {"pages": [0, 14], "num_characters": 30, "facts": {"kind": "pdf"}}
    return SimpleNamespace(**fields | changes)


def test_a_changed_or_lost_file_is_said(make_pdf: MakePdf) -> None:
    path = make_pdf("The first page", "The second page")
    assert page_picture(document(path), 2, [(14, "The second page")]).boxes
    with pytest.raises(AppError, match="was changed since it was read"):
        page_picture(document(path, size=1), 2, [])
    gone = document(path)
    path.unlink()
    with pytest.raises(AppError, match="is not there any more"):
        page_picture(gone, 2, [])


def test_only_pdf_pages_have_pictures(make_pdf: MakePdf) -> None:
    path = make_pdf("x")
    assert has_pictures(document(path))
    assert not has_pictures(document(path, pages=[]))
    assert not has_pictures(document(path, facts={"kind": "epub"}))


@pytest.mark.parametrize(
    ("quote", "place", "found"),
    [
        ("fine words", 0.0, "ﬁne words"),
        ("hyphenated words", 0.0, "hyphen-\nated words"),
        ("nothing of this", 0.0, None),
        ("", 0.0, None),
        ("?!", 0.0, None),
        ("one two three four, and then something else", 0.0, "one two three four"),
    ],
)
def test_letters_are_found_through_ligatures_and_hyphens(quote: str, place: float, found: str | None) -> None:
    letters = list("Here are ﬁne words and hyphen-\nated words, one two three four.")
    span = find_letters(letters, quote, place)
    text = None if span is None else "".join(letters[span[0] : span[1] + 1])
    if found is None:
        assert text is None
    else:
        assert text is not None
        assert text.startswith(found[:10])
