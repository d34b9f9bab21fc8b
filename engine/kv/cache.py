"""The KV cache as the scheduler sees it: open a sequence, let it grow, close it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import torch

from octavo.engine.config import EngineConfig
from octavo.engine.errors import ContextTooLongError
from octavo.engine.kv.pages import Identity, PageId, PagePool
from octavo.engine.kv.pools import DevicePool, page_bytes
from octavo.engine.model.spec import ModelSpec

LAYOUT_VERSION = 1
_DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}


@dataclass(slots=True, eq=False)
class SequencePages:
    """The pages of one sequence, head first. `num_complete` of them are full and have an identity."""

    identity: Identity
    page_ids: list[PageId] = field(default_factory=list)
    num_complete: int = 0


class KvCache:
    """Pages and their slots under one byte budget, allocated when the engine starts."""

    def __init__(self, spec: ModelSpec, config: EngineConfig, fingerprint: str, device: str) -> None:
        dtype = _DTYPES[config.kv_codec]
        self.page_size = config.page_size
        self.page_bytes = page_bytes(spec, config.page_size, dtype.itemsize)
        whole_context = -(-spec.context_length // config.page_size)
        num_pages = whole_context if config.kv_bytes is None else config.kv_bytes // self.page_bytes
        if num_pages < 1:
            raise ContextTooLongError(
                f"The KV budget of {config.kv_bytes} bytes is less than one page of this model, "
                f"{self.page_bytes} bytes; raise kv_memory."
            )
        self.pool = DevicePool(spec, num_pages, config.page_size, dtype, device)
        self.pages = PagePool(num_pages, config.page_size, _root(spec, config, fingerprint))

    @property
    def nbytes(self) -> int:
        return self.pool.slab.nbytes

    @property
    def num_tokens(self) -> int:
        """Tokens the whole pool can hold."""
        return self.pages.num_pages * self.page_size

    def num_pages_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.page_size)

    def open(self, token_ids: Sequence[int]) -> SequencePages:
        """Start a sequence on the pages its prefix already has. The last token is always left to compute."""
        matched = self.pages.match(token_ids[:-1])
        identity = self.pages.root
        if matched:
            identity = self.pages.identity_of(matched[-1])
        return SequencePages(identity, matched, len(matched))

    def grow(self, pages: SequencePages, num_tokens: int) -> None:
        """Take pages until `num_tokens` tokens fit."""
        while len(pages.page_ids) * self.page_size < num_tokens:
            page = self.pages.allocate()
            pages.page_ids.append(page)
            self.pool.place(page)

    def publish(self, pages: SequencePages, token_ids: Sequence[int], num_written: int) -> None:
        """Give an identity to every page that `num_written` tokens have filled; from then on it is immutable."""
        while (pages.num_complete + 1) * self.page_size <= num_written:
            start = pages.num_complete * self.page_size
            pages.identity = self.pages.complete(
                pages.page_ids[pages.num_complete], pages.identity, token_ids[start : start + self.page_size]
            )
            pages.num_complete += 1

    def close(self, pages: SequencePages) -> None:
        """Give every page back; complete ones stay to be found again."""
        self.pages.release(pages.page_ids)
        pages.page_ids = []
        pages.num_complete = 0

    def check_conservation(self) -> None:
        """Raise AssertionError unless pages and slots add up to what was allocated."""
        self.pages.check_conservation()
        placed = int((self.pool.slots[0] >= 0).sum()) * self.pool.slots.shape[0]
        if placed + self.pool.num_free != self.pool.num_slots:
            raise AssertionError(f"{placed} placed + {self.pool.num_free} free != {self.pool.num_slots} slots")


def _root(spec: ModelSpec, config: EngineConfig, fingerprint: str) -> Identity:
    """Everything but token ids that decides a page's bytes."""
    settings = {
        "layout": LAYOUT_VERSION,
        "fingerprint": fingerprint,
        "rope": asdict(spec.rope),
        "codec": config.kv_codec,
        "page_size": config.page_size,
        "attention": "dense",
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).digest()
