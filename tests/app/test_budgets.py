"""What each tier gets: the arithmetic of `auto`, what is refused, and that the parts stay within the whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.app import budgets as module
from octavo.app.budgets import Budgets, Machine, choose_device, measure_machine, resolve_budgets, run_sizes
from octavo.app.errors import SettingsError
from octavo.app.settings import Settings, load_settings
from octavo.engine import hardware
from octavo.engine.planner import PlainSizes, kv_bytes, smallest_pool_bytes, tail_bytes, write_buffer_bytes
from octavo.engine.workspace import workspace_bytes
from octavo.storage.paths import Paths

LLAMA_8B = PlainSizes(32, 4096, 32, 8, 128, 14_336, 128_256)
WEIGHTS = 4_720_000_000
CONTEXT = 131_072
PC = Machine(gpu_free=None, gpu_name="", ram_available=60_000_000_000, disk_free=400 << 30, disk_held=0)
GAMER = replace(PC, gpu_free=12_000_000_000, gpu_name="RTX 4070")


def resolve(machine: Machine = PC, device: str = "cpu", context: int = CONTEXT, **settings: Any) -> Budgets:
    return resolve_budgets(Settings(**{"kv_codec": "bf16", **settings}), LLAMA_8B, WEIGHTS, context, device, machine)


def whole(context: int = CONTEXT, codec: str = "bf16") -> int:
    return kv_bytes(LLAMA_8B, context, codec) + tail_bytes(LLAMA_8B, codec)


def test_on_a_cpu_auto_holds_the_whole_context_and_copies_no_ram_to_ram() -> None:
    budgets = resolve()
    assert (budgets.kv_bytes, budgets.host_bytes, budgets.kv_tokens) == (whole(), 0, CONTEXT)
    assert budgets.vram == budgets.kv_bytes + budgets.workspace, "the weights are a mapped file and count apart"
    assert budgets.notes[0].startswith("vram auto: ")
    assert "hold the whole context of 131,072 tokens; the weights (4.72 GB) count apart" in budgets.notes[0]
    off = "ram auto: off, because without a GPU the pool is in RAM already"
    # 2 x 512 / 32 + 16 pages of 4 MiB
    assert budgets.notes[1] == f"{off}; 201 MB buffer what is on its way to disk."
    assert resolve(disk="off").notes[1] == f"{off}."


def test_on_a_cpu_auto_takes_four_fifths_of_what_is_left_in_whole_pages() -> None:
    budgets = resolve(replace(PC, ram_available=12_000_000_000))
    left = 12_000_000_000 - WEIGHTS - budgets.workspace - write_buffer_bytes(LLAMA_8B, "bf16")
    page = 32 * 2**17
    assert 0.8 * left - page < budgets.kv_bytes <= 0.8 * left
    assert (budgets.kv_bytes - tail_bytes(LLAMA_8B, "bf16")) % page == 0
    assert f"{budgets.kv_tokens:,} of the 131,072 tokens" in budgets.notes[0]


def test_a_context_past_the_trained_one_counts_the_bounds_of_its_pages() -> None:
    """In each of 32 layers and for each of 8 heads: two corners of 128 bytes, a step and an origin for a page, and 32
    keys of 128 channels in 2 bits; three of 128 bytes and four numbers for 16 pages; all in units of 64 bytes."""
    trained, context = 131_072, 1_000_000
    sizes = LLAMA_8B, WEIGHTS, context, "cpu", PC
    budgets = resolve_budgets(Settings(kv_codec="bf16"), *sizes, trained=trained)
    bounds = 31_250 * (33 + 16 * 8) * 64 + 1954 * 49 * 64
    assert budgets.workspace == workspace_bytes(LLAMA_8B, trained) + 32 * bounds
    assert (
        resolve_budgets(Settings(kv_codec="bf16"), LLAMA_8B, WEIGHTS, trained, "cpu", PC, trained=trained) == resolve()
    )


def test_a_cpu_without_memory_still_gets_the_smallest_engine() -> None:
    assert resolve(replace(PC, ram_available=0)).kv_bytes == smallest_pool_bytes(LLAMA_8B, "bf16")


def test_an_explicit_size_is_spent_to_the_byte() -> None:
    assert (lambda b: b.kv_bytes + b.workspace)(resolve(vram="1GiB")) == 1 << 30
    on_gpu = resolve(GAMER, "cuda", vram="6GiB")
    assert on_gpu.kv_bytes + on_gpu.workspace + WEIGHTS == on_gpu.vram == 6 << 30


def test_on_cuda_auto_leaves_a_margin() -> None:
    """The larger of 512 MiB and 8 % of what is free."""
    budgets = resolve(GAMER, "cuda")
    assert 12_000_000_000 * 0.92 - 32 * 2**17 < budgets.vram <= 12_000_000_000 * 0.92
    small = resolve(replace(GAMER, gpu_free=6_400_000_000), "cuda")
    assert 6_400_000_000 - (512 << 20) - 32 * 2**17 < small.vram <= 6_400_000_000 - (512 << 20)
    assert "of the 6.40 GB free on RTX 4070" in small.notes[0]
    assert "at least 537 MB stay free" in small.notes[0]


def test_on_cuda_auto_takes_no_more_than_the_whole_context() -> None:
    budgets = resolve(replace(GAMER, gpu_free=80 << 30), "cuda", kv_codec="k8v4")
    assert budgets.kv_bytes == whole(codec="k8v4")


def test_more_than_is_free_is_taken_at_its_word_and_said() -> None:
    budgets = resolve(GAMER, "cuda", vram="16GiB", ram="64GiB", disk="500GiB")
    assert budgets.vram == 16 << 30
    assert budgets.notes[0].endswith("; only 12.0 GB are free on RTX 4070 now.")
    assert budgets.notes[1].endswith("; only 60.0 GB are available now.")
    assert budgets.notes[2].endswith("; only 429 GB are there for it now.")


def test_on_cuda_auto_takes_half_of_the_ram_but_no_more_than_can_be_used() -> None:
    assert resolve(GAMER, "cuda").host_bytes == 30_000_000_000
    little = resolve(replace(GAMER, ram_available=500 << 30), "cuda", context=4096)
    assert little.host_bytes == 16 * kv_bytes(LLAMA_8B, 4096)
    assert "16 conversations of the whole context" in little.notes[1]


@pytest.mark.parametrize(("ram", "is_on"), [("1GiB", False), ("3GiB", True)])
def test_a_host_tier_that_is_not_larger_than_the_pool_is_off(ram: str, is_on: bool) -> None:
    budgets = resolve(vram="2GiB", ram=ram)
    assert budgets.host_bytes == (3 << 30 if is_on else 0)
    assert budgets.notes[1].startswith(f"ram {ram}: {'3.22 GB' if is_on else 'off, because 1.07 GB are not more than'}")


@pytest.mark.parametrize(
    ("free", "held", "size"),
    [(400, 0, 64), (100, 0, 25), (75, 25, 25), (8, 0, 2), (7, 0, 0), (0, 0, 0)],
)
def test_the_disk_share_counts_what_is_there_already(free: int, held: int, size: int) -> None:
    """A cap that was taken from free space alone would shrink with every start, and drop what it had kept."""
    budgets = resolve(replace(PC, disk_free=free << 30, disk_held=held << 30))
    assert budgets.disk_bytes == size << 30
    assert budgets.notes[2].startswith("disk auto: up to" if size else "disk auto: off, because a quarter of")


def test_off_is_off() -> None:
    budgets = resolve(GAMER, "cuda", ram="off", disk="off")
    assert (budgets.host_bytes, budgets.disk_bytes) == (0, 0)
    assert [note.partition(":")[0] for note in budgets.notes[1:]] == ["ram off", "disk off"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_cannot_run_is_refused_with_the_numbers(device: str, tmp_path: Path) -> None:
    run = run_sizes(Settings(), device)
    least = workspace_bytes(LLAMA_8B, CONTEXT, "bf16", run) + smallest_pool_bytes(LLAMA_8B, "bf16", run)
    least += WEIGHTS if device == "cuda" else 0

    assert resolve(GAMER, device, vram=f"{least}B").kv_tokens == 32, "one page, and no byte to spare"
    paths = Paths(*[tmp_path] * 4)
    settings = load_settings({"vram": f"{least - 1}B", "kv_codec": "bf16"}, environ={}, cwd=tmp_path, paths=paths)
    with pytest.raises(SettingsError) as caught:
        resolve_budgets(settings, LLAMA_8B, WEIGHTS, CONTEXT, device, GAMER)
    message = str(caught.value)
    assert message.startswith(f"vram in --vram is {least - 1}B, and this model needs at least ")
    assert ("4.72 GB of weights" in message) == (device == "cuda")
    assert message.count(".  ") == 0
    assert message.endswith("or choose a smaller model.")


def test_a_gpu_without_room_is_refused_with_a_way_out() -> None:
    with pytest.raises(SettingsError, match=r"^5\.00 GB are free on RTX 4070, .* run on the CPU with vram off\.$"):
        resolve(replace(GAMER, gpu_free=5_000_000_000), "cuda")


def test_vram_off_runs_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "inspect_torch", lambda: hardware.TorchBuild("2", "13.0", True))
    assert choose_device(Settings()) == "cuda"
    assert choose_device(Settings(vram="off")) == "cpu"
    with pytest.raises(SettingsError, match="device is cuda and vram is off, which means to run on the CPU"):
        choose_device(Settings(vram="off", device="cuda"))
    assert resolve(vram="off").notes[0].startswith("vram off: on the CPU: ")


def test_the_machine_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "measure_gpus", lambda: [hardware.Gpu(n, 9, f, "1") for n, f in (("A", 1), ("B", 3))])
    paths = Paths(*(tmp_path / name for name in ("config", "data", "cache", "state")))
    paths.pages_dir.mkdir(parents=True)
    (paths.pages_dir / "1.pages").write_bytes(bytes(5000))
    machine = measure_machine(paths)
    assert (machine.gpu_name, machine.gpu_free, machine.disk_held) == ("B", 3, 5000)
    assert machine.ram_available > 0
    assert machine.disk_free > 0


@given(
    vram=st.one_of(st.just("auto"), st.integers(1, 40_000).map(lambda mb: f"{mb}MB")),
    ram=st.one_of(st.just("auto"), st.just("off"), st.integers(1, 40_000).map(lambda mb: f"{mb}MB")),
    codec=st.sampled_from(["bf16", "k8v8", "k8v4", "k4v4"]),
    page_size=st.sampled_from([8, 32, 256]),
    device=st.sampled_from(["cpu", "cuda"]),
    free=st.integers(0, 40 << 30),
)
def test_the_parts_never_pass_the_whole(
    vram: str, ram: str, codec: str, page_size: int, device: str, free: int
) -> None:
    machine = replace(GAMER, gpu_free=free, ram_available=free)
    settings = Settings(vram=vram, ram=ram, kv_codec=codec, page_size=page_size)
    try:
        budgets = resolve_budgets(settings, LLAMA_8B, WEIGHTS, CONTEXT, device, machine)
    except SettingsError:
        return
    weights = WEIGHTS if device == "cuda" else 0
    assert weights + budgets.workspace + budgets.kv_bytes <= budgets.vram
    if device == "cuda" and vram == "auto":
        assert budgets.vram <= free - max(module.MARGIN_BYTES, int(free * module.MARGIN_SHARE))
    assert budgets.kv_tokens >= page_size
    assert budgets.host_bytes == 0 or budgets.host_bytes > budgets.kv_bytes
    assert all(note.endswith(".") for note in budgets.notes)
