"""Pulling a repository by its name: the choice of a file, and a folder that appears whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from octavo.app.errors import DownloadError
from octavo.app.models import hub
from octavo.app.models.hub import RepoFile
from octavo.app.models.registry import DownloadRecord, Registry
from octavo.app.models.repos import RepoName, choose_gguf, parse_repo_name, pull_repository
from octavo.engine.errors import EngineError, ModelFileError, UnsupportedModelError

REPO = "org/model"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org/model", RepoName("org/model", None)),
        ("hf:org/model", RepoName("org/model", None)),
        ("org/model:Q8_0", RepoName("org/model", "Q8_0")),
        ("Qwen/Qwen2.5-0.5B:sub/a.gguf", RepoName("Qwen/Qwen2.5-0.5B", "sub/a.gguf")),
        ("model", None),
        ("a/b/c", None),
        ("ollama:a:b", None),
        ("org/", None),
    ],
)
def test_names_of_repositories(text: str, expected: RepoName | None) -> None:
    assert parse_repo_name(text) == expected


def listing(*names: str) -> Sequence[RepoFile]:
    return [RepoFile(name, 1_000_000, None) for name in names]


@pytest.mark.parametrize(
    ("names", "wanted", "chosen"),
    [
        (["only-Q8_0.gguf"], None, "only-Q8_0.gguf"),
        (["m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf"], None, "m-Q4_K_M.gguf"),
        (["m-q4_k_m.gguf", "m-q8_0.gguf"], "Q8_0", "m-q8_0.gguf"),
        (["m.Q4_0.gguf", "m.Q8_0.gguf"], "q4_0", "m.Q4_0.gguf"),
        (["a/m.gguf", "b/n.gguf"], "n.gguf", "b/n.gguf"),
        (["a/m.gguf", "b/m.gguf"], "b/m.gguf", "b/m.gguf"),
        (["a/m.gguf", "n.gguf"], "M", "a/m.gguf"),
    ],
)
def test_one_file_is_chosen(names: list[str], wanted: str | None, chosen: str) -> None:
    assert choose_gguf(REPO, listing(*names), wanted).path == chosen


@pytest.mark.parametrize(
    ("names", "wanted", "message"),
    [
        ([], None, "has no GGUF file and no safetensors model"),
        (["m-Q2_K.gguf", "m-Q8_0.gguf"], None, r"has several files; name one as org/model:FILE, of m-Q2_K\.gguf"),
        (["m-Q2_K.gguf"], "Q8_0", r"has no file Q8_0; name one as org/model:FILE, of m-Q2_K\.gguf \(1\.00 MB\)"),
        (["a/m.gguf", "b/m.gguf"], "m.gguf", "has several files"),
    ],
)
def test_no_file_is_guessed(names: list[str], wanted: str | None, message: str) -> None:
    with pytest.raises(DownloadError, match=message):
        choose_gguf(REPO, listing(*names), wanted)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "models" / "registry.json")


@pytest.fixture
def pull(tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(hub, "_PAUSE_SECONDS", 0.0)

    def run(name: str = REPO, **options: Any) -> tuple[str, Path]:
        repo = parse_repo_name(name)
        assert repo is not None
        options.setdefault("announce", lambda text: None)
        return pull_repository(repo, tmp_path / "models", registry, **options)

    return run


def files_below(folder: Path) -> set[str]:
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name for name in names if ".locks" not in name}


def test_a_gguf_file_is_pulled_checked_and_recorded(
    pull: Callable[..., Any], fake_hub: Any, registry: Registry, tmp_path: Path, tiny_gguf: Callable[..., bytes]
) -> None:
    fake_hub.files[REPO] = {"m-Q4_K_M.gguf": tiny_gguf(), "m-Q8_0.gguf": b"", "mmproj-m.gguf": b"GGUF"}
    name, path = pull()
    assert name == "org/model:m-Q4_K_M.gguf"
    assert path == tmp_path / "models/org/model/m-Q4_K_M.gguf"
    assert path.read_bytes() == tiny_gguf()
    assert registry.downloads == {name: DownloadRecord(path, "the hub (org/model)")}
    assert registry.known_sha256(path) is not None


def test_an_unsupported_architecture_is_refused_before_the_download(
    pull: Callable[..., Any], fake_hub: Any, registry: Registry
) -> None:
    fake_hub.files[REPO] = {"m.gguf": b"GGUF"}
    fake_hub.info[REPO] = {"gguf": {"architecture": "mamba"}}
    with pytest.raises(DownloadError, match="has the architecture mamba, which is not supported"):
        pull()
    assert fake_hub.downloads() == []
    assert registry.downloads == {}


def test_one_that_shows_only_in_the_file_is_removed(
    pull: Callable[..., Any], fake_hub: Any, registry: Registry, tmp_path: Path, tiny_gguf: Callable[..., bytes]
) -> None:
    fake_hub.files[REPO] = {"m.gguf": tiny_gguf("gemma")}
    with pytest.raises(UnsupportedModelError, match=r"^m\.gguf: the architecture gemma is not supported"):
        pull()
    assert files_below(tmp_path / "models") == set()
    assert registry.downloads == {}


def test_a_truncated_file_is_removed(
    pull: Callable[..., Any], fake_hub: Any, tmp_path: Path, tiny_gguf: Callable[..., bytes]
) -> None:
    fake_hub.files[REPO] = {"m.gguf": tiny_gguf()[:-5000]}
    with pytest.raises(ModelFileError, match=r"^m\.gguf"):
        pull()
    assert files_below(tmp_path / "models") == set()


def test_a_file_name_that_leaves_the_folder_is_no_choice(pull: Callable[..., Any], fake_hub: Any) -> None:
    fake_hub.files[REPO] = {"../../evil.gguf": b"GGUF", "/abs.gguf": b"GGUF"}
    with pytest.raises(DownloadError, match="has no GGUF file"):
        pull()


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 258,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
}


@pytest.fixture(scope="session")
def model_folder() -> dict[str, bytes]:
    """The files of a tiny Llama as the hub has them, two of them of no use to Octavo."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate([*alphabet, "ab"])}, [("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|end|>"])
    rng = np.random.default_rng(0)
    layer = "model.layers.0."
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (258, 32), "model.norm.weight": (32,)}
    shapes |= {f"{layer}{name}_layernorm.weight": (32,) for name in ("input", "post_attention")}
    shapes |= {f"{layer}self_attn.{name}_proj.weight": (32, 32) for name in "qkvo"}
    shapes |= {f"{layer}mlp.{name}_proj.weight": (64, 32) for name in ("gate", "up")}
    shapes[f"{layer}mlp.down_proj.weight"] = (32, 64)
    tensors = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return {
        "README.md": b"# A model",
        "pytorch_model.bin": b"a pickle",
        "model.safetensors": save(tensors),
        "tokenizer.json": tokenizer.to_str().encode(),
        "tokenizer_config.json": json.dumps({"eos_token": "<|end|>"}).encode(),
        "config.json": json.dumps(CONFIG).encode(),
    }


