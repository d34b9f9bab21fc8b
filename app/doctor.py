"""What `octavo doctor` finds: facts about this machine and installation, and what is wrong, with what to do.

Each part is looked at on its own, and whatever one of them raises becomes a problem, never the end.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

from octavo.app import doctor_files as files
from octavo.app.doctor_report import Report
from octavo.app.errors import AppError
from octavo.storage.errors import StorageError
from octavo.storage.paths import Paths

_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|API_?KEY", re.IGNORECASE)
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_VARIABLES = re.compile(
    r"OCTAVO_.*|HF_.*|PIP_.*|XDG_(CONFIG|DATA|CACHE|STATE)_HOME|CUDA_VISIBLE_DEVICES|(OMP|MKL)_NUM_THREADS"
    r"|NO_COLOR|(HTTP|HTTPS|ALL|NO)_PROXY",
    re.IGNORECASE,
)


def examine(environ: Mapping[str, str] | None = None) -> Report:
    """Look at everything. Imports torch, if it can be imported."""
    environ = os.environ if environ is None else environ
    report = Report()
    for part, look in (("python", _python), ("hardware", _hardware), ("torch", _torch), ("kernels", _kernels)):
        _attempt(report, part, look)
    if report.facts["torch"].get("sees_gpu"):
        _attempt(report, "gpu kernels", _gpu_kernels)
    try:
        paths = Paths.from_environment()
    except StorageError as error:
        report.problem(str(error), "Correct the variable, or unset it.")
    else:
        _examine_files(report, paths)
    report.facts["environment"] = _environment(environ)
    return report


def _examine_files(report: Report, paths: Paths) -> None:
    _attempt(report, "folders", lambda report: files.folders(report, paths))
    _attempt(report, "disk", lambda report: files.disk(report, paths))
    _attempt(report, "settings", lambda report: files.settings(report, paths))
    _attempt(report, "models", lambda report: files.models(report, paths))
    _attempt(report, "budgets", lambda report: files.budgets(report, paths))


def _attempt(report: Report, part: str, look: Callable[[Report], dict[str, Any]]) -> None:
    """Record what `look` finds, or what kept it from finding anything."""
    report.facts[part] = {}
    try:
        report.facts[part] = look(report)
    except AppError as error:
        report.problem(str(error), "Correct it there.")
    except Exception as error:  # a broken installation may raise anything, and this is what should say so
        report.problem(f"{part} cannot be examined: {type(error).__name__}: {error}.", "Install Octavo again.")


def _python(report: Report) -> dict[str, Any]:
    try:
        octavo = metadata.version("octavo")
    except metadata.PackageNotFoundError:
        octavo = "run from a checkout"
    return {
        "version": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "octavo": octavo,
    }


def _hardware(report: Report) -> dict[str, Any]:
    from octavo.engine.hardware import measure_cpu, measure_gpus, measure_ram

    cpu, ram = measure_cpu(), measure_ram()
    return {
        "processor": cpu.name,
        "cores": cpu.cores,
        "instruction_sets": list(cpu.features),
        "ram_total": ram.total,
        "ram_available": ram.available,
        "gpus": [
            {"name": gpu.name, "memory_total": gpu.total, "memory_free": gpu.free, "driver": gpu.driver}
            for gpu in measure_gpus()
        ],
    }


def _torch(report: Report) -> dict[str, Any]:
    from octavo.engine.hardware import inspect_torch

    requirement = _torch_requirement()
    try:
        build = inspect_torch()
    except Exception as error:  # as in `_attempt`
        report.problem(
            f"torch cannot be imported: {type(error).__name__}: {error}.",
            f"Install it again: pip install --force-reinstall {requirement}",
        )
        return {}
    wanted = requirement.partition("==")[2]
    if wanted and build.version.partition("+")[0] != wanted:
        report.problem(
            f"torch is {build.version}, and this version of Octavo is made for {wanted}.",
            f"Install it: pip install {requirement}",
        )
    gpus = report.facts["hardware"].get("gpus")
    if gpus and not build.sees_gpu:
        why = "is a CPU build" if build.cuda is None else f"(for CUDA {build.cuda}) cannot use it"
        report.problem(
            f"There is a GPU, {gpus[0]['name']} with driver {gpus[0]['driver']}, but torch {why}.",
            "Install a build of torch for a CUDA version that the driver supports, or update the driver.",
        )
    return {"version": build.version, "cuda": build.cuda, "sees_gpu": build.sees_gpu}


def _torch_requirement() -> str:
    """As the installed package states it, such as torch==2.13.0."""
    try:
        requirements = metadata.requires("octavo") or []
    except metadata.PackageNotFoundError:
        requirements = []
    return next((item for item in requirements if re.match(r"torch\b", item)), "torch")


def _kernels(report: Report) -> dict[str, Any]:
    if not report.facts["torch"]:
        return {}
    from octavo.engine.errors import EngineError
    from octavo.engine.kernels.dispatch import load_kernels

    try:
        kernels = load_kernels("cpu")
    except EngineError as error:
        report.problem(str(error), "Correct the variable, or unset it.")
        return {}
    slow = [name for name, implementation in kernels.report.items() if implementation == "torch"]
    if slow:
        report.problem(
            f"The native kernels for {', '.join(slow)} are not used, so answers on the CPU are slow.",
            "Install a C compiler (on Debian and Ubuntu: apt install build-essential), then Octavo again.",
        )
    return {**kernels.report, "threads": kernels.threads}


def _gpu_kernels(report: Report) -> dict[str, Any]:
    """Compiles them, the first time."""
    from octavo.engine.kernels.dispatch import load_kernels

    chosen = load_kernels("cuda").report
    slow = [name for name, implementation in chosen.items() if implementation == "torch"]
    if slow:
        report.problem(
            f"The Triton kernels for {', '.join(slow)} are not used, so answers on the GPU are slow.",
            "Install triton as torch wants it (pip install --force-reinstall torch), and a C compiler.",
        )
    return dict(chosen)


def _environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """The variables that change what Octavo does; secrets are not shown."""
    return {
        name: "(set, not shown)" if _SECRET.search(name) and value else _CREDENTIALS.sub("…@", value)
        for name, value in sorted(environ.items())
        if _VARIABLES.fullmatch(name)
    }
