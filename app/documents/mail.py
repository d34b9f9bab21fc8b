"""E-mail (RFC 5322, MIME): the headers a person looks at, and the body as plain text."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import EmailMessage

from octavo.app.documents.building import TextBuilder
from octavo.app.documents.html import add_html
from octavo.app.documents.parsed import Limits, Outcome, Parsed, ParseError

_HEADERS = ("From", "To", "Cc", "Date", "Subject")


def parse_mail(data: bytes, limits: Limits) -> Parsed:
    """Read one message. Raises ParseError."""
    message = message_from_bytes(data, policy=policy.default)
    builder = TextBuilder(limits)
    lines = [f"{name}: {_header(message, name)}" for name in _HEADERS if _header(message, name)]
    builder.paragraph("\n".join(lines))
    try:
        body = message.get_body(("plain", "html"))
        text = body.get_content() if body is not None else ""
        files = [part.get_filename() or part.get_content_type() for part in message.iter_attachments()]
    except (MessageError, LookupError, ValueError, KeyError, AttributeError) as error:
        raise ParseError(Outcome.FAILED, f"It is not a readable message ({error}).") from None
    if body is not None and body.get_content_type() == "text/html":
        add_html(builder, str(text))
    else:
        for paragraph in str(text).replace("\r\n", "\n").split("\n\n"):
            builder.paragraph(paragraph)
    parsed = Parsed("mail", text=builder.text(), marks=builder.marks, hidden=builder.hidden)
    parsed.title = _header(message, "Subject")
    if files:
        parsed.notes.append(f"{len(files)} attachments were left out: {', '.join(files[:5])}.")
    return parsed


def _header(message: EmailMessage, name: str) -> str:
    """A header on one line; one that cannot be parsed is left out."""
    try:
        return " ".join(str(message.get(name, "")).split())
    except (ValueError, LookupError, AttributeError, TypeError):
        return ""
