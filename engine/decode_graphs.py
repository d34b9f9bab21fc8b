"""The decode step as CUDA graphs: recorded once for each shape, then replayed without Python launching its kernels.

A graph reads its input from tensors that stay where they are, and is made for a number of sequences and a number of
pages, which is rounded up to a power of two. Graphs are kept up to a fixed number, the least recently used gives way,
and all share one memory pool: any number of different lengths takes no more than that.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from octavo.engine.attention.setup import AttentionSetup
from octavo.engine.kernels.paged_attention import AttentionState
from octavo.engine.kv.sequence_pages import SequencePages
from octavo.engine.model.decoder import Decoder

_log = logging.getLogger(__name__)

MOST_GRAPHS = 32
_LEAST_PAGES = 8

Step = Callable[[], Tensor]
Capture = Callable[[Step], tuple[Callable[[], None], Tensor]]
"""Records a step; returns what replays it, and the tensor that every replay writes its result to."""


@dataclass(frozen=True, slots=True, eq=False)
class StepInput:
    """What a step reads, of n sequences: int64 token ids [n]; int32 offsets in the unfinished page [n], slots of pages
    [layers, n, pages], their distances [n, pages] and numbers [n], and slots of unfinished pages [layers, n]."""

    token_ids: Tensor
    offsets: Tensor
    slots: Tensor
    distances: Tensor
    counts: Tensor
    tails: Tensor

    def copy_(self, other: StepInput) -> None:
        for name in self.__slots__:
            getattr(self, name).copy_(getattr(other, name), non_blocking=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    given: StepInput
    replay: Callable[[], None]
    hidden: Tensor


class DecodeGraphs:
    """Graphs of `decoder` over the pages of `setup`; `state` is memory for as many rows as a step can have."""

    def __init__(
        self, decoder: Decoder, setup: AttentionSetup, state: AttentionState, capture: Capture | None = None
    ) -> None:
        self._decoder, self._setup, self._state = decoder, setup, state
        self._capture = capture or CudaCapture()
        self._graphs: OrderedDict[tuple[int, int], _Graph] = OrderedDict()
        self._works = True

    @property
    def num_graphs(self) -> int:
        return len(self._graphs)

    def decode(self, token_ids: list[int], positions: list[int], sequences: list[SequencePages]) -> Tensor | None:
        """Hidden states as `ModelRunner.decode` returns them, valid until the next call.

        None where a row selects pages or reads one that is not on the device: such a step waits for the device.
        """
        given = self._input(token_ids, positions, sequences) if self._works else None
        if given is None:
            return None
        graph = self._graph_for(given)
        if graph is None:
            return None
        graph.given.copy_(given)
        graph.replay()
        return graph.hidden

    def _graph_for(self, given: StepInput) -> _Graph | None:
        """The graph of this shape, recorded now if there is none; None, after a warning, where that fails."""
        key = given.distances.shape[0], given.distances.shape[1]
        graph = self._graphs.get(key)
        if graph is None:
            while len(self._graphs) >= MOST_GRAPHS:
                self._graphs.popitem(last=False)
            try:
                replay, hidden = self._capture(lambda: self._step(given))
            except RuntimeError as error:
                _log.warning("decoding without CUDA graphs, which is slower: %s", str(error).splitlines()[0])
                self._works = False
                return None
            graph = self._graphs[key] = _Graph(given, replay, hidden)
        self._graphs.move_to_end(key)
        return graph

    def _step(self, given: StepInput) -> Tensor:
        """The step itself, which asks the device for nothing."""
        setup, pool, rope = self._setup, self._setup.pool, self._setup.rope
        n = len(given.token_ids)
        state = AttentionState(self._state.highest[:n], self._state.total[:n], self._state.values[:n])

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            tails, kernels = given.tails[layer], setup.kernels
            kernels.write_kv(pool.tails, tails, given.offsets, k, v, *setup.page_angles)
            kernels.attend_pages(
                q, pool.slab, pool.layout, given.slots[layer], given.distances, given.counts, rope.cos, rope.sin,
                setup.scale, state, True,
            )  # fmt: skip
            return kernels.attend_tail(
                q, pool.tails, pool.layout, tails, given.offsets + 1, rope.cos, rope.sin, setup.scale, state
            )

        return self._decoder.forward(given.token_ids, attend, torch.float32)

    def _input(self, token_ids: list[int], positions: list[int], sequences: list[SequencePages]) -> StepInput | None:
        pool, plan = self._setup.pool, self._setup.plan
        pages = [np.array(sequence.page_ids, dtype=np.int64) for sequence in sequences]
        if not all(plan.is_dense(position) for position in positions):
            return None
        if any((pool.num_resident[ids] < pool.num_layers).any() for ids in pages):
            return None
        counts = [len(ids) for ids in pages]
        self._setup.tiers.counters.layer_reads += sum(counts) * pool.num_layers
        most = 1 << (max(_LEAST_PAGES, *counts) - 1).bit_length()
        slots = np.zeros((pool.num_layers, len(pages), most), dtype=np.int32)
        distances = np.zeros((len(pages), most), dtype=np.int32)
        for index, (ids, position) in enumerate(zip(pages, positions, strict=True)):
            slots[:, index, : len(ids)] = pool.slots[:, ids]
            distances[index, : len(ids)] = position - np.arange(len(ids)) * pool.page_size
        device = pool.slab.device
        offsets = [position % pool.page_size for position in positions]
        return StepInput(
            torch.tensor(token_ids, dtype=torch.int64, device=device),
            torch.tensor(offsets, dtype=torch.int32, device=device),
            torch.from_numpy(slots).to(device),
            torch.from_numpy(distances).to(device),
            torch.tensor(counts, dtype=torch.int32, device=device),
            pool.tail_slots([sequence.tail for sequence in sequences]),
        )


class CudaCapture:
    """Records on a stream of its own; the graphs it makes share one pool, because no two of them run at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, step: Step) -> tuple[Callable[[], None], Tensor]:
        cuda: Any = torch.cuda
        stream, current = cuda.Stream(), cuda.current_stream()
        stream.wait_stream(current)
        with cuda.stream(stream):
            step()  # compiles kernels, and lets libraries allocate what they keep
        current.wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            hidden = step()
        return graph.replay, hidden
