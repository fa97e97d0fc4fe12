/* An open-loop load for the scheduler: requests as metadata, at instants that do not depend on the
 * speed of the scheduler (S6).
 *
 * Poisson arrivals at a total rate, each for a model drawn by its weight, which equals the sum of
 * independent Poisson streams per model. The instants are those of the process, in nanoseconds from
 * `start_at`, whenever they are submitted. Integer arithmetic except for the weights; the same seed
 * gives the same load.
 *
 * lab/load/arrivals.h draws the same process with a stream per model, which an experiment needs. It
 * takes 36 ns per request instead of 15 (20 models; 50 instead of 16 with 1000). In the benchmark
 * at 4 M requests per second on two cores the generator then uses 91 ns of CPU time per request
 * instead of 71, beside about 100 ns of the scheduler's threads. So the load is drawn here. */
#ifndef TT_LAB_BENCH_SCHEDULER_LOAD_H
#define TT_LAB_BENCH_SCHEDULER_LOAD_H

#include "lab/load/draw.h"
#include "multicore/multicore_messages.h"

struct tt_scheduler_load {
    struct tt_draw_tables tables;
    struct tt_prng prng;
    int64_t start_at;
    int64_t offset_q16;   /* of the next request from start_at, ns; reaches 39 hours */
    int64_t mean_gap_q16; /* ns */
    int64_t patience_ns;  /* deadline - arrival */
    int32_t model_count;
    /* Walker's alias method: slot i is model i with this chance (of 2^32), else the other. */
    uint64_t *chance;
    int32_t *other;
    uint64_t next_id;
};

struct tt_scheduler_load_options {
    int32_t model_count;
    const int64_t *weights; /* [model_count], any sum; NULL: equal */
    int64_t rate_per_s;
    int64_t start_at, patience_ns;
    uint64_t seed;
};

TT_MUST_CHECK enum tt_err tt_scheduler_load_init(struct tt_scheduler_load *self,
                                                 const struct tt_scheduler_load_options *options);
void tt_scheduler_load_fini(struct tt_scheduler_load *self);
/* The instant of the next request. */
static inline int64_t tt_scheduler_load_next_at(const struct tt_scheduler_load *self) {
    return self->start_at + (self->offset_q16 >> 16);
}
/* Draws up to `room` requests with instants up to `until_at`; returns their number. */
int32_t tt_scheduler_load_take(struct tt_scheduler_load *self, int64_t until_at,
                               struct tt_device_request *out_requests, int32_t room);

#endif
