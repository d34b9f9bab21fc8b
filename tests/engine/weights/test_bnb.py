"""NF4 and int8 through bitsandbytes, which runs on a CPU too, against its own functions and against float."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from octavo.engine.weights.bnb import Int8Matrix, Nf4Matrix
from octavo.engine.weights.checkpoint import open_checkpoint
from octavo.engine.weights.layout import hf_name


def weight_and_input(rows: int, cols: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, cols, generator=generator) * 0.05, torch.randn(5, cols, generator=generator)


def test_a_tiny_model_loads_through_nf4(make_hf_folder: Callable[..., Path]) -> None:
    from bitsandbytes import functional

    folder = make_hf_folder("llama", dtype=torch.bfloat16)
    checkpoint = open_checkpoint(folder, quantization="nf4")
    saved = load_file(folder / "model.safetensors")
    for name, matrix in checkpoint.matrices.items():
        if name in ("token_embd.weight", "output.weight"):
            assert matrix.format_name == "Q8_0", "the vocabulary keeps 8 bits"
            continue
        packed, state = functional.quantize_4bit(
            saved[hf_name(name)], blocksize=64, quant_type="nf4", compress_statistics=True
        )
        assert matrix.format_name == "NF4"
        assert torch.equal(matrix.dequantize(torch.bfloat16), functional.dequantize_4bit(packed, state)), name
        assert matrix.nbytes < saved[hf_name(name)].nbytes


@pytest.mark.parametrize("kind", [Nf4Matrix, Int8Matrix])
@pytest.mark.parametrize("shape", [(64, 96), (96, 64), (64, 64)])
def test_a_product_is_that_of_the_dequantized_weights(
    kind: type[Nf4Matrix] | type[Int8Matrix], shape: tuple[int, int]
) -> None:
    weight, x = weight_and_input(*shape)
    matrix = kind.quantize(weight)
    expected = x.double() @ matrix.dequantize(torch.float64).T
    found = matrix.matmul(x.reshape(1, 5, -1))
    assert found.shape == (1, 5, shape[0])
    assert found.dtype == x.dtype
    # int8 quantizes the activations as well, to 1/127 of each row's largest.
    tolerance = 1e-5 if kind is Nf4Matrix else 0.03 * expected.abs().max()
    assert (found[0] - expected).abs().max() <= tolerance


@pytest.mark.parametrize(("kind", "worst"), [(Nf4Matrix, 0.16), (Int8Matrix, 0.5 / 127)])
def test_values_stay_within_the_formats_step(kind: type[Nf4Matrix] | type[Int8Matrix], worst: float) -> None:
    """Half a step: NF4's widest gap is 0.304 of a block's largest magnitude, int8's 1/127 of a row's."""
    weight, _ = weight_and_input(32, 128)
    error = (kind.quantize(weight).dequantize(torch.float32) - weight).abs()
    assert (error.amax(1) <= worst * weight.abs().amax(1) + 2e-4).all()


@pytest.mark.parametrize("kind", [Nf4Matrix, Int8Matrix])
def test_rows_and_look_ups(kind: type[Nf4Matrix] | type[Int8Matrix]) -> None:
    weight, _ = weight_and_input(16, 64)
    matrix = kind.quantize(weight)
    whole = matrix.dequantize(torch.float32)
    assert torch.equal(matrix.dequantize(torch.float32, slice(3, 9)), whole[3:9])
    ids = torch.tensor([7, 0, 15])
    assert torch.equal(matrix.gather_rows(ids, torch.float32), whole[ids])
    assert matrix.device == torch.device("cpu")
