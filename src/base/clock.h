/* The monotonic clock of this machine. Only carriers (threads, engines, loops) read it; decisions
 * get `now` as a parameter. Implemented in clock.c. */
#ifndef TT_BASE_CLOCK_H
#define TT_BASE_CLOCK_H

#include "base/instant.h"

#include <pthread.h>

/* Nanoseconds of CLOCK_MONOTONIC. Any thread. */
int64_t tt_clock_now(void);
/* Nanoseconds since 1970, for people and protocols: it may jump, and no decision uses it. */
int64_t tt_clock_wall(void);
/* Processor time that `thread` has used so far; it runs, or was not joined yet. */
int64_t tt_clock_thread_cpu(pthread_t thread);

#endif
