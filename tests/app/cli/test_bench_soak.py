"""What `octavo bench soak` says of its rows."""

from __future__ import annotations

from octavo.app.cli.bench_soak import SoakRow, growth


def row(turns: int, rss: float, kv: float) -> SoakRow:
    return SoakRow(turns, rss, kv, 60, 10, 1.0, 10.0, True)


def test_growth_of_the_second_half_is_told_apart_from_a_pool_that_fills():
    rows = [row(10, 400, 10), row(500, 500, 90), row(1_000, 530, 100)]
    assert growth(rows) == (
        "from turn 500 on the RSS grew by 30.0 MB, of which 10.0 MB are KV and 20.0 MB (40 kB a turn) are not"
    )


def test_growth_of_one_row_is_nothing():
    assert growth([row(10, 400, 10)]).startswith("from turn 10 on the RSS grew by 0.0 MB")
