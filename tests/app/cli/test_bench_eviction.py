"""`octavo bench eviction`: what it prints, what its traces are, and what the two factors have to reach on them."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from octavo.app.cli.bench_eviction import replay_two_factor
from octavo.app.cli.bench_traces import NUM_ACCESSES, NUM_KEYS, TRACES, Trace
from octavo.engine.kv import policies


def test_rows_have_a_rate_of_every_policy(octavo: Callable[..., Any]) -> None:
    result = octavo("bench", "eviction", "--trace", "attention_code", "--capacity", "10", "--json")
    assert result.code == 0
    table, document = result.out.rstrip("\n").rsplit("\n", 1)
    assert "attention_code" in table
    (row,) = json.loads(document)["rows"]
    assert (row["trace"], row["capacity"], row["keys"]) == ("attention_code", 0.1, 24 * 416)
    rates = [row[name] for name in ("lru", "lfu", "s3fifo", "w_tinylfu", "two_factor")]
    assert all(0.3 < rate < row["optimum"] < 1 for rate in rates)
    assert row["two_factor"] > row["lru"] - 0.01
    assert row["us_per_access"] > 0


def test_an_unknown_trace_is_named_with_those_there_are(octavo: Callable[..., Any]) -> None:
    result = octavo("bench", "eviction", "--trace", "zip")
    assert result.code == 2
    assert "no trace zip" in result.err
    assert "scan_zipf" in result.err


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_is_the_same_every_time(name: str) -> None:
    first, second = TRACES[name](), TRACES[name]()
    assert np.array_equal(first.accesses, second.accesses)
    assert first.accesses.min() >= 0
    if name.startswith("attention"):
        assert len(np.unique(first.accesses)) <= first.num_keys
        assert first.accesses.max() < first.num_keys
    else:
        assert len(first.accesses) == (NUM_KEYS * 10 if name == "loop" else NUM_ACCESSES)
        assert first.num_keys == NUM_KEYS


@pytest.mark.parametrize(("name", "shortest", "longest"), [("scan_zipf", 300, 900), ("scan_long", 1_000, 3_000)])
def test_scanned_documents_are_a_third_of_all_reads_and_come_once(name: str, shortest: int, longest: int) -> None:
    reads = TRACES[name]().accesses
    scanned = reads[reads >= NUM_KEYS]
    assert len(scanned) / len(reads) == pytest.approx(1 / 3, abs=0.01)
    assert np.array_equal(scanned, NUM_KEYS + np.arange(len(scanned)))
    starts = np.flatnonzero(np.diff((reads >= NUM_KEYS).astype(int)) == 1)
    stops = np.flatnonzero(np.diff((reads >= NUM_KEYS).astype(int)) == -1)
    lengths = stops - starts[: len(stops)]
    assert shortest <= lengths.min()
    assert lengths.max() < longest


def test_attention_reads_sixteen_pages_a_token_and_layer() -> None:
    trace = TRACES["attention_code"]()
    assert len(trace.accesses) == 384 * 24 * 16
    layers, pages = np.divmod(trace.accesses, 416)
    assert np.array_equal(layers[: 24 * 16], np.repeat(np.arange(24), 16))
    assert pages.min() >= 1, "the first page is read always"


def replay(name: str, capacity: float) -> tuple[float, float, float]:
    """Hit rates in % of LRU, two factors and the optimum."""
    trace = TRACES[name]()
    places, reads = round(trace.num_keys * capacity), trace.accesses.tolist()
    hits = (policies.lru(reads, places), replay_two_factor(trace, places)[0], policies.optimum(reads, places))
    lru, two_factor, optimum = (100 * each / len(reads) for each in hits)
    return lru, two_factor, optimum


def test_two_factors_close_most_of_the_gap_that_scans_open() -> None:
    lru, two_factor, optimum = replay("scan_long", 0.1)  # where they are closest to the limit
    assert two_factor - lru >= 0.6 * (optimum - lru)


def test_two_factors_keep_up_with_lru_when_the_working_set_moves() -> None:
    lru, two_factor, _ = replay("shifting", 0.3)
    assert two_factor >= lru - 1


def test_two_factors_keep_a_part_of_a_loop() -> None:
    lru, two_factor, optimum = replay("loop", 0.3)
    assert lru == 0
    assert two_factor > 0.7 * optimum


def test_all_keys_fit() -> None:
    reads = np.random.default_rng(0).integers(0, 50, 1_000)
    hits, seconds = replay_two_factor(Trace(reads, 50), 50)
    assert hits == 1_000 - len(np.unique(reads))
    assert seconds == 0
