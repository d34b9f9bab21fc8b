/* A small pool of threads that share the work of one parallel loop at a time. */
#ifndef OCTAVO_POOL_H
#define OCTAVO_POOL_H

#include <stdint.h>

typedef void (*TaskFunction)(void *context, int64_t task);

/* Call function(context, i) once for every 0 <= i < tasks, on the calling thread and the workers, in no
 * particular order; return when all calls have returned. Concurrent callers take turns. */
void parallel_for(TaskFunction function, void *context, int64_t tasks);

/* The number of threads of a loop, its caller included; 0 (which works as 1) until it is set. */
void pool_set_threads(int threads);
int pool_threads(void);

#endif
