/* The threads that run the streams of the host device. There are as many as streams, so one that
 * hangs never holds up another stream. Which thread runs a stream is not fixed, because waking a
 * thread costs more than most operations:
 *
 * - A stream that can go on is *ready*. A thread takes the next one when its own has ended or
 * waits. An idle thread is woken only if all others are in long operations.
 * - Before a thread begins a *long* operation it runs the short operations of all ready streams. A
 *   stream that comes to a long one, too, is left to a thread that is woken for it.
 *
 * Life of a stream here: added; run by one thread at a time, until it has nothing to do or waits;
 * added again. What a thread wrote before it adds a stream, the thread that runs it sees.
 *
 * What an operation is, and how long, only the caller knows. Any thread, unless stated otherwise.
 * Implemented in async_threads.c. */
#ifndef TT_DEVICE_ASYNC_THREADS_H
#define TT_DEVICE_ASYNC_THREADS_H

#include "base/err.h"
#include "base/list.h"
#include "base/threads/counter.h"
#include "base/threads/lock.h"

#include <stdint.h>

struct tt_async_thread;

/* Part of a stream. */
struct tt_async_runnable {
    struct tt_list_node node; /* all zero: it is not ready */
};

struct tt_async_threads {
    /* Runs the stream's operations. With `only_short` it stops before a long one, and returns true;
     * else it calls _begin_long and _end_long around each of them. False: the stream has nothing to
     * do or waits, and is not the caller's any more. */
    bool (*run)(struct tt_async_runnable *stream, bool only_short);
    struct tt_lock lock;             /* guards: */
    struct tt_list ready, left;      /* left: at a long operation; a thread was woken */
    struct tt_list idle;             /* threads; the one that worked last comes first */
    struct tt_async_thread *threads; /* list, by `next` */
    int32_t count, stream_count;
    int32_t left_count;  /* of `left` */
    int32_t brief_count; /* threads that look for ready streams soon: neither idle nor in a long
                            operation */
    bool is_closing;
    struct tt_counter ready_count; /* of `ready`; read without the lock */
};

void tt_async_threads_init(struct tt_async_threads *self,
                           bool (*run)(struct tt_async_runnable *stream, bool only_short));
/* No stream is ready or running. */
void tt_async_threads_fini(struct tt_async_threads *self);
/* A stream more: there are as many threads. Errors: NO_MEMORY, IO (no thread). */
TT_MUST_CHECK enum tt_err tt_async_threads_open(struct tt_async_threads *self,
                                                struct tt_error *why);
/* A stream less, which is neither ready nor running. Threads stay, for the next ones. */
void tt_async_threads_close(struct tt_async_threads *self);
/* The stream is ready, and not the caller's any more. */
void tt_async_threads_add(struct tt_async_threads *self, struct tt_async_runnable *stream);
/* The calling thread begins a long operation. `runs_short`: see above; not in the call of a stream.
 * True: it is one of these threads and in no long operation, and calls _end_long behind it. */
bool tt_async_threads_begin_long(struct tt_async_threads *self, bool runs_short);
void tt_async_threads_end_long(struct tt_async_threads *self);
/* The calling thread has run many operations, and may run many more. */
void tt_async_threads_offer(struct tt_async_threads *self);
/* Between the two the calling thread adds streams, and does not wait; threads are woken at the end,
 * so that each finds more to do. They may be nested. */
void tt_async_threads_hold(struct tt_async_threads *self);
void tt_async_threads_release(struct tt_async_threads *self);

#endif
