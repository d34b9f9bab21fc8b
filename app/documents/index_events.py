"""What the indexing thread tells the screen: frozen values that may cross threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from octavo.app.documents.index import Added

Stage = Literal["finding", "reading", "embedding"]


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """`done` of `total` files are read, or chunks embedded; `name` is the file that was read last."""

    stage: Stage
    done: int
    total: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class IndexDone:
    """The files that were asked for are in, as far as nothing stopped it: `cancelled` says that a person did.

    `added` counts what became of the files by status; `refused` are those without text that can be asked about, the
    first hundred of them. `notes` are sentences a person should know.
    """

    conversation_id: str | None
    added: dict[str, int]
    refused: tuple[Added, ...]
    num_skipped: int
    cancelled: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexFailed:
    """Adding files came to nothing; `error` is the sentence."""

    error: str


@dataclass(frozen=True, slots=True)
class DocumentsRemoved:
    """Documents are out of the library; the KV pages of these `owners` are to be forgotten."""

    names: tuple[str, ...]
    owners: tuple[str, ...]


IndexEvent = IndexProgress | IndexDone | IndexFailed | DocumentsRemoved
