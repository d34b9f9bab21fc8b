"""llama.cpp as a `Peer`, through the C interface that llama-cpp-python binds. Started as a process."""

from __future__ import annotations

import ctypes
import importlib
import statistics
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from octavo.engine.peer import VARIANTS, Memory, serve

_BATCH, _MICRO_BATCH = 2048, 512  # llama.cpp's own defaults


class Llama:
    """A model and a context of it."""

    def __init__(self) -> None:
        self._lib: Any = None
        self._silence: Any = None
        self._model: Any = None
        self._context: Any = None
        self._vocab_size = 0

    def load(self, path: str, context: int, threads: int, variant: str) -> dict[str, Any]:
        lib = self._lib = importlib.import_module("llama_cpp")
        self._memory = Memory()
        self._silence = lib.llama_log_callback(lambda *_: None)  # held, because the library calls it
        lib.llama_log_set(self._silence, None)
        lib.llama_backend_init()
        self._model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        if not self._model:
            raise ValueError(f"it cannot load {path}")
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = context, _BATCH, _MICRO_BATCH
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = int(variant == VARIANTS["llama.cpp"][0])
        self._context = lib.llama_init_from_model(self._model, params)
        if not self._context:
            raise ValueError(f"it has no room for a context of {context} tokens")
        self._vocab_size = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self._model))
        system = lib.llama_print_system_info().decode()
        features = [item.split("=")[0].strip(" :|") for item in system.split("|") if item.strip().endswith("= 1")]
        return {"instruction_sets": " ".join(features).replace("CPU : ", ""), "version": lib.__version__}

    def run(self, prompt_ids: list[int], tokens: int) -> dict[str, Any]:
        self._clear()
        started = time.perf_counter()
        self._compute(prompt_ids)
        token = int(self._logits().argmax())
        prefill_s, times = time.perf_counter() - started, []
        for _ in range(tokens - 1):
            started = time.perf_counter()
            self._compute([token])
            token = int(self._logits().argmax())
            times.append(time.perf_counter() - started)
        return {"prefill_s": prefill_s, "decode_s": statistics.median(times)}

    def logits(self, token_ids: list[int], first: int, path: str) -> dict[str, Any]:
        self._clear()
        if first:
            self._compute(token_ids[:first])
        rows = []
        for token in token_ids[first:]:
            self._compute([token])
            rows.append(self._logits().copy())
        np.save(path, np.stack(rows))
        return {}

    def memory(self) -> dict[str, Any]:
        return dict(self._memory.peak())

    def _clear(self) -> None:
        self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), True)

    def _compute(self, token_ids: list[int]) -> None:
        for at in range(0, len(token_ids), _BATCH):
            part = token_ids[at : at + _BATCH]
            array = (ctypes.c_int32 * len(part))(*part)
            status = self._lib.llama_decode(self._context, self._lib.llama_batch_get_one(array, len(part)))
            if status:
                raise RuntimeError(f"llama_decode returned {status}")

    def _logits(self) -> NDArray[np.float32]:
        """Of the last token; valid until the next is computed."""
        return np.ctypeslib.as_array(self._lib.llama_get_logits_ith(self._context, -1), (self._vocab_size,))


if __name__ == "__main__":
    llama = Llama()
    serve({"load": llama.load, "run": llama.run, "logits": llama.logits, "memory": llama.memory})
