"""Text is shown as it is: brackets, HTML, control characters, wide characters, and code that can be copied."""

from __future__ import annotations

from rich.cells import cell_len

from octavo.app.tui.widgets.markdown_view import CodeBlock

CODE = "```python\ndef f(items):\n    return items[0]\n```\n"


async def test_brackets_are_text_everywhere(start, conversations):
    """agent-zero#1529: `[` in a message, a title or an error broke the screen."""
    text = "[bold]not bold[/] [/] [red [link=x] list[0]"
    async with start(size=(120, 30)) as run:
        run.engine.answers.append([text, "\n\n```\n[/x] a[i]\n```\n"])
        await run.send(text)
        shown = run.text()
        assert shown.count("[bold]not bold[/] [/] [red [link=x] list[0]") >= 2
        assert "[/x] a[i]" in shown
        assert "[bold]not bold" in run.rows()[0]
        run.screen.tell("[/oops] [b]")
        await run.settle()
        assert "[/oops] [b]" in run.text()


async def test_html_in_an_answer_is_not_lost(start):
    async with start() as run:
        run.engine.answers.append(["<div>\nkept\n</div>\n\nand <b>this</b>"])
        await run.send("html?")
        for text in ("<div>", "kept", "<b>this</b>"):
            assert text in run.text()


async def test_control_characters_do_not_reach_the_terminal(start):
    async with start() as run:
        run.engine.answers.append(["before\x1b[2Jafter \u202eabc"])
        await run.send("esc\x1b]0;title\x07")
        assert "\x1b" not in run.text()
        assert "\u202e" not in run.text()
        assert "␛[2Jafter" in run.text()


async def test_wide_and_right_to_left_text_keeps_the_frame(start):
    async with start(size=(100, 30)) as run:
        run.engine.answers.append(
            [
                "日本語のテキスト 👩‍👩‍👧 e\u0301 🇩🇪 ✅\n\n",
                "مرحبا بالعالم שלום עולם\n\n",
                "| 列 | b |\n|---|---|\n| 表 | x |",
            ]
        )
        await run.send("漢字 👍🏽 שלום")
        assert {cell_len(row) for row in run.rows()} == {100}
        for text in ("日本語のテキスト", "漢字", "שלום עולם"):
            assert text in run.text()


async def test_a_code_fence_stays_when_the_stream_ends(start):
    """oterm#308: the code block went blank with the last token."""
    async with start() as run:
        run.engine.answers.append(["Here:\n\n", "```py", "thon\ndef f(items):\n", "    return items[0]\n", "``", "`"])
        await run.send("code?")
        assert "return items[0]" in run.text()
        (block,) = run.screen.query(CodeBlock)
        assert block.code == "def f(items):\n    return items[0]"
        assert "python" in run.text()
        run.app.theme = "octavo-light"
        await run.settle()
        assert "return items[0]" in run.text()


async def test_code_of_no_language_is_not_coloured_by_guessing(start):
    async with start() as run:
        run.engine.answers.append(["```\nimport this `quoted` is prose\n```\n\n```python\nimport this\n```\n"])
        await run.send("code?")
        plain, python = run.screen.query(CodeBlock)
        assert not any(span.style for span in plain._highlighted_code.spans if "error" in str(span.style))
        assert len(plain._highlighted_code.spans) <= 1
        before = python._highlighted_code
        run.app.theme = "octavo-light"
        await run.settle()
        assert len(before.spans) > 1
        assert python._highlighted_code is not before


async def test_code_is_copied_by_key_click_and_command(start):
    async with start() as run:
        run.engine.answers.append([CODE])
        await run.send("code?")
        await run.pilot.press("shift+tab")
        assert isinstance(run.app.focused, CodeBlock)
        await run.pilot.press("c")
        await run.pilot.click("_CodeBar", offset=(10, 0))
        await run.settle()
        await run.screen.run_command("/copy code")
        assert run.copied == ["def f(items):\n    return items[0]\n"] * 3


async def test_code_that_was_cut_is_copied_whole(start):
    async with start() as run:
        code = "".join(f"value_{number} = [{number}]\n" for number in range(900))
        answer = f"Long:\n\n```python\n{code}```\nEnd."
        run.engine.answers.append([answer[at : at + 997] for at in range(0, len(answer), 997)])
        await run.send("long code?")
        assert len({part.index for part in run.screen.transcript.parts}) > 2
        block = list(run.screen.query(CodeBlock))[-1]
        block.action_copy()
        await run.settle()
        assert run.copied == [code]
        (conversation,) = run.conversations.list()
        assert run.conversations.path(conversation.id)[-1].text == answer


async def test_a_message_is_copied_as_it_was_written(start):
    async with start() as run:
        run.engine.answers.append(["**bold** [x]"])
        await run.send("hm")
        await run.pilot.press("shift+tab", "c")
        assert run.copied == ["**bold** [x]"]
        await run.pilot.press("up", "c")
        assert run.copied == ["**bold** [x]", "hm"]


async def test_only_web_links_are_opened(start, monkeypatch):
    async with start() as run:
        opened = []
        monkeypatch.setattr(run.app, "open_url", opened.append)
        run.engine.answers.append(["[a](https://example.org/x) [b](file:///etc/passwd)"])
        await run.send("links?")
        view = run.screen.transcript.entries[-1].markdown
        for href in ("https://example.org/x", "file:///etc/passwd"):
            view.post_message(view.LinkClicked(view, href))
        await run.settle()
        assert opened == ["https://example.org/x"]
