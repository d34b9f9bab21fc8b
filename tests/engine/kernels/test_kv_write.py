"""Writing keys and values into unfinished pages, against the plain reference."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from octavo.engine.kernels.dispatch import Kernels
from octavo.engine.kernels.kv_write import write_kv_torch

AngleTables = Callable[[int, int], tuple[Tensor, Tensor]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [8, 64, 72, 128])
def test_writing_is_the_references_to_the_bit(
    native_kernels: Kernels, dtype: torch.dtype, dim: int, angle_tables: AngleTables
) -> None:
    torch.manual_seed(0)
    slab = torch.randn(9, 2, 3, 16, dim).to(dtype)
    expected = slab.clone()
    places = torch.randperm(9 * 16)[:100]
    k, v = torch.randn(2, 100, 3, dim)
    v[0, 0, 0] = float("inf")
    cos, sin = (table.float() for table in angle_tables(16, dim))
    for write, target in ((native_kernels.write_kv, slab), (write_kv_torch, expected)):
        write(target, (places // 16).int(), (places % 16).int(), k, v, cos, sin)
    assert torch.equal(slab.view(torch.uint8), expected.view(torch.uint8))


def test_not_a_number_stays_one(native_kernels: Kernels, angle_tables: AngleTables) -> None:
    slab, rows = torch.zeros(1, 2, 1, 4, 8, dtype=torch.bfloat16), torch.full((1, 1, 8), torch.nan)
    cos, sin = (table.float() for table in angle_tables(4, 8))
    native_kernels.write_kv(slab, torch.tensor([0]).int(), torch.tensor([2]).int(), rows, rows, cos, sin)
    assert slab[0, :, 0, 2].isnan().all()


def test_a_write_out_of_range_is_refused(native_kernels: Kernels, angle_tables: AngleTables) -> None:
    slab, rows = torch.zeros(2, 2, 1, 4, 8), torch.zeros(1, 1, 8)
    cos, sin = (table.float() for table in angle_tables(4, 8))
    for slot, offset in ((2, 0), (-1, 0), (0, 4)):
        with pytest.raises(ValueError, match="is not in the"):
            native_kernels.write_kv(
                slab, torch.tensor([slot]).int(), torch.tensor([offset]).int(), rows, rows, cos, sin
            )
    assert not slab.any()
    with pytest.raises(ValueError, match="multiple of 8"):
        native_kernels.write_kv(
            torch.zeros(2, 2, 1, 4, 12),
            torch.tensor([0]).int(),
            torch.tensor([0]).int(),
            torch.zeros(1, 1, 12),
            torch.zeros(1, 1, 12),
            torch.zeros(4, 6),
            torch.zeros(4, 6),
        )
