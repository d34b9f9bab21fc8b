"""Pages of queries over the encoded pages that each of them chose: as exact as bfloat16 is, each page for itself."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kernels.encode import encode_pages_torch
from octavo.engine.kernels.far_rows import ChosenPages, attend_far_native, attend_far_torch
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kv.codec import CODECS, PageLayout

ANGLES = 300


class Case(NamedTuple):
    """Queries, an encoded slab and angles; what is read lies in ChosenPages beside it."""

    q: Tensor
    slab: Tensor
    layout: PageLayout
    cos: Tensor
    sin: Tensor
    positions: Tensor

    def attend(
        self, kernels: Kernels | None, far: ChosenPages, state: AttentionState, rows: slice = slice(None)
    ) -> Tensor:
        """In C, or by the reference; the state is changed. Of some whole pages of queries, if not of all."""
        q, turns = self.q[rows], (self.cos[self.positions[rows]], self.sin[self.positions[rows]])
        out = torch.empty(q.shape, dtype=torch.bfloat16)
        arguments = q, self.slab, self.layout, far, self.cos, self.sin, turns, self.layout.head_dim**-0.5, state, out
        if kernels is None:
            attend_far_torch(*arguments)
        else:
            assert kernels.native is not None
            attend_far_native(kernels.native, *arguments)
        return out


def _case(codec: str, kv_heads: int, dim: int, heads: int, rows: int, page_size: int = 32) -> Case:
    torch.manual_seed(rows)
    layout = PageLayout(CODECS[codec], kv_heads, page_size, dim)
    kv = torch.randn(9, 2, kv_heads, page_size, dim) + torch.randn(dim)
    kv[:, 0, :, 0] *= 5
    angles = torch.outer(torch.arange(ANGLES), 0.6 ** torch.arange(dim // 2))
    slab = encode_pages_torch(kv if codec == "f32" else kv.bfloat16(), layout)
    return Case(
        torch.randn(rows, heads, dim) * 0.4, slab, layout, angles.cos(), angles.sin(), torch.randint(ANGLES, (rows,))
    )


def _far(*counts: int) -> ChosenPages:
    """As many pages for each page of queries."""
    total = sum(counts)
    begins = torch.tensor([0, *counts]).cumsum(0)
    return ChosenPages(torch.randint(9, (total,)).int(), torch.randint(ANGLES, (total,)).int(), begins.int())


def _state(case: Case, *, empty: bool = False) -> AttentionState:
    """What other tokens left."""
    if empty:
        state = AttentionState.empty(*case.q.shape)
        state.clear()
        return state
    rows, heads, dim = case.q.shape
    return AttentionState(torch.randn(rows, heads) * 3, 1 + torch.rand(rows, heads), torch.randn(rows, heads, dim))


def _copy(state: AttentionState, rows: slice = slice(None)) -> AttentionState:
    return AttentionState(state.highest[rows].clone(), state.total[rows].clone(), state.values[rows].clone())


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("kv_heads", "dim", "heads", "rows", "page_size", "counts"),
    [
        (3, 64, 9, 70, 32, (5, 1, 12)),
        (2, 64, 14, 64, 32, (4, 9)),
        (1, 32, 20, 33, 32, (3, 2)),  # more heads than stay at hand
        (1, 96, 7, 5, 32, (6,)),
        (2, 256, 4, 40, 32, (5, 3)),
        (1, 128, 2, 150, 64, (2, 3, 1)),
    ],
)
def test_far_pages_add_up_with_what_was_read_before(
    block_kernels: Kernels,
    codec: str,
    kv_heads: int,
    dim: int,
    heads: int,
    rows: int,
    page_size: int,
    counts: tuple[int, ...],
) -> None:
    case, far = _case(codec, kv_heads, dim, heads, rows, page_size), _far(*counts)
    before = _state(case)
    states = [_copy(before) for _ in range(2)]
    found, expected = case.attend(block_kernels, far, states[0]).float(), case.attend(None, far, states[1]).float()
    assert (found - expected).abs().max() <= 2**-6 * expected.abs().max()
    found, expected = (state.highest + state.total.log() for state in states)
    assert (found - expected).abs().max() < 0.02


@pytest.mark.parametrize("codec", ["k8v4", "bf16"])
def test_a_page_of_queries_depends_on_no_other(block_kernels: Kernels, codec: str) -> None:
    """So chunks may be cut anywhere, and pages be read one after the other."""
    case, far, counts = _case(codec, 2, 64, 4, 90), _far(7, 3, 5), (7, 3, 5)
    before = _state(case)
    whole = case.attend(block_kernels, far, _copy(before))
    for at, count in enumerate(counts):
        begin = int(far.begins[at])
        one = ChosenPages(far.slots[begin : begin + count], far.starts[begin : begin + count], _far(count).begins)
        rows = slice(32 * at, min(32 * at + 32, 90))
        assert torch.equal(case.attend(block_kernels, one, _copy(before, rows), rows), whole[rows])


def test_scores_that_grow_a_lot_are_summed_anew(block_kernels: Kernels) -> None:
    """The running softmax starts from nothing, and later pages outweigh what came before by far."""
    case, far = _case("bf16", 1, 64, 2, 32), _far(9)
    far = far._replace(slots=torch.arange(9).int())
    case = case._replace(q=case.q * 80)
    found, expected = (case.attend(kernels, far, _state(case, empty=True)).float() for kernels in (block_kernels, None))
    assert found.isfinite().all()
    assert (found - expected).abs().mean() <= 2**-6 * expected.abs().max()


def test_what_is_not_there_is_refused(block_kernels: Kernels) -> None:
    case = _case("k8v4", 1, 64, 2, 40)
    good = _far(2, 2)
    bad = {
        "slab": good._replace(slots=torch.full((4,), 9).int()),
        "position": good._replace(starts=torch.full((4,), ANGLES).int()),
        "not there": good._replace(begins=torch.tensor([0, 2, 5]).int()),
        "begins": good._replace(begins=torch.tensor([0, 4]).int()),
    }
    for message, far in bad.items():
        with pytest.raises(ValueError, match=message):
            case.attend(block_kernels, far, _state(case))
    small = _case("k8v4", 1, 64, 2, 16, page_size=16)
    with pytest.raises(ValueError, match="cannot take"):
        small.attend(block_kernels, _far(1), _state(small))
