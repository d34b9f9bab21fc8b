"""Compiled kernels against torch's over random shapes: Triton's in its interpreter or on a GPU, C under sanitizers.

As a script it makes every check of the kernels it is told, "native" or "triton", and says which of them failed.
"""

import sys
import traceback
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from octavo.engine.kernels.activation import silu_mul_torch
from octavo.engine.kernels.bounds import PageBounds, page_bounds_torch, section_bounds_torch
from octavo.engine.kernels.dispatch import Kernels, load_kernels
from octavo.engine.kernels.encode import encode_pages_torch
from octavo.engine.kernels.gather import gather_pages_torch
from octavo.engine.kernels.kv_write import write_kv_torch
from octavo.engine.kernels.linear import linear_torch
from octavo.engine.kernels.norm import rms_norm_torch
from octavo.engine.kernels.paged_attention import AttentionState, attend_pages_torch, attend_tail_torch
from octavo.engine.kernels.sampling import lowest_kept, sample_torch
from octavo.engine.kernels.select import CANDIDATES, SelectionLimits, SelectionScratch, select_pages_torch
from octavo.engine.kv.bounds import SECTION_PAGES, BoundsLayout
from octavo.engine.kv.codec import CODECS, PageLayout
from octavo.engine.weights.formats import Format
from octavo.engine.weights.matrix import BlockMatrix

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2**-8}
ANGLES = 400


