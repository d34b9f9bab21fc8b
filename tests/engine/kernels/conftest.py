"""The kernels under test, in every implementation this machine can run, and random quantized matrices."""

import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.engine.errors import EngineError
from octavo.engine.kernels.dispatch import ISA_VARIABLE, Kernels, load_kernels
from octavo.engine.kv.codec import PageLayout
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix

NATIVE = ("portable", "avx2", "avx512", "amx")
Floats = NDArray[np.float64]


def _load(name: str) -> Kernels:
    if name == "torch":
        return load_kernels(prefer="torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ISA_VARIABLE, name)
        try:
            return load_kernels(prefer="native")
        except EngineError as error:
            pytest.skip(str(error))


@pytest.fixture(scope="session", params=["torch", *NATIVE])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    """The torch references, and the C kernels of each instruction set."""
    return _load(request.param)


@pytest.fixture(scope="session", params=NATIVE)
def native_kernels(request: pytest.FixtureRequest) -> Kernels:
    """The C kernels of each instruction set."""
    return _load(request.param)


@pytest.fixture
def block_kernels(native_kernels: Kernels) -> Kernels:
    """Those of the instruction sets that multiply blocks, in plain C or with AMX."""
    if native_kernels.native is None or not native_kernels.native.has_many:
        pytest.skip("this instruction set leaves chunks to torch")
    return native_kernels


@pytest.fixture
def restore_threads() -> Iterator[None]:
    """Puts the number of threads back to what it was."""
    native = pytest.importorskip("octavo.engine.kernels._native", reason="the C kernels are not built")
    before = native.threads()
    yield
    native.set_threads(before or os.cpu_count() or 1)


@pytest.fixture(scope="session")
def random_matrix() -> Callable[..., BlockMatrix]:
    """random_matrix(format, rows, cols, seed=0): random bytes, with scales that give weights of ordinary size."""
    scales_at = {"Q6_K": (208,), "Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2)}

    def make(weight_format: Format, rows: int, cols: int, seed: int = 0) -> BlockMatrix:
        rng = np.random.default_rng([seed, weight_format.ggml_type, rows, cols])
        if weight_format.block_size == 1:
            dtype = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[weight_format.name]
            dense = torch.from_numpy(rng.standard_normal((rows, cols)).astype(np.float32)).to(dtype)
            return BlockMatrix(weight_format, (rows, cols), dense.view(torch.uint8))
        count = rows * cols // weight_format.block_size
        blocks = rng.integers(0, 256, (count, weight_format.block_bytes), dtype=np.uint8)
        for at in scales_at.get(weight_format.name, (0,)):
            scales = rng.normal(0, 1e-3 if weight_format.block_size == 256 else 0.05, count)
            blocks[:, at : at + 2] = scales.astype("<f2").view(np.uint8).reshape(count, 2)
        return BlockMatrix(weight_format, (rows, cols), torch.from_numpy(blocks.reshape(rows, -1)))

    return make


@pytest.fixture(scope="session")
def angle_tables() -> Callable[[int, int], tuple[Tensor, Tensor]]:
    """angle_tables(rows, dim): cos and sin, float64 [rows, dim / 2], of position times frequency."""

    def make(rows: int, dim: int) -> tuple[Tensor, Tensor]:
        frequencies = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angles = torch.arange(rows, dtype=torch.float64)[:, None] * frequencies
        return angles.cos(), angles.sin()

    return make


@pytest.fixture(scope="session")
def decode_page() -> Callable[[Tensor, PageLayout], tuple[Tensor, Tensor]]:
    """decode_page(page, layout): K and V, float64 [kv_heads, page_size, dim], of one page's bytes."""
    return _decode_page


def _decode_page(page: Tensor, layout: PageLayout) -> tuple[Tensor, Tensor]:
    """After the description of PageLayout."""
    data, heads, tokens, dim = page.numpy(), layout.num_kv_heads, layout.page_size, layout.head_dim
    key, value = layout.keys, layout.values
    if layout.codec.is_lossless:
        plain = (_floats(data, part.codes, heads * tokens * dim, part.bits == 16) for part in (key, value))
        k, v = (torch.from_numpy(x.reshape(heads, tokens, dim)) for x in plain)
        return k, v
    token_stride, channel_stride = -(-tokens // 32) * 32, -(-dim // 32) * 32
    codes = _codes(data, key.codes, key.bits, heads * dim * token_stride).reshape(heads, dim, token_stride)
    scales, zeros = (
        _halves(data, at, heads * channel_stride).reshape(heads, channel_stride, 1) for at in (key.scales, key.zeros)
    )
    keys = (codes * scales[:, :dim] + zeros[:, :dim])[:, :, :tokens].transpose(0, 2, 1)
    if key.bits == 4:
        first = _floats(data, key.first_token, heads * channel_stride, True).reshape(heads, channel_stride)
        keys[:, 0] = first[:, :dim]
    codes = _codes(data, value.codes, value.bits, heads * tokens * channel_stride)
    groups = heads, channel_stride // 32, token_stride
    scales, zeros = (
        _halves(data, at, heads * groups[1] * token_stride).reshape(groups) for at in (value.scales, value.zeros)
    )
    group, token = np.arange(channel_stride) // 32, np.arange(tokens)[:, None]
    values = codes.reshape(heads, tokens, channel_stride) * scales[:, group, token] + zeros[:, group, token]
    values = values[:, :, :dim]
    return torch.from_numpy(keys), torch.from_numpy(values @ _hadamard(dim) if value.bits == 4 else values)


def _floats(data: NDArray[np.uint8], start: int, count: int, bf16: bool) -> Floats:
    if not bf16:
        return data[start : start + 4 * count].view(np.float32).astype(np.float64)
    halves = data[start : start + 2 * count].view(np.uint16).astype(np.uint32)
    return (halves << 16).view(np.float32).astype(np.float64)


def _halves(data: NDArray[np.uint8], start: int, count: int) -> Floats:
    return data[start : start + 2 * count].view(np.float16).astype(np.float64)


def _codes(data: NDArray[np.uint8], start: int, bits: int, count: int) -> Floats:
    if bits == 8:
        return data[start : start + count].astype(np.float64)
    numbers = np.arange(count)
    packed = data[start + numbers // 32 * 16 + numbers % 16]
    return np.where(numbers % 32 < 16, packed & 15, packed >> 4).astype(np.float64)


def _hadamard(dim: int) -> Floats:
    """The block-diagonal, normalised matrix of the largest power of two that divides `dim`."""
    size = next(2**i for i in range(10, -1, -1) if dim % 2**i == 0)
    numbers = np.arange(size)
    signs = np.array([[(-1.0) ** (int(i) & int(j)).bit_count() for j in numbers] for i in numbers])
    return np.kron(np.eye(dim // size), signs / np.sqrt(size))
