"""The pages of one sequence."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from octavo.engine.kv.candidates import Candidates
from octavo.engine.kv.far_pages import FarPages
from octavo.engine.kv.pages import Identity, PageId
from octavo.engine.kv.pools import Ids


@dataclass(slots=True, eq=False)
class SequencePages:
    """The pages of one sequence, head first; the complete ones, which come first, have `identities`.

    `tail` is the place of its unfinished page, `far` what selection looks at, where there is selection,
    `candidates` what of it was looked at closely, `selected` which pages each layer chose last, and `reads` how many
    times layers chose each page, by its place. `reused` counts pages that were found, by the tier they were on.
    """

    owner: str
    tail: int
    page_ids: list[PageId] = field(default_factory=list)
    identities: list[Identity] = field(default_factory=list)
    far: FarPages | None = None
    candidates: Candidates | None = None
    selected: dict[int, Ids] = field(default_factory=dict)
    reads: Ids = field(default_factory=lambda: np.zeros(0, np.int64))
    reused: dict[str, int] = field(default_factory=lambda: {"device": 0, "host": 0, "disk": 0})

    @property
    def num_complete(self) -> int:
        return len(self.identities)

    def count_reads(self, places: Ids) -> None:
        """Layers chose the pages at these places for a new token."""
        if len(self.reads) < len(self.page_ids):
            self.reads = np.append(self.reads, np.zeros(len(self.page_ids) - len(self.reads), np.int64))
        np.add.at(self.reads, places, 1)
