"""Argument checks of the native kernels, which read raw memory and must never be handed anything else."""

from functools import cache

import torch
from torch import Tensor

from octavo.engine.kv.codec import PageLayout

FLOATS = (torch.float32, torch.bfloat16)
MOST_DIM = 512
"""The largest head dimension: a constant of the C code."""


def require(op: str, dtype: torch.dtype, *tensors: Tensor) -> None:
    """ValueError unless every tensor is contiguous, on the CPU and of `dtype`."""
    for tensor in tensors:
        if tensor.dtype is not dtype or not tensor.is_contiguous() or tensor.is_cuda:
            raise ValueError(
                f"{op} takes contiguous {dtype} tensors on the CPU, not {tensor.dtype} {list(tensor.shape)} "
                f"with strides {list(tensor.stride())} on {tensor.device}"
            )


def require_shape(op: str, name: str, tensor: Tensor, *shape: int) -> None:
    """ValueError unless `tensor` has `shape`."""
    if tensor.shape != shape:
        raise ValueError(f"{op} takes {name} of shape {list(shape)}, not {list(tensor.shape)}")


def require_slab(op: str, slab: Tensor) -> tuple[int, int, int, int]:
    """The slots, KV heads, page size and head dimension of a slab; ValueError unless it is one."""
    if slab.dtype not in FLOATS:
        raise ValueError(f"{op} takes a bfloat16 or float32 slab, not {slab.dtype}")
    require(op, slab.dtype, slab)
    num_slots, two, kv_heads, page_size, dim = slab.shape
    if two != 2 or dim % 8 or not 0 < dim <= MOST_DIM:
        raise ValueError(
            f"{op} takes a slab [slots, 2, KV heads, page size, head dimension], the last a multiple of 8 "
            f"up to {MOST_DIM}, not {list(slab.shape)}"
        )
    return num_slots, kv_heads, page_size, dim


def require_pages(op: str, slab: Tensor, layout: PageLayout) -> None:
    """ValueError unless `slab` holds encoded pages of `layout`."""
    require(op, torch.uint8, slab)
    if slab.dim() != 2 or slab.shape[1] != layout.slot_bytes or layout.head_dim > MOST_DIM:
        raise ValueError(
            f"{op} takes a slab [slots, {layout.slot_bytes}] of pages with head dimensions up to {MOST_DIM}, not "
            f"{list(slab.shape)} with {layout.head_dim}"
        )


def require_angles(op: str, cos: Tensor, sin: Tensor, dim: int) -> None:
    """ValueError unless `cos` and `sin` are angle tables of pairs of `dim` dimensions."""
    require(op, torch.float32, cos, sin)
    if cos.dim() != 2 or cos.shape != sin.shape or cos.shape[1] * 2 != dim:
        raise ValueError(f"{op} takes cos and sin [positions, {dim // 2}], not {list(cos.shape)} and {list(sin.shape)}")


def describe(layout: PageLayout) -> int:
    """The address of `layout` as the C code reads it; valid for the life of the process."""
    return _description(layout).data_ptr()


def describe_tails(kv_heads: int, page_size: int, dim: int, dtype: torch.dtype) -> int:
    """The same for unfinished pages, which lie one after the other without padding."""
    return _tail_description(kv_heads, page_size, dim, dtype).data_ptr()


# A process has a handful of layouts.
@cache
def _tail_description(kv_heads: int, page_size: int, dim: int, dtype: torch.dtype) -> Tensor:
    size = kv_heads * page_size * dim * dtype.itemsize
    bits = dtype.itemsize * 8
    regions = 0, size, size, size, size, 2 * size, 2 * size
    return torch.tensor((kv_heads, page_size, dim, 2 * size, bits, bits, *regions), dtype=torch.int64)


@cache
def _description(layout: PageLayout) -> Tensor:
    keys, values = layout.keys, layout.values
    sizes = layout.num_kv_heads, layout.page_size, layout.head_dim, layout.slot_bytes, keys.bits, values.bits
    regions = keys.codes, keys.scales, keys.zeros, keys.first_token, values.codes, values.scales, values.zeros
    return torch.tensor((*sizes, *regions), dtype=torch.int64)