class Case:
    """Random numbers of one case, and pages made of them."""

    def __init__(self, seed: int, device: str) -> None:
        self.device = device
        self.generator = torch.Generator().manual_seed(seed)

    def pick(self, *choices: int) -> int:
        return choices[int(torch.randint(len(choices), (), generator=self.generator))]

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator).to(self.device)

    def integers(self, end: int, *shape: int) -> Tensor:
        return torch.randint(end, shape, generator=self.generator, dtype=torch.int32).to(self.device)

    def order(self, count: int) -> Tensor:
        return torch.randperm(count, generator=self.generator).int().to(self.device)

    def angles(self, dim: int) -> tuple[Tensor, Tensor]:
        angles = torch.outer(torch.arange(ANGLES), 0.7 ** torch.arange(dim // 2)).to(self.device)
        return angles.cos(), angles.sin()

    def kv(self, layout: PageLayout, count: int) -> Tensor:
        """Channels of unlike size and centre, a larger first token, in the type of an unfinished page."""
        shape = layout.num_kv_heads, layout.page_size, layout.head_dim
        kv = self.normal(count, 2, *shape) * self.normal(layout.head_dim) + 2 * self.normal(layout.head_dim)
        kv[:, :, :, 0] *= 20
        return kv if layout.codec.name == "f32" else kv.bfloat16()


def close(got: Tensor, expected: Tensor, tolerance: float = TOLERANCE[torch.float32]) -> None:
    """Within `tolerance` of the largest."""
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    error = float((got.float() - expected.float()).abs().max())
    largest = float(expected.float().abs().max())
    assert error <= tolerance * largest, f"differs by {error / largest:.1e} of the largest"


def attention(kernels: Kernels, device: str) -> None:
    """GQA groups, page counts, codecs and tails; calls that are cut at runs of pages give the same bits."""
    shapes = ((9, 3, 64, 32), (14, 2, 64, 16), (8, 2, 128, 32), (2, 1, 24, 4), (3, 1, 72, 40))
    for number, name in enumerate(CODECS):
        heads, kv_heads, dim, size = shapes[number]
        case, layout = Case(number, device), PageLayout(CODECS[name], kv_heads, size, dim)
        counts = torch.tensor([case.pick(0, 1, 3), case.pick(4, 5, 9), 66 if number == 3 else 2]).int().to(device)
        n, most = len(counts), int(counts.max())
        slab = encode_pages_torch(case.kv(layout, 80), layout)
        tables = case.integers(80, n, most), case.integers(ANGLES, n, most), counts
        q, angles = case.normal(n, heads, dim), case.angles(dim)
        tails = case.kv(layout, 4)
        tail = case.order(4)[:n], 1 + case.integers(size, n)
        for at, count in zip(*(x.tolist() for x in tail), strict=True):
            tails[at, :, :, count:] = torch.inf  # not written
        results = []
        for attend, finish, cut in (
            (attend_pages_torch, attend_tail_torch, most),
            (kernels.attend_pages, kernels.attend_tail, most),
            (kernels.attend_pages, kernels.attend_tail, 64),
        ):
            state = AttentionState.empty(n, heads, dim, device)
            for begin in range(0, most, cut):
                part = (x[:, begin : begin + cut].contiguous() for x in tables[:2])
                attend(q, slab, layout, *part, (counts - begin).clamp(0, cut), *angles, 0.1, state, begin == 0)
            results.append(finish(q, tails, layout, *tail, *angles, 0.1, state))
        close(results[1], results[0])
        assert torch.equal(results[1], results[2])


def codecs(kernels: Kernels, device: str) -> None:
    """Pages, their decoding and their bounds, to the bit."""
    for number, (size, dim) in enumerate(((32, 64), (2, 8), (40, 72), (16, 24), (33, 96))):
        for name in CODECS:
            case, layout = Case(number, device), PageLayout(CODECS[name], 2, size, dim)
            kv = case.kv(layout, 3)
            kv[1] *= (0.0, 1e-8, 3e4, 1e20, 1.0)[number]
            kv[2, 0] = kv[2, 0, 0, 0, 0]
            pages = kernels.encode_pages(kv, layout)
            assert torch.equal(pages, encode_pages_torch(kv, layout)), (name, size, dim)
            dtype = torch.float32 if number % 2 else torch.bfloat16
            gather = pages, layout, case.order(3), case.integers(ANGLES, 3), *case.angles(dim), dtype
            for got, expected in zip(kernels.gather_pages(*gather), gather_pages_torch(*gather), strict=True):
                assert torch.equal(got.view(torch.uint8), expected.view(torch.uint8)), (name, size, dim)
            if number != 3:  # 1e20 has no float16 that bounds it
                boxes = BoundsLayout(2, size, dim)
                bounds = kernels.page_bounds(pages, layout, boxes)
                assert torch.equal(bounds, page_bounds_torch(pages, layout, boxes)), (name, size, dim)


def selection(kernels: Kernels, device: str) -> None:
    """The pages that torch selects, and the sections they are estimated by: all weighed, or where most are left out."""
    shapes = [(2, 6, 2, 64, 4, 70), (2, 4, 4, 24, 32, 37), (2, 7, 1, 32, 33, 15), (2, 2, 1, 8, 4, 1)]
    if kernels.native:  # Triton's interpreter would take minutes
        shapes.append((8, 18, 2, 96, 16, 600))
    for seed, (queries, heads, kv_heads, dim, size, count) in enumerate(shapes):
        case, layout = Case(seed, device), PageLayout(CODECS["k8v8"], kv_heads, size, dim)
        boxes = BoundsLayout(kv_heads, size, dim)
        bounds = page_bounds_torch(encode_pages_torch(case.kv(layout, count), layout), layout, boxes)
        bounds = PageBounds.split(bounds, boxes)
        ids = case.order(count)
        sections = section_bounds_torch(bounds.boxes, boxes, ids)
        assert torch.equal(kernels.section_bounds(bounds.boxes, boxes, ids), sections)
        rows = 3
        q, read = case.normal(rows, queries, heads, dim), case.normal(rows, queries, heads) * 3
        num_pages = torch.tensor([count, count // 2, 0]).int().to(device)
        for distances, limits, given in (
            (case.integers(ANGLES, 1), SelectionLimits(2, 9, 0.8), read),
            (case.integers(ANGLES, 1), SelectionLimits(0, 1, 0.8), read),
            (case.integers(ANGLES, rows, count), SelectionLimits(1, 2, 0.9), read),
            (case.integers(ANGLES, rows, count), SelectionLimits(0, 200, 0.99), None),
        ):
            arguments = boxes, ids, num_pages, distances, *case.angles(dim), 0.2, given, limits, SelectionScratch()
            most = CANDIDATES * limits.cap
            looked_at = torch.zeros(2, rows, most, dtype=torch.int32, device=device)
            for weighed in (sections, None)[: 2 if given is not None and count <= most + SECTION_PAGES else 1]:
                outputs = (None, None) if weighed is None else looked_at
                got = kernels.select_pages(q, bounds, weighed, *arguments, outputs[0])
                expected = select_pages_torch(q, bounds, weighed, *arguments, outputs[1])
                assert torch.equal(got[1], expected[1])
                assert torch.equal(got[0], expected[0])
            assert torch.equal(*looked_at)


def products(kernels: Kernels, device: str) -> None:
    """Every weight format: multiplied in place, and expanded for more rows, exactly."""
    for number, kind in enumerate(Format):
        case, cols = Case(number, device), max(kind.block_size, 32) * (2 if kind.block_size > 1 else 1)
        cols -= 5 if kind.block_size == 1 else 0
        if kind.block_size == 1:
            dtype = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[kind.name]
            data = case.normal(9, cols).to(dtype).view(torch.uint8)
        else:  # bytes below 60 make every float16 scale among them small
            data = case.integers(60, 9, kind.row_bytes(cols)).to(torch.uint8)
        matrix, bias = BlockMatrix(kind, (9, cols), data), case.normal(9)
        x = case.normal(3, cols)
        close(kernels.linear(x, [matrix], [bias])[0], linear_torch(x, [matrix], [bias])[0])
        eye = torch.eye(cols, device=device, dtype=torch.bfloat16)
        arranged = kernels.arrange(matrix)
        rounded = kernels.linear(x, [arranged], [bias])[0]
        close(rounded, linear_torch(x, [matrix], [bias])[0], 1e-3)
        rows = case.order(9).long()
        assert torch.equal(arranged.gather_rows(rows, torch.float32), matrix.gather_rows(rows, torch.float32))
        for weight in (matrix, arranged):
            expanded, plain = kernels.linear(eye, [weight, weight], [None, bias])
            assert torch.equal(expanded.T, matrix.dequantize(torch.bfloat16).float()), kind.name
            close(plain, expanded + bias)


def elementwise(kernels: Kernels, device: str) -> None:
    """Norms, activations and the writing of K and V."""
    for seed, dim in enumerate((8, 72, 960)):
        case = Case(seed, device)
        x, weight, residual = case.normal(3, dim), case.normal(dim), case.normal(3, dim)
        added = residual.clone()
        for dtype in (torch.float32, torch.bfloat16):
            close(kernels.rms_norm(x, weight, 1e-5, dtype=dtype), rms_norm_torch(x, weight, 1e-5, dtype=dtype),
                  TOLERANCE[dtype])  # fmt: skip
            gate, up = case.normal(3, dim).to(dtype) * 5, case.normal(3, dim).to(dtype)
            close(kernels.silu_mul(gate, up), silu_mul_torch(gate, up), TOLERANCE[dtype])
        close(kernels.rms_norm(x, weight, 1e-5, added), rms_norm_torch(x, weight, 1e-5, residual))
        assert torch.equal(added, residual)
    for dtype, dim in ((torch.float32, 24), (torch.bfloat16, 64)):
        case = Case(dim, device)
        slab = case.normal(5, 2, 3, 16, dim).to(dtype)
        expected, places = slab.clone(), case.order(5 * 16)[:9]
        rows = case.normal(9, 3, dim), case.normal(9, 3, dim)
        angles = [table[:16] for table in case.angles(dim)]
        for write, target in ((kernels.write_kv, slab), (write_kv_torch, expected)):
            write(target, places // 16, places % 16, *rows, *angles)
        assert torch.equal(slab.view(torch.uint8), expected.view(torch.uint8))


def sampling(kernels: Kernels, device: str) -> None:
    """The token whose share of the numbers from 0 to 1 holds the one drawn, or ends within rounding of it."""
    for seed, vocabulary in enumerate((1, 7, 300, 4096, 5001, 9000)):
        case = Case(seed, device)
        logits = case.normal(vocabulary) * 5
        for top_k, top_p, min_p in ((0, 1.0, 0.0), (1, 1.0, 0.0), (9, 0.7, 0.0), (0, 0.9, 0.1), (12, 1.0, 1.0)):
            temperature = float(case.pick(1, 2, 8)) / 4
            scaled = logits / temperature
            kept = scaled >= lowest_kept(scaled, top_k, top_p, min_p)
            ends = scaled.masked_fill(~kept, -torch.inf).double().softmax(-1).cumsum(0)
            for uniform in (0.0, case.pick(*range(1000)) / 1000, 1 - 2**-53):
                token = kernels.sample(logits, temperature, top_k, top_p, min_p, uniform)
                assert bool(kept[token]), (vocabulary, top_k, top_p, min_p)
                assert float(ends[token - 1]) * (token > 0) - 1e-5 <= uniform <= float(ends[token]) + 1e-5
    logits = torch.zeros(6, device=device)  # equals all stay, or all go
    assert {kernels.sample(logits, 1.0, 2, 0.5, 0.5, number / 6 + 0.01) for number in range(6)} == set(range(6))
    assert sample_torch(logits, 1.0, 2, 0.5, 0.5, 0.99) == 5


CHECKS = attention, codecs, selection, products, elementwise, sampling


def failures(checks: Iterable[Callable[..., None]], *arguments: object) -> int:
    """The number of checks that failed, each of which is told."""
    failed = 0
    for check in checks:
        try:
            check(*arguments)
        except Exception:
            traceback.print_exc()
            print(f"{check.__name__} failed", file=sys.stderr)
            failed += 1
    return failed


def main() -> int:
    """The number of checks that failed."""
    return failures(CHECKS, load_kernels("cpu", prefer=sys.argv[1]), "cpu")  # type: ignore[arg-type]  # of the names above


if __name__ == "__main__":
    sys.exit(main())
