"""What the line below an answer says of its documents: how they were asked, and its citations to press."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from textual.content import Content
from textual.style import Style

_MOST = 9  # citations that have a key
_MARK = re.compile(r"\[(C\d+)\](?!\()")


def button(label: str, action: str) -> Content:
    """A word that asks its entry for something."""
    return Content(label).stylize(Style.from_meta({"@click": f"press({action!r})"})).stylize("underline")


def document_line(record: Mapping[str, Any]) -> Content:
    """For the record of an answer that came from documents."""
    how = "read whole" if record["mode"] == "read" else "searched"
    pieces = [Content(f"not answered, {how}" if record["refused"] else how)]
    if not record["refused"]:
        for place, citation in enumerate(record["citations"][:_MOST], start=1):
            page = f" p.{citation['page']}" if citation["page"] is not None else ""
            pieces.append(button(f"[{citation['id']}{page}]" + ("" if citation["supported"] else "?"), f"cite {place}"))
        if record["unsupported"]:
            pieces.append(Content(f"{len(record['unsupported'])} not borne out"))
    pieces.append(button("evidence", "evidence"))
    return Content("  ").join(pieces)


def nearest_lines(record: Mapping[str, Any]) -> str:
    """What a refusal shows below its words: what is missing, and the passages that came nearest; as Markdown."""
    lines = []
    if record["missing_words"]:
        lines.append(f"Not found in them: {_plain(', '.join(record['missing_words'][:8]))}.")
    for place in record["nearest"]:
        page = f", page {place['page']}" if place["page"] is not None else ""
        name = place["document"].replace("`", "'")  # as code, for a name such as lease.md would become a link
        lines.append(f"> `{name}`{page}: {_plain(place['text'])}")
    return "\n\n".join(lines)


def linked(text: str, record: Mapping[str, Any]) -> str:
    """The Markdown of an answer with its citations as links to their places."""
    known = {citation["id"] for citation in record["citations"]}
    return _MARK.sub(lambda match: f"[[{match[1]}]](cite:{match[1]})" if match[1] in known else match[0], text)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(text.split()))
