"""Far pages that each layer of a sequence looked at closely when it last weighed all of them.

Weighing every page costs more the longer a text is. What the next tokens are about is mostly among the pages that a
token before looked at closely, which are several times as many as are read. So in a text longer than most, layers take
turns at weighing all pages; the others look at their last ones again, each key by its sketch, and a token costs no more
than in a shorter text. It loses something (tests/bench/results.md), so below that every layer weighs all.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from octavo.engine.kv.bounds import SECTION_PAGES

MOST_WEIGHED = 2_048
"""Pages that a layer weighs for a token, on average and at most: those of 65,536 tokens in pages of 32."""


class Candidates:
    """`looked_at` int32 `[num_layers, most]` are indices of far pages, ascending, as `select_pages` gives them; there
    were `weighed` int32 `[num_layers]` far pages then, 0 where a layer has not weighed any.

    Layers that are due for a token which fails before its end are due for the next one.
    """

    def __init__(self, num_layers: int, most: int, device: torch.device) -> None:
        self.looked_at = torch.zeros(num_layers, most, dtype=torch.int32, device=device)
        self.weighed = np.zeros(num_layers, dtype=np.int32)

    def begin_token(self, position: int, num_far: int) -> NDArray[np.bool_]:
        """Which layers are due to weigh all of so many far pages, for the token at a position: bool `[num_layers]`."""
        turns = -(-num_far // MOST_WEIGHED)
        turn = (position + np.arange(len(self.weighed))) % turns == 0
        came = num_far - self.weighed
        due: NDArray[np.bool_] = turn | (self.weighed == 0) | (came < 0) | (came > SECTION_PAGES)
        self.weighed[due] = 0
        return due

    def end_token(self, due: NDArray[np.bool_], num_far: int) -> None:
        """The layers that were due have left in `looked_at` what they looked at closely."""
        self.weighed[due] = num_far

    def again(self, layer: int, num_far: int) -> Tensor:
        """Indices int64 of the far pages that a layer looks at again, ascending, with those that came since."""
        weighed = int(self.weighed[layer])
        old = self.looked_at[layer, : min(weighed, self.looked_at.shape[1])]
        return torch.cat((old.long(), torch.arange(weighed, num_far, device=old.device)))
