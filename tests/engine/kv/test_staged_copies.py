"""The order of copies to a GPU, with a stand-in for CUDA that takes notes."""

from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from octavo.engine.kv.staged_copies import _BUFFER_BYTES, _NUM_BUFFERS, StagedCopies


class NotingCuda:
    """Streams and events that write down what they are asked for."""

    def __init__(self) -> None:
        self.notes: list[tuple[Any, ...]] = []
        self.compute = self._Stream(self)

    class _Stream:
        def __init__(self, cuda: "NotingCuda") -> None:
            self._cuda = cuda

        def wait_stream(self, other: Any) -> None:
            assert other is self._cuda.compute
            self._cuda.notes.append(("copy waits",))

        def wait_event(self, event: Any) -> None:
            assert self is self._cuda.compute
            self._cuda.notes.append(("compute waits", event.number))

    class _Event:
        def __init__(self, cuda: "NotingCuda", number: int) -> None:
            self._cuda, self.number = cuda, number

        def synchronize(self) -> None:
            self._cuda.notes.append(("filled", self.number))

        def record(self, stream: Any) -> None:
            assert stream is not self._cuda.compute
            self._cuda.notes.append(("copied", self.number))

    events = 0

    def Stream(self) -> Any:  # noqa: N802
        return self._Stream(self)

    def Event(self) -> Any:  # noqa: N802
        self.events += 1
        return self._Event(self, self.events - 1)

    def current_stream(self) -> Any:
        return self.compute

    @contextmanager
    def stream(self, stream: Any) -> Any:
        assert stream is not self.compute
        yield


def test_a_buffer_is_filled_again_only_after_its_event() -> None:
    cuda, size = NotingCuda(), _BUFFER_BYTES // 2
    slab = torch.zeros(40, size, dtype=torch.uint8)
    copies = StagedCopies(slab, cuda)
    count = 2 * _NUM_BUFFERS + 3  # two rows a buffer: they go round once and begin again
    encoded = torch.randint(256, (count, size), dtype=torch.uint8)
    slots = np.random.default_rng(0).permutation(40)[:count]

    copies.write(slots, encoded)

    assert torch.equal(slab[slots], encoded)
    assert not slab[np.setdiff1d(np.arange(40), slots)].any()
    steps = [("filled",), ("copy waits",), ("copied",), ("compute waits",)]
    assert [note[:1] for note in cuda.notes] == steps * (_NUM_BUFFERS + 2)
    numbers = [note[1] for note in cuda.notes if note[0] == "copied"]
    assert numbers == [*range(_NUM_BUFFERS), 0, 1]


def test_what_was_given_may_change_at_once() -> None:
    slab = torch.zeros(4, 64, dtype=torch.uint8)
    copies, encoded = StagedCopies(slab, NotingCuda()), torch.full((2, 64), 7, dtype=torch.uint8)
    copies.write(np.array([3, 1]), encoded)
    encoded.zero_()
    assert slab[:, 0].tolist() == [0, 7, 0, 7]


def test_nothing_is_nothing() -> None:
    cuda = NotingCuda()
    StagedCopies(torch.zeros(4, 64, dtype=torch.uint8), cuda).write(np.zeros(0, dtype=np.int64), torch.empty(0, 64))
    assert cuda.notes == []
