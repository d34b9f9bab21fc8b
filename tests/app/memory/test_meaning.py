"""Memories by meaning: with the embedder where it is installed, without it where it is not, and said either way."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from octavo.app.documents import embedder as embedders
from octavo.app.memory.keeper import Keeper
from octavo.app.memory.meaning import Meaning
from octavo.app.memory.recall import recall
from octavo.engine.errors import ModelFileError
from octavo.storage.database import Database
from octavo.storage.paths import Paths

_TOPICS = ({"drink", "coffee", "tea"}, {"sail", "boat", "lake"}, {"city", "oslo"})


def _names(text: str, topics: set[str]) -> float:
    return float(any(word.startswith(topic) for topic in topics for word in text.lower().split()))


class Topics:
    """Knows what a text is about, and nothing else."""

    name = "topics"

    def reads(self, text: str) -> bool:
        return text.isascii()

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        rows = [
            [
                float(any(word.startswith(topic) for topic in known for word in text.lower().split()))
                for known in _TOPICS
            ]
            + [0.1]
            for text in texts
        ]
        made = np.array(rows, np.float32)
        return made / np.linalg.norm(made, axis=1, keepdims=True)


@pytest.fixture
def paths(octavo_home: Any) -> Paths:
    return Paths.from_environment()


@pytest.fixture
def installed(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    folder = embedders.embedder_folder(embedders.DEFAULT, paths)
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"")
    state = SimpleNamespace(loads=0, error=None)

    def load(choice: str, where: Paths) -> Topics:
        state.loads += 1
        if state.error is not None:
            raise state.error
        return Topics()

    monkeypatch.setattr(embedders, "load_embedder", load)
    return state


def words(text: str) -> int:
    return len(text.split())


def recalled(keeper: Keeper, question: str) -> list[str]:
    return [item.memory.text for item in recall(keeper.memories, question, 300, words, nearest=keeper.nearest).used]


def test_without_an_embedder_memories_are_found_by_words_alone(database: Database, paths: Paths) -> None:
    meaning = Meaning(database, paths)
    keeper = Keeper(database, nearest=meaning)
    keeper.add("I like coffee")

    assert meaning.found_by == "full text"
    assert recalled(keeper, "What do you drink at breakfast?") == []


def test_with_one_they_are_found_by_meaning_and_it_is_loaded_once(
    database: Database, paths: Paths, installed: SimpleNamespace
) -> None:
    meaning = Meaning(database, paths)
    keeper = Keeper(database, nearest=meaning)
    assert installed.loads == 0
    for text in ("I like coffee", "I like sailing", "我喜欢喝茶"):
        keeper.add(text)
    meaning.fill([memory.id for memory in keeper.memories.list()])

    assert meaning.found_by == "full text and all-MiniLM-L6-v2"
    assert recalled(keeper, "What do you drink at breakfast?") == ["I like coffee"]
    assert recalled(keeper, "Où puis-je boire un thé ?") == []
    assert installed.loads == 1


def test_a_damaged_embedder_is_done_without(database: Database, paths: Paths, installed: SimpleNamespace) -> None:
    installed.error = ModelFileError("It is damaged.")
    keeper = Keeper(database, nearest=(meaning := Meaning(database, paths)))
    keeper.add("I like coffee")
    keeper.add("I like sailing")

    assert meaning.found_by == "full text"
    assert installed.loads == 1
    assert {memory.text for memory in keeper.memories.list()} == {"I like coffee", "I like sailing"}
