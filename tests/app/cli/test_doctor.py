import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from octavo.app import doctor
from octavo.app.doctor_report import Report
from octavo.engine import hardware
from octavo.engine.hardware import Gpu, TorchBuild

PARTS = ["python", "hardware", "torch", "kernels", "folders", "disk", "settings", "models", "budgets", "environment"]
GPU = Gpu("RTX 4070", 12 * 10**9, 11 * 10**9, "550.54")


def examine_json(octavo: Callable[..., Any]) -> tuple[int, dict[str, Any], str]:
    """Exit code, document, and what every problem says."""
    result = octavo("doctor", "--json")
    document = json.loads(result.out)
    return result.code, document, "\n".join(f"{p['what']} {p['remedy']}" for p in document["problems"])


def test_every_part_is_reported(octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "measure_gpus", list)

    _, document, _ = examine_json(octavo)

    assert [*PARTS, "problems"] == list(document)
    assert document["hardware"]["ram_total"] > document["hardware"]["ram_available"] > 0
    assert set(document["kernels"]) >= {"linear", "attend_pages", "threads"}
    assert document["settings"]["page_size"] == {"value": 32, "source": "default"}
    assert document["models"]["in_use"]["name"] == "qwen2.5-coder-0.5b"
    assert document["models"]["in_use"]["state"] == "not here"


def test_the_budgets_are_said_with_their_reasons(octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "measure_gpus", list)
    monkeypatch.setattr(hardware, "disk_free", lambda folder: 100 << 30)
    monkeypatch.setenv("OCTAVO_VRAM", "256MiB")

    _, document, _ = examine_json(octavo)
    lines = [" ".join(line.split()) for line in octavo("doctor").out.splitlines()]

    budgets = document["budgets"]
    assert (budgets["device"], budgets["vram"]["size"], budgets["ram"]["size"]) == ("cpu", 256 << 20, 0)
    assert budgets["disk"]["size"] == 25 << 30
    assert [line for line in lines if line.startswith("disk auto: up to 26.8 GB, a quarter of")]
    assert [line for line in lines if line.startswith("vram 256MiB: after")]


