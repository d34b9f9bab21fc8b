"""A tiny run of each compiled operation against its reference, before it is trusted with a model."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from octavo.engine.kernels.activation import silu_mul_torch
from octavo.engine.kernels.bounds import PageBounds, page_bounds_torch, section_bounds_torch
from octavo.engine.kernels.encode import encode_pages_torch
from octavo.engine.kernels.far_rows import ChosenPages, attend_far_native, attend_far_torch
from octavo.engine.kernels.gather import gather_pages_torch
from octavo.engine.kernels.kv_write import write_kv_torch
from octavo.engine.kernels.linear import linear_torch
from octavo.engine.kernels.many_rows import RowAttention, Run, Seen, attend_rows_torch, multiply_gated, multiply_many
from octavo.engine.kernels.norm import rms_norm_torch
from octavo.engine.kernels.paged_attention import AttentionState, attend_pages_torch, attend_tail_torch
from octavo.engine.kernels.sampling import sample_torch
from octavo.engine.kernels.select import SelectionLimits, SelectionScratch, select_pages_torch
from octavo.engine.kv.bounds import SECTION_PAGES, BoundsLayout
from octavo.engine.kv.codec import CODECS, PageLayout
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix

if TYPE_CHECKING:
    from octavo.engine.kernels._native import Ops

_TOLERANCE = 1e-4
_BFLOAT16_TOLERANCE = 2**-6


class _Source:
    """Random numbers, the same on every device."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._generator = torch.Generator().manual_seed(0)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._generator).to(self._device)

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self._generator).to(self._device)

    def integers(self, end: int, shape: tuple[int, ...], dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.randint(end, shape, dtype=dtype, generator=self._generator).to(self._device)

    def permutation(self, count: int) -> Tensor:
        return torch.randperm(count, generator=self._generator).int().to(self._device)

    def given(self, *numbers: int) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int32, device=self._device)

    def empty_state(self) -> AttentionState:
        return AttentionState.empty(1, 4, 8, self._device)


def failure(op: str, compiled: Callable[..., Any], device: str = "cpu") -> str | None:
    """What is wrong with the operation called `op` on `device`, or None if it agrees with its reference."""
    try:
        return _CHECKS[op](compiled, _Source(device))
    except Exception as error:  # a compiler may raise anything, and this is what should say so
        return f"it failed: {(str(error).strip() or type(error).__name__).splitlines()[-1]}"


def _difference(got: Tensor, expected: Tensor, tolerance: float = _TOLERANCE) -> str | None:
    error = float((got.float() - expected.float()).abs().max() / expected.float().abs().max())
    return None if error <= tolerance else f"it differs from its reference by {error:.1e} of the maximum"


def _linear(compiled: Callable[..., Any], source: _Source) -> str | None:
    # Bytes below 60 make every float16 scale among them finite and small.
    weights = [
        BlockMatrix(
            format,
            (3, 256),
            source.integers(60, (3, format.row_bytes(256)), torch.uint8),
        )
        for format in Format  # noqa: A001
    ]
    x = source.normal(5, 256)
    for weight in weights:
        (got,) = compiled(x, [weight], [None])
        problem = _difference(got, linear_torch(x, [weight], [None])[0])
        if problem:
            return f"for {weight.format_name} {problem}"
    return None


def tiles_failure(arrange: Callable[[Any], Any], linear: Callable[..., Any]) -> str | None:
    """The same for matrices that `arrange` lays out for `linear`; inputs of three values lose nothing."""
    source = _Source("cpu")
    x = source.integers(3, (2, 256)).float() - 1
    x[:, ::32] = 1
    for kind in Format:
        matrix = BlockMatrix(kind, (18, 256), source.integers(60, (18, kind.row_bytes(256)), torch.uint8))
        tiled, plain = arrange(matrix), matrix.dequantize(torch.float32)
        if not torch.equal(tiled.dequantize(torch.float32), plain):
            return f"{kind.name} is not worth what it was"
        if problem := _difference(linear(x, [tiled], [None])[0], x @ plain.T):
            return f"for {kind.name} {problem}"
    return None


