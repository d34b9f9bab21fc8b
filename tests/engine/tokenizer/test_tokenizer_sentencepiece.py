"""SentencePiece vocabularies in GGUF files, against a plain rendering of the published algorithm."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.engine.errors import ModelFileError
from octavo.engine.tokenizer import Message, Tokenizer, TokenizerData

JOINED = ["▁t", "he", "▁the", "in", "ing", "er", "▁a", "nd", "▁and", "▁▁", "▁▁▁▁", "an", "th", "aa", "aaa"]
CHARACTERS = "▁thergindasé"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
PIECES = ["<unk>", "<s>", "</s>", *BYTES, *JOINED, *CHARACTERS, "<tool>"]
TYPES = [2, 3, 3, *[6] * 256, *[1] * (len(JOINED) + len(CHARACTERS)), 4]
SCORES = [0.0] * 259 + [-float(i) for i in range(len(PIECES) - 259)]
fragments = st.sampled_from([*CHARACTERS[1:], " ", "the ", "aaa", "ing"]) | st.text(max_size=3)
texts = st.lists(fragments).map("".join)


def metadata(**changes: Any) -> dict[str, Any]:
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": PIECES,
        "tokenizer.ggml.token_type": TYPES,
        "tokenizer.ggml.scores": SCORES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    } | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}


def published(text: str, *, prefix: str = "▁") -> list[int]:
    """Kudo and Richardson (2018): join the leftmost neighbours whose union scores best; then bytes."""
    symbols = list(prefix + text.replace(" ", "▁") if text else "")
    score = {piece: SCORES[i] for i, piece in enumerate(PIECES) if TYPES[i] == 1}
    while True:
        unions = [(score.get(a + b, -1e9), -at) for at, (a, b) in enumerate(pairwise(symbols))]
        best, negative_place = max(unions, default=(-1e9, 0))
        if best == -1e9:
            break
        at = -negative_place
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    ids = ([PIECES.index(s)] if s in score else [3 + byte for byte in s.encode()] for s in symbols)
    return [token_id for group in ids for token_id in group]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(TokenizerData.from_gguf(metadata()))


@settings(max_examples=300, deadline=None)
@given(text=texts)
def test_ids_follow_the_published_algorithm_and_come_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text) == published(text)
    if "▁" not in text:  # this character is how the vocabulary writes a space
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_control_and_byte_pieces_typed_by_a_user_are_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("</s><0x0A>") == published("</s><0x0A>")
    assert tokenizer.encode("the</s>", special=True) == [*published("the"), 2]


def test_the_leading_space_goes_before_user_defined_pieces_not_after(tokenizer: Tokenizer) -> None:
    tool = PIECES.index("<tool>")
    assert tokenizer.encode("<tool>the") == [PIECES.index("▁"), tool, *published("the", prefix="")]


def test_no_leading_space_where_the_file_says_so() -> None:
    tokenizer = Tokenizer(TokenizerData.from_gguf(metadata(add_space_prefix=False)))
    assert tokenizer.encode("and") == published("and", prefix="")
    assert tokenizer.decode(tokenizer.encode(" and")) == " and"


def test_the_bos_comes_once(tokenizer: Tokenizer) -> None:
    template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    written = metadata() | {"tokenizer.chat_template": template}
    turn = [Message("user", "the")]
    assert Tokenizer(TokenizerData.from_gguf(written)).encode_chat(turn) == [1, *published("the"), 2]
    assert tokenizer.encode_chat(turn)[:2] == [1, PIECES.index("▁")]
    assert tokenizer.encode_chat(turn).count(1) == 1


def test_a_missing_score_is_refused() -> None:
    with pytest.raises(ModelFileError, match="scores"):
        TokenizerData.from_gguf(metadata(scores=SCORES[:-1]))
