"""The bundled questions are sound, and keyword retrieval alone finds their passages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from importlib import resources
from typing import Any

FOLDER = resources.files("octavo.assets").joinpath("retrieval")


def rows(name: str = "questions.tsv") -> list[list[str]]:
    return [line.split("\t") for line in FOLDER.joinpath(name).read_text(encoding="utf-8").splitlines()]


def test_the_set_is_what_it_is_said_to_be() -> None:
    assert len(rows()) >= 150
    assert sum(not answer for *_, answer in rows()) >= 40
    assert {name for name, *_ in rows()} == {"en", "de", "zh", "code"}
    assert len({document for _, document, *_ in rows()}) >= 12
    assert max(Counter(question for _, _, question, _ in rows()).values()) == 1
    for _, document, question, answer in [*rows(), *rows("close_questions.tsv")]:
        text = FOLDER.joinpath(document).read_text(encoding="utf-8")
        assert not answer or text.count(answer) == 1, question


def test_keywords_alone(octavo: Callable[..., Any]) -> None:
    result = octavo("bench", "retrieval", "--embedder", "off", "--half", "test", "--json")
    assert result.code == 0
    report = json.loads(result.out.splitlines()[-1])
    assert report["recall_at_5"] >= 0.92
    assert report["mrr"] >= 0.8
    assert report["citation_valid"] == 1.0
    assert report["attributed"] >= 0.95
    assert report["wrong_number_marked"] >= 0.9
    assert set(report["slices"]) == {"en", "de", "zh", "code"}
