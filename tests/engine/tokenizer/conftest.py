"""Small vocabularies trained by the `tokenizers` library, which is then the reference for the ids."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
USER_DEFINED = ("<tool_call>",)
TRAINING_TEXT = (
    "The quick brown foxes don't jump over the lazy dogs; we'll see they've seen it.",
    "def encode(self, text: str) -> list[int]:\n    return [ids[rank] for rank in ranks]\n\n\n",
    "Größe, naïve café, 日本語の文章と中文, 👩‍👩‍👧 👍🏽 🇩🇪, हिन्दी, العربية, 12345 + 67890 = 80235",
    "\t\tif x == 1:\r\n\r\n        pass    # ====== //////// ------",
)

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _qwen2() -> str:
    from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

    return str(PRETOKENIZE_REGEX)


def _split(pattern: str) -> Any:
    words = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(False, use_regex=False)])


PRE_TOKENIZERS: dict[str, Callable[[], Any]] = {
    "gpt-2": lambda: pre_tokenizers.ByteLevel(False),
    "smollm": lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)]),
    "llama-bpe": lambda: _split(LLAMA3),
    "qwen2": lambda: _split(_qwen2()),
}


@cache
def _train(pre: str) -> tokenizers.Tokenizer:
    reference = tokenizers.Tokenizer(models.BPE())
    reference.pre_tokenizer = PRE_TOKENIZERS[pre]()
    reference.decoder = decoders.ByteLevel()
    if pre == "qwen2":
        reference.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        show_progress=False,
        special_tokens=list(CONTROL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    reference.train_from_iterator(TRAINING_TEXT * 3, trainer)
    reference.add_tokens([AddedToken(token, normalized=False) for token in USER_DEFINED])
    return reference


@pytest.fixture(scope="session", params=PRE_TOKENIZERS)
def pre(request: pytest.FixtureRequest) -> str:
    """The name of each supported pre-tokenizer."""
    return str(request.param)


@pytest.fixture(scope="session")
def train() -> Callable[[str], tokenizers.Tokenizer]:
    """train(pre) -> the reference, with all bytes, about 400 merges, CONTROL and USER_DEFINED tokens."""
    return _train


@pytest.fixture(scope="session")
def gguf_metadata() -> Callable[[str], dict[str, Any]]:
    """gguf_metadata(pre) -> the same vocabulary as a GGUF file writes it."""

    def metadata(pre: str) -> dict[str, Any]:
        import json

        reference = _train(pre)
        merges = json.loads(reference.to_str())["model"]["merges"]
        tokens = [reference.id_to_token(i) or "" for i in range(reference.get_vocab_size())]
        types = [3 if t in CONTROL else 4 if t in USER_DEFINED else 1 for t in tokens]
        return {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": pre,
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": types,
            "tokenizer.ggml.merges": [" ".join(pair) for pair in merges],
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2,
            "tokenizer.ggml.padding_token_id": 0,
            "tokenizer.ggml.add_bos_token": False,
        }

    return metadata
