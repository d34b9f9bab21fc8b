"""Another engine, measured beside ours on the same tokens, in a process of its own.

The process is a module of this package (peer_llama, peer_transformers) that answers one JSON object a line. Figures of
memory are then its own, and what it keeps its threads doing between two requests is over soon.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np
from numpy.typing import NDArray

from octavo.engine.errors import EngineError
from octavo.engine.hardware import forget_peak, peak_resident_bytes, resident_bytes

PeerName = Literal["llama.cpp", "transformers"]
MODULES: dict[PeerName, tuple[str, str]] = {
    "llama.cpp": ("octavo.engine.peer_llama", "llama-cpp-python"),
    "transformers": ("octavo.engine.peer_transformers", "transformers"),
}
VARIANTS: dict[PeerName, tuple[str, str]] = {
    "llama.cpp": ("flash attention", "no flash attention"),
    "transformers": ("bfloat16", "float32"),
}
"""The settings to try of each."""


@dataclass(frozen=True, slots=True)
class PeerRun:
    """Seconds that prefilling a prompt took, and the median of those between decoded tokens."""

    prefill_s: float
    decode_s: float


class Peer:
    """One engine with one choice of its settings; `variant` names it.

    Raises EngineError where the package is missing or the process fails, at any call.
    """

    def __init__(self, name: PeerName, variant: str, path: Path, context: int, threads: int) -> None:
        self.name, self.variant = name, variant
        module, self._package = MODULES[name]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        try:
            loaded = self._ask(op="load", path=str(path), context=context, threads=threads, variant=variant)
        except BaseException:
            self.close()
            raise
        self.instruction_sets: str = loaded["instruction_sets"]
        self.version: str = loaded["version"]

    def run(self, prompt_ids: Sequence[int], tokens: int) -> PeerRun:
        """Prefill a prompt, then decode `tokens` tokens, greedily."""
        answer = self._ask(op="run", prompt_ids=list(prompt_ids), tokens=tokens)
        return PeerRun(answer["prefill_s"], answer["decode_s"])

    def logits(self, token_ids: Sequence[int], first: int) -> NDArray[np.float32]:
        """float32 [len(token_ids) - first, vocab_size]: after each token from `first` on, decoded one by one."""
        with tempfile.TemporaryDirectory(prefix="octavo-peer-") as folder:
            path = Path(folder) / "logits.npy"
            self._ask(op="logits", token_ids=list(token_ids), first=first, path=str(path))
            logits: NDArray[np.float32] = np.load(path)
        return logits

    def memory(self) -> int:
        """The most bytes of RAM that the process has held, beyond those of the bare libraries."""
        return int(self._ask(op="memory")["bytes"])

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it ended before it had read everything
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise EngineError(f"The process of {self.name} ended at {request['op']}; what it said stands above.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            hint = f"; pip install {self._package}" if answer.get("missing") else ""
            raise EngineError(f"{self.name} cannot be measured: {answer['error']}{hint}.")
        return answer


def serve(handlers: dict[str, Callable[..., dict[str, Any]]]) -> None:
    """The other side of `Peer`: answer requests by name until there are no more."""
    replies = _own_output()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = handlers[request.pop("op")](**request)
        except ImportError as error:
            answer = {"error": str(error), "missing": True}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(answer) + "\n")
        replies.flush()


def _own_output() -> TextIO:
    """Standard output, from which whatever libraries print is led away to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return replies


class Memory:
    """What a process holds beyond what it held when this was made."""

    def __init__(self) -> None:
        forget_peak()
        self._before = resident_bytes()

    def peak(self) -> dict[str, int]:
        return {"bytes": peak_resident_bytes() - self._before}
