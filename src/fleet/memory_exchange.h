/* How two nodes agree to share memory: Unix sockets on the node's loop.
 *
 * A backend listens under a name that follows from the cluster and its number. A frontend dials
 * each backend to which it has a link, again at growing intervals until they agree: the backend may
 * not know the link yet, or run on another host, where no socket has the name. Each connection
 * carries the four messages of fleet/memory_greeting.h and is closed. One that takes too long is
 * closed, too.
 *
 * What is agreed it notes in the agreement, which it borrows. Used by fleet/node_memory.c only. One
 * thread, that of the loop. Implemented in memory_exchange.c. */
#ifndef TT_FLEET_MEMORY_EXCHANGE_H
#define TT_FLEET_MEMORY_EXCHANGE_H

#include "fleet/memory_agreement.h"

#include <uv.h>

struct tt_memory_exchange;

/* Errors: NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_memory_exchange_open(struct tt_memory_agreement *agreement,
                                                  uv_loop_t *loop,
                                                  struct tt_memory_exchange **out_exchange,
                                                  struct tt_error *why);
/* The handles are free after the loop has run once more. */
void tt_memory_exchange_close(struct tt_memory_exchange *self);
void tt_memory_exchange_free(struct tt_memory_exchange *take_self); /* NULL-safe */
/* A frontend's link to a backend is up, or is no more. */
void tt_memory_exchange_link(struct tt_memory_exchange *self, uint16_t backend, bool is_up);

#endif
