"""`octavo bench fidelity`: what it prints, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.model


def test_every_codec_has_a_row(octavo: Callable[..., Any], small_model: Path) -> None:
    result = octavo("bench", "fidelity", "--model", str(small_model), "--tokens", "256", "--texts", "1", "--json")

    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines[2:7]] == ["bf16", "k8v8", "k8v4", "k4v4", "sparse"]
    document = json.loads(lines[-1])
    assert (document["tokens"], document["texts"], document["compute"]) == (256, 1, "float32")
    bf16, *others = document["rows"]
    assert (bf16["codec"], bf16["kl"], bf16["top1"], bf16["positions"]) == ("bf16", 0, 1, 127)
    assert [row["codec"] for row in others] == ["k8v8", "k8v4", "k4v4"]
    assert all(0 < row["kl"] < 0.02 and row["top1"] > 0.9 for row in others)
    assert all(row["perplexity"] == pytest.approx(bf16["perplexity"], rel=0.1) for row in others)


@pytest.mark.parametrize(
    ("tokens", "texts", "message"),
    [("8193", "1", "more than the 8,192 tokens of this model's context"), ("8192", "9", "more than the play has")],
)
def test_more_than_there_is_is_refused(
    octavo: Callable[..., Any], small_model: Path, tokens: str, texts: str, message: str
) -> None:
    result = octavo("bench", "fidelity", "--model", str(small_model), "--tokens", tokens, "--texts", texts)
    assert result.code == 2
    assert message in result.err
