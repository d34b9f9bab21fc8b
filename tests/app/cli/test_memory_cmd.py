"""`octavo memory` as a person and a program use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Octavo = Callable[..., Any]


def read(result: Any) -> Any:
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_the_alarm_and_its_undoing(octavo: Octavo) -> None:
    added = read(octavo("memory", "add", "the user is severely allergic to caffeine", "--json"))
    checked = read(octavo("memory", "check", "the user likes coffee", "--json"))

    assert added["verdict"] == "compatible"
    assert added["memory"]
    assert {"verdict", "reason", "memory", "conflicts", "checked_by"} <= set(checked)
    assert (checked["verdict"], checked["checked_by"], checked["memory"]) == ("tension", "rules", None)
    assert [conflict["memory"] for conflict in checked["conflicts"]] == [added["memory"]]
    assert len(read(octavo("memory", "list", "--json"))) == 1

    told = octavo("memory", "add", "the user likes coffee")
    assert told.out.startswith("tension: ")
    assert "severely allergic to caffeine" in told.out
    (conflict,) = read(octavo("memory", "conflicts", "--json"))
    assert conflict["old"]["pinned"]
    assert "tension" in octavo("memory", "log").out
    assert octavo("memory", "undo").code == 0
    assert [memory["text"] for memory in read(octavo("memory", "list", "--json"))] == [
        "the user is severely allergic to caffeine"
    ]
    assert read(octavo("memory", "conflicts", "--json")) == []


def test_a_conflict_is_decided(octavo: Octavo) -> None:
    octavo("memory", "add", "I'm vegan")
    octavo("memory", "add", "I love steak")
    (conflict,) = read(octavo("memory", "conflicts", "--json"))

    assert octavo("memory", "resolve", conflict["id"], "old").code == 0
    assert [memory["text"] for memory in read(octavo("memory", "list", "--json"))] == ["I'm vegan"]
    assert octavo("memory", "resolve", "nothing", "old").code == 1


def test_what_was_forgotten_is_gone_until_it_is_said_again(octavo: Octavo) -> None:
    added = read(octavo("memory", "add", "I like sailing", "--json"))

    assert "Forgot" in octavo("memory", "forget", added["memory"], "--yes").out
    assert read(octavo("memory", "list", "--all", "--json")) == []
    assert "sailing" not in octavo("memory", "log").out
    octavo("memory", "add", "I like sailing")
    assert len(read(octavo("memory", "list", "sailing", "--json"))) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [("Do I like tea?", "a question"), ("If I lived in Rome I would eat pasta", "not stated"), ("...", "says nothing")],
)
def test_what_states_nothing_is_refused(octavo: Octavo, text: str, reason: str) -> None:
    result = octavo("memory", "add", text)

    assert result.code == 1
    assert reason in result.err


def test_export_and_import(octavo: Octavo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    octavo("memory", "add", "I'm allergic to nuts but I love peanut butter")
    file = tmp_path / "memories.json"
    assert octavo("memory", "export", "-o", str(file)).code == 0
    assert read(octavo("memory", "import", str(file), "--json")) == {"added": 0, "known": 2, "forgotten": 0}

    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "elsewhere"))
    assert read(octavo("memory", "import", str(file), "--json")) == {"added": 2, "known": 0, "forgotten": 0}
    assert len(read(octavo("memory", "conflicts", "--json"))) == 1
    assert read(octavo("memory", "check", "I like cashews", "--json"))["verdict"] == "tension"

    file.write_text("{}")
    assert "no export of memories" in octavo("memory", "import", str(file)).err


def test_an_empty_memory(octavo: Octavo) -> None:
    assert "Nothing is remembered" in octavo("memory", "list").out
    assert read(octavo("memory", "check", "I like tea", "--json"))["verdict"] == "compatible"
    assert read(octavo("memory", "log", "--json")) == []
    assert octavo("memory", "undo").code == 1
    assert "no folder" in octavo("memory", "check", "I like tea", "--nli", "nowhere").err


def test_the_log_says_what_replaced_what_and_how_it_was_found(octavo: Octavo) -> None:
    added = read(octavo("memory", "add", "I live in Oslo", "--json"))
    assert added["found_by"] == "full text"
    told = octavo("memory", "add", "I moved to Lisbon")
    assert "no sentence embedder" in told.out
    assert "“I live in Oslo” → “I moved to Lisbon”" in octavo("memory", "log").out
    (line, *_) = read(octavo("memory", "log", "--json"))
    assert (line["kind"], line["old"], line["new"]) == ("update", "I live in Oslo", "I moved to Lisbon")


def test_the_list_says_in_words_when_something_holds(octavo: Octavo) -> None:
    for text in ("I like tea", "I live in Oslo since May 2026", "I'm vegan until 2026-12-24", "I'm allergic to nuts"):
        last = octavo("memory", "add", text).out.splitlines()[-1]
        assert last == "Remembered. `octavo memory undo` takes it back."
    out = octavo("memory", "list").out
    assert "…" not in out
    assert " None" not in out
    head, *rows = out.splitlines()
    assert head.split() == ["ID", "SAID", "HOLDS", "WEIGHT", "MEMORY"]
    column = head.index("HOLDS")
    held = {row[head.index("MEMORY") :]: row[column:].split("  ")[0].strip() for row in rows}
    assert held["I like tea"] == ""
    assert held["I live in Oslo since May 2026"] == "since 2026-05-01"


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("I like tea", "I like tea", "Remembered already"),
        ("I live in Oslo", "I moved to Lisbon", "Remembered, in place of what it replaces."),
        ("I'm vegan", "I love steak", "Both are remembered; `octavo memory conflicts`"),
    ],
)
def test_adding_says_what_became_of_it(octavo: Octavo, first: str, second: str, said: str) -> None:
    octavo("memory", "add", first)
    assert octavo("memory", "add", second).out.splitlines()[-1].startswith(said)
