"""The boxes hold every key, of every codec, and what a section keeps holds for each of its pages."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.engine.kernels.bounds import PageBounds, page_bounds_torch, read_boxes, read_codes, section_bounds_torch
from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kernels.encode import encode_pages_torch
from octavo.engine.kernels.quantize import read_keys
from octavo.engine.kv.bounds import SECTION_PAGES, BoundsLayout
from octavo.engine.kv.codec import CODECS, PageLayout


@pytest.mark.parametrize("codec", sorted(CODECS))
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), spread=st.floats(-6, 4), constant=st.booleans())
def test_boxes_hold_every_decoded_key(codec: str, seed: int, spread: float, constant: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    pages, layout = PageLayout(CODECS[codec], 2, 8, 24), BoundsLayout(2, 8, 24)
    kv = torch.randn(5, 2, 2, 8, 24, generator=generator) * 10**spread
    if constant:
        kv[:, 0] = kv[:, 0, :, :1, :1]
    encoded = encode_pages_torch(kv, pages)
    bounds = page_bounds_torch(encoded, pages, layout)
    assert bounds.shape == (5, layout.page_bytes)
    lower, upper, step = read_boxes(bounds, layout)
    keys = read_keys(encoded, pages)
    assert (lower.unsqueeze(2) <= keys).all()
    assert (keys <= upper.unsqueeze(2)).all()
    # Not by more than a step and a half: one for each corner's rounding, and what float16 adds to the step. A step may
    # be finer than float32 can tell such keys apart.
    slack = 1.5 * step[..., None] + torch.finfo(torch.float32).eps * keys.abs().amax(2)
    assert (keys.amin(2) - lower <= slack).all()
    assert (upper - keys.amax(2) <= slack).all()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 3 * SECTION_PAGES), spread=st.floats(-6, 3))
def test_a_section_holds_the_boxes_of_its_pages(seed: int, count: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    pages, layout = PageLayout(CODECS["f32"], 2, 4, 16), BoundsLayout(2, 4, 16)
    kv = torch.randn(50, 2, 2, 4, 16, generator=generator) * 10**spread
    bounds = page_bounds_torch(encode_pages_torch(kv, pages), pages, layout)
    ids = torch.randperm(50, generator=generator)[:count].int()
    sections = section_bounds_torch(PageBounds.split(bounds, layout).boxes, layout, ids)
    assert sections.shape == (-(-count // SECTION_PAGES), layout.section_bytes)
    codes, grid = read_codes(sections, layout, 3)
    step, origin, width_step, largest_step = grid[..., None].unbind(2)
    for number, of_section in enumerate(ids.long().split(SECTION_PAGES) if count else ()):
        lower, upper, steps = read_boxes(bounds[of_section], layout)
        centres = (lower + upper) / 2
        assert (codes[number, :, 0] * step[number] + origin[number] <= centres).all()
        assert (codes[number, :, 1] * step[number] + origin[number] >= centres).all()
        assert (codes[number, :, 2] * width_step[number] >= upper - lower).all()
        assert torch.equal(largest_step[number, :, 0], steps.amax(0))


@pytest.mark.parametrize("codec", sorted(CODECS))
@pytest.mark.parametrize(("page_size", "dim"), [(32, 64), (12, 40), (2, 8)])
def test_native_bounds_are_the_reference_to_the_bit(
    native_kernels: Kernels, codec: str, page_size: int, dim: int
) -> None:
    generator = torch.Generator().manual_seed(dim)
    pages, layout = PageLayout(CODECS[codec], 3, page_size, dim), BoundsLayout(3, page_size, dim)
    kv = torch.randn(40, 2, 3, page_size, dim, generator=generator) * torch.rand(40, 1, 1, 1, dim, generator=generator)
    kv[3] = 0
    kv[4, 0] = -kv[4, 0].abs()
    encoded = encode_pages_torch(kv, pages)
    bounds = page_bounds_torch(encoded, pages, layout)
    assert torch.equal(native_kernels.page_bounds(encoded, pages, layout), bounds)
    ids = torch.randperm(40, generator=generator)[:37].int()
    boxes = PageBounds.split(bounds, layout).boxes
    expected = section_bounds_torch(boxes, layout, ids)
    assert torch.equal(native_kernels.section_bounds(boxes, layout, ids), expected)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_sign_of_zero_does_not_show(sign: float) -> None:
    pages, layout = PageLayout(CODECS["f32"], 1, 4, 8), BoundsLayout(1, 4, 8)
    bounds = page_bounds_torch(encode_pages_torch(torch.zeros(1, 2, 1, 4, 8) * sign, pages), pages, layout)
    assert not bounds.any()


def test_a_page_that_has_no_bounds_is_refused(native_kernels: Kernels) -> None:
    layout = BoundsLayout(1, 4, 8)
    with pytest.raises(ValueError, match="no row in the table"):
        native_kernels.section_bounds(torch.zeros(2, layout.box_bytes).byte(), layout, torch.tensor([2]).int())
