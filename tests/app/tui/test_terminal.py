"""The real program in a pseudo-terminal: its start, its signals, and what it leaves behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

import pytest

ENTER_ALTERNATE, LEAVE_ALTERNATE = b"\x1b[?1049h", b"\x1b[?1049l"
LONGEST = 20.0


class Terminal:
    """`octavo` in a pseudo-terminal of 100 by 30."""

    def __init__(self, home: Path) -> None:
        self.seen = b""
        environment = {
            **os.environ,
            "OCTAVO_HOME": str(home),
            "TERM": "xterm-256color",
            "HF_ENDPOINT": "http://127.0.0.1:9",
        }
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(sys.executable, [sys.executable, "-m", "octavo.app"], environment)  # noqa: S606
            finally:
                os._exit(127)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))

    def read_until(self, mark: bytes) -> None:
        ends = time.monotonic() + LONGEST
        while mark not in self.seen:
            assert time.monotonic() < ends, f"{mark!r} never came: {self.seen[-500:]!r}"
            self._read(0.1)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.fd], [], [], seconds)
        try:
            chunk = os.read(self.fd, 65_536) if ready else b""
        except OSError:
            return False
        self.seen += chunk
        return bool(chunk)

    def wait(self) -> int:
        """The exit code, once everything written was read."""
        ends = time.monotonic() + LONGEST
        while time.monotonic() < ends:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                while self._read(0.1):
                    pass
                return os.waitstatus_to_exitcode(status)
            self._read(0.05)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("the program did not end")

    def is_raw(self) -> bool:
        return not termios.tcgetattr(self.fd)[3] & termios.ICANON


@pytest.fixture
def terminal(octavo_home):
    terminal = Terminal(octavo_home)
    yield terminal
    with contextlib.suppress(ProcessLookupError, ChildProcessError):  # what a failed test left running
        if os.waitpid(terminal.pid, os.WNOHANG) == (0, 0):
            os.kill(terminal.pid, signal.SIGKILL)
            os.waitpid(terminal.pid, 0)
    os.close(terminal.fd)


def test_sigterm_leaves_the_terminal_usable(terminal):
    terminal.read_until(b"Ask anything")
    assert terminal.is_raw()
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.wait() == 128 + signal.SIGTERM
    assert terminal.seen.count(LEAVE_ALTERNATE) == terminal.seen.count(ENTER_ALTERNATE) == 1
    assert b"\x1b[?25h" in terminal.seen.split(LEAVE_ALTERNATE)[0] + terminal.seen.split(LEAVE_ALTERNATE)[1]


def test_sigtstp_gives_the_terminal_back_and_fg_paints_again(terminal):
    terminal.read_until(b"Welcome")
    os.kill(terminal.pid, signal.SIGTSTP)
    terminal.read_until(LEAVE_ALTERNATE)
    _, status = os.waitpid(terminal.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert not terminal.is_raw()
    terminal.seen = b""
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.read_until(ENTER_ALTERNATE)
    for everywhere in (b"Commands ^P", b"Later (Esc)", b"pages/s", b"qwen2.5-coder-0.5b"):
        terminal.read_until(everywhere)
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.wait() == 128 + signal.SIGTERM


def test_a_second_octavo_is_told_and_the_first_goes_on(terminal, octavo_home):
    terminal.read_until(b"Welcome")
    second = Terminal(octavo_home)
    assert second.wait() == 1
    os.close(second.fd)
    assert b"already open in another process" in second.seen.replace(b"\r\n", b" ")
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.wait()


def test_the_start_is_measured(octavo):
    result = octavo("bench", "startup", "--runs", "1", "--json")
    assert result.code == 0
    assert 0.05 < json.loads(result.out.splitlines()[-1])["first_frame_s"] < LONGEST


def test_without_a_terminal_it_says_what_to_do(octavo):
    for arguments in ((), ("chat",)):
        result = octavo(*arguments)
        assert result.code != 0
        assert "octavo ask" in result.err
