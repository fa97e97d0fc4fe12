#include "net/http/http_counts.h"

/* Ends are read before beginnings: what is open at a reading is never negative. */
void tt_http_counters_add(const struct tt_http_counters *self, const struct tt_counter *http2_ended,
                          struct tt_listener_counts *out_counts) {
    int64_t answered = 0;
    for (int status = 0; status < TT_HTTP_STATUS_END - TT_HTTP_STATUS_FIRST; status++) {
        int64_t count = tt_counter_get(&self->by_status[status]);
        out_counts->by_status[status] += count;
        answered += count;
    }
    int64_t gone = tt_counter_get(&self->gone),
            ended = tt_counter_get(&self->ended) + tt_counter_get(http2_ended);
    out_counts->http2_requests += tt_counter_get(&self->http2_requests);
    int64_t requests = tt_counter_get(&self->requests), opened = tt_counter_get(&self->opened);
    if (requests < answered + gone) /* what has ended has begun */
        requests = answered + gone;
    out_counts->answered += answered;
    out_counts->gone += gone;
    out_counts->requests += requests;
    out_counts->in_flight += (int32_t)(requests - answered - gone);
    out_counts->connections += opened > ended ? (int32_t)(opened - ended) : 0;
    out_counts->accepted += tt_counter_get(&self->accepted);
}
