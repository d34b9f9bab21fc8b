"""Which models fit: the arithmetic, the order and the reasons."""

from __future__ import annotations

import pytest

from octavo.app.models.catalogue import load_catalogue
from octavo.app.models.recommend import (
    MARGIN_BYTES,
    MARGIN_SHARE,
    Memory,
    Recommendation,
    headline,
    measure_memory,
    recommend,
)

CATALOGUE = load_catalogue()


def advice(memory: Memory, context: int = 8192) -> dict[str, Recommendation]:
    return {item.id: item for item in recommend(CATALOGUE, memory, ["smollm2-135m"], context=context)}


def test_a_model_needs_weights_kv_and_a_margin() -> None:
    # Qwen3-8B: 2 x 36 layers x 8 KV heads x 128 x 2 bytes = 147,456 bytes a token.
    item = advice(Memory(0, None, 10**12))["qwen3-8b"]
    assert item.kv_bytes == 147_456 * 8192
    assert item.margin_bytes == MARGIN_BYTES + round(MARGIN_SHARE * item.size)
    assert item.total_bytes == item.weights_bytes + item.kv_bytes + item.margin_bytes


@pytest.mark.parametrize("spare", [0, -1])
def test_a_model_fits_to_the_byte(spare: int) -> None:
    need = advice(Memory(0, None, 10**12))["qwen3-8b"].total_bytes
    gpu, cpu = advice(Memory(need + spare, "GPU", 0)), advice(Memory(0, None, need + spare))
    assert gpu["qwen3-8b"].runs_on == ("gpu" if spare == 0 else None)
    assert cpu["qwen3-8b"].runs_on == ("cpu" if spare == 0 else None)


def test_the_largest_on_the_gpu_comes_first_then_the_cpus_then_what_is_too_large() -> None:
    items = list(advice(Memory(8_000_000_000, "RTX", 16_000_000_000)).values())
    places = [item.runs_on for item in items]
    assert places == sorted(places, key=["gpu", "cpu", None].index)
    assert items[0].id == "qwen3-8b"
    assert items[-1].id == "qwen3-32b"
    assert items[-1].reason.endswith("there is 8.00 GB on the GPU or 16.0 GB of RAM")


def test_a_slow_model_ranks_below_a_smaller_quick_one_and_says_so() -> None:
    items = advice(Memory(0, None, 64_000_000_000))
    order = list(items)
    assert order.index("qwen3-8b") < order.index("smollm2-135m") < order.index("qwen3-32b")
    assert "slow there" in items["qwen3-32b"].reason
    assert "slow" not in items["qwen3-8b"].reason


def test_a_context_beyond_the_trained_one_is_capped_and_said() -> None:
    item = advice(Memory(0, None, 64_000_000_000), context=100_000)["smollm2-135m"]
    assert item.context == 8192
    assert item.reason.endswith("here already; trained on 8K tokens only")


def test_nothing_fits_a_tiny_machine_and_each_says_why() -> None:
    items = advice(Memory(0, None, 100_000_000))
    assert {item.runs_on for item in items.values()} == {None}
    assert all("there is 100 MB of RAM" in item.reason for item in items.values())
    assert next(iter(items)) == "smollm2-135m", "the nearest miss first"


def test_the_headline_says_what_was_measured() -> None:
    assert "no NVIDIA GPU" in headline(Memory(0, None, 10**9), 8192)
    assert "5.00 GB free on RTX" in headline(Memory(5 * 10**9, "RTX", 10**9), 8192)


def test_this_machine_is_measured() -> None:
    memory = measure_memory()
    assert memory.ram_available > 0
    assert (memory.gpu_name is None) == (memory.gpu_free == 0)
