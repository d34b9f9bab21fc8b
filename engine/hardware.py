"""What this machine has, as far as it can be measured: processor, memory, GPUs, disk.

Only `choose_device` and `inspect_torch` import torch, so the rest is quick, and works where torch is broken.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from octavo.engine.errors import EngineError

Device = Literal["auto", "cpu", "cuda"]

_CGROUP = Path("/sys/fs/cgroup")
_CPU_INFO = Path("/proc/cpuinfo")
_STATUS, _CLEAR_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")
# Instruction sets that decide how fast weights are multiplied, as Linux spells them.
_FEATURES = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx_vnni",
    "amx_int8",
    "amx_bf16",
    "asimd",
    "asimddp",
    "i8mm",
    "bf16",
)


@dataclass(frozen=True)
class Cpu:
    """`cores` are those this process may use; `features` the instruction sets that matter, where known."""

    name: str
    cores: int
    features: tuple[str, ...]


@dataclass(frozen=True)
class Ram:
    """Bytes. A container's limit counts where it is below what the machine has."""

    total: int
    available: int


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU; memory in bytes."""

    name: str
    total: int
    free: int
    driver: str


@dataclass(frozen=True)
class TorchBuild:
    """cuda: the CUDA version torch was built for, None for a CPU build. sees_gpu: whether it found one."""

    version: str
    cuda: str | None
    sees_gpu: bool


def inspect_torch() -> TorchBuild:
    """What torch says of itself; importing it raises whatever a broken installation raises."""
    import torch

    return TorchBuild(torch.__version__, torch.version.cuda, torch.cuda.is_available())


def choose_device(wanted: Device) -> str:
    """The torch device to run on: "auto" is CUDA where torch sees a GPU, else the CPU.

    Raises EngineError if "cuda" is wanted and torch sees none.
    """
    if wanted == "cpu":
        return "cpu"
    build = inspect_torch()
    if build.sees_gpu:
        return "cuda"
    if wanted == "cuda":
        kind = f"was built for CUDA {build.cuda}" if build.cuda else "is a CPU build"
        raise EngineError(
            f"The device is cuda, but torch {build.version} {kind} and sees no GPU; "
            "use auto or cpu, or see `octavo doctor`."
        )
    return "cpu"


def measure_cpu() -> Cpu:
    """The processor; from the system's own table on Linux, by name alone elsewhere."""
    fields = _cpu_fields()
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    name = fields.get("model name") or platform.processor() or platform.machine()
    return Cpu(name, usable_cores(), tuple(item for item in _FEATURES if item in flags))


def multiplies_blocks() -> bool:
    """Whether the C kernels are there and compute a chunk of a prompt themselves, with AMX."""
    try:
        from octavo.engine.kernels._native import Ops

        return Ops(os.environ.get("OCTAVO_NATIVE_ISA") or None).isa == "amx"
    except (ImportError, ValueError):
        return False


def measure_ram() -> Ram:
    """RAM of the machine, or what the container this runs in may have of it."""
    import psutil

    memory = psutil.virtual_memory()
    limit, used = _cgroup_number("memory.max"), _cgroup_number("memory.current")
    if limit is None or used is None or limit >= memory.total:
        return Ram(memory.total, memory.available)
    return Ram(limit, min(memory.available, max(0, limit - used)))


def resident_bytes() -> int:
    """RAM that this process holds now, mapped files included."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def peak_resident_bytes() -> int:
    """The most that it held, since `forget_peak` where the system can count anew (Linux), else since it started."""
    for line in _lines(_STATUS):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def forget_peak() -> None:
    """Count the peak of this process's RAM anew, where the system can."""
    with contextlib.suppress(OSError):
        _CLEAR_PEAK.write_text("5", encoding="ascii")


def measure_gpus() -> list[Gpu]:
    """The NVIDIA GPUs; none without one, without its driver, or where the driver does not answer."""
    with _nvml() as nvml:
        if nvml is None:
            return []
        try:
            return [_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
        except nvml.NVMLError:
            return []


def disk_free(folder: Path) -> int:
    """Free bytes, for this user, on the disk that holds `folder` or will hold it."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    name, driver = nvml.nvmlDeviceGetName(handle), nvml.nvmlSystemGetDriverVersion()
    return Gpu(str(name), int(memory.total), int(memory.free), str(driver))


@contextlib.contextmanager
def _nvml() -> Iterator[Any]:
    """NVIDIA's management library, started; None where it is not there."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _cpu_fields() -> dict[str, str]:
    """The first processor's entry in Linux's table."""
    try:
        text = _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    lines = text.partition("\n\n")[0].splitlines()
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def usable_cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cgroup_number(name: str) -> int | None:
    """A number of the control group (version 2), None without a limit or without control groups."""
    try:
        text = (_CGROUP / name).read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
