"""What is kept of a page's keys so that a query can tell, without reading the page, how much it would attend there.

The keys of a page, as attention reads them (decoded, rotated by their offset in the page only), lie in a box: the
lowest and the highest number of each channel (Quest, Tang et al. 2024, arXiv:2406.10774). Boxes are kept in 8 bits,
rounded outward, so that the box read back still holds every key. Sixteen consecutive pages of a sequence form a
section, with bounds that hold for the boxes of all of them.

Beside its box a page has a sketch of each key: 2 bits a channel, which say where between the box's sides it lies (as
KIVI, Liu et al. 2024, arXiv:2402.02750, quantizes keys by channel). A box says what a key could be at most, a sketch
about what each one is.
"""

from __future__ import annotations

from dataclasses import dataclass

from octavo.engine.kv.codec import padded

SECTION_PAGES = 16
MOST = 255
"""The highest code of 8 bits."""

CHANNELS = 32
"""Rows of codes are padded to a multiple of this."""

LANES = 16
"""Tokens whose sketches stand side by side, and channels in a word of one."""

SKETCH_BITS = 2

_ALIGNMENT = 64
_HALF_BYTES = 2


@dataclass(frozen=True, slots=True)
class BoundsLayout:
    """The bytes of the bounds of one layer of one page, and of one section. Padding is zero.

    Page: codes uint8 `[num_kv_heads, 2, stride]`, the lower and the upper corner of the box, then float16
    `[num_kv_heads, 2]`, its step and origin. A code is worth `code * step + origin`, computed in float32. After these
    `box_bytes` the sketch: little-endian words of 32 bits `[num_kv_heads, page_size / 16, stride / 16, 16]`, of
    16 channels of one token each, the last dimension. Channels 2j and 2j + 1 stand from bit 2j and 16 + 2j on, in
    thirds of the way from the lower corner to the upper one. Where selection looks at them, all boxes lie side by side,
    and so do all sketches: it reads every box, and the sketches of few.

    Section: codes uint8 `[num_kv_heads, 3, stride]`, the lower and the upper corner of the box around the centres of
    its pages' boxes, and the largest width of these boxes, then float16 `[num_kv_heads, 4]`: step and origin of the
    box, step of the widths (their origin is 0), and the largest step of the pages.
    """

    num_kv_heads: int
    page_size: int
    head_dim: int

    @property
    def stride(self) -> int:
        """Codes from one corner to the next: `head_dim`, padded."""
        return padded(self.head_dim, CHANNELS)

    @property
    def page_codes(self) -> int:
        """Bytes of a page's codes."""
        return self.num_kv_heads * 2 * self.stride

    @property
    def section_codes(self) -> int:
        return self.num_kv_heads * 3 * self.stride

    @property
    def box_bytes(self) -> int:
        """Bytes of a page's box, a multiple of 64."""
        return padded(self.page_codes + self.num_kv_heads * 2 * _HALF_BYTES, _ALIGNMENT)

    @property
    def sketch_tokens(self) -> int:
        """Tokens of a page, padded."""
        return padded(self.page_size, LANES)

    @property
    def page_bytes(self) -> int:
        """A multiple of 64."""
        return self.box_bytes + self.sketch_bytes

    @property
    def sketch_bytes(self) -> int:
        """Bytes of a page's sketch, a multiple of 64."""
        return self.num_kv_heads * self.sketch_tokens * self.stride * SKETCH_BITS // 8

    @property
    def section_bytes(self) -> int:
        """A multiple of 64."""
        return padded(self.section_codes + self.num_kv_heads * 4 * _HALF_BYTES, _ALIGNMENT)
