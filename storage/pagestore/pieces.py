"""What is asked of one page, cut from and joined into reads of the disk, and checked when it has come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from octavo.storage.pagestore.aligned_io import UNIT, ThreadBuffers, address, units
from octavo.storage.pagestore.index import StoredPage
from octavo.storage.pagestore.records import Shape, body_checksum, record_checksums, record_seed

RUN_BYTES = 1 << 20  # longest read that joins several pages
_GAP_UNITS = 4  # between two pieces, read along rather than skipped


@dataclass(slots=True)
class Piece:
    """Some neighbouring layers of one page, and where their bytes go: `out`, num_layers * record_bytes long."""

    number: int
    page: StoredPage
    shape: Shape
    first_layer: int
    num_layers: int
    out: memoryview
    start: int = 0  # first unit in the segment
    end: int = 0
    offset: int = 0  # in the first unit

    def __post_init__(self) -> None:
        self.locate(self.page)

    def locate(self, page: StoredPage) -> None:
        """The piece is where `page` says it is."""
        self.page = page
        first = page.place.start * UNIT + self.shape.header_bytes + self.first_layer * self.shape.record_bytes
        self.start, self.offset = divmod(first, UNIT)
        self.end = self.start + units(self.offset + len(self.out))

    def damage(self) -> str | None:
        """The first layer in `out` that is not what was written."""
        page, shape, data = self.page, self.shape, self.out
        seed = record_seed(page.identity, page.page_id)
        if self.num_layers == shape.num_layers and body_checksum(data, seed) == page.body_checksum:
            return None
        layers, written = range(self.first_layer, self.first_layer + self.num_layers), page.checksums
        for layer, checksum in zip(layers, record_checksums(data, seed, layers, shape), strict=True):
            if checksum != written[layer]:
                return f"Layer {layer} of a page is damaged on the disk; the page is computed again."
        return None


def joined(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Runs of pieces that lie beside each other, each short enough for one read."""
    run: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: (piece.page.place.segment, piece.start)):
        if run:
            # Neighbouring layers share a unit.
            near = piece.start - end_of(run) <= _GAP_UNITS
            same = piece.page.place.segment == run[0].page.place.segment
            short = (piece.end - run[0].start) * UNIT <= RUN_BYTES
            if not (same and short and near):
                yield run
                run = []
        run.append(piece)
    if run:
        yield run


def end_of(job: Sequence[Piece]) -> int:
    """The unit after the last that a job reads."""
    return max(piece.end for piece in job)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """One read: the memory that it fills, one part after the other, and what is copied on to a piece's `out` then."""

    parts: list[memoryview]
    copies: list[tuple[memoryview, memoryview]]  # (to, from)

    def finish(self) -> None:
        for to, source in self.copies:
            to[:] = source


def plan_read(job: Sequence[Piece], buffers: ThreadBuffers, memory_unit: int) -> ReadPlan:
    """How to read a run of pieces; the plan is good until this thread makes another one.

    Bytes go straight to where they are wanted if the pieces begin with a unit, do not share any, and lie in memory
    aligned to `memory_unit`. What is between them, and what is left over of a last unit, goes through a buffer.
    """
    at, is_straight = job[0].start, True
    for piece in job:
        if piece.offset or piece.start < at or len(piece.out) < UNIT or address(piece.out) % memory_unit:
            is_straight = False
            break
        at = piece.end
    size = (_GAP_UNITS + len(job) if is_straight else end_of(job) - job[0].start) * UNIT
    return (_straight if is_straight else _through)(job, buffers.at_least(size).view)


def _straight(job: Sequence[Piece], spare: memoryview) -> ReadPlan:
    plan, at, spare_at = ReadPlan([], []), job[0].start, _GAP_UNITS * UNIT
    for piece in job:
        if piece.start > at:
            plan.parts.append(spare[: (piece.start - at) * UNIT])  # of no interest: any number of them go there
        whole = len(piece.out) // UNIT * UNIT
        plan.parts.append(piece.out[:whole])
        if rest := len(piece.out) - whole:
            plan.parts.append(spare[spare_at : spare_at + UNIT])
            plan.copies.append((piece.out[whole:], spare[spare_at : spare_at + rest]))
            spare_at += UNIT
        at = piece.end
    return plan


def _through(job: Sequence[Piece], buffer: memoryview) -> ReadPlan:
    begin, copies = job[0].start, []
    for piece in job:
        at = (piece.start - begin) * UNIT + piece.offset
        copies.append((piece.out, buffer[at : at + len(piece.out)]))
    return ReadPlan([buffer[: (end_of(job) - begin) * UNIT]], copies)
