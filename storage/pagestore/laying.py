"""Laying pages out as they lie on the disk: new ones from their parts, and those that move or change owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from octavo.storage.pagestore.aligned_io import UNIT, AlignedBuffer, units
from octavo.storage.pagestore.core import SpaceKey
from octavo.storage.pagestore.records import (
    HASH_BYTES,
    LONGEST_OWNER,
    ORIGINS,
    PageHeader,
    Place,
    Shape,
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


def spare_bytes(shape: Shape, *, is_aligned: bool) -> int:
    """Bytes of memory that `lay_page` needs for a page."""
    return shape.header_bytes + units(shape.body_bytes % UNIT) * UNIT if is_aligned else shape.page_bytes


def lay_page(
    space: SpaceKey, placed: Placed, spare: memoryview, *, is_aligned: bool
) -> tuple[PageHeader, list[memoryview]]:
    """The page's header, and the memory that is written to the disk for it, one part after the other.

    Whole units of its data are written from where they are if they are aligned there; the rest, the header among it,
    is laid out in `spare`, `spare_bytes` long.
    """
    shape, page = space.shape, placed.page
    data = memoryview(page.data).cast("B")
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
        packed_checksums=page_checksums(data, record_seed(page.identity, placed.epoch), shape),
        shape=shape,
    )
    lay_header(header, spare)
    straight = len(data) // UNIT * UNIT if is_aligned else 0
    used = shape.header_bytes + len(data) - straight
    spare[shape.header_bytes : used] = data[straight:]
    spare[used:] = bytes(len(spare) - used)
    if straight:
        return header, [spare[: shape.header_bytes], data[:straight], spare[shape.header_bytes :]]
    return header, [spare]


def lay_header(header: PageHeader, out: memoryview) -> None:
    """Put the header at the start of `out`, header_bytes or more, with zeros behind it."""
    packed = pack_header(header)
    out[: len(packed)] = packed
    out[len(packed) : header.shape.header_bytes] = bytes(header.shape.header_bytes - len(packed))


def header_buffer(header: PageHeader) -> memoryview:
    """The header alone, aligned, in whole units."""
    view = AlignedBuffer(header.shape.header_bytes).view
    lay_header(header, view)
    return view
