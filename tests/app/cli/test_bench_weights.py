"""`octavo bench fidelity --weights` and `octavo bench startup` on the small real model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.app.cli import bench_startup

pytestmark = pytest.mark.model


def test_weight_formats_have_rows(octavo: Callable[..., Any], small_model: Path) -> None:
    result = octavo(
        "bench", "fidelity", "--model", str(small_model), "--weights", "--tokens", "128", "--format", "stored",
        "--format", "q4_0", "--json",
    )  # fmt: skip

    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out.splitlines()[-1])
    bf16, stored, q4_0 = document["rows"]
    assert [row["format"] for row in document["rows"]] == ["bf16", "stored", "q4_0"]
    assert stored["kl"] < 0.001 < q4_0["kl"] < 1, "bf16 is what the file holds, rounded"
    assert bf16["weight_bytes"] > 2 * stored["weight_bytes"]
    assert min(row["ttft_ms"] for row in document["rows"]) > 0


def test_the_first_token_is_waited_for(small_model: Path, octavo_home: Path) -> None:
    found = bench_startup.first_token_seconds(1, str(small_model))
    assert 0 < found["import_s"] < found["import_s"] + found["load_s"] < found["first_token_s"]
    # The weights once; the rest are libraries, the tokenizer, and the KV pool that was touched.
    assert found["weights_mb"] < found["first_token_mb"] < 2 * found["weights_mb"]


def test_a_model_that_is_not_here_is_not_waited_for(octavo_home: Path) -> None:
    assert not bench_startup.is_model_here("qwen2.5-coder-0.5b")
