"""The needle bench on a tiny model, which finds nothing, and on the small real one, which finds a needle."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KEYS = {
    "task",
    "tokens",
    "depth",
    "found",
    "total",
    "prefill_tok_s",
    "decode_tok_s",
    "pages_read",
    "pages_total",
    "device_peak_mb",
}
CONTEXT = 4096


@pytest.fixture
def tiny(tiny_gguf: Callable[..., bytes], tmp_path: Path) -> str:
    """The tiny model, as if it had been trained on 4,096 tokens; each of them is a character."""
    path = tmp_path / "tiny.gguf"
    key, number = b"llama.context_length", struct.Struct("<II").pack
    model = tiny_gguf()
    assert model.count(key + number(4, 128)) == 1
    path.write_bytes(model.replace(key + number(4, 128), key + number(4, CONTEXT)))
    return str(path)


def rows_of(result: Any) -> list[dict[str, Any]]:
    assert (result.code, result.err) == (0, "")
    rows: list[dict[str, Any]] = json.loads(result.out.splitlines()[-1])["rows"]
    return rows


def test_a_row_for_every_depth_and_one_reading_of_the_text(octavo: Callable[..., Any], tiny: str) -> None:
    result = octavo(
        "bench", "needle", "--model", tiny, "--tokens", "1500", "--tokens", "1500", "2000", "--depths", "3", "--json"
    )

    rows = rows_of(result)
    assert [(row["tokens"], row["depth"]) for row in rows] == [
        *((1500, depth) for depth in (0.1667, 0.5, 0.8333)),
        *((2000, depth) for depth in (0.1667, 0.5, 0.8333)),
    ]
    for row in rows:
        assert row.keys() >= KEYS
        assert (row["task"], row["haystack"], row["found"], row["total"]) == ("single", "sentences", 0, 1)
        assert row["pages_read"] == row["pages_total"] > row["tokens"] // 32 - 8, "dense reads every page"
        assert row["prefill_tok_s"] > 0
        assert row["decode_tok_s"] > 0
        assert row["device_peak_mb"] > 0
    first, *others = rows[:3]
    assert first["reused_tokens"] == 0
    assert all(1000 < row["reused_tokens"] < 1500 and row["reused_tokens"] % 32 == 0 for row in others)
    assert "single, sentences, 1,500 tokens: 0 of 3 found" in result.out


def test_beyond_the_dense_limit_only_some_pages_are_read(
    octavo: Callable[..., Any], tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("PREFILL_CHUNK", "128"), ("WINDOW", "128"), ("SELECTED", "256")):
        monkeypatch.setenv(f"OCTAVO_{name}", value)
    arguments = ("--tokens", "2000", "--depths", "2", "--dense-limit", "512", "--json")

    for row in rows_of(octavo("bench", "needle", "--model", tiny, *arguments)):
        assert 0 < row["pages_read"] <= 1 + (128 + 256) // 32 + 1
        assert row["pages_total"] > 50


@pytest.mark.parametrize(
    ("task", "total"),
    [("multi-key", 1), ("multi-value", 4), ("variables", 5), ("common-words", 10), ("frequent-words", 3)],
)
def test_every_task_runs(octavo: Callable[..., Any], tiny: str, task: str, total: int) -> None:
    arguments = ("--tokens", "3500", "--depths", "2", "--task", task, "--haystack", "prose", "--json")

    rows = rows_of(octavo("bench", "needle", "--model", tiny, *arguments))

    counts_words = task.endswith("words")
    assert [row["depth"] for row in rows] == ([None] if counts_words else [0.25, 0.75])
    for row in rows:
        assert (row["task"], row["haystack"], row["total"]) == (task, None if counts_words else "prose", total)
        assert len(row["expected"]) == total


def test_a_finished_text_is_not_measured_again(octavo: Callable[..., Any], tiny: str, tmp_path: Path) -> None:
    results = tmp_path / "rows.jsonl"
    arguments = ("bench", "needle", "--model", tiny, "--depths", "2", "--results", str(results), "--json")

    first = rows_of(octavo(*arguments, "--tokens", "1500"))
    again = rows_of(octavo(*arguments, "--tokens", "1500", "1600"))
    other = rows_of(octavo(*arguments, "--tokens", "1500", "--seed", "1"))

    assert again[:2] == first
    assert {row["tokens"] for row in again[2:]} == {1600}
    assert [row["expected"] for row in other] != [row["expected"] for row in first]
    assert len(results.read_text().splitlines()) == 3
    assert [path.name for path in tmp_path.glob("rows.jsonl*")] == ["rows.jsonl"], "pages went with the run"


def test_what_cannot_be_measured_is_said(octavo: Callable[..., Any], tiny: str) -> None:
    full = octavo("bench", "needle", "--model", tiny, "--tokens", "1000", "--depths", "20")
    assert full.code == 1
    assert full.err.startswith("Error: 20 needles of ")
    assert full.err.rstrip().endswith("raise --tokens or lower --depths.")

    small = octavo("bench", "needle", "--model", tiny, "--tokens", "4000", "--vram", "3MB", "--ram", "off")
    assert small.code != 0
    assert len(small.err.strip().splitlines()[-1]) < 250


@pytest.mark.model
def test_the_small_model_finds_a_needle(octavo: Callable[..., Any], small_model: Path) -> None:
    arguments = ("--tokens", "1024", "--depths", "1", "--threads", "2", "--json")

    (row,) = rows_of(octavo("bench", "needle", "--model", str(small_model), *arguments))

    assert (row["found"], row["total"], row["depth"]) == (1, 1, 0.5)
    assert row["answer"].split()[0].rstrip(".") == row["expected"][0]
