/* The pages that grow with the number of models: metrics, and the statistics of all models.
 *
 * With few models a page is written at once. With more than TT_MODEL_PAGES_SHORT the writing would
 * hold up all other connections of the thread for more than a millisecond. So a thread of libuv's
 * pool does it (net/sockets/pool_work.h), from a catalogue that it keeps for that time. What the
 * page says beside the models is written first, on the loop: it is short, and a thread of low
 * priority must not hold the scheduler's lock.
 *
 * It never touches a socket. Implemented in model_pages.c. */
#ifndef TT_NET_HTTP_MODEL_PAGES_H
#define TT_NET_HTTP_MODEL_PAGES_H

#include "net/http/exchange.h"

enum { TT_MODEL_PAGES_SHORT = 8 }; /* versions of models */

/* The exchange's thread; `kind`: METRICS or STATISTICS. True: the reply is ready. False: the
 * exchange runs, and its `done` comes later. */
bool tt_model_pages_start(struct tt_exchange *exchange, enum tt_route_kind kind);

#endif
