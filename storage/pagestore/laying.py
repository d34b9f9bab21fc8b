"""Laying pages out as they lie on the disk: new ones from their parts, and those that move or change owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from octavo.storage.pagestore.aligned_io import AlignedBuffer
from octavo.storage.pagestore.core import SpaceKey
from octavo.storage.pagestore.records import (
    HASH_BYTES,
    LONGEST_OWNER,
    ORIGINS,
    PageHeader,
    Place,
    pack_header,
    page_checksums,
    record_seed,
)


class NewPage(Protocol):
    """A page to be kept: `data` is num_layers * record_bytes long, layer by layer."""

    @property
    def identity(self) -> bytes: ...
    @property
    def parent(self) -> bytes: ...
    @property
    def token_ids(self) -> Sequence[int]: ...
    @property
    def owner(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def data(self) -> memoryview | bytes | bytearray: ...


@dataclass(frozen=True, slots=True)
class Placed:
    """A page of a batch, by its number in it, with what was decided about it."""

    number: int
    page: NewPage
    packed_tokens: bytes
    epoch: int
    depth: int
    place: Place
    bytes_written: int  # by the store in its life, before this page


def check_page(page: NewPage, space: SpaceKey) -> None:
    """Raise ValueError for a page that is not of the space's shape."""
    shape = space.shape
    if len(page.identity) != HASH_BYTES or len(page.parent) != HASH_BYTES:
        raise ValueError(f"identity and parent of a page are {HASH_BYTES} bytes")
    if memoryview(page.data).nbytes != shape.body_bytes:
        raise ValueError(f"the data of a page is {shape.num_layers} x {shape.record_bytes} bytes")
    if len(page.token_ids) != shape.page_size or page.origin not in ORIGINS:
        raise ValueError(f"a page has {shape.page_size} token ids, and its origin is one of {ORIGINS}")
    if not 0 < len(page.owner.encode()) <= LONGEST_OWNER:
        raise ValueError(f"the name of an owner has 1 to {LONGEST_OWNER} bytes")


def lay_page(space: SpaceKey, placed: Placed, out: NDArray[np.uint8]) -> PageHeader:
    """Lay a page out in `out`, uint8 [page_bytes], and return its header."""
    shape, page = space.shape, placed.page
    body = out[shape.header_bytes :]
    body[: shape.body_bytes] = np.frombuffer(memoryview(page.data).cast("B"), dtype=np.uint8)
    body[shape.body_bytes :] = 0
    header = PageHeader(
        epoch=placed.epoch,
        bytes_written=placed.bytes_written,
        place=placed.place,
        depth=placed.depth,
        origin=page.origin,
        root=space.root,
        identity=page.identity,
        parent=page.parent,
        owner=page.owner,
        packed_tokens=placed.packed_tokens,
        packed_checksums=page_checksums(body.data, record_seed(page.identity, placed.epoch), shape),
        shape=shape,
    )
    lay_header(header, out)
    return header


def lay_header(header: PageHeader, out: NDArray[np.uint8]) -> None:
    """Put the header at the start of `out`, uint8 [header_bytes or more], with zeros behind it."""
    packed = pack_header(header)
    out[: len(packed)] = np.frombuffer(packed, dtype=np.uint8)
    out[len(packed) : header.shape.header_bytes] = 0


def header_buffer(header: PageHeader) -> memoryview:
    """The header alone, aligned, in whole units."""
    buffer = AlignedBuffer(header.shape.header_bytes)
    lay_header(header, buffer.array)
    return buffer.view
