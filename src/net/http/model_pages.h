/* The pages that are long: metrics, the statistics of all models and the index, which grow with the
 * models, and the trace.
 *
 * Statistics of a few models and a short index are written at once. Other pages would hold up all
 * other connections of the thread: metrics take 0.1 ms per model, a trace 0.1 s. So a thread of
 * the pool writes them, and all that ask meanwhile share the next page
 * (net/sockets/shared_page.h). It keeps the catalogue for that time. What metrics say beside the
 * models is written first, on the loop: it is short, and a thread of low priority must not hold the
 * scheduler's lock.
 *
 * It never touches a socket. Implemented in model_pages.c. */
#ifndef TT_NET_HTTP_MODEL_PAGES_H
#define TT_NET_HTTP_MODEL_PAGES_H

#include "net/http/exchange.h"
#include "net/sockets/shared_page.h"

struct tt_model_pages;

/* One kind of page, and what the one that is being written needs. */
struct tt_model_page {
    struct tt_model_pages *pages;
    struct tt_page_writer writer;
    struct tt_catalogue *catalogue; /* a reference; NULL: none, or not of this kind */
    struct tt_text rest;            /* of the metrics: what follows the models */
    int64_t key;                    /* of the asker: see read_key() in model_pages.c */
};

/* Of one loop. */
struct tt_model_pages {
    const struct tt_http_context *context; /* borrowed */
    struct tt_model_page metrics, statistics, index, trace;
};

void tt_model_pages_init(struct tt_model_pages *self, const struct tt_http_context *context);

/* The exchange's thread; `kind`: METRICS, STATISTICS, INDEX or TRACE. True: the reply is ready.
 * False: the exchange runs, and its `done` comes later. */
bool tt_model_pages_start(struct tt_exchange *exchange, enum tt_route_kind kind,
                          const struct tt_http_request *request);

#endif
