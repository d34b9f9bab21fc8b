"""Named sequences of page accesses, which `octavo bench eviction` replays. Keys are small integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]

NUM_KEYS = 10_000
NUM_ACCESSES = 200_000


@dataclass(frozen=True, eq=False, slots=True)
class Trace:
    """Keys in the order of their reads: int64 `[accesses]`. `num_keys` counts those that may come again."""

    accesses: Keys
    num_keys: int = NUM_KEYS


def zipf() -> Trace:
    """Each read is drawn anew, the k-th most popular key with a probability proportional to 1 / k."""
    return Trace(_zipf())


def scan_zipf() -> Trace:
    """Zipf, and in between documents of 300 to 900 pages that are read once: a third of all reads."""
    return Trace(_with_documents(300, 900, fresh=True))


def scan_long() -> Trace:
    """Zipf, and in between documents of 1,000 to 3,000 pages that are read once: a third of all reads."""
    return Trace(_with_documents(1_000, 3_000, fresh=True))


def reread() -> Trace:
    """As scan_zipf, but a document is any run of the very same 10,000 keys.

    Which one is read next is chance that only the optimum foresees: a policy that knew every key's probability would
    close 43 % of the gap between LRU and the optimum with room for 30 % of the keys, and 60 % with room for 10 %.
    """
    return Trace(_with_documents(300, 900, fresh=False))


def shifting() -> Trace:
    """A working set of 2,500 keys, mildly skewed, half of which is exchanged for other keys every 20,000 reads."""
    random = np.random.default_rng(2)
    size, period = NUM_KEYS // 4, NUM_ACCESSES // 10
    weights = np.arange(1, size + 1) ** -0.6
    working = random.permutation(NUM_KEYS)[:size]
    parts = []
    for _ in range(NUM_ACCESSES // period):
        parts.append(working[random.choice(size, size=period, p=weights / weights.sum())])
        others = np.setdiff1d(np.arange(NUM_KEYS), working)
        leaving = random.choice(size, size=size // 2, replace=False)
        working[leaving] = random.choice(others, size=size // 2, replace=False)
    return Trace(np.concatenate(parts))


def loop() -> Trace:
    """Every key in order, ten times."""
    return Trace(np.tile(np.arange(NUM_KEYS), 10))


def attention(name: str) -> Trace:
    """The pages that a real model's attention wanted, token by token and layer by layer; a key is a (layer, page).

    Recorded by tests/bench/record_attention.py, as one bit for each layer, page and token.
    """
    with files("octavo.assets").joinpath("attention.npz").open("rb") as file, np.load(file) as archive:
        wanted = np.unpackbits(archive[name], axis=2)
    num_layers, num_pages, _ = wanted.shape
    _, layers, pages = np.nonzero(wanted.transpose(2, 0, 1))
    return Trace(layers * num_pages + pages, num_layers * num_pages)


def _zipf() -> Keys:
    random = np.random.default_rng(0)
    weights = 1 / np.arange(1, NUM_KEYS + 1)
    popular = random.permutation(NUM_KEYS)
    return popular[random.choice(NUM_KEYS, size=NUM_ACCESSES, p=weights / weights.sum())]


def _with_documents(shortest: int, longest: int, *, fresh: bool) -> Keys:
    """Zipf, with runs of consecutive keys in between that are a third of it all; `fresh` keys come only once."""
    random = np.random.default_rng(1)
    plain, parts = _zipf(), []
    taken = scanned = 0
    while taken + scanned < NUM_ACCESSES:
        length = int(random.integers(shortest, longest))
        start = NUM_KEYS + scanned if fresh else int(random.integers(NUM_KEYS - length))
        scanned += length
        parts += [plain[taken : 2 * scanned], np.arange(start, start + length)]
        taken = 2 * scanned
    return np.concatenate(parts)[:NUM_ACCESSES]


TRACES: Mapping[str, Callable[[], Trace]] = {
    "zipf": zipf,
    "scan_zipf": scan_zipf,
    "scan_long": scan_long,
    "reread": reread,
    "shifting": shifting,
    "loop": loop,
    "attention_prose": partial(attention, "prose"),
    "attention_code": partial(attention, "code"),
}
