/* Counts of connections and requests of a listener: requests == answered + gone + in_flight, and
 * answered == the sum of by_status, at every reading. Each thread counts in a struct
 * tt_http_counters of its own, which only grow; any thread sums them. Implemented in http_counts.c.
 */
#ifndef TT_NET_HTTP_HTTP_COUNTS_H
#define TT_NET_HTTP_HTTP_COUNTS_H

#include "base/threads/counter.h"

enum { TT_HTTP_STATUS_FIRST = 200, TT_HTTP_STATUS_END = 512 };

struct tt_listener_counts {
    int64_t accepted; /* connections */
    int64_t turns;    /* of the threads' loops */
    int64_t
        answer_ns;   /* how long an answer is believed to lie on its thread; of all: the longest */
    int64_t evicted; /* connections, closed because of the answers that they held */
    int64_t requests;
    int64_t answered, gone; /* gone: the client left before its answer */
    int64_t by_status[TT_HTTP_STATUS_END - TT_HTTP_STATUS_FIRST]; /* `answered`, by its status */
    int32_t connections, in_flight;
    int64_t http2_connections, http2_requests; /* of `accepted` and `requests`: over HTTP/2 */
};

/* Of one thread. */
struct tt_http_counters {
    struct tt_counter opened, accepted,
        ended; /* connections; a socket may fail before `accepted` */
    struct tt_counter requests, gone;
    struct tt_counter http2_requests;                                       /* among `requests` */
    struct tt_counter by_status[TT_HTTP_STATUS_END - TT_HTTP_STATUS_FIRST]; /* answered */
};
/* Adds what the thread counted so far. `http2_ended`: connections that have ended elsewhere.
 * `out_counts` is zero before the first thread's. */
void tt_http_counters_add(const struct tt_http_counters *self, const struct tt_counter *http2_ended,
                          struct tt_listener_counts *out_counts);

#endif
