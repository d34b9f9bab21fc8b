"""The byte alphabet of byte-level BPE vocabularies: how a token is written, and the bytes it stands for."""

from collections.abc import Sequence


def _byte_characters() -> tuple[str, ...]:
    """The printable character that stands for each byte, as published with GPT-2 (Radford et al., 2019)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [byte for byte in range(256) if byte not in printable]
    characters = {byte: chr(byte) for byte in printable}
    characters.update({byte: chr(256 + place) for place, byte in enumerate(unprintable)})
    return tuple(characters[byte] for byte in range(256))


BYTE_CHARACTERS = _byte_characters()
_ALPHABET = frozenset(BYTE_CHARACTERS)
_TO_LATIN1 = {ord(character): byte for byte, character in enumerate(BYTE_CHARACTERS)}


def bytes_of_tokens(tokens: Sequence[str]) -> list[bytes]:
    """The bytes of each token; one with a character outside the alphabet stands for its own UTF-8 text."""
    spelled = "".join(tokens)
    if not _ALPHABET.issuperset(spelled):
        return [_bytes_of_token(token) for token in tokens]
    # One translation of the whole vocabulary: 150,000 short ones take several times as long.
    data = spelled.translate(_TO_LATIN1).encode("latin-1")
    table = []
    start = 0
    for token in tokens:
        end = start + len(token)
        table.append(data[start:end])
        start = end
    return table


def _bytes_of_token(token: str) -> bytes:
    if _ALPHABET.issuperset(token):
        return token.translate(_TO_LATIN1).encode("latin-1")
    return token.encode("utf-8", "replace")
