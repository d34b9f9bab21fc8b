"""The CPU kernels in C; native/module.c has their arguments. Tensors are addresses of contiguous data."""

class Ops:
    def __init__(self, isa: str | None = None) -> None: ...
    @property
    def isa(self) -> str: ...
    @property
    def threads(self) -> int: ...
    def linear(self, x: int, n: int, cols: int, *matrices: int | None) -> None: ...
    def dequantize(
        self, ggml_type: int, data: int, row_bytes: int, rows: int, cols: int, out: int, out_bf16: bool, /
    ) -> None: ...
    def rms_norm(
        self,
        x: int,
        weight: int,
        residual: int | None,
        out: int,
        n: int,
        d: int,
        eps: float,
        out_bf16: bool,
        /,
    ) -> None: ...
    def silu_mul(self, gate: int, up: int, out: int, count: int, in_bf16: bool, out_bf16: bool, /) -> None: ...
    def write_kv(
        self,
        slab: int,
        slots_in_slab: int,
        bf16: bool,
        kv_heads: int,
        page_size: int,
        dim: int,
        slots: int,
        offsets: int,
        k: int,
        v: int,
        cos: int,
        sin: int,
        n: int,
        /,
    ) -> None: ...
    def encode_pages(self, layout: int, hadamard_size: int, pages: int, bf16: bool, n: int, out: int, /) -> None: ...
    def gather_pages(
        self,
        layout: int,
        hadamard_size: int,
        slab: int,
        slots_in_slab: int,
        slots: int,
        starts: int,
        n: int,
        cos: int,
        sin: int,
        angles: int,
        out_bf16: bool,
        keys: int,
        values: int,
        /,
    ) -> None: ...
    def attend_pages(
        self,
        layout: int,
        hadamard_size: int,
        slab: int,
        slots_in_slab: int,
        q: int,
        n: int,
        heads: int,
        slots: int,
        distances: int,
        num_pages: int,
        max_pages: int,
        cos: int,
        sin: int,
        angles: int,
        scale: float,
        highest: int,
        total: int,
        values: int,
        fresh: bool,
        /,
    ) -> None: ...
    def attend_tail(
        self,
        layout: int,
        hadamard_size: int,
        rotated_values: bool,
        tails: int,
        tails_in_slab: int,
        q: int,
        n: int,
        heads: int,
        slots: int,
        tokens: int,
        cos: int,
        sin: int,
        angles: int,
        scale: float,
        highest: int,
        total: int,
        values: int,
        out: int,
        /,
    ) -> None: ...

def set_threads(count: int, /) -> None: ...
def threads() -> int:
    """0 until they are set."""
