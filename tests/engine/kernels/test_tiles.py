"""Matrices in tiles: exactly what the blocks are worth, multiplied with inputs of 16 bits."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kernels.linear import FEW_ROWS_OF_TILES
from octavo.engine.kernels.tiles import TiledMatrix
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix

RandomMatrix = Callable[..., BlockMatrix]
TILED = [kind for kind in Format if kind.block_size > 1]
UNIT = 32


def in_16_bits(x: Tensor) -> Tensor:
    """Each 32 numbers as integers up to 32,512 times one scale: the definition, float64 of float32 operations."""
    units = x.numpy().reshape(len(x), -1, UNIT)
    most = np.abs(units).max(-1, keepdims=True)
    inverse = np.divide(np.float32(32512), most, out=np.zeros_like(most), where=most > 0)
    codes, scale = np.rint(units * inverse), most / np.float32(32512)
    return torch.from_numpy((codes.astype(np.float64) * scale).reshape(x.shape))


@pytest.fixture(params=TILED, ids=lambda kind: kind.name)
def weight_format(request: pytest.FixtureRequest) -> Format:
    kind: Format = request.param
    return kind


@pytest.mark.parametrize(("rows", "cols"), [(33, 256), (16, 768), (1, 512)])
def test_tiles_are_worth_what_the_blocks_are(
    native_kernels: Kernels, random_matrix: RandomMatrix, weight_format: Format, rows: int, cols: int
) -> None:
    matrix = random_matrix(weight_format, rows, cols)
    tiled = native_kernels.arrange(matrix)
    assert isinstance(tiled, TiledMatrix)
    assert (tiled.shape, tiled.format_name, tiled.device) == (matrix.shape, matrix.format_name, matrix.device)
    expected = matrix.dequantize(torch.float32)
    assert torch.equal(tiled.dequantize(torch.float32), expected)
    assert torch.equal(tiled.dequantize(torch.bfloat16), expected.bfloat16())
    for part in (slice(0, 1), slice(5, 9), slice(3, 33), slice(15, 17), slice(16, 32)):
        assert torch.equal(tiled.dequantize(torch.float32, part), expected[part])
    ids = torch.tensor([rows - 1, 0, rows // 2, 0])
    assert torch.equal(tiled.gather_rows(ids, torch.float32), expected[ids])
    assert torch.equal(tiled.gather_rows(ids, torch.bfloat16), expected[ids].bfloat16())


def test_a_row_that_is_not_there(native_kernels: Kernels, random_matrix: RandomMatrix) -> None:
    tiled = native_kernels.arrange(random_matrix(Format.Q4_0, 20, 64))
    for row in (20, -1):
        with pytest.raises(IndexError):
            tiled.gather_rows(torch.tensor([0, row]), torch.float32)


def test_few_rows_are_multiplied_in_16_bits(
    native_kernels: Kernels, random_matrix: RandomMatrix, weight_format: Format
) -> None:
    for rows, cols in ((37, 256), (32, 1280)):
        matrix, bias = random_matrix(weight_format, rows, cols), torch.randn(rows)
        tiled, weights = native_kernels.arrange(matrix), matrix.dequantize(torch.float32).double()
        for n in (1, 2, 3, 4, 7, FEW_ROWS_OF_TILES):
            x = torch.randn(n, cols) * torch.logspace(-3, 3, n)[:, None]
            x[0, :UNIT] = 0
            got = native_kernels.linear(x, [tiled], [bias])[0].double()
            rounded = in_16_bits(x)
            # Weights with a zero far from them are summed as large numbers that cancel out.
            size = rounded.abs() @ (weights.abs() + weights.abs().amax()).T + bias.abs()
            assert ((got - (rounded @ weights.T + bias)).abs() <= 1e-6 * size).all()
            # Half a step of each input's unit, at most.
            steps = (x.view(n, -1, UNIT).abs().amax(-1, keepdim=True) / 32512).expand(-1, -1, UNIT).reshape(n, cols)
            bound = 0.5 * steps.double() @ weights.abs().T + 1e-5 * size
            assert ((got - (x.double() @ weights.T + bias)).abs() <= bound).all()


def test_a_row_does_not_depend_on_its_neighbours(
    native_kernels: Kernels, random_matrix: RandomMatrix, weight_format: Format
) -> None:
    tiled, x = native_kernels.arrange(random_matrix(weight_format, 50, 512)), torch.randn(7, 512)
    (together,) = native_kernels.linear(x, [tiled], [None])
    alone = torch.cat([native_kernels.linear(row[None], [tiled], [None])[0] for row in x])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_many_rows_are_multiplied_as_they_are(
    native_kernels: Kernels,
    random_matrix: RandomMatrix,
    weight_format: Format,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("octavo.engine.kernels.linear.SCRATCH_BYTES", 40 * 256 * 4)
    matrix, bias = random_matrix(weight_format, 87, 256), torch.randn(87)
    x = torch.randn(FEW_ROWS_OF_TILES + 3, 256).to(dtype)
    got = native_kernels.linear(x, [native_kernels.arrange(matrix)], [bias])[0]
    weights = matrix.dequantize(dtype).double()
    size = x.double().abs() @ weights.abs().T + bias.abs()
    eps = 1e-6 if dtype is torch.float32 else 2**-8
    assert ((got - (x.double() @ weights.T + bias)).abs() <= eps * size).all()


def test_tiles_and_others_share_an_input(native_kernels: Kernels, random_matrix: RandomMatrix) -> None:
    tiled = native_kernels.arrange(random_matrix(Format.Q5_0, 40, 512))
    dense = random_matrix(Format.BF16, 24, 512)
    assert native_kernels.arrange(dense) is dense
    for n in (1, 3, FEW_ROWS_OF_TILES + 1):
        x = torch.randn(n, 512)
        together = native_kernels.linear(x, [tiled, dense], [None, None])
        for got, matrix in zip(together, (tiled, dense), strict=True):
            assert torch.equal(got, native_kernels.linear(x, [matrix], [None])[0])
