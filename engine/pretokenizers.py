"""How each family of byte-level BPE cuts a text into words before it merges bytes.

The expressions are those the models were trained with, published in their tokenizer files; a cut elsewhere
gives other tokens, so a tokenizer that is not listed here is never guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# SmolLM isolates every digit first and cuts the rest as GPT-2 does, so a digit ends a run of spaces
# just as the end of the text would.
_SMOLLM = r"\p{N}|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


@dataclass(frozen=True)
class PreTokenizer:
    """`pattern` matches every word of a text, in the syntax of tiktoken; `nfc` composes the text first."""

    pattern: str
    nfc: bool = False


GPT2 = PreTokenizer(_GPT2)
SMOLLM = PreTokenizer(_SMOLLM)
LLAMA3 = PreTokenizer(_LLAMA3)
QWEN2 = PreTokenizer(_QWEN2, nfc=True)

BY_GGUF_NAME: Mapping[str, PreTokenizer] = {
    "gpt-2": GPT2,
    "smollm": SMOLLM,
    "llama-bpe": LLAMA3,
    "llama3": LLAMA3,
    "llama-v3": LLAMA3,
    "qwen2": QWEN2,
    "deepseek-r1-qwen": QWEN2,
}
