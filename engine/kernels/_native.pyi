"""The CPU kernels in C; native/module.c has their arguments. Tensors are addresses of contiguous data."""

class Ops:
    def __init__(self, isa: str | None = None) -> None: ...
    @property
    def isa(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def has_many(self) -> bool: ...
    def multiply_many(self, x: int, n: int, cols: int, gated: int | None, *matrices: int | None) -> None: ...
    def attend_rows(
        self,
        kv_heads: int,
        dim: int,
        packed: int,
        q: int,
        cos: int,
        sin: int,
        angle_stride: int,
        n: int,
        heads: int,
        scale: float,
        highest: int,
        total: int,
        state_values: int,
        fresh: bool,
        out: int | None,
        *runs: int,
    ) -> None: ...
    def attend_far(
        self,
        layout: int,
        hadamard_size: int,
        slab: int,
        slots_in_slab: int,
        slots: int,
        starts: int,
        count: int,
        cos: int,
        sin: int,
        angles: int,
        begins: int,
        q: int,
        query_cos: int,
        query_sin: int,
        n: int,
        heads: int,
        scale: float,
        highest: int,
        total: int,
        values: int,
        out: int,
        /,
    ) -> None: ...
    def sample(
        self, logits: int, count: int, temperature: float, top_k: int, top_p: float, min_p: float, uniform: float, /
    ) -> int: ...
    def linear(self, x: int, n: int, cols: int, *matrices: int | None) -> None: ...
    def dequantize(
        self, ggml_type: int, data: int, row_bytes: int, rows: int, cols: int, out: int, out_bf16: bool, /
    ) -> None: ...
    def decode_scratch_bytes(self, model: int, n: int, /) -> int: ...
    def decode_step(self, model: int, step: int, eps: float, scale: float, first: int, last: int, /) -> int: ...
    def log_sums(self, highest: int, total: int, out: int, count: int, /) -> None: ...
    def tile_bytes(self, ggml_type: int, rows: int, cols: int, /) -> int: ...
    def pack_tiles(self, ggml_type: int, data: int, row_bytes: int, rows: int, cols: int, out: int, /) -> None: ...
    def expand_tiles(self, ggml_type: int, data: int, rows: int, cols: int, out: int, out_bf16: bool, /) -> None: ...
    def gather_tile_rows(
        self, ggml_type: int, data: int, rows: int, cols: int, ids: int, n: int, out: int, /
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
    def page_bounds(
        self,
        kv_heads: int,
        dim: int,
        stride: int,
        page_bytes: int,
        section_bytes: int,
        page_size: int,
        layout: int,
        pages: int,
        n: int,
        out: int,
        /,
    ) -> None: ...
    def section_bounds(
        self,
        kv_heads: int,
        dim: int,
        stride: int,
        page_bytes: int,
        section_bytes: int,
        page_size: int,
        boxes: int,
        capacity: int,
        page_ids: int,
        pages: int,
        n: int,
        out: int,
        /,
    ) -> None: ...
    def selection_bytes(
        self,
        kv_heads: int,
        dim: int,
        stride: int,
        page_bytes: int,
        section_bytes: int,
        page_size: int,
        heads: int,
        pages: int,
        cap: int,
        /,
    ) -> int: ...
    def select_pages(
        self,
        kv_heads: int,
        dim: int,
        stride: int,
        page_bytes: int,
        section_bytes: int,
        page_size: int,
        heads: int,
        pages: int,
        cap: int,
        q: int,
        rows: int,
        boxes: int,
        sketches: int,
        capacity: int,
        sections: int,
        closely: bool,
        page_ids: int,
        num_pages: int,
        distances: int,
        shared: bool,
        cos: int,
        sin: int,
        angles: int,
        read: int | None,
        scale: float,
        tokens: float,
        section_width: float,
        mass_target: float,
        floor: int,
        scratch: int,
        out: int,
        counts: int,
        looked_at: int | None,
        /,
    ) -> int: ...

def set_threads(count: int, /) -> None: ...
def threads() -> int:
    """0 until they are set."""
