"""Renders a conversation with the model's own Jinja template, in a sandbox, as the hub's libraries do."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from octavo.engine.errors import UnsupportedModelError

# For a model without a template: ChatML if its vocabulary has the markers, a plain transcript otherwise.
CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PLAIN = (
    "{% for message in messages %}{{ message.role + ': ' + message.content + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)


@dataclass(frozen=True)
class Message:
    """One turn of a conversation; `role` is "system", "user" or "assistant".

    `token_ids` are the ids that `content` was generated as; a prompt then holds them and not another encoding of
    the same text, so that it starts with the tokens whose KV pages are still there.
    """

    role: str
    content: str
    token_ids: tuple[int, ...] | None = None


class ChatTemplate:
    """A compiled template; `constants` are the variables it may name, such as `bos_token`.

    Raises UnsupportedModelError when the template is not valid Jinja.
    """

    def __init__(self, source: str, constants: Mapping[str, str]) -> None:
        try:
            self._template = _environment().from_string(source)
        except (TemplateError, RecursionError) as error:
            raise UnsupportedModelError(
                f"The model's chat template is not valid: {_one_line(error)}; choose another model."
            ) from error
        self._constants = dict(constants)

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool) -> str:
        """The conversation as text; raises UnsupportedModelError when the template fails or refuses it."""
        turns = [{"role": message.role, "content": message.content} for message in messages]
        try:
            return self._template.render(
                messages=turns,
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._constants,
            )
        except Exception as error:  # the template is a program from the model file and may fail in any way
            raise UnsupportedModelError(
                f"The model's chat template does not accept this conversation: {_one_line(error)}."
            ) from error


def unused_character(texts: Iterable[str]) -> str:
    """A character that none of `texts` holds: a Unicode noncharacter (U+FDD0 and up) while one is free."""
    used: set[str] = set().union(*texts)
    return next(chr(code) for code in range(0xFDD0, 0x110000) if chr(code) not in used)


class _GenerationTag(Extension):
    """`{% generation %}`, which marks the trained part of a template, renders as what it encloses."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON; Jinja's own filter escapes for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _one_line(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__).rstrip(".")
