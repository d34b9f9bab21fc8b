"""A tiny run of each native operation against its reference, before it is trusted with a model."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from octavo.engine.kernels.activation import silu_mul_torch
from octavo.engine.kernels.bounds import page_bounds_torch, section_bounds_torch
from octavo.engine.kernels.encode import encode_pages_torch
from octavo.engine.kernels.gather import gather_pages_torch
from octavo.engine.kernels.kv_write import write_kv_torch
from octavo.engine.kernels.linear import linear_torch
from octavo.engine.kernels.norm import rms_norm_torch
from octavo.engine.kernels.paged_attention import AttentionState, attend_pages_torch, attend_tail_torch
from octavo.engine.kernels.select import SelectionLimits, SelectionScratch, select_pages_torch
from octavo.engine.kv.bounds import SECTION_PAGES, BoundsLayout
from octavo.engine.kv.codec import CODECS, PageLayout
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix

_TOLERANCE = 1e-4


def failure(op: str, native: Callable[..., Any]) -> str | None:
    """What is wrong with the native operation called `op`, or None if it agrees with its reference."""
    try:
        return _CHECKS[op](native, torch.Generator().manual_seed(0))
    except (AttributeError, RuntimeError, ValueError, MemoryError) as error:
        return f"it failed: {error}"


def _difference(got: Tensor, expected: Tensor) -> str | None:
    error = float((got.float() - expected.float()).abs().max() / expected.float().abs().max())
    return None if error <= _TOLERANCE else f"it differs from its reference by {error:.1e} of the maximum"


def _linear(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    # Bytes below 60 make every float16 scale among them finite and small.
    weights = [
        BlockMatrix(
            format,
            (3, 256),
            torch.randint(60, (3, format.row_bytes(256)), dtype=torch.uint8, generator=generator),
        )
        for format in Format  # noqa: A001
    ]
    x = torch.randn(5, 256, generator=generator)
    for weight in weights:
        (got,) = native(x, [weight], [None])
        problem = _difference(got, linear_torch(x, [weight], [None])[0])
        if problem:
            return f"for {weight.format_name} {problem}"
    return None


def _rms_norm(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    x, weight = torch.randn(2, 40, generator=generator), torch.randn(40, generator=generator)
    return _difference(native(x, weight, 1e-5), rms_norm_torch(x, weight, 1e-5))


def _silu_mul(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    gate, up = torch.randn(2, 40, generator=generator), torch.randn(2, 40, generator=generator)
    return _difference(native(gate, up), silu_mul_torch(gate, up))


def _paged(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """A slab of 3 pages of 4 tokens, 2 KV heads and dimension 8, and tables of 12 angles."""
    slab = torch.randn(3, 2, 2, 4, 8, generator=generator)
    angles = torch.rand(12, 4, generator=generator)
    return slab, angles.cos(), angles.sin()


def _write_kv(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    slab, cos, sin = _paged(generator)
    expected = slab.clone()
    slots, offsets = torch.tensor([2, 0], dtype=torch.int32), torch.tensor([3, 1], dtype=torch.int32)
    k, v = torch.randn(2, 2, 8, generator=generator), torch.randn(2, 2, 8, generator=generator)
    for write, target in ((native, slab), (write_kv_torch, expected)):
        write(target, slots, offsets, k, v, cos[:4], sin[:4])
    return _difference(slab, expected)


def _layouts() -> Iterator[PageLayout]:
    return (PageLayout(codec, 2, 4, 8) for codec in CODECS.values())


def _slots() -> tuple[Tensor, Tensor]:
    """Slots of two pages, and a position for each."""
    return torch.tensor([2, 0]).int(), torch.tensor([6, 2]).int()


def _encode_pages(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    kv, _, _ = _paged(generator)
    for layout in _layouts():
        if not torch.equal(native(kv, layout), encode_pages_torch(kv, layout)):
            return f"its {layout.codec.name} pages differ from its reference's"
    return None


def _gather_pages(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    kv, cos, sin = _paged(generator)
    for layout in _layouts():
        arguments = encode_pages_torch(kv, layout), layout, *_slots(), cos, sin, torch.float32
        got, expected = native(*arguments), gather_pages_torch(*arguments)
        problem = _difference(got[0], expected[0]) or _difference(got[1], expected[1])
        if problem:
            return f"for {layout.codec.name} {problem}"
    return None


def _attend_pages(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    kv, cos, sin = _paged(generator)
    q = torch.randn(1, 4, 8, generator=generator)
    slots, distances = _slots()
    for layout in _layouts():
        states = []
        for attend in (native, attend_pages_torch):
            state = AttentionState.empty(1, 4, 8)
            tables = slots[None], distances[None], torch.tensor([2]).int()
            attend(q, encode_pages_torch(kv, layout), layout, *tables, cos, sin, 0.4, state, True)
            states.append(torch.cat((state.highest[..., None], state.total[..., None], state.values), dim=-1))
        problem = _difference(*states)
        if problem:
            return f"for {layout.codec.name} {problem}"
    return None


def _attend_tail(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    tails, cos, sin = _paged(generator)
    q = torch.randn(2, 4, 8, generator=generator)
    slots, tokens = torch.tensor([2, 0]).int(), torch.tensor([3, 1]).int()
    for layout in _layouts():
        results = []
        for attend in (native, attend_tail_torch):
            state = AttentionState(torch.full((2, 4), 0.5), torch.full((2, 4), 2.0), q.flip(0).contiguous())
            results.append(attend(q, tails, layout, slots, tokens, cos, sin, 0.4, state))
        problem = _difference(*results)
        if problem:
            return f"for {layout.codec.name} {problem}"
    return None


def _page_bounds(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    kv, _, _ = _paged(generator)
    for layout in _layouts():
        arguments = encode_pages_torch(kv, layout), layout, BoundsLayout(2, 4, 8)
        if not torch.equal(native(*arguments), page_bounds_torch(*arguments)):
            return f"its bounds of {layout.codec.name} pages differ from its reference's"
    return None


def _bounds(count: int, generator: torch.Generator) -> tuple[Tensor, BoundsLayout, Tensor]:
    """The table of `count` pages, and their numbers in disorder."""
    layout, pages = BoundsLayout(2, 4, 8), PageLayout(CODECS["f32"], 2, 4, 8)
    kv = torch.randn(count, 2, 2, 4, 8, generator=generator)
    table = page_bounds_torch(encode_pages_torch(kv, pages), pages, layout)
    return table, layout, torch.randperm(count, generator=generator).int()


def _section_bounds(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    arguments = _bounds(SECTION_PAGES + 3, generator)
    same = torch.equal(native(*arguments), section_bounds_torch(*arguments))
    return None if same else "its bounds differ from its reference's"


def _select_pages(native: Callable[..., Any], generator: torch.Generator) -> str | None:
    count = 2 * SECTION_PAGES + 3
    table, layout, ids = _bounds(count, generator)
    _, cos, sin = _paged(generator)
    q, read = torch.randn(2, 1, 4, 8, generator=generator), torch.randn(2, 1, 4, generator=generator)
    limits = SelectionLimits(2, 9, 0.8)
    arguments = q, table, section_bounds_torch(table, layout, ids), layout, ids, torch.tensor([count, 7]).int()
    for distances in (torch.tensor([5]).int(), torch.randint(12, (2, count), generator=generator).int()):
        results = [
            select(*arguments, distances, cos, sin, 0.4, read, limits, SelectionScratch())
            for select in (native, select_pages_torch)
        ]
        if not all(torch.equal(a, b) for a, b in zip(*results, strict=True)):
            return "it selects other pages than its reference"
    return None


_CHECKS: dict[str, Callable[[Callable[..., Any], torch.Generator], str | None]] = {
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
}
