"""The process that reads files: a damaged or hostile one can end this process, and nothing else.

Requests come on standard input, one JSON object a line. The reply is a line of JSON and then the text, or the
picture of a page, whose length in bytes the line tells. The process lowers its own limits before it reads anything.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

from octavo.app.documents.chunk import chunks_of
from octavo.app.documents.clean import injections
from octavo.app.documents.formats import kind_of
from octavo.app.documents.parsed import Limits, Outcome, Parsed, ParseError

_GARBLED = 0.1


def parse_file(path: Path, limits: Limits, password: str | None = None, encoding: str | None = None) -> Parsed:
    """Read one file in this process. What cannot be read is an outcome, with its reason as the first note."""
    kind = ""
    try:
        kind = kind_of(path)
        if path.stat().st_size > limits.file_bytes:
            raise ParseError(Outcome.FAILED, f"It is larger than {limits.file_bytes >> 20:,} MiB.")
        parsed = _read(path, kind, limits, password, encoding)
    except ParseError as error:
        return Parsed(kind, error.outcome, notes=[str(error)])
    except MemoryError:
        return Parsed(
            kind, Outcome.FAILED, notes=[f"Reading it takes more than {limits.memory_bytes >> 20:,} MiB of memory."]
        )
    except OSError as error:
        return Parsed(kind, Outcome.FAILED, notes=[f"It cannot be read ({error.strerror or error})."])
    except Exception as error:  # whatever a parser trips over is the file's fault
        return Parsed(kind, Outcome.FAILED, notes=[f"It is damaged ({type(error).__name__}: {str(error)[:200]})."])
    return _judged(parsed)


def _read(path: Path, kind: str, limits: Limits, password: str | None, encoding: str | None) -> Parsed:
    # Each parser is imported when a file of its kind comes.
    if kind == "pdf":
        from octavo.app.documents.pdf import parse_pdf

        return parse_pdf(path, limits, password)
    if kind == "docx":
        from octavo.app.documents.docx import parse_docx

        return parse_docx(path, limits)
    if kind == "odt":
        from octavo.app.documents.odt import parse_odt

        return parse_odt(path, limits)
    if kind == "epub":
        from octavo.app.documents.epub import parse_epub

        return parse_epub(path, limits)
    if kind == "html":
        from octavo.app.documents.html import parse_html

        return parse_html(path.read_bytes(), limits, encoding)
    if kind == "mail":
        from octavo.app.documents.mail import parse_mail

        return parse_mail(path.read_bytes(), limits)
    from octavo.app.documents.plain import parse_plain

    return parse_plain(path.read_bytes(), kind, limits, encoding)


def _judged(parsed: Parsed) -> Parsed:
    """The outcome of a file that was read to its end."""
    if not parsed.text.strip():
        if parsed.pages_without_text:
            from octavo.app.documents.pdf import page_list

            parsed.outcome = Outcome.SCANNED
            pages = page_list(parsed.pages_without_text)
            parsed.notes.insert(0, f"It holds pictures of pages and no text ({pages}); run OCR on it first.")
        else:
            parsed.outcome = Outcome.EMPTY
            parsed.notes.insert(0, "There is no text in it.")
    elif parsed.unknown_share > _GARBLED or _replaced(parsed.text) > _GARBLED:
        parsed.outcome = Outcome.GARBLED
        share = max(parsed.unknown_share, _replaced(parsed.text))
        parsed.notes.insert(0, f"{share:.0%} of its characters are not readable; its fonts or encoding tell no text.")
    if parsed.hidden:
        characters = sum(hidden.characters for hidden in parsed.hidden)
        places = ", ".join(dict.fromkeys(hidden.where for hidden in parsed.hidden))
        parsed.notes.append(f"Hidden text was left out: {characters:,} characters ({places[:200]}).")
    return parsed


def _replaced(text: str) -> float:
    return text.count("\ufffd") / len(text)


def _limit(limits: Limits) -> None:
    """Cap memory and forbid writing files and core dumps; where the platform has no such limits, do without."""
    try:
        import resource
    except ImportError:
        return
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_cpu(seconds: int) -> None:
    """Allow this much more processor time for the next file; over it, the system ends the process."""
    try:
        import resource
    except ImportError:
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (int(usage.ru_utime + usage.ru_stime) + seconds, hard))


def _answer(request: dict[str, Any], out: BinaryIO) -> None:
    limits = Limits(**request["limits"])
    _limit_cpu(limits.cpu_seconds)
    if "page" in request:
        _send(out, *_picture(request, limits))
        return
    parsed = parse_file(Path(request["path"]), limits, request["password"], request["encoding"])
    text = parsed.text if parsed.outcome is Outcome.OK else ""
    data = text.encode("utf-8", "surrogatepass")
    chunks = chunks_of(text, parsed.marks, parsed.pages) if text else []
    reply = {
        "facts": parsed.facts() | {"injections": injections(text)},
        "pages": parsed.pages,
        "solid": [[mark.start, mark.end] for mark in parsed.marks if mark.kind in ("code", "json", "table")],
        "chunks": [[c.start, c.end, c.page, list(c.headings), c.head] for c in chunks],
    }
    _send(out, reply, data)


def _picture(request: dict[str, Any], limits: Limits) -> tuple[dict[str, Any], bytes]:
    """A page as pixels; or, under "failed", the sentence that says why there are none."""
    from octavo.app.documents.rendering import render_page

    path = Path(request["path"])
    try:
        if path.stat().st_size > limits.file_bytes:
            return {"failed": f"It is larger than {limits.file_bytes >> 20:,} MiB."}, b""
        return render_page(path, request["page"], request["quotes"], request["password"])
    except ParseError as error:
        return {"failed": str(error)}, b""
    except Exception as error:  # as when a file is read
        return {"failed": f"It is damaged ({type(error).__name__}: {str(error)[:200]})."}, b""


def _send(out: BinaryIO, reply: dict[str, Any], data: bytes) -> None:
    out.write(json.dumps(reply | {"num_bytes": len(data)}).encode() + b"\n")
    out.write(data)
    out.flush()


def main() -> None:
    """Answer requests until standard input ends."""
    os.environ["PYTHONWARNINGS"] = "ignore"
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a parser prints must not get into the replies.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    limited = False
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if not limited:
            _limit(Limits(**request["limits"]))
            limited = True
        _answer(request, out)


if __name__ == "__main__":
    main()