def test_a_budget_that_holds_no_model_is_a_problem(octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_VRAM", "10MiB")

    code, document, problems = examine_json(octavo)

    assert code == 1
    assert document["budgets"] == {}
    assert "vram in OCTAVO_VRAM is 10MiB, and this model needs at least" in problems


def test_the_text_is_for_people(octavo: Callable[..., Any], octavo_home: Path) -> None:
    (octavo_home / "config").mkdir(parents=True, mode=0o700)
    (octavo_home / "config" / "octavo.toml").write_text("threads = 3\n")

    result = octavo("doctor")

    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert [line for line in lines if line in PARTS] == PARTS
    assert f"threads 3 {octavo_home}/config/octavo.toml" in lines
    assert f"cache {octavo_home}/cache, not there yet" in lines
    assert lines[-1] == "Nothing is wrong." or result.code == 1


def test_wrong_settings_are_a_problem_and_not_the_end(
    octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_THREDS", "3")

    code, document, problems = examine_json(octavo)

    assert code == 1
    assert "OCTAVO_THREDS is no setting; did you mean OCTAVO_THREADS?" in problems
    assert document["settings"] == {}
    assert document["models"]["in_use"]["name"] == "qwen2.5-coder-0.5b"


def test_a_relative_home_is_a_problem_and_not_the_end(
    octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_HOME", "here")

    code, document, problems = examine_json(octavo)

    assert code == 1
    assert "OCTAVO_HOME is 'here', a relative path" in problems
    assert document["python"]
    assert document["environment"]["OCTAVO_HOME"] == "here"


def test_folders_that_others_can_change_or_that_are_files(octavo: Callable[..., Any], octavo_home: Path) -> None:
    (octavo_home / "data").mkdir(parents=True)
    (octavo_home / "data").chmod(0o777)
    (octavo_home / "cache").write_text("")

    code, document, problems = examine_json(octavo)

    assert code == 1
    assert f"Others can write to {octavo_home}/data. Keep it to yourself: chmod 700" in problems
    assert f"{octavo_home}/cache is a file" in problems
    assert document["folders"]["data"] == {"path": f"{octavo_home}/data", "state": "mode 777"}


def test_broken_torch_is_a_problem_and_not_the_end(octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> TorchBuild:
        raise OSError("libtorch_cpu.so: cannot open shared object file")

    monkeypatch.setattr(hardware, "inspect_torch", broken)

    code, document, problems = examine_json(octavo)

    assert code == 1
    assert "torch cannot be imported: OSError: libtorch_cpu.so" in problems
    assert "pip install --force-reinstall torch" in problems
    assert (document["torch"], document["kernels"]) == ({}, {})
    assert document["models"]


def test_a_part_that_raises_anything_is_a_problem(octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("No module named 'psutil'")

    monkeypatch.setattr(hardware, "measure_ram", missing)

    code, document, problems = examine_json(octavo)

    assert code == 1
    assert "hardware cannot be examined: ImportError: No module named 'psutil'." in problems
    assert document["torch"]


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (TorchBuild("2.13.0+cpu", None, False), "but torch is a CPU build."),
        (TorchBuild("2.13.0", "13.0", False), "but torch (for CUDA 13.0) cannot use it."),
        (TorchBuild("1.0.0", "13.0", True), "torch is 1.0.0, and this version of Octavo is made for 2.13.0."),
    ],
)
def test_a_gpu_and_a_torch_that_do_not_go_together(
    build: TorchBuild, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "measure_gpus", lambda: [GPU])
    monkeypatch.setattr(hardware, "inspect_torch", lambda: build)
    monkeypatch.setattr(doctor, "_torch_requirement", lambda: "torch==2.13.0")
    report = Report(facts={"hardware": doctor._hardware(Report())})

    facts = doctor._torch(report)

    assert facts["version"] == build.version
    assert [problem.what for problem in report.problems if sentence in problem.what]
    assert len(report.problems) == 1


def test_a_full_disk_and_a_model_too_large(octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "disk_free", lambda folder: 1000)

    code, _, problems = examine_json(octavo)

    assert code == 1
    assert "Only 1.00 kB are free" in problems
    assert "The disk has no room for qwen2.5-coder-0.5b, 491 MB." in problems


def test_offline_without_the_model(octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_OFFLINE", "1")

    code, _, problems = examine_json(octavo)

    assert code == 1
    assert "qwen2.5-coder-0.5b is not on this machine, and offline mode is on." in problems
    assert "octavo models pull qwen2.5-coder-0.5b" in problems


def test_a_model_that_is_gone(octavo: Callable[..., Any], octavo_home: Path) -> None:
    from octavo.app.models.resolve import open_registry
    from octavo.storage.paths import Paths

    open_registry(Paths.from_environment()).add_local("mine", octavo_home / "mine.gguf")

    code, document, problems = examine_json(octavo)

    assert code == 1
    assert f"The model mine is not at {octavo_home}/mine.gguf any more." in problems
    assert document["models"]["present"][0]["state"] == "gone"


def test_secrets_are_not_shown(octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_hush")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:hush@proxy:8080")

    result = octavo("doctor", "--json")

    assert "hush" not in result.out
    shown = json.loads(result.out)["environment"]
    assert shown["HF_TOKEN"] == "(set, not shown)"
    assert shown["HTTPS_PROXY"] == "http://…@proxy:8080"


def test_the_kernels_of_a_gpu_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatch = importlib.import_module("octavo.engine.kernels.dispatch")
    chosen = replace(dispatch.load_kernels(), report={"linear": "triton", "rms_norm": "torch"})
    monkeypatch.setattr(dispatch, "load_kernels", lambda device: {"cuda": chosen}[device])
    report = Report()

    assert doctor._gpu_kernels(report) == {"linear": "triton", "rms_norm": "torch"}
    assert [problem.what for problem in report.problems] == [
        "The Triton kernels for rms_norm are not used, so answers on the GPU are slow."
    ]
