/* Requests of several models at rates that change: which model's is next, and when. Gaps are drawn
 * from an exponential or a Gamma distribution, each model from a generator of its own.
 *
 * Simulated fleets and fleets of processes get their requests from it. Life: _init; _set_rates;
 * _next as long as there is one; _fini. It reads no clock. Implemented in request_source.c. */
#ifndef TT_LAB_AUTOSCALE_REQUEST_SOURCE_H
#define TT_LAB_AUTOSCALE_REQUEST_SOURCE_H

#include "base/heap.h"
#include "base/prng.h"
#include "lab/load/draw.h"

struct tt_request_stream {
    struct tt_prng prng;
    double gap_ns; /* mean; 0: no requests come */
};

struct tt_request_source {
    struct tt_request_stream *streams; /* [model_count] */
    int32_t model_count;
    struct tt_heap due; /* models by their next request */
    struct tt_draw_tables tables;
    struct tt_draw_gamma gamma;
    bool is_gamma;
};

/* `shape_ppm`: of the gaps' Gamma distribution, in millionths; 0: Poisson. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_request_source_init(struct tt_request_source *self,
                                                 int32_t model_count, int64_t shape_ppm,
                                                 uint64_t seed);
void tt_request_source_fini(struct tt_request_source *self); /* also on zeroed memory */
/* Requests per second of each model, 0 or more, from `now` on. */
void tt_request_source_set_rates(struct tt_request_source *self, int64_t now, const double *per_s);
/* When the next request comes; TT_NEVER: none does. */
int64_t tt_request_source_next_at(const struct tt_request_source *self);
/* Takes the next request: its model, and when it comes. False: none does. */
bool tt_request_source_next(struct tt_request_source *self, int32_t *out_model, int64_t *out_at);

#endif
