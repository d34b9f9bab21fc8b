"""How an engine is built and how an answer is sampled: two frozen, validated values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from octavo.engine.errors import PolicyError

GROUP_PAGES = 64
"""Pages that attention reads at a time where it reads all, whatever the budget."""

STREAM_PAGES = 96
"""Slots of a layer through which pages pass that are not on the device: all that a query may select, and the first."""

ComputeDtype = Literal["auto", "bfloat16", "float32"]
FarPositions = Literal["closed up", "one angle"]
KvCodec = Literal["bf16", "k8v8", "k8v4", "k4v4", "f32"]


@dataclass(frozen=True)
class AttentionConfig:
    """What a query reads, in tokens; pages are read whole.

    Queries at positions below `dense_limit` read everything; `None` is the length the model was trained on, which it
    cannot exceed. From there on a query reads the first page, the `window` before its own page, and of the pages in
    between those that its layer selects: of a prompt as many as hold `mass_target` of the attention, as estimated, at
    least `floor` and at most `cap` tokens, the first page among them; for a new token always `cap`, and for the last
    `question` tokens of a prompt `question_cap`.

    Past the trained length `far_positions` says where selected pages stand: side by side before the window ("closed
    up"), or all at one distance ("one angle").
    """

    dense_limit: int | None = None
    window: int = 1024
    floor: int = 512
    cap: int = 2048
    mass_target: float = 0.95
    question: int = 256
    question_cap: int = 3072
    far_positions: FarPositions = "closed up"


@dataclass(frozen=True)
class EngineConfig:
    """Sizes fixed for the life of an engine.

    `kv_bytes` is the budget of KV pages on the device, complete and unfinished, allocated once; `None` takes room
    for one conversation of the model's whole trained context. `host_bytes` is the budget of the pages kept in RAM
    below it. `context` is the longest prompt and answer together, `None` what the model was trained on.
    `f32` as the codec, with `float32` as the compute type, is for comparing with a reference. `threads` of 0 leaves
    torch's own choice.
    """

    page_size: int = 32
    prefill_chunk: int = 512
    kv_bytes: int | None = None
    host_bytes: int = 0
    context: int | None = None
    attention: AttentionConfig = AttentionConfig()
    kv_codec: KvCodec = "bf16"
    compute_dtype: ComputeDtype = "auto"
    max_sequences: int = 16
    threads: int = 0

    def __post_init__(self) -> None:
        if self.page_size < 8 or self.page_size & (self.page_size - 1):
            raise ValueError(f"page_size is {self.page_size}; it must be a power of two of 8 or more")
        if self.prefill_chunk < self.page_size or self.prefill_chunk % self.page_size:
            raise ValueError(
                f"prefill_chunk is {self.prefill_chunk}; it must be a multiple of the page size {self.page_size}"
            )
        if self.max_sequences < 1:
            raise ValueError(f"max_sequences is {self.max_sequences}; at least one sequence must run")


@dataclass(frozen=True)
class GenerationPolicy:
    """How the next token is chosen and when an answer ends; it is stored with the answer.

    Filters apply in the order of transformers' logits processors: repetition penalty, temperature, top-k, top-p,
    min-p. `temperature` 0 is greedy. `top_k` 0, `top_p` 1 and `min_p` 0 switch their filter off. `seed` None draws
    a fresh one, which the answer records. `stop` strings are found in the text by the caller of the engine, which
    itself only knows token ids.
    """

    temperature: float = 0.7
    top_k: int = 20
    top_p: float = 0.8
    min_p: float = 0.0
    repetition_penalty: float = 1.05
    max_tokens: int = 1024
    stop: tuple[str, ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        _check("temperature", self.temperature, 0.0, 10.0)
        _check("top_k", self.top_k, 0, 1_000_000)
        _check("top_p", self.top_p, 0.0, 1.0, low_open=True)
        _check("min_p", self.min_p, 0.0, 1.0)
        _check("repetition_penalty", self.repetition_penalty, 0.0, 10.0, low_open=True)
        _check("max_tokens", self.max_tokens, 1, 100_000_000)
        if self.seed is not None:
            _check("seed", self.seed, 0, 2**63 - 1)
        if any(not text for text in self.stop):
            raise PolicyError("stop holds an empty string; every stop string needs at least one character.")


def _check(name: str, value: float, low: float, high: float, *, low_open: bool = False) -> None:
    inside = low <= value <= high and not (low_open and value == low)
    if not inside:  # NaN lands here too
        bounds = f"{'above' if low_open else 'from'} {low:g} to {high:g}"
        raise PolicyError(f"{name} is {value}; it must be {bounds}.")
