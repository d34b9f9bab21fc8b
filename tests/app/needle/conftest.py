"""A tokenizer that needs no model: tokens are words with the space before them, characters of other kinds alone."""

import re
from collections.abc import Sequence

import pytest

from octavo.engine.tokenizer import Message

USER, ASSISTANT = 0, 1


class WordTokenizer:
    """Ids are given as words come up, so that decoding returns the very text. A chat is USER, content, ASSISTANT."""

    def __init__(self) -> None:
        self.words = ["<user>", "<assistant>"]
        self.ids: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        words = re.findall(r" ?[A-Za-z]+| ?[0-9]|[^A-Za-z0-9]", text)
        assert "".join(words) == text
        for word in words:
            if word not in self.ids:
                self.ids[word] = len(self.words)
                self.words.append(word)
        return [self.ids[word] for word in words]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.words[i] for i in ids)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        (message,) = messages
        assert message.role == "user"
        assert message.token_ids is not None
        assert message.content == self.decode(message.token_ids)
        return [USER, *message.token_ids, ASSISTANT]


@pytest.fixture
def tokenizer() -> WordTokenizer:
    return WordTokenizer()
