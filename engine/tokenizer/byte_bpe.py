"""Byte-level BPE: a tiktoken encoding built from a model's own vocabulary, with the model's own ids."""

import re
from collections.abc import Iterator, Sequence

import tiktoken
from tokenizers import normalizers

from octavo.engine.errors import ModelFileError
from octavo.engine.tokenizer.byte_level import BYTE_CHARACTERS, bytes_of_tokens
from octavo.engine.tokenizer.pretokenizers import PreTokenizer

# The lookahead for the last of a run of spaces keeps one state per space and fails at a million of them.
_LONGEST_SPACE = 65_536
_LONG_SPACE = re.compile(rf"(?<!\s)\s{{{_LONGEST_SPACE + 1},}}+")

# Python's own NFC follows the Unicode version of the interpreter, so ids would depend on it.
_NFC = normalizers.NFC()


class ByteBpe:
    """Encodes text without special tokens.

    tiktoken (MIT, OpenAI) merges the pair of lowest rank first. A token's rank here is the place of the
    first merge that makes it, the order of byte-pair encoding (Sennrich et al., 2016); a table gives its id.
    Two exceptions to the reference: a run of more than 65,536 spaces is cut there, and a character with a
    byte that the vocabulary lacks is left out whole, not byte by byte.

    Raises ModelFileError when a merge makes a token that is not in `tokens`.
    """

    space_prefix = "none"
    strip_space = False

    def __init__(self, tokens: Sequence[str], merges: Sequence[str], pre_tokenizer: PreTokenizer) -> None:
        self.token_bytes = bytes_of_tokens(tokens)
        self._nfc = pre_tokenizer.nfc
        ids = {token: token_id for token_id, token in enumerate(tokens)}
        byte_ids = [ids.get(character, -1) for character in BYTE_CHARACTERS]
        self._missing = bytes(byte for byte, token_id in enumerate(byte_ids) if token_id < 0)
        try:
            merged_ids = list(dict.fromkeys(ids[token] for token in _merged_tokens(merges)))
        except KeyError as error:
            raise ModelFileError(
                f"The tokenizer merges bytes into {error.args[0]!r}, which is not one of its tokens; "
                "download the model again."
            ) from None
        ranks = {bytes([byte]): byte for byte in range(256)}
        ranks.update((self.token_bytes[i], rank) for rank, i in enumerate(merged_ids, start=256))
        self._ids_by_rank = byte_ids + merged_ids
        self._encoding = tiktoken.Encoding(
            "octavo", pat_str=pre_tokenizer.pattern, mergeable_ranks=ranks, special_tokens={}
        )

    def encode(self, text: str) -> list[int]:
        """Token ids of a text that holds no lone surrogates."""
        if self._nfc and not text.isascii():
            text = _NFC.normalize_str(text)
        if self._missing:
            text = text.encode().translate(None, self._missing).decode("utf-8", "ignore")
        ids: list[int] = []
        for part in _cut_long_spaces(text):
            ids += [self._ids_by_rank[rank] for rank in self._encoding.encode_ordinary(part)]
        return ids


def _merged_tokens(merges: Sequence[str]) -> list[str]:
    """The token each merge makes; the byte alphabet has no space, so only the separator is dropped."""
    return "\n".join(merges).replace(" ", "").split("\n") if merges else []


def _cut_long_spaces(text: str) -> Iterator[str]:
    start = 0
    if len(text) > _LONGEST_SPACE:
        for run in _LONG_SPACE.finditer(text):
            for cut in range(run.start() + _LONGEST_SPACE, run.end(), _LONGEST_SPACE):
                yield text[start:cut]
                start = cut
    yield text[start:]
