"""Every operation in Triton. Importing this needs the package `triton`."""

from __future__ import annotations

from typing import Any

from octavo.engine.kernels.activation_triton import silu_mul_triton
from octavo.engine.kernels.bounds_triton import page_bounds_triton, section_bounds_triton
from octavo.engine.kernels.encode_triton import encode_pages_triton
from octavo.engine.kernels.gather_triton import gather_pages_triton
from octavo.engine.kernels.kv_write_triton import write_kv_triton
from octavo.engine.kernels.linear_triton import linear_triton
from octavo.engine.kernels.norm_triton import rms_norm_triton
from octavo.engine.kernels.paged_attention_triton import attend_pages_triton, attend_tail_triton
from octavo.engine.kernels.sampling_triton import sample_triton
from octavo.engine.kernels.select_triton import select_pages_triton
from octavo.engine.kernels.triton_jit import is_interpreted

LABEL = "triton, interpreted" if is_interpreted() else "triton"

IMPLEMENTATIONS: dict[str, Any] = {
    "linear": linear_triton,
    "rms_norm": rms_norm_triton,
    "silu_mul": silu_mul_triton,
    "write_kv": write_kv_triton,
    "encode_pages": encode_pages_triton,
    "gather_pages": gather_pages_triton,
    "attend_pages": attend_pages_triton,
    "attend_tail": attend_tail_triton,
    "page_bounds": page_bounds_triton,
    "section_bounds": section_bounds_triton,
    "select_pages": select_pages_triton,
    "sample": sample_triton,
}
