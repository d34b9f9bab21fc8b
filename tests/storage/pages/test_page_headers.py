"""Headers: what is packed is parsed, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.storage.pagestore.records import (
    MAGIC,
    PageHeader,
    Place,
    Shape,
    header_length,
    pack_header,
    parse_header,
    record_checksums,
    record_seed,
)

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
HASH = st.binary(min_size=32, max_size=32)


@st.composite
def headers(draw: st.DrawFn) -> PageHeader:
    num_layers, page_size = draw(st.integers(1, 40)), draw(st.integers(1, 64))
    owner = draw(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60))
    return PageHeader(
        epoch=draw(U64),
        bytes_written=draw(U64),
        place=Place(draw(U32), draw(U32), draw(U32), draw(U32)),
        depth=draw(U32),
        origin=draw(st.sampled_from(["prefill", "decode"])),
        root=draw(HASH),
        identity=draw(HASH),
        parent=draw(HASH),
        owner=owner,
        token_ids=tuple(draw(st.lists(U32, min_size=page_size, max_size=page_size))),
        checksums=tuple(draw(st.lists(U64, min_size=num_layers + 1, max_size=num_layers + 1))),
        shape=Shape(num_layers, draw(st.integers(1, 10**6)), page_size, draw(st.text(st.characters(codec="utf-8")))),
    )


@given(headers(), st.binary(max_size=50))
def test_what_is_packed_is_parsed(header: PageHeader, behind: bytes) -> None:
    packed = pack_header(header)

    assert len(packed) <= header.shape.header_bytes
    assert header_length(packed) == len(packed)
    assert parse_header(packed + behind) == header


@given(headers(), st.data())
def test_no_changed_header_is_parsed(header: PageHeader, data: st.DataObject) -> None:
    packed = bytearray(pack_header(header))
    position = data.draw(st.integers(0, len(packed) - 1))
    packed[position] ^= data.draw(st.integers(1, 255))

    assert parse_header(packed) is None


@given(headers(), st.data())
def test_no_part_of_a_header_is_parsed(header: PageHeader, data: st.DataObject) -> None:
    packed = pack_header(header)

    assert parse_header(packed[: data.draw(st.integers(0, len(packed) - 1))]) is None


@settings(max_examples=300)
@given(st.binary(max_size=400), st.booleans())
def test_no_bytes_make_the_parser_fail(data: bytes, with_magic: bool) -> None:
    data = MAGIC + b"\x01\x00\x00\x00" + data if with_magic else data

    assert parse_header(data) is None
    assert 0 <= header_length(data) <= 2**20


@given(HASH, HASH, U64, st.binary(min_size=1, max_size=200))
def test_a_checksum_is_of_one_page_one_time_and_one_layer(one: bytes, other: bytes, epoch: int, data: bytes) -> None:
    shape = Shape(2, len(data), 1, "{}")
    laid_out = memoryview(data.ljust(shape.stride, b"\0") * 2)
    checksums = {
        checksum
        for identity in {one, other}
        for number in {epoch, (epoch + 1) % 2**64}
        for checksum in record_checksums(laid_out, record_seed(identity, number), range(2), shape)
    }

    assert len(checksums) == 4 * len({one, other})


def test_a_number_that_does_not_fit_is_an_error_not_another_number() -> None:
    shape = Shape(1, 64, 1, "{}")
    header = PageHeader(1, 0, Place(1, 0, 0, 1), 0, "prefill", *[bytes(32)] * 3, "o", (1,), (1, 2), shape)

    with pytest.raises(OverflowError):
        pack_header(replace(header, token_ids=(-1,)))
    with pytest.raises(OverflowError):
        pack_header(replace(header, token_ids=(2**32,)))


def test_sizes_are_whole_units() -> None:
    shape = Shape(24, 7168, 32, "{}")

    assert (shape.header_bytes, shape.stride, shape.page_bytes, shape.page_units) == (4096, 8192, 200_704, 49)
    assert replace(shape, num_layers=500).header_bytes == 8192
