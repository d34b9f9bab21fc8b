"""Markdown of an answer: raw HTML stays visible as text, links open only in a browser, code blocks can be copied.

Importing this takes a tenth of a second, so the transcript does it after the first frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownBlock, MarkdownFence

from octavo.app.tui.text import visible

_CITE = "cite:"
_OPENED_SCHEMES = frozenset({"http", "https", "mailto"})


def _parser() -> MarkdownIt:
    return MarkdownIt("gfm-like", {"html": False})


class CodeBlock(MarkdownFence, can_focus=True):
    """A code block under a line with its language and a copy button. Enter or c copies, arrows scroll it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,c", "copy", "Copy code", show=False),
        Binding("left", "scroll_left", show=False),
        Binding("right", "scroll_right", show=False),
    ]

    @dataclass
    class CopyRequested(Message):
        """The user wants this block's code."""

        block: CodeBlock

    def __init__(self, markdown: Markdown, token: Token, code: str) -> None:
        super().__init__(markdown, token, code)
        self._colours = self._colours_now()

    @classmethod
    def highlight(cls, code: str, language: str, ansi: bool = False, dark: bool = False) -> Content:
        """As the base class, but code that names no language is plain text, not what it may look like."""
        return super().highlight(code, (language.split() or ["text"])[0], ansi, dark)

    def notify_style_update(self) -> None:
        """The base class highlights all of the code again whenever any style changes; only other colours need it."""
        if self._colours == self._colours_now():
            super(MarkdownFence, self).notify_style_update()
        else:
            self._colours = self._colours_now()
            super().notify_style_update()

    def _colours_now(self) -> tuple[bool, bool]:
        return self.app.native_ansi_color, self.app.current_theme.dark

    def compose(self) -> ComposeResult:
        yield _CodeBar(self.lexer)
        yield from super().compose()

    def _copy_context(self, block: MarkdownBlock) -> None:
        super()._copy_context(block)
        for bar in self.query(_CodeBar):
            bar.language = self.lexer

    def action_copy(self) -> None:
        self.post_message(self.CopyRequested(self))


class _CodeBar(Static):
    """The line above the code. `language` is the model's text, never markup."""

    language: reactive[str] = reactive("")

    def __init__(self, language: str) -> None:
        super().__init__(markup=False)
        self.set_reactive(_CodeBar.language, language)

    def render(self) -> Content:
        language = " ".join(visible(self.language).split())[:40] or "text"
        return Content.assemble((language, "dim"), "  ", ("copy", "underline $text-accent"))

    def on_click(self) -> None:
        self.post_message(CodeBlock.CopyRequested(self.query_ancestor(CodeBlock)))


class MarkdownView(Markdown):
    """One piece of an answer. `source` is its text as it is shown."""

    BLOCKS = {**Markdown.BLOCKS, "fence": CodeBlock, "code_block": CodeBlock}  # noqa: RUF012 - declared by the base class

    @dataclass
    class CitationClicked(Message):
        """The user wants to see what the citation `id` cites."""

        id: str

    def __init__(self, text: str = "", *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(visible(text) or None, id=id, classes=classes, parser_factory=_parser, open_links=False)

    def append(self, markdown: str) -> AwaitComplete:
        return super().append(visible(markdown))

    def code_blocks(self) -> list[CodeBlock]:
        """The code blocks, top to bottom."""
        return list(self.query(CodeBlock))

    def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        event.stop()
        if event.href.startswith(_CITE):
            self.post_message(self.CitationClicked(event.href.removeprefix(_CITE)))
        elif urlsplit(event.href).scheme.lower() in _OPENED_SCHEMES:
            self.app.open_url(event.href)
        else:
            self.app.notify(f"Not opened: {event.href[:200]}", title="Only web and mail links open", markup=False)


def code_in(text: str) -> list[str]:
    """The code blocks of a Markdown text, top to bottom, as they were written."""
    tokens = _parser().parse(text)
    return [token.content for token in tokens if token.type in ("fence", "code_block")]
