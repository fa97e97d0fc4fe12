/* The pages that grow with the number of models: metrics, and the statistics of all models.
 *
 * The statistics of a few models are written at once. Other pages would hold up all other
 * connections of the thread: metrics take 0.1 ms per model. So a thread of libuv's pool writes
 * them, and all that ask meanwhile share the next page (net/sockets/shared_page.h). It keeps the
 * catalogue for that time. What the page says beside the models is written first, on the loop: it
 * is short, and a thread of low priority must not hold the scheduler's lock.
 *
 * It never touches a socket. Implemented in model_pages.c. */
#ifndef TT_NET_HTTP_MODEL_PAGES_H
#define TT_NET_HTTP_MODEL_PAGES_H

#include "net/http/exchange.h"
#include "net/sockets/shared_page.h"

/* Of one loop. */
struct tt_model_pages {
    const struct tt_http_context *context; /* borrowed */
    struct tt_page_writer metrics, statistics;
    /* Of the page that is being written: */
    struct tt_catalogue *catalogue;  /* a reference; NULL: none yet */
    struct tt_text rest;             /* of the metrics: what follows the models */
    struct tt_kserve_statistics all; /* statistics */
};

void tt_model_pages_init(struct tt_model_pages *self, const struct tt_http_context *context);

/* The exchange's thread; `kind`: METRICS or STATISTICS. True: the reply is ready. False: the
 * exchange runs, and its `done` comes later. */
bool tt_model_pages_start(struct tt_exchange *exchange, enum tt_route_kind kind);

#endif
