"""Ids equal those of the `tokenizers` library for every pre-tokenizer, on any text."""

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.tokenizer import Tokenizer, TokenizerData

CORPUS = [
    "",
    "Hello, world! It's 3 o'clock; WE'LL see, they'd 'SAID.",
    "def f(x):\n    return x ** 2  # squares\n\n\n\tif True:\r\n\t\tpass\r\n",
    "日本語のテキストと中文，한국어 문장。",
    "👩‍👩‍👧 👍🏽 🇩🇪 ❤️ family",
    "     five spaces   and trailing   ",
    "\t\ttabs\t and \n \n \n lines \r\n\r\n",
    "1 12 123 1234567890 ٣٤ ½ Ⅷ 3.14  42",
    "e\u0301 a\u0308\u0323 n\u0303o हिन्दी ไทย העברית العربية",
    "nul \x00 and bell \x07, no-break\u00a0space, ideographic\u3000space, nel\x85, zero\u200bwidth\ufeff",
    "<|im_start|>user\nhi<|im_end|><|endoftext|> <tool_call> <|im_",
    "'ſ 'S 'K İ ß ﬁ Ǆ",
]
FRAGMENTS = [
    *"aé日 \t\n\r1½'_-=.",
    *("\r\n", "  ", "'s", "'LL", "👩‍👩‍👧", "e\u0301", "<|im_end|>", "<tool_call>", "def "),
]
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=12).map("".join)

Train = Callable[[str], tokenizers.Tokenizer]
Metadata = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def tokenizer(pre: str, gguf_metadata: Metadata) -> Tokenizer:
    return Tokenizer(TokenizerData.from_gguf(gguf_metadata(pre)))


@pytest.fixture
def smollm(gguf_metadata: Metadata) -> Tokenizer:
    return Tokenizer(TokenizerData.from_gguf(gguf_metadata("smollm")))


def reference_ids(reference: tokenizers.Tokenizer, text: str, *, special: bool) -> list[int]:
    reference.encode_special_tokens = not special
    return list(reference.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("text", CORPUS)
def test_ids_equal_the_reference(tokenizer: Tokenizer, train: Train, pre: str, text: str, special: bool) -> None:
    assert tokenizer.encode(text, special=special) == reference_ids(train(pre), text, special=special)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=texts)
def test_any_text_has_the_reference_ids_and_comes_back(tokenizer: Tokenizer, train: Train, pre: str, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids == reference_ids(train(pre), text, special=False)
    assert tokenizer.encode(text, special=True) == reference_ids(train(pre), text, special=True)
    if pre != "qwen2" or unicodedata.is_normalized("NFC", text):
        assert tokenizer.decode(ids) == text


def test_text_of_a_control_token_is_ordinary_text_unless_allowed(smollm: Tokenizer) -> None:
    assert not smollm.eos_ids & set(smollm.encode("a<|im_end|>"))
    assert smollm.encode("a<|im_end|>", special=True)[-1] == 2
    assert smollm.decode(smollm.encode("a<|im_end|>")) == "a<|im_end|>"
    assert smollm.decode(smollm.encode("a<|im_end|>b", special=True)) == "ab"


def test_lone_surrogates_become_the_replacement_character(smollm: Tokenizer) -> None:
    assert smollm.encode("a\ud800b\udfff") == smollm.encode("a\ufffdb\ufffd")
    assert smollm.encode("\ud83d\udc4d") == smollm.encode("👍")


@pytest.mark.parametrize("character", ["a", "日", "=", " ", "\n"])
def test_a_megabyte_of_one_character_is_encoded(tokenizer: Tokenizer, character: str) -> None:
    text = character * (1_048_576 // len(character.encode())) + "x"
    ids = tokenizer.encode(text)
    assert b"".join(tokenizer.token_bytes(i) for i in ids) == text.encode()


def test_a_character_whose_bytes_the_vocabulary_lacks_is_left_out(gguf_metadata: Metadata) -> None:
    metadata = gguf_metadata("smollm")
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    for token in ("Ą", "ñ"):  # how bytes 0x04 and 0xf1 are written
        types[tokens.index(token)] = 5
        tokens[tokens.index(token)] = f"[PAD{token}]"
    tokenizer = Tokenizer(TokenizerData.from_gguf(metadata))
    assert tokenizer.decode(tokenizer.encode("a\x04b \U00040000ñ")) == "ab ñ"


def test_token_bytes_and_ids_past_the_vocabulary(smollm: Tokenizer) -> None:
    ids = smollm.encode("Größe 👍")
    assert b"".join(smollm.token_bytes(i) for i in ids) == "Größe 👍".encode()
    assert smollm.token_bytes(2) == b"<|im_end|>"
    assert smollm.token_bytes(smollm.vocab_size) == smollm.token_bytes(-1) == b""
    assert smollm.decode([smollm.vocab_size, *ids, -1]) == "Größe 👍"


def test_every_token_that_ends_a_turn_is_known(gguf_metadata: Metadata) -> None:
    metadata = gguf_metadata("smollm") | {
        "tokenizer.ggml.eos_token_id": 300,
        "tokenizer.ggml.eot_token_id": 301,
        "tokenizer.ggml.eos_token_ids": [302, 2**32 - 1],
    }
    assert TokenizerData.from_gguf(metadata).eos_ids == {0, 2, 300, 301, 302}


@pytest.mark.parametrize("value", ["bert", None])
def test_an_unknown_tokenizer_is_named(gguf_metadata: Metadata, value: str | None) -> None:
    with pytest.raises(UnsupportedModelError, match=f"tokenizer type {value!r}"):
        TokenizerData.from_gguf(gguf_metadata("smollm") | {"tokenizer.ggml.model": value})


def test_an_unknown_pre_tokenizer_is_named(gguf_metadata: Metadata) -> None:
    data = TokenizerData.from_gguf(gguf_metadata("smollm") | {"tokenizer.ggml.pre": "exotic"})
    with pytest.raises(UnsupportedModelError, match="'exotic'"):
        Tokenizer(data)


@pytest.mark.parametrize(
    ("key", "value"),
    [("tokens", []), ("merges", None), ("token_type", [1, 2]), ("merges", ["a b", "ab zzzz"])],
)
def test_a_damaged_vocabulary_is_refused(gguf_metadata: Metadata, key: str, value: Any) -> None:
    with pytest.raises(ModelFileError, match="download"):
        Tokenizer(TokenizerData.from_gguf(gguf_metadata("smollm") | {f"tokenizer.ggml.{key}": value}))
