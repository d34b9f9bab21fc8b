"""Encoding pages and gathering them, against a decoder written from the layout's description, in float64."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kernels.encode import encode_pages_torch
from octavo.engine.kernels.gather import gather_pages_torch
from octavo.engine.kv.codec import CODECS, Codec, PageLayout

AngleTables = Callable[[int, int], tuple[Tensor, Tensor]]
DecodePage = Callable[[Tensor, PageLayout], tuple[Tensor, Tensor]]

layouts = st.builds(
    PageLayout,
    codec=st.sampled_from(list(CODECS.values())),
    num_kv_heads=st.integers(1, 3),
    page_size=st.sampled_from([2, 8, 16, 32, 40, 64]),
    head_dim=st.sampled_from([8, 24, 32, 64, 72, 80, 96, 128, 256]),
)
codecs = pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: codec.name)


def random_pages(layout: PageLayout, count: int, *, outlier: float = 1.0) -> Tensor:
    """K and V with channels of unlike size and centre, and a first token that is larger than the others."""
    shape = layout.num_kv_heads, layout.page_size, layout.head_dim
    kv = torch.randn(count, 2, *shape) * torch.rand(layout.head_dim) + 2 * torch.randn(layout.head_dim)
    kv[:, :, :, 0] *= outlier
    return kv if layout.codec.name == "f32" else kv.bfloat16()


def largest_steps(x: Tensor, bits: int) -> Tensor:
    """The step of the coarsest group that a number of x [tokens, dim] can be in."""
    return (x.amax() - x.amin()) / (2**bits - 1)


@codecs
@pytest.mark.parametrize(("page_size", "head_dim"), [(32, 64), (8, 8), (16, 24), (40, 80), (32, 128)])
def test_pages_decode_to_what_was_encoded(
    kernels: Kernels, codec: Codec, page_size: int, head_dim: int, decode_page: DecodePage
) -> None:
    torch.manual_seed(0)
    layout = PageLayout(codec, 3, page_size, head_dim)
    kv = random_pages(layout, 2)
    pages = kernels.encode_pages(kv, layout)
    assert pages.shape == (2, layout.slot_bytes)
    for page, original in zip(pages, kv.double(), strict=True):
        for got, x, bits in zip(decode_page(page, layout), original, (codec.key_bits, codec.value_bits), strict=True):
            if codec.is_lossless:
                assert torch.equal(got, x)
                continue
            # Half a step of rounding in each of the numbers that a Hadamard matrix mixes, whose energy it keeps.
            error, step = (got - x).square().mean().sqrt(), largest_steps(x, bits)
            assert error < 0.5 * step
            assert (got - x).abs().max() < step * (1 if bits == 8 else 3)


@codecs
def test_the_first_key_of_four_bits_is_kept(kernels: Kernels, codec: Codec, decode_page: DecodePage) -> None:
    torch.manual_seed(0)
    layout = PageLayout(codec, 1, 32, 64)
    kv = random_pages(layout, 1, outlier=50.0)
    keys, _ = decode_page(kernels.encode_pages(kv, layout)[0], layout)
    error = (keys - kv[0, 0].double()).abs()
    if layout.codec.key_bits != 8:
        assert not error[:, 0].any()
        assert error[:, 1:].max() < 0.5


@settings(max_examples=40, deadline=None)
@given(layout=layouts, seed=st.integers(0, 2**31), as_float=st.booleans())
def test_encoding_is_the_references_to_the_bit(
    native_kernels: Kernels, layout: PageLayout, seed: int, as_float: bool
) -> None:
    torch.manual_seed(seed)
    kv = random_pages(layout, 2, outlier=30.0)
    kv = kv.float() if as_float else kv
    assert torch.equal(native_kernels.encode_pages(kv, layout), encode_pages_torch(kv, layout))


@codecs
@pytest.mark.parametrize("factor", [0.0, -0.0, 1e-9, 1e-6, 3e4, 1e6, 1e30])
def test_odd_sizes_of_numbers_encode_alike(native_kernels: Kernels, codec: Codec, factor: float) -> None:
    torch.manual_seed(0)
    layout = PageLayout(codec, 2, 32, 64)
    kv = torch.randn(2, 2, 2, 32, 64) * factor
    kv[1] = kv[1, 0, 0, 0, 0]  # all alike
    pages = native_kernels.encode_pages(kv, layout)
    assert torch.equal(pages, encode_pages_torch(kv, layout))
    tables = torch.zeros(2).int(), torch.ones(1, 32), torch.zeros(1, 32)
    for x in native_kernels.gather_pages(pages, layout, torch.arange(2).int(), *tables, torch.float32):
        assert x.isfinite().all()


@settings(max_examples=15, deadline=None)
@given(layout=layouts, seed=st.integers(0, 2**31))
def test_gathered_pages_are_decoded_and_rotated(
    kernels: Kernels, layout: PageLayout, seed: int, angle_tables: AngleTables, decode_page: DecodePage
) -> None:
    torch.manual_seed(seed)
    slab = encode_pages_torch(random_pages(layout, 3), layout)
    slots, starts = torch.tensor([2, 0]).int(), torch.tensor([9, 700]).int()
    cos, sin = angle_tables(701, layout.head_dim)
    got = kernels.gather_pages(slab, layout, slots, starts, cos.float(), sin.float(), torch.float32)
    keys, values = (
        torch.cat(part, dim=1) for part in zip(*(decode_page(slab[s], layout) for s in (2, 0)), strict=True)
    )
    position = starts.long().repeat_interleave(layout.page_size)
    first, second = keys.chunk(2, dim=-1)
    c, s = cos[position], sin[position]
    keys = torch.cat((first * c - second * s, second * c + first * s), dim=-1)
    for part, expected in zip(got, (keys, values), strict=True):
        torch.testing.assert_close(part.double(), expected, rtol=1e-5, atol=2e-5)


@settings(max_examples=25, deadline=None)
@given(layout=layouts, seed=st.integers(0, 2**31), dtype=st.sampled_from([torch.float32, torch.bfloat16]))
def test_gathering_is_the_references_to_the_bit(
    native_kernels: Kernels, layout: PageLayout, seed: int, dtype: torch.dtype, angle_tables: AngleTables
) -> None:
    torch.manual_seed(seed)
    slab = encode_pages_torch(random_pages(layout, 3), layout)
    cos, sin = (table.float() for table in angle_tables(100, layout.head_dim))
    arguments = slab, layout, torch.tensor([1, 2, 1]).int(), torch.tensor([0, 64, 99]).int(), cos, sin, dtype
    for got, expected in zip(native_kernels.gather_pages(*arguments), gather_pages_torch(*arguments), strict=True):
        assert torch.equal(got.view(torch.uint8), expected.view(torch.uint8))


@pytest.mark.parametrize(("slot", "start", "message"), [(2, 0, "slab"), (-1, 0, "slab"), (0, 5, "position")])
def test_a_page_out_of_range_is_refused(native_kernels: Kernels, slot: int, start: int, message: str) -> None:
    layout = PageLayout(CODECS["k8v4"], 1, 8, 8)
    slab, angles = torch.zeros(2, layout.slot_bytes, dtype=torch.uint8), torch.zeros(5, 4)
    with pytest.raises(ValueError, match=message):
        native_kernels.gather_pages(
            slab, layout, torch.tensor([slot]).int(), torch.tensor([start]).int(), angles, angles, torch.float32
        )


def test_pages_of_another_layout_are_refused(native_kernels: Kernels) -> None:
    layout = PageLayout(CODECS["k8v4"], 2, 8, 8)
    angles, index = torch.zeros(5, 4), torch.zeros(1).int()
    with pytest.raises(ValueError, match=f"slab \\[slots, {layout.slot_bytes}\\]"):
        native_kernels.gather_pages(
            torch.zeros(2, 64, dtype=torch.uint8), layout, index, index, angles, angles, torch.float32
        )
    with pytest.raises(ValueError, match="pages of shape"):
        native_kernels.encode_pages(torch.zeros(1, 2, 1, 8, 8), layout)
    with pytest.raises(ValueError, match="up to 512"):
        native_kernels.encode_pages(torch.zeros(1, 2, 1, 8, 520), PageLayout(CODECS["k8v4"], 1, 8, 520))