USEFUL = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


def test_a_folder_is_pulled_without_what_octavo_cannot_use(
    pull: Callable[..., Any], fake_hub: Any, registry: Registry, tmp_path: Path, model_folder: dict[str, bytes]
) -> None:
    fake_hub.files[REPO] = model_folder
    seen: list[tuple[int, int]] = []
    name, path = pull(progress=lambda done, total: seen.append((done, total)))
    assert (name, path) == (REPO, tmp_path / "models/org/model")
    assert files_below(path) == USEFUL
    assert not (path / ".locks").exists()
    assert registry.downloads == {name: DownloadRecord(path, "the hub (org/model)")}
    total = sum(len(model_folder[name]) for name in USEFUL)
    assert seen[-1] == (total, total)
    fake_hub.requests.clear()
    assert pull() == (name, path)
    assert fake_hub.downloads() == []


def test_an_interrupted_folder_goes_on_and_takes_changed_files_anew(
    pull: Callable[..., Any], fake_hub: Any, tmp_path: Path, model_folder: dict[str, bytes]
) -> None:
    fake_hub.files[REPO] = dict(model_folder)

    def interrupt(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(progress=interrupt)
    assert not (tmp_path / "models/org/model").exists()
    changed = json.dumps({**CONFIG, "max_position_embeddings": 256}).encode()
    fake_hub.files[REPO]["config.json"] = changed
    fake_hub.requests.clear()
    _, path = pull()
    assert (path / "config.json").read_bytes() == changed
    asked = {request[1].rsplit("/", 1)[-1]: request[2] for request in fake_hub.downloads()}
    assert "tokenizer.json" not in asked
    assert asked["config.json"] is None


def test_a_folder_that_cannot_run_is_refused_after_its_config(
    pull: Callable[..., Any], fake_hub: Any, registry: Registry, tmp_path: Path, model_folder: dict[str, bytes]
) -> None:
    config = json.dumps({**CONFIG, "architectures": ["BertModel"], "model_type": "bert"}).encode()
    fake_hub.files[REPO] = {**model_folder, "config.json": config}
    with pytest.raises(EngineError, match=r"^org/model"):
        pull()
    assert len(fake_hub.downloads()) == 1
    assert files_below(tmp_path / "models") == set()
    assert registry.downloads == {}


def test_a_config_that_is_no_json_is_refused(
    pull: Callable[..., Any], fake_hub: Any, model_folder: dict[str, bytes]
) -> None:
    fake_hub.files[REPO] = {**model_folder, "config.json": b"{"}
    with pytest.raises(ModelFileError, match=r"org/model/config\.json is not a JSON object"):
        pull()


def test_other_files_are_not_overwritten_by_a_folder(
    pull: Callable[..., Any], fake_hub: Any, tmp_path: Path, model_folder: dict[str, bytes]
) -> None:
    fake_hub.files[REPO] = model_folder
    (tmp_path / "models/org/model").mkdir(parents=True)
    with pytest.raises(DownloadError, match="holds other files of org/model; remove them first"):
        pull()
