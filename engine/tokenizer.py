"""Text to token ids and back, with a model's own vocabulary."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from octavo.engine.byte_bpe import ByteBpe
from octavo.engine.chat_template import CHATML, PLAIN, ChatTemplate, Message, unused_character
from octavo.engine.errors import UnsupportedModelError
from octavo.engine.pretokenizers import BY_GGUF_NAME
from octavo.engine.special_tokens import SpecialTokens
from octavo.engine.stream_decoder import StreamDecoder
from octavo.engine.tokenizer_data import TokenizerData, TokenType

__all__ = ["Message", "StreamDecoder", "Tokenizer", "TokenizerData"]

_SILENT_TYPES = (TokenType.UNKNOWN, TokenType.CONTROL, TokenType.UNUSED)


class Tokenizer:
    """Encodes and decodes; safe to share between threads.

    Control tokens (turn markers, end of text) are recognised only where the caller allows it. Tokens that a
    model marks as user-defined (Qwen's `<tool_call>`) belong to its plain vocabulary and always count, as in
    the reference tokenizers. Raises UnsupportedModelError when the pre-tokenizer is not known.
    """

    def __init__(self, data: TokenizerData) -> None:
        self.vocab_size = len(data.tokens)
        self.bos_id = data.bos_id
        self.pad_id = data.pad_id
        self.eos_ids = data.eos_ids
        self._data = data
        self._bpe = _byte_bpe(data)
        self._token_bytes = self._bpe.token_bytes
        control: dict[str, int] = {}
        user_defined: dict[str, int] = {}
        silent: set[int] = set()
        for token_id, kind in enumerate(data.token_types):
            if kind == TokenType.NORMAL and token_id not in data.eos_ids:
                continue
            token = data.tokens[token_id]
            self._token_bytes[token_id] = token.encode("utf-8", "replace")
            if kind == TokenType.USER_DEFINED and token_id not in data.eos_ids:
                user_defined[token] = token_id
            elif kind == TokenType.CONTROL or token_id in data.eos_ids:
                control[token] = token_id
            if kind in _SILENT_TYPES or token_id in data.eos_ids:
                silent.add(token_id)
        self._silent = frozenset(silent)
        self._control = SpecialTokens(control)
        self._user_defined = SpecialTokens(user_defined)
        self._all_special = SpecialTokens({**control, **user_defined})

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of `text`, without a BOS; only with `special` is the text of a control token that token.

        Lone surrogates, which no UTF-8 text can hold, become U+FFFD; a pair of them becomes its character.
        """
        return self._encode(_without_surrogates(text), self._all_special if special else self._user_defined)

    def encode_chat(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> list[int]:
        """Token ids of a conversation in the model's own chat format, ready for the answer to follow.

        Control tokens come from the template alone: their text inside a message is ordinary text. Otherwise
        the ids are those of the whole rendered text, after the BOS that the model asks for if the template
        does not write it. Raises UnsupportedModelError when the template fails or refuses the messages.
        """
        fields = [field for message in messages for field in (message.role, message.content)]
        mark = unused_character([*fields, self._template_source])
        guarded = [
            Message(self._control.broken(message.role, mark), self._control.broken(message.content, mark))
            for message in messages
        ]
        rendered = self._template.render(guarded, add_generation_prompt=add_generation_prompt)
        ids: list[int] = []
        for text, control_id in self._control.split(rendered):
            ids += self.encode(text.replace(mark, ""))
            if control_id is not None:
                ids.append(control_id)
        if self._data.add_bos and self.bos_id is not None and ids[:1] != [self.bos_id]:
            ids.insert(0, self.bos_id)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; control tokens yield none, and bytes that are not UTF-8 become U+FFFD."""
        decoder = self.stream()
        return "".join([decoder.push(token_id) for token_id in ids]) + decoder.finish()

    def stream(self) -> StreamDecoder:
        """A decoder for one answer."""
        return StreamDecoder(self._token_bytes, self._silent)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of a token, for a control token its written form; none for an id past the vocabulary."""
        return self._token_bytes[token_id] if 0 <= token_id < self.vocab_size else b""

    def _encode(self, text: str, literals: SpecialTokens) -> list[int]:
        ids: list[int] = []
        for ordinary, special_id in literals.split(text):
            if ordinary:
                ids += self._bpe.encode(ordinary)
            if special_id is not None:
                ids.append(special_id)
        return ids

    @cached_property
    def _template_source(self) -> str:
        if self._data.chat_template is not None:
            return self._data.chat_template
        return CHATML if "<|im_start|>" in self._data.tokens else PLAIN

    @cached_property
    def _template(self) -> ChatTemplate:
        named = {"bos_token": self.bos_id, "eos_token": self._data.eos_id, "pad_token": self.pad_id}
        constants = {name: self._data.tokens[i] for name, i in named.items() if i is not None}
        return ChatTemplate(self._template_source, constants)


def _byte_bpe(data: TokenizerData) -> ByteBpe:
    pre_tokenizer = BY_GGUF_NAME.get(data.pre)
    if pre_tokenizer is None:
        raise UnsupportedModelError(
            f"The pre-tokenizer {data.pre!r} is not supported; choose a model with {', '.join(BY_GGUF_NAME)}."
        )
    return ByteBpe(data.tokens, data.merges, pre_tokenizer)


def _without_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
