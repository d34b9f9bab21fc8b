"""From a name, or none, to a model; and first use, online and offline."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from octavo.app.errors import DownloadError, ModelNotFoundError
from octavo.app.models import resolve
from octavo.app.models.catalogue import Catalogue, CatalogueEntry, HubSource, load_catalogue
from octavo.app.models.registry import DownloadRecord, Registry
from octavo.app.models.resolve import choose_default, ensure_model, open_registry, resolve_model

GGUF = b"GGUF" + bytes(100)


@dataclass(frozen=True)
class Wanted:
    model: str | None = None
    offline: bool = False


@dataclass(frozen=True)
class Home:
    models_dir: Path


@pytest.fixture
def home(octavo_home: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("HOME", str(octavo_home))
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    return Home(octavo_home / "data" / "models")


@pytest.fixture
def registry(home: Home) -> Registry:
    return open_registry(home)


def found(home: Home, name: str | None, settings: Wanted | None = None) -> resolve.ResolvedModel:
    return resolve_model(name, settings or Wanted(), home)


def refused(home: Home, name: str) -> str:
    with pytest.raises(ModelNotFoundError) as caught:
        found(home, name)
    return str(caught.value)


def put(path: Path, content: bytes = GGUF) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_argument_then_settings_then_choice_then_embedded_default(home: Home, registry: Registry) -> None:
    assert found(home, None).name == "qwen2.5-coder-0.5b"
    registry.set_default("qwen3-8b")
    assert found(home, None).name == "qwen3-8b"
    assert found(home, None, Wanted("qwen3-4b")).name == "qwen3-4b"
    assert found(home, "smollm2-135m", Wanted("qwen3-4b")).name == "smollm2-135m"


def test_a_catalogue_model_has_its_place_and_hash_before_it_is_there(home: Home) -> None:
    model = found(home, "SmolLM2-135M-Instruct")
    assert model.path == home.models_dir / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert not model.present
    assert model.entry is load_catalogue().get("smollm2-135m")
    assert model.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def test_a_path_is_used_in_place(home: Home, tmp_path: Path) -> None:
    file = put(tmp_path / "work" / "mine.gguf")
    assert found(home, str(file)).path == found(home, "./mine.gguf").path == found(home, "mine.gguf").path == file
    folder = put(tmp_path / "folder" / "config.json", b"{}").parent
    put(folder / "model.safetensors", b"")
    assert found(home, str(folder)).path == folder
    assert found(home, str(folder)).name == "folder"


def test_a_home_sign_is_expanded(home: Home, octavo_home: Path) -> None:
    file = put(octavo_home / "mine.gguf")
    assert found(home, "~/mine.gguf").path == file


@pytest.mark.parametrize("name", ["./none.gguf", "/none/at/all", "~/none", "../none"])
def test_a_path_to_nothing_says_so(home: Home, name: str) -> None:
    assert "There is no file or folder" in refused(home, name)


def test_a_folder_without_a_model_says_what_is_missing(home: Home, tmp_path: Path) -> None:
    assert "needs a config.json and weights in .safetensors files" in refused(home, str(tmp_path))


def test_an_unknown_name_gets_close_ones(home: Home) -> None:
    assert refused(home, "smolm2") == "No model is called smolm2; did you mean smollm2-135m?"
    assert "`octavo models list` shows what there is" in refused(home, "zzzzzz")
    assert "`octavo models pull xx/yyyy` fetches it" in refused(home, "xx/yyyy")


def test_downloads_are_found_by_every_unambiguous_form(home: Home, registry: Registry) -> None:
    file = put(home.models_dir / "org/model/m-Q4_K_M.gguf")
    registry.add_download("org/model:m-Q4_K_M.gguf", DownloadRecord(file, "the hub"))
    for name in ("org/model:m-Q4_K_M.gguf", "org/model", "m-Q4_K_M.gguf", "m-Q4_K_M"):
        assert found(home, name).path == file
    other = put(home.models_dir / "org/model/m-Q8_0.gguf")
    registry.add_download("org/model:m-Q8_0.gguf", DownloadRecord(other, "the hub"))
    assert found(home, "m-Q8_0").path == other
    message = refused(home, "org/model")
    assert "could be any of org/model:m-Q4_K_M.gguf, org/model:m-Q8_0.gguf; say which" in message


def test_other_programs_models_are_found(home: Home, octavo_home: Path) -> None:
    first = put(octavo_home / ".lmstudio/models/pub/repo/model-Q4_K_M.gguf")
    assert found(home, "lmstudio:pub/repo/model-Q4_K_M.gguf").path == first
    assert found(home, "model-Q4_K_M").path == first
    snapshot = octavo_home / ".cache/huggingface/hub/models--pub--other/snapshots/c"
    second = put(snapshot / "model-Q4_K_M.gguf")
    assert found(home, "hf:pub/other").path == found(home, "pub/other").path == second
    message = refused(home, "model-Q4_K_M")
    assert "hf:pub/other:model-Q4_K_M.gguf, lmstudio:pub/repo/model-Q4_K_M.gguf" in message


def test_a_broken_model_of_another_program_says_why(home: Home, octavo_home: Path) -> None:
    put(octavo_home / ".lmstudio/models/pub/repo/model.gguf", b"text")
    message = refused(home, "lmstudio:pub/repo/model.gguf")
    assert message == "lmstudio:pub/repo/model.gguf cannot be used: it is not a GGUF file."


def test_a_chosen_file_is_registered_where_it_lies(home: Home, registry: Registry, tmp_path: Path) -> None:
    file = put(tmp_path / "elsewhere" / "mine.gguf")
    choose_default(found(home, str(file)), registry)
    assert registry.local == {"mine": file}
    assert found(home, None).path == found(home, "mine").path == file
    other = put(tmp_path / "second" / "mine.gguf")
    choose_default(found(home, str(other)), registry)
    assert registry.local == {"mine": file, "second/mine": other}
    assert found(home, None).path == other


def test_a_local_file_called_like_a_catalogue_model_stays_distinct(
    home: Home, registry: Registry, tmp_path: Path
) -> None:
    file = put(tmp_path / "elsewhere" / "qwen3-8b.gguf")
    choose_default(found(home, str(file)), registry)
    assert found(home, None).path == file
    assert found(home, "qwen3-8b").path == home.models_dir / "Qwen3-8B-Q4_K_M.gguf"


def test_a_hashed_copy_is_recognised_as_the_catalogues(home: Home, registry: Registry, tmp_path: Path) -> None:
    file = put(tmp_path / "copy.gguf")
    entry = load_catalogue().default_entry
    registry.remember_sha256(file, str(entry.sha256))
    assert found(home, str(file)).entry is entry


@pytest.fixture
def one_model(monkeypatch: pytest.MonkeyPatch, tiny_gguf: Callable[..., bytes]) -> CatalogueEntry:
    """A catalogue with one tiny model that the hub has."""
    data = tiny_gguf()
    entry = replace(
        load_catalogue().default_entry,
        id="tiny",
        name="Tiny",
        file="tiny.gguf",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        sources=(HubSource("org/tiny", "tiny.gguf"),),
    )
    catalogue = Catalogue((entry,), "tiny")
    monkeypatch.setattr(resolve, "load_catalogue", lambda: catalogue)
    return entry


def test_first_use_says_what_and_fetches_and_the_second_is_silent(
    home: Home, registry: Registry, one_model: CatalogueEntry, fake_hub: Any, tiny_gguf: Callable[..., bytes]
) -> None:
    fake_hub.files["org/tiny"] = {"tiny.gguf": tiny_gguf()}
    said: list[str] = []
    path = ensure_model(found(home, None), home, offline=False, announce=said.append)
    assert path.read_bytes() == tiny_gguf()
    assert said[0].startswith("Tiny (")
    assert "Apache-2.0) is not on this machine yet; it is fetched once" in said[0]
    assert "from the hub (org/tiny)" in said[1]
    assert registry.downloads == {"tiny": DownloadRecord(path, "the hub (org/tiny)")}
    said.clear()
    assert ensure_model(found(home, None), home, offline=True, announce=said.append) == path
    assert said == []


@pytest.mark.parametrize("variable", [False, True])
def test_offline_downloads_nothing_and_says_how_to(
    home: Home, one_model: CatalogueEntry, fake_hub: Any, monkeypatch: pytest.MonkeyPatch, variable: bool
) -> None:
    if variable:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    why = "HF_HUB_OFFLINE is set" if variable else "offline mode is on"
    with pytest.raises(DownloadError, match=rf"{why}: run `octavo models pull tiny` once while online"):
        ensure_model(found(home, None), home, offline=not variable, announce=pytest.fail)
    assert fake_hub.requests == []


def test_what_the_engine_cannot_run_is_not_registered(
    home: Home, registry: Registry, fake_hub: Any, monkeypatch: pytest.MonkeyPatch, one_model: CatalogueEntry
) -> None:
    data = b"GGUF" + bytes(1000)
    odd = replace(one_model, size=len(data), sha256=hashlib.sha256(data).hexdigest())
    monkeypatch.setattr(resolve, "load_catalogue", lambda: Catalogue((odd,), "tiny"))
    fake_hub.files["org/tiny"] = {"tiny.gguf": data}
    from octavo.engine.errors import EngineError

    with pytest.raises(EngineError, match=r"^tiny\.gguf"):
        ensure_model(found(home, None), home, offline=False, announce=lambda text: None)
    assert registry.downloads == {}
    assert {path.name for path in home.models_dir.iterdir()} <= {".locks"}


def test_a_local_file_that_has_gone_is_named(home: Home, registry: Registry, tmp_path: Path) -> None:
    registry.add_local("mine", tmp_path / "gone.gguf")
    with pytest.raises(ModelNotFoundError, match=r"mine was at .*gone\.gguf, and there is nothing there now"):
        ensure_model(found(home, "mine"), home, offline=False, announce=pytest.fail)
