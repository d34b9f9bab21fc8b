"""`octavo bench screen`: what it says of keys and of the longest one."""

from __future__ import annotations

from octavo.app.cli.bench_screen import _queued_ms, _spread, synthetic_map


def test_of_the_longest_key_it_is_said_what_something_else_had_the_processor_for():
    times = [(float(ms), 0.0) for ms in range(1, 100)] + [(366.0, 341.5)]
    found = _spread("heat_map", times)
    assert list(found) == [f"heat_map_{name}_ms" for name in ("p50", "p95", "p99", "max", "max_queued")]
    assert found["heat_map_p50_ms"] <= found["heat_map_p95_ms"] <= found["heat_map_p99_ms"] <= found["heat_map_max_ms"]
    assert (found["heat_map_max_ms"], found["heat_map_max_queued_ms"]) == (366.0, 341.5)
    assert 0 <= _queued_ms() <= _queued_ms()


def test_a_page_map_of_as_many_tokens_as_wanted():
    pages = synthetic_map(10_000, num_layers=4)
    assert (pages.num_layers, pages.num_pages) == (4, 312)
