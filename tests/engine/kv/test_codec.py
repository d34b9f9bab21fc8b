"""The layout of encoded pages: sizes, and regions that do not overlap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.engine.kv.codec import CODECS, Codec, PageLayout

# Of one token in one KV head of 64 channels: the codes, a scale and a zero of 2 bytes for every 32 numbers, and in
# 4 bits a 32nd of the first token's key.
BYTES = {"f32": 512, "bf16": 256, "k8v8": 144, "k8v4": 112, "k4v4": 84}


@pytest.mark.parametrize(("name", "expected"), BYTES.items())
def test_bytes_of_a_token(name: str, expected: int) -> None:
    layout = PageLayout(CODECS[name], num_kv_heads=3, page_size=32, head_dim=64)
    assert layout.slot_bytes == 3 * 32 * expected


@given(
    codec=st.sampled_from(list(CODECS.values())),
    num_kv_heads=st.integers(1, 9),
    page_size=st.integers(2, 100),
    head_dim=st.integers(1, 32).map(lambda n: 8 * n),
)
def test_regions_follow_one_another(codec: Codec, num_kv_heads: int, page_size: int, head_dim: int) -> None:
    layout = PageLayout(codec, num_kv_heads, page_size, head_dim)
    edges = [0]
    for part in (layout.keys, layout.values):
        assert part.codes == edges[-1]
        edges += [part.codes, part.scales, part.zeros, part.first_token, part.end]
    assert edges == sorted(edges)
    assert all(edge % 64 == 0 for edge in edges)
    assert layout.slot_bytes == edges[-1]
    tokens, channels = layout.token_stride, layout.channel_stride
    assert tokens % 32 == channels % 32 == 0
    assert 0 <= tokens - page_size < 32
    assert 0 <= channels - head_dim < 32
    assert head_dim % layout.hadamard_size == 0
    assert head_dim // layout.hadamard_size % 2 == 1


@pytest.mark.parametrize(("page_size", "head_dim"), [(32, 12), (1, 64)])
def test_odd_shapes_are_refused(page_size: int, head_dim: int) -> None:
    with pytest.raises(ValueError, match="KV pages hold"):
        PageLayout(CODECS["bf16"], 1, page_size, head_dim)
