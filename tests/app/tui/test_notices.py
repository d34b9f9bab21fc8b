"""Notices come and go without lying over what one works with."""

from __future__ import annotations

import pytest
from textual.widgets._toast import Toast

LONG = "A conversation was deleted, and its pages with it; what others share stays where it is. "


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (160, 48)])
@pytest.mark.parametrize("number", [1, 3, 12])
async def test_no_notice_lies_over_the_input_the_gauge_or_the_status(start, size, number):
    async with start(size=size) as run:
        for place in range(number):
            run.screen.tell(
                f"{place}: {LONG * (1 + place % 3)}", severity=("information", "warning", "error")[place % 3]
            )
        await run.wait(lambda: len(run.app.screen.query(Toast)) == number, "the notices")
        await run.settle()
        shown = [run.app.screen.find_widget(toast).visible_region for toast in run.app.screen.query(Toast)]
        assert any(region.area for region in shown)
        for name in ("#top", "#prompt", "#gauge", "#status"):
            widget = run.screen.query_one(name)
            assert not any(region.overlaps(widget.region) for region in shown if region.area), name
        assert "0: A conversation" in " ".join(run.text().split()), "the first is seen"
