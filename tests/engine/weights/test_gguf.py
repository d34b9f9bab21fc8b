"""The GGUF reader against the gguf package, and against every kind of damage."""

import contextlib
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.weights.checkpoint import open_checkpoint
from octavo.engine.weights.gguf import GGUFFile

Factory = Callable[..., Path]


@pytest.fixture(scope="module")
def valid(make_hf_folder: Factory, make_gguf: Factory) -> Path:
    """A small llama file, well formed."""
    return make_gguf(make_hf_folder("llama", num_hidden_layers=1, hidden_size=32), {"default": "Q4_0"})


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    dims = struct.pack(f"<{len(shape)}Q", *shape[::-1])
    return text(name) + struct.pack("<I", len(shape)) + dims + struct.pack("<IQ", kind, offset)


def file_of(entries: list[bytes], tensors: list[bytes], data: int = 256, version: int = 3) -> bytes:
    """A GGUF file of these parts with `data` zero bytes behind its header."""
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries)) + b"".join(entries + tensors)
    return header + bytes(-len(header) % 32) + bytes(data)


def test_it_reads_what_the_gguf_package_reads(make_hf_folder: Factory, make_gguf: Factory) -> None:
    kinds = {"default": "Q4_1", "token_embd.weight": "Q8_0", "blk.0.ffn_up.weight": "BF16"}
    path = make_gguf(make_hf_folder("qwen2"), kinds)
    ours, reference = GGUFFile(path), gguf.GGUFReader(path)
    expected = {key: field.contents() for key, field in reference.fields.items() if not key.startswith("GGUF.")}
    assert ours.metadata == expected
    assert list(ours.tensors) == [tensor.name for tensor in reference.tensors]
    for info in reference.tensors:
        found = ours.tensors[info.name]
        assert found.format.name == info.tensor_type.name
        assert found.shape == tuple(int(size) for size in info.shape[::-1])
        assert (found.offset, found.nbytes) == (info.data_offset, info.n_bytes)
        assert ours.data(info.name).numpy().tobytes() == np.ascontiguousarray(info.data).tobytes()


def test_every_value_type_is_read(tmp_path: Path) -> None:
    scalars = [(0, "B", 200), (1, "b", -3), (2, "H", 60_000), (3, "h", -5), (4, "I", 1 << 31), (5, "i", -9)]
    scalars += [(6, "f", 0.5), (7, "?", True), (10, "Q", 1 << 63), (11, "q", -(1 << 62)), (12, "d", 0.1)]
    entries = [entry(f"k{kind}", kind, struct.pack("<" + code, value)) for kind, code, value in scalars]
    numbers = struct.pack("<IQ3h", 3, 3, 1, -2, 3)
    entries += [
        entry("text", 8, text("naïve")),
        entry("list", 9, numbers),
        entry("empty", 9, struct.pack("<IQ", 8, 0)),
    ]
    entries += [entry("nested", 9, struct.pack("<IQ", 9, 2) + numbers + struct.pack("<IQ", 8, 1) + text("x"))]
    path = tmp_path / "model.gguf"
    path.write_bytes(file_of(entries, [], version=2))
    expected: dict[str, object] = {f"k{kind}": value for kind, _, value in scalars}
    assert GGUFFile(path).metadata == expected | {
        "text": "naïve",
        "list": [1, -2, 3],
        "empty": [],
        "nested": [[1, -2, 3], ["x"]],
    }


