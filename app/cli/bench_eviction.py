"""`octavo bench eviction`: how often each eviction policy still has the page that is read next."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from octavo.app.cli.bench_traces import Trace


@dataclass(frozen=True, slots=True)
class EvictionRow:
    """Hit rates, in 0..1, on one trace, of a cache that holds the share `capacity` of its keys.

    `us_per_access` is what deciding costs with the two-factor policy: microseconds in it, spread over all accesses.
    """

    trace: str
    capacity: float
    keys: int
    accesses: int
    lru: float
    lfu: float
    s3fifo: float
    w_tinylfu: float
    two_factor: float
    optimum: float
    us_per_access: float

    @property
    def gap_closed(self) -> float:
        """Of the way from LRU to the optimum, the share that two factors go; 0 where there is none to go."""
        gap = self.optimum - self.lru
        return (self.two_factor - self.lru) / gap if gap else 0.0


@click.command()
@click.option("--trace", "names", multiple=True, metavar="NAME", help="Replay this trace only; may be repeated.")
@click.option(
    "--capacity",
    "capacities",
    type=click.IntRange(1, 99),
    multiple=True,
    default=(30, 10),
    show_default=True,
    help="Percent of the keys that the cache holds; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def eviction(names: Sequence[str], capacities: Sequence[int], as_json: bool) -> None:
    """Hit rates of eviction policies on named traces, with the best that is possible beside them."""
    from octavo.app.cli.bench_traces import TRACES

    if unknown := set(names) - set(TRACES):
        raise click.UsageError(f"There is no trace {', '.join(sorted(unknown))}; there are {', '.join(TRACES)}.")
    click.echo("hit rates in %; closed: the share of the way from LRU to the optimum that two factors go")
    click.echo(
        f"{'trace':<16} {'holds':>5} {'LRU':>6} {'LFU':>6} {'S3-FIFO':>8} {'W-TinyLFU':>10} {'two-factor':>11} "
        f"{'optimum':>8} {'closed':>7} {'us/access':>10}"
    )
    rows = []
    for name in names or TRACES:
        trace = TRACES[name]()
        for capacity in capacities:
            row = _measure(name, trace, capacity / 100)
            rows.append(row)
            click.echo(
                f"{row.trace:<16} {row.capacity:>5.0%} {row.lru:>6.1%} {row.lfu:>6.1%} {row.s3fifo:>8.1%} "
                f"{row.w_tinylfu:>10.1%} {row.two_factor:>11.1%} {row.optimum:>8.1%} {row.gap_closed:>7.0%} "
                f"{row.us_per_access:>10.1f}"
            )
    if as_json:
        click.echo(json.dumps({"rows": [asdict(row) for row in rows]}))


def _measure(name: str, trace: Trace, capacity: float) -> EvictionRow:
    from octavo.engine.kv import policies

    places, accesses = round(trace.num_keys * capacity), trace.accesses.tolist()
    two_factor_hits, seconds = replay_two_factor(trace, places)

    def rate(hits: int) -> float:
        return round(hits / len(accesses), 5)

    return EvictionRow(
        trace=name,
        capacity=capacity,
        keys=trace.num_keys,
        accesses=len(accesses),
        lru=rate(policies.lru(accesses, places)),
        lfu=rate(policies.lfu(accesses, places)),
        s3fifo=rate(policies.s3fifo(accesses, places)),
        w_tinylfu=rate(policies.w_tinylfu(accesses, places)),
        two_factor=rate(two_factor_hits),
        optimum=rate(policies.optimum(accesses, places)),
        us_per_access=round(seconds / len(accesses) * 1e6, 2),
    )


def replay_two_factor(trace: Trace, capacity: int) -> tuple[int, float]:
    """Hits of the tiers' own policy in a cache of `capacity` keys, and the seconds spent in the policy.

    What is read between two evictions is touched at one moment, as the engine touches the pages of a step.
    """
    import numpy as np

    from octavo.engine.kv.eviction import TwoFactor

    accesses = trace.accesses
    num_known = int(accesses.max()) + 1  # keys that come only once are not counted in trace.num_keys
    policy = TwoFactor(num_known)
    cached = np.zeros(capacity, dtype=np.int64)
    place_of: list[int | None] = [None] * num_known
    used = hits = touched = 0
    seconds = 0.0
    for at, key in enumerate(accesses.tolist()):
        if place_of[key] is not None:
            hits += 1
            continue
        if used < capacity:
            place, used = used, used + 1
        else:
            started = time.perf_counter()
            policy.touch(accesses[touched:at])
            victim = int(policy.victims(cached, 1)[0])
            seconds += time.perf_counter() - started
            touched = at
            place, place_of[victim] = place_of[victim] or 0, None
        cached[place], place_of[key] = key, place
    return hits, seconds
