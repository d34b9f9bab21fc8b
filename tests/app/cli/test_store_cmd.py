from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from octavo.storage.pages import open_store
from octavo.storage.paths import Paths

ROOT = hashlib.sha256(b"a model").digest()
PAGE_BYTES = 2 * 4096


@dataclass(frozen=True)
class Page:
    identity: bytes
    data: bytes
    parent: bytes = ROOT
    token_ids: tuple[int, ...] = (1, 2, 3, 4)
    owner: str = "a conversation"
    origin: str = "prefill"


@pytest.fixture
def folder(octavo_home: Path) -> Path:
    """A page store with five pages, the third of them damaged."""
    folder = Paths.from_environment().pages_dir
    pages = [Page(hashlib.sha256(bytes([number])).digest(), bytes([number]) * 256) for number in range(5)]
    with open_store(folder, 16 << 20) as store:
        space = store.open_space(ROOT, {}, 2, 128, 4)
        assert space.write(pages) == [None] * 5
    with (folder / "00000001.pages").open("r+b") as file:
        file.seek(2 * PAGE_BYTES + 4096)
        file.write(b"\xff")
    return folder


@pytest.mark.parametrize("name", ["stat", "verify", "gc", "clear"])
def test_without_a_store_there_is_nothing_to_do(octavo: Callable[..., Any], octavo_home: Path, name: str) -> None:
    result = octavo("store", name)

    assert (result.code, result.out, result.err) == (0, "There is no page store yet.\n", "")
    assert json.loads(octavo("store", name, "--json").out) is not None
    assert not Paths.from_environment().pages_dir.exists()


def test_stat_says_what_is_there(octavo: Callable[..., Any], folder: Path) -> None:
    out = octavo("store", "stat").out

    assert "pages      5, 41.0 kB, in 1 segments\n" in out
    assert "limit 16.8 MB" in out
    document = json.loads(octavo("store", "stat", "--json").out)
    assert document["num_pages"] == 5
    assert document["cap"] == 16 << 20
    assert document["bytes_written_lifetime"] == 5 * PAGE_BYTES
    files = (path for path in folder.iterdir() if path.is_file() and path.suffix != ".lock")
    assert document["bytes_on_disk"] == sum(path.stat().st_size for path in files)


def test_verify_tells_damage_and_gc_removes_it(octavo: Callable[..., Any], folder: Path) -> None:
    result = octavo("store", "verify", "--json")
    assert result.code == 1
    document = json.loads(result.out)
    assert (document["num_pages"], document["num_bytes"], document["clean"]) == (5, 5 * PAGE_BYTES, False)
    (problem,) = document["problems"]
    assert problem.endswith("in segment 1, unit 4: a layer is damaged.")
    assert "5 pages, 41.0 kB; 1 problem found.\n" in octavo("store", "verify").out

    assert json.loads(octavo("store", "gc", "--json").out) == {"damaged": 1, "freed": 0}

    result = octavo("store", "verify")
    assert (result.code, result.out) == (0, "4 pages, 32.8 kB; clean.\n")


def test_clear_asks_and_removes_everything(octavo: Callable[..., Any], folder: Path) -> None:
    result = octavo("store", "clear", "--yes", "--json")

    assert result.code == 0
    assert json.loads(result.out)["freed"] >= 2 << 20
    assert json.loads(octavo("store", "stat", "--json").out)["num_pages"] == 0
    assert not list(folder.glob("*.pages"))


def test_a_store_in_use_is_checked_but_not_changed(octavo: Callable[..., Any], folder: Path) -> None:
    with open_store(folder, 16 << 20):
        assert octavo("store", "verify").code == 1
        for arguments in (["gc"], ["clear", "--yes"]):
            result = octavo("store", *arguments)
            assert result.code == 1
            assert result.err == f"Error: Another process writes the page store {folder}; this one only reads it.\n"
        assert json.loads(octavo("store", "stat", "--json").out)["num_pages"] == 5


def test_the_bench_compares_with_the_bare_disk(octavo: Callable[..., Any], tmp_path: Path) -> None:
    result = octavo("bench", "store", "--folder", str(tmp_path), "--megabytes", "16", "--rounds", "1", "--json")

    assert result.code == 0, result.err
    document = json.loads(result.out.splitlines()[-1])
    kinds = ("write", "read", "random_read")
    ratios = [document[f"{kind}_mb_s"] / document[f"raw_{kind}_mb_s"] for kind in kinds]
    assert document["ratio"] == pytest.approx(min(ratios), abs=1e-3)
    assert list(tmp_path.glob("bench-store-*")) == []
