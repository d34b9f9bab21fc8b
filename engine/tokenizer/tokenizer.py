"""Text to token ids and back, with a model's own vocabulary."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

from octavo.engine.errors import UnsupportedModelError
from octavo.engine.tokenizer.byte_bpe import ByteBpe
from octavo.engine.tokenizer.chat_template import CHATML, PLAIN, ChatTemplate, Message, unused_character
from octavo.engine.tokenizer.data import TokenizerData, TokenType
from octavo.engine.tokenizer.library_bpe import LibraryBpe, from_file, from_pieces
from octavo.engine.tokenizer.pretokenizers import BY_NAME
from octavo.engine.tokenizer.special_tokens import SpecialTokens
from octavo.engine.tokenizer.splice import Slots, opened_like, opening
from octavo.engine.tokenizer.stream_decoder import StreamDecoder

_SILENT_TYPES = (TokenType.UNKNOWN, TokenType.CONTROL, TokenType.UNUSED)

# Where a stretch of text stands: first of all, after a control token, or right after ids that are kept as they are.
_Place = Literal["start", "inside", "joined"]


class Tokenizer:
    """Encodes and decodes; safe to share between threads.

    Control tokens (turn markers, end of text) are recognised only where the caller allows it. Tokens that a
    model marks as user-defined (Qwen's `<tool_call>`) belong to its plain vocabulary and always count, as in
    the reference tokenizers. Raises UnsupportedModelError when the kind of tokenizer is not known, and
    ModelFileError when its parts do not fit.
    """

    def __init__(self, data: TokenizerData) -> None:
        self.vocab_size = len(data.tokens)
        self.bos_id = data.bos_id
        self.pad_id = data.pad_id
        self.eos_ids = data.eos_ids
        self._data = data
        marked = [(i, kind) for i, kind in enumerate(data.token_types) if kind != TokenType.NORMAL]
        self._silent = data.eos_ids.union(i for i, kind in marked if kind in _SILENT_TYPES)
        controls = data.eos_ids.union(i for i, kind in marked if kind == TokenType.CONTROL)
        control = {data.tokens[i]: i for i in controls}
        user_defined = {data.tokens[i]: i for i, kind in marked if kind == TokenType.USER_DEFINED and i not in controls}
        self._control = SpecialTokens(control)
        self._user_defined = SpecialTokens(user_defined)
        self._bpe = _bpe(data, control)
        self._token_bytes = self._bpe.token_bytes
        for token_id in (*control.values(), *user_defined.values()):
            self._token_bytes[token_id] = data.tokens[token_id].encode("utf-8", "replace")

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of `text`, without a BOS; only with `special` is the text of a control token that token.

        Lone surrogates, which no UTF-8 text can hold, become U+FFFD; a pair of them becomes its character.
        """
        return self._encode_marked(text) if special else self._encode_stretch(text, "start")

    def encode_chat(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> list[int]:
        """Token ids of a conversation in the model's own chat format, ready for the answer to follow.

        Control tokens come from the template alone: their text inside a message is ordinary text. Otherwise
        the ids are those of the whole rendered text, after the BOS that the model asks for if the template
        does not write it. A message with `token_ids` keeps them, and before the answer to follow every such message
        begins as that answer will; where a template changes what it is given, its text is encoded anew. Raises
        UnsupportedModelError when the template fails or refuses the messages.
        """
        fields = [self._template_source, *(field for message in messages for field in (message.role, message.content))]
        mark = unused_character(fields)
        slots = Slots(unused_character([*fields, mark]))
        kept = [index for index, message in enumerate(messages) if message.token_ids]
        guarded = [
            Message(
                self._control.broken(message.role, mark),
                slots.stand_in(index) if message.token_ids else self._control.broken(message.content, mark),
            )
            for index, message in enumerate(messages)
        ]
        rendered = self._template.render(guarded, add_generation_prompt=add_generation_prompt)
        parts = slots.split(rendered, kept)
        if parts is None:
            plain = [replace(message, token_ids=None) for message in messages]
            return self.encode_chat(plain, add_generation_prompt=add_generation_prompt)
        if kept and add_generation_prompt:
            prompt = opening(rendered, self._template.render(guarded, add_generation_prompt=False))
            parts = [(text if index is None else opened_like(text, prompt), index) for text, index in parts]
        ids = self._join(parts, messages, mark)
        if self._data.add_bos and self.bos_id is not None and ids[:1] != [self.bos_id]:
            ids.insert(0, self.bos_id)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; control tokens yield none, and bytes that are not UTF-8 become U+FFFD."""
        decoder = self.stream()
        return "".join([decoder.push(token_id) for token_id in ids]) + decoder.finish()

    def stream(self) -> StreamDecoder:
        """A decoder for one answer."""
        return StreamDecoder(self._token_bytes, self._silent, strip_space=self._bpe.strip_space)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of a token, for a control token its written form; none for an id past the vocabulary."""
        return self._token_bytes[token_id] if 0 <= token_id < self.vocab_size else b""

    def _join(self, parts: Sequence[tuple[str, int | None]], messages: Sequence[Message], mark: str) -> list[int]:
        """Each text's ids and then, unchanged, those of the message it leads to."""
        ids: list[int] = []
        place: _Place = "start"
        for text, index in parts:
            ids += self._encode_marked(text, mark, place)
            if index is not None:
                ids += messages[index].token_ids or ()
                place = "joined"
        return ids

    def _encode_marked(self, text: str, mark: str = "", place: _Place = "start") -> list[int]:
        """Control tokens by their ids, the stretches between them without `mark` as ordinary text."""
        ids: list[int] = []
        for stretch, control_id in self._control.split(text):
            ids += self._encode_stretch(stretch.replace(mark, "") if mark else stretch, "inside" if ids else place)
            if control_id is not None:
                ids.append(control_id)
        return ids

    def _encode_stretch(self, text: str, place: _Place) -> list[int]:
        text = _without_surrogates(text)
        prefix = self._bpe.space_prefix
        prefixed = place != "joined" if prefix == "every" else place == "start" and text[:1] not in (" ", "▁")
        if text and prefix != "none" and prefixed:
            text = " " + text
        ids: list[int] = []
        for ordinary, user_defined_id in self._user_defined.split(text):
            if ordinary:
                ids += self._bpe.encode(ordinary)
            if user_defined_id is not None:
                ids.append(user_defined_id)
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


def _bpe(data: TokenizerData, control: Mapping[str, int]) -> ByteBpe | LibraryBpe:
    if data.kind == "spm":
        return from_pieces(data.tokens, data.token_types, data.scores, space_prefix=data.space_prefix)
    if data.kind == "hf" and data.tokenizer_json is not None:
        return from_file(data.tokenizer_json, data.tokens, control)
    if data.pre not in BY_NAME:
        raise UnsupportedModelError(
            f"The pre-tokenizer {data.pre!r} is not supported; choose a model with {', '.join(BY_NAME)}."
        )
    return ByteBpe(data.tokens, data.merges, BY_NAME[data.pre])


def _without_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
