"""Triton's kernels without a GPU: run by its interpreter, compiled for GPUs, and chosen where they can run.

Interpreter and compiler have processes of their own: which of the two a kernel meets is decided when it is imported.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from octavo.engine.errors import EngineError
from octavo.engine.kernels.dispatch import load_kernels

HERE = Path(__file__).parent


def run(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TRITON_")}
    return subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / script), *arguments],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_interpreter_gives_what_torch_gives() -> None:
    result = run("reference_checks.py", "triton", TRITON_INTERPRET="1")
    assert result.returncode == 0, result.stderr


def test_every_kernel_compiles_for_a_gpu(tmp_path: Path) -> None:
    result = run("triton_compiling.py", "80", TRITON_CACHE_DIR=str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert set(result.stdout.split()) == {
        "_attend_group", "_attend_tail", "_encode_keys", "_encode_values", "_expand", "_gather", "_merge_groups",
        "_multiply", "_page_bounds", "_rms_norm", "_sample", "_score", "_section_bounds", "_silu_mul", "_sum_heads",
        "_weigh_pages", "_write", "sum_sketch",
    }  # fmt: skip


def test_a_cpu_has_no_triton_but_its_interpreter() -> None:
    with pytest.raises(EngineError, match=r"Triton kernels cannot run on cpu here; install the package triton"):
        load_kernels("cpu", prefer="triton")


def test_a_missing_triton_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "octavo.engine.kernels.triton_kernels", None)
    dispatch = importlib.import_module("octavo.engine.kernels.dispatch")
    assert dispatch._compiled(torch.device("cuda"), "auto") is None
    assert "the Triton kernels are missing" in caplog.text
    with pytest.raises(EngineError, match="Triton kernels cannot run on cuda"):
        load_kernels("cuda", prefer="triton")


def test_what_is_chosen_on_a_gpu() -> None:
    dispatch = importlib.import_module("octavo.engine.kernels.dispatch")
    found = dispatch._compiled(torch.device("cuda"), "auto")
    assert found.label == "triton"
    assert set(found.implementations) == set(load_kernels(prefer="torch").report)
