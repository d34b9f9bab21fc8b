"""Argument checks of the native kernels, which read raw memory and must never be handed anything else."""

import torch
from torch import Tensor

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
