"""Where the attention of a chunk's queries adds up: over earlier pages, over the chunk itself, over far pages.

`MergedRows` has torch multiply, and puts the parts together by their log-sum-exp. `NativeRows` has the C kernels add
each part to a running softmax, where the processor multiplies blocks of bfloat16.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from octavo.engine.attention.products import Merged, attend
from octavo.engine.attention.setup import AttentionSetup
from octavo.engine.kernels.far_rows import ChosenPages
from octavo.engine.kernels.many_rows import Run, Seen
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.model.rope import RopeTable, rotate

KeysAndValues = tuple[Tensor, Tensor]
"""Of tokens side by side, keys at their angles: `[kv_heads, tokens, d]` each."""


class Angles:
    """Those of consecutive queries from `first` on; `alike`: all of them have the first one's."""

    def __init__(self, rope: RopeTable, first: int, count: int, *, alike: bool = False) -> None:
        rows = slice(first, first + (1 if alike else count))
        self.cos, self.sin = rope.cos[rows], rope.sin[rows]

    def rotate(self, q: Tensor) -> Tensor:
        """`q` [rows, heads, d]."""
        return rotate(q, self.cos[:, None], self.sin[:, None])


class Sight:
    """What each query sees of some tokens: those from `first` to before `last`, int32 [rows]."""

    def __init__(self, first: Tensor, last: Tensor, tokens: int) -> None:
        self.seen = Seen(first, last)
        self.tokens = tokens

    @cached_property
    def mask(self) -> Tensor:
        """0 where a query may look, elsewhere so low that nothing is left of a weight: float32 [rows, tokens]."""
        return _mask(self)


class OwnSights:
    """What each query of a chunk sees of the chunk itself.

    Of `num_pages` complete pages as they are `encoded` those before its own, of the tokens as they were `computed`
    its own page's up to itself; without encoded pages it is all tokens up to itself.
    """

    def __init__(self, length: int, num_pages: int, page_size: int, device: torch.device) -> None:
        query = torch.arange(length, dtype=torch.int32, device=device)
        page = query // page_size * page_size if num_pages else torch.zeros_like(query)
        self.encoded = Sight(torch.zeros_like(query), page, num_pages * page_size)
        self.computed = Sight(page, query + 1, length)

    @cached_property
    def mask(self) -> Tensor:
        """That of both, side by side."""
        return _mask(self.encoded, self.computed)


def _mask(*sights: Sight) -> Tensor:
    (first, _), tokens = sights[0].seen, sum(sight.tokens for sight in sights)
    mask, at = torch.zeros(len(first), tokens, device=first.device), 0
    for (begin, end), count in ((sight.seen, sight.tokens) for sight in sights):
        token = torch.arange(count, device=first.device)
        hidden = (token < begin[:, None]) | (token >= end[:, None])
        # Not -inf: where a query sees none of these, the result must be a number.
        mask[:, at : at + count].masked_fill_(hidden, torch.finfo(torch.float32).min)
        at += count
    return mask


class ChunkRows(Protocol):
    """Attention of one layer's queries of a chunk, so far."""

    def add(self, tokens: KeysAndValues, sight: Sight | None) -> None:
        """Earlier tokens, of which a query sees what `sight` says; None is everything."""

    def add_own(
        self, encoded: KeysAndValues | None, computed: KeysAndValues, sights: OwnSights, *, is_last: bool
    ) -> None:
        """The chunk's own tokens, those `computed` in whole pages; `is_last` where the result follows."""

    def add_far(self, rows: slice, angles: Angles, tokens: KeysAndValues) -> None:
        """Tokens that only some consecutive queries see, at other angles; every query of the chunk must get some."""

    def log_sums(self) -> Tensor:
        """Log-sum-exp of the scores: float32 `[heads, rows]`."""

    def result(self) -> Tensor:
        """`[rows, heads, d]`."""


