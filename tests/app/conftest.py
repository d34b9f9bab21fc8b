"""A small hub on loopback, a package index in a folder, and a tiny model file that the engine accepts."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import gguf
import numpy as np
import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_secret"


class FakeHub:
    """Serves `files` (repo -> path -> bytes) as the hub does: HEAD with hash and size, GET from another host.

    `requests` records (method, path, Range header, Authorization header) in order. `cut_after` ends the next
    response after that many bytes; `ignore_range` answers 200 to a range; `wrong_bytes` delivers other bytes
    than the published hash says.
    """

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.info: dict[str, dict[str, Any]] = {}
        self.gated: set[str] = set()
        self.private: set[str] = set()
        self.requests: list[tuple[str, str, str | None, str | None]] = []
        self.cut_after: list[int] = []
        self.ignore_range = False
        self.wrong_bytes = False
        self.failing_status: int | None = None
        self.hub = self._serve(_HubHandler)
        self.cdn = self._serve(_CdnHandler)

    def _serve(self, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        server.fake = self  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.hub.server_port}"

    @property
    def cdn_url(self) -> str:
        return f"http://localhost:{self.cdn.server_port}"

    def close(self) -> None:
        for server in (self.hub, self.cdn):
            server.shutdown()
            server.server_close()

    def downloads(self) -> list[tuple[str, str, str | None, str | None]]:
        """The requests that asked for bytes of files."""
        return [request for request in self.requests if request[0] == "GET" and "/api/" not in request[1]]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def fake(self) -> FakeHub:
        return self.server.fake  # type: ignore[attr-defined, no-any-return]

    def log_message(self, *args: object) -> None:
        pass

    def record(self) -> str:
        path = unquote(urlsplit(self.path).path)
        headers = (self.headers.get("Range"), self.headers.get("Authorization"))
        self.fake.requests.append((self.command, path, *headers))
        return path

    def answer(self, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_file(self, data: bytes) -> None:
        """The bytes, or the range asked for; ended early if a cut is due."""
        start, status = 0, 200
        asked = self.headers.get("Range")
        if asked and not self.fake.ignore_range:
            start, status = int(asked.removeprefix("bytes=").removesuffix("-")), 206
        body = data[start:]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.fake.cut_after:
            self.wfile.write(body[: self.fake.cut_after.pop(0)])
            self.close_connection = True
            return
        self.wfile.write(body)


class _HubHandler(_Handler):
    def do_HEAD(self) -> None:
        self.resolve(self.record())

    def do_GET(self) -> None:
        path = self.record()
        if path.startswith("/api/models/"):
            self.list_repository(path.removeprefix("/api/models/").split("/revision/")[0])
        else:
            self.resolve(path)

    def permitted(self, repo: str) -> bool:
        known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        code = "GatedRepo" if repo in self.fake.gated else "RepoNotFound"
        if repo not in self.fake.files or (repo in self.fake.gated | self.fake.private and not known):
            self.answer(403 if code == "GatedRepo" else 401 if not known else 404, {"X-Error-Code": code})
            return False
        return True

    def resolve(self, path: str) -> None:
        if self.fake.failing_status is not None:
            self.answer(self.fake.failing_status)
            return
        repo, _, rest = path.lstrip("/").partition("/resolve/")
        if not self.permitted(repo):
            return
        name = rest.partition("/")[2]
        if name not in self.fake.files[repo]:
            self.answer(404, {"X-Error-Code": "EntryNotFound"})
            return
        data = self.fake.files[repo][name]
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{git_id(data)}"'}
        if name.endswith((".gguf", ".safetensors")):
            linked = {"X-Linked-ETag": f'"{sha256(data)}"', "X-Linked-Size": str(len(data))}
            location = {"Location": f"{self.fake.cdn_url}/{repo}/{name}"}
            self.answer(302, headers | linked | location)
        elif self.command == "HEAD":
            self.send_response(200)
            for key, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(key, value)
            self.end_headers()
        else:
            self.send_file(data)

    def list_repository(self, repo: str) -> None:
        if not self.permitted(repo):
            return
        siblings = []
        for name, data in self.fake.files[repo].items():
            item: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": git_id(data)}
            if name.endswith((".gguf", ".safetensors")):
                item["lfs"] = {"size": len(data), "sha256": sha256(data), "pointerSize": 130}
            siblings.append(item)
        document = {"id": repo, "sha": COMMIT, "siblings": siblings, **self.fake.info.get(repo, {})}
        self.answer(200, {"Content-Type": "application/json"}, json.dumps(document).encode())


class _CdnHandler(_Handler):
    def do_GET(self) -> None:
        org, name, file = self.record().lstrip("/").split("/", 2)
        data = self.fake.files[f"{org}/{name}"][file]
        self.send_file(bytes(len(data)) if self.fake.wrong_bytes else data)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def git_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@pytest.fixture
def fake_hub(octavo_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A running hub that HF_ENDPOINT points at; no token is set."""
    hub = FakeHub()
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    for name in ("HUGGING_FACE_HUB_TOKEN", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield hub
    hub.close()


@pytest.fixture
def no_hub(octavo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that refuses every connection."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


@pytest.fixture
def make_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """make_wheel(name, version, members) -> the wheel's path, in a folder that is pip's only index."""
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))

    def make(name: str, version: str, members: Mapping[str, bytes]) -> Path:
        plain = name.replace("-", "_")
        info = f"{plain}-{version}.dist-info"
        path = index / f"{plain}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, data in members.items():
                archive.writestr(member, data)
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            archive.writestr(f"{info}/WHEEL", tags)
            archive.writestr(f"{info}/RECORD", "")
        return path

    return make


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    """tiny_gguf(architecture="llama", seed=0) -> the bytes of a one-layer model that the engine accepts."""
    folder = tmp_path_factory.mktemp("tiny")

    def make(architecture: str = "llama", seed: int = 0) -> bytes:
        path = folder / f"{architecture}-{seed}.gguf"
        _write_gguf(path, architecture, seed)
        return path.read_bytes()

    return make


def _write_gguf(path: Path, architecture: str, seed: int) -> None:
    alphabet = [chr(code) for code in [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)]]
    tokens = ["<|endoftext|>", *alphabet, "ab"]
    hidden, heads, inner = 32, 2, 64
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, *[1] * (len(tokens) - 1)])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(0)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")
    rng = np.random.default_rng(seed)
    shapes = {"token_embd": (len(tokens), hidden), "output_norm": (hidden,)}
    shapes |= {f"blk.0.{name}_norm": (hidden,) for name in ("attn", "ffn")}
    shapes |= {f"blk.0.attn_{name}": (hidden, hidden) for name in ("q", "k", "v", "output")}
    shapes |= {f"blk.0.ffn_{name}": (inner, hidden) for name in ("gate", "up")}
    shapes["blk.0.ffn_down"] = (hidden, inner)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.standard_normal(shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
