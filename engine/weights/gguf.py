"""Reads a GGUF file in place: header and tensor table into Python, tensor data by memory map.

The format is the published GGUF specification (ggml-org/ggml, docs/gguf.md), versions 2 and 3, little
endian. A reader of our own because the `gguf` package needs seconds for a 150,000-token vocabulary.
Nothing in the file is trusted: every count, length and offset is checked against the file's size
before it is used, and what is wrong is said in one sentence that names the file and the key or tensor.
"""

import math
import mmap
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.weights.formats import FORMAT_OF_GGML_TYPE, Format
from octavo.engine.weights.mapped import map_file

_MAGIC = b"GGUF"
_DEFAULT_ALIGNMENT = 32
_MAX_DIMENSIONS = 4
_MAX_ARRAY_DEPTH = 4
# Far beyond any vocabulary or chat template, and little memory: what a damaged count can cost at most.
_MAX_ITEMS = 1 << 22
_MAX_TEXT_BYTES = 1 << 24
# Value types 0 to 12: u8 i8 u16 i16 u32 i32 f32 bool, 8 text, 9 array, u64 i64 f64.
_SCALARS = {type_id: struct.Struct("<" + code) for type_id, code in enumerate("BbHhIif?--Qqd") if code != "-"}
_STRING, _ARRAY = 8, 9
_U32, _U64 = _SCALARS[4], _SCALARS[10]
# The least a metadata entry (key length, type, 1-byte value) or a tensor entry (name length, rank, one
# dimension, type, offset) can take: a count that needs more than the file has is refused before any loop.
_MIN_ENTRY_BYTES = 13
_MIN_TENSOR_BYTES = 32


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a file.

    shape: torch order, (rows, cols) for a matrix. offset: bytes from the start of the file.
    """

    name: str
    format: Format
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class GGUFFile:
    """An open GGUF file.

    metadata: key -> int, float, bool, str or list of these. tensors: name -> TensorInfo, in file order.
    Raises ModelFileError (missing, not a GGUF, truncated, inconsistent) or UnsupportedModelError
    (version 1, big endian, a part of a split file, a tensor type that is not among `Format`).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._map = map_file(path)
        header = _Header(path, self._map)
        tensor_count, entry_count = header.preamble()
        self.metadata: dict[str, Any] = header.metadata(entry_count)
        if self.metadata.get("split.count", 1) not in (0, 1):
            raise UnsupportedModelError(
                f"{path} is one part of a split GGUF file, which is not supported: "
                "join the parts with llama-gguf-split --merge"
            )
        self.tensors = header.tensors(tensor_count, self.metadata)
        self._bytes: Tensor = torch.frombuffer(self._map, dtype=torch.uint8)

    def give_back(self) -> None:
        """Let the system have the memory of what was read; what is used again is read again."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def data(self, name: str) -> Tensor:
        """The bytes of a tensor as a view of the file: uint8 [rows, row_bytes] ([row_bytes] for a vector)."""
        info = self.tensors[name]
        flat = self._bytes[info.offset : info.offset + info.nbytes]
        return flat.view(*info.shape[:-1], info.format.row_bytes(info.shape[-1]))


class _Header:
    """A cursor over the file's header."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._size = len(data)
        self._pos = 0

    def preamble(self) -> tuple[int, int]:
        """Check magic and version; return the number of tensors and of metadata entries."""
        if self._data[:4] != _MAGIC:
            raise ModelFileError(f"{self._path} is not a GGUF file: it does not start with the letters GGUF")
        self._pos = 4
        version = self._scalar(_U32, "the version")
        if version not in (2, 3):
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            kind = "big-endian" if swapped in (1, 2, 3) else f"version {version}"
            raise UnsupportedModelError(
                f"{self._path} is a {kind} GGUF file: only little-endian versions 2 and 3 are supported"
            )
        tensor_count = self._count(_MIN_TENSOR_BYTES, "the number of tensors")
        return tensor_count, self._count(_MIN_ENTRY_BYTES, "the number of metadata entries")

    def metadata(self, count: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for index in range(count):
            key = self._string(f"metadata key {index}")
            if key in entries:
                self._fail(f"metadata key {key!r} occurs twice")
            entries[key] = self._value(self._scalar(_U32, key), key, 0)
        return entries

    def tensors(self, count: int, metadata: dict[str, Any]) -> dict[str, TensorInfo]:
        alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if type(alignment) is not int or alignment <= 0 or alignment % 8 or alignment & (alignment - 1):
            self._fail(f"general.alignment is {alignment!r}, not a power of two of at least 8")
        entries = [self._tensor_entry(index) for index in range(count)]
        data_start = math.ceil(self._pos / alignment) * alignment
        tensors: dict[str, TensorInfo] = {}
        for name, kind, shape, offset in entries:
            if name in tensors:
                self._fail(f"tensor {name} occurs twice")
            if offset % alignment:
                self._fail(f"tensor {name} starts at offset {offset}, which is not a multiple of {alignment}")
            tensors[name] = self._tensor(name, kind, shape, data_start + offset)
        ordered = sorted(tensors.values(), key=lambda info: info.offset)
        for before, after in pairwise(ordered):
            if before.offset + before.nbytes > after.offset:
                self._fail(f"tensors {before.name} and {after.name} overlap")
        return tensors

    def _tensor_entry(self, index: int) -> tuple[str, Format, tuple[int, ...], int]:
        name = self._string(f"the name of tensor {index}")
        rank = self._scalar(_U32, name)
        if not 1 <= rank <= _MAX_DIMENSIONS:
            self._fail(f"tensor {name} has {rank} dimensions")
        shape = tuple(self._scalar(_U64, name) for _ in range(rank))[::-1]
        ggml_type = self._scalar(_U32, name)
        if ggml_type not in FORMAT_OF_GGML_TYPE:
            raise UnsupportedModelError(
                f"{self._path}: tensor {name} has the type {_ggml_type_name(ggml_type)}, which is not "
                f"supported; supported are {', '.join(member.name for member in Format)}"
            )
        return name, FORMAT_OF_GGML_TYPE[ggml_type], shape, self._scalar(_U64, name)

    def _tensor(self, name: str, kind: Format, shape: tuple[int, ...], offset: int) -> TensorInfo:
        if 0 in shape:
            self._fail(f"tensor {name} is empty: its shape is {shape}")
        if shape[-1] % kind.block_size:
            self._fail(f"tensor {name} ({kind.name}) has {shape[-1]} columns, not a multiple of {kind.block_size}")
        nbytes = math.prod(shape[:-1]) * kind.row_bytes(shape[-1])
        if offset + nbytes > self._size:
            self._fail(
                f"tensor {name} ends at byte {offset + nbytes:,}, but the file has {self._size:,}: "
                "it is truncated, fetch it again"
            )
        return TensorInfo(name, kind, shape, offset, nbytes)

    def _value(self, type_id: int, key: str, depth: int) -> Any:
        if type_id in _SCALARS:
            return self._scalar(_SCALARS[type_id], key)
        if type_id == _STRING:
            return self._string(key)
        if type_id != _ARRAY:
            self._fail(f"metadata key {key!r} has the unknown value type {type_id}")
        if depth == _MAX_ARRAY_DEPTH:
            self._fail(f"metadata key {key!r} is nested too deeply")
        return self._array(key, depth)

    def _array(self, key: str, depth: int) -> list[Any]:
        type_id = self._scalar(_U32, key)
        if type_id in _SCALARS:
            scalar = _SCALARS[type_id]
            count = self._count(scalar.size, key)
            values = struct.unpack_from(f"<{count}{scalar.format[1:]}", self._data, self._pos)
            self._pos += count * scalar.size
            return list(values)
        if type_id == _STRING:
            return self._strings(self._count(8, key), key)
        return [self._value(type_id, key, depth + 1) for _ in range(self._count(12, key))]

    def _strings(self, count: int, key: str) -> list[str]:
        """The hot loop of opening a model: a vocabulary and its merges are 300,000 strings."""
        data, size, pos, unpack = self._data, self._size, self._pos, _U64.unpack_from
        strings = []
        try:
            for _ in range(count):
                start = pos + 8
                pos = start + unpack(data, pos)[0]
                if pos > size or pos - start > _MAX_TEXT_BYTES:
                    self._truncated(key)
                strings.append(data[start:pos].decode())
        except struct.error:
            self._truncated(key)
        except UnicodeDecodeError:
            self._fail(f"metadata key {key!r} holds text that is not UTF-8")
        self._pos = pos
        return strings

    def _string(self, what: str) -> str:
        return self._strings(1, what)[0]

    def _scalar(self, scalar: struct.Struct, what: str) -> Any:
        if self._pos + scalar.size > self._size:
            self._truncated(what)
        value = scalar.unpack_from(self._data, self._pos)[0]
        self._pos += scalar.size
        return value

    def _count(self, item_bytes: int, what: str) -> int:
        count: int = self._scalar(_U64, what)
        if count > _MAX_ITEMS or count * item_bytes > self._size - self._pos:
            self._fail(f"{what} says {count:,}, which cannot be: the file is truncated or damaged")
        return count

    def _truncated(self, what: str) -> NoReturn:
        self._fail(f"its header breaks off at {what}: it is truncated or damaged, fetch it again")

    def _fail(self, what: str) -> NoReturn:
        raise ModelFileError(f"{self._path}: {what}")


def _ggml_type_name(ggml_type: int) -> str:
    from gguf import GGMLQuantizationType

    try:
        return str(GGMLQuantizationType(ggml_type).name)
    except ValueError:
        return f"number {ggml_type}"
