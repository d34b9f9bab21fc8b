"""What a model file says about its tokenizer, read from GGUF metadata or from a Hugging Face folder."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

from octavo.engine.errors import ModelFileError, UnsupportedModelError
from octavo.engine.tokenizer.pretokenizers import recognise

# A file names one or two of the tokens that end a turn; a chat model may end it with any of these it has.
_TURN_ENDS = frozenset(
    {
        "<|im_end|>",
        "<|endoftext|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end_of_text|>",
        "<|end|>",
        "<end_of_turn>",
        "<｜end▁of▁sentence｜>",
        "</s>",
    }
)
# Ids index lists, so a damaged file must not be able to ask for any amount of memory.
_MOST_TOKENS = 1 << 24


class TokenType(IntEnum):
    """The kinds of token a GGUF file distinguishes (`tokenizer.ggml.token_type`)."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenizerData:
    """A vocabulary and what belongs to it; `tokens` and `token_types` have one entry per id.

    `kind` "bpe" is byte-level BPE with `merges` ("left right", best first) and the pre-tokenizer named `pre`;
    "spm" is a SentencePiece BPE with `scores`; "hf" leaves the merging to the file `tokenizer_json`.
    `eos_id` is what a template calls eos, `eos_ids` are all the tokens that end a turn.
    """

    kind: Literal["bpe", "spm", "hf"]
    tokens: Sequence[str]
    token_types: Sequence[int]
    merges: Sequence[str] = ()
    pre: str = ""
    scores: Sequence[float] = ()
    space_prefix: bool = False
    tokenizer_json: Path | None = None
    bos_id: int | None = None
    eos_id: int | None = None
    eos_ids: frozenset[int] = frozenset()
    pad_id: int | None = None
    add_bos: bool = False
    chat_template: str | None = None

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> "TokenizerData":
        """Read `tokenizer.*` of a GGUF file; raises ModelFileError or UnsupportedModelError."""
        model = metadata.get("tokenizer.ggml.model")
        if model not in ("gpt2", "llama"):
            raise UnsupportedModelError(
                f"The tokenizer type {model!r} is not supported; choose a model with a BPE tokenizer."
            )
        byte_level = model == "gpt2"
        tokens = _gguf_list(metadata, "tokens")
        size = len(tokens)
        typed = "tokenizer.ggml.token_type" in metadata
        named = {name: metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")}
        types = _gguf_list(metadata, "token_type", size) if typed else [int(TokenType.NORMAL)] * size
        pre = str(metadata.get("tokenizer.ggml.pre", ""))
        # Llama 3 files before 2024-05 lack the key, and their models expect the token.
        default_bos = not byte_level or pre.startswith("llama")
        return cls(
            kind="bpe" if byte_level else "spm",
            tokens=tokens,
            token_types=types,
            merges=_gguf_list(metadata, "merges") if byte_level else (),
            pre=pre,
            scores=() if byte_level else _gguf_list(metadata, "scores", size),
            space_prefix=bool(metadata.get("tokenizer.ggml.add_space_prefix", True)) and not byte_level,
            bos_id=_valid(metadata.get("tokenizer.ggml.bos_token_id"), size),
            eos_id=_valid(named["eos"], size),
            eos_ids=_ids([*named.values(), *metadata.get("tokenizer.ggml.eos_token_ids", ())], size)
            | _turn_ends(tokens, types),
            pad_id=_valid(metadata.get("tokenizer.ggml.padding_token_id"), size),
            add_bos=bool(metadata.get("tokenizer.ggml.add_bos_token", default_bos)),
            chat_template=metadata.get("tokenizer.chat_template"),
        )

    @classmethod
    def from_folder(cls, path: Path) -> "TokenizerData":
        """Read tokenizer.json and its companions in a Hugging Face folder.

        Raises ModelFileError when a file is missing or damaged, UnsupportedModelError for another vocabulary.
        """
        file = path / "tokenizer.json"
        description = read_json(file)
        config = read_json(path / "tokenizer_config.json", optional=True)
        try:
            tokens, types = _folder_vocabulary(description, file)
            pre = recognise(description)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ModelFileError(f"{file} is not in the format it should have; download it again.") from error
        ids = {token: i for i, token in enumerate(tokens) if types[i] != TokenType.UNUSED}
        bos, eos, pad = (ids.get(_content(config.get(f"{name}_token"))) for name in ("bos", "eos", "pad"))
        listed = [eos]
        for name in ("generation_config.json", "config.json"):
            value = read_json(path / name, optional=True).get("eos_token_id")
            listed += value if isinstance(value, list) else [value]
        merges = description["model"].get("merges", [])
        return cls(
            kind="bpe" if pre else "hf",
            tokens=tokens,
            token_types=types,
            merges=[merge if isinstance(merge, str) else " ".join(merge) for merge in merges] if pre else (),
            pre=pre or "",
            tokenizer_json=file,
            bos_id=bos,
            eos_id=eos,
            eos_ids=_ids(listed, len(tokens)) | _turn_ends(tokens, types),
            pad_id=pad,
            add_bos=bool(config.get("add_bos_token", False)),
            chat_template=_folder_template(path, config),
        )


def read_json(path: Path, *, optional: bool = False) -> dict[str, Any]:
    """A JSON object from a file, or an empty one if an `optional` file is missing; raises ModelFileError."""
    if optional and not path.exists():
        return {}
    text = _read_text(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} cannot be read: {error}; download the model again.") from error
    if not isinstance(value, dict):
        raise ModelFileError(f"{path} holds no JSON object; download the model again.")
    return value


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ModelFileError(f"{path} is missing; download the model again.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{path} cannot be read: {error}; download the model again.") from error


def _gguf_list(metadata: Mapping[str, Any], name: str, length: int | None = None) -> list[Any]:
    value = list(metadata.get(f"tokenizer.ggml.{name}") or ())
    if not value or (length is not None and len(value) != length):
        raise ModelFileError(
            f"The model file has {len(value)} values in tokenizer.ggml.{name} "
            f"instead of {length or 'a list'}; download it again."
        )
    return value


def _folder_vocabulary(description: Mapping[str, Any], path: Path) -> tuple[list[str], list[int]]:
    """Tokens and types by id; ids that no token has are unused."""
    vocabulary = description.get("model", {}).get("vocab")
    if not isinstance(vocabulary, dict) or not vocabulary:
        raise UnsupportedModelError(f"The tokenizer in {path} has no BPE vocabulary; choose another model.")
    added = description.get("added_tokens", [])
    used = [*vocabulary.values(), *(token["id"] for token in added)]
    size = 1 + max(used)
    if min(used) < 0 or size > _MOST_TOKENS:
        raise ModelFileError(f"{path} gives a token an impossible id; download it again.")
    tokens = [""] * size
    types = [int(TokenType.UNUSED)] * size
    for token, token_id in vocabulary.items():
        tokens[token_id] = token
        types[token_id] = TokenType.NORMAL
    for token in added:
        content = token["content"]
        control = token.get("special") or (content.startswith("<|") and content.endswith("|>"))
        tokens[token["id"]] = content
        types[token["id"]] = TokenType.CONTROL if control else TokenType.USER_DEFINED
    return tokens, types


def _folder_template(path: Path, config: Mapping[str, Any]) -> str | None:
    file = path / "chat_template.jinja"
    if file.exists():
        return _read_text(file)
    template = config.get("chat_template")
    if isinstance(template, list):
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    return template


def _content(token: Any) -> str:
    return str(token.get("content", "") if isinstance(token, dict) else token or "")


def _valid(token_id: Any, size: int) -> int | None:
    """Files name ids their vocabulary lacks, such as -1 or 4294967295, for tokens they do not have."""
    return int(token_id) if token_id is not None and 0 <= token_id < size else None


def _ids(values: Iterable[Any], size: int) -> frozenset[int]:
    return frozenset(token_id for value in values if (token_id := _valid(value, size)) is not None)


def _turn_ends(tokens: Sequence[str], types: Sequence[int]) -> frozenset[int]:
    added = (i for i, kind in enumerate(types) if kind in (TokenType.CONTROL, TokenType.USER_DEFINED))
    return frozenset(i for i in added if tokens[i] in _TURN_ENDS)
