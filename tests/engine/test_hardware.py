import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import psutil
import pytest

from octavo.engine import hardware
from octavo.engine.errors import EngineError
from octavo.engine.hardware import (
    Gpu,
    Ram,
    TorchBuild,
    choose_device,
    disk_free,
    measure_cpu,
    measure_gpus,
    measure_ram,
)


class FakeNvml(ModuleType):
    """A stand-in for pynvml with two GPUs."""

    class NVMLError(Exception):
        pass

    def __init__(self, failing: str | None = None) -> None:
        super().__init__("pynvml")
        self.failing = failing
        self.calls: list[str] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name == self.failing:
            raise self.NVMLError(name)

    def nvmlInit(self) -> None:  # noqa: N802
        self._call("nvmlInit")

    def nvmlShutdown(self) -> None:  # noqa: N802
        self._call("nvmlShutdown")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        self._call("nvmlDeviceGetCount")
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        self._call("nvmlDeviceGetMemoryInfo")
        return SimpleNamespace(total=8 << 30, free=(handle + 1) << 30)

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return f"GPU {handle}"

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "550.54"


def test_gpus_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)

    assert measure_gpus() == [
        Gpu("GPU 0", 8 << 30, 1 << 30, "550.54"),
        Gpu("GPU 1", 8 << 30, 2 << 30, "550.54"),
    ]
    assert nvml.calls[-1] == "nvmlShutdown"


@pytest.mark.parametrize("failing", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetMemoryInfo", "nvmlShutdown"])
def test_a_driver_that_does_not_answer_is_no_gpu(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(failing))
    assert len(measure_gpus()) == (2 if failing == "nvmlShutdown" else 0)


def test_a_missing_library_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert measure_gpus() == []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A control group folder of a machine with 16 GB, 12 of them available."""
    memory = SimpleNamespace(total=16_000_000_000, available=12_000_000_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(hardware, "_CGROUP", tmp_path)
    return tmp_path


def test_ram_of_the_machine(machine: Path) -> None:
    whole = Ram(16_000_000_000, 12_000_000_000)
    assert measure_ram() == whole

    (machine / "memory.max").write_text("max\n")
    (machine / "memory.current").write_text("5000000000\n")
    assert measure_ram() == whole


@pytest.mark.parametrize(
    ("limit", "used", "available"),
    [
        (4_000_000_000, 1_000_000_000, 3_000_000_000),
        (15_000_000_000, 1_000_000_000, 12_000_000_000),
        (4_000_000_000, 5_000_000_000, 0),
    ],
)
def test_a_containers_limit_counts(machine: Path, limit: int, used: int, available: int) -> None:
    (machine / "memory.max").write_text(f"{limit}\n")
    (machine / "memory.current").write_text(f"{used}\n")
    assert measure_ram() == Ram(limit, available)


def test_the_processor_of_a_linux_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "cpuinfo"
    table.write_text(
        "processor\t: 0\nmodel name\t: Some CPU @ 3GHz\nflags\t\t: fpu avx2 avx512f amx_bf16\n\n"
        "processor\t: 1\nmodel name\t: Another\n"
    )
    monkeypatch.setattr(hardware, "_CPU_INFO", table)

    cpu = measure_cpu()

    assert (cpu.name, cpu.features) == ("Some CPU @ 3GHz", ("avx2", "avx512f", "amx_bf16"))
    assert cpu.cores >= 1


def test_a_processor_without_a_table_still_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_CPU_INFO", tmp_path / "missing")
    assert measure_cpu().name
    assert measure_cpu().features == ()


def test_free_disk_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert disk_free(tmp_path / "not" / "yet") > 0


@pytest.mark.parametrize(
    ("wanted", "sees_gpu", "device"), [("auto", True, "cuda"), ("auto", False, "cpu"), ("cuda", True, "cuda")]
)
def test_the_device(wanted: str, sees_gpu: bool, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "inspect_torch", lambda: TorchBuild("2.13.0", "13.0", sees_gpu))
    assert choose_device(wanted) == device  # type: ignore[arg-type]


def test_the_cpu_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "inspect_torch", None)
    assert choose_device("cpu") == "cpu"


@pytest.mark.parametrize(("cuda", "kind"), [(None, "is a CPU build"), ("13.0", "was built for CUDA 13.0")])
def test_cuda_where_there_is_none(cuda: str | None, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "inspect_torch", lambda: TorchBuild("2.13.0", cuda, sees_gpu=False))
    with pytest.raises(EngineError, match=f"{kind} and sees no GPU"):
        choose_device("cuda")
