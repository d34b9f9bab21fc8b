"""transformers as a `Peer`: it expands a GGUF file's weights to the type of its variant. Started as a process."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from octavo.engine.peer import Memory, serve


class Transformers:
    """A model, and the keys and values of the last tokens."""

    def __init__(self) -> None:
        self._model: Any = None
        self._past: Any = None

    def load(self, path: str, context: int, threads: int, variant: str) -> dict[str, Any]:
        import transformers

        self._memory = Memory()
        torch.set_num_threads(threads)
        file = Path(path)
        folder, options = (file, {}) if file.is_dir() else (file.parent, {"gguf_file": file.name})
        load = transformers.AutoModelForCausalLM.from_pretrained
        self._model = load(folder, dtype=getattr(torch, variant), **options).eval()
        return {
            "instruction_sets": f"torch {torch.backends.cpu.get_cpu_capability()}",
            "version": transformers.__version__,
        }

    @torch.inference_mode()
    def run(self, prompt_ids: list[int], tokens: int) -> dict[str, Any]:
        self._past = None
        started = time.perf_counter()
        token = int(self._compute(prompt_ids).argmax())
        prefill_s, times = time.perf_counter() - started, []
        for _ in range(tokens - 1):
            started = time.perf_counter()
            token = int(self._compute([token]).argmax())
            times.append(time.perf_counter() - started)
        return {"prefill_s": prefill_s, "decode_s": statistics.median(times)}

    @torch.inference_mode()
    def logits(self, token_ids: list[int], first: int, path: str) -> dict[str, Any]:
        self._past = None
        if first:
            self._compute(token_ids[:first])
        np.save(path, np.stack([self._compute([token]).float().numpy() for token in token_ids[first:]]))
        return {}

    def memory(self) -> dict[str, Any]:
        return dict(self._memory.peak())

    def _compute(self, token_ids: list[int]) -> Tensor:
        """Logits after the last token."""
        out = self._model(torch.tensor([token_ids]), past_key_values=self._past, use_cache=True, logits_to_keep=1)
        self._past = out.past_key_values
        last: Tensor = out.logits[0, -1]
        return last


if __name__ == "__main__":
    peer = Transformers()
    serve({"load": peer.load, "run": peer.run, "logits": peer.logits, "memory": peer.memory})
