"""BPE through the `tokenizers` library: SentencePiece vocabularies, and other tokenizer.json files."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer, models

from octavo.engine.errors import UnsupportedModelError
from octavo.engine.tokenizer.byte_level import bytes_of_tokens
from octavo.engine.tokenizer.data import TokenType, read_json

_SPACE = "▁"

SpacePrefix = Literal["none", "every", "start"]


class LibraryBpe:
    """Encodes text without special tokens, spaces written as `space`.

    `space_prefix` says which stretches between control tokens get a space first: none, every one, or only
    the one at the start; `strip_space` says that decoding drops one leading space.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        token_bytes: list[bytes],
        *,
        space: str,
        space_prefix: SpacePrefix,
        strip_space: bool,
    ) -> None:
        self.token_bytes = token_bytes
        self.space_prefix = space_prefix
        self.strip_space = strip_space
        self._tokenizer = tokenizer
        self._space = space

    def encode(self, text: str) -> list[int]:
        """Token ids of a text that holds no lone surrogates."""
        encoding = self._tokenizer.encode(text.replace(" ", self._space), add_special_tokens=False)
        ids: list[int] = encoding.ids
        return ids


def from_pieces(
    tokens: Sequence[str], types: Sequence[int], scores: Sequence[float], *, space_prefix: bool
) -> LibraryBpe:
    """A SentencePiece BPE model (Kudo and Richardson, 2018) with byte fallback.

    It joins the neighbours whose union is the piece of highest score. With `space_prefix` every stretch of
    text gets a space first, because SentencePiece encodes each on its own.
    """
    pieces = {token: i for i, token in enumerate(tokens) if types[i] == TokenType.NORMAL}
    best_first = sorted(pieces, key=lambda piece: (-scores[pieces[piece]], pieces[piece]))
    merges = [
        (piece[:cut], piece[cut:])
        for piece in best_first
        for cut in range(1, len(piece))
        if piece[:cut] in pieces and piece[cut:] in pieces
    ]
    unknown = next((token for i, token in enumerate(tokens) if types[i] == TokenType.UNKNOWN), None)
    vocabulary = {token: i for i, token in enumerate(tokens)}
    model = models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    return LibraryBpe(
        Tokenizer(model),
        _bytes_of_pieces(tokens),
        space=_SPACE,
        space_prefix="every" if space_prefix else "none",
        strip_space=space_prefix,
    )


def from_file(path: Path, tokens: Sequence[str], control: Collection[str]) -> LibraryBpe:
    """A tokenizer.json; added tokens are left to the caller, and no text is merged into one of `control`.

    Raises ModelFileError when the file cannot be read, UnsupportedModelError when it is no BPE or when its
    way of decoding leaves no bytes per token.
    """
    config = read_json(path)
    kind = config.get("model", {}).get("type")
    if kind != "BPE":
        raise UnsupportedModelError(
            f"The tokenizer in {path} is of type {kind!r}, which is not supported; choose a model with BPE."
        )
    spelling, strip_space = _spelling(config.get("decoder") or {}, path)
    _forget(config["model"], set(control) - {config["model"].get("unk_token")})
    first_only = _stop_prefixing(config.get("pre_tokenizer") or {})
    try:
        tokenizer = Tokenizer.from_str(json.dumps({**config, "added_tokens": [], "post_processor": None}))
    except Exception as error:  # the library raises nothing narrower
        raise UnsupportedModelError(
            f"The tokenizer in {path} is not supported: {error}; choose another model."
        ) from error
    return LibraryBpe(
        tokenizer,
        spelling(tokens),
        space=" ",
        space_prefix="start" if first_only else "none",
        strip_space=strip_space,
    )


def _forget(model: dict[str, Any], tokens: Collection[str]) -> None:
    """Take tokens out of a vocabulary, with the merges that would make them."""
    merges = model.get("merges", [])
    pairs = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in merges]
    model["merges"] = [pair for pair in pairs if "".join(pair) not in tokens]
    model["vocab"] = {token: i for token, i in model["vocab"].items() if token not in tokens}


def _bytes_of_pieces(tokens: Sequence[str]) -> list[bytes]:
    return [
        bytes([int(token[3:5], 16)])
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">")
        else token.replace(_SPACE, " ").encode("utf-8", "replace")
        for token in tokens
    ]


def _spelling(decoder: Mapping[str, Any], path: Path) -> tuple[Callable[[Sequence[str]], list[bytes]], bool]:
    """How the tokens are written, and whether decoding drops the first space."""
    steps = {step.get("type"): step for step in decoder.get("decoders", [decoder])}
    if "ByteLevel" in steps:
        return bytes_of_tokens, False
    if "Metaspace" in steps:
        return _bytes_of_pieces, steps["Metaspace"].get("prepend_scheme", "always") != "never"
    if "ByteFallback" in steps:
        return _bytes_of_pieces, "Strip" in steps
    raise UnsupportedModelError(f"The decoder of the tokenizer in {path} is not supported; choose another model.")


def _stop_prefixing(pre_tokenizer: dict[str, Any]) -> bool:
    """Turn off the "first" prefix, which counts per call rather than per prompt; true if it was on."""
    first = pre_tokenizer.get("type") == "Metaspace" and pre_tokenizer.get("prepend_scheme") == "first"
    if first:
        pre_tokenizer["prepend_scheme"] = "never"
    return first
