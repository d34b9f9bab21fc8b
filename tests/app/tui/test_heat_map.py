"""The heat map: what cells show, and that a million tokens cost a screen no more than a few."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from textual.app import App

from octavo.app.tui.heat import METRICS, UNFINISHED, View, cells, counts_by_tier, zooms
from octavo.app.tui.widgets.heat_map import HeatMap
from octavo.engine.inspection import PageMap

LAYERS = 30


def page_map(num_pages, *, layers=LAYERS, seed=0, running=False):
    rng = np.random.default_rng(seed)
    shape = (layers, num_pages)
    return PageMap(
        num_tokens=num_pages * 32,
        page_size=32,
        tier=rng.integers(1, 4, shape).astype(np.uint8),
        age=rng.integers(-1, 100_000, shape),
        selected=rng.integers(0, 50, shape),
        worth=rng.random(shape, dtype=np.float32),
        chosen=rng.random(shape) < 0.1,
        key_bits=8,
        value_bits=4,
        tail_bits=16,
        codec="k8v4",
        is_running=running,
    )


@pytest.mark.parametrize("metric", METRICS)
def test_one_page_a_cell_shows_each_page_as_it_is(metric):
    pages = page_map(40)
    shown = cells(pages, metric, View(LAYERS, 60, 1, 0))
    assert shown.shape == (LAYERS, 40)
    if metric == "tier":
        np.testing.assert_array_equal(shown, pages.tier)
    elif metric == "newest":
        np.testing.assert_array_equal(shown > 0, pages.chosen)
    elif metric == "last use":
        np.testing.assert_array_equal(shown == 0, pages.age < 0)
    assert shown.max() <= (3 if metric == "tier" else 8)


def test_cells_of_many_pages_show_their_mean_and_never_hide_a_selection():
    pages = page_map(64, layers=4)
    pages.tier[:] = 3
    pages.tier[:, 32:] = 1
    pages.chosen[:] = False
    pages.chosen[2, 5] = True
    assert cells(pages, "tier", View(1, 10, 32, 0)).tolist() == [[3, 1]]
    assert cells(pages, "newest", View(2, 10, 32, 0)).tolist() == [[0, 0], [8, 0]]
    assert cells(pages, "tier", View(4, 10, 16, 48)).shape == (4, 1)
    assert cells(pages, "tier", View(4, 10, 16, 64)).shape == (4, 0)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("running", [True, False])
def test_an_unfinished_page_is_the_last_cell(metric, running):
    pages = page_map(40, running=running)
    tier = pages.tier.copy()
    tier[:, -1] = UNFINISHED if running else 0
    age, chosen, worth = pages.age.copy(), pages.chosen.copy(), pages.worth.copy()
    age[:, -1], chosen[:, -1], worth[:, -1] = (0, True, 1.0) if running else (-1, False, 0.0)
    pages = replace(pages, num_tokens=39 * 32 + 7, tail_tokens=7, tier=tier, age=age, chosen=chosen, worth=worth)
    alone = cells(pages, metric, View(LAYERS, 60, 1, 0))
    expected = {"tier": UNFINISHED, "last use": 8, "worth": 8, "newest": 8, "precision": 8}
    if metric != "selected":
        assert (alone[:, -1] == (expected[metric] if running else 0)).all()
    assert cells(pages, metric, View(10, 60, 16, 0)).max() <= (3 if metric == "tier" else 8), "with others it is a page"
    assert cells(pages, metric, View(LAYERS, 20, 1, 0)).max() <= (3 if metric == "tier" else 8), "it is not in sight"
    assert sum(counts_by_tier(pages)) == 39


@pytest.mark.parametrize(
    ("num_pages", "columns", "last"), [(1, 80, 16), (80, 80, 16), (31_250, 76, 1024), (31_250, 156, 256)]
)
def test_zooms_go_from_a_page_over_a_section_to_everything(num_pages, columns, last):
    steps = zooms(num_pages, columns)
    assert steps[:3] == [1, 4, 16]
    assert steps[-1] == last
    assert steps[-1] * columns >= num_pages


def test_pages_are_counted_by_where_they_are():
    pages = page_map(5, layers=2)
    pages.tier[:] = [[3, 3, 2, 1, 0], [3, 1, 1, 1, 0]]
    assert counts_by_tier(pages) == (1, 1, 2, 1)


class MapApp(App[None]):
    def __init__(self, pages):
        super().__init__()
        self._pages, self.moved = pages, []

    def compose(self):
        yield HeatMap()

    def on_mount(self):
        self.query_one(HeatMap).show(self._pages)
        self.query_one(HeatMap).focus()

    def on_heat_map_cursor_moved(self, event):
        self.moved.append(event.page)


async def test_another_theme_paints_in_its_own_colours():
    app = MapApp(page_map(30, layers=8))
    async with app.run_test(size=(60, 8)) as pilot:
        heat, seen = app.query_one(HeatMap), set()
        for theme in ("textual-dark", "textual-light"):
            app.theme = theme
            await pilot.pause()
            seen.add(tuple(str(segment.style) for segment in heat.render_line(4)))
        await pilot.press("m")
        seen.add(tuple(str(segment.style) for segment in heat.render_line(4)))
        assert len(seen) == 3


async def test_a_move_of_the_cursor_paints_two_rows(monkeypatch):
    app = MapApp(page_map(30, layers=8))
    async with app.run_test(size=(60, 8)) as pilot:
        await pilot.pause()
        heat, painted = app.query_one(HeatMap), []
        line = heat.render_line
        monkeypatch.setattr(heat, "render_line", lambda y: painted.append(y) or line(y))
        await pilot.press("down")
        await pilot.pause(0.1)
        assert sorted(set(painted)) == [0, 1]
        changed = page_map(30, layers=8)
        changed.tier[5, 3] = 1 if changed.tier[5, 3] != 1 else 2
        painted.clear()
        heat.show(changed)
        await pilot.pause(0.1)
        assert set(painted) <= {1, 5}
        assert 5 in painted


async def test_keys_move_zoom_and_change_what_is_shown():
    app = MapApp(page_map(300, layers=8))
    async with app.run_test(size=(60, 8)) as pilot:
        heat = app.query_one(HeatMap)
        assert heat.view.per_cell == 16, "fewer would not show all"
        await pilot.press("right", "down")
        assert app.moved[-1] == 16
        await pilot.press("plus", "plus")
        assert heat.view.per_cell == 1
        assert heat.cursor_page == 16
        await pilot.press("end")
        assert app.moved[-1] == 299
        assert heat.view.first <= 299 < heat.view.first + heat.view.columns
        await pilot.press("home", "pagedown")
        assert heat.cursor_page == heat.view.columns
        for metric in [*METRICS[1:], METRICS[0]]:
            await pilot.press("m")
            assert heat.metric == metric
        await pilot.press("home", "left", "up", "up")
        assert heat.cursor_page == 0
        await pilot.click(HeatMap, offset=(14, 3))
        assert heat.cursor_page == 10
        heat.show(page_map(3))
        await pilot.pause()
        assert heat.cursor_page == 2
        heat.show(None)
        await pilot.press("right")


async def test_a_million_tokens_are_as_few_widgets_as_ten():
    app = MapApp(page_map(31_250))
    async with app.run_test(size=(80, 24)) as pilot:
        heat = app.query_one(HeatMap)
        assert heat.view.per_cell * heat.view.columns >= 31_250
        await pilot.press("end", "plus", "plus", "plus", "plus", "plus")
        assert heat.view.per_cell == 1
        assert heat.cursor_page == 31_249
        assert len(heat.children) == 0
        strips = app.screen._compositor.render_strips()
        assert "◆" in "".join(segment.text for strip in strips for segment in strip)