VECTOR = tensor("norm", (8,), 0, 0)
DAMAGED = {
    "empty": (b"", "is empty"),
    "text": (b"version https://git-lfs.github.com/spec/v1\n", "is not a GGUF file"),
    "magic only": (b"GGUF", "its header breaks off at the version"),
    "no counts": (b"GGUF" + struct.pack("<I", 3), "its header breaks off at the number of tensors"),
    "tensor count": (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0) + bytes(64), "the number of tensors says"),
    "entry count": (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60) + bytes(64),
        "the number of metadata entries says",
    ),
    "array count": (
        file_of([entry("a", 9, struct.pack("<IQ", 4, 1 << 61))], []),
        "a says 2,305,843,009,213,693,952",
    ),
    "large array": (
        file_of([entry("a", 9, struct.pack("<IQ", 0, 5_000_000))], [], data=5_000_001),
        "a says 5,000,000",
    ),
    "large text": (
        file_of([entry("a", 8, struct.pack("<Q", 1 << 25))], [], data=(1 << 25) + 64),
        "breaks off at a",
    ),
    "text length": (file_of([entry("a", 8, struct.pack("<Q", 1 << 62))], []), "its header breaks off at a"),
    "value type": (file_of([entry("a", 77, bytes(8))], []), "'a' has the unknown value type 77"),
    "not UTF-8": (file_of([entry("a", 8, struct.pack("<Q", 2) + b"\xff\xfe")], []), "text that is not UTF-8"),
    "nesting": (file_of([entry("a", 9, struct.pack("<IQ", 9, 1) * 9)], []), "'a' is nested too deeply"),
    "same key": (file_of([entry("a", 0, b"1")] * 2, []), "metadata key 'a' occurs twice"),
    "same tensor": (file_of([], [VECTOR, VECTOR]), "tensor norm occurs twice"),
    "alignment": (
        file_of([entry("general.alignment", 4, struct.pack("<I", 24))], []),
        "general.alignment is 24",
    ),
    "misaligned": (
        file_of([], [tensor("norm", (8,), 0, 8)]),
        "norm starts at offset 8, which is not a multiple",
    ),
    "overlap": (file_of([], [tensor("a", (16,), 0, 0), tensor("b", (8,), 0, 32)]), "tensors a and b overlap"),
    "rank": (file_of([], [tensor("a", (1,) * 5, 0, 0)]), "tensor a has 5 dimensions"),
    "no weights": (file_of([], [tensor("a", (0, 8), 0, 0)]), r"tensor a is empty: its shape is \(0, 8\)"),
    "half a block": (file_of([], [tensor("a", (2, 48), 2, 0)]), r"tensor a \(Q4_0\) has 48 columns"),
    "truncated": (
        file_of([], [tensor("a", (9, 8), 0, 0)]),
        "tensor a ends at byte .* it is truncated, fetch it again",
    ),
    "huge": (file_of([], [tensor("a", (1 << 62, 1 << 62), 0, 0)]), "tensor a ends at byte"),
}
UNSUPPORTED = {
    "version 1": (file_of([], [], version=1), "is a version 1 GGUF file"),
    "big endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "is a big-endian GGUF file"),
    "split": (file_of([entry("split.count", 2, b"\3\0")], []), "is one part of a split GGUF file"),
    "type": (
        file_of([], [tensor("a", (256,), 16, 0)]),
        "tensor a has the type IQ2_XXS, .* supported are F32, F16, Q4_0",
    ),
    "new type": (file_of([], [tensor("a", (256,), 999, 0)]), "tensor a has the type number 999"),
}


@pytest.mark.parametrize(
    ("content", "sentence", "error"),
    [(*case, ModelFileError) for case in DAMAGED.values()]
    + [(*case, UnsupportedModelError) for case in UNSUPPORTED.values()],
    ids=[*DAMAGED, *UNSUPPORTED],
)
def test_what_is_wrong_is_said_in_one_sentence(
    tmp_path: Path, content: bytes, sentence: str, error: type[Exception]
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(error, match=sentence) as caught:
        GGUFFile(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_path_that_is_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"nothing\.gguf does not exist"):
        GGUFFile(tmp_path / "nothing.gguf")
    with pytest.raises(ModelFileError, match="is a folder"):
        GGUFFile(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions differ")
def test_a_file_that_cannot_be_read_is_said(valid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ModelFileError, match="cannot be read: Permission denied"):
        GGUFFile(valid)


def open_or_refuse(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with contextlib.suppress(ModelFileError, UnsupportedModelError):
        assert open_checkpoint(path).matrices["blk.0.ffn_down.weight"].shape == (32, 96)


FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(data=st.data())
def test_flipped_bytes_are_refused_or_harmless(valid: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(valid.read_bytes())
    header = GGUFFile(valid).tensors["token_embd.weight"].offset
    flips = st.tuples(st.integers(0, header), st.integers(1, 255))
    for position, mask in data.draw(st.lists(flips, min_size=1, max_size=4)):
        content[position] ^= mask
    open_or_refuse(tmp_path / "model.gguf", bytes(content))


@FUZZ
@given(data=st.data())
def test_a_truncated_file_is_refused(valid: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = valid.read_bytes()
    path = tmp_path / "model.gguf"
    # The last tensor may be followed by padding.
    end = max(info.offset + info.nbytes for info in GGUFFile(valid).tensors.values())
    path.write_bytes(content[: data.draw(st.integers(0, end - 1))])
    with pytest.raises(ModelFileError):
        open_checkpoint(path)


def test_a_large_vocabulary_is_read_quickly(tmp_path: Path) -> None:
    """As many strings as Qwen's file has: it takes 0.1 s where the gguf package needs 8."""
    strings = b"".join(text(f"token{i}") for i in range(300_000))
    path = tmp_path / "model.gguf"
    path.write_bytes(file_of([entry("tokens", 9, struct.pack("<IQ", 8, 300_000) + strings)], []))
    start = time.perf_counter()
    assert len(GGUFFile(path).metadata["tokens"]) == 300_000
    assert time.perf_counter() - start < 2
