"""What storing weights in fewer bits costs: one model in several formats, against its weights in bfloat16.

Formats are made from the weights that the model has: of a file that is quantized already, what comes out is the cost
of quantizing once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import torch

from octavo.engine.config import EngineConfig, GenerationPolicy
from octavo.engine.engine import Engine
from octavo.engine.events import DoneEvent
from octavo.engine.fidelity import BLOCK, Scores, Variant, hidden_states, pool_config
from octavo.engine.kernels.dispatch import Kernels, load_kernels
from octavo.engine.model.decoder import Decoder
from octavo.engine.weights.formats import Format
from octavo.engine.weights.quantize import Scheme, quantize_blocks, quantize_matrix

if TYPE_CHECKING:
    from torch import Tensor

    from octavo.engine.config import ComputeDtype
    from octavo.engine.weights.checkpoint import Checkpoint
    from octavo.engine.weights.matrix import Weight

REFERENCE = "bf16"
_CHUNK = EngineConfig.prefill_chunk
STORED, ONE_BY_ONE = "stored", "one by one"
_SCHEMES: dict[str, Scheme] = {"group-int8": "int8", "group-int4": "int4", "nf4": "nf4"}
_GGUF = {kind.name.lower(): kind for kind in (Format.Q8_0, Format.Q5_1, Format.Q5_0, Format.Q4_1, Format.Q4_0)}
WEIGHT_FORMATS = (STORED, ONE_BY_ONE, *_SCHEMES, *_GGUF)
"""`stored`: as the model is. `one by one`: the same, but every token computed as those of an answer are, by the kernels
for few rows. The group formats and nf4 keep the vocabulary in 8 bits; the GGUF types are those that can be made."""


@dataclass(frozen=True, slots=True)
class WeightFidelity:
    """One format: perplexity, and how far its predictions are from those of bf16 weights (see CodecFidelity).

    `weight_bytes` is what the weights hold in memory; `ttft_ms` and `itl_ms` are those of an answer to a prompt of
    `prompt_tokens`: until its first token, and the median between two.
    """

    format: str
    perplexity: float
    kl: float
    kl_p99: float
    top1: float
    positions: int
    weight_bytes: int
    prompt_tokens: int
    ttft_ms: float
    itl_ms: float


def measure_weights(
    checkpoint: Checkpoint,
    texts: Sequence[Sequence[int]],
    first: int,
    formats: Sequence[str],
    *,
    compute_dtype: ComputeDtype = "auto",
    page_size: int = 32,
    device: str = "cpu",
    prompt_tokens: int = 256,
    answer_tokens: int = 24,
    done: Callable[[int], None] = lambda count: None,
) -> list[WeightFidelity]:
    """Compare `formats` with bf16, which comes first in the result, on the positions from `first` on of every text.

    One format is in memory at a time, beside bf16. `done` is told of every one that was measured.
    """
    kernels = load_kernels(device)
    reference = in_format(checkpoint, REFERENCE, device)
    run = _Run(kernels, texts, first, compute_dtype, page_size, device)
    expected = run.hidden(reference, one_by_one=False)
    results = []
    for name in (REFERENCE, *formats):
        stored = reference if name == REFERENCE else in_format(checkpoint, name, device)
        hidden = expected if name == REFERENCE else run.hidden(stored, one_by_one=name == ONE_BY_ONE)
        found = run.scores(stored, hidden, reference, expected).result(name)
        ttft_ms, itl_ms = _speed(stored, run, prompt_tokens, answer_tokens)
        figures = asdict(found)
        row = WeightFidelity(
            format=figures.pop("name"),
            weight_bytes=stored.nbytes,
            prompt_tokens=prompt_tokens,
            ttft_ms=ttft_ms,
            itl_ms=itl_ms,
            **figures,
        )
        results.append(row)
        done(len(results))
    return results


def in_format(checkpoint: Checkpoint, name: str, device: str) -> Checkpoint:
    """The same model with its matrices in one of WEIGHT_FORMATS, or in bf16. ValueError for any other name."""
    if name in (STORED, ONE_BY_ONE):
        return checkpoint
    matrices = {key: _quantized(key, weight, name, torch.device(device)) for key, weight in checkpoint.matrices.items()}
    return replace(checkpoint, matrices=matrices)


def _quantized(key: str, weight: Weight, name: str, device: torch.device) -> Weight:
    if name == REFERENCE:
        return quantize_matrix(key, weight.dequantize(torch.bfloat16), "none", device)
    dense = weight.dequantize(torch.float32)
    if name in _SCHEMES:
        return quantize_matrix(key, dense, _SCHEMES[name], device)
    if name not in _GGUF:
        raise ValueError(f"{name} is no weight format; there are {', '.join(WEIGHT_FORMATS)}")
    return quantize_blocks(dense, _GGUF[name], device)


@dataclass(frozen=True, slots=True)
class _Run:
    """What is the same for every format."""

    kernels: Kernels
    texts: Sequence[Sequence[int]]
    first: int
    compute_dtype: ComputeDtype
    page_size: int
    device: str

    def hidden(self, checkpoint: Checkpoint, *, one_by_one: bool) -> list[Tensor]:
        """Of every text, the hidden states that are scored."""
        states = []
        for text in self.texts:
            config = self.config(checkpoint, len(text))
            found = hidden_states(checkpoint, self.kernels, config, list(text), self.device, one_by_one=one_by_one)
            states.append(found[self.first : -1])
        return states

    def config(self, checkpoint: Checkpoint, tokens: int) -> EngineConfig:
        return pool_config(checkpoint, Variant("bf16"), self.compute_dtype, self.page_size, _CHUNK, tokens)

    @torch.inference_mode()
    def scores(
        self, checkpoint: Checkpoint, hidden: list[Tensor], reference: Checkpoint, expected: list[Tensor]
    ) -> Scores:
        decoder, plain, scores = Decoder(checkpoint, self.kernels), Decoder(reference, self.kernels), Scores()
        for text, states, others in zip(self.texts, hidden, expected, strict=True):
            targets = torch.tensor(text[self.first + 1 :], device=self.device)
            for start in range(0, len(targets), BLOCK):
                rows = slice(start, start + BLOCK)
                found, wanted = (
                    torch.log_softmax(each.logits(of[rows]), dim=-1)
                    for each, of in ((decoder, states), (plain, others))
                )
                scores.add(found, wanted, targets[rows])
        return scores


def _speed(checkpoint: Checkpoint, run: _Run, prompt_tokens: int, answer_tokens: int) -> tuple[float, float]:
    """Milliseconds to the first token, and the median between two, of the second answer: the first one warms."""
    config = run.config(checkpoint, prompt_tokens + answer_tokens + run.page_size)
    config = replace(config, context=prompt_tokens + answer_tokens)
    policy = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=answer_tokens)
    for _ in range(2):
        engine = Engine(checkpoint, config, device=run.device, fingerprint="weights")
        prompt = list(run.texts[0][:prompt_tokens])
        prompt = (prompt * math.ceil(prompt_tokens / len(prompt)))[:prompt_tokens]
        (done,) = [event for event in engine.generate(prompt, policy) if isinstance(event, DoneEvent)]
        engine.close()
    return 1e3 * done.metrics.ttft_s, done.metrics.itl_p50_ms
