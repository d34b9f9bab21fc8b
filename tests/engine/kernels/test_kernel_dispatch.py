"""Which implementation is chosen, what is said about it, and the thread pool below."""

import importlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from octavo.engine.errors import EngineError
from octavo.engine.kernels.dispatch import ISA_VARIABLE, Kernels, load_kernels, set_num_threads
from octavo.engine.kernels.selfcheck import failure
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix

OPERATIONS = {
    "linear",
    "rms_norm",
    "silu_mul",
    "write_kv",
    "encode_pages",
    "gather_pages",
    "attend_pages",
    "attend_tail",
    "page_bounds",
    "section_bounds",
    "select_pages",
    "sample",
}


def test_the_report_names_every_operation(native_kernels: Kernels) -> None:
    assert set(native_kernels.report) == OPERATIONS
    assert len(set(native_kernels.report.values())) == 1
    assert native_kernels.report["linear"].startswith("native ")
    assert native_kernels.threads >= 1


def test_torch_on_request() -> None:
    assert load_kernels(prefer="torch").report == dict.fromkeys(OPERATIONS, "torch")


@pytest.mark.usefixtures("restore_threads")
def test_an_unknown_instruction_set_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ISA_VARIABLE, "sse9")
    with pytest.raises(EngineError, match="OCTAVO_NATIVE_ISA=sse9"):
        load_kernels()


def test_a_missing_module_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "octavo.engine.kernels._native", None)
    assert set(load_kernels().report.values()) == {"torch"}
    assert "native kernels are missing" in caplog.text
    with pytest.raises(EngineError, match="C compiler"):
        load_kernels(prefer="native")


@pytest.mark.usefixtures("restore_threads")
def test_a_wrong_kernel_is_replaced_and_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    dispatch = importlib.import_module("octavo.engine.kernels.dispatch")
    monkeypatch.setattr(dispatch, "silu_mul_native", lambda ops, gate, up: gate * up)
    report = load_kernels().report
    assert report["silu_mul"] == "torch"
    assert report["linear"].startswith("native")
    assert "silu_mul" in caplog.text
    with pytest.raises(EngineError, match="silu_mul"):
        load_kernels(prefer="native")


@pytest.mark.parametrize("op", sorted(OPERATIONS))
def test_the_self_check_notices_a_kernel_that_raises(op: str) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ValueError("out of order")

    assert failure(op, broken) == "it failed: out of order"


def test_threads_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        set_num_threads(0)


def test_concurrent_callers_take_turns(restore_threads: None) -> None:
    set_num_threads(3)
    kernels = load_kernels(prefer="native")
    data = torch.randint(60, (400, Format.Q8_0.row_bytes(256)), dtype=torch.uint8)
    matrix = BlockMatrix(Format.Q8_0, (400, 256), data)
    inputs = [torch.randn(1, 256) for _ in range(40)]
    expected = [kernels.linear(x, [matrix], [None])[0] for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda x: kernels.linear(x, [matrix], [None])[0], inputs))
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


FORKING = """
import os, torch
from octavo.engine.kernels.dispatch import load_kernels, set_num_threads
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix
set_num_threads(3)
torch.set_num_threads(1)
kernels = load_kernels(prefer="native")
data = torch.full((400, Format.Q8_0.row_bytes(256)), 40, dtype=torch.uint8)
matrix = BlockMatrix(Format.Q8_0, (400, 256), data)
x = torch.randn(1, 256)
run = lambda: kernels.linear(x, [matrix], [None])[0]
before = run()
child = os.fork()
if child == 0:
    os._exit(0 if all(torch.equal(run(), before) for _ in range(50)) else 1)
assert torch.equal(run(), before)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
set_num_threads(1)
assert torch.equal(run(), before)
"""


@pytest.mark.usefixtures("restore_threads")
def test_a_forked_child_has_threads_of_its_own() -> None:
    result = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr


def test_wrong_blocks_are_left_to_torch_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(ISA_VARIABLE, raising=False)
    if not load_kernels(prefer="native").report["linear"].endswith("amx"):
        pytest.skip("this processor multiplies no blocks")
    monkeypatch.setattr("octavo.engine.kernels.dispatch.blocks_failure", lambda *_: "it differs by 1.0 of the maximum")
    assert set(load_kernels(prefer="native").report.values()) == {"native avx512"}
    assert "without AMX, which is slower: it differs by 1.0" in caplog.text
