"""How a page lies in a file: one header, then one record for each layer; header and records begin at a unit.

    header   `header_bytes` long: magic, version, checksum; epoch, place and shape of the page; root, identity, parent;
             the space's settings, the owner, the token ids, the checksum of each record, and one of all of them
    records  `num_layers` times `record_bytes`, one behind the other as in memory, then zeros up to the next unit

A record of its own units would be read alone with one unit less. But whole pages are what is moved most, and with the
records side by side they are copied in one piece, which costs half as much; and fewer bytes are on the disk.

The checksum of a record is seeded with the page's identity, its epoch and the layer, so that what an earlier page left
at the same place never passes for this one. Everything is little-endian.
"""

from __future__ import annotations

import itertools
import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xxhash import xxh3_64_intdigest

from octavo.storage.pagestore.aligned_io import UNIT, units

MAGIC = b"OctvPage"
VERSION = 2
HASH_BYTES = 32
LONGEST_OWNER = 256  # bytes of UTF-8
ORIGINS = ("prefill", "decode")
_PREFIX = struct.Struct("<8sIIQ")  # magic, version, bytes used of the header, checksum of those after this prefix
_FIXED = struct.Struct("<QQIIIIIIII32s32s32sIII")


@dataclass(frozen=True)
class Shape:
    """What all pages of a space have in common, and the sizes that follow from it."""

    num_layers: int
    record_bytes: int
    page_size: int
    settings: str  # canonical JSON

    @cached_property
    def header_bytes(self) -> int:
        used = _PREFIX.size + _FIXED.size + len(self.settings.encode()) + LONGEST_OWNER
        return units(used + 4 * self.page_size + 8 * (self.num_layers + 1)) * UNIT

    @cached_property
    def body_bytes(self) -> int:
        """Bytes of all records."""
        return self.num_layers * self.record_bytes

    @cached_property
    def page_bytes(self) -> int:
        return self.header_bytes + units(self.body_bytes) * UNIT

    @cached_property
    def page_units(self) -> int:
        return self.page_bytes // UNIT


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page lies: unit `start` of a segment, within the run of equal pages that begins at `run_start`."""

    segment: int
    start: int
    run_start: int
    run_slots: int


@dataclass(frozen=True, slots=True)
class PageHeader:
    """Everything that is known of a page, as its header says it; an index can be made again from these alone."""

    epoch: int  # of all pages ever written, which one this is: larger is later
    bytes_written: int  # by this store in its life, before this page
    place: Place
    depth: int  # pages before it in its chain, as far as known
    origin: str
    root: bytes
    identity: bytes
    parent: bytes
    owner: str
    packed_tokens: bytes
    packed_checksums: bytes  # one for each layer, then one of all records together
    shape: Shape


def record_seed(identity: bytes, epoch: int) -> int:
    """Seed of the checksum of layer 0; each later layer adds one."""
    return xxh3_64_intdigest(identity, epoch) >> 1


def record_checksums(data: memoryview, seed: int, layers: range, shape: Shape) -> tuple[int, ...]:
    """Checksums of the records of `layers`, which `data` holds one behind the other."""
    size = shape.record_bytes
    starts = range(0, len(layers) * size, size)
    # A list, for all that is written comes through here: a generator would take half as long again.
    return tuple(
        [
            xxh3_64_intdigest(data[start : start + size], seed + layer)
            for start, layer in zip(starts, layers, strict=True)
        ]
    )


def body_checksum(data: memoryview, seed: int) -> int:
    """Checksum of all records of a page together: one call, which lets other threads run meanwhile."""
    return xxh3_64_intdigest(data, seed)


def page_checksums(data: memoryview, seed: int, shape: Shape) -> bytes:
    """Packed: those of all records, and that of them together; `data` begins with the records of a page."""
    data = data[: shape.body_bytes]
    whole = body_checksum(data, seed)  # first: it brings the bytes near while other threads run
    return pack_numbers("Q", (*record_checksums(data, seed, range(shape.num_layers), shape), whole))


def pack_header(header: PageHeader) -> bytes:
    """The header's bytes, without the zeros behind them."""
    place, shape = header.place, header.shape
    settings, owner = shape.settings.encode(), header.owner.encode()
    fixed = _FIXED.pack(
        header.epoch,
        header.bytes_written,
        place.segment,
        place.start,
        place.run_start,
        place.run_slots,
        shape.num_layers,
        shape.record_bytes,
        shape.page_size,
        header.depth,
        header.root,
        header.identity,
        header.parent,
        ORIGINS.index(header.origin),
        len(settings),
        len(owner),
    )
    body = b"".join((fixed, settings, owner, header.packed_tokens, header.packed_checksums))
    return _PREFIX.pack(MAGIC, VERSION, _PREFIX.size + len(body), xxh3_64_intdigest(body)) + body


def parse_header(data: memoryview | bytes) -> PageHeader | None:
    """The header at the start of `data`, or None if there is no whole one of this version."""
    view = memoryview(data)
    if len(view) < _PREFIX.size + _FIXED.size:
        return None
    magic, version, used, checksum = _PREFIX.unpack_from(view)
    if magic != MAGIC or version != VERSION or not _PREFIX.size + _FIXED.size <= used <= len(view):
        return None
    body = view[_PREFIX.size : used]
    if xxh3_64_intdigest(body) != checksum:
        return None
    return _parse_body(body)


def header_length(data: memoryview | bytes) -> int:
    """Bytes used by the header that `data` seems to start with, at most 1 MiB; 0 if there is none."""
    if len(data) < _PREFIX.size:
        return 0
    magic, version, used, _ = _PREFIX.unpack_from(data)
    return used if magic == MAGIC and version == VERSION and used <= 2**20 else 0


def _parse_body(body: memoryview) -> PageHeader | None:
    """The parts, if their lengths are those that the fixed part promises."""
    (epoch, bytes_written, segment, start, run_start, run_slots, num_layers, record_bytes, page_size, depth,
     root, identity, parent, origin, settings_bytes, owner_bytes) = _FIXED.unpack_from(body)  # fmt: skip
    ends = [_FIXED.size]
    for length in (settings_bytes, owner_bytes, 4 * page_size, 8 * (num_layers + 1)):
        ends.append(ends[-1] + length)
    if ends[-1] != len(body) or origin >= len(ORIGINS) or owner_bytes > LONGEST_OWNER or not record_bytes:
        return None
    parts = [bytes(body[begin:end]) for begin, end in itertools.pairwise(ends)]
    try:
        settings, owner = parts[0].decode(), parts[1].decode()
    except UnicodeDecodeError:
        return None
    return PageHeader(
        epoch,
        bytes_written,
        Place(segment, start, run_start, run_slots),
        depth,
        ORIGINS[origin],
        root,
        identity,
        parent,
        owner,
        parts[2],
        parts[3],
        Shape(num_layers, record_bytes, page_size, settings),
    )


def pack_numbers(code: str, numbers: Sequence[int]) -> bytes:
    """Numbers of 32 ("I") or 64 ("Q") bits, little-endian. Raises OverflowError for one that does not fit."""
    packed = array(code, numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_numbers(code: str, data: bytes) -> tuple[int, ...]:
    """What `pack_numbers` packed."""
    packed = array(code, data)
    if sys.byteorder == "big":
        packed.byteswap()
    return tuple(packed)
