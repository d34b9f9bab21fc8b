"""What the line below an answer says of its documents: how they were asked, and its citations to press."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from textual.content import Content
from textual.style import Style

from octavo.app.documents.answer import cited_names, reasons
from octavo.app.tui.text import count, one_line

_MOST = 9  # places that have a key
_MARK = re.compile(r"\[(C\d+)\](?!\()")
_NAME = 20  # characters shown of a document's name
_NEAREST = 110  # characters shown of a passage that came near


@dataclass(frozen=True, slots=True)
class CitedPlace:
    """What all citations with one id cite on one page: `spans` are (start, end) in the document's text.

    `is_supported` if every sentence that cites it is borne out; `name` is the document's where several are cited.
    """

    id: str
    document: str
    page: int | None
    spans: tuple[tuple[int, int], ...]
    is_supported: bool
    name: str = ""

    @property
    def label(self) -> str:
        page = f"p.{self.page}" if self.page is not None else ""
        return " ".join(part for part in (self.id, one_line(self.name, _NAME), page) if part)


def cited_places(record: Mapping[str, Any]) -> list[CitedPlace]:
    """The places that an answer cites, each once, in the order of their first citation."""
    names = cited_names(record)
    grouped: dict[tuple[str, int | None], list[Mapping[str, Any]]] = {}
    for citation in record["citations"]:
        grouped.setdefault((citation["id"], citation["page"]), []).append(citation)
    return [
        CitedPlace(
            name,
            citations[0]["document"],
            page,
            tuple(dict.fromkeys((each["start"], each["end"]) for each in citations)),
            all(each["supported"] for each in citations),
            names[citations[0]["document"]] if len(names) > 1 else "",
        )
        for (name, page), citations in grouped.items()
    ]


def find_place(record: Mapping[str, Any], wanted: str) -> tuple[CitedPlace, int] | None:
    """A place, and which of its spans is meant; None if there is none.

    `wanted` is a number, "#n" for what the n-th citation (from 0) cites, or "nearn". Where nothing was answered, the
    numbers are those of the passages that came nearest.
    """
    places = cited_places(record)
    if wanted.startswith("#"):
        citation = record["citations"][int(wanted[1:])]
        key, span = (citation["id"], citation["page"]), (citation["start"], citation["end"])
        place = next(place for place in places if (place.id, place.page) == key)
        return place, place.spans.index(span)
    if record["refused"]:
        places = [
            CitedPlace("nearest", near["document_id"], near["page"], ((near["start"], near["end"]),), True)
            for near in record["nearest"]
        ]
    number = wanted.removeprefix("near")
    index = int(number) - 1 if number.isdecimal() else -1
    return (places[index], 0) if 0 <= index < len(places) else None


def button(label: str, action: str) -> Content:
    """A word that asks its entry for something."""
    return Content(label).stylize(Style.from_meta({"@click": f"press({action!r})"})).stylize("underline")


def document_line(record: Mapping[str, Any]) -> Content:
    """For the record of an answer that came from documents."""
    how = f"{one_line(record.get('read') or 'document', 30)} read whole" if record["mode"] == "read" else "searched"
    if record["refused"]:
        return Content("  ").join([Content(f"not answered, {how}"), button("evidence", "evidence")])
    pieces = []
    for number, place in enumerate(cited_places(record)[:_MOST], start=1):
        pieces.append(button(f"[{place.label}]" + ("" if place.is_supported else "?"), f"cite {number}"))
    if pieces:
        pieces.insert(0, Content("sources"))
    if record["unsupported"]:
        pieces.append(Content(f"{count(len(record['unsupported']), 'sentence')} not borne out"))
    return Content("  ").join([*pieces, button("evidence", "evidence"), Content(how)])


def nearest_lines(record: Mapping[str, Any]) -> str:
    """What a refusal shows below its words: what is missing, and the passages that came nearest; as Markdown."""
    lines, listed = [_plain(sentence) for sentence in reasons(record)], []
    for number, place in enumerate(record["nearest"], start=1):
        page = f", page {place['page']}" if place["page"] is not None else ""
        # As code, for a name such as lease.md would become a link of its own.
        name = place["document"].replace("`", "'").replace("[", "(").replace("]", ")")
        text = _plain(one_line(place["text"], _NEAREST))
        listed.append(f"{number}. [`{name}`{page}](cite:near{number}): {text}")
    if listed:
        lines += ["What comes nearest:", "\n".join(listed)]
    return "\n\n".join(lines)


def linked(text: str, record: Mapping[str, Any]) -> str:
    """The Markdown of an answer with its citations as links, each to its own place: `cite:#2` is the third's."""
    # The check has put one mark into the text for each citation, in their order.
    indexes: dict[str, list[int]] = {}
    for index, citation in enumerate(record["citations"]):
        indexes.setdefault(citation["id"], []).append(index)
    seen: Counter[str] = Counter()

    def link(match: re.Match[str]) -> str:
        found = indexes.get(match[1])
        if not found:
            return match[0]
        index = found[min(seen[match[1]], len(found) - 1)]
        seen[match[1]] += 1
        return f"[[{match[1]}]](cite:#{index})"

    return _MARK.sub(link, text)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(text.split()))
