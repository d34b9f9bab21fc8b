"""What a model file says about its tokenizer, read from GGUF metadata or from a Hugging Face folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

from octavo.engine.errors import ModelFileError, UnsupportedModelError

# A file names one or two of the tokens that end a turn; a chat model may end it with any of these it has.
TURN_ENDS = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
    "</s>",
)


class TokenType(IntEnum):
    """The kinds of token a GGUF file distinguishes (`tokenizer.ggml.token_type`)."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, eq=False)
class TokenizerData:
    """A vocabulary and what belongs to it; `tokens[id]` and `token_types[id]` have one entry per id.

    `kind` "bpe" is byte-level BPE with `merges` ("left right", best first) and the pre-tokenizer named
    `pre`; "hf" leaves everything to the `tokenizer_json` file. `eos_id` is the one a template calls eos;
    `eos_ids` are all that end a turn.
    """

    kind: Literal["bpe", "hf"]
    tokens: Sequence[str]
    token_types: Sequence[int]
    merges: Sequence[str]
    pre: str
    bos_id: int | None
    eos_id: int | None
    eos_ids: frozenset[int]
    pad_id: int | None
    add_bos: bool
    chat_template: str | None
    tokenizer_json: Path | None = None

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> "TokenizerData":
        """Read `tokenizer.*` of a GGUF file; raises ModelFileError or UnsupportedModelError."""
        model = metadata.get("tokenizer.ggml.model")
        if model != "gpt2":
            raise UnsupportedModelError(
                f"The tokenizer type {model!r} is not supported; use a model with a byte-level BPE tokenizer."
            )
        tokens = _required(metadata, "tokens")
        types = metadata.get("tokenizer.ggml.token_type") or [TokenType.NORMAL] * len(tokens)
        if len(types) != len(tokens):
            raise ModelFileError(
                f"The model file lists {len(tokens)} tokens but {len(types)} token types; download it again."
            )
        pre = str(metadata.get("tokenizer.ggml.pre", ""))
        return cls(
            kind="bpe",
            tokens=tokens,
            token_types=types,
            merges=_required(metadata, "merges"),
            pre=pre,
            bos_id=metadata.get("tokenizer.ggml.bos_token_id"),
            eos_id=metadata.get("tokenizer.ggml.eos_token_id"),
            eos_ids=_gguf_eos_ids(metadata, tokens, types),
            pad_id=metadata.get("tokenizer.ggml.padding_token_id"),
            add_bos=bool(metadata.get("tokenizer.ggml.add_bos_token", pre.startswith("llama"))),
            chat_template=metadata.get("tokenizer.chat_template"),
        )


def _required(metadata: Mapping[str, Any], name: str) -> Sequence[str]:
    value = metadata.get(f"tokenizer.ggml.{name}")
    if not value:
        raise ModelFileError(f"The model file has no tokenizer.ggml.{name}; download it again.")
    return list(value)


def _gguf_eos_ids(metadata: Mapping[str, Any], tokens: Sequence[str], types: Sequence[int]) -> frozenset[int]:
    named = [metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    named.extend(metadata.get("tokenizer.ggml.eos_token_ids") or ())
    return frozenset(token_id for token_id in named if token_id is not None) | turn_ends(tokens, types)


def turn_ends(tokens: Sequence[str], types: Sequence[int]) -> frozenset[int]:
    """The ids of the control tokens that end a turn in one of the known chat formats."""
    controls = (i for i, kind in enumerate(types) if kind in (TokenType.CONTROL, TokenType.USER_DEFINED))
    return frozenset(i for i in controls if tokens[i] in TURN_ENDS)
