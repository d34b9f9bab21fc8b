/* A ring buffer for one producer and one consumer, without locks. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RING_SLOTS 1024 /* a power of two, so that the mask below works */
#define RING_MASK (RING_SLOTS - 1)

struct ring {
    uint64_t items[RING_SLOTS];
    _Alignas(64) _Atomic size_t head; /* written by the producer alone */
    _Alignas(64) _Atomic size_t tail; /* written by the consumer alone, on a cache line of its own */
    size_t dropped;
};

/* Make the ring empty; must not run while another thread uses it. */
void ring_reset(struct ring *ring)
{
    memset(ring->items, 0, sizeof ring->items);
    atomic_store(&ring->head, 0);
    atomic_store(&ring->tail, 0);
    ring->dropped = 0;
}

/* Put an item; when the ring is full the item is dropped and counted. */
bool ring_push(struct ring *ring, uint64_t item)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    if (head - tail == RING_SLOTS) {
        ring->dropped++;
        return false;
    }
    ring->items[head & RING_MASK] = item;
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return true;
}

/* Take the oldest item; false if there is none. */
bool ring_pop(struct ring *ring, uint64_t *item)
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    size_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    if (head == tail)
        return false;
    *item = ring->items[tail & RING_MASK];
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

/* FNV-1a over the waiting items, to compare two rings in tests. */
uint32_t ring_checksum(const struct ring *ring)
{
    uint32_t hash = 2166136261u;
    for (size_t at = atomic_load(&ring->tail); at != atomic_load(&ring->head); at++) {
        hash ^= (uint32_t)ring->items[at & RING_MASK];
        hash *= 16777619u;
    }
    return hash;
}
