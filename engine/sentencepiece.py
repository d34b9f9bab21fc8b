"""The vocabulary in a SentencePiece model file: a protocol buffer, of which only pieces and scores are read.

Message layout: https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from octavo.engine.errors import ModelFileError

_PIECES, _TEXT, _SCORE = 1, 1, 2  # field numbers: ModelProto.pieces, SentencePiece.piece, SentencePiece.score
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types


def read_pieces(path: Path) -> list[tuple[str, float]]:
    """The pieces in the order of their ids, each with its score (a log probability).

    Raises ModelFileError if the file cannot be read as what it should be.
    """
    try:
        data = path.read_bytes()
        pieces = [_piece(value) for number, value in _fields(data) if number == _PIECES and isinstance(value, bytes)]
    except (OSError, IndexError, struct.error, UnicodeDecodeError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read as a SentencePiece model: {error}.") from None
    if not pieces:
        raise ModelFileError(f"{path} has no pieces in it.")
    return pieces


def _piece(data: bytes) -> tuple[str, float]:
    text, score = "", 0.0
    for number, value in _fields(data):
        if number == _TEXT and isinstance(value, bytes):
            text = value.decode("utf-8")
        elif number == _SCORE and isinstance(value, float):
            score = value
    return text, score


def _fields(data: bytes) -> Iterator[tuple[int, bytes | float | int]]:
    """Field numbers and values of one message. Raises ValueError if it ends in the middle of one."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == _VARINT:
            value, place = _varint(data, place)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, place = _varint(data, place)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"unknown wire type {kind}")
        chunk = data[place : place + size]
        if len(chunk) != size:
            raise ValueError("it is truncated")
        place += size
        yield key >> 3, struct.unpack("<f", chunk)[0] if kind == _FIXED32 else chunk


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if not byte & 0x80:
            return value, place
        shift += 7