def blocks_failure(ops: "Ops", arrange: Callable[[Any], Any]) -> str | None:
    """The same for what computes a chunk of a prompt in blocks of bfloat16."""
    source = _Source("cpu")
    x = (source.integers(3, (33, 256)).float() - 1).bfloat16()
    for kind in (kind for kind in Format if kind.block_size > 1):
        data = (source.integers(60, (18, kind.row_bytes(256)), torch.uint8) for _ in range(2))
        matrices = [BlockMatrix(kind, (18, 256), part) for part in data]
        products = [x.float() @ matrix.dequantize(torch.bfloat16).float().T for matrix in matrices]
        tiled = [arrange(matrix) for matrix in matrices]
        problem = _difference(multiply_many(ops, x, tiled[:1], [None])[0], products[0])
        gated = silu_mul_torch(products[0], products[1], torch.bfloat16)
        if problem := problem or _difference(multiply_gated(ops, x, *tiled), gated, _BFLOAT16_TOLERANCE):
            return f"for {kind.name} {problem}"
    states = [AttentionState.empty(33, 4, 32) for _ in range(2)]
    states[0].clear()
    q, angles, row = source.normal(33, 4, 32), source.uniform(33, 16), torch.arange(33, dtype=torch.int32)
    keys, values = source.normal(2, 2, 50, 32).bfloat16()
    run = Run(keys, values, Seen(row // 2, row + 1))
    attend_rows_torch(q, run.keys, run.values, angles.cos(), angles.sin(), run.seen, 0.2, states[0])
    RowAttention(ops)(q, [run], angles.cos(), angles.sin(), 0.2, states[1], is_first=True)
    results = [state.values / state.total[..., None] for state in states]
    return _difference(results[1], results[0], _BFLOAT16_TOLERANCE) or _far_failure(ops, source)


def _far_failure(ops: "Ops", source: _Source) -> str | None:
    cos, sin = (angles := source.uniform(50, 16)).cos(), angles.sin()
    for codec in CODECS.values():
        layout = PageLayout(codec, 2, 32, 32)
        slab = encode_pages_torch(source.normal(6, 2, 2, 32, 32), layout)
        pages = ChosenPages(source.permutation(6), source.integers(50, (6,)), source.given(0, 5, 6))
        q, outs = source.normal(40, 4, 32), torch.empty(2, 40, 4, 32, dtype=torch.bfloat16)
        attends: list[Callable[..., None]] = [attend_far_torch, partial(attend_far_native, ops)]
        for attend, out in zip(attends, outs, strict=True):
            state = AttentionState(torch.zeros(40, 4), torch.ones(40, 4), torch.ones(40, 4, 32))
            attend(q, slab, layout, pages, cos, sin, (cos[:40], sin[:40]), 0.2, state, out)
        if problem := _difference(outs[1], outs[0], _BFLOAT16_TOLERANCE):
            return f"for far pages of {codec.name} {problem}"
    return None


def _rms_norm(compiled: Callable[..., Any], source: _Source) -> str | None:
    x, weight = source.normal(2, 40), source.normal(40)
    return _difference(compiled(x, weight, 1e-5), rms_norm_torch(x, weight, 1e-5))


def _silu_mul(compiled: Callable[..., Any], source: _Source) -> str | None:
    gate, up = source.normal(2, 40), source.normal(2, 40)
    return _difference(compiled(gate, up), silu_mul_torch(gate, up))


def _paged(source: _Source) -> tuple[Tensor, Tensor, Tensor]:
    """A slab of 3 pages of 4 tokens, 2 KV heads and dimension 8, and tables of 12 angles."""
    slab = source.normal(3, 2, 2, 4, 8)
    angles = source.uniform(12, 4)
    return slab, angles.cos(), angles.sin()


def _write_kv(compiled: Callable[..., Any], source: _Source) -> str | None:
    slab, cos, sin = _paged(source)
    expected = slab.clone()
    slots, offsets = source.given(2, 0), source.given(3, 1)
    k, v = source.normal(2, 2, 8), source.normal(2, 2, 8)
    for write, target in ((compiled, slab), (write_kv_torch, expected)):
        write(target, slots, offsets, k, v, cos[:4], sin[:4])
    return _difference(slab, expected)


def _layouts() -> Iterator[PageLayout]:
    return (PageLayout(codec, 2, 4, 8) for codec in CODECS.values())


def _slots(source: _Source) -> tuple[Tensor, Tensor]:
    """Slots of two pages, and a position for each."""
    return source.given(2, 0), source.given(6, 2)


def _encode_pages(compiled: Callable[..., Any], source: _Source) -> str | None:
    kv, _, _ = _paged(source)
    for layout in _layouts():
        if not torch.equal(compiled(kv, layout), encode_pages_torch(kv, layout)):
            return f"its {layout.codec.name} pages differ from its reference's"
    return None


def _gather_pages(compiled: Callable[..., Any], source: _Source) -> str | None:
    kv, cos, sin = _paged(source)
    for layout in _layouts():
        arguments = encode_pages_torch(kv, layout), layout, *_slots(source), cos, sin, torch.float32
        got, expected = compiled(*arguments), gather_pages_torch(*arguments)
        problem = _difference(got[0], expected[0]) or _difference(got[1], expected[1])
        if problem:
            return f"for {layout.codec.name} {problem}"
    return None


def _attend_pages(compiled: Callable[..., Any], source: _Source) -> str | None:
    kv, cos, sin = _paged(source)
    q = source.normal(1, 4, 8)
    slots, distances = _slots(source)
    for layout in _layouts():
        states = []
        for attend in (compiled, attend_pages_torch):
            state = source.empty_state()
            tables = slots[None], distances[None], source.given(2)
            attend(q, encode_pages_torch(kv, layout), layout, *tables, cos, sin, 0.4, state, True)
            states.append(torch.cat((state.highest[..., None], state.total[..., None], state.values), dim=-1))
        problem = _difference(states[0], states[1])
        if problem:
            return f"for {layout.codec.name} {problem}"
    return None


def _attend_tail(compiled: Callable[..., Any], source: _Source) -> str | None:
    tails, cos, sin = _paged(source)
    q = source.normal(2, 4, 8)
    slots, tokens = source.given(2, 0), source.given(3, 1)
    for layout in _layouts():
        results = []
        for attend in (compiled, attend_tail_torch):
            state = AttentionState(
                torch.full_like(q[..., 0], 0.5), torch.full_like(q[..., 0], 2.0), q.flip(0).contiguous()
            )
            results.append(attend(q, tails, layout, slots, tokens, cos, sin, 0.4, state))
        problem = _difference(results[0], results[1])
        if problem:
            return f"for {layout.codec.name} {problem}"
    return None


def _page_bounds(compiled: Callable[..., Any], source: _Source) -> str | None:
    kv, _, _ = _paged(source)
    for layout in _layouts():
        arguments = encode_pages_torch(kv, layout), layout, BoundsLayout(2, 4, 8)
        if not torch.equal(compiled(*arguments), page_bounds_torch(*arguments)):
            return f"its bounds of {layout.codec.name} pages differ from its reference's"
    return None


def _bounds(count: int, source: _Source) -> tuple[PageBounds, BoundsLayout, Tensor]:
    """The tables of `count` pages, and their numbers in disorder."""
    layout, pages = BoundsLayout(2, 4, 8), PageLayout(CODECS["f32"], 2, 4, 8)
    kv = source.normal(count, 2, 2, 4, 8)
    bounds = page_bounds_torch(encode_pages_torch(kv, pages), pages, layout)
    return PageBounds.split(bounds, layout), layout, source.permutation(count)


def _section_bounds(compiled: Callable[..., Any], source: _Source) -> str | None:
    bounds, layout, ids = _bounds(SECTION_PAGES + 3, source)
    arguments = bounds.boxes, layout, ids
    same = torch.equal(compiled(*arguments), section_bounds_torch(*arguments))
    return None if same else "its bounds differ from its reference's"


def _select_pages(compiled: Callable[..., Any], source: _Source) -> str | None:
    count = 2 * SECTION_PAGES + 3
    bounds, layout, ids = _bounds(count, source)
    _, cos, sin = _paged(source)
    q, read = source.normal(2, 1, 4, 8), source.normal(2, 1, 4)
    limits = SelectionLimits(2, 9, 0.8)
    arguments = q, bounds, section_bounds_torch(bounds.boxes, layout, ids), layout, ids, source.given(count, 7)
    for distances in (source.given(5), source.integers(12, (2, count))):
        results = [
            select(*arguments, distances, cos, sin, 0.4, read, limits, SelectionScratch())
            for select in (compiled, select_pages_torch)
        ]
        if not all(torch.equal(a, b) for a, b in zip(*results, strict=True)):
            return "it selects other pages than its reference"
    return None


def _sample(compiled: Callable[..., Any], source: _Source) -> str | None:
    logits = source.normal(300) * 4
    for uniform in (0.0, 0.3, 0.55, 0.999):
        for top_k, top_p, min_p in ((0, 1.0, 0.0), (7, 0.9, 0.0), (0, 0.8, 0.05)):
            arguments = logits, 1.5, top_k, top_p, min_p, uniform
            if compiled(*arguments) != sample_torch(*arguments):
                return "it draws other tokens than its reference"
    return None


_CHECKS: dict[str, Callable[[Callable[..., Any], _Source], str | None]] = {
    "linear": _linear,
    "rms_norm": _rms_norm,
    "silu_mul": _silu_mul,
    "write_kv": _write_kv,
    "encode_pages": _encode_pages,
    "gather_pages": _gather_pages,
    "attend_pages": _attend_pages,
    "attend_tail": _attend_tail,
    "page_bounds": _page_bounds,
    "section_bounds": _section_bounds,
    "select_pages": _select_pages,
    "sample": _sample,
}
