"""The doctor's look at what lies on the disk: folders, free space, settings and models."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.app.doctor_report import Report
from octavo.app.errors import AppError, SettingsError
from octavo.app.models.text import human_size
from octavo.engine.errors import EngineError
from octavo.storage.paths import Paths

if TYPE_CHECKING:
    from octavo.app.models.listing import ListedModel
    from octavo.app.models.registry import Registry
    from octavo.app.models.resolve import ResolvedModel
    from octavo.app.settings import Settings

_SPARE_DISK = 1_000_000_000
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def folders(report: Report, paths: Paths) -> dict[str, Any]:
    """Path, permissions and use of each folder."""
    return {name: _folder(report, path) for name, path in paths.folders()}


def _folder(report: Report, path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"path": str(path), "state": "not there yet"}
    mode = stat.S_IMODE(path.stat().st_mode)
    if not path.is_dir():
        report.problem(f"{path} is a file, and should be a folder.", "Move it away.")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        report.problem(f"The folder {path} cannot be read and written.", f"Give it to yourself: chmod 700 {path}")
    elif mode & _OTHERS_WRITE:
        report.problem(f"Others can write to {path}.", f"Keep it to yourself: chmod 700 {path}")
    return {"path": str(path), "state": f"mode {mode:03o}"}


def disk(report: Report, paths: Paths) -> dict[str, Any]:
    """Free bytes where downloads go."""
    from octavo.engine.hardware import disk_free

    free = disk_free(paths.data)
    if free < _SPARE_DISK:
        report.problem(
            f"Only {human_size(free)} are free on the disk of {paths.data}.",
            "Free some space, or put Octavo's files elsewhere with OCTAVO_HOME.",
        )
    return {"free": free}


def settings(report: Report, paths: Paths) -> dict[str, Any]:
    """Every setting's value and where it comes from."""
    from octavo.app.settings import load_settings

    loaded = load_settings(paths=paths)
    sources = loaded.sources
    return {key: {"value": value, "source": sources.get(key, "default")} for key, value in loaded.items()}


def models(report: Report, paths: Paths) -> dict[str, Any]:
    """The model that would be used, and every model that is on this machine."""
    from octavo.app.models.listing import list_all
    from octavo.app.models.resolve import open_registry

    registry = open_registry(paths)
    here = [model for model in list_all(paths).models if model.state != "not here"]
    for model in here:
        if model.state == "gone":
            report.problem(
                f"The model {model.name} is not at {model.path} any more.",
                f"Put it back, or forget it: octavo models remove {model.name}",
            )
    return {
        "in_use": _in_use(report, paths),
        "present": [_present(report, model, registry) for model in here],
    }


def budgets(report: Report, paths: Paths) -> dict[str, Any]:
    """What each tier of the KV cache would get with the model in use, and why."""
    from octavo.app.budgets import choose_device, measure_machine, resolve_budgets
    from octavo.app.models.planned import planned_model

    if not report.facts.get("torch"):
        return {}  # which device there is, only torch can say
    chosen = _settings(paths)
    try:
        device = choose_device(chosen)
        model = planned_model(chosen, paths, device)
        machine = measure_machine(paths)
        found = resolve_budgets(chosen, model.sizes, model.weight_bytes, model.context, device, machine)
    except SettingsError as error:
        report.problem(str(error), "Change it in the settings, or with the flag of the same name.")
        return {}
    except (AppError, EngineError) as error:
        report.problem(f"The budgets of the KV cache are unknown: {error}", "Correct that first.")
        return {}
    sizes = {"vram": found.vram, "ram": found.host_bytes, "disk": found.disk_bytes}
    return {"device": device} | {
        tier: {"size": size, "why": note.removeprefix(f"{tier} ")}
        for (tier, size), note in zip(sizes.items(), found.notes, strict=True)
    }


def _settings(paths: Paths) -> Settings:
    """The settings, or the defaults: what is wrong with them is reported where they are looked at."""
    from octavo.app.settings import Settings, load_settings

    try:
        return load_settings(paths=paths)
    except AppError:
        return Settings()


def _present(report: Report, model: ListedModel, registry: Registry) -> dict[str, Any]:
    """`sha256` is what was found when the file was read, None if it was not; nothing is read now."""
    digest = None
    if model.path is not None and model.path.is_file():
        digest = registry.known_sha256(model.path)
        if digest is not None and model.sha256 not in (None, digest):
            report.problem(
                f"{model.path} is not the file that the catalogue calls {model.name}: its SHA-256 is {digest}.",
                f"Fetch it again: octavo models pull {model.name}",
            )
    path = None if model.path is None else str(model.path)
    return {
        "name": model.name,
        "path": path,
        "size": model.size,
        "state": model.state,
        "sha256": digest,
    }


def _in_use(report: Report, paths: Paths) -> dict[str, Any]:
    from octavo.app.models.resolve import resolve_model

    chosen = _settings(paths)
    try:
        model = resolve_model(None, chosen, paths)
    except AppError as error:
        report.problem(str(error), "Choose another with octavo models use.")
        return {}
    if model.present:
        _check_size(report, model)
    else:
        _check_absent(report, model, chosen, paths)
    state = "here" if model.present else "not here"
    return {"name": model.name, "path": str(model.path), "state": state}


def _check_size(report: Report, model: ResolvedModel) -> None:
    """Weights alone that fit neither a GPU nor the RAM cannot run."""
    from octavo.app.models.files import size_of
    from octavo.engine.hardware import measure_gpus, measure_ram

    size = size_of(model.path)
    room = max([measure_ram().available, *(gpu.free for gpu in measure_gpus())])
    if size > room:
        report.problem(
            f"{model.name} has {human_size(size)} of weights, and there are {human_size(room)} of memory free.",
            "Close other programs, or choose a smaller one: octavo models recommend",
        )


def _check_absent(report: Report, model: ResolvedModel, chosen: Settings, paths: Paths) -> None:
    """A catalogue model that is not here yet is fetched at its first use, if that can be."""
    from octavo.app.models.hub import hub_offline
    from octavo.engine.hardware import disk_free

    fetch = f"Fetch it once while online: octavo models pull {model.name}"
    if model.entry is None:
        return  # the list of models reports it
    if chosen.offline or hub_offline():
        report.problem(f"{model.name} is not on this machine, and offline mode is on.", fetch)
    elif disk_free(paths.data) < model.entry.size:
        report.problem(f"The disk has no room for {model.name}, {human_size(model.entry.size)}.", fetch)
