"""What the hub says no to, as sentences, and where a token goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from octavo.app.errors import DownloadError
from octavo.app.models import hub
from octavo.app.models.catalogue import HubSource

REPO, FILE, DATA = "org/model", "model.gguf", b"GGUF" + bytes(1000)
SOURCE = HubSource(REPO, FILE)
TOKEN = "hf_secret"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_PAUSE_SECONDS", 0.0)


def stream(tmp_path: Path) -> bytes:
    path = tmp_path / "out"
    with path.open("ab") as out:
        hub.append_file(SOURCE, out, lambda done, total: None)
    return path.read_bytes()


def test_a_token_opens_a_private_repository_and_never_leaves_the_hub(
    fake_hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_hub.files[REPO], fake_hub.private = {FILE: DATA}, {REPO}
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert stream(tmp_path) == DATA
    sent = {method: authorization for method, _, _, authorization in fake_hub.requests}
    assert sent == {"HEAD": f"Bearer {TOKEN}", "GET": None}  # the bytes come from another host


def test_a_small_file_comes_from_the_hub_itself_with_the_token(
    fake_hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_hub.files[REPO], fake_hub.private = {"config.json": b"{}"}, {REPO}
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with (tmp_path / "out").open("ab") as out:
        hub.append_file(HubSource(REPO, "config.json"), out, lambda done, total: None)
    assert (tmp_path / "out").read_bytes() == b"{}"
    assert {request[3] for request in fake_hub.requests} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("kind", ["private", "absent"])
def test_without_a_token_absent_and_private_look_alike(fake_hub: Any, kind: str) -> None:
    if kind == "private":
        fake_hub.files[REPO], fake_hub.private = {FILE: DATA}, {REPO}
    for call in (lambda: hub.remote_file(SOURCE), lambda: hub.repository(REPO)):
        with pytest.raises(DownloadError, match=r"has no repository for org/model.*needs HF_TOKEN"):
            call()


def test_a_gated_repository_says_what_to_do(fake_hub: Any) -> None:
    fake_hub.files[REPO], fake_hub.gated = {FILE: DATA}, {REPO}
    with pytest.raises(DownloadError, match=r"is gated: accept its terms at .* and set HF_TOKEN"):
        hub.remote_file(SOURCE)


def test_a_missing_file_is_named(fake_hub: Any) -> None:
    fake_hub.files[REPO] = {FILE: DATA}
    with pytest.raises(DownloadError, match=r"has no file org/model/other\.gguf"):
        hub.remote_file(HubSource(REPO, "other.gguf"))


def test_an_error_of_the_hub_is_named_by_its_status(fake_hub: Any) -> None:
    fake_hub.failing_status = 500
    with pytest.raises(DownloadError, match=r"refused org/model/model\.gguf \(HTTP 500\)"):
        hub.remote_file(SOURCE)


def test_a_name_that_is_none_is_refused(fake_hub: Any) -> None:
    with pytest.raises(DownloadError, match="not the name of a hub repository"):
        hub.repository("org/model/extra")


def test_a_listing_has_sizes_hashes_and_the_architecture(fake_hub: Any) -> None:
    fake_hub.files[REPO] = {FILE: DATA, "README.md": b"hello"}
    fake_hub.info[REPO] = {"gguf": {"architecture": "qwen2"}}
    found = hub.repository(REPO)
    assert found.architecture == "qwen2"
    assert {file.path: file.size for file in found.files} == {FILE: len(DATA), "README.md": 5}
    digests = {file.path: file.digest for file in found.files}
    assert digests["README.md"] == "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"  # git hash-object


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_offline_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    assert hub.hub_offline() is expected
