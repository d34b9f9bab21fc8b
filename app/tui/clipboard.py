"""The clipboard of the terminal the user sits at, also through ssh and tmux: OSC 52."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Mapping

_TMUX_SECONDS = 3.0


def osc52(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """The sequence that puts `text` on the clipboard.

    Inside tmux it goes out twice: as it is, which tmux takes with `set-clipboard on`, and wrapped for the terminal
    outside, which tmux lets through with `allow-passthrough on`.
    """
    plain = f"\x1b]52;c;{base64.b64encode(text.encode('utf-8', 'replace')).decode('ascii')}\x07"
    if not environ.get("TMUX"):
        return plain
    doubled = plain.replace("\x1b", "\x1b\x1b")
    return f"{plain}\x1bPtmux;{doubled}\x1b\\"


def copy_in_tmux(text: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Hand `text` to tmux itself, which works with tmux's default options, where it ignores both sequences.

    False outside tmux, and where tmux (before 3.2, or gone) refuses.
    """
    program = shutil.which("tmux")
    if not environ.get("TMUX") or program is None:
        return False
    command = [program, "load-buffer", "-w", "-"]
    try:
        done = subprocess.run(
            command,
            input=text.encode("utf-8", "replace"),
            timeout=_TMUX_SECONDS,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
