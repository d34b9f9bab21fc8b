"""Choosing the pages a query reads, by the boxes around their keys."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from octavo.engine.kernels.bounds import read_boxes
from octavo.engine.kv.bounds import BoundsLayout

RADIUS_SHARE = 0.5
"""How far from a box's centre towards its corner a page's score is taken: 0 is the centre, 1 the upper bound."""


@dataclass(frozen=True, slots=True)
class SelectionLimits:
    """How many pages are read beside those that are read always: until `mass_target` of a query's attention is
    covered, as estimated, but never fewer than `floor` nor more than `cap`."""

    floor: int
    cap: int
    mass_target: float


class SelectionScratch:
    """Memory of `select_pages` that one call leaves to the next."""


def select_pages_torch(
    q: Tensor,
    bounds: Tensor,
    sections: Tensor,
    layout: BoundsLayout,
    page_ids: Tensor,
    num_pages: Tensor,
    distances: Tensor,
    cos: Tensor,
    sin: Tensor,
    scale: float,
    read: Tensor | None,
    limits: SelectionLimits,
    scratch: SelectionScratch,
) -> tuple[Tensor, Tensor]:
    """Which of a sequence's far pages each row reads: int32 [rows, cap] and how many int32 [rows].

    A row is one position, or several that choose together (a page of queries): `q` float32 [rows, queries, heads, d],
    not rotated to the pages. Row r may read the first `num_pages[r]` (int32 [rows]) of `page_ids` int32 [p]; the
    result are indices into `page_ids`, ascending, padded with 0. `distances` is int32 [rows, p], position minus page
    start, or [1], one for all. `bounds` uint8 [capacity, page_bytes] is the table of one layer, `sections` uint8
    [ceil(p / 16), section_bytes] are those of `page_ids`. `read` float32 [rows, queries, heads] is the log-sum-exp of
    the scaled scores of the tokens that are read anyway, None where there are none.

    Pages are scored by softmax over estimated scores for each query and head, summed over all. Of equal pages the
    first is taken.
    """
    rows, queries, heads, dim = q.shape
    lower, upper = read_boxes(bounds[page_ids.long()], layout)  # [p, kv_heads, boxes, d]
    centre, radius = (lower + upper) / 2, (upper - lower) / 2 * RADIUS_SHARE
    out = torch.zeros(rows, limits.cap, dtype=torch.int32, device=q.device)
    counts = torch.zeros(rows, dtype=torch.int32, device=q.device)
    tokens_in_box = layout.page_size // layout.num_boxes
    for row in range(rows):
        count = int(num_pages[row])
        if not count:
            continue
        distance = distances if len(distances.shape) == 1 else distances[row, :count]
        rotated = _rotate(q[row].flatten(0, 1), cos[distance.long()], sin[distance.long()])  # [1 or p, vectors, d]
        grouped = rotated.view(len(rotated), queries, layout.num_kv_heads, -1, dim).transpose(1, 2).flatten(2, 3)
        scores = torch.einsum("phvd,phbd->phvb", grouped.expand(count, -1, -1, -1), centre[:count])
        scores += torch.einsum("phvd,phbd->phvb", grouped.abs().expand(count, -1, -1, -1), radius[:count])
        mass = torch.logsumexp(scores * scale, dim=-1) + torch.log(torch.tensor(float(tokens_in_box)))
        mass = mass.transpose(0, 1).reshape(layout.num_kv_heads, count, queries, -1)
        mass = mass.permute(1, 2, 0, 3).reshape(count, -1)  # [p, queries * heads]
        total = torch.logsumexp(mass, dim=0)
        covered = torch.zeros(queries * heads, device=q.device)
        if read is not None:
            before = read[row].flatten()
            total = torch.logaddexp(total, before)
            covered = torch.exp(before - total)
        weights = torch.exp(mass - total).sum(dim=-1)
        chosen = _cut(weights, float(covered.sum()), queries * heads * limits.mass_target, limits)
        out[row, : len(chosen)] = chosen.int()
        counts[row] = len(chosen)
    return out, counts


def _cut(weights: Tensor, covered: float, target: float, limits: SelectionLimits) -> Tensor:
    """Indices, ascending, of the heaviest pages that the limits allow."""
    order = torch.sort(weights, descending=True, stable=True)
    most = min(limits.cap, len(weights))
    sums = order.values[:most].cumsum(0) + covered
    needed = int((sums < target).sum()) + 1
    return order.indices[: min(max(needed, limits.floor), most)].sort().values


def _rotate(q: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`q` [vectors, d] at each of the angles [n, d / 2]: [n, vectors, d]."""
    first, second = q.chunk(2, dim=-1)
    c, s = cos[:, None], sin[:, None]
    return torch.cat((first * c - second * s, second * c + first * s), dim=-1)
