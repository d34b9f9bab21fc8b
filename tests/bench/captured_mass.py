"""How much of a model's attention the selected pages hold, for the scores and choices of tests/bench/results.md.

    python tests/bench/captured_mass.py MODEL.gguf TEXT.txt [SKIPPED_CHARACTERS]

A text of 4,224 tokens is read densely. Of every eighth of its last 256 positions, in each layer, the attention is
computed exactly, and then what share of the mass outside the first page and a window of 256 tokens lies in the pages
that a score selects, one list for all heads of a layer. Pages are encoded with k8v8.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from octavo.engine.kernels.bounds import PageBounds
from octavo.engine.kernels.dispatch import Kernels, load_kernels
from octavo.engine.kernels.quantize import read_keys
from octavo.engine.kernels.select import SHARE_AT_EDGE, SelectionLimits, SelectionScratch
from octavo.engine.kv.bounds import BoundsLayout
from octavo.engine.kv.codec import CODECS, PageLayout
from octavo.engine.model.decoder import Decoder
from octavo.engine.model.rope import attention_scale, rope_table, rotate
from octavo.engine.tokenizer import Tokenizer
from octavo.engine.weights.checkpoint import open_checkpoint

TOKENS, QUERIES, STEP, WINDOW, CHUNK = 4224, 256, 8, 256, 512
BUDGETS = 512, 1024, 2048


class Recorder:
    """Dense attention over one sequence that keeps its keys, before rotation, and the last queries."""

    def __init__(self, model: Decoder) -> None:
        spec = model.spec
        self.scale, self.rope = attention_scale(spec), rope_table(spec, TOKENS)
        shape = (spec.num_layers, spec.num_kv_heads, TOKENS, spec.head_dim)
        self.keys = torch.empty(shape)
        self._rotated, self._values = (torch.empty(shape, dtype=torch.bfloat16) for _ in range(2))
        self.queries = torch.empty(spec.num_layers, spec.num_heads, TOKENS, spec.head_dim)
        self.start = 0

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        stop = self.start + len(q)
        cos, sin = self.rope.cos[self.start : stop, None], self.rope.sin[self.start : stop, None]
        self.keys[layer, :, self.start : stop] = k.transpose(0, 1)
        self.queries[layer, :, self.start : stop] = q.transpose(0, 1)
        self._rotated[layer, :, self.start : stop] = rotate(k.float(), cos, sin).transpose(0, 1)
        self._values[layer, :, self.start : stop] = v.transpose(0, 1)
        seen = torch.arange(stop) <= torch.arange(self.start, stop)[:, None]
        out = scaled_dot_product_attention(
            rotate(q.float(), cos, sin).transpose(0, 1)[None].bfloat16(),
            self._rotated[layer, :, :stop][None],
            self._values[layer, :, :stop][None],
            attn_mask=seen,
            scale=self.scale,
            enable_gqa=True,
        )
        return out[0].float().transpose(0, 1)


@dataclass
class Layer:
    """One layer's pages between the first and the window, and the queries that look at them.

    `masses` [heads, queries, pages] are shares of the attention, `near` [heads, queries] the log-sum-exp of the scores
    of the first page and the window; `queries` [heads, queries, pages, d] stand at the pages' distances, `keys`
    [pages, heads, page_size, d] in the pages' frames, repeated for the heads that share them. The last four are what
    the engine selects by: `unrotated` [heads, queries, d], `distances` [queries, pages], and the pages' bytes.
    """

    masses: Tensor
    near: Tensor
    queries: Tensor
    keys: Tensor
    lower: Tensor
    upper: Tensor
    scale: float
    unrotated: Tensor
    distances: Tensor
    encoded: Tensor
    stored: PageLayout


def layers(recorder: Recorder, page_size: int, num_boxes: int, kernels: Kernels) -> Iterator[Layer]:
    positions = torch.arange(TOKENS - QUERIES, TOKENS)[::STEP]
    end = (TOKENS - QUERIES - WINDOW) // page_size
    starts = torch.arange(page_size, end * page_size, page_size)
    cos, sin = recorder.rope.cos, recorder.rope.sin
    offsets, distances = torch.arange(TOKENS) % page_size, positions[:, None] - starts
    for k, q in zip(recorder.keys, recorder.queries, strict=True):
        (kv_heads, _, dim), group = k.shape, len(q) // len(k)
        q = q[:, positions]
        here = rotate(q, cos[positions], sin[positions])
        scores = here @ rotate(k, cos, sin).repeat_interleave(group, 0).transpose(1, 2) * recorder.scale
        scores.masked_fill_(torch.arange(TOKENS) > positions[:, None], -math.inf)
        masses = scores.softmax(-1)[..., page_size : end * page_size].unflatten(-1, (-1, page_size)).sum(-1)
        scores[..., page_size : end * page_size] = -math.inf
        framed = rotate(k, cos[offsets], sin[offsets])[:, page_size : end * page_size]
        pages = framed.reshape(kv_heads, -1, page_size, dim).transpose(0, 1).contiguous()
        stored = PageLayout(CODECS["k8v8"], kv_heads, page_size, dim)
        encoded = kernels.encode_pages(torch.stack((pages, pages), 1), stored)
        keys = read_keys(encoded, stored)
        boxed = keys.reshape(len(keys), kv_heads, num_boxes, -1, dim).repeat_interleave(group, 1)
        yield Layer(
            masses,
            scores.logsumexp(-1),
            rotate(q[:, :, None], cos[distances], sin[distances]),
            keys.repeat_interleave(group, 1),
            boxed.amin(3),
            boxed.amax(3),
            recorder.scale,
            q,
            distances.int(),
            encoded,
            stored,
        )


def scores_of(layer: Layer, tokens: int) -> Iterator[tuple[str, Tensor]]:
    """Estimated log-masses [heads, queries, pages] by each score; of several boxes in a page, their sum."""
    q, scale = layer.queries, layer.scale
    centre, half = (layer.lower + layer.upper) / 2, (layer.upper - layer.lower) / 2

    def dot(a: Tensor, boxes: Tensor) -> Tensor:
        return torch.einsum("hqpd,phbd->hqpb", a, boxes) * scale

    at_centre, corner, length = dot(q, centre), dot(q.abs(), half), dot(q**2, half**2 / scale).sqrt() * scale
    edge = math.log(SHARE_AT_EDGE * tokens)
    yield "ellipsoid", (at_centre + length).logsumexp(-1) + edge
    yield "box (upper bound)", (at_centre + corner).logsumexp(-1)
    yield "half-way to the corner", (at_centre + corner / 2).logsumexp(-1)
    yield "centre of the box", at_centre.logsumexp(-1) + edge
    if centre.shape[2] > 1:
        return
    exact = torch.einsum("hqpd,phtd->hqpt", q, layer.keys) * scale
    yield "mean key", exact.mean(-1) + edge
    yield "oracle: highest score", exact.amax(-1) + math.log(4)
    yield "oracle: exact mass", exact.logsumexp(-1)


def weights_of(log_masses: Tensor, near: Tensor | None) -> Tensor:
    total = log_masses.logsumexp(-1, keepdim=True)
    if near is not None:
        total = torch.logaddexp(total, near[..., None])
    return (log_masses - total).exp().clamp(max=1)


class Table:
    """Captured and total mass for each row and budget."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}

    def add(self, name: str, layer: Layer, weights: Tensor, page_size: int) -> None:
        sums = self._sums.setdefault(name, [0.0] * (len(BUDGETS) + 1))
        sums[-1] += float(layer.masses.sum())
        for at, budget in enumerate(BUDGETS):
            top = weights.sum(0).topk(min(budget // page_size, weights.shape[-1])).indices
            sums[at] += float(layer.masses.gather(-1, top.expand(len(layer.masses), -1, -1)).sum())

    def show(self) -> None:
        print(f"\n{'share of the mass outside, tokens read:':48}" + "".join(f"{budget:>8}" for budget in BUDGETS))
        for name, sums in self._sums.items():
            print(f"{name:48}" + "".join(f"{captured / sums[-1]:8.3f}" for captured in sums[:-1]))


class EngineTable:
    """What the engine's kernels select: captured mass, pages, and mass of all that is not read."""

    def __init__(self) -> None:
        self._sums: dict[SelectionLimits, list[float]] = {}

    def add(self, layer: Layer, recorder: Recorder, kernels: Kernels) -> None:
        boxes = BoundsLayout(layer.stored.num_kv_heads, layer.stored.page_size, layer.stored.head_dim)
        bounds = PageBounds.split(kernels.page_bounds(layer.encoded, layer.stored, boxes), boxes)
        ids = torch.arange(len(layer.encoded)).int()
        sections = kernels.section_bounds(bounds.boxes, boxes, ids)
        rows, heads = layer.distances.shape[0], len(layer.masses)
        queries, near = layer.unrotated.transpose(0, 1)[:, None], layer.near.T[:, None]
        for limits in (SelectionLimits(32, 32, 1.0), *(SelectionLimits(16, 64, share) for share in (0.9, 0.95, 0.98))):
            chosen, counts = kernels.select_pages(
                queries, bounds, sections, boxes, ids, torch.full((rows,), len(ids)).int(), layer.distances,
                recorder.rope.cos, recorder.rope.sin, layer.scale, near, limits, SelectionScratch(),
            )  # fmt: skip
            is_read = torch.arange(limits.cap) < counts[:, None]
            read = (layer.masses.gather(-1, chosen.long().expand(heads, -1, -1)) * is_read).sum()
            sums = self._sums.setdefault(limits, [0.0] * 4)
            for at, value in enumerate((read, layer.masses.sum(), counts.sum() / rows, 1.0)):
                sums[at] += float(value)
        self._rows = rows * heads

    def show(self) -> None:
        print(f"\n{'the engine, page 32:':48}{'pages':>8}{'share':>8}{'not read, of all':>18}")
        for limits, (read, far, pages, count) in self._sums.items():
            name = f"floor {limits.floor}, cap {limits.cap}, mass target {limits.mass_target}"
            print(f"{name:48}{pages / count:8.1f}{read / far:8.3f}{(far - read) / count / self._rows:18.3f}")


def measure(recorder: Recorder, kernels: Kernels) -> None:
    table, engine = Table(), EngineTable()
    for page_size, num_boxes in ((32, 1), (32, 2), (16, 1), (64, 1)):
        for layer in layers(recorder, page_size, num_boxes, kernels):
            for name, log_masses in scores_of(layer, page_size // num_boxes):
                row = f"page {page_size}{', halves' if num_boxes > 1 else ''}: {name}"
                table.add(row, layer, weights_of(log_masses, layer.near), page_size)
                if (page_size, num_boxes, name) == (32, 1, "ellipsoid"):
                    add_variants(table, layer, log_masses, page_size)
                    engine.add(layer, recorder, kernels)
    table.show()
    engine.show()


def add_variants(table: Table, layer: Layer, log_masses: Tensor, page_size: int) -> None:
    """The chosen score, put together otherwise."""
    weights = weights_of(log_masses, layer.near)
    table.add("   without what is read anyway", layer, weights_of(log_masses, None), page_size)
    table.add("   the most of all heads, not the sum", layer, weights.amax(0, keepdim=True), page_size)
    older = torch.cat((weights[:, :1], weights[:, :-1]), dim=1)
    table.add(f"   chosen {STEP} tokens before", layer, older, page_size)


if __name__ == "__main__":
    with torch.inference_mode():
        checkpoint, kernels = open_checkpoint(Path(sys.argv[1])), load_kernels()
        decoder = Decoder(checkpoint, kernels)
        text = Path(sys.argv[2]).read_text(encoding="utf-8")[int(sys.argv[3]) if len(sys.argv) > 3 else 0 :]
        ids = torch.tensor(Tokenizer(checkpoint.tokenizer).encode(text[: 8 * TOKENS])[:TOKENS])
        if len(ids) < TOKENS:
            raise SystemExit(f"The text has {len(ids)} tokens; {TOKENS} are needed.")
        recorder = Recorder(decoder)
        for recorder.start in range(0, TOKENS, CHUNK):
            decoder.forward(ids[recorder.start : recorder.start + CHUNK], recorder, torch.bfloat16)
        measure(recorder, kernels)
