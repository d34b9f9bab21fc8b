"""Forgetting a conversation, with a real page store: what goes, what stays, and what is left to be done."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.app.assistant.assistant import Assistant
from octavo.app.assistant.forgetting import Forgotten, delete_conversation, forget, host_bytes, noted
from octavo.storage.conversations import Conversations
from octavo.storage.errors import StorageError
from octavo.storage.pages import PageStoreBusyError, open_store
from octavo.storage.paths import Paths

ROOT = hashlib.sha256(b"a model").digest()
PAGE_BYTES = 2 * 4096  # a header, and two layers side by side, in units of the disk


@dataclass(frozen=True)
class Page:
    identity: bytes
    data: bytes
    owner: str
    parent: bytes = ROOT
    token_ids: tuple[int, ...] = (1, 2, 3, 4)
    origin: str = "prefill"


@pytest.fixture
def paths(octavo_home: Path) -> Paths:
    return Paths.from_environment()


@pytest.fixture
def conversation_id(conversations: Conversations) -> str:
    return conversations.create("About fish").id


@pytest.fixture
def kept(paths: Paths, conversation_id: str) -> str:
    """A store in which the conversation has three pages, one of them together with another."""
    pages = [
        Page(hashlib.sha256(bytes([number])).digest(), bytes([number]) * 256, owner)
        for number, owner in enumerate([conversation_id] * 3 + ["other"])
    ]
    with open_store(paths.pages_dir, 16 << 20) as store:
        space = store.open_space(ROOT, {}, 2, 128, 4)
        assert space.write(pages) == [None] * 4
        space.add_owner([pages[2].identity], "other")
    return conversation_id


def num_pages(paths: Paths) -> int:
    with open_store(paths.pages_dir, None, write=False) as store:
        return store.stats().num_pages


@pytest.fixture
def other_process(paths: Paths, kept: str) -> Iterator[Any]:
    """Somebody who writes the store; a lock of this process counts like one of another."""
    with open_store(paths.pages_dir, None) as store:
        yield store


def test_what_only_the_conversation_owns_goes(paths: Paths, kept: str, conversations: Conversations) -> None:
    delete_conversation(conversations, paths, kept)
    assert noted(paths) == [kept]
    result = forget(paths, kept)
    assert result == Forgotten(disk=2 * PAGE_BYTES)
    assert result.freed() == "16.4 kB on disk"
    assert (num_pages(paths), noted(paths)) == (2, [])
    assert conversations.list() == []


def test_without_a_store_none_is_made(paths: Paths, conversation_id: str, conversations: Conversations) -> None:
    delete_conversation(conversations, paths, conversation_id)
    assert forget(paths, conversation_id) == Forgotten()
    assert not paths.pages_dir.exists()


def test_a_note_is_private_and_survives_until_the_store_is_free(
    paths: Paths, kept: str, conversations: Conversations, other_process: Any
) -> None:
    delete_conversation(conversations, paths, kept)
    result = forget(paths, kept)
    assert (result.disk, result.freed()) == (0, "")
    assert result.problem == (
        f"Pages of what was deleted are still on disk and go when `octavo` starts next: "
        f"Another process writes the page store {paths.pages_dir}; this one only reads it."
    )
    (note,) = (paths.pages_dir / "forget").iterdir()
    assert (note.stat().st_mode & 0o777, note.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    other_process.close()
    assert forget(paths, *noted(paths)) == Forgotten(disk=2 * PAGE_BYTES)
    assert noted(paths) == []


def test_a_note_that_cannot_be_written_keeps_nothing_from_being_deleted(
    paths: Paths, kept: str, conversations: Conversations, other_process: Any
) -> None:
    (paths.pages_dir / "forget").write_text("in the way")
    delete_conversation(conversations, paths, kept)
    assert "stay there until `octavo store clear`: Another process" in forget(paths, kept).problem


def test_a_conversation_that_is_not_deleted_keeps_its_messages(paths: Paths, conversations: Conversations) -> None:
    with pytest.raises(StorageError):
        delete_conversation(conversations, paths, "unknown")


def test_a_loaded_engine_drops_its_pages_and_those_on_its_disk(
    paths: Paths, kept: str, assistant: Assistant, engine: Any
) -> None:
    assistant.store = SimpleNamespace(close=lambda: None)  # type: ignore[assignment]
    result = forget(paths, kept, assistant)
    assert engine.forgotten == [kept]
    assert result == Forgotten(disk=5000, memory=400)
    assert result.freed() == "5.00 kB on disk and 400 B in memory"
    assert num_pages(paths) == 4, "the engine has a store; nobody else opens it"


def test_with_disk_off_the_pages_of_earlier_runs_go_too(
    paths: Paths, kept: str, assistant: Assistant, engine: Any
) -> None:
    assert assistant.store is None
    assert forget(paths, kept, assistant) == Forgotten(disk=2 * PAGE_BYTES, memory=400)
    assert engine.forgotten == [kept]
    assert num_pages(paths) == 2


def test_an_engine_that_only_reads_the_store_lets_the_disk_be_tried_anyway(
    paths: Paths, kept: str, assistant: Assistant, engine: Any
) -> None:
    assistant.store = SimpleNamespace(close=lambda: None)  # type: ignore[assignment]
    engine.forget_error = PageStoreBusyError("open for reading only")
    assert forget(paths, kept, assistant) == Forgotten(disk=2 * PAGE_BYTES, memory=400)
    assert num_pages(paths) == 2


def test_whatever_goes_wrong_is_a_sentence_and_stays_noted(
    paths: Paths, kept: str, assistant: Assistant, engine: Any, conversations: Conversations
) -> None:
    delete_conversation(conversations, paths, kept)
    engine.forget_error = AssertionError("a page was lost count of")
    result = forget(paths, kept, assistant)
    assert replace(result, problem="") == Forgotten(memory=400)
    assert result.problem.endswith("starts next: AssertionError: a page was lost count of")
    assert noted(paths) == [kept]


def test_the_host_tier_counts_rows_with_pages() -> None:
    host = SimpleNamespace(num_rows=8, num_free=5, nbytes=8 * 100)
    assert host_bytes(SimpleNamespace(tiers=SimpleNamespace(host=host))) == (300, 800)  # type: ignore[arg-type]
