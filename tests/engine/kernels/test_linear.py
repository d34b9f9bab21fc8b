"""Products with quantized matrices, against float64 and the dequantization of the gguf package."""

from collections.abc import Callable
from dataclasses import dataclass

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from torch import Tensor

from octavo.engine.kernels.dispatch import Kernels, set_num_threads
from octavo.engine.kernels.linear import FEW_ROWS, row_tiles
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix

RandomMatrix = Callable[..., BlockMatrix]
MANY_ROWS = max(FEW_ROWS.values())


def reference_weights(matrix: BlockMatrix) -> Tensor:
    """The matrix as the gguf package expands it, float64 [rows, cols]."""
    expanded = gguf.quants.dequantize(matrix.data.numpy(), GGMLQuantizationType(matrix.format.ggml_type))
    return torch.from_numpy(np.array(expanded)).reshape(matrix.shape).double()


def assert_product(got: Tensor, x: Tensor, matrix: BlockMatrix, bias: Tensor | None = None, eps: float = 1e-6) -> None:
    """Each result within `eps` of the sum of the absolute products."""
    weights = reference_weights(matrix)
    expected = x.double() @ weights.T + (0 if bias is None else bias.double())
    size = x.double().abs() @ weights.abs().T + (0 if bias is None else bias.double().abs())
    assert got.dtype == torch.float32
    assert got.shape == expected.shape
    assert ((got.double() - expected).abs() <= eps * size).all()


@pytest.mark.parametrize("weight_format", list(Format), ids=lambda f: f.name)
@pytest.mark.parametrize("rows", [1, 37])
def test_few_rows(kernels: Kernels, random_matrix: RandomMatrix, weight_format: Format, rows: int) -> None:
    for blocks in (1, 3, 18, 35) if weight_format.block_size < 256 else (1, 3):
        cols = blocks * max(weight_format.block_size, 32)
        matrix = random_matrix(weight_format, rows, cols)
        bias = torch.randn(rows)
        for n in (1, 2, 3, 4, 5, 9):
            x = torch.randn(n, cols)
            assert_product(kernels.linear(x, [matrix], [bias])[0], x, matrix, bias)


@pytest.mark.parametrize("weight_format", [Format.F32, Format.F16, Format.BF16], ids=lambda f: f.name)
def test_dense_formats_take_any_width(kernels: Kernels, random_matrix: RandomMatrix, weight_format: Format) -> None:
    for cols in (1, 31, 47, 600):
        matrix = random_matrix(weight_format, 5, cols)
        for n in (1, 6, MANY_ROWS + 1):
            x = torch.randn(n, cols)
            assert_product(kernels.linear(x, [matrix], [None])[0], x, matrix)


def test_matrices_share_an_input(kernels: Kernels, random_matrix: RandomMatrix) -> None:
    matrices = [
        random_matrix(weight_format, rows, 512)
        for weight_format, rows in ((Format.Q4_K, 65), (Format.Q5_0, 8), (Format.Q6_K, 200))
    ]
    biases = [torch.randn(65), None, torch.randn(200)]
    for n in (1, 3, MANY_ROWS + 5):
        x = torch.randn(n, 512)
        outs = kernels.linear(x, matrices, biases)
        for got, matrix, bias in zip(outs, matrices, biases, strict=True):
            assert_product(got, x, matrix, bias)


@pytest.mark.parametrize("weight_format", list(Format), ids=lambda f: f.name)
def test_expansion_is_exact(native_kernels: Kernels, random_matrix: RandomMatrix, weight_format: Format) -> None:
    """Multiplied by rows of the identity, which round nothing, a matrix comes out as gguf expands it."""
    matrix = random_matrix(weight_format, 33, 256)
    (got,) = native_kernels.linear(torch.eye(256), [matrix], [None])
    assert torch.equal(got.T, reference_weights(matrix).float())
    (half,) = native_kernels.linear(torch.eye(256, dtype=torch.bfloat16), [matrix], [None])
    assert torch.equal(half.T, reference_weights(matrix).float().bfloat16().float())


@pytest.mark.parametrize("n", [1, MANY_ROWS + 8])
def test_bfloat16_inputs(kernels: Kernels, random_matrix: RandomMatrix, n: int) -> None:
    matrix, bias = random_matrix(Format.Q4_1, 70, 96), torch.randn(70)
    x = torch.randn(n, 96).bfloat16()
    assert_product(kernels.linear(x, [matrix], [bias])[0], x, matrix, bias, eps=2**-7)


def test_many_rows_by_tiles(kernels: Kernels, random_matrix: RandomMatrix, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.engine.kernels.linear.SCRATCH_BYTES", 10 * 64 * 4)
    matrix, x = random_matrix(Format.Q8_0, 47, 64), torch.randn(MANY_ROWS + 1, 64)
    assert_product(kernels.linear(x, [matrix], [None])[0], x, matrix)


def test_row_tiles_cover_all_rows_within_the_limit() -> None:
    assert list(row_tiles(70, 10, 330)) == [slice(0, 32), slice(32, 64), slice(64, 70)]
    assert list(row_tiles(17, 100, 30)) == [slice(0, 16), slice(16, 17)]


@dataclass(frozen=True, eq=False)
class OwnProduct:
    """Stands for a bitsandbytes matrix, which multiplies by itself."""

    dense: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return (self.dense.shape[0], self.dense.shape[1])

    def matmul(self, x: Tensor) -> Tensor:
        return x @ self.dense.T.to(x.dtype)


def test_a_weight_with_its_own_product_is_asked_for_it(kernels: Kernels, random_matrix: RandomMatrix) -> None:
    own, matrix, bias = OwnProduct(torch.randn(6, 64)), random_matrix(Format.Q4_0, 5, 64), torch.randn(6)
    x = torch.randn(2, 64)
    first, second = kernels.linear(x, [own, matrix], [bias, None])  # type: ignore[list-item]
    torch.testing.assert_close(first, x @ own.dense.T + bias)
    assert_product(second, x, matrix)


def test_results_do_not_depend_on_the_number_of_threads(
    native_kernels: Kernels, random_matrix: RandomMatrix, restore_threads: None
) -> None:
    matrices = [random_matrix(Format.Q4_1, rows, 576) for rows in (301, 64)]
    x = torch.randn(3, 576)
    results = []
    for threads in (1, 2, 5):
        set_num_threads(threads)
        results.append(native_kernels.linear(x, matrices, [None, None]))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_bad_arguments_are_refused(native_kernels: Kernels, random_matrix: RandomMatrix) -> None:
    matrix = random_matrix(Format.Q4_0, 4, 64)
    with pytest.raises(ValueError, match="64 inputs for a matrix"):
        native_kernels.linear(torch.randn(1, 32), [matrix], [None])
    with pytest.raises(ValueError, match="contiguous"):
        native_kernels.linear(torch.randn(64, 2).T, [matrix], [None])
    with pytest.raises(ValueError, match="float32 or bfloat16"):
        native_kernels.linear(torch.randn(1, 64).double(), [matrix], [None])
    with pytest.raises(ValueError, match="bias"):
        native_kernels.linear(torch.randn(1, 64), [matrix], [torch.randn(3)])
