"""Other eviction policies, and the best one there can be, as yardsticks for `TwoFactor`.

Each function replays a trace of keys through an empty cache of `capacity` keys, and returns the number of hits. A key
that is missed is always taken in, into the place of a victim once the cache is full.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Sequence
from heapq import heappop, heappush


def lru(trace: Sequence[int], capacity: int) -> int:
    """Evicts the key that was not read for the longest time."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for key in trace:
        if key in cache:
            hits += 1
            cache.move_to_end(key)
            continue
        if len(cache) == capacity:
            cache.popitem(last=False)
        cache[key] = None
    return hits


def lfu(trace: Sequence[int], capacity: int) -> int:
    """Evicts the key read least often since it came in, of equals the one read so often for the longest time.

    Lists of keys by count, as in Shah, Mitra and Matani, "An O(1) algorithm for implementing the LFU cache eviction
    scheme" (arXiv:2110.11602).
    """
    count_of: dict[int, int] = {}
    keys_by_count: defaultdict[int, OrderedDict[int, None]] = defaultdict(OrderedDict)
    hits, least = 0, 1
    for key in trace:
        count = count_of.get(key, 0)
        if count:
            hits += 1
            del keys_by_count[count][key]
            if count == least and not keys_by_count[count]:
                least += 1
        else:
            if len(count_of) == capacity:
                victim, _ = keys_by_count[least].popitem(last=False)
                del count_of[victim]
            least = 1
        count_of[key] = count + 1
        keys_by_count[count + 1][key] = None
    return hits


def s3fifo(trace: Sequence[int], capacity: int) -> int:
    """Three queues: new keys wait in a small one, and only those read again go on into the main one.

    Yang, Zhang, Qiu, Yue and Vinayak, "FIFO queues are all you need for cache eviction" (SOSP 2023): a small queue of
    a tenth, reads counted up to 3, a ghost queue that remembers as many keys as the main queue holds.
    """
    small_size = max(1, capacity // 10)
    main_size = capacity - small_size
    small: deque[int] = deque()
    main: deque[int] = deque()
    ghost: OrderedDict[int, None] = OrderedDict()
    reads: dict[int, int] = {}  # of every key in the cache
    hits = 0

    def evict_from_small() -> bool:
        key = small.popleft()
        if reads[key] > 1:
            reads[key] = 0
            main.append(key)
            return False
        del reads[key]
        ghost[key] = None
        if len(ghost) > main_size:
            ghost.popitem(last=False)
        return True

    def evict_from_main() -> bool:
        key = main.popleft()
        if reads[key]:
            reads[key] -= 1
            main.append(key)
            return False
        del reads[key]
        return True

    for key in trace:
        if key in reads:
            hits += 1
            reads[key] = min(reads[key] + 1, 3)
            continue
        evicted = len(reads) < capacity
        while not evicted:
            evicted = evict_from_main() if len(main) > main_size or len(small) < small_size else evict_from_small()
        reads[key] = 0
        if key in ghost:
            del ghost[key]
            main.append(key)
        else:
            small.append(key)
    return hits


def w_tinylfu(trace: Sequence[int], capacity: int) -> int:
    """A small LRU window before a segmented LRU; a key leaves the window for the main part only if it is read more.

    Einziger, Friedman and Manes, "TinyLFU: A Highly Efficient Cache Admission Policy" (ACM TOS 13(4), 2017): a window
    of 1 %, four fifths of the main part protected, counts up to 15 that are halved every 10 capacities. Counts are
    kept exactly here, instead of in a sketch.
    """
    window_size = max(1, capacity // 100)
    main_size = capacity - window_size
    protected_size = main_size * 4 // 5
    window: OrderedDict[int, None] = OrderedDict()
    probation: OrderedDict[int, None] = OrderedDict()
    protected: OrderedDict[int, None] = OrderedDict()
    counts: Counter[int] = Counter()
    counted = hits = 0
    for key in trace:
        counts[key] = min(counts[key] + 1, 15)
        counted += 1
        if counted == 10 * capacity:
            counts = Counter({each: count // 2 for each, count in counts.items() if count > 1})
            counted //= 2
        if key in window:
            hits += 1
            window.move_to_end(key)
        elif key in protected:
            hits += 1
            protected.move_to_end(key)
        elif key in probation:
            hits += 1
            del probation[key]
            protected[key] = None
            if len(protected) > protected_size:
                demoted, _ = protected.popitem(last=False)
                probation[demoted] = None
        else:
            window[key] = None
            if len(window) <= window_size:
                continue
            candidate, _ = window.popitem(last=False)
            if len(probation) + len(protected) < main_size:
                probation[candidate] = None
                continue
            segment = probation or protected
            if segment and counts[candidate] > counts[next(iter(segment))]:
                segment.popitem(last=False)
                probation[candidate] = None
    return hits


def optimum(trace: Sequence[int], capacity: int) -> int:
    """Evicts the key whose next read is farthest away, which no policy can know in advance.

    Belady, "A study of replacement algorithms for a virtual-storage computer" (IBM Systems Journal 5(2), 1966).
    """
    next_read = [0] * len(trace)
    upcoming: dict[int, int] = {}
    for at in reversed(range(len(trace))):
        next_read[at] = upcoming.get(trace[at], len(trace))
        upcoming[trace[at]] = at
    cache: dict[int, int] = {}  # key -> its next read
    farthest: list[tuple[int, int]] = []  # a heap of (-next read, key), some of them out of date
    hits = 0
    for key, at in zip(trace, next_read, strict=True):
        if key in cache:
            hits += 1
        elif len(cache) == capacity:
            while True:
                next_of_victim, victim = heappop(farthest)
                if cache.get(victim) == -next_of_victim:
                    del cache[victim]
                    break
        cache[key] = at
        heappush(farthest, (-at, key))
    return hits
