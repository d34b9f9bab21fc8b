"""`octavo bench decode`: its figures, and what it refuses."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from octavo.app.cli import bench_decode
from octavo.engine.peer import PeerRun
from octavo.engine.teacher import forced_logits


class FakePeer:
    """Finds likely what our engine does, or the opposite."""

    opposite = False

    def __init__(self, name: str, variant: str, path: Any, context: int, threads: int) -> None:
        self.name, self.variant = name, variant
        self.instruction_sets, self.version = "NEON", "1.0"
        self.prompts: list[int] = []

    def run(self, prompt_ids: list[int], tokens: int) -> PeerRun:
        self.prompts.append(len(prompt_ids))
        return PeerRun(2.0, 20.0 if self.variant == "first" else 10.0)

    def logits(self, token_ids: list[int], first: int) -> Any:
        logits = forced_logits(ENGINES[-1], token_ids, first)
        return -logits if self.opposite else logits

    def memory(self) -> int:
        return 5_000_000

    def close(self) -> None:
        pass


ENGINES: list[Any] = []


@pytest.fixture
def fake_peer(monkeypatch: pytest.MonkeyPatch) -> type[FakePeer]:
    """Stands beside the engine of random weights, which needs no file."""
    opened = bench_decode._open_random

    def remember(flags: dict[str, Any]) -> Any:
        engine, name, path = opened("135m", 200, flags)
        ENGINES.append(engine)
        return engine, name, path

    monkeypatch.setattr(bench_decode, "_open", remember)
    monkeypatch.setattr("octavo.engine.peer.Peer", FakePeer)
    monkeypatch.setattr("octavo.engine.peer.VARIANTS", {"llama.cpp": ("first", "second")})
    monkeypatch.setattr("octavo.engine.teacher.TOLERANCE", 0.0)
    monkeypatch.setattr(FakePeer, "opposite", False)
    return FakePeer


def test_rows_say_speed_bytes_and_share(octavo: Callable[..., Any]) -> None:
    flags = ("--context", "40", "70", "--tokens", "3", "--kv-codec", "bf16")
    result = octavo("bench", "decode", "--random-weights", "135m", *flags, "--json")

    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out.splitlines()[-1])
    assert document["model"] == "random-135m"
    assert document["read_bandwidth_gb_s"] > 0
    assert [row["context"] for row in document["rows"]] == [40, 70]
    first, second = document["rows"]
    page = 30 * 2 * 3 * 32 * 64 * 2  # layers, K and V, KV heads, tokens, dimension, bytes of bfloat16
    assert second["bytes_per_token"] - first["bytes_per_token"] == page
    for row in document["rows"]:
        share = row["bytes_per_token"] * row["decode_tok_s"] / document["read_bandwidth_gb_s"] / 1e9
        assert row["bandwidth_share"] == pytest.approx(share, rel=0.05)
        assert row["memory_mb"] > 0


def test_a_peer_is_measured_by_the_better_of_its_settings(
    octavo: Callable[..., Any], fake_peer: type[FakePeer]
) -> None:
    command = ("bench", "decode", "--context", "40", "--tokens", "3", "--peer", "llama.cpp", "--runs", "2", "--json")
    result = octavo(*command)

    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out.splitlines()[-1])
    assert document["instruction_sets"]["llama.cpp"] == "NEON (1.0)"
    assert set(document["agreement"]) == {"first", "second"}
    (row,) = document["rows"]
    assert row["peer"] == {
        "name": "llama.cpp",
        "prefill_tok_s": 20.0,
        "decode_tok_s": 0.1,
        "memory_mb": 5.0,
        "settings": {
            "first": {"prefill_tok_s": 20.0, "decode_tok_s": 0.1},
            "second": {"prefill_tok_s": 20.0, "decode_tok_s": 0.1},
        },
    }
    assert row["decode_ratio"] == pytest.approx(row["decode_tok_s"] * 10, rel=0.05)


def test_a_peer_that_disagrees_is_not_timed(
    octavo: Callable[..., Any], fake_peer: type[FakePeer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_peer, "opposite", True)
    result = octavo("bench", "decode", "--context", "40", "--peer", "llama.cpp")
    assert result.code == 1
    assert "llama.cpp (first) finds other tokens likely, so its speed says nothing." in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--random-weights", "7b"), "--random-weights takes 135m, 0.5b, 1.5b, 3b, 8b, not 7b."),
        (("--random-weights", "135m", "--peer", "llama.cpp"), "--peer needs a file"),
        (("--random-weights", "135m", "--tokens", "9000"), "this model and KV budget hold 8,192"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    octavo: Callable[..., Any], arguments: tuple[str, ...], message: str
) -> None:
    result = octavo("bench", "decode", "--context", "40", *arguments)
    assert result.code == 2
    assert message in result.err
