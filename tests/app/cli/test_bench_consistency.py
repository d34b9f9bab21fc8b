"""`octavo bench consistency` and `summary`: what they print, on small sets and without a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from octavo.app.cli.bench_summary import _conversation
from octavo.app.memory import generated, replay
from octavo.app.memory.summary import render, summarise


def test_the_document(octavo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    few, stories = generated.generate(5, per_verdict=6), replay.stories(5)[:2]
    monkeypatch.setattr(generated, "generate", lambda seed: few)
    monkeypatch.setattr(replay, "stories", lambda seed: stories)
    monkeypatch.setattr("octavo.app.cli.bench_consistency._CHECKS", 6)
    monkeypatch.setattr("octavo.app.cli.bench_consistency._FACTS", 10)

    result = octavo("bench", "consistency", "--json")

    assert result.code == 0, result.err
    document = json.loads(result.out.splitlines()[-1])
    assert document["nli"] is None
    assert {"false_supersede", "conflict_recall", "verdicts", "check_ms_p95", "check_cpu_ms_p95"} <= set(
        document["rules"]
    )
    assert set(document["rules"]["verdicts"]) == {"duplicate", "update", "contradiction", "tension", "compatible"}
    assert document["rules"]["sets"]["generated"]["pairs"] == len(few)
    assert document["replay"] == {
        "stories": 2,
        "uptake": 1.0,
        "non_resurrection": 1.0,
        "collateral": 0,
        "false_apply": 0.0,
    }


def test_the_block_of_the_summary_bench_keeps_every_fact() -> None:
    messages, questions = _conversation()
    block = render([summarise(messages)], 512, lambda text: len(text.split()))

    assert all(fact.casefold() in block.casefold() for _, fact in questions)
    assert len(block.split()) < 0.4 * sum(len(message.text.split()) for message in messages)
