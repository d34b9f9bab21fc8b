"""The kernels under test, in every implementation this machine can run, and random quantized matrices."""

import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from octavo.engine.errors import EngineError
from octavo.engine.kernels.dispatch import ISA_VARIABLE, Kernels, load_kernels
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix

NATIVE = ("portable", "avx2", "avx512")


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
