"""Engines on a tiny model whose budgets, codec and page store a test chooses, with the logits of every answer kept."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from octavo.engine.config import STREAM_PAGES, EngineConfig, GenerationPolicy
from octavo.engine.engine import Engine, load
from octavo.engine.events import AnswerMetrics, DoneEvent, TokenEvent

PAGE = 8
GREEDY = GenerationPolicy(temperature=0.0, repetition_penalty=1.0, max_tokens=12)


@dataclass(frozen=True)
class Kept:
    """A page of a MemoryStore."""

    identity: bytes
    token_ids: tuple[int, ...]
    data: bytes
    num_layers: int


@dataclass
class MemoryStore:
    """A page store in a dict, shared by all spaces, with the troubles a disk can have.

    `write_problem` and `read_problem` are asked for each page and give a sentence or None. Writing waits for `gate`.
    """

    kept: dict[bytes, Kept] = field(default_factory=dict)
    owners: dict[bytes, set[str]] = field(default_factory=dict)
    pins: set[str] = field(default_factory=set)
    writable: bool = True
    max_pages: int = 10_000
    num_writes: int = 0
    write_problem: Callable[[Any], str | None] = lambda page: None
    read_problem: Callable[[Kept], str | None] = lambda page: None
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def open_space(
        self, root: bytes, settings: Mapping[str, object], num_layers: int, record_bytes: int, page_size: int
    ) -> "MemoryStore":
        self.num_layers = num_layers
        return self

    def find(self, identities: Sequence[bytes]) -> list[Kept | None]:
        return [self.kept.get(identity) for identity in identities]

    def submit_write(self, pages: Sequence[Any]) -> Future[list[str | None]]:
        written: Future[list[str | None]] = Future()
        written.set_result(self._write(pages))
        return written

    def _write(self, pages: Sequence[Any]) -> list[str | None]:
        self.gate.wait()
        problems = [self.write_problem(page) for page in pages]
        for page, problem in zip(pages, problems, strict=True):
            if problem is None:
                self.num_writes += 1
                data = bytes(page.data)
                self.kept.setdefault(page.identity, Kept(page.identity, tuple(page.token_ids), data, self.num_layers))
                self.owners.setdefault(page.identity, set()).add(page.owner)
        return problems

    def submit_read(self, reads: Sequence[Any]) -> Future[list[str | None]]:
        future: Future[list[str | None]] = Future()
        problems: list[str | None] = []
        for page, first, count, out in reads:
            problem = self.read_problem(page)
            if problem is None:
                record = len(page.data) // page.num_layers
                out[:] = page.data[first * record : (first + count) * record]
            else:
                self.kept.pop(page.identity, None)  # a store serves a bad page no more
            problems.append(problem)
        future.set_result(problems)
        return future

    def add_owner(self, identities: Sequence[bytes], owner: str) -> None:
        for identity in identities:
            self.owners.setdefault(identity, set()).add(owner)

    def pinned(self) -> frozenset[str]:
        return frozenset(self.pins)

    def drop(self, identities: Sequence[bytes]) -> None:
        for identity in identities:
            self.kept.pop(identity, None)

    def forget(self, owner: str) -> int:
        for owners in self.owners.values():
            owners.discard(owner)
        gone = [identity for identity, owners in self.owners.items() if not owners]
        self.drop(gone)
        return len(gone)


@dataclass
class Run:
    """One answer: its tokens, the logits each was chosen by, and how it went."""

    tokens: list[int]
    logits: torch.Tensor
    done: DoneEvent

    @property
    def metrics(self) -> AnswerMetrics:
        return self.done.metrics


class TieredEngine:
    """An engine that remembers the logits of the answer being made."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._logits: list[torch.Tensor] = []
        runner_logits = engine._runner.logits

        def logits(hidden: torch.Tensor) -> torch.Tensor:
            found = runner_logits(hidden)
            self._logits.append(found.clone())
            return found

        engine._runner.logits = logits  # type: ignore[method-assign]

    def answer(self, prompt: list[int], policy: GenerationPolicy = GREEDY, owner: str = "test") -> Run:
        """The whole answer to `prompt`, alone."""
        self._logits.clear()
        tokens: list[int] = []
        for event in self.engine.generate(prompt, policy, owner=owner):
            if isinstance(event, TokenEvent):
                tokens.append(event.token_id)
            else:
                done = event
        return Run(tokens, torch.cat(self._logits) if self._logits else torch.empty(0), done)

    def settle(self) -> None:
        """Wait for the background, then check that nothing is held, and that every tier adds up."""
        cache = self.engine.cache
        cache.tiers.drain()
        cache.check_conservation()
        assert cache.table.num_held == 0
        assert len(cache._free_tails) == cache.num_tails


@pytest.fixture(scope="session")
def tiny(make_hf_folder: Callable[..., Path]) -> Path:
    return make_hf_folder("qwen2", max_position_embeddings=4096)


@pytest.fixture
def memory_store() -> Callable[..., MemoryStore]:
    return MemoryStore


@pytest.fixture
def tiered(tiny: Path) -> Iterator[Callable[..., TieredEngine]]:
    """tiered(device_pages=None, host_pages=0, store=None, folder=..., **config) -> TieredEngine; all are closed after.

    `device_pages` counts complete pages that have slots, besides what the engine needs to run at all.
    """
    opened: list[Engine] = []

    def make(
        device_pages: int | None = None,
        host_pages: int = 0,
        store: MemoryStore | None = None,
        fingerprint: str = "tiny",
        folder: Path = tiny,
        **config: Any,
    ) -> TieredEngine:
        defaults = {
            "page_size": PAGE,
            "prefill_chunk": 64,
            "compute_dtype": "float32",
            "max_sequences": 4,
            "threads": 1,
        }
        settings = EngineConfig(**{**defaults, **config})
        if device_pages is not None or host_pages:
            probe = load(folder, settings, quantization="none", fingerprint="probe").cache
            lower = probe.layout.slot_bytes * STREAM_PAGES if host_pages or store is not None else 0
            kv_bytes = None
            if device_pages is not None:
                kv_bytes = probe.pool.tails.nbytes + lower + device_pages * probe.page_bytes
            settings = EngineConfig(
                **{**defaults, **config, "kv_bytes": kv_bytes, "host_bytes": host_pages * probe.page_bytes}
            )
        engine = load(folder, settings, quantization="none", fingerprint=fingerprint, store=store)
        opened.append(engine)
        return TieredEngine(engine)

    yield make
    for engine in opened:
        engine.close()
