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
    pack_numbers,
    parse_header,
    record_checksums,
    record_seed,
    unpack_numbers,
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
        packed_tokens=draw(st.binary(min_size=4 * page_size, max_size=4 * page_size)),
        packed_checksums=draw(st.binary(min_size=8 * num_layers + 8, max_size=8 * num_layers + 8)),
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
    data = MAGIC + b"\x02\x00\x00\x00" + data if with_magic else data

    assert parse_header(data) is None
    assert 0 <= header_length(data) <= 2**20


@given(HASH, HASH, U64, st.binary(min_size=1, max_size=200))
def test_a_checksum_is_of_one_page_one_time_and_one_layer(one: bytes, other: bytes, epoch: int, data: bytes) -> None:
    shape = Shape(2, len(data), 1, "{}")
    laid_out = memoryview(data * 2)
    checksums = {
        checksum
        for identity in {one, other}
        for number in {epoch, (epoch + 1) % 2**64}
        for checksum in record_checksums(laid_out, record_seed(identity, number), range(2), shape)
    }

    assert len(checksums) == 4 * len({one, other})


@given(st.lists(U32), st.lists(U64))
def test_numbers_are_packed_as_little_endian(tokens: list[int], checksums: list[int]) -> None:
    assert pack_numbers("I", tokens) == b"".join(number.to_bytes(4, "little") for number in tokens)
    assert unpack_numbers("Q", pack_numbers("Q", checksums)) == tuple(checksums)


@pytest.mark.parametrize("number", [-1, 2**32])
def test_a_token_that_does_not_fit_is_an_error_not_another_token(number: int) -> None:
    with pytest.raises(OverflowError):
        pack_numbers("I", [number])


def test_sizes_are_whole_units() -> None:
    shape = Shape(24, 7168, 32, "{}")

    assert (shape.header_bytes, shape.body_bytes, shape.page_bytes, shape.page_units) == (4096, 172_032, 176_128, 43)
    assert replace(shape, num_layers=500).header_bytes == 8192
