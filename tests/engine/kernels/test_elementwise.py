"""Normalisation and activation, against their definitions in float64."""

import pytest
import torch

from octavo.engine.kernels.dispatch import Kernels

SHAPES = [(1, 576), (3, 40), (2, 7), (70, 896)]
EPS = {torch.float32: 1e-6, torch.bfloat16: 2**-8}


@pytest.mark.parametrize("dtype", list(EPS))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("with_residual", [False, True])
def test_rms_norm(kernels: Kernels, shape: tuple[int, int], dtype: torch.dtype, with_residual: bool) -> None:
    torch.manual_seed(0)
    x, residual, weight = 3 * torch.randn(shape), torch.randn(shape), torch.randn(shape[1])
    total = x + residual if with_residual else x
    wide = total.double()
    expected = wide / (wide.square().mean(dim=1, keepdim=True) + 1e-5).sqrt() * weight.double()
    before = x.clone()
    got = kernels.rms_norm(x, weight, 1e-5, residual=residual if with_residual else None, dtype=dtype)
    assert got.dtype == dtype
    assert ((got.double() - expected).abs() <= EPS[dtype] * expected.abs() + 1e-12).all()
    assert torch.equal(x, before)
    assert not with_residual or torch.equal(residual, total)


@pytest.mark.parametrize("out", [None, *EPS])
@pytest.mark.parametrize("dtype", list(EPS))
@pytest.mark.parametrize("shape", SHAPES)
def test_silu_mul(kernels: Kernels, shape: tuple[int, int], dtype: torch.dtype, out: torch.dtype | None) -> None:
    torch.manual_seed(0)
    gate, up = (8 * torch.randn(shape)).to(dtype), torch.randn(shape).to(dtype)
    expected = gate.double() * torch.sigmoid(gate.double()) * up.double()
    got = kernels.silu_mul(gate, up) if out is None else kernels.silu_mul(gate, up, dtype=out)
    assert got.dtype == (out or dtype)
    assert ((got.double() - expected).abs() <= EPS[got.dtype] * expected.abs() + 1e-12).all()


def test_silu_of_extremes(kernels: Kernels) -> None:
    gate = torch.tensor([[-1e4, -200.0, -90.0, 0.0, 90.0, 1e4]])
    got = kernels.silu_mul(gate, torch.ones_like(gate))
    torch.testing.assert_close(got, torch.tensor([[0.0, 0.0, 0.0, 0.0, 90.0, 1e4]]))


def test_bad_arguments_are_refused(native_kernels: Kernels) -> None:
    x = torch.randn(2, 8)
    with pytest.raises(ValueError, match="a weight of shape"):
        native_kernels.rms_norm(x, torch.randn(7), 1e-5)
    with pytest.raises(ValueError, match="a residual of shape"):
        native_kernels.rms_norm(x, torch.randn(8), 1e-5, residual=torch.randn(1, 8))
    with pytest.raises(ValueError, match="float32 or bfloat16"):
        native_kernels.rms_norm(x, torch.randn(8), 1e-5, dtype=torch.float16)
    with pytest.raises(ValueError, match="contiguous"):
        native_kernels.silu_mul(x, torch.randn(8, 2).T)
