/* Work that would hold up a loop for more than a millisecond: threads of a pool do it, at a lower
 * priority than the threads that serve connections.
 *
 * Life: _queue() on the loop's thread; `run` on a thread of the pool; `done` on the loop's thread,
 * later. Nothing is cancelled: the loop stays alive until `done` was called.
 *
 * libuv's own pool does not fit. Its threads mark a loop as being notified, wake it, and then clear
 * the mark; a loop that finds the mark spins until it is cleared. A thread of low priority is often
 * interrupted in between, by the loop that it has just woken, which then spins for milliseconds.
 * Here the wake is the last thing that a thread does for a work.
 *
 * The threads begin with the first work, and end with the process. Implemented in pool_work.c. */
#ifndef TT_NET_SOCKETS_POOL_WORK_H
#define TT_NET_SOCKETS_POOL_WORK_H

#include "base/text.h"

#include <stdbool.h>
#include <uv.h>

enum {
    TT_POOL_THREADS = 4,
    TT_POOL_FREE_BYTES = 1 << 18, /* giving so much back takes the system some 0.03 ms */
};

struct tt_pool_home;
struct tt_pool_work;
typedef void tt_pool_work_fn(struct tt_pool_work *work);

/* The members but `data`, which is the caller's, are the pool's. */
struct tt_pool_work {
    void *data;
    uv_loop_t *loop;
    struct tt_pool_home *home;
    tt_pool_work_fn *run, *done;
    uv_work_t other; /* libuv's pool does it where this one lacks a descriptor or a thread */
};

/* `loop->data` is the pool's, NULL while none of its works is under way. */
void tt_pool_work_queue(uv_loop_t *loop, struct tt_pool_work *work, tt_pool_work_fn *run,
                        tt_pool_work_fn *done);
/* Frees the text, in the pool if there is much of it. NULL: without a loop, or nothing. */
void tt_pool_work_free(uv_loop_t *loop, struct tt_text *text);
/* True: the handle is the pool's, which closes it after the loop's last work. */
bool tt_pool_work_owns(const uv_handle_t *handle);

#endif
