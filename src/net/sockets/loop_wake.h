/* Wakes an event loop from other threads, by an eventfd that the loop watches.
 *
 * A loop that a uv_async_t wakes spins until the thread that woke it has returned from its system
 * call, which takes milliseconds if the loop's thread interrupts that thread.
 *
 * Life: _open; _send, any number of times; uv_close() of `poll`, with the loop's other handles;
 * _fini. Implemented in loop_wake.c. */
#ifndef TT_NET_SOCKETS_LOOP_WAKE_H
#define TT_NET_SOCKETS_LOOP_WAKE_H

#include "base/threads/pending.h"

#include <uv.h>

struct tt_loop_wake {
    uv_poll_t poll; /* its `data` is the owner */
    int fd;         /* -1: none */
    struct tt_pending pending;
    void (*woken)(void *owner);
};

/* Before _open or _fini. */
void tt_loop_wake_init(struct tt_loop_wake *self);
/* `woken` is called on the loop's thread, once or more often after each _send. Errors: of libuv. */
int tt_loop_wake_open(struct tt_loop_wake *self, uv_loop_t *loop, void (*woken)(void *owner),
                      void *owner);
/* Any thread, or a signal handler. Costs nothing while the loop is woken already. */
void tt_loop_wake_send(struct tt_loop_wake *self);
void tt_loop_wake_fini(struct tt_loop_wake *self);

#endif
