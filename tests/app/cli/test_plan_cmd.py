import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.app.models.planned import load_shapes
from octavo.engine import hardware
from octavo.engine.hardware import Gpu
from octavo.engine.kv.codec import CODECS, PageLayout


def test_a_catalogue_model_is_planned_before_it_is_here(octavo: Callable[..., Any], octavo_home: Path) -> None:
    """Qwen2.5-Coder-0.5B: 24 layers, 2 KV heads of 64, a file of 491,400,064 bytes."""
    result = octavo("plan", "--context", "4096", "--vram", "2GB", "--json")

    assert (result.code, result.err) == (0, "")
    plan = json.loads(result.out)
    assert (plan["model"], plan["context"], plan["trained_context"]) == ("qwen2.5-coder-0.5b", 4096, 32768)
    assert (plan["budget_bytes"], plan["from_file"]) == (2_000_000_000, False)
    assert [row["codec"] for row in plan["rows"]] == ["bf16", "k8v8", "k8v4", "k4v4"]
    bf16 = plan["rows"][0]
    assert bf16["weights_bytes"] == 491_400_064
    assert bf16["kv_bytes"] == 2 * 24 * 2 * 64 * 2 * 4096
    parts = ("weights_bytes", "kv_bytes", "tail_bytes", "workspace_bytes")
    assert bf16["total_bytes"] == sum(bf16[part] for part in parts)
    assert bf16["left_bytes"] == 2_000_000_000 - bf16["total_bytes"]
    assert bf16["fits"] is True
    assert not octavo_home.exists(), "planning downloads and writes nothing"


@pytest.mark.model
def test_a_file_is_planned_from_its_header(octavo: Callable[..., Any], small_model: Path) -> None:
    """SmolLM2-135M: 30 layers, 3 KV heads of 64, 8,192 tokens, which is the context if none is named."""
    plan = json.loads(octavo("plan", "--model", str(small_model), "--vram", "1GiB", "--json").out)

    assert (plan["context"], plan["from_file"]) == (8192, True)
    assert plan["rows"][0]["kv_bytes"] == 2 * 30 * 3 * 64 * 2 * 8192
    # The file without its header; 61 norms are held as float32, as they are stored.
    assert plan["rows"][0]["weights_bytes"] == pytest.approx(small_model.stat().st_size, rel=0.02)
    assert plan["rows"][0]["weights_bytes"] < small_model.stat().st_size


@pytest.mark.model
def test_a_prediction_is_compared_with_what_is_measured(octavo: Callable[..., Any], small_model: Path) -> None:
    arguments = ("plan", "--model", str(small_model), "--context", "600", "--vram", "1GB", "--device", "cpu")

    plan = json.loads(octavo(*arguments, "--measure", "--json").out)

    used = next(row for row in plan["rows"] if row["codec"] == "k8v4")
    assert plan["measured"]["weights_bytes"] == used["weights_bytes"]
    assert plan["measured"]["kv_bytes"] == used["kv_bytes"]
    assert abs(plan["measured"]["error_percent"]) < 5
    assert abs(plan["measured"]["workspace_error_percent"]) < 10


@pytest.mark.model
def test_a_hot_set_is_measured_with_the_rest_below_it(octavo: Callable[..., Any], small_model: Path) -> None:
    arguments = ("--context", "1500", "--hot", "256", "--kv-codec", "k8v4", "--vram", "1GB", "--device", "cpu")

    plan = json.loads(octavo("plan", "--model", str(small_model), *arguments, "--measure", "--json").out)

    used = next(row for row in plan["rows"] if row["codec"] == "k8v4")
    for part in ("weights_bytes", "kv_bytes", "tail_bytes"):
        assert plan["measured"][part] == used[part]
    assert abs(plan["measured"]["workspace_error_percent"]) < 10


