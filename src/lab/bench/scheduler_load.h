/* An open-loop load for the scheduler: requests as metadata, at instants that nobody's slowness can
 * shift (S6).
 *
 * Poisson arrivals at a total rate, each for a model drawn by its weight (equal, or Zipf with
 * exponent 0.9), which is what independent Poisson streams per model add up to. The instants are
 * those of the process, in nanoseconds from `start_at`, whenever they are really handed in. Integer
 * arithmetic but for the weights; the same seed gives the same load. */
#ifndef TT_LAB_BENCH_SCHEDULER_LOAD_H
#define TT_LAB_BENCH_SCHEDULER_LOAD_H

#include "lab/load/draw.h"
#include "multicore/multicore_messages.h"

struct tt_scheduler_load {
    struct tt_draw_tables tables;
    struct tt_prng prng;
    int64_t start_at;
    int64_t offset_q16;   /* of the next request from there, ns; reaches 39 hours */
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
    const double *weights; /* [model_count], any sum; NULL: equal */
    int64_t rate_per_s;
    int64_t start_at, patience_ns;
    uint64_t seed;
};

TT_MUST_CHECK enum tt_err tt_scheduler_load_init(struct tt_scheduler_load *self,
                                                 const struct tt_scheduler_load_options *options);
void tt_scheduler_load_fini(struct tt_scheduler_load *self);
/* When the next request comes. */
static inline int64_t tt_scheduler_load_next_at(const struct tt_scheduler_load *self) {
    return self->start_at + (self->offset_q16 >> 16);
}
/* Up to `room` requests that come at `until_at` or before; returns how many. */
int32_t tt_scheduler_load_take(struct tt_scheduler_load *self, int64_t until_at,
                               struct tt_device_request *out_requests, int32_t room);

#endif
