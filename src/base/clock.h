/* The monotonic clock of this machine. Only carriers (threads, engines, loops) read it; decisions
 * are told `now`. */
#ifndef TT_BASE_CLOCK_H
#define TT_BASE_CLOCK_H

#include "base/instant.h"

#include <pthread.h>

/* Nanoseconds of CLOCK_MONOTONIC. Any thread. */
int64_t tt_clock_now(void);
/* Nanoseconds since 1970, for people and protocols: it may jump, and nothing is scheduled by it. */
int64_t tt_clock_wall(void);
/* Processor time that `thread` (which runs, or has not been joined yet) has used so far. */
int64_t tt_clock_thread_cpu(pthread_t thread);

#endif