def test_an_8b_model_with_128k_tokens_fits_a_card_of_8_gib(octavo: Callable[..., Any]) -> None:
    """32 layers, 8 KV heads of 128, NF4 weights, 16K tokens on the device; all of them in bf16 take 128 KiB each."""
    hot = ("--context", "131072", "--hot", "16384", "--kv-codec", "k8v4")
    device = ("--quantization", "nf4", "--device", "cuda", "--vram", "8GiB")

    plan = json.loads(octavo("plan", "--shape", "llama-3.1-8b", *hot, *device, "--json").out)

    k8v4 = next(row for row in plan["rows"] if row["codec"] == "k8v4")
    assert k8v4["total_bytes"] <= 7.5 * 2**30
    assert k8v4["fits"]
    assert 21 * 2**30 < plan["plain_bytes"] < 22 * 2**30
    # Below the device: every page, and on disk each layer's record in whole blocks of 4 KiB behind a header.
    record = PageLayout(CODECS["k8v4"], 8, 32, 128).slot_bytes
    assert k8v4["host_bytes"] == 4096 * 32 * record
    assert k8v4["disk_bytes"] == 4096 * (32 * -(-record // 4096) * 4096 + 4096)
    assert "budgets" not in plan, "the plan is for another machine"


def test_a_config_is_a_shape(octavo: Callable[..., Any], make_config: Callable[[], Path]) -> None:
    by_name, by_file, by_folder = (
        json.loads(octavo("plan", "--shape", shape, "--vram", "9GB", "--context", "4096", "--json").out)
        for shape in ("llama-3.1-8b", str(make_config()), str(make_config().parent))
    )

    assert by_file["rows"] == by_folder["rows"] == by_name["rows"]
    assert by_file["model"] == "mine"


@pytest.fixture
def make_config(tmp_path: Path) -> Callable[[], Path]:
    def make() -> Path:
        folder = tmp_path / "mine"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(load_shapes()["llama-3.1-8b"]))
        return folder / "config.json"

    return make


def test_what_it_would_get_here_is_said(octavo: Callable[..., Any]) -> None:
    arguments = ("plan", "--model", "smollm2-135m", "--device", "cpu", "--ram", "off", "--disk", "1GB")

    budgets = json.loads(octavo(*arguments, "--vram", "256MiB", "--json").out)["budgets"]
    lines = octavo(*arguments, "--vram", "256MiB").out.splitlines()

    assert (budgets["vram"], budgets["ram"], budgets["disk"]) == (256 << 20, 0, 10**9)
    assert budgets["kv_pool"] + budgets["workspace"] == 256 << 20
    assert [line.strip() for line in lines[-3:]] == budgets["notes"]


def test_what_it_cannot_run_with_is_said(octavo: Callable[..., Any]) -> None:
    arguments = ("plan", "--model", "smollm2-135m", "--device", "cuda", "--vram", "120MB")

    refusal = "vram in --vram is 120MB, and this model needs at least"
    assert octavo(*arguments).out.splitlines()[-1].strip().startswith(refusal)
    assert json.loads(octavo(*arguments, "--json").out)["budgets"]["error"].startswith(refusal)


def test_what_is_not_here_is_not_measured(octavo: Callable[..., Any]) -> None:
    result = octavo("plan", "--model", "smollm2-135m", "--vram", "8GB", "--measure")
    assert (result.code, result.out) == (1, "")
    assert "smollm2-135m is not on this machine, so it cannot be measured; `octavo models pull" in result.err


@pytest.mark.model
def test_what_does_not_fit_is_not_loaded(octavo: Callable[..., Any], small_model: Path) -> None:
    result = octavo("plan", "--model", str(small_model), "--vram", "200MB", "--measure")
    assert (result.code, result.out) == (1, "")
    assert "more than the 200 MB of --vram, so it is not loaded" in result.err


def test_the_table_says_what_is_left_and_what_is_short(octavo: Callable[..., Any]) -> None:
    result = octavo("plan", "--model", "smollm2-135m", "--vram", "260MB")

    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].startswith("smollm2-135m at 8,192 tokens, within the 260 MB of --vram (not here yet")
    assert lines[2].split() == ["KV", "codec", "weights", "KV", "tails", "workspace", "total", "left"]
    assert lines[3].split()[:5] == ["bf16", "98.4", "MB", "189", "MB"]
    assert lines[3].endswith("short")
    assert not lines[6].endswith("short")


def test_without_a_budget_the_free_memory_counts(octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "measure_gpus", lambda: [Gpu("RTX 4070", 12 * 10**9, 11 * 10**9, "550")])
    assert "within the 11.0 GB free on RTX 4070" in octavo("plan", "--context", "100").out

    monkeypatch.setattr(hardware, "measure_gpus", list)
    assert "of RAM available" in octavo("plan", "--context", "100").out


def test_beyond_the_trained_context_there_is_a_warning(octavo: Callable[..., Any]) -> None:
    result = octavo("plan", "--model", "smollm2-135m", "--context", "8193", "--vram", "4GB", "--json")

    assert result.code == 0
    assert result.err.startswith("Warning: smollm2-135m was trained on 8,192 tokens; 8,193 are planned")
    assert json.loads(result.out)["context"] == 8193


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--context", "0"], "0 is not in the range"),
        (["--context", "-5"], "-5 is not in the range"),
        (["--context", "many"], "'many' is not a valid integer"),
        (["--vram", "20000000"], '--vram is "20000000" (a number alone leaves open'),
        (["--vram", "8XB"], "XB is not a unit"),
        (["--vram", "0GB"], "more than zero"),
        (["--vram", "-8GB"], "more than zero"),
        (["--vram", "400MB"], "take 491 MB, 91.4 MB more than the 400 MB of --vram."),
        (["--model", "no-such-model"], "No model is called no-such-model"),
        (["--model", "./gone.gguf"], "There is no file or folder"),
        (["--hot", "-1"], "-1 is not in the range"),
        (["--ram", "some"], 'ram in --ram is "some" (it is not a number and a unit); accepted is "auto", "off" or'),
        (["--shape", "llama-9"], "llama-9 is neither a shape that is known nor a config.json; known are llama-3.2-1b"),
        (["--shape", "llama-3.1-8b", "--measure"], "--shape is for a model that is not here"),
        (["--shape", "llama-3.1-8b", "--model", "qwen3-8b"], "goes with neither --model nor --measure"),
    ],
)
def test_nonsense_is_refused(octavo: Callable[..., Any], arguments: list[str], sentence: str) -> None:
    result = octavo("plan", *arguments)

    assert result.code != 0
    assert result.out == ""
    assert sentence in result.err


def test_cuda_without_a_gpu_needs_a_budget(octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "measure_gpus", list)

    assert "say how much memory it has" in octavo("plan", "--device", "cuda").err
    assert octavo("plan", "--device", "cuda", "--vram", "8GB").code == 0


def test_a_damaged_file_is_named(octavo: Callable[..., Any]) -> None:
    Path("bad.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")

    result = octavo("plan", "--model", "bad.gguf")

    assert result.code == 1
    assert "bad.gguf" in result.err
