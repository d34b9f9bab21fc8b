"""Files read in a process of their own, with limits of time and memory, one after the other."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from octavo.app.documents.chunk import Chunk
from octavo.app.documents.parsed import Limits, Outcome, Parsed
from octavo.app.documents.picture import PagePicture
from octavo.app.errors import AppError

_POLL_SECONDS = 0.1
_BLOCK = 1 << 20
_MODULE = "octavo.app.documents.worker"


class ParsingCancelledError(Exception):
    """The user stopped while a file was being read."""


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """What came of a file: `facts` as in `Parsed.facts`, and for Outcome.OK its text and chunks.

    `solid` are the stretches that are not cut when evidence is trimmed: code, JSON, tables.
    """

    outcome: Outcome
    facts: dict[str, Any]
    text: str
    pages: list[int]
    chunks: list[Chunk]
    solid: list[tuple[int, int]]


class Reader:
    """Reads files in a subprocess that is started when needed and again after it broke. Use it as a context manager."""

    def __init__(self, limits: Limits | None = None, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        self._limits = limits or Limits()
        self._is_cancelled = is_cancelled
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = bytearray()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def read(self, path: Path, *, password: str | None = None, encoding: str | None = None) -> ReadDocument:
        """Read the file at `path`; whatever happens to it is an outcome. Raises ParsingCancelledError."""
        try:
            reply, data = self._ask({"path": str(path), "password": password, "encoding": encoding})
        except AppError as error:
            return _failed(str(error))
        text = data.decode("utf-8", "surrogatepass")
        chunks = [Chunk(start, end, page, tuple(path), head) for start, end, page, path, head in reply["chunks"]]
        solid = [(start, end) for start, end in reply["solid"]]
        return ReadDocument(Outcome(reply["facts"]["outcome"]), reply["facts"], text, reply["pages"], chunks, solid)

    def render(
        self, path: Path, page: int, quotes: Sequence[tuple[str, float]], *, password: str | None = None
    ) -> PagePicture:
        """A page of the PDF at `path`, as `render_page` makes it. Raises AppError and ParsingCancelledError."""
        reply, data = self._ask({"path": str(path), "password": password, "page": page, "quotes": quotes})
        if "failed" in reply:
            raise AppError(f"There is no picture of this page. {reply['failed']}")
        return PagePicture(reply["width"], reply["height"], data, tuple(map(tuple, reply["boxes"])))

    def _ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """The reply of the process. Raises AppError where the file was too much for it, ParsingCancelledError."""
        deadline = time.monotonic() + self._limits.wall_seconds
        try:
            process = self._running()
            assert process.stdin is not None
            process.stdin.write(json.dumps(request | {"limits": asdict(self._limits)}).encode() + b"\n")
            process.stdin.flush()
            reply: dict[str, Any] = json.loads(self._take_line(deadline))
            return reply, self._take(reply["num_bytes"], deadline)
        except TimeoutError:
            self._stop()
            raise AppError(f"Reading it takes longer than {self._limits.wall_seconds:.0f} seconds.") from None
        except (EOFError, BrokenPipeError):
            code = self._stop()
            raise AppError(_why_it_ended(code, self._limits)) from None
        except BaseException:
            self._stop()
            raise

    def read_bytes(self, data: bytes, name: str, *, encoding: str | None = None) -> ReadDocument:
        """Read what came without a file, such as standard input; `name` tells the format if the bytes do not."""
        with tempfile.TemporaryDirectory(prefix="octavo-") as folder:
            path = Path(folder) / Path(name).name
            path.write_bytes(data)
            return self.read(path, encoding=encoding)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl+C is for the parent, which stops this one in its own way
            )
        return self._process

    def _stop(self) -> int | None:
        process, self._process = self._process, None
        self._pending.clear()
        if process is None:
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            code = process.wait(_POLL_SECONDS) if process.stdin.closed else process.poll()
        except subprocess.TimeoutExpired:
            code = None
        if code is None:
            try:
                code = process.wait(_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
        for stream in (process.stdin, process.stdout):
            try:
                stream.close()
            except BrokenPipeError:
                continue
        return code

    def _take_line(self, deadline: float) -> bytes:
        while b"\n" not in self._pending:
            self._fill(deadline)
        line, _, rest = self._pending.partition(b"\n")
        self._pending = bytearray(rest)
        return bytes(line)

    def _take(self, count: int, deadline: float) -> bytes:
        while len(self._pending) < count:
            self._fill(deadline)
        taken = bytes(self._pending[:count])
        del self._pending[:count]
        return taken

    def _fill(self, deadline: float) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        while not select.select([handle], [], [], _POLL_SECONDS)[0]:
            if self._is_cancelled():
                raise ParsingCancelledError
            if time.monotonic() > deadline:
                raise TimeoutError
        piece = os.read(handle, _BLOCK)
        if not piece:
            raise EOFError
        self._pending += piece


def _why_it_ended(code: int | None, limits: Limits) -> str:
    import signal

    if code == -getattr(signal, "SIGXCPU", 0):
        return f"Reading it takes more than {limits.cpu_seconds} seconds of processor time."
    return f"It broke the program that reads it (exit status {code}); the file is probably damaged."


def _failed(reason: str) -> ReadDocument:
    parsed = Parsed("", Outcome.FAILED, notes=[reason])
    return ReadDocument(Outcome.FAILED, parsed.facts() | {"injections": []}, "", [], [], [])
