"""The small model's own vocabulary gives the ids of the reference tokenizers."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from octavo.engine.tokenizer import Message, Tokenizer, TokenizerData
from octavo.engine.weights.gguf import GGUFFile

pytestmark = pytest.mark.model

TEXT = (
    "def f(x):\n    return x ** 2  # naïve\r\n\t\tif x == 10: pass\n\n\n"
    "日本語のテキスト，中文。 한국어 👩‍👩‍👧 👍🏽 🇩🇪 e\u0301 हिन्दी العربية\u00a0\u3000 "
    "I'll SAY it's 3.14159 in 2024;   <|im_end|> <|im_start|>user ½ Ⅷ ٣٤ \x00 \u200b\ufeff trailing   "
)


@pytest.fixture(scope="module")
def metadata(small_model: Path) -> dict[str, Any]:
    return dict(GGUFFile(small_model).metadata)


@pytest.fixture(scope="module")
def tokenizer(metadata: dict[str, Any]) -> Tokenizer:
    return Tokenizer(TokenizerData.from_gguf(metadata))


@pytest.fixture(scope="module")
def reference(metadata: dict[str, Any]) -> tokenizers.Tokenizer:
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    reference = tokenizers.Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    reference.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    reference.decoder = decoders.ByteLevel()
    control = [t for t, kind in zip(tokens, metadata["tokenizer.ggml.token_type"], strict=True) if kind == 3]
    reference.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return reference


@pytest.mark.parametrize("special", [False, True])
def test_ids_equal_the_reference(tokenizer: Tokenizer, reference: tokenizers.Tokenizer, special: bool) -> None:
    own_source = Path(__file__).read_text(encoding="utf-8")
    reference.encode_special_tokens = not special
    for text in (TEXT, own_source, TEXT[::-1]):
        assert tokenizer.encode(text, special=special) == reference.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_every_token_is_what_its_own_bytes_merge_into(tokenizer: Tokenizer, metadata: dict[str, Any]) -> None:
    types = metadata["tokenizer.ggml.token_type"]
    for token_id in range(0, tokenizer.vocab_size, 7):
        data = tokenizer.token_bytes(token_id)
        if types[token_id] == 1 and data.strip().isalpha():
            assert tokenizer.encode(data.decode()) == [token_id]


def test_a_conversation_has_the_ids_of_transformers(
    tokenizer: Tokenizer, reference: tokenizers.Tokenizer, metadata: dict[str, Any]
) -> None:
    from transformers import PreTrainedTokenizerFast

    names = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=reference, **names)
    turns = [Message("user", "Hi, 日本 42"), Message("assistant", "Yes."), Message("user", "and\n\n  then?")]
    for system in ([], [Message("system", "Be brief.")]):
        messages = [*system, *turns]
        expected = fast.apply_chat_template(
            [{"role": m.role, "content": m.content} for m in messages],
            chat_template=metadata["tokenizer.chat_template"],
            add_generation_prompt=True,
            return_dict=False,
        )
        assert tokenizer.encode_chat(messages) == expected


def test_the_ends_of_a_turn_are_known(tokenizer: Tokenizer) -> None:
    assert {tokenizer.token_bytes(i) for i in tokenizer.eos_ids} == {b"<|im_end|>", b"<|endoftext|>"}


def test_the_tokenizer_loads_without_torch() -> None:
    program = "import sys, octavo.engine.tokenizer; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
