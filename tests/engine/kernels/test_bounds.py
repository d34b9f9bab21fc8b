"""The boxes hold every key, of every codec, and of every page of a section."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.engine.kernels.bounds import page_bounds_torch, read_boxes
from octavo.engine.kernels.encode import encode_pages_torch
from octavo.engine.kernels.quantize import read_keys
from octavo.engine.kv.bounds import BoundsLayout
from octavo.engine.kv.codec import CODECS, PageLayout


@pytest.mark.parametrize("codec", sorted(CODECS))
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_boxes=st.sampled_from([1, 2]),
    spread=st.floats(-6, 4),
    constant=st.booleans(),
)
def test_boxes_hold_every_decoded_key(codec: str, seed: int, num_boxes: int, spread: float, constant: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    pages = PageLayout(CODECS[codec], 2, 8, 24)
    layout = BoundsLayout(2, 8, 24, num_boxes)
    kv = torch.randn(5, 2, 2, 8, 24, generator=generator) * 10**spread
    if constant:
        kv[:, 0] = kv[:, 0, :, :1, :1]
    encoded = encode_pages_torch(kv, pages)
    lower, upper = read_boxes(page_bounds_torch(encoded, pages, layout), layout)
    keys = read_keys(encoded, pages).reshape(5, 2, num_boxes, -1, 24)
    assert (lower.unsqueeze(3) <= keys).all()
    assert (keys <= upper.unsqueeze(3)).all()
