"""Turns generated token ids into text while they arrive, never half a character."""

import codecs
from collections.abc import Container, Sequence


class StreamDecoder:
    """Decodes one answer; the pieces it returns, joined, are `Tokenizer.decode` of the same ids.

    `token_bytes[id]` are the bytes of a token; ids in `silent` (control tokens) and ids past the
    vocabulary yield no text. With `strip_space` one space at the very start of the answer is dropped.
    """

    def __init__(self, token_bytes: Sequence[bytes], silent: Container[int], *, strip_space: bool = False) -> None:
        self._token_bytes = token_bytes
        self._silent = silent
        self._strip_space = strip_space
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """The text that became certain with this token; bytes that cannot be UTF-8 come out as U+FFFD."""
        if token_id in self._silent or not 0 <= token_id < len(self._token_bytes):
            return ""
        return self._decode(self._token_bytes[token_id])

    def finish(self) -> str:
        """U+FFFD if the answer stopped inside a character, else nothing."""
        return self._decoder.decode(b"", final=True)

    def _decode(self, data: bytes) -> str:
        if self._strip_space and data:
            self._strip_space = False
            data = data.removeprefix(b" ")
        return self._decoder.decode(data)
