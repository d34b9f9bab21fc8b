"""Every format against gguf.quants, bit for bit, over random bytes (infinite and NaN scales included)."""

import gguf
import numpy as np
import pytest
import torch

from octavo.engine.weights.formats import FORMAT_OF_GGML_TYPE, Format, dequantize


def random_rows(kind: Format, rows: int, blocks: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (rows, blocks * kind.block_bytes), dtype=np.uint8)


def reference(rows: np.ndarray, kind: Format) -> np.ndarray:
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(rows, gguf.GGMLQuantizationType(kind.ggml_type))


@pytest.mark.parametrize("kind", Format, ids=lambda kind: kind.name)
def test_values_are_those_of_the_gguf_package(kind: Format) -> None:
    rows = random_rows(kind, rows=64, blocks=40 if kind.block_size > 1 else 1024)
    found = dequantize(torch.from_numpy(rows), kind)
    assert found.dtype == torch.float32
    np.testing.assert_array_equal(found.numpy(), reference(rows, kind))


@pytest.mark.parametrize("kind", Format, ids=lambda kind: kind.name)
def test_any_leading_shape_is_kept(kind: Format) -> None:
    rows = torch.from_numpy(random_rows(kind, rows=6, blocks=2))
    flat = dequantize(rows, kind)
    nested = dequantize(rows.reshape(2, 3, -1), kind)
    single = dequantize(rows[4], kind)
    assert nested.shape == (2, 3, 2 * kind.block_size)
    torch.testing.assert_close(nested.reshape(6, -1), flat, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(single, flat[4], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", Format, ids=lambda kind: kind.name)
def test_sizes_are_those_of_the_gguf_package(kind: Format) -> None:
    qtype = gguf.GGMLQuantizationType(kind.ggml_type)
    assert qtype.name == kind.name
    assert gguf.GGML_QUANT_SIZES[qtype] == (kind.block_size, kind.block_bytes)
    assert FORMAT_OF_GGML_TYPE[kind.ggml_type] is kind


def test_a_row_must_end_with_a_block() -> None:
    assert Format.Q4_K.row_bytes(512) == 288
    with pytest.raises(ValueError, match="100 columns are not whole Q8_0 blocks of 32"):
        Format.Q8_0.row_bytes(100)
