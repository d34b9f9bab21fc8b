"""Triton's kernels on a GPU: the checks that the suite makes in the interpreter, for real."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from octavo.engine.kernels.dispatch import load_kernels

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
]
_SCRIPT = Path(__file__).parents[1] / "engine" / "kernels" / "reference_checks.py"


def _checks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_checks", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_operation_is_tritons() -> None:
    assert set(load_kernels("cuda").report.values()) == {"triton"}


@pytest.mark.parametrize("check", _checks().CHECKS, ids=lambda check: check.__name__)
def test_a_gpu_gives_what_torch_gives(check) -> None:  # type: ignore[no-untyped-def]
    check(load_kernels("cuda", prefer="triton"), "cuda")
