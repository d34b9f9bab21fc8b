"""Models of other programs, in folders laid out as those programs do, and damaged ones among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.app.models.discover import SUPPORTED_FAMILIES, FoundModel, discover

DIGEST = "ab" * 32
GGUF = b"GGUF" + bytes(100)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HF_HUB_CACHE", "HF_HOME", "OLLAMA_MODELS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write(path: Path, content: bytes | str | dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def by_name() -> dict[str, FoundModel]:
    return {model.name: model for model in discover()}


def ollama_manifest(digest: str = f"sha256:{DIGEST}", media: str = "model") -> dict[str, Any]:
    layer = {"mediaType": f"application/vnd.ollama.image.{media}", "digest": digest, "size": 104}
    return {"schemaVersion": 2, "layers": [{"mediaType": "text/plain", "digest": "x"}, layer]}


def test_nothing_is_found_on_a_fresh_machine() -> None:
    assert discover() == []


def test_the_hugging_face_cache_has_folders_and_files(home: Path) -> None:
    repo = home / ".cache/huggingface/hub/models--org--model"
    old, new = repo / "snapshots/aaa", repo / "snapshots/bbb"
    write(old / "config.json", {"model_type": "gpt2"})
    write(new / "config.json", {"model_type": "qwen2"})
    blob = write(repo / "blobs/weights", bytes(50))
    (new / "model.safetensors").symlink_to(blob)
    write(new / "gguf/model-Q8_0.gguf", GGUF)
    write(repo / "refs/main", "bbb")
    found = by_name()
    assert found["hf:org/model"].path == new
    assert found["hf:org/model"].problem is None
    assert found["hf:org/model"].size > 150
    assert found["hf:org/model:gguf/model-Q8_0.gguf"].size == 104


def test_a_snapshot_without_a_ref_is_found(home: Path) -> None:
    repo = home / ".cache/huggingface/hub/models--org--model"
    write(repo / "snapshots/aaa/model.gguf", GGUF)
    write(repo / "refs/main", "../../..")
    assert set(by_name()) == {"hf:org/model:model.gguf"}


@pytest.mark.parametrize(
    ("variable", "value", "below"),
    [("HF_HUB_CACHE", "cache", ""), ("HF_HOME", "hf", "hub"), ("XDG_CACHE_HOME", "x", "huggingface/hub")],
)
def test_the_cache_is_where_the_variables_say(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, below: str
) -> None:
    monkeypatch.setenv(variable, str(home / value))
    write(home / value / below / "models--a--b/snapshots/c/m.gguf", GGUF)
    assert set(by_name()) == {"hf:a/b:m.gguf"}


def test_what_cannot_run_says_why(home: Path) -> None:
    hub = home / ".cache/huggingface/hub"
    write(hub / "models--a--bert/snapshots/c/config.json", {"model_type": "bert"})
    write(hub / "models--a--bert/snapshots/c/model.safetensors", b"")
    write(hub / "models--a--odd/snapshots/c/config.json", "not json")
    write(hub / "models--a--odd/snapshots/c/model.safetensors", b"")
    write(hub / "models--a--split/snapshots/c/m-00001-of-00002.gguf", GGUF)
    write(hub / "models--a--text/snapshots/c/m.gguf", b"<html>")
    broken = hub / "models--a--gone/snapshots/c/m.gguf"
    broken.parent.mkdir(parents=True)
    broken.symlink_to(hub / "nothing")
    problems = {name: model.problem for name, model in by_name().items()}
    assert problems == {
        "hf:a/bert": "the architecture bert is not supported",
        "hf:a/odd": "its config.json is not readable",
        "hf:a/split:m-00001-of-00002.gguf": "it is one part of a split file",
        "hf:a/text:m.gguf": "it is not a GGUF file",
        "hf:a/gone:m.gguf": "its file m.gguf is missing",
    }


def test_ollama_manifests_lead_to_blobs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(home / "ollama"))
    manifests = home / "ollama/manifests/host"
    write(manifests / "library/qwen2.5/0.5b", ollama_manifest())
    write(manifests / "someone/mine/latest", ollama_manifest())
    blob = write(home / f"ollama/blobs/sha256-{DIGEST}", GGUF)
    found = by_name()
    assert set(found) == {"ollama:qwen2.5:0.5b", "ollama:someone/mine:latest"}
    assert found["ollama:qwen2.5:0.5b"] == FoundModel("ollama:qwen2.5:0.5b", blob, 104)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1, 2]",
        b"\xff\xfe",
        json.dumps(ollama_manifest(digest="sha256:../../../etc/passwd")).encode(),
        json.dumps(ollama_manifest(media="adapter")).encode(),
        b'{"layers": [{"mediaType": "application/vnd.ollama.image.model"}]}',
    ],
)
def test_a_broken_ollama_manifest_is_listed_as_broken(home: Path, content: bytes) -> None:
    write(home / ".ollama/models/manifests/host/library/odd/latest", content)
    assert by_name()["ollama:odd:latest"].problem == "its manifest names no model file"


def test_an_ollama_blob_that_is_gone_is_listed(home: Path) -> None:
    write(home / ".ollama/models/manifests/host/library/m/latest", ollama_manifest())
    assert by_name()["ollama:m:latest"].problem == f"its file sha256-{DIGEST} is missing"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["layers", "mediaType", "digest"]), inner, max_size=3)
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_no_manifest_makes_discovery_fail(home: Path, content: bytes) -> None:
    write(home / ".ollama/models/manifests/host/library/odd/latest", content)
    assert [model.name for model in discover()] == ["ollama:odd:latest"]


def test_both_folders_of_lm_studio_are_read_but_no_projectors(home: Path) -> None:
    write(home / ".lmstudio/models/pub/repo/model-Q4_K_M.gguf", GGUF)
    write(home / ".lmstudio/models/pub/repo/mmproj-model.gguf", GGUF)
    write(home / ".cache/lm-studio/models/pub/old/config.json", {"model_type": "llama"})
    write(home / ".cache/lm-studio/models/pub/old/model.safetensors", b"")
    assert set(by_name()) == {"lmstudio:pub/repo/model-Q4_K_M.gguf", "lmstudio:pub/old"}


def test_one_folder_under_two_names_is_read_once(home: Path) -> None:
    write(home / ".lmstudio/models/pub/repo/model.gguf", GGUF)
    (home / ".cache").mkdir()
    (home / ".cache/lm-studio").symlink_to(home / ".lmstudio")
    assert [model.name for model in discover()] == ["lmstudio:pub/repo/model.gguf"]


def test_the_families_are_those_of_the_engine() -> None:
    from octavo.engine.model import spec

    assert set(SUPPORTED_FAMILIES) == set(spec.HF_ARCHITECTURES.values())
