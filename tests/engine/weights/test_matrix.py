"""BlockMatrix: rows, look-ups and bounded scratch, against the gguf package."""

import gguf
import numpy as np
import pytest
import torch

from octavo.engine.weights import matrix
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix

ROWS, COLS = 37, 96


@pytest.fixture(params=["Q8_0", "Q4_1", "BF16"])
def block_matrix(request: pytest.FixtureRequest) -> tuple[BlockMatrix, np.ndarray]:
    """A matrix and its float32 values."""
    kind = Format[request.param]
    qtype = gguf.GGMLQuantizationType(kind.ggml_type)
    values = np.random.default_rng(0).standard_normal((ROWS, COLS)).astype(np.float32)
    data = gguf.quants.quantize(values, qtype)
    return BlockMatrix(kind, (ROWS, COLS), torch.from_numpy(data)), gguf.quants.dequantize(data, qtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("chunk", [1, 5 * COLS, 1 << 20])
def test_rows_are_expanded_exactly_whatever_the_chunk(
    block_matrix: tuple[BlockMatrix, np.ndarray],
    dtype: torch.dtype,
    chunk: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weight, values = block_matrix
    monkeypatch.setattr(matrix, "_CHUNK_WEIGHTS", chunk)
    expected = torch.from_numpy(values).to(dtype)
    for rows in (None, slice(0, 1), slice(3, 29), slice(30, None)):
        found = weight.dequantize(dtype, rows)
        assert found.dtype == dtype
        assert torch.equal(found, expected if rows is None else expected[rows])


def test_an_embedding_lookup_gathers_rows_in_the_order_asked(
    block_matrix: tuple[BlockMatrix, np.ndarray],
) -> None:
    weight, values = block_matrix
    ids = torch.tensor([5, 0, 36, 5])
    assert torch.equal(weight.gather_rows(ids, torch.float32), torch.from_numpy(values[ids.numpy()]))


def test_it_says_what_it_holds(block_matrix: tuple[BlockMatrix, np.ndarray]) -> None:
    weight, _ = block_matrix
    assert weight.nbytes == ROWS * Format[weight.format_name].row_bytes(COLS)
    assert weight.shape == (ROWS, COLS)
    assert weight.device == torch.device("cpu")


@pytest.mark.parametrize(
    "data",
    [
        torch.zeros(4, 33, dtype=torch.uint8),
        torch.zeros(3, 34, dtype=torch.uint8),
        torch.zeros(4, 34, dtype=torch.int8),
        torch.zeros(34, 4, dtype=torch.uint8).t(),
    ],
    ids=["columns", "rows", "dtype", "strides"],
)
def test_data_that_does_not_fit_is_refused(data: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="a Q8_0 matrix"):
        BlockMatrix(Format.Q8_0, (4, 32), data)
