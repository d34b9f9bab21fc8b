"""Text to token ids and back, with a model's own vocabulary and chat template. Never imports torch."""

from octavo.engine.tokenizer.chat_template import Message
from octavo.engine.tokenizer.data import TokenizerData
from octavo.engine.tokenizer.stream_decoder import StreamDecoder
from octavo.engine.tokenizer.tokenizer import Tokenizer

__all__ = ["Message", "StreamDecoder", "Tokenizer", "TokenizerData"]
