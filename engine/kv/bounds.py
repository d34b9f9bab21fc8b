"""What is kept of a page's keys so that a query can tell, without reading the page, how much it would attend there.

The keys of a page, as attention reads them (decoded, rotated by their offset in the page only), lie in a box: the
lowest and the highest number of each channel (Quest, Tang et al. 2024, arXiv:2406.10774). Boxes are kept in 8 bits,
rounded outward, so that the box read back still holds every key. Sixteen consecutive pages of a sequence form a
section, with a box of its own around theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

SECTION_PAGES = 16

_ALIGNMENT = 64
_HALF_BYTES = 2
MOST = 255
"""The highest code of 8 bits."""


@dataclass(frozen=True, slots=True)
class BoundsLayout:
    """The bytes of the bounds of one layer of one page.

    A page is cut into `num_boxes` runs of consecutive tokens, each with its own box. In order:

    - codes uint8 `[num_kv_heads, num_boxes, 2, head_dim]`: the lower, then the upper corner of each box;
    - float16 `[num_kv_heads, num_boxes, 2]`: the step and the origin of each box;
    - zeros, up to a multiple of 64 bytes.

    A code is worth `code * step + origin`, computed in float32.
    """

    num_kv_heads: int
    page_size: int
    head_dim: int
    num_boxes: int = 1

    def __post_init__(self) -> None:
        if self.page_size % self.num_boxes:
            raise ValueError(f"A page of {self.page_size} tokens cannot be cut into {self.num_boxes} equal boxes.")

    @property
    def code_bytes(self) -> int:
        return self.num_kv_heads * self.num_boxes * 2 * self.head_dim

    @property
    def page_bytes(self) -> int:
        """A multiple of 64."""
        grid_bytes = self.num_kv_heads * self.num_boxes * 2 * _HALF_BYTES
        return -(-(self.code_bytes + grid_bytes) // _ALIGNMENT) * _ALIGNMENT

    @property
    def section_bytes(self) -> int:
        """A section's bounds: float32 `[num_kv_heads, head_dim / 2 + 2 * head_dim]`.

        Per rotary pair the largest norm of a corner of its pages' boxes, which holds under any rotation; then the
        lower and the upper corner of the box around its pages' boxes, which hold where all share one rotation.
        """
        return self.num_kv_heads * (self.head_dim // 2 + 2 * self.head_dim) * 4
