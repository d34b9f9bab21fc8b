"""What weight formats cost: fewer bits are further away and take less memory."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from octavo.app.cli import bench_weights
from octavo.engine import weight_fidelity
from octavo.engine.weight_fidelity import WEIGHT_FORMATS, in_format, measure_weights
from octavo.engine.weights.checkpoint import open_checkpoint


@pytest.fixture
def folder(make_hf_folder: Callable[..., Path]) -> Path:
    return make_hf_folder("llama", dtype=torch.bfloat16)


def test_every_format_is_measured(folder: Path) -> None:
    checkpoint = open_checkpoint(folder, quantization="none")
    texts = torch.randint(0, 320, (2, 150), generator=torch.Generator().manual_seed(1)).tolist()
    counts: list[int] = []

    rows = measure_weights(
        checkpoint, texts, 50, WEIGHT_FORMATS, compute_dtype="float32", page_size=16, prompt_tokens=20,
        answer_tokens=3, done=counts.append,
    )  # fmt: skip

    assert [row.format for row in rows] == ["bf16", *WEIGHT_FORMATS]
    assert counts == list(range(1, len(rows) + 1))
    found = {row.format: row for row in rows}
    bf16 = found["bf16"]
    assert (bf16.kl, bf16.top1, bf16.positions) == (0.0, 1.0, 2 * 99)
    assert found["stored"].kl == pytest.approx(0, abs=1e-9), "it is stored in bfloat16"
    assert found["one by one"].perplexity == pytest.approx(bf16.perplexity, rel=1e-3)
    for finer, coarser in (("q8_0", "q5_1"), ("q5_1", "q4_1"), ("group-int8", "group-int4"), ("q8_0", "nf4")):
        assert 0 < found[finer].kl < found[coarser].kl < 0.1
        assert bf16.weight_bytes > found[finer].weight_bytes > found[coarser].weight_bytes
    assert found["group-int4"].weight_bytes > found["q4_1"].weight_bytes, "its vocabulary keeps 8 bits"
    assert all(row.ttft_ms > 0 < row.itl_ms for row in rows)


def test_an_unknown_format_is_named(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"q3_k is no weight format; there are stored, one by one"):
        in_format(open_checkpoint(folder, quantization="none"), "q3_k", "cpu")


def test_the_command_line_knows_the_formats() -> None:
    assert bench_weights.WEIGHT_FORMATS == weight_fidelity.WEIGHT_FORMATS
