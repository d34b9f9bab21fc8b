"""What the panel says of an answer, from its record: the budget of its prompt, what was read, and what was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.content import Content

from octavo.app.assistant.usage import describe_record
from octavo.app.tui.plots import parts_bar
from octavo.app.tui.text import count, one_line, visible

if TYPE_CHECKING:
    from octavo.storage.records import StoredMessage

SHOWN_PAGES = 16


def answer_content(
    message: StoredMessage, texts: Mapping[int, str], remembered: Sequence[str], width: int, used: int = 0
) -> Content:
    """Sections on one answer. `texts` are those of pages of its prompt, `remembered` sentences about memories in it;
    `used` are the tokens of prompt and answer while it is being written.
    """
    record = message.record
    sections = [
        _budget(record, width, used),
        _citations(record),
        _pages(record, texts, width, is_written=message.status != "streaming"),
        _left_out(record),
        _section("Remembered things in its prompt", remembered),
    ]
    return Content("\n\n").join([section for section in sections if section.cell_length])


def chosen_pages(message: StoredMessage) -> tuple[int, ...]:
    """The pages of its prompt that were chosen most often, whose texts are worth asking for.

    None of an answer from documents: its prompt is not the conversation's, and its record has their places.
    """
    if message.record.get("documents"):
        return ()
    chosen = (message.record.get("pages") or {}).get("chosen") or ()
    return tuple(int(place) for place, _ in chosen[:SHOWN_PAGES])


def _section(title: str, lines: Sequence[str | Content]) -> Content:
    if not lines:
        return Content("")
    texts = [line if isinstance(line, Content) else Content(line) for line in lines]
    return Content("\n").join([Content.styled(title, "bold $text-accent"), *texts])


def _budget(record: Mapping[str, Any], width: int, used: int) -> Content:
    window, usage = record.get("window") or {}, record.get("usage") or {}
    total, prompt = int(window.get("context", 0)), int(window.get("prompt_tokens", 0))
    if not total:
        return Content("")
    reused = min(int(usage.get("reused_tokens", 0)), prompt)
    generated = int(usage.get("generated_tokens", max(used - prompt, 0)))
    reserve = int(window.get("reserve", 0))
    rest = max(reserve - generated, 0)
    bar = parts_bar(
        [
            ("█", "$success", reused),
            ("▓", "$primary", prompt - reused),
            ("▒", "$accent", generated),
            ("░", "$foreground 45%", rest),
        ],
        total,
        max(width - 2, 10),
    )
    legend = Content.assemble(
        ("█", "$success"), f" found {reused:,}  ", ("▓", "$primary"), f" read {prompt - reused:,}  ",
        ("▒", "$accent"), f" answer {generated:,}  ", ("░", "$foreground 45%"), f" kept for it {rest:,}  ",
        f"· of {total:,}",
    )  # fmt: skip
    reading = describe_record(record)
    return _section("Token budget", [bar, legend, *([reading] if reading else [])])


def _citations(record: Mapping[str, Any]) -> Content:
    found = record.get("documents") or {}
    lines: list[str | Content] = []
    for citation in found.get("citations") or ():
        page = f", page {citation['page']}" if citation.get("page") is not None else ""
        lines.append(f"[{citation.get('id')}]{page}: “{one_line(str(citation.get('quote', '')), 120)}”")
    lines += [f"not borne out: {one_line(str(sentence))}" for sentence in found.get("unsupported") or ()]
    for row in found.get("ledger") or ():
        if row.get("decision") == "left out":
            name = f"{row.get('document', '')} {row.get('start', '')}-{row.get('end', '')}"
            lines.append(f"passage left out: {one_line(name)}, {row.get('reason', '')}")
    return _section("Citations and evidence", lines)


def _pages(record: Mapping[str, Any], texts: Mapping[int, str], width: int, *, is_written: bool) -> Content:
    pages = record.get("pages")
    if not pages and not is_written:
        return _section("Pages read", ["They are counted when the answer has ended; the Pages tab is live."])
    if not pages:
        return _section("Pages read", ["This answer was given before its pages were recorded."])
    tiers = ", ".join(f"{pages[name]:,} {where}" for name, where in _TIERS if pages.get(name))
    lines: list[str | Content] = [
        f"{count(pages['total'], 'page')} of {pages['page_size']} tokens at its end: {tiers or 'none'}"
    ]
    if pages["dense"]:
        return _section("Pages read", [*lines, "Every page was read for every token."])
    lines.append(
        f"Read for every token: the first page and the last {pages['window']:,}. Of those in between "
        f"{pages['num_chosen']:,} were chosen by some layer, most often:"
    )
    for place, times in pages["chosen"][:SHOWN_PAGES]:
        text = one_line(visible(texts.get(place, "")), max(width - 24, 20))
        lines.append(Content.assemble((f"page {place + 1:>6,} ", "bold"), f"{times:>6,} times  {text}"))
    lines += [
        f"in the document, characters {part['start']}-{part['end']}{_cited(part)}: {one_line(part['text'], 100)}"
        for part in (record.get("documents") or {}).get("pages_read") or ()
    ]
    lines.append("Pages are what attention looked at, not why the answer is what it is.")
    return _section("Pages read", lines)


_TIERS = (("device", "on the device"), ("host", "in RAM"), ("disk", "on disk"))


def _cited(part: Mapping[str, Any]) -> str:
    return f" (cited as {', '.join(part['cited'])})" if part.get("cited") else ""


def _left_out(record: Mapping[str, Any]) -> Content:
    lines = [
        f"{count(stretch['messages'], 'message')}, {stretch['tokens']:,} tokens: {stretch['reason']}"
        for stretch in record.get("left_out") or ()
    ]
    if "left_out" in record and not lines:
        lines = ["Nothing: the whole conversation was in the prompt."]
    summary = record.get("summary")
    if summary and summary.get("tokens"):
        lines.append(f"In their place stood a summary of {summary['tokens']:,} tokens.")
    return _section("Left out of the prompt", lines)
