"""How each family of byte-level BPE cuts a text into words before it merges bytes.

The expressions are those the models were trained with, published in their tokenizer files; a cut elsewhere
gives other tokens, so a tokenizer that is not listed here is never guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
    """`pattern` matches every word of a text, in tiktoken's syntax; with `nfc` the text is composed first."""

    pattern: str
    nfc: bool = False


BY_NAME: Mapping[str, PreTokenizer] = {
    "gpt-2": PreTokenizer(_GPT2),
    "smollm": PreTokenizer(_SMOLLM),
    "llama-bpe": PreTokenizer(_LLAMA3),
    "llama3": PreTokenizer(_LLAMA3),
    "llama-v3": PreTokenizer(_LLAMA3),
    "qwen2": PreTokenizer(_QWEN2, nfc=True),
    "deepseek-r1-qwen": PreTokenizer(_QWEN2, nfc=True),
}


def recognise(description: Mapping[str, Any]) -> str | None:
    """The name in `BY_NAME` of what a tokenizer.json describes, or None if it is anything else."""
    model = description["model"]
    unlike = ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
    if model.get("type") != "BPE" or any(model.get(key) for key in unlike):
        return None
    normalizer = description.get("normalizer")
    if normalizer not in (None, {"type": "NFC"}):
        return None
    found = _pattern(description.get("pre_tokenizer") or {})
    expected = PreTokenizer(found or "", nfc=normalizer is not None)
    return next((name for name, known in BY_NAME.items() if known == expected), None)


def _pattern(pre_tokenizer: Mapping[str, Any]) -> str | None:
    steps = pre_tokenizer.get("pretokenizers", [pre_tokenizer])
    last = steps[-1]
    if last.get("type") != "ByteLevel" or last.get("add_prefix_space", True):
        return None
    if last.get("use_regex", True):
        if len(steps) == 1:
            return _GPT2
        digits = steps[0].get("type") == "Digits" and steps[0].get("individual_digits")
        return _SMOLLM if digits and len(steps) == 2 else None
    split = steps[0]
    whole = split.get("type") == "Split" and split.get("behavior") == "Isolated" and not split.get("invert")
    return split["pattern"].get("Regex") if whole and len(steps) == 2 else None
