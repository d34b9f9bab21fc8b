"""Quantization on load: a floating-point matrix from a Hugging Face folder becomes a Weight."""

from typing import Literal

import torch
from torch import Tensor

from octavo.engine.weights.bnb import Int8Matrix, Nf4Matrix
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix, Weight

Scheme = Literal["nf4", "int8", "int4", "none"]

# A lookup reads single rows of the vocabulary matrices and the logits are their product: they lose most
# from 4 bits, and gain nothing from a layout made for products. They are Q8_0 under every scheme but "none".
VOCABULARY = ("token_embd.weight", "output.weight")

_DENSE = {torch.float32: Format.F32, torch.float16: Format.F16, torch.bfloat16: Format.BF16}
# Rows are quantized in runs of about this many weights, which bounds the float32 scratch.
_CHUNK_WEIGHTS = 1 << 22


def quantize_matrix(name: str, weight: Tensor, scheme: Scheme, device: torch.device) -> Weight:
    """Quantize one matrix, [rows, cols] in float32, float16 or bfloat16, onto `device`.

    - nf4: bitsandbytes NF4. int8: bitsandbytes int8 on CUDA, Q8_0 blocks on a CPU. int4: Q4_1 blocks.
    - none: kept as it is stored. Vocabulary matrices are Q8_0 under the other schemes.
    - For columns that make no blocks see `quantize_blocks`.
    """
    if scheme == "none":
        return _dense(weight, device)
    in_blocks = name in VOCABULARY or scheme == "int4" or (scheme == "int8" and device.type == "cpu")
    if not in_blocks:
        on_device = weight.to(device)
        return Nf4Matrix.quantize(on_device) if scheme == "nf4" else Int8Matrix.quantize(on_device)
    return quantize_blocks(weight, Format.Q4_1 if scheme == "int4" and name not in VOCABULARY else Format.Q8_0, device)


def _dense(weight: Tensor, device: torch.device) -> BlockMatrix:
    weight = weight.contiguous()
    raw = weight.view(torch.uint8).to(device)
    return BlockMatrix(_DENSE[weight.dtype], (weight.shape[0], weight.shape[1]), raw)


def quantize_blocks(weight: Tensor, target: Format, device: torch.device) -> BlockMatrix:
    """A matrix [rows, cols] in blocks of `target`, a format that the gguf package can make.

    Columns that are no multiple of a block make none: such a matrix is kept in bfloat16.
    """
    from gguf import GGMLQuantizationType, quants

    rows, cols = weight.shape
    if cols % target.block_size:
        return _dense(weight.to(torch.bfloat16), device)
    data = torch.empty(rows, target.row_bytes(cols), dtype=torch.uint8)
    step = max(1, _CHUNK_WEIGHTS // cols)
    for start in range(0, rows, step):
        chunk = weight[start : start + step].to(torch.float32).numpy()
        packed = quants.quantize(chunk, GGMLQuantizationType(target.ggml_type))
        data[start : start + step] = torch.from_numpy(packed)
    return BlockMatrix(target, (rows, cols), data.to(device))
