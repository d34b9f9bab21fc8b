/* One job at a time is open to all threads; a thread joins it, takes task numbers from a shared counter and
 * leaves. The caller closes the job when the counter is used up and waits only for threads that joined, so a
 * worker that is still asleep never delays it. */
#define _GNU_SOURCE
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#define MAX_THREADS 256
#define SPIN_NANOSECONDS 50000
#define POLLS_PER_CLOCK_READ 16

static struct {
    pthread_mutex_t caller;  /* held for the length of a loop, and to start or stop workers */
    pthread_mutex_t sleep;
    pthread_cond_t wake;
    pthread_t workers[MAX_THREADS];
    int started;  /* running workers */
    int wanted;   /* threads per loop, 0 until set */

    TaskFunction function;
    void *context;
    int64_t tasks;
    atomic_llong next;     /* first task nobody has taken */
    atomic_uint epoch;     /* odd while a job is open */
    atomic_int joined;     /* workers that may be touching the job */
    atomic_int sleepers;
    atomic_bool stopping;
} pool = {.caller = PTHREAD_MUTEX_INITIALIZER,
          .sleep = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER};

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void take_tasks(void) {
    int64_t task;
    while ((task = atomic_fetch_add(&pool.next, 1)) < pool.tasks) pool.function(pool.context, task);
}

/* Wait until the epoch is no longer `seen`: polling for a while, because the next loop of a forward pass
 * follows within microseconds, then asleep. */
static void await_change(unsigned seen) {
    int64_t deadline = nanoseconds() + SPIN_NANOSECONDS;
    do {
        for (int poll = 0; poll < POLLS_PER_CLOCK_READ; poll++) {
            if (atomic_load(&pool.epoch) != seen || atomic_load(&pool.stopping)) return;
            relax();
        }
    } while (nanoseconds() < deadline);
    pthread_mutex_lock(&pool.sleep);
    atomic_fetch_add(&pool.sleepers, 1);
    while (atomic_load(&pool.epoch) == seen && !atomic_load(&pool.stopping))
        pthread_cond_wait(&pool.wake, &pool.sleep);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.sleep);
}

static void *work(void *unused) {
    (void)unused;
    sigset_t signals;  /* signals are for the program's own threads */
    sigfillset(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    unsigned seen = 0;
    while (!atomic_load(&pool.stopping)) {
        unsigned epoch = atomic_load(&pool.epoch);
        if (epoch == seen || epoch % 2 == 0) {
            await_change(epoch);
            continue;
        }
        atomic_fetch_add(&pool.joined, 1);
        /* Closed in between? Then its caller may have gone without seeing this thread. */
        seen = atomic_load(&pool.epoch);
        if (seen % 2 == 1) take_tasks();
        atomic_fetch_sub(&pool.joined, 1);
    }
    return NULL;
}

static void wake_sleepers(void) {
    if (atomic_load(&pool.sleepers) == 0) return;
    pthread_mutex_lock(&pool.sleep);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.sleep);
}

static void stop_workers(void) {
    atomic_store(&pool.stopping, true);
    wake_sleepers();
    for (int i = 0; i < pool.started; i++) pthread_join(pool.workers[i], NULL);
    pool.started = 0;
    atomic_store(&pool.stopping, false);
}

static void start_workers(void) {
    while (pool.started < pool.wanted - 1) {
        /* Fewer threads than wanted are slower, not wrong. */
        if (pthread_create(&pool.workers[pool.started], NULL, work, NULL) != 0) return;
        pool.started++;
    }
}

/* A fork copies the calling thread alone: no loop may be open meanwhile, and the child starts anew. */
static void before_fork(void) { pthread_mutex_lock(&pool.caller); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&pool.caller); }
static void after_fork_in_child(void) {
    pool.started = 0;
    atomic_store(&pool.joined, 0);
    atomic_store(&pool.sleepers, 0);
    pthread_mutex_init(&pool.sleep, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_mutex_init(&pool.caller, NULL);
}

static void register_fork_handlers(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void pool_set_threads(int threads) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handlers);
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    pthread_mutex_lock(&pool.caller);
    if (threads < pool.wanted) stop_workers();
    pool.wanted = threads;
    pthread_mutex_unlock(&pool.caller);
}

int pool_threads(void) {
    pthread_mutex_lock(&pool.caller);
    const int threads = pool.wanted;
    pthread_mutex_unlock(&pool.caller);
    return threads;
}

void parallel_for(TaskFunction function, void *context, int64_t tasks) {
    pthread_mutex_lock(&pool.caller);
    if (tasks < 2 || pool.wanted < 2) {
        for (int64_t task = 0; task < tasks; task++) function(context, task);
        pthread_mutex_unlock(&pool.caller);
        return;
    }
    start_workers();
    pool.function = function;
    pool.context = context;
    pool.tasks = tasks;
    atomic_store(&pool.next, 0);
    atomic_fetch_add(&pool.epoch, 1);
    wake_sleepers();
    take_tasks();
    atomic_fetch_add(&pool.epoch, 1);
    for (int64_t polls = 0; atomic_load(&pool.joined) != 0; polls++) {
        relax();
        if (polls > 1000) sched_yield();  /* a worker lost its core in the middle of a task */
    }
    pthread_mutex_unlock(&pool.caller);
}
