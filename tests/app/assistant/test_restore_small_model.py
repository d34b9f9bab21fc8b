"""The page store behind an assistant: what one has read the next one finds, and nothing depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from octavo.app.assistant.assistant import Answer, Assistant, load_assistant
from octavo.app.assistant.forgetting import forget
from octavo.app.settings import Settings
from octavo.engine.config import GenerationPolicy
from octavo.engine.tokenizer import Message
from octavo.storage.paths import Paths

pytestmark = pytest.mark.model

QUESTION = [Message("user", "Which of these is a fruit? " + " ".join(f"word{number}" for number in range(40)))]
POLICY = GenerationPolicy(temperature=0.0, max_tokens=8)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(*(tmp_path / name for name in ("config", "data", "cache", "state")))


@contextmanager
def loaded(model: Path, paths: Paths, **settings: Any) -> Iterator[Assistant]:
    chosen = Settings(**{"vram": "96MiB", "disk": "64MiB", **settings})
    with closing(load_assistant(model, chosen, paths, fingerprint="small")) as assistant:
        yield assistant


def ask(assistant: Assistant) -> Answer:
    *_, answer = assistant.answer(QUESTION, POLICY, owner="mine")
    assert isinstance(answer, Answer)
    assert answer.error is None
    return answer


def test_what_one_read_the_next_one_finds(small_model: Path, paths: Paths) -> None:
    with loaded(small_model, paths) as first:
        cold = ask(first)
        again = ask(first)
    with loaded(small_model, paths) as second:
        warm = ask(second)
        assert second.take_problems() == []
    pages = cold.metrics.prompt_tokens // 32 * 32
    assert cold.record()["usage"]["reused_from"] == {"device": 0, "host": 0, "disk": 0}
    assert again.record()["usage"]["reused_from"] == {"device": pages, "host": 0, "disk": 0}
    assert warm.record()["usage"]["reused_from"] == {"device": 0, "host": 0, "disk": pages}
    assert warm.record()["usage"]["computed_tokens"] == warm.metrics.prompt_tokens - pages
    assert again.token_ids == warm.token_ids  # of cold the end was computed along with the rest: other rounding


def test_beside_one_that_writes_another_reads(small_model: Path, paths: Paths) -> None:
    with loaded(small_model, paths) as first:
        ask(first)
        first.engine.cache.tiers.drain()
        with loaded(small_model, paths) as second:
            assert ask(second).metrics.reused_disk > 0
        assert ask(first).metrics.reused_device > 0


def test_off_writes_nothing(small_model: Path, paths: Paths) -> None:
    with loaded(small_model, paths, disk="off") as assistant:
        ask(assistant)
    assert not paths.cache.exists()


def test_a_folder_that_cannot_be_used_is_done_without_and_told_once(small_model: Path, paths: Paths) -> None:
    paths.cache.mkdir()
    paths.pages_dir.write_text("a file")
    with loaded(small_model, paths) as assistant:
        ask(assistant)
        (problem,) = assistant.take_problems()
        assert problem.startswith("Nothing is kept on disk for the next start: ")
        assert str(paths.pages_dir) in problem
        assert assistant.take_problems() == []


def test_what_is_forgotten_is_read_again_now_and_after_a_restart(small_model: Path, paths: Paths) -> None:
    with loaded(small_model, paths) as first:
        pages = ask(first).metrics.prompt_tokens // 32
        used = first.engine.cache.used_bytes
        result = forget(paths, "mine", first)
        assert (result.problem, first.engine.cache.used_bytes) == ("", 0)
        assert result.disk >= used > 0, "a page on disk has a header"
        assert result.memory >= used == pages * first.engine.cache.page_bytes
        assert ask(first).metrics.reused_tokens == 0
        forget(paths, "mine", first)
    with loaded(small_model, paths) as second:
        assert ask(second).metrics.reused_tokens == 0


def test_with_disk_off_now_what_was_kept_before_is_forgotten(small_model: Path, paths: Paths) -> None:
    with loaded(small_model, paths) as first:
        ask(first)
    with loaded(small_model, paths, disk="off") as second:
        ask(second)
        assert forget(paths, "mine", second).disk > 0
    with loaded(small_model, paths) as third:
        assert ask(third).metrics.reused_tokens == 0
