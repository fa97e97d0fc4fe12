/* Work that would hold up a loop for more than a millisecond: threads of libuv's pool do it, at a
 * lower priority than the threads that serve connections.
 *
 * Life: uv_queue_work() with a function that calls tt_pool_work_enter() first; libuv calls the
 * other function on the loop afterwards. Implemented in pool_work.c. */
#ifndef TT_NET_SOCKETS_POOL_WORK_H
#define TT_NET_SOCKETS_POOL_WORK_H

/* A thread of the pool: names it and lowers its priority, once. */
void tt_pool_work_enter(void);

#endif
