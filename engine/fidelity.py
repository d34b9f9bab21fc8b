"""What storing K and V in fewer bits costs, or reading only what matters: the same text computed in several ways.

The text is prefilled as a prompt is, in chunks that read earlier pages as the codec encoded them, and every position is
scored on the token that follows it. Hidden states are kept, logits are computed in blocks: those of a long text would
not fit in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from octavo.engine.config import AttentionConfig, EngineConfig
from octavo.engine.kernels.dispatch import Kernels, load_kernels
from octavo.engine.kv.cache import KvCache
from octavo.engine.model.decoder import Decoder
from octavo.engine.planner import kv_bytes, tail_bytes
from octavo.engine.runner import ModelRunner
from octavo.engine.workspace import RunSizes

if TYPE_CHECKING:
    from octavo.engine.config import ComputeDtype, KvCodec
    from octavo.engine.weights.checkpoint import Checkpoint

DEFAULT_ATTENTION = AttentionConfig()
BLOCK = 128  # positions whose logits exist at a time


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to compute a text: how K and V are stored, and what is read of them; by default everything."""

    name: str
    codec: KvCodec = "bf16"
    attention: AttentionConfig = DEFAULT_ATTENTION


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How close one variant comes to the first over `positions` predictions.

    `kl` and `kl_p99` are the mean and the 99th percentile of KL(first || variant) in nats; `top1` is the share of
    positions where both find the same token the likeliest.
    """

    name: str
    perplexity: float
    kl: float
    kl_p99: float
    top1: float
    positions: int


def measure_fidelity(
    checkpoint: Checkpoint,
    texts: Sequence[Sequence[int]],
    first: int,
    variants: Sequence[Variant],
    *,
    compute_dtype: ComputeDtype = "float32",
    page_size: int = 32,
    prefill_chunk: int = 512,
    device: str = "cpu",
    done: Callable[[int], None] = lambda count: None,
) -> list[Fidelity]:
    """Compare `variants` with the first of them, on the positions from `first` on of every text.

    texts: token ids, each no longer than the model's context. In float32 nothing but the variant differs; bfloat16
    products add a rounding noise that the smallest differences drown in. `done` is told of every text computed.
    """
    kernels = load_kernels(device)
    scores = {variant.name: Scores() for variant in variants}
    count = 0
    for text in texts:
        hidden = {}
        for variant in variants:
            config = pool_config(checkpoint, variant, compute_dtype, page_size, prefill_chunk, len(text))
            hidden[variant.name] = hidden_states(checkpoint, kernels, config, list(text), device)[first:-1]
            count += 1
            done(count)
        targets = torch.tensor(text[first + 1 :], device=device)
        for name, log_probabilities, reference, expected in _blocks(checkpoint, kernels, hidden, targets):
            scores[name].add(log_probabilities, reference, expected)
    return [scores[variant.name].result(variant.name) for variant in variants]


@dataclass(frozen=True, slots=True)
class LengthFidelity:
    """Perplexity of the same `positions` tokens, read after at most the trained length, and after up to twice it."""

    within: float
    beyond: float
    positions: int


def measure_past_trained(
    checkpoint: Checkpoint,
    text: Sequence[int],
    *,
    attention: AttentionConfig = DEFAULT_ATTENTION,
    compute_dtype: ComputeDtype = "float32",
    page_size: int = 32,
    prefill_chunk: int = 512,
    device: str = "cpu",
    done: Callable[[int], None] = lambda count: None,
) -> LengthFidelity:
    """Score the second half of `text`, twice the trained length, in one go and in parts of the trained length.

    Of each part the second half is scored. Both times it is the same tokens that are predicted: other tokens could be
    harder.
    """
    kernels, trained = load_kernels(device), checkpoint.spec.context_length
    variant = Variant("", attention=attention)
    ways: dict[str, list[Tensor]] = {"within": [], "beyond": []}
    for start in (trained // 2, trained):
        config = pool_config(checkpoint, variant, compute_dtype, page_size, prefill_chunk, trained)
        part = list(text[start : start + trained])
        ways["within"].append(hidden_states(checkpoint, kernels, config, part, device)[trained // 2 :])
        done(start // (trained // 2))
    config = pool_config(checkpoint, variant, compute_dtype, page_size, prefill_chunk, 2 * trained)
    ways["beyond"].append(hidden_states(checkpoint, kernels, config, list(text), device)[trained:])
    done(4)
    hidden = {name: torch.cat(states)[:-1] for name, states in ways.items()}
    scores = {name: Scores() for name in ways}
    targets = torch.tensor(text[trained + 1 :], device=device)
    for name, log_probabilities, reference, expected in _blocks(checkpoint, kernels, hidden, targets):
        scores[name].add(log_probabilities, reference, expected)
    within, beyond = (scores[name].result(name) for name in ("within", "beyond"))
    return LengthFidelity(within.perplexity, beyond.perplexity, within.positions)


def pool_config(
    checkpoint: Checkpoint,
    variant: Variant,
    compute_dtype: ComputeDtype,
    page_size: int,
    prefill_chunk: int,
    tokens: int,
) -> EngineConfig:
    """A pool of just the pages of one text."""
    run = RunSizes(page_size=page_size, prefill_chunk=prefill_chunk, max_sequences=1)
    pool = kv_bytes(checkpoint.spec, tokens, variant.codec, page_size)
    tail = tail_bytes(checkpoint.spec, variant.codec, run, has_lower_tier=False)
    return EngineConfig(
        page_size=page_size,
        prefill_chunk=prefill_chunk,
        kv_bytes=pool + tail,
        context=tokens,
        kv_codec=variant.codec,
        attention=variant.attention,
        compute_dtype=compute_dtype,
        max_sequences=1,
    )


@torch.inference_mode()
def hidden_states(
    checkpoint: Checkpoint,
    kernels: Kernels,
    config: EngineConfig,
    token_ids: list[int],
    device: str,
    *,
    one_by_one: bool = False,
) -> Tensor:
    """Hidden states of every token: float32 [len(token_ids), hidden_size].

    Computed as a prompt is, in chunks, or `one_by_one`, as the tokens of an answer are.
    """
    cache = KvCache(checkpoint.spec, config, kernels, "", device)
    dtype = torch.float32 if config.compute_dtype == "float32" else torch.bfloat16
    runner = ModelRunner(checkpoint, kernels, cache, len(token_ids), dtype)
    pages = cache.open(token_ids, "fidelity")
    hidden = []
    step = 1 if one_by_one else config.prefill_chunk
    for start in range(0, len(token_ids), step):
        chunk = token_ids[start : start + step]
        cache.begin_step([pages])
        if one_by_one:
            hidden.append(runner.decode(chunk, [start], [pages]))
        else:
            cache.begin_chunk(pages, len(chunk) // config.page_size)
            hidden.append(runner.prefill(chunk, start, pages))
        cache.publish(pages, token_ids, start + len(chunk))
    cache.shutdown()
    return torch.cat(hidden)


@torch.inference_mode()
def _blocks(
    checkpoint: Checkpoint, kernels: Kernels, hidden: dict[str, Tensor], targets: Tensor
) -> Iterator[tuple[str, Tensor, Tensor, Tensor]]:
    """Every variant's log-probabilities of a block of positions, those of the first, and the tokens that follow."""
    decoder, first = Decoder(checkpoint, kernels), next(iter(hidden))
    for start in range(0, len(targets), BLOCK):
        rows = slice(start, start + BLOCK)
        reference = torch.log_softmax(decoder.logits(hidden[first][rows]), dim=-1)
        for name, states in hidden.items():
            scored = reference if name == first else torch.log_softmax(decoder.logits(states[rows]), dim=-1)
            yield name, scored, reference, targets[rows]


class Scores:
    """The figures of one variant, position by position."""

    def __init__(self) -> None:
        self._surprise: list[Tensor] = []
        self._kl: list[Tensor] = []
        self._agrees: list[Tensor] = []

    def add(self, log_probabilities: Tensor, reference: Tensor, targets: Tensor) -> None:
        """One block: float32 [rows, vocab_size] twice, and the tokens that follow, int64 [rows]."""
        self._surprise.append(-log_probabilities.gather(1, targets[:, None])[:, 0].double())
        self._kl.append((reference.exp() * (reference - log_probabilities)).sum(dim=-1).double())
        likeliest = log_probabilities.argmax(dim=-1, keepdim=True)
        self._agrees.append(reference.gather(1, likeliest)[:, 0] == reference.amax(dim=-1))

    def result(self, name: str) -> Fidelity:
        kl = torch.cat(self._kl)
        return Fidelity(
            name,
            math.exp(float(torch.cat(self._surprise).mean())),
            float(kl.mean()),
            float(kl.quantile(0.99)),
            float(torch.cat(self._agrees).double().mean()),
            len(kl),
        )
