"""What is remembered, across processes and in spite of damage."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path

import pytest

from octavo.app.errors import AppError
from octavo.app.models.files import digest_of, size_of
from octavo.app.models.registry import DownloadRecord, Registry


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "models" / "registry.json")


def test_an_empty_registry_needs_no_file(registry: Registry) -> None:
    assert registry.default is None
    assert registry.local == registry.downloads == {}
    assert not registry.path.exists()


def test_another_object_reads_what_was_written(registry: Registry, tmp_path: Path) -> None:
    registry.set_default("qwen3-8b")
    registry.add_local("mine", tmp_path / "mine.gguf")
    registry.add_download("small", DownloadRecord(tmp_path / "small.gguf", "the hub"))
    again = Registry(registry.path)
    assert again.default == "qwen3-8b"
    assert again.local == {"mine": tmp_path / "mine.gguf"}
    assert again.downloads == {"small": DownloadRecord(tmp_path / "small.gguf", "the hub")}
    assert {path.name for path in registry.path.parent.iterdir()} == {"registry.json", ".locks"}


def test_a_hash_is_known_until_the_file_changes(registry: Registry, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"one")
    assert registry.known_sha256(file) is None
    assert registry.sha256(file) == hashlib.sha256(b"one").hexdigest()
    assert registry.known_sha256(file) == hashlib.sha256(b"one").hexdigest()
    stat = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert registry.known_sha256(file) is None
    assert registry.sha256(file) == hashlib.sha256(b"two").hexdigest()
    file.unlink()
    assert registry.known_sha256(file) is None


def test_forgetting_drops_the_default_and_the_hash(registry: Registry, tmp_path: Path) -> None:
    file = tmp_path / "file.gguf"
    file.write_bytes(b"x")
    registry.add_local("mine", file)
    registry.set_default(str(file))
    registry.sha256(file)
    registry.forget("mine")
    assert json.loads(registry.path.read_text()) == {
        "version": 1,
        "default": None,
        "local": {},
        "downloads": {},
        "hashes": {},
    }
    registry.forget("mine")  # a second time changes nothing


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 99}', "\udcff"])
def test_a_damaged_file_is_named_with_what_to_do(registry: Registry, text: str) -> None:
    registry.path.parent.mkdir()
    registry.path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(AppError, match=r"registry\.json .* delete"):
        _ = registry.default


def test_changes_at_the_same_time_are_all_kept(registry: Registry, tmp_path: Path) -> None:
    def add(number: int) -> None:
        Registry(registry.path).add_local(f"m{number}", tmp_path / str(number))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(registry.local) == {f"m{number}" for number in range(8)}


def test_digests_are_those_of_sha256sum_and_git(tmp_path: Path) -> None:
    file = tmp_path / "hello"
    file.write_bytes(b"hello")
    assert digest_of(file, "0" * 40) == "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"
    assert digest_of(file, "0" * 64) == "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


def test_the_size_of_a_folder_counts_what_links_point_to(tmp_path: Path) -> None:
    (tmp_path / "folder" / "below").mkdir(parents=True)
    (tmp_path / "blob").write_bytes(bytes(100))
    (tmp_path / "folder" / "below" / "link").symlink_to(tmp_path / "blob")
    (tmp_path / "folder" / "broken").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder" / "loop").symlink_to(tmp_path / "folder")
    assert size_of(tmp_path / "folder") == 100
    assert size_of(tmp_path / "nothing") == 0
