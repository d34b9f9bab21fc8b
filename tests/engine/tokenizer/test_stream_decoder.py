"""Text arrives as it becomes certain, whole characters only, and adds up to the decoded whole."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from octavo.engine.tokenizer.stream_decoder import StreamDecoder


def decode_pieces(pieces: list[bytes], **options: bool) -> list[str]:
    """What each piece, as a token of its own, brings, and what finish() adds."""
    decoder = StreamDecoder(pieces, frozenset(), **options)
    return [*(decoder.push(i) for i in range(len(pieces))), decoder.finish()]


@st.composite
def split_texts(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    text = draw(st.text())
    data = text.encode()
    cuts = sorted(draw(st.sets(st.integers(0, len(data)))) | {0, len(data)})
    return text, [data[a:b] for a, b in pairwise(cuts)]


@given(split_texts())
def test_any_split_adds_up_to_the_text(case: tuple[str, list[bytes]]) -> None:
    text, pieces = case
    outputs = decode_pieces(pieces)
    assert "".join(outputs) == text
    assert outputs[-1] == ""
    shown = pending = b""
    for piece, output in zip(pieces, outputs, strict=False):
        pending += piece
        shown += output.encode()
        assert pending.startswith(shown)
        assert len(pending) - len(shown) < 4


@given(st.lists(st.binary(max_size=5)))
def test_any_bytes_decode_as_python_decodes_them(pieces: list[bytes]) -> None:
    assert "".join(decode_pieces(pieces)) == b"".join(pieces).decode("utf-8", "replace")


def test_an_invalid_byte_shows_only_once_it_is_certain() -> None:
    assert decode_pieces([b"\xe2\x82", b"a", b"\xf0\x9f"]) == ["", "\ufffda", "", "\ufffd"]


def test_silent_and_unknown_tokens_leave_a_character_whole() -> None:
    decoder = StreamDecoder([b"\xc3", b"<end>", b"\xa9"], frozenset({1}))
    assert [decoder.push(i) for i in (0, 1, 99, -1, 2)] == ["", "", "", "", "é"]


def test_one_leading_space_is_dropped_where_a_vocabulary_writes_one() -> None:
    assert "".join(decode_pieces([b"", b"  Hello", b" you"], strip_space=True)) == " Hello you"
    assert "".join(decode_pieces([b"Hello", b" you"], strip_space=True)) == "Hello you"