class MergedRows:
    """Queries `q` float32 [rows, heads, d] at `angles`, multiplied in `dtype`."""

    def __init__(self, setup: AttentionSetup, q: Tensor, angles: Angles, dtype: torch.dtype) -> None:
        self._q, self._scale, self._dtype = q, setup.scale, dtype
        self._queries = angles.rotate(q).to(dtype).transpose(0, 1)
        self._merged = Merged()
        self._far: tuple[Tensor, Tensor] | None = None

    def add(self, tokens: KeysAndValues, sight: Sight | None) -> None:
        mask = None if sight is None else sight.mask
        self._merged.add(*attend(self._queries, *tokens, self._scale, mask=mask))

    def add_own(
        self, encoded: KeysAndValues | None, computed: KeysAndValues, sights: OwnSights, *, is_last: bool
    ) -> None:
        computed = computed[0][:, : len(self._q)], computed[1][:, : len(self._q)]
        if encoded is None:
            self._merged.add(*attend(self._queries, *computed, self._scale, is_causal=True))
            return
        keys, values = (torch.cat(pair, dim=1) for pair in zip(encoded, computed, strict=True))
        self._merged.add(*attend(self._queries, keys, values, self._scale, mask=sights.mask))

    def add_far(self, rows: slice, angles: Angles, tokens: KeysAndValues) -> None:
        if self._far is None:
            near = self._merged.lse
            out = torch.empty((*near.shape, self._q.shape[-1]), dtype=self._dtype, device=near.device)
            self._far = out, torch.empty_like(near)
        queries = angles.rotate(self._q[rows]).to(self._dtype).transpose(0, 1)
        self._far[0][:, rows], self._far[1][:, rows] = attend(queries, *tokens, self._scale)

    def log_sums(self) -> Tensor:
        return self._merged.lse

    def result(self) -> Tensor:
        if self._far is not None:
            self._merged.add(*self._far)
        return self._merged.out.transpose(0, 1)


class NativeRows:
    """The same by `attend_rows` and `attend_far`, in bfloat16; `state` is memory for these rows."""

    def __init__(self, setup: AttentionSetup, q: Tensor, angles: Angles, state: AttentionState) -> None:
        self._setup, self._q, self._angles, self._state = setup, q, angles, state
        self._runs: list[Run] = []  # to be read with what comes next: rows are loaded and stored once for all
        self._is_empty = True
        self._out: Tensor | None = None

    def add(self, tokens: KeysAndValues, sight: Sight | None) -> None:
        if self._runs:
            self._read(slice(None), self._angles, self._runs)
        seen = Seen.everything(len(self._q), tokens[0].shape[1]) if sight is None else sight.seen
        self._runs = [Run(*tokens, seen)]

    def add_own(
        self, encoded: KeysAndValues | None, computed: KeysAndValues, sights: OwnSights, *, is_last: bool
    ) -> None:
        if encoded is not None:
            self._runs.append(Run(*encoded, sights.encoded.seen))
        if is_last:
            self._out = torch.empty(self._q.shape, dtype=torch.bfloat16)
        self._read(slice(None), self._angles, [*self._runs, Run(*computed, sights.computed.seen)], self._out)

    def add_far(self, rows: slice, angles: Angles, tokens: KeysAndValues) -> None:
        seen = Seen.everything(len(self._q[rows]), tokens[0].shape[1])
        self._read(rows, angles, [Run(*tokens, seen)])

    def _read(self, rows: slice, angles: Angles, runs: list[Run], out: Tensor | None = None) -> None:
        setup, state = self._setup, self._state_of(rows)
        assert setup.attend_rows is not None
        setup.attend_rows(
            self._q[rows], runs, angles.cos, angles.sin, setup.scale, state, is_first=self._is_empty, out=out
        )
        self._is_empty = False

    def _state_of(self, rows: slice) -> AttentionState:
        return AttentionState(self._state.highest[rows], self._state.total[rows], self._state.values[rows])

    def add_pages(self, rows: slice, turns: tuple[Tensor, Tensor], pages: ChosenPages) -> None:
        """Far pages, as they are encoded, for some pages of queries at the angles `turns`; and the result follows."""
        setup, rope = self._setup, self._setup.rope
        assert setup.attend_far is not None
        if self._out is None:
            self._out = torch.empty(self._q.shape, dtype=torch.bfloat16)
        setup.attend_far(
            self._q[rows], setup.pool.slab, setup.pool.layout, pages, rope.cos, rope.sin,
            (turns[0][rows], turns[1][rows]), setup.scale, self._state_of(rows), self._out[rows],
        )  # fmt: skip

    def log_sums(self) -> Tensor:
        return self._setup.log_sums(self._state).t()

    def result(self) -> Tensor:
        if self._out is not None:
            return self._out
        state = self._state
        return (state.values / state.total.unsqueeze(-1)).to(torch.bfloat16)
